//! The orders in which MariaDB joins the tables of a query, from `data/mariadb/plans.json`.

use std::sync::LazyLock;

use serde::Deserialize;

/// EXPLAIN of a real server, for the 22 queries and for those with an index on the filter that is early. `data/mariadb/README.md` says how.
static PLANS: LazyLock<Plans> = LazyLock::new(|| {
    let text = include_str!("../../../../../data/mariadb/plans.json");
    serde_json::from_str(text).expect("the plans are well-formed")
});

#[derive(Deserialize)]
struct Plans {
    queries: Vec<Explained>,
    with_filter_index: Vec<Explained>,
}

#[derive(Deserialize)]
struct Explained {
    query: usize,
    #[serde(default)]
    index: Option<String>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    select: String,
    table: String,
}

/// The tables of the outermost query, in the order in which the server joins them, separated by commas.
pub(super) fn of_query(query: usize) -> String {
    order(PLANS.queries.iter().find(|q| q.query == query).expect("all queries are there"))
}

/// The same where the filter has an index: its table and columns, and the order.
pub(super) fn with_index(query: usize) -> (&'static str, String) {
    let explained = PLANS.with_filter_index.iter().find(|q| q.query == query);
    let explained = explained.expect("all queries that the paper filters early are there");
    (explained.index.as_deref().expect("it names its index"), order(explained))
}

fn order(explained: &Explained) -> String {
    let outermost = |s: &&Step| s.select.starts_with("1 ");
    // The only aliases are those of the two nations of Q7 and Q8.
    let name = |s: &Step| if matches!(&*s.table, "n1" | "n2") { "nation".into() } else { s.table.clone() };
    explained.steps.iter().filter(outermost).map(name).collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q2_is_joined_as_in_table_1() {
        assert_eq!(of_query(2), "region, nation, supplier, partsupp, part");
        let with_index = with_index(2);
        assert_eq!(with_index.0, "part (p_size, p_type)");
        assert_eq!(with_index.1, "part, partsupp, supplier, nation, region");
        assert_eq!(of_query(8), "region, nation, customer, orders, lineitem, part, supplier, nation");
    }
}
