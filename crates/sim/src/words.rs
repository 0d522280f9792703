//! Writes and parses values as words separated by spaces: `{ seed 7 again [ 1 2 ] fault none }`.

use std::fmt;

use lode_base::Geometry;
use lode_flash::FaultKind;

use crate::fault::FaultSet;

/// A text of words in lines.
#[derive(Debug, Default)]
pub struct Writer {
    text: String,
}

impl Writer {
    /// Adds a word to the line.
    pub(crate) fn word(&mut self, word: impl fmt::Display) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push(' ');
        }
        self.text += &word.to_string();
    }

    pub(crate) fn end_line(&mut self) {
        self.text.push('\n');
    }

    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        self.text += &line.to_string();
        self.end_line();
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}

/// The rest of a line. Errors describe what is wrong with it.
#[derive(Debug)]
pub struct Line<'a> {
    words: std::str::SplitWhitespace<'a>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { words: text.split_whitespace() }
    }

    pub(crate) fn next(&mut self) -> Result<&'a str, String> {
        self.words.next().ok_or_else(|| "the line ends too early".into())
    }

    /// Takes the next word, which must be this one.
    pub(crate) fn expect(&mut self, word: &str) -> Result<(), String> {
        match self.next()? {
            got if got == word => Ok(()),
            got => Err(format!("'{got}' where '{word}' is expected")),
        }
    }

    /// Checks that nothing is left.
    pub(crate) fn ends(&mut self) -> Result<(), String> {
        match self.words.next() {
            None => Ok(()),
            Some(word) => Err(format!("'{word}' is left over")),
        }
    }
}

/// The error for an unknown word.
pub(crate) fn unknown<T>(word: &str) -> Result<T, String> {
    Err(format!("'{word}' is not known here"))
}

/// A value that can be written as words and parsed again.
pub trait Words: Sized {
    /// Writes the value.
    fn put(&self, w: &mut Writer);

    /// Parses the value from a line.
    ///
    /// # Errors
    /// What is wrong with the line.
    fn take(line: &mut Line<'_>) -> Result<Self, String>;
}

macro_rules! words_of_one {
    ($($of:ty),*) => {
        $(impl Words for $of {
            fn put(&self, w: &mut Writer) {
                w.word(self);
            }

            fn take(line: &mut Line<'_>) -> Result<Self, String> {
                let word = line.next()?;
                word.parse().map_err(|e| format!("'{word}': {e}"))
            }
        })*
    };
}

words_of_one!(bool, u16, u32, u64, i64, usize);

impl<T: Words> Words for Option<T> {
    fn put(&self, w: &mut Writer) {
        match self {
            None => w.word("none"),
            Some(value) => {
                w.word("some");
                value.put(w);
            }
        }
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        match line.next()? {
            "none" => Ok(None),
            "some" => T::take(line).map(Some),
            word => unknown(word),
        }
    }
}

impl<T: Words> Words for Vec<T> {
    fn put(&self, w: &mut Writer) {
        w.word("[");
        self.iter().for_each(|value| {
            w.word("-");
            value.put(w);
        });
        w.word("]");
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        line.expect("[")?;
        let mut all = Self::new();
        loop {
            match line.next()? {
                "-" => all.push(T::take(line)?),
                "]" => return Ok(all),
                word => return unknown(word),
            }
        }
    }
}

impl<A: Words, B: Words> Words for (A, B) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        Ok((A::take(line)?, B::take(line)?))
    }
}

impl<A: Words, B: Words, C: Words> Words for (A, B, C) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
        self.2.put(w);
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        Ok((A::take(line)?, B::take(line)?, C::take(line)?))
    }
}

impl Words for FaultKind {
    fn put(&self, w: &mut Writer) {
        w.word(self.name());
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        let word = line.next()?;
        Self::ALL.iter().find(|k| k.name() == word).copied().map_or_else(|| unknown(word), Ok)
    }
}

impl Words for FaultSet {
    fn put(&self, w: &mut Writer) {
        w.word(self);
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        Self::parse(line.next()?).or_else(|name| unknown(&name))
    }
}

impl Words for Geometry {
    fn put(&self, w: &mut Writer) {
        w.word(format_args!(
            "{{ channels {} ways {} planes {} rblock {} wblock {} eblock {} eblocks {} }}",
            self.channels(),
            self.ways(),
            self.planes(),
            self.rblock_bytes(),
            self.wblock_bytes(),
            self.eblock_bytes(),
            self.eblock_count()
        ));
    }

    fn take(line: &mut Line<'_>) -> Result<Self, String> {
        line.expect("{")?;
        let mut of = |name| line.expect(name).and_then(|()| u32::take(line));
        let (channels, ways, planes) = (of("channels")?, of("ways")?, of("planes")?);
        let (rblock, wblock, eblock, eblocks) = (of("rblock")?, of("wblock")?, of("eblock")?, of("eblocks")?);
        line.expect("}")?;
        Self::new(channels, ways, planes, rblock, wblock, eblock, eblocks).map_err(|e| e.to_string())
    }
}

/// Implements `Words` for a struct: all its fields, by name and in order.
macro_rules! words_of_struct {
    ($of:ident { $($field:ident),* $(,)? }) => {
        impl $crate::words::Words for $of {
            fn put(&self, w: &mut $crate::words::Writer) {
                let Self { $($field),* } = self;
                w.word("{");
                $(
                    w.word(stringify!($field));
                    $crate::words::Words::put($field, w);
                )*
                w.word("}");
            }

            fn take(line: &mut $crate::words::Line<'_>) -> Result<Self, String> {
                line.expect("{")?;
                $(
                    line.expect(stringify!($field))?;
                    let $field = $crate::words::Words::take(line)?;
                )*
                line.expect("}")?;
                Ok(Self { $($field),* })
            }
        }
    };
}

/// Implements `Words` for options with defaults: fields by name. A record may lack fields that were added later.
macro_rules! words_of_options {
    ($of:ident { $($field:ident),* $(,)? } but { $($without:ident),* $(,)? }) => {
        impl $crate::words::Words for $of {
            fn put(&self, w: &mut $crate::words::Writer) {
                let Self { $($field,)* $($without: _),* } = self;
                w.word("{");
                $(
                    w.word(stringify!($field));
                    $crate::words::Words::put($field, w);
                )*
                w.word("}");
            }

            fn take(line: &mut $crate::words::Line<'_>) -> Result<Self, String> {
                line.expect("{")?;
                let mut options = Self::default();
                loop {
                    match line.next()? {
                        $(stringify!($field) => options.$field = $crate::words::Words::take(line)?,)*
                        "}" => return Ok(options),
                        word => return $crate::words::unknown(word),
                    }
                }
            }
        }
    };
}

/// Implements `Words` for an enum: the name of a variant, and its fields by name, or its only unnamed field.
macro_rules! words_of_enum {
    ($of:ident { $($variant:ident $({ $($field:ident),* })? $(($one:ident))?),* $(,)? }) => {
        impl $crate::words::Words for $of {
            fn put(&self, w: &mut $crate::words::Writer) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(($one))? => {
                        w.word(stringify!($variant));
                        $(
                            w.word("{");
                            $(
                                w.word(stringify!($field));
                                $crate::words::Words::put($field, w);
                            )*
                            w.word("}");
                        )?
                        $($crate::words::Words::put($one, w);)?
                    })*
                }
            }

            fn take(line: &mut $crate::words::Line<'_>) -> Result<Self, String> {
                match line.next()? {
                    $(stringify!($variant) => {
                        $(
                            line.expect("{")?;
                            $(
                                line.expect(stringify!($field))?;
                                let $field = $crate::words::Words::take(line)?;
                            )*
                            line.expect("}")?;
                        )?
                        $(let $one = $crate::words::Words::take(line)?;)?
                        Ok(Self::$variant $({ $($field),* })? $(($one))?)
                    })*
                    word => $crate::words::unknown(word),
                }
            }
        }
    };
}

pub(crate) use {words_of_enum, words_of_options, words_of_struct};
