//! How an index is written: what its entries name; in the page index its kinds and options, and the domain of a bitmap as a list.

use datafusion::arrow::array::cast::AsArray;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use lode_engine::{EntryOf, IndexDef, Summary, TableDef};
use lode_page::{ColumnBuilder, Constant, Value};

use crate::arrow_convert::to_arrow;

/// Bytes that are kept of a column, if the index does not say how many.
pub(crate) const PREFIX_BYTES: u8 = 16;
pub(crate) const BLOOM_BYTES: u16 = 64;
pub(crate) const TRIGRAM_BYTES: u16 = 256;

/// How the `n`-th element of an index says what is kept of it, behind the element and a blank.
pub(crate) fn kind_text(index: &IndexDef, n: usize) -> String {
    match index.summary(n) {
        Summary::Range => String::new(),
        other => format!(" {}", other.kind().name()),
    }
}

/// The options of an index, in parentheses; `None` if they are the usual ones.
pub(crate) fn options_text(def: &TableDef, index: &IndexDef) -> Option<String> {
    let mut options = Vec::new();
    if index.entries == EntryOf::Rows {
        options.push("entries = 'rows'".into());
    }
    let sizes: Vec<(u16, u16)> = index.summaries.iter().filter_map(size).collect();
    if sizes.iter().any(|(bytes, usual)| bytes != usual) {
        let texts: Vec<String> = sizes.iter().map(|(bytes, _)| bytes.to_string()).collect();
        options.push(match sizes.iter().all(|(bytes, _)| *bytes == sizes[0].0) {
            true => format!("bytes = {}", texts[0]),
            false => format!("bytes = '{}'", texts.join(", ")),
        });
    }
    for (summary, &column) in index.summaries.iter().zip(&index.columns) {
        if let Summary::Bitmap { values } = summary {
            options.push(match domain_texts(def, column, values) {
                Ok(texts) => format!("domain = '{}'", joined(&texts).replace('\'', "''")),
                Err(e) => format!("domain: {e}"),
            });
        }
    }
    (!options.is_empty()).then(|| format!("({})", options.join(", ")))
}

/// The bytes that the page index keeps of a column by a kind that takes a size, and those that it has if the index says nothing.
fn size(summary: &Summary) -> Option<(u16, u16)> {
    match summary {
        Summary::Prefix { bytes } => Some((u16::from(*bytes), u16::from(PREFIX_BYTES))),
        Summary::Bloom { bytes } => Some((*bytes, BLOOM_BYTES)),
        Summary::Trigram { bytes } => Some((*bytes, TRIGRAM_BYTES)),
        Summary::Range | Summary::Bitmap { .. } => None,
    }
}

/// The texts of a list that commas separate. Blanks around them are dropped; `\` takes the next character as it is.
pub(crate) fn split(list: &str) -> Vec<String> {
    let (mut texts, mut text, mut kept) = (Vec::new(), String::new(), 0);
    let mut chars = list.chars();
    let finish = |text: &mut String, kept: &mut usize| {
        text.truncate(text.trim_end().len().max(*kept));
        *kept = 0;
        std::mem::take(text)
    };
    while let Some(c) = chars.next() {
        match c {
            ',' => texts.push(finish(&mut text, &mut kept)),
            '\\' => {
                text.extend(chars.next());
                kept = text.len();
            }
            c if c.is_whitespace() && text.is_empty() => {}
            c => text.push(c),
        }
    }
    texts.push(finish(&mut text, &mut kept));
    texts
}

/// The list that [`split`] takes apart.
fn joined(texts: &[String]) -> String {
    let escaped = |text: &String| {
        let is_end = |at: usize| text[..at].trim().is_empty() || text[at..].trim().is_empty();
        let escape = |(at, c): (usize, char)| {
            let needs = c == ',' || c == '\\' || c.is_whitespace() && is_end(at);
            [needs.then_some('\\'), Some(c)].into_iter().flatten()
        };
        text.char_indices().flat_map(escape).collect::<String>()
    };
    texts.iter().map(escaped).collect::<Vec<_>>().join(", ")
}

/// Values of a column as texts, as CREATE INDEX reads them.
pub(crate) fn domain_texts(
    def: &TableDef,
    column: u16,
    values: &[Constant],
) -> Result<Vec<String>, DataFusionError> {
    let data_type = def.columns[usize::from(column)].ty.data_type;
    if data_type == lode_page::DataType::Bytea {
        return Ok(values.iter().map(|v| hexadecimal(v.value())).collect());
    }
    let mut builder = ColumnBuilder::new(data_type);
    for v in values {
        builder.push(v.value()).map_err(|e| DataFusionError::External(Box::new(e)))?;
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let array = cast_with_options(&to_arrow(&builder.finish())?, &DataType::Utf8, &options)?;
    Ok(array.as_string::<i32>().iter().flatten().map(str::to_owned).collect())
}

/// Bytes as `\xff00`.
fn hexadecimal(v: &Value) -> String {
    let Value::Bytes(bytes) = v else { return String::new() };
    bytes.iter().fold("\\x".to_owned(), |text, b| text + &format!("{b:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_read_as_it_was_shown() {
        assert_eq!(split("AIR,  REG AIR ,MAIL"), ["AIR", "REG AIR", "MAIL"]);
        for texts in [vec!["a, b", "\\", " c ", ""], vec!["  "], vec!["x\ty", "it's"]] {
            let texts: Vec<String> = texts.into_iter().map(str::to_owned).collect();
            assert_eq!(split(&joined(&texts)), texts);
        }
    }
}
