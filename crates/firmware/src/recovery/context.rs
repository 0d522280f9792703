//! What the steps of a recovery share.

use std::path::Path;

use lode_base::Geometry;
use lode_flash::Medium;
use parking_lot::MutexGuard;

use crate::FirmwareError;
use crate::codec::Malformed;
use crate::commit::{CommitState, Committer};
use crate::core::Core;
use crate::env::Env;
use crate::pages::Pages;

/// A recovery under way.
#[derive(Clone, Copy)]
pub(super) struct Recovery<'a> {
    core: &'a Core,
}

impl<'a> Recovery<'a> {
    pub(super) fn new(core: &'a Core) -> Self {
        Self { core }
    }

    pub(super) fn core(self) -> &'a Core {
        self.core
    }

    pub(super) fn env(self) -> &'a Env {
        self.core.env()
    }

    pub(super) fn pages(self) -> &'a Pages {
        self.core.pages()
    }

    pub(super) fn medium(self) -> &'a Medium {
        self.core.env().medium()
    }

    pub(super) fn geometry(self) -> &'a Geometry {
        self.core.env().geometry()
    }

    pub(super) fn committer(self) -> Committer<'a> {
        self.core.committer()
    }

    /// Takes the commit lock.
    pub(super) fn state(self) -> MutexGuard<'a, CommitState> {
        self.core.state()
    }
}

/// A structure is not what was written.
pub(super) fn damaged(path: &Path, what: &str, m: &Malformed) -> FirmwareError {
    FirmwareError::damaged(path, format!("{what}: {m}"))
}
