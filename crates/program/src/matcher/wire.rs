//! A matcher on the wire: n keys, each as bytes; then, for each set of keys, whether a page with exactly these passes 1.

use lode_base::wire::{Malformed, Reader, Writer};

use super::Matcher;

/// Writes a matcher.
pub fn put_matcher(w: &mut Writer<'_>, m: &Matcher) {
    w.count(m.keys().count());
    m.keys().for_each(|key| w.bytes(key));
    w.u8(m.passes);
}

/// Reads a matcher.
///
/// # Errors
/// When the bytes are not those of one that any hardware takes.
pub fn take_matcher(r: &mut Reader<'_>) -> Result<Matcher, Malformed> {
    let keys = (0..r.count(4)?).map(|_| r.bytes()).collect::<Result<Vec<_>, _>>()?;
    let passes = r.u8()?;
    Matcher::of_keys(&keys, passes).map_err(|_| r.bad("keys that no matcher takes"))
}
