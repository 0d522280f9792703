//! `lode paper`: published figures beside ours, on the terminal, as JSON and as files.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use common::{Dir, fail, lines_of, lode, one_line, succeed};
use lode_base::checksum::crc32c;
use serde_json::Value;

fn json(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

#[test]
fn each_row_has_the_stable_keys_and_is_told_apart() {
    let rows = json(&succeed(["paper", "isp", "--quick", "--json"]));
    let keys = ["paper", "figure", "series", "x", "metric", "unit", "published", "ours", "note"];
    let mut seen = BTreeSet::new();
    for row in &rows {
        let found: Vec<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found.iter().collect::<BTreeSet<_>>(), keys.iter().collect::<BTreeSet<_>>(), "{row}");
        assert!(row["ours"].as_f64().unwrap() >= 0.0 && row["paper"] == "isp", "{row}");
        assert!(row["published"].is_null() || row["published"].as_f64().unwrap() > 0.0, "{row}");
        let note = row["note"].as_str().unwrap();
        let calculated = row["metric"].as_str().unwrap().ends_with(", by the equations");
        assert!(note.starts_with(if calculated { "by the equations: " } else { "executed: " }), "{row}");
        assert!(seen.insert(["figure", "series", "x", "metric"].map(|k| row[k].to_string())), "{row}");
    }
    let figures: BTreeSet<&str> = rows.iter().map(|r| r["figure"].as_str().unwrap()).collect();
    assert_eq!(
        figures.into_iter().collect::<Vec<_>>(),
        ["fig5", "fig6", "fig7", "table3", "table4", "table5"]
    );
}

/// Every digit is the same on any machine, in debug and in release, as in the committed file. The file has a line for
/// each figure with the number of rows and their CRC-32C. A change of the model changes it; `LODE_WRITE_EXPECTED=1`
/// writes it again.
#[test]
fn every_digit_is_the_same_everywhere() {
    let mut figures: Vec<(String, String)> = Vec::new();
    for line in succeed(["paper", "isp", "--quick", "--json"]).lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let figure = row["figure"].as_str().unwrap();
        match figures.last_mut() {
            Some((last, lines)) if last == figure => *lines += &format!("{line}\n"),
            _ => figures.push((figure.into(), format!("{line}\n"))),
        }
    }
    let digest = |(figure, lines): &(String, String)| {
        format!("{figure} {} {:08x}\n", lines.lines().count(), crc32c(lines.as_bytes()))
    };
    let got: String = figures.iter().map(digest).collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/isp-quick.digest");
    if std::env::var_os("LODE_WRITE_EXPECTED").is_some() {
        fs::write(path, &got).unwrap();
    }
    assert_eq!(got, fs::read_to_string(path).unwrap());
}

#[test]
fn the_published_13_9_stands_beside_13_2_with_the_reason() {
    let rows = json(&succeed(["paper", "isp", "--quick", "--figure", "fig5", "--json"]));
    assert!(rows.iter().all(|r| r["figure"] == "fig5"));
    let calculated =
        |r: &&Value| r["series"] == "IHP" && r["metric"] == "hw-ISP to the other, the best, by the equations";
    let row = rows.iter().find(calculated).unwrap();
    assert_eq!(row["published"], 13.9);
    assert!((row["ours"].as_f64().unwrap() - 13.21).abs() < 0.01, "{row}");
    assert!(row["note"].as_str().unwrap().contains("70 % of the peak"), "{row}");
    let table = succeed(["paper", "isp", "--quick", "--figure", "fig5"]);
    let line = table.lines().find(|l| l.starts_with("IHP ")).unwrap();
    assert!(["13.90", "13.21", "0.951"].iter().all(|w| line.contains(w)), "{line}");
}

#[test]
fn a_report_is_written_whole_and_the_same_twice() {
    let dir = Dir::new();
    let (a, b) = (dir.file("a/report"), dir.file("b"));
    let said = succeed(["paper", "isp", "--quick", "--out", &a]);
    assert!(
        said.contains("Wrote isp.csv, isp.jsonl, isp-fig5.svg, isp-fig5-equations.svg, isp-fig6.svg, "),
        "{said}"
    );
    let rows = succeed(["paper", "isp", "--quick", "--json", "--out", &b]);
    let names = |dir: &str| -> BTreeSet<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&a), names(&b));
    assert_eq!(names(&a).len(), 8);
    for name in names(&a) {
        let read = |dir: &str| fs::read_to_string(format!("{dir}/{name}")).unwrap();
        assert_eq!(read(&a), read(&b), "{name}");
    }
    assert_eq!(fs::read_to_string(format!("{b}/isp.jsonl")).unwrap(), rows);
    assert_eq!(fs::read_to_string(format!("{b}/isp.csv")).unwrap().lines().count(), 1 + rows.lines().count());
    let one = dir.file("one");
    succeed(["paper", "isp", "--quick", "--figure", "table4", "--out", &one]);
    assert_eq!(names(&one), ["isp.csv", "isp.jsonl"].map(String::from).into());
}

/// Batches, blocks and power cuts at a small size. Every figure is there, the modelled ones have the paper's shape,
/// and no data is lost.
#[test]
fn eleos_is_run_again_in_seconds() {
    let dir = Dir::new();
    let out = dir.file("report");
    let rows = json(&succeed(["paper", "eleos", "--quick", "--json", "--out", &out]));
    let keys = ["paper", "figure", "series", "x", "metric", "unit", "published", "ours", "note"];
    let mut seen = BTreeSet::new();
    for row in &rows {
        let found: BTreeSet<&str> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found, keys.into(), "{row}");
        assert!(row["ours"].as_f64().unwrap() >= 0.0 && row["paper"] == "eleos", "{row}");
        assert!(seen.insert(["figure", "series", "x", "metric"].map(|k| row[k].to_string())), "{row}");
        // A figure never mixes wall time and modelled time.
        let wall = row["metric"].as_str().unwrap().ends_with(", in wall time");
        assert_eq!(wall, row["figure"] == "table2", "{row}");
        assert_eq!(wall, row["note"].as_str().unwrap().starts_with("in wall time: "), "{row}");
    }
    let figures: BTreeSet<&str> = rows.iter().map(|r| r["figure"].as_str().unwrap()).collect();
    assert_eq!(figures, ["table2", "fig9", "fig10a", "fig10b", "fig10c", "recovery"].into());
    let ours = |figure: &str, series: &str, metric: &str| -> f64 {
        let of_it = |r: &&Value| r["figure"] == figure && r["series"] == series && r["metric"] == metric;
        rows.iter().rfind(of_it).unwrap_or_else(|| panic!("{figure}: {series}, {metric}"))["ours"]
            .as_f64()
            .unwrap()
    };
    assert!(ours("fig9", "Batch (VP) to Batch (FP)", "ratio") > 1.5);
    assert!(ours("fig9", "Batch (VP) to Block", "ratio") > 8.5);
    assert!(ours("fig10a", "Batch (VP) to Block", "least ratio") > 1.12);
    assert!(ours("fig10a", "Batch (VP) to Block, pipelined", "least ratio") > 0.95);
    assert!(ours("fig10b", "Batch (VP) to Batch (FP)", "fewer bytes") > 25.0);
    assert!(ours("fig10c", "Batch (VP)", "loss") < ours("fig10c", "Block", "loss"));
    let recovered: Vec<&Value> = rows.iter().filter(|r| r["figure"] == "recovery").collect();
    for what in ["pages lost that were acknowledged", "pages of a torn buffer"] {
        let of_it: Vec<_> = recovered.iter().filter(|r| r["metric"] == what).collect();
        assert!(of_it.len() >= 4 && of_it.iter().all(|r| r["ours"] == 0.0), "{of_it:?}");
    }
    let names: BTreeSet<String> =
        fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    let expected = ["eleos.csv", "eleos.jsonl", "eleos-fig9.svg", "eleos-fig10a.svg", "eleos-fig10b.svg"]
        .map(String::from);
    assert_eq!(names, expected.into());
    // The modelled figures are the same in a second run.
    let again = json(&succeed(["paper", "eleos", "--quick", "--figure", "fig9", "--json"]));
    let first: Vec<&Value> = rows.iter().filter(|r| r["figure"] == "fig9").collect();
    assert_eq!(again.iter().collect::<Vec<_>>(), first);
    fail(["paper", "eleos", "--records", "249999"], 2, &["--records", "250000 to 10000000 are allowed"]);
    fail(["paper", "eleos", "--quick", "--records", "1000000"], 2, &["--quick", "--records"]);
    fail(["paper", "eleos", "--figure", "fig1"], 2, &["table2, fig9, fig10a, fig10b, fig10c, recovery"]);
}

#[test]
fn a_directory_that_cannot_be_written_is_one_line() {
    let dir = Dir::new();
    let file = dir.file("file");
    fs::write(&file, "").unwrap();
    fail(["paper", "isp", "--out", &file], 1, &["file"]);
    fail(["paper", "isp", "--out", &format!("{file}/below")], 1, &["file"]);
    // Before anything runs.
    fail(["paper", "all", "--out", &file], 1, &["file"]);
    fail(["paper", "all"], 2, &["--out"]);
    fail(["paper", "nothing"], 2, &["nothing"]);
}

/// The page has every figure of every paper; what lies beside it is what each paper writes by itself.
#[test]
fn all_papers_are_one_page_that_needs_nothing_else() {
    let dir = Dir::new();
    let (out, alone) = (dir.file("all"), dir.file("alone"));
    let said = succeed(["paper", "all", "--quick", "--out", &out, "--commit", "abc123"]);
    assert!(said.contains("isp fig5: 64 rows\n") && said.contains("\nWrote index.html, isp.csv, "), "{said}");
    succeed(["paper", "isp", "--quick", "--out", &alone]);
    for entry in fs::read_dir(&alone).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let read = |dir: &str| fs::read_to_string(format!("{dir}/{name}")).unwrap();
        assert_eq!(read(&out), read(&alone), "{name}");
    }
    let page = fs::read_to_string(format!("{out}/index.html")).unwrap();
    for paper in ["isp", "eleos"] {
        let rows = json(&fs::read_to_string(format!("{out}/{paper}.jsonl")).unwrap());
        assert!(rows.len() > 100, "{paper}: {} rows", rows.len());
        for row in rows {
            let figure = row["figure"].as_str().unwrap();
            assert!(page.contains(&format!("<article id=\"{paper}-{figure}\">")), "{paper} {figure}");
            assert!(
                page.contains(&format!("lode paper {paper} --figure {figure} --quick<")),
                "{paper} {figure}"
            );
        }
        assert!(page.contains(&format!("<section class=\"paper\" id=\"{paper}\">")));
    }
    for words in ["commit abc123 (as given by --commit)", "13.90", "13.21", "70 % of the peak", "quick run"] {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<svg ").count(), 10);
    for loaded in ["<script", "src=", "url(", "@import", "<link"] {
        assert!(!page.contains(loaded), "{loaded}");
    }
}

#[test]
fn all_papers_stop_at_ctrl_c_and_leave_nothing() {
    let dir = Dir::new();
    let out = dir.file("all");
    let mut child = lode().args(["paper", "all", "--quick", "--out", &out]).spawn().unwrap();
    let lines = lines_of(&mut child);
    assert!(lines.recv().unwrap().starts_with("isp fig5: "));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(one_line(&child.wait_with_output().unwrap(), 130), "lode: interrupted");
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

/// Joins of YourSQL at a small size: twice the same digits, and the paper's shape.
#[test]
fn yoursql_joins_as_the_paper_says_and_gives_the_same_digits_twice() {
    let run = || succeed(["paper", "yoursql", "--quick", "--figure", "table1", "--json"]);
    let (first, second) = (run(), run());
    assert_eq!(first, second);
    let rows = json(&first);
    let value = |series: &str, x: &str, metric: &str| {
        let is_it = |r: &&serde_json::Value| {
            r["series"] == series
                && r["x"] == x
                && r["metric"].as_str().is_some_and(|m| m.starts_with(metric))
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{series} {x}"))["ours"].as_f64().unwrap()
    };
    // Nearly all reads are of partsupp and part, and the filtered table first saves most of them.
    let of = |x: &str| value("MySQL", x, "reads");
    assert!(of("partsupp") > of("part") && of("part") > 10.0 * of("supplier"), "{first}");
    assert!(value("MySQL with ICP", "all", "fewer reads") > 10.0);
}

/// What YourSQL's ratio of Query 1 rests on, each assumed value halved: the row of the ratio names the same values.
#[test]
fn yoursql_names_the_assumed_values_that_move_a_ratio() {
    let rows = json(&succeed(["paper", "yoursql", "--quick", "--figure", "sources", "--json"]));
    let value = |metric: &str| {
        let row = rows.iter().find(|r| r["metric"] == metric).unwrap_or_else(|| panic!("{metric}"));
        row["ours"].as_f64().unwrap()
    };
    assert_eq!(value("rows name what moves them"), 1.0, "{rows:?}");
    assert!(value("values that are assumed") > 30.0);
    assert!(rows.iter().any(|r| r["x"] == "host.scan_ns"), "{rows:?}");
}
