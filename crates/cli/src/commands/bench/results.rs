//! The file of a benchmark's rows of JSON, in the directory of `--out`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use lode_bench::BenchError;

use crate::error::{CliError, CliResult};

/// `results.jsonl`, if there is a directory for it.
pub(super) struct Results(Option<(PathBuf, BufWriter<File>)>);

impl Results {
    /// Makes the file.
    pub(super) fn create(out: Option<&Path>) -> CliResult<Self> {
        let Some(out) = out else { return Ok(Self(None)) };
        let path = out.join("results.jsonl");
        let file = File::create(&path).map_err(|e| CliError::file(&path, e))?;
        Ok(Self(Some((path, BufWriter::new(file)))))
    }

    /// Adds a row, which is in the file once this returns.
    pub(super) fn add(&mut self, row: &serde_json::Value) -> Result<(), BenchError> {
        let Some((path, file)) = &mut self.0 else { return Ok(()) };
        let written = writeln!(file, "{row}").and_then(|()| file.flush());
        written.map_err(|source| BenchError::File { path: path.clone(), source })
    }
}
