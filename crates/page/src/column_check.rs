//! The check of a new [`crate::Column`]. It happens once, so that no accessor needs to check again.

use lode_base::PageBuf;

use crate::{DataType, PageError, Values};

pub(crate) fn check(
    data_type: DataType,
    rows: usize,
    validity: Option<&PageBuf>,
    values: &Values,
) -> Result<(), PageError> {
    let require = |ok: bool, what| if ok { Ok(()) } else { Err(PageError::BadColumn { data_type, what }) };
    require(u32::try_from(rows).is_ok(), "too many rows")?;
    if let Some(v) = validity {
        require(v.len() >= rows.div_ceil(8), "validity is shorter than its rows")?;
    }
    match values {
        Values::Bits(b) => {
            require(data_type == DataType::Boolean, "bits are for BOOLEAN only")?;
            require(b.len() >= rows.div_ceil(8), "bits are shorter than its rows")
        }
        Values::Fixed { width, data } => {
            let width_ok = match data_type {
                DataType::Decimal { .. } => matches!(width, 4 | 8 | 16),
                t => t.fixed_bytes() == Some(usize::from(*width)),
            };
            require(width_ok, "the width is not the type's")?;
            require(data.len() == rows * usize::from(*width), "data is not rows times width long")?;
            let aligned = match width {
                2 => data.try_values::<i16>().is_some(),
                4 => data.try_values::<i32>().is_some(),
                8 => data.try_values::<i64>().is_some(),
                _ => data.try_values::<i128>().is_some(),
            };
            require(aligned, "data is not aligned")
        }
        Values::Var { offsets, data } => {
            require(data_type.is_variable(), "offsets are for TEXT and BYTEA only")?;
            require(offsets.len() == (rows + 1) * 4, "offsets are not rows + 1 long")?;
            let o = offsets.try_values::<u32>();
            require(o.is_some(), "offsets are not aligned")?;
            let o = o.unwrap_or_default();
            require(o[0] == 0, "the first offset is not 0")?;
            require(o.is_sorted(), "offsets fall")?;
            require(o[rows] as usize <= data.len(), "the last offset lies outside the data")?;
            let used = &data[..o[rows] as usize];
            if data_type == DataType::Text && !used.is_ascii() {
                let text = std::str::from_utf8(used);
                require(text.is_ok(), "text is not UTF-8")?;
                let text = text.unwrap_or_default();
                require(
                    o.iter().all(|&i| text.is_char_boundary(i as usize)),
                    "an offset splits a character",
                )?;
            }
            Ok(())
        }
        Values::Dict { code_width, codes, dictionary } => {
            require(matches!(code_width, 1 | 2), "codes are 1 or 2 bytes")?;
            require(codes.len() == rows * usize::from(*code_width), "codes are not rows times width long")?;
            require(dictionary.data_type() == data_type, "the dictionary has another type")?;
            require(
                matches!(dictionary.values(), Values::Fixed { .. } | Values::Var { .. }),
                "a dictionary of that kind",
            )?;
            require(dictionary.validity().is_none(), "the dictionary has NULLs")?;
            let max = if *code_width == 1 {
                codes.iter().copied().max().map(usize::from)
            } else {
                let c = codes.try_values::<u16>();
                require(c.is_some(), "codes are not aligned")?;
                c.unwrap_or_default().iter().copied().max().map(usize::from)
            };
            require(max.is_none_or(|m| m < dictionary.rows()), "a code lies outside the dictionary")
        }
        Values::Packed(p) => {
            let width_ok = match data_type {
                DataType::Decimal { .. } => matches!(p.width(), 4 | 8 | 16),
                t => t.fixed_bytes() == Some(usize::from(p.width())),
            };
            require(width_ok, "the width is not the type's")?;
            require(p.rows() == rows, "packed numbers of other rows")
        }
        Values::Symbols(s) => {
            require(data_type.is_variable(), "symbols are for TEXT and BYTEA only")?;
            require(s.rows() == rows, "symbols of other rows")?;
            require(data_type != DataType::Text || s.are_text(), "text is not UTF-8")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Column;

    fn refused(t: DataType, rows: usize, values: Values) -> &'static str {
        match Column::new(t, rows, None, values) {
            Err(PageError::BadColumn { what, .. }) => what,
            other => panic!("expected a bad column, got {other:?}"),
        }
    }

    #[test]
    fn each_lie_is_found() {
        let var = |o: &[u32], d: &[u8]| Values::Var {
            offsets: PageBuf::from_values(o),
            data: PageBuf::copy_from(d),
        };
        assert_eq!(refused(DataType::Text, 1, var(&[0, 3], b"ab")), "the last offset lies outside the data");
        assert_eq!(refused(DataType::Text, 2, var(&[0, 2, 1], b"ab")), "offsets fall");
        assert_eq!(refused(DataType::Text, 1, var(&[0, 2], &[0xff, 0xfe])), "text is not UTF-8");
        assert_eq!(
            refused(DataType::Text, 2, var(&[0, 1, 2], "é".as_bytes())),
            "an offset splits a character"
        );
        assert!(Column::new(DataType::Bytea, 2, None, var(&[0, 1, 2], "é".as_bytes())).is_ok());
        let dict = Column::new(DataType::Text, 2, None, var(&[0, 1, 2], b"ab")).unwrap();
        let coded = |codes: &[u8]| Values::Dict {
            code_width: 1,
            codes: PageBuf::copy_from(codes),
            dictionary: Arc::new(dict.clone()),
        };
        assert_eq!(refused(DataType::Text, 2, coded(&[0, 2])), "a code lies outside the dictionary");
        assert_eq!(refused(DataType::Bytea, 2, coded(&[0, 1])), "the dictionary has another type");
        let c = Column::new(DataType::Text, 3, None, coded(&[1, 0, 1])).unwrap();
        assert_eq!(c.value(2), crate::Value::text("b"));
        let fixed = Values::Fixed { width: 8, data: PageBuf::from_values(&[1i64]) };
        assert_eq!(refused(DataType::Integer, 2, fixed), "the width is not the type's");
    }
}
