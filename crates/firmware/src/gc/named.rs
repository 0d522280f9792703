//! How the options of a drive name its policy: one of the table [`POLICIES`], or one that the caller brings.
//!
//! ```text
//!   DriveOptions::gc_policy ─► make, once a drive ─► Box<dyn Policy> ─► cleaner
//! ```

use std::fmt;
use std::sync::Arc;

use super::POLICIES;
use super::policy::{NamedPolicy, Policy};

/// The policy of a drive: which, and how one is made when the drive is opened.
#[derive(Clone)]
pub struct GcPolicy(Source);

#[derive(Clone)]
enum Source {
    Table(&'static NamedPolicy),
    Custom { name: &'static str, make: Arc<dyn Fn() -> Box<dyn Policy> + Send + Sync> },
}

impl NamedPolicy {
    /// The policy of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        POLICIES.iter().find(|p| p.name == name)
    }
}

impl GcPolicy {
    /// The policy of this name in [`POLICIES`].
    pub fn named(name: &str) -> Option<Self> {
        NamedPolicy::named(name).map(Self::from)
    }

    /// A policy that is not in the table: `make` makes one for each drive that is opened.
    pub fn custom<P: Policy + 'static>(
        name: &'static str,
        make: impl Fn() -> P + Send + Sync + 'static,
    ) -> Self {
        Self(Source::Custom { name, make: Arc::new(move || Box::new(make())) })
    }

    /// Its name, as in reports.
    pub fn name(&self) -> &'static str {
        match &self.0 {
            Source::Table(policy) => policy.name,
            Source::Custom { name, .. } => name,
        }
    }

    /// A new one, which has seen nothing.
    pub fn make(&self) -> Box<dyn Policy> {
        match &self.0 {
            Source::Table(policy) => (policy.make)(),
            Source::Custom { make, .. } => make(),
        }
    }
}

impl Default for GcPolicy {
    fn default() -> Self {
        Self::from(&POLICIES[0])
    }
}

impl From<&'static NamedPolicy> for GcPolicy {
    fn from(policy: &'static NamedPolicy) -> Self {
        Self(Source::Table(policy))
    }
}

impl fmt::Debug for NamedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Debug for GcPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for NamedPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedPolicy {}

impl PartialEq for GcPolicy {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Source::Table(a), Source::Table(b)) => a == b,
            (Source::Custom { make: a, .. }, Source::Custom { make: b, .. }) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for GcPolicy {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::gc::{Choice, GcView};

    #[test]
    fn names_are_distinct_and_found() {
        let names: HashSet<_> = POLICIES.iter().map(|p| p.name).collect();
        assert_eq!(names.len(), POLICIES.len());
        for p in POLICIES {
            assert_eq!(NamedPolicy::named(p.name), Some(p));
            assert_eq!(GcPolicy::named(p.name).map(|g| g.name()), Some(p.name));
            assert!(!p.about.is_empty());
        }
        assert_eq!(POLICIES[0].name, "min-cost-decline");
        assert_eq!(GcPolicy::default(), GcPolicy::named("min-cost-decline").unwrap());
        assert_eq!((NamedPolicy::named("none"), GcPolicy::named("none")), (None, None));
        assert_ne!(POLICIES[0], POLICIES[1]);
        assert_eq!(
            format!("{:?} {:?}", POLICIES[0], GcPolicy::default()),
            "min-cost-decline min-cost-decline"
        );
    }

    #[test]
    fn a_policy_of_ones_own_is_equal_to_its_clones_only() {
        struct Never;
        impl Policy for Never {
            fn choose(&mut self, _: &GcView<'_>) -> Choice {
                Choice::Decline
            }
        }
        let never = GcPolicy::custom("never", || Never);
        assert_eq!((never.clone(), never.name()), (never.clone(), "never"));
        assert_ne!(never, GcPolicy::custom("never", || Never));
        assert_ne!(never, GcPolicy::default());
    }
}
