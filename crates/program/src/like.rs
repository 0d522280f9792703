//! SQL's LIKE, compiled.
//!
//! ```text
//!   pattern ─► tokens ─► Exact | Prefix | Suffix | Contains          (no `_`, `%` at the ends only)
//!                    └─► head % middle % ... % tail                  (the rest)
//! ```
//!
//! `%` is any text, `_` is one character, and `\` takes the next character literally (at the end it is itself), as in
//! arrow-string. Matching is greedy from the left. That is exact: the leftmost match of a middle leaves the most text
//! for the middles behind it. So every byte of the text is searched for one middle only. The time is linear in text
//! plus pattern for literal middles. A middle with `_` is searched bit-parallel, in one step for each character and
//! each 64 characters of the middle.

use memchr::memmem::Finder;

/// A compiled pattern. Texts are valid UTF-8.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// The text is this.
    Exact(Box<[u8]>),
    /// The text begins with this.
    Prefix(Box<[u8]>),
    /// The text ends with this.
    Suffix(Box<[u8]>),
    /// The text has this in it.
    Contains(Box<Finder<'static>>),
    /// The whole text is one piece, of a fixed number of characters.
    Whole(Piece),
    /// The text begins with `head`, ends with `tail`, and has `middles` between them, in order.
    General {
        /// At the start.
        head: Piece,
        /// In between.
        middles: Vec<Middle>,
        /// At the end.
        tail: Piece,
    },
}

/// Literals and single characters, without `%`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Vec<u8>),
    Any(usize),
}

/// A piece to be found.
#[derive(Clone, Debug)]
pub(crate) enum Middle {
    Literal(Box<Finder<'static>>),
    Bits(Box<ShiftAnd>),
}

impl Pattern {
    pub(crate) fn new(pattern: &str) -> Self {
        let pieces = parse(pattern);
        let literal = |p: &Piece| match &*p.0 {
            [] => Some(Box::default()),
            [Part::Literal(b)] => Some(b.clone().into_boxed_slice()),
            _ => None,
        };
        let literals: Option<Vec<Box<[u8]>>> = pieces.iter().map(literal).collect();
        match literals.as_deref() {
            Some([all]) => return Self::Exact(all.clone()),
            Some([head, tail]) if tail.is_empty() => return Self::Prefix(head.clone()),
            Some([head, tail]) if head.is_empty() => return Self::Suffix(tail.clone()),
            Some([head, middle, tail]) if head.is_empty() && tail.is_empty() => {
                return Self::Contains(Box::new(Finder::new(middle).into_owned()));
            }
            _ => {}
        }
        let mut pieces = pieces;
        let tail = pieces.pop().expect("a pattern has at least one piece");
        if pieces.is_empty() {
            return Self::Whole(tail);
        }
        let head = pieces.remove(0);
        let middles = pieces.iter().map(Middle::new).collect();
        Self::General { head, middles, tail }
    }

    /// Whether `text` matches.
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        self.matches_counted(text, &mut 0)
    }

    /// The prefix of every text that matches.
    pub(crate) fn prefix(&self) -> &[u8] {
        match self {
            Self::Exact(b) | Self::Prefix(b) => b,
            Self::Suffix(_) | Self::Contains(_) => &[],
            Self::Whole(piece) | Self::General { head: piece, .. } => match piece.0.first() {
                Some(Part::Literal(b)) => b,
                _ => &[],
            },
        }
    }

    /// The literals that a text must contain in this order, if that is all that the pattern asks: for `%a%b%`, "a" and
    /// "b".
    pub(crate) fn sequence(&self) -> Option<Vec<&[u8]>> {
        fn literal(m: &Middle) -> Option<&[u8]> {
            if let Middle::Literal(finder) = m { Some(finder.needle()) } else { None }
        }
        match self {
            Self::Contains(finder) => Some(vec![finder.needle()]),
            Self::General { head, middles, tail } if head.0.is_empty() && tail.0.is_empty() => {
                middles.iter().map(literal).collect()
            }
            _ => None,
        }
    }

    /// Literals that every matching text contains.
    pub(crate) fn literals(&self) -> Vec<&[u8]> {
        let mut all = match self {
            Self::Exact(b) | Self::Prefix(b) | Self::Suffix(b) => vec![&**b],
            Self::Contains(finder) => vec![finder.needle()],
            Self::Whole(piece) => piece.literals().collect(),
            Self::General { head, middles, tail } => {
                let mut all: Vec<&[u8]> = head.literals().chain(tail.literals()).collect();
                all.extend(middles.iter().filter_map(|m| match m {
                    Middle::Literal(finder) => Some(finder.needle()),
                    Middle::Bits(_) => None,
                }));
                all
            }
        };
        all.retain(|b| !b.is_empty());
        all
    }

    /// The only text that matches, if there is exactly one.
    pub(crate) fn exact(&self) -> Option<&[u8]> {
        if let Self::Exact(b) = self { Some(b) } else { None }
    }

    fn matches_counted(&self, text: &[u8], steps: &mut u64) -> bool {
        match self {
            Self::Exact(b) => *text == **b,
            Self::Prefix(b) => text.starts_with(b),
            Self::Suffix(b) => text.ends_with(b),
            Self::Contains(finder) => finder.find(text).is_some(),
            Self::Whole(piece) => piece.at_start(text) == Some(text.len()),
            Self::General { head, middles, tail } => {
                let Some(mut from) = head.at_start(text) else { return false };
                let Some(to) = tail.at_end(&text[from..]) else { return false };
                let to = from + to;
                for middle in middles {
                    match middle.end_in(&text[from..to], steps) {
                        Some(end) => from += end,
                        None => return false,
                    }
                }
                true
            }
        }
    }
}

/// The pieces between the `%`; several `%` in a row are one.
fn parse(pattern: &str) -> Vec<Piece> {
    let mut pieces = vec![Piece::default()];
    let mut chars = pattern.chars();
    let mut after_many = false;
    while let Some(c) = chars.next() {
        let piece = &mut pieces.last_mut().expect("never empty").0;
        let literal = match c {
            '%' => {
                if !after_many {
                    pieces.push(Piece::default());
                }
                after_many = true;
                continue;
            }
            '_' => None,
            '\\' => Some(chars.next().unwrap_or('\\')),
            c => Some(c),
        };
        after_many = false;
        match (literal, piece.last_mut()) {
            (Some(c), Some(Part::Literal(b))) => b.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            (Some(c), _) => piece.push(Part::Literal(c.to_string().into_bytes())),
            (None, Some(Part::Any(n))) => *n += 1,
            (None, _) => piece.push(Part::Any(1)),
        }
    }
    pieces
}

/// Bytes of the character whose first byte is `lead`.
fn char_bytes(lead: u8) -> usize {
    match lead {
        0..0xc0 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    }
}

impl Piece {
    /// Its literals.
    fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(|part| match part {
            Part::Literal(b) => Some(&**b),
            Part::Any(_) => None,
        })
    }

    /// The end of this piece, if `text` begins with it.
    fn at_start(&self, text: &[u8]) -> Option<usize> {
        let mut at = 0;
        for part in &self.0 {
            match part {
                Part::Literal(b) if text[at..].starts_with(b) => at += b.len(),
                Part::Literal(_) => return None,
                Part::Any(n) => {
                    for _ in 0..*n {
                        at = (at + char_bytes(*text.get(at)?)).min(text.len());
                    }
                }
            }
        }
        Some(at)
    }

    /// The start of this piece, if `text` ends with it.
    fn at_end(&self, text: &[u8]) -> Option<usize> {
        let mut at = text.len();
        for part in self.0.iter().rev() {
            match part {
                Part::Literal(b) if text[..at].ends_with(b) => at -= b.len(),
                Part::Literal(_) => return None,
                Part::Any(n) => {
                    for _ in 0..*n {
                        // Finds the character's first byte, which is no continuation byte.
                        at = text[..at].iter().rposition(|b| b & 0xc0 != 0x80)?;
                    }
                }
            }
        }
        Some(at)
    }
}

impl Middle {
    fn new(piece: &Piece) -> Self {
        match &*piece.0 {
            [Part::Literal(b)] => Self::Literal(Box::new(Finder::new(b).into_owned())),
            _ => Self::Bits(Box::new(ShiftAnd::new(piece))),
        }
    }

    /// The end of the leftmost occurrence.
    fn end_in(&self, text: &[u8], steps: &mut u64) -> Option<usize> {
        match self {
            Self::Literal(finder) => finder.find(text).map(|at| at + finder.needle().len()),
            Self::Bits(bits) => bits.end_in(text, steps),
        }
    }
}

/// Bit-parallel search. Bit i of the state is set if the last i + 1 characters match the first i + 1 of the piece.
///
/// For each character c, `state = (state << 1 | 1) & positions(c)`, where `positions(c)` has the bits of those
/// places that allow c: `_` and c itself.
/// Source: Baeza-Yates and Gonnet, "A new approach to text searching", 1992.
#[derive(Clone, Debug)]
pub(crate) struct ShiftAnd {
    /// Places that allow every character.
    any: Vec<u64>,
    /// Places that allow a character, by its bytes as a number, ascending.
    chars: Vec<(u32, Vec<u64>)>,
    last: u64,
}

impl ShiftAnd {
    fn new(piece: &Piece) -> Self {
        let mut places: Vec<Option<u32>> = Vec::new();
        for part in &piece.0 {
            match part {
                Part::Any(n) => places.extend(std::iter::repeat_n(None, *n)),
                Part::Literal(b) => {
                    let mut rest = &b[..];
                    while let Some(&lead) = rest.first() {
                        let (c, behind) = rest.split_at(char_bytes(lead).min(rest.len()));
                        places.push(Some(packed(c)));
                        rest = behind;
                    }
                }
            }
        }
        let words = places.len().div_ceil(64);
        let mut any = vec![0; words];
        let mut distinct: Vec<u32> = places.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        for (i, _) in places.iter().enumerate().filter(|(_, p)| p.is_none()) {
            any[i / 64] |= 1 << (i % 64);
        }
        let mut chars: Vec<_> = distinct.into_iter().map(|c| (c, any.clone())).collect();
        for (i, c) in places.iter().enumerate().filter_map(|(i, p)| p.map(|c| (i, c))) {
            let at = chars.binary_search_by_key(&c, |(c, _)| *c).expect("each character is in the table");
            chars[at].1[i / 64] |= 1 << (i % 64);
        }
        Self { any, chars, last: 1 << ((places.len() - 1) % 64) }
    }

    fn end_in(&self, text: &[u8], steps: &mut u64) -> Option<usize> {
        let mut state = vec![0u64; self.any.len()];
        let mut at = 0;
        while at < text.len() {
            let next = (at + char_bytes(text[at])).min(text.len());
            let c = packed(&text[at..next]);
            let allowed = match self.chars.binary_search_by_key(&c, |(c, _)| *c) {
                Ok(i) => &self.chars[i].1,
                Err(_) => &self.any,
            };
            let mut carry = 1;
            for (s, allowed) in state.iter_mut().zip(allowed) {
                let shifted = *s << 1 | carry;
                carry = *s >> 63;
                *s = shifted & allowed;
            }
            *steps += state.len() as u64;
            at = next;
            if state.last().is_some_and(|s| s & self.last != 0) {
                return Some(at);
            }
        }
        None
    }
}

/// The bytes of a character as one number.
fn packed(c: &[u8]) -> u32 {
    c.iter().fold(0, |n, &b| n << 8 | u32::from(b))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, pattern: &str, expected: bool) {
        assert_eq!(Pattern::new(pattern).matches(text.as_bytes()), expected, "{text:?} LIKE {pattern:?}");
    }

    #[test]
    fn patterns_match_as_in_arrow() {
        check("foobar", "%oob%", true);
        check("foobar", "foo_ar", true);
        check("foobar", "foo_r", false);
        check("", "%", true);
        check("", "", true);
        check("", "_", false);
        check("a\nb", "a_b", true);
        check("a\nb", "a%b", true);
        check("%", r"\%", true);
        check("x", r"\%", false);
        check(r"\", r"\", true);
        check(r"\", r"\\", true);
        check(r"a\", r"%a\", true);
        check("xa", r"%\a", true);
        check("é", "_", true);
        check("é", "__", false);
        check("日本語", "_本_", true);
        check("日本語", "%_本%", true);
        check("日本語", "%__本%", false);
        check("aXbXc", "a%X%X%c", true);
        check("aXc", "a%X%X%c", false);
        check("ab", "ab%ab", false);
        check("abab", "ab%ab", true);
        check("special requests", "%special%requests%", true);
        check("requests special", "%special%requests%", false);
        check("a_b", r"a\_b", true);
        check("axb", r"a\_b", false);
    }

    #[test]
    fn hostile_patterns_take_bounded_steps() {
        let text = "a".repeat(100_000);
        let check = |pattern: &str| {
            let (mut steps, p) = (0, Pattern::new(pattern));
            p.matches_counted(text.as_bytes(), &mut steps);
            let bound = (text.len() * pattern.len().div_ceil(64)) as u64;
            assert!(
                steps <= bound,
                "{steps} steps, at most {bound}, for a pattern of {} bytes",
                pattern.len()
            );
        };
        check(&"%a_".repeat(1000));
        check(&("%a_a".repeat(1000) + "%b"));
        check(&format!("%{}_b%", "a".repeat(4000)));
        check(&"%_".repeat(2000));
        check(&"_%".repeat(2000));
        check(&("%".to_owned() + &"_a".repeat(2000) + "b%"));
    }

    fn naive(text: &[char], pattern: &[char]) -> bool {
        match pattern {
            [] => text.is_empty(),
            ['%', rest @ ..] => (0..=text.len()).any(|n| naive(&text[n..], rest)),
            ['_', rest @ ..] => !text.is_empty() && naive(&text[1..], rest),
            ['\\', c, rest @ ..] | [c, rest @ ..] => text.first() == Some(c) && naive(&text[1..], rest),
        }
    }

    proptest! {
        #[test]
        fn matching_is_what_the_definition_says(text in "[abé日%_\\\\]{0,9}", pattern in "[abé日%_\\\\]{0,7}") {
            let chars = |s: &str| s.chars().collect::<Vec<_>>();
            let p = Pattern::new(&pattern);
            let expected = naive(&chars(&text), &chars(&pattern));
            prop_assert_eq!(p.matches(text.as_bytes()), expected);
            prop_assert!(!expected || text.as_bytes().starts_with(p.prefix()));
            prop_assert!(!expected || p.exact().is_none_or(|e| e == text.as_bytes()));
        }
    }
}
