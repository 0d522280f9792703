//! Checks of single rows: types, NOT NULL, lengths.

use lode_page::{Column, DataType, Value, Values, ops};

use crate::EngineError;
use crate::tables::table::Table;

/// Checks `values` for the columns `columns` of a table; answers their rows.
pub(super) fn check(t: &Table, columns: &[u16], values: &[Column]) -> Result<usize, EngineError> {
    if columns.len() != values.len() {
        let what = format!("{} columns were given for {}", values.len(), columns.len());
        return Err(EngineError::invalid(t.name(), what));
    }
    let rows = values.first().map_or(0, Column::rows);
    for (&c, v) in columns.iter().zip(values) {
        let def = &t.def().columns[usize::from(c)];
        if v.data_type() != def.ty.data_type {
            let what = format!("column \"{}\" is {}, not {}", def.name, def.ty.data_type, v.data_type());
            return Err(EngineError::invalid(t.name(), what));
        }
        if v.rows() != rows {
            let what = format!("column \"{}\" has {} rows, not {rows}", def.name, v.rows());
            return Err(EngineError::invalid(t.name(), what));
        }
        if !def.ty.nullable && null_count(v) > 0 {
            return Err(EngineError::NotNull { table: t.name().into(), column: def.name.clone() });
        }
        if let (Some(max_chars), DataType::Text) = (def.max_chars, def.ty.data_type)
            && let Some(chars) = longer_than(v, max_chars as usize)
        {
            let (table, column) = (t.name().into(), def.name.clone());
            return Err(EngineError::TooLong { table, column, chars, max_chars });
        }
    }
    Ok(rows)
}

fn null_count(c: &Column) -> usize {
    let Some(validity) = c.validity() else { return 0 };
    let (whole, tail) = (c.rows() / 8, c.rows() % 8);
    let valid: u32 = validity[..whole].iter().map(|b| b.count_ones()).sum();
    let last = if tail > 0 { (validity[whole] & ((1 << tail) - 1)).count_ones() } else { 0 };
    c.rows() - (valid + last) as usize
}

/// The length of a value that has more than `max` characters. Bytes, which are at least as many, are counted first.
fn longer_than(c: &Column, max: usize) -> Option<usize> {
    let chars = |b: &[u8]| b.iter().filter(|&&b| b & 0xc0 != 0x80).count();
    match c.values() {
        Values::Var { offsets, data } => {
            let o: &[u32] = offsets.try_values().expect("offsets were checked to be aligned");
            let shown = (0..c.rows()).map(|row| (row, &data[o[row] as usize..o[row + 1] as usize]));
            let mut long = shown.filter(|(_, v)| v.len() > max).map(|(row, v)| (row, chars(v)));
            long.find(|&(row, chars)| chars > max && !c.is_null(row)).map(|(_, chars)| chars)
        }
        Values::Dict { dictionary, .. } => {
            longer_than(dictionary, max)?;
            // A dictionary may hold values that no row has.
            let lengths = (0..c.rows()).map(|row| match c.value(row) {
                Value::Bytes(b) => chars(&b),
                _ => 0,
            });
            lengths.into_iter().find(|&n| n > max)
        }
        Values::Symbols(_) => longer_than(&ops::plain(c), max),
        Values::Bits(_) | Values::Fixed { .. } | Values::Packed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use lode_page::ColumnBuilder;

    use super::*;

    fn text(values: &[Option<&str>]) -> Column {
        let mut b = ColumnBuilder::new(DataType::Text);
        values.iter().for_each(|v| b.push(&v.map_or(Value::Null, Value::text)).unwrap());
        b.finish()
    }

    #[test]
    fn lengths_are_in_characters() {
        assert_eq!(longer_than(&text(&[Some("größe"), None, Some("")]), 5), None);
        assert_eq!(longer_than(&text(&[Some("ab"), Some("größer")]), 5), Some(6));
    }

    #[test]
    fn nulls_are_counted_to_the_last_row() {
        let values: Vec<Option<&str>> = (0..21).map(|i| (i % 3 != 0).then_some("x")).collect();
        for n in 0..values.len() {
            let nulls = values[..n].iter().filter(|v| v.is_none()).count();
            assert_eq!(null_count(&text(&values[..n])), nulls);
        }
    }
}
