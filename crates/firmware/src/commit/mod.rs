mod action;
mod install;
mod leader;
mod pending;

pub(crate) use action::{Action, Freed, Installed, Overlay, Pinned, Pins, Slot};
