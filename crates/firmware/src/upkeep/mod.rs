mod room;

pub(crate) use room::ALLOCATED_BYTES;
