//! The run of a paper's figures: the input of each figure, and whether the user asked to stop.
//!
//! ```text
//!   profile, Scale (command line), Stop ─► Run ─► each figure of a paper
//! ```

use std::any::Any;
use std::ops::RangeInclusive;
use std::sync::Arc;

use lode_base::Profile;

use crate::BenchError;
use crate::drive_host::DriveError;

/// A size that a user may choose, such as the number of records of a table. Figures name it, and the command line has
/// an option of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeOption {
    /// Its name on the command line, without the dashes.
    pub name: &'static str,
    /// The help of the option.
    pub about: &'static str,
    /// The default.
    pub default: u64,
    /// The allowed sizes.
    pub allowed: RangeInclusive<u64>,
}

/// The size of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// Small data and few points, done in seconds.
    pub quick: bool,
    /// Sizes other than the default, by the names of their options.
    pub sizes: Vec<(&'static str, u64)>,
}

/// Tells whether the user asked to stop.
#[derive(Clone)]
pub struct Stop(Arc<dyn Fn() -> bool + Send + Sync>);

impl Stop {
    /// Stops when `wanted` returns true.
    pub fn when(wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(wanted))
    }

    /// Never stops.
    pub fn never() -> Self {
        Self::when(|| false)
    }

    /// Returns an error if the user asked to stop.
    ///
    /// # Errors
    /// [`DriveError::Stopped`].
    pub fn go_on(&self) -> Result<(), DriveError> {
        if (self.0)() { Err(DriveError::Stopped) } else { Ok(()) }
    }
}

/// The input of the figures of a paper, which run one after the other.
pub struct Run<'a> {
    profile: &'a Profile,
    scale: Scale,
    stop: Stop,
    shared: Option<Box<dyn Any>>,
}

impl<'a> Run<'a> {
    /// A run on this platform.
    pub fn new(profile: &'a Profile, scale: &Scale, stop: &Stop) -> Self {
        Self { profile, scale: scale.clone(), stop: stop.clone(), shared: None }
    }

    /// The platform.
    pub fn profile(&self) -> &'a Profile {
        self.profile
    }

    /// Whether the run should take only seconds.
    pub fn quick(&self) -> bool {
        self.scale.quick
    }

    /// The size that the user chose, or the default.
    pub fn size(&self, option: &SizeOption) -> u64 {
        self.scale.sizes.iter().find(|s| s.0 == option.name).map_or(option.default, |s| s.1)
    }

    /// The function that tells whether to stop, for work that outlives a call.
    pub fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Returns an error if the user asked to stop. A figure calls this between steps of a second or less.
    ///
    /// # Errors
    /// [`DriveError::Stopped`].
    pub fn go_on(&self) -> Result<(), DriveError> {
        self.stop.go_on()
    }

    /// A value that the figures of the paper share, such as a table that is made once. The first figure that asks for
    /// the value makes it.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn shared<T: Any>(
        &mut self,
        make: impl FnOnce(&Self) -> Result<T, BenchError>,
    ) -> Result<&mut T, BenchError> {
        let made = match self.shared.take() {
            Some(it) if it.is::<T>() => it,
            _ => Box::new(make(self)?),
        };
        Ok(self.shared.insert(made).downcast_mut().expect("it is of this type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_figures_share_is_made_once() {
        let profile = Profile::find("isp-adms11").unwrap();
        let mut run = Run::new(&profile, &Scale::default(), &Stop::never());
        *run.shared(|_| Ok(1u64)).unwrap() += 1;
        assert_eq!(*run.shared(|_| Ok(7u64)).unwrap(), 2);
        assert!(run.shared::<i8>(|_| Err(BenchError::Interrupted)).is_err());
        assert!(!*run.shared(|r| Ok(r.quick())).unwrap());
    }

    #[test]
    fn a_size_is_what_was_asked_for() {
        let profile = Profile::find("isp-adms11").unwrap();
        let option = SizeOption { name: "rows", about: "", default: 5, allowed: 1..=9 };
        let scale = Scale { sizes: vec![("rows", 9)], ..Scale::default() };
        assert_eq!(Run::new(&profile, &scale, &Stop::never()).size(&option), 9);
        assert_eq!(Run::new(&profile, &Scale::default(), &Stop::never()).size(&option), 5);
        assert!(Run::new(&profile, &scale, &Stop::when(|| true)).go_on().is_err());
    }
}
