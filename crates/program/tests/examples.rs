//! The example of a filter prints what its comments promise.

#[path = "../examples/filter.rs"]
mod filter;

#[test]
fn a_filter_and_an_aggregation_over_a_page_built_by_hand() {
    let mut out = Vec::new();
    filter::run(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("a page of 5 rows, "), "{first}");
    assert_eq!(
        rest,
        "3 rows pass, 5 values were compared\n  Oslo 120\n  Oslo 200\n  Bergen 150\n\
         2 groups\n  Oslo: 2 rows, fares of 320\n  Bergen: 1 rows, fares of 150\n"
    );
}
