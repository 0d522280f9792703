//! `SET lode.*`: Lode's settings, as an extension of DataFusion's configuration, so that SET, SHOW and
//! `information_schema.df_settings` know them.

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::error::{DataFusionError, Result};

use std::fmt;
use std::str::FromStr;

use lode_engine::{AccessPath, Changes, Durability};

use crate::Offload;

/// The settings of a session under the prefix `lode.`.
#[derive(Clone, Debug, PartialEq)]
pub struct LodeOptions {
    /// `lode.offload`: how deep scans go into the drive.
    pub offload: Offload,
    /// `lode.bulk_rows`: an INSERT of more rows than this is loaded in bulk, into column pages.
    pub bulk_rows: usize,
    /// `lode.profile`: the modelled device, or `none`. It is chosen where the drive is opened.
    pub profile: String,
    /// `lode.queue_depth`: on a modelled device, the most tasks of a scan that are under way at a time.
    pub queue_depth: u32,
    /// `lode.prefetch`: on a modelled device, whether pages that the drive names are read ahead of the host's work on them.
    pub prefetch: bool,
    /// `lode.default_changes`: where changes of few rows go in tables whose CREATE TABLE does not say.
    pub default_changes: Changes,
    /// `lode.durability`: when commits are durable.
    pub durability: CommitDurability,
    /// `lode.short_statements`: whether statements by a key run without DataFusion. On a modelled device a session begins without.
    pub short_statements: bool,
    /// `lode.index_percent`: the most pages of its table that a B+-tree index may name to be used, in percent.
    pub index_percent: u8,
    /// `lode.index`: how scans find their pages.
    pub index: &'static AccessPath,
    /// `lode.planner`: who orders joins.
    pub planner: Planner,
    /// `lode.join_order`: tables that are joined first, in their order.
    pub join_order: String,
    /// `lode.early_filter`: the table that the drive filters before the host reads its pages.
    pub early_filter: EarlyFilter,
    /// `lode.early_scores`: what predicates score.
    pub early_scores: EarlyScores,
    /// `lode.join`: how joins find the rows that meet.
    pub join: JoinBy,
    /// `lode.join_buffer`: bytes of outer rows that a join by nested loops takes at a time.
    pub join_buffer: usize,
    /// `lode.batched_keys`: whether a join by index looks the keys of all these rows up together.
    pub batched_keys: bool,
}

/// What of the session's settings concerns short statements.
#[derive(Clone, Copy)]
pub(crate) struct ShortSettings {
    /// `lode.short_statements`.
    pub(crate) on: bool,
    /// `lode.bulk_rows`.
    pub(crate) bulk_rows: usize,
}

/// The name of a choice.
fn name_of<T: PartialEq>(named: &[(&'static str, T)], of: &T) -> &'static str {
    named.iter().find(|(_, choice)| choice == of).expect("each choice has a name").0
}

/// The choice of this name, in any case.
fn by_name<T: Copy>(named: &[(&'static str, T)], name: &str) -> Result<T, ()> {
    let name = name.trim();
    named.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, choice)| *choice).ok_or(())
}

/// Who orders the joins of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planner {
    /// DataFusion, which takes tables as FROM names them.
    Off,
    /// The cost of each order, by sampled selectivity.
    #[default]
    Cost,
    /// The same, but for the table that YourSQL would filter early.
    Yoursql,
}

impl Planner {
    /// All, by name.
    const NAMED: [(&str, Self); 3] = [("off", Self::Off), ("cost", Self::Cost), ("yoursql", Self::Yoursql)];
}

impl fmt::Display for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::NAMED, self))
    }
}

impl FromStr for Planner {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        by_name(&Self::NAMED, s)
    }
}

/// Which table the drive filters early: it looks at its pages first, and the host reads those that it flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum EarlyFilter {
    /// The one that the planner chooses.
    #[default]
    Auto,
    /// None.
    None,
    /// This one, if a query filters it.
    Table(String),
}

impl fmt::Display for EarlyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::None => f.write_str("none"),
            Self::Table(name) => f.write_str(name),
        }
    }
}

impl EarlyFilter {
    /// Says the table by this word, or that there is none.
    pub(crate) fn named(word: &str) -> Self {
        match word.trim() {
            word if word.eq_ignore_ascii_case("auto") => Self::Auto,
            word if word.eq_ignore_ascii_case("none") => Self::None,
            name => Self::Table(name.to_owned()),
        }
    }
}

/// What predicates score where YourSQL decides which table is filtered early: those that a row passes if a column equals a value, one of
/// some values, or has a text in it; and each end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyScores {
    /// `=`.
    pub equal: f64,
    /// `IN`.
    pub listed: f64,
    /// `LIKE`.
    pub like: f64,
    /// `<`, `<=`, `>`, `>=`.
    pub range_end: f64,
}

impl EarlyScores {
    const EXPECTED: &str =
        "four numbers from 0 to 100 and commas between them, the scores of =, IN, LIKE and an end of a range";
}

impl Default for EarlyScores {
    fn default() -> Self {
        Self { equal: 4.0, listed: 3.0, like: 3.0, range_end: 1.0 }
    }
}

impl fmt::Display for EarlyScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}, {}", self.equal, self.listed, self.like, self.range_end)
    }
}

impl FromStr for EarlyScores {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        let scores: Result<Vec<f64>, _> = s.split(',').map(|score| score.trim().parse()).collect();
        match scores.as_deref() {
            Ok(&[equal, listed, like, range_end])
                if [equal, listed, like, range_end].iter().all(|score| (0.0..=100.0).contains(score)) =>
            {
                Ok(Self { equal, listed, like, range_end })
            }
            _ => Err(()),
        }
    }
}

/// How joins find the rows that meet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JoinBy {
    /// By hash tables.
    #[default]
    Hash,
    /// By look-ups in an index, for some outer rows at a time, where a table has one.
    Nested,
}

impl JoinBy {
    /// All, by name.
    const NAMED: [(&str, Self); 2] = [("hash", Self::Hash), ("nested", Self::Nested)];
}

impl fmt::Display for JoinBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::NAMED, self))
    }
}

impl FromStr for JoinBy {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        by_name(&Self::NAMED, s)
    }
}

/// The least and the greatest `lode.join_buffer`.
const JOIN_BUFFER_BYTES: std::ops::RangeInclusive<usize> = 1024..=1 << 30;

/// When a commit of a session is durable, as `SET lode.durability` says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitDurability {
    /// When it returns.
    #[default]
    Commit,
    /// At most this many milliseconds later.
    Group(u32),
    /// Some time later: with the next commit that asks for more, or when the drive is closed.
    None,
}

impl CommitDurability {
    /// The milliseconds of `group` without a number.
    const GROUP_MS: u32 = 10;
    /// The longest group time, in milliseconds.
    const GROUP_MS_MAX: u32 = 60_000;

    /// The engine's setting for this.
    pub(crate) fn of_engine(self) -> Durability {
        match self {
            Self::Commit => Durability::Commit,
            Self::Group(_) => Durability::Group,
            Self::None => Durability::None,
        }
    }
}

impl fmt::Display for CommitDurability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Commit => f.write_str("commit"),
            Self::Group(ms) => write!(f, "group({ms})"),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for CommitDurability {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        let s = s.trim().to_ascii_lowercase();
        match s.as_str() {
            "commit" => Ok(Self::Commit),
            "none" => Ok(Self::None),
            "group" => Ok(Self::Group(Self::GROUP_MS)),
            s => {
                let ms = s
                    .strip_prefix("group")
                    .map(str::trim)
                    .and_then(|s| s.strip_prefix('(')?.strip_suffix(')'));
                let ms = ms.and_then(|ms| ms.trim().parse().ok());
                ms.filter(|ms| (1..=Self::GROUP_MS_MAX).contains(ms)).map(Self::Group).ok_or(())
            }
        }
    }
}

impl Default for LodeOptions {
    fn default() -> Self {
        Self {
            offload: Offload::default(),
            bulk_rows: 100_000,
            profile: "none".into(),
            queue_depth: 32,
            prefetch: true,
            default_changes: Changes::Delta,
            durability: CommitDurability::default(),
            short_statements: true,
            index_percent: 25,
            index: AccessPath::AUTO,
            planner: Planner::default(),
            join_order: String::new(),
            early_filter: EarlyFilter::default(),
            early_scores: EarlyScores::default(),
            join: JoinBy::default(),
            join_buffer: 4 << 20,
            batched_keys: true,
        }
    }
}

impl LodeOptions {
    /// The settings in `config`, or the defaults where Lode is not installed.
    pub fn of(config: &ConfigOptions) -> Self {
        config.extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Whether scans are told of filters that the host evaluates.
    pub(crate) fn may_filter_early(&self) -> bool {
        match self.early_filter {
            EarlyFilter::Auto => self.planner == Planner::Yoursql,
            EarlyFilter::None => false,
            EarlyFilter::Table(_) => true,
        }
    }
}

impl ConfigExtension for LodeOptions {
    const PREFIX: &'static str = "lode";
}

impl ExtensionOptions for LodeOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "offload" => {
                self.offload = value.parse().map_err(|_| {
                    bad(key, value, "off, index, matches, hints, pages, rows, aggregate or auto")
                })?;
            }
            "bulk_rows" => {
                self.bulk_rows = value.parse().map_err(|_| bad(key, value, "a number of rows"))?;
            }
            "index_percent" => {
                let percent = value.parse().ok().filter(|p| *p <= 100);
                self.index_percent = percent.ok_or_else(|| bad(key, value, "a number from 0 to 100"))?;
            }
            "index" => {
                let path = AccessPath::named(value);
                self.index = path.ok_or_else(|| bad(key, value, &AccessPath::names()))?;
            }
            "queue_depth" => {
                let depth = value.parse().ok().filter(|d| (1..=65_536).contains(d));
                self.queue_depth = depth.ok_or_else(|| bad(key, value, "a number from 1 to 65536"))?;
            }
            "default_changes" => {
                let changes = Changes::named(&value.to_ascii_lowercase());
                self.default_changes = changes.ok_or_else(|| bad(key, value, "delta or pages"))?;
            }
            "durability" => {
                self.durability = value
                    .parse()
                    .map_err(|()| bad(key, value, "commit, group(milliseconds, from 1 to 60000) or none"))?;
            }
            "short_statements" => self.short_statements = switch(key, value)?,
            "prefetch" => self.prefetch = switch(key, value)?,
            "planner" => {
                self.planner = value.parse().map_err(|()| bad(key, value, "off, cost or yoursql"))?;
            }
            "join_order" => self.join_order = value.trim().to_owned(),
            "early_filter" => self.early_filter = EarlyFilter::named(value),
            "early_scores" => {
                self.early_scores = value.parse().map_err(|()| bad(key, value, EarlyScores::EXPECTED))?;
            }
            "join" => self.join = value.parse().map_err(|()| bad(key, value, "hash or nested"))?,
            "join_buffer" => {
                let bytes = value.parse().ok().filter(|b| JOIN_BUFFER_BYTES.contains(b));
                self.join_buffer =
                    bytes.ok_or_else(|| bad(key, value, "a number of bytes from 1024 to 1073741824"))?;
            }
            "batched_keys" => self.batched_keys = switch(key, value)?,
            "profile" if value == self.profile => {}
            "profile" => return Err(bad(key, value, "a choice when the drive is opened, by --profile")),
            _ => return Err(DataFusionError::Configuration(format!("there is no setting lode.{key}"))),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |key: &str, value: String, description| ConfigEntry {
            key: format!("{}.{key}", Self::PREFIX),
            value: Some(value),
            description,
        };
        vec![
            entry(
                "offload",
                self.offload.to_string(),
                "How deep scans go into the drive: off, index, matches, hints, pages, rows, aggregate or auto",
            ),
            entry(
                "bulk_rows",
                self.bulk_rows.to_string(),
                "An INSERT of more rows than this is loaded in bulk, into column pages",
            ),
            entry(
                "default_changes",
                self.default_changes.name().into(),
                "Where changes of few rows go in new tables: delta or pages",
            ),
            entry(
                "durability",
                self.durability.to_string(),
                "When commits are durable: commit, group(milliseconds) or none",
            ),
            entry(
                "planner",
                self.planner.to_string(),
                "Who orders joins: off (as FROM names the tables), cost (by sampled selectivity) or yoursql (the table \
                 that the drive filters best comes first)",
            ),
            entry(
                "index",
                self.index.to_string(),
                "How scans find their pages: auto, none (every page is read), btree (B+-trees wherever one fits), page_index (the \
                 drive's, by levels) or flixr_s (the drive's, one decision a page)",
            ),
            entry(
                "index_percent",
                self.index_percent.to_string(),
                "The most pages of its table that a B+-tree index may name to be used, in percent",
            ),
            entry(
                "early_filter",
                self.early_filter.to_string(),
                "The table that the drive filters before the host reads its pages: auto (by the planner), none, or a name",
            ),
            entry(
                "early_scores",
                self.early_scores.to_string(),
                "With lode.planner = yoursql: what the predicates =, IN and LIKE and an end of a range score",
            ),
            entry(
                "join",
                self.join.to_string(),
                "How joins find rows that meet: hash, or nested (look-ups in indexes, where a table has one)",
            ),
            entry(
                "join_buffer",
                self.join_buffer.to_string(),
                "Bytes of outer rows that a join by look-ups takes at a time",
            ),
            entry(
                "batched_keys",
                on_or_off(self.batched_keys),
                "Whether a join by look-ups looks the keys of many outer rows up together: on or off",
            ),
            entry(
                "join_order",
                self.join_order.clone(),
                "Tables that are joined first, in their order, with lode.planner = cost; empty: by cost",
            ),
            entry(
                "profile",
                self.profile.clone(),
                "The modelled device, or none; chosen when the drive is opened",
            ),
            entry(
                "prefetch",
                on_or_off(self.prefetch),
                "Whether the host reads named pages ahead of its work, on a modelled device: on or off",
            ),
            entry(
                "queue_depth",
                self.queue_depth.to_string(),
                "Tasks of a scan under way at a time on a modelled device, at most",
            ),
            entry(
                "short_statements",
                on_or_off(self.short_statements),
                "Whether statements by a key run without DataFusion's planner: on or off",
            ),
        ]
    }
}

fn switch(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(bad(key, value, "on or off")),
    }
}

fn on_or_off(on: bool) -> String {
    if on { "on" } else { "off" }.into()
}

fn bad(key: &str, value: &str, expected: &str) -> DataFusionError {
    DataFusionError::Configuration(format!("lode.{key} cannot be '{value}': expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_set_shown_and_refused_by_name() {
        let mut config = ConfigOptions::new();
        config.extensions.insert(LodeOptions::default());
        config.set("lode.offload", "pages").unwrap();
        assert_eq!(LodeOptions::of(&config).offload, Offload::Pages);
        assert!(config.set("lode.offload", "most").unwrap_err().to_string().contains("off, index"));
        for (value, shown) in
            [("none", "none"), ("GROUP", "group(10)"), ("group( 5 )", "group(5)"), ("commit", "commit")]
        {
            config.set("lode.durability", value).unwrap();
            assert_eq!(LodeOptions::of(&config).durability.to_string(), shown);
        }
        for value in ["group(0)", "group(60001)", "group(5", "group()", "soon", ""] {
            assert!(config.set("lode.durability", value).unwrap_err().to_string().contains("group(milli"));
        }
        assert!(config.set("lode.depth", "1").unwrap_err().to_string().contains("lode.depth"));
        let entries = config.entries();
        assert!(entries.iter().any(|e| e.key == "lode.offload" && e.value.as_deref() == Some("pages")));
    }
}
