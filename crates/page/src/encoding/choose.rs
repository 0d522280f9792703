//! Chooses the encoding of a segment.
//!
//! Each encoding estimates its cost from a sample of the values. The cost covers the bytes and the time to unpack
//! them. The cheapest encoding then encodes all values. Its result is used only if it is smaller than the plain
//! values.

use super::contract::{BYTE_PS, Cost, Encoded, Encoding};
use super::input::Input;
use super::{ENCODINGS, EncodingChoice, EncodingId, of_id};

/// Returns the id of the chosen encoding and the encoded body. Returns `None` if the values are to stay plain.
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

/// Returns the encoding of the lowest cost, or `None` if the plain values cost less.
fn best(input: &Input<'_>) -> Option<&'static dyn Encoding> {
    let mut best: (u64, Option<&'static dyn Encoding>) =
        (Cost { bytes: input.plain_bytes(), unpack_ps: 0 }.total(), None);
    // Training symbols is slow. The loop skips it if a cheaper encoding already costs less than a quarter of the
    // plain values.
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
