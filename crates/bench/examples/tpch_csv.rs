//! Writes the eight TPC-H tables as CSV files with a header. `scripts/reference_answers.py` loads them into the other
//! engine.
//!
//! `cargo run -p lode-bench --example tpch_csv -- 0.01 DIRECTORY`

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, Result, Write};
use std::path::Path;

use tpchgen::csv::{
    CustomerCsv, LineItemCsv, NationCsv, OrderCsv, PartCsv, PartSuppCsv, RegionCsv, SupplierCsv,
};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};

fn write(dir: &Path, table: &str, header: &str, rows: impl Iterator<Item = impl Display>) -> Result<()> {
    let mut out = BufWriter::new(File::create(dir.join(table).with_extension("csv"))?);
    writeln!(out, "{header}")?;
    for row in rows {
        writeln!(out, "{row}")?;
    }
    out.flush()
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, scale, dir] = args.as_slice() else {
        eprintln!("usage: tpch_csv SCALE DIRECTORY");
        std::process::exit(2);
    };
    let s: f64 = scale.parse().map_err(std::io::Error::other)?;
    let dir = Path::new(dir);
    std::fs::create_dir_all(dir)?;
    write(dir, "region", RegionCsv::header(), RegionGenerator::new(s, 1, 1).iter().map(RegionCsv::new))?;
    write(dir, "nation", NationCsv::header(), NationGenerator::new(s, 1, 1).iter().map(NationCsv::new))?;
    write(dir, "part", PartCsv::header(), PartGenerator::new(s, 1, 1).iter().map(PartCsv::new))?;
    write(
        dir,
        "supplier",
        SupplierCsv::header(),
        SupplierGenerator::new(s, 1, 1).iter().map(SupplierCsv::new),
    )?;
    write(
        dir,
        "partsupp",
        PartSuppCsv::header(),
        PartSuppGenerator::new(s, 1, 1).iter().map(PartSuppCsv::new),
    )?;
    write(
        dir,
        "customer",
        CustomerCsv::header(),
        CustomerGenerator::new(s, 1, 1).iter().map(CustomerCsv::new),
    )?;
    write(dir, "orders", OrderCsv::header(), OrderGenerator::new(s, 1, 1).iter().map(OrderCsv::new))?;
    write(
        dir,
        "lineitem",
        LineItemCsv::header(),
        LineItemGenerator::new(s, 1, 1).iter().map(LineItemCsv::new),
    )
}
