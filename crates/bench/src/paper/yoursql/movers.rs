//! Which assumed values move a counted ratio.

/// The values that move each counted ratio by over 5 % when halved. None of them has a source. Rows with these ratios say so,
/// and the figure `sources` says whether it still finds the same.
pub(super) const MOVERS: [(&str, &[&str]); 4] = [
    (QUERY_1, &["geometry.channels", "bus.mb_per_s", "host.scan_ns", "host.filter_ns"]),
    (Q2, &["geometry.channels", "bus.mb_per_s"]),
    (Q2_ENERGY, &["geometry.channels", "bus.mb_per_s"]),
    (Q14, &["geometry.channels", "geometry.ways", "host.scan_ns"]),
];

/// The speed-up of Query 1.
pub(super) const QUERY_1: &str = "Query 1";
/// That of Q2.
pub(super) const Q2: &str = "Q2";
/// MySQL's energy to YourSQL's.
pub(super) const Q2_ENERGY: &str = "energy of Q2";
/// The speed-up of Q14.
pub(super) const Q14: &str = "Q14";

/// The note of a counted ratio: on which assumed values it rests.
pub(super) fn noted(of: &str) -> String {
    let known = MOVERS.iter().find(|(ratio, _)| *ratio == of);
    known.map_or_else(String::new, |(_, values)| {
        format!("halving one of these assumed values moves it by over 5 %: {}", values.join(", "))
    })
}
