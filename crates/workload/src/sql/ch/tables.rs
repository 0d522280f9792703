//! The three tables beside TPC-C's: suppliers, nations and regions.
//!
//! A nation's key is the code of a letter or digit, so that each first character of C_STATE is one.

use crate::random::Random;
use crate::sql::{SqlDatabase, Value, execute_all};
use crate::store::StoreResult;
use crate::tpcc::names::Dice;

const TABLES: &str = "
CREATE TABLE region (r_regionkey INTEGER NOT NULL PRIMARY KEY, r_name VARCHAR(25) NOT NULL,
    r_comment VARCHAR(152) NOT NULL);
CREATE TABLE nation (n_nationkey INTEGER NOT NULL PRIMARY KEY, n_name VARCHAR(25) NOT NULL,
    n_regionkey INTEGER NOT NULL, n_comment VARCHAR(152) NOT NULL);
CREATE TABLE supplier (su_suppkey INTEGER NOT NULL PRIMARY KEY, su_name VARCHAR(25) NOT NULL,
    su_address VARCHAR(40) NOT NULL, su_nationkey INTEGER NOT NULL, su_phone CHAR(15) NOT NULL,
    su_acctbal BIGINT NOT NULL, su_comment VARCHAR(101) NOT NULL)";

const DROPS: &str = "DROP TABLE supplier; DROP TABLE nation; DROP TABLE region";

const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Australia", "Europe"];

/// The nations of each region. There are 62, one for each letter in both cases and each digit.
const NATIONS: [&[&str]; 5] = [
    &[
        "Algeria",
        "Angola",
        "Botswana",
        "Cameroon",
        "Egypt",
        "Ethiopia",
        "Ghana",
        "Kenya",
        "Morocco",
        "Mozambique",
        "Nigeria",
        "Senegal",
        "Tanzania",
    ],
    &[
        "Argentina",
        "Bolivia",
        "Brazil",
        "Canada",
        "Chile",
        "Colombia",
        "Cuba",
        "Ecuador",
        "Jamaica",
        "Mexico",
        "Peru",
        "United States",
        "Uruguay",
    ],
    &[
        "Cambodia",
        "China",
        "India",
        "Indonesia",
        "Iran",
        "Iraq",
        "Japan",
        "Jordan",
        "Korea",
        "Malaysia",
        "Nepal",
        "Thailand",
        "Vietnam",
    ],
    &["Australia", "Fiji", "Nauru", "New Zealand", "Samoa", "Tonga", "Tuvalu", "Vanuatu"],
    &[
        "Austria", "Belgium", "Denmark", "Finland", "France", "Germany", "Greece", "Hungary", "Italy",
        "Norway", "Poland", "Portugal", "Romania", "Spain", "Sweden",
    ],
];

/// The number of suppliers.
const SUPPLIERS: u32 = 10_000;
/// The letters and digits, whose codes are the nations' keys.
const KEYS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Creates the tables and loads them in bulk.
///
/// # Errors
/// When the database fails, or if there are such tables.
pub fn load(database: &impl SqlDatabase, seed: u64) -> StoreResult {
    let mut connection = database.connect()?;
    execute_all(&mut *connection, &database.dialect().render(TABLES))?;
    let mut dice = Dice(Random(seed ^ 0xC4));
    let mut loader = connection.loader(&["region", "nation", "supplier"])?;
    let mut keys = KEYS.iter();
    for (region, (name, nations)) in (0u32..).zip(REGIONS.iter().zip(NATIONS)) {
        loader.add("region", &[region.into(), (*name).into(), Value::Text(dice.text(30, 100))])?;
        for (nation, key) in nations.iter().zip(&mut keys) {
            let values = [(*key).into(), (*nation).into(), region.into(), Value::Text(dice.text(30, 100))];
            loader.add("nation", &values)?;
        }
    }
    for number in 0..SUPPLIERS {
        let nation = KEYS[dice.range(0, KEYS.len() as u32 - 1) as usize];
        // One of a hundred has complaints, which query 16 leaves out.
        let comment =
            if dice.percent(1) { "bad".to_string() + &dice.text(20, 90) } else { dice.text(20, 90) };
        let values = [
            number.into(),
            Value::Text(format!("Supplier#{number:09}")),
            Value::Text(dice.text(10, 40)),
            nation.into(),
            Value::Text(dice.digits(15)),
            Value::Int(i64::from(dice.range(0, 1_099_998)) - 99_999),
            Value::Text(comment),
        ];
        loader.add("supplier", &values)?;
    }
    loader.finish()
}

/// Drops the tables.
///
/// # Errors
/// When the database fails, or if a table is missing.
pub fn drop_all(database: &impl SqlDatabase) -> StoreResult {
    execute_all(&mut *database.connect()?, DROPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_nation_and_the_queries_nations_are_there() {
        let all = NATIONS.concat();
        assert_eq!(all.len(), KEYS.len());
        assert!(KEYS.is_sorted() && ["Germany", "Cambodia"].iter().all(|n| all.contains(n)));
    }
}
