//! Which encoding a segment gets.
//!
//! Each encoding says from a sample what it would take. The one whose bytes and time to unpack cost least is carried out. What it took
//! in the end must still be less than the values as they are.

use super::contract::{BYTE_PS, Cost, Encoded, Encoding};
use super::input::Input;
use super::{ENCODINGS, EncodingChoice, EncodingId, of_id};

/// The encoding for these values and their body; `None` where they are best left as they are.
pub(crate) fn choose(input: &Input<'_>, choice: EncodingChoice) -> Option<(u8, Encoded)> {
    let asked = match choice {
        EncodingChoice::Plain => return None,
        EncodingChoice::Only(EncodingId(id)) => of_id(id),
        EncodingChoice::Auto => best(input),
    };
    let encoding = asked.filter(|e| e.takes(input.data_type))?;
    let encoded = encoding.encode(input)?;
    let pays = choice != EncodingChoice::Auto || encoded.body.len() < input.plain_bytes();
    pays.then(|| (encoding.id(), encoded))
}

/// The encoding that costs least, if that is less than the values as they are.
fn best(input: &Input<'_>) -> Option<&'static dyn Encoding> {
    let mut best: (u64, Option<&'static dyn Encoding>) =
        (Cost { bytes: input.plain_bytes(), unpack_ps: 0 }.total(), None);
    // Symbols are found at last: a good dictionary spares the search.
    for &encoding in ENCODINGS.iter().filter(|e| e.takes(input.data_type)) {
        let plenty = best.0 < input.plain_bytes() as u64 / 4 * BYTE_PS;
        if encoding.is_slow_to_estimate() && plenty {
            continue;
        }
        if let Some(cost) = encoding.estimate(input).map(Cost::total)
            && cost < best.0
        {
            best = (cost, Some(encoding));
        }
    }
    best.1
}
