mod turns;

pub(crate) use turns::{ProgramError, Turns};
