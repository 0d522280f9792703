//! Table 4: records per second that each part could process alone.
//!
//! Claim, setup and expected shape: [`FIGURE`].

use lode_base::Profile;

use super::equations::Parameters;
use super::experiment::Experiment;
use super::fig7;
use super::shared::row;
use crate::paper::figure::Figure;
use crate::paper::row::{Row, X};
use crate::paper::run::Run;

/// The table.
pub const FIGURE: Figure = Figure {
    name: "table4",
    about: "Table 4: what each part could do alone",
    claim: "The embedded CPU is the slowest part by far, then the links. Comparators and the host's CPU are not the bound.",
    setup: "16 channels of 400 MB/s, as in Fig. 7. The embedded CPU emits every record (selectivity 1).",
    expected: "The published digits: each rate follows from one parameter, or from equation (1) or (5).",
    differs: "",
    sizes: &[],
    rows: |run: &mut Run<'_>| Ok(by_equations(run.profile())),
    plot: None,
};

/// The published rates of the links, in the order of Fig. 7.
const PUBLISHED_LINKS: [f64; 3] = [2.93e6, 5.86e6, 6.25e7];

/// The table by the equations.
pub fn by_equations(profile: &Profile) -> Vec<Row> {
    let e = Experiment { selectivity: 1.0, ..fig7::fastest(profile, fig7::LINKS[0].1) };
    let p = Parameters::new(profile, &e);
    let rate = |series: &str, x, published, ours, note: &str| Row {
        published: Some(published),
        note: note.into(),
        ..row(series, x, "processing rate", "records/s", ours)
    };
    let mut rows = vec![
        rate(
            "host CPU",
            X::None,
            7.06e7,
            1.0 / p.host_record_s,
            "one record per 0.0142 us (Table 2, as the paper rounded it); 0.01416 us would give its 7.06e7",
        ),
        rate(
            "embedded CPU",
            X::None,
            2.34e5,
            p.records / p.scan_cpu(),
            "(5) at selectivity 1: 24 + 403 cycles at 100 MHz; at 0.013 it is 3.42e6",
        ),
        rate(
            "hw-ISP",
            X::None,
            3.83e7,
            p.array_bytes_per_s() / p.record_bytes,
            "(1) with 16 channels of 400 MB/s: as fast as the flash reads",
        ),
    ];
    for ((link, mb), published) in fig7::LINKS.into_iter().zip(PUBLISHED_LINKS) {
        let p = Parameters::new(profile, &fig7::fastest(profile, mb));
        let ours = p.up_bytes_per_s / p.record_bytes;
        rows.push(rate(
            "host link",
            X::Name(link.into()),
            published,
            ours,
            "records of 128 bytes over the link",
        ));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::experiment::of_the_paper;
    use super::*;

    #[test]
    fn the_table_is_the_papers() {
        let profile = Profile::find("isp-adms11").unwrap();
        let rows = by_equations(&profile);
        let digits = |v: f64| format!("{v:.2e}");
        let found: Vec<_> = rows.iter().map(|r| (digits(r.ours), digits(r.published.unwrap()))).collect();
        // The host's CPU differs because the value in Table 2 is rounded.
        assert_eq!(found[0], ("7.04e7".into(), "7.06e7".into()));
        assert!(found[1..].iter().all(|(ours, published)| ours == published), "{found:?}");
        assert_eq!(digits(1.0 / 0.01416e-6), "7.06e7");
        let p = Parameters::new(&profile, &of_the_paper(&profile));
        assert_eq!(digits(p.records / p.scan_cpu()), "3.42e6");
    }
}
