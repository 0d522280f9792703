//! Where the tables of a query are: in FROM, in a derived table, or in a subquery.

/// Where a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In FROM.
    From,
    /// In a query in FROM.
    Derived,
    /// In a subquery that refers to the query around it.
    Subquery,
    /// In a subquery that can run once.
    Materialized,
}

/// Where the tables of a statement are, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape(pub(crate) Vec<(String, Place)>);

impl Shape {
    /// Where a table is. One that is in several places counts as in FROM.
    pub(crate) fn place_of(&self, table: &str) -> Place {
        let mut places = self.0.iter().filter(|(name, _)| name == table).map(|(_, place)| *place);
        let Some(first) = places.next() else { return Place::From };
        if places.all(|place| place == first) { first } else { Place::From }
    }
}
