//! The messages of a connection: commands, completions, programs, a drive's identity.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lode_base::wire::{Reader, Writer};
use lode_base::{Geometry, PageBuf};
use lode_command::wire::{
    Instead, put_command, put_completion, take_command, take_completion, take_device_error, take_identity,
};

// The first byte selects the message. A decoded message must be the same after encoding and decoding again.
fuzz_target!(|bytes: &[u8]| {
    let [kind, bytes @ ..] = bytes else { return };
    let bytes = PageBuf::copy_from(bytes);
    let r = &mut Reader::new(&bytes);
    let mut again = Vec::new();
    match kind % 4 {
        0 => {
            let Ok(command) = take_command(r) else { return };
            put_command(&mut Writer::new(&mut again), &command, Instead::default());
            let again = PageBuf::copy_from(&again);
            assert!(take_command(&mut Reader::new(&again)).is_ok());
        }
        1 => {
            let g = Geometry::file(1 << 30).expect("a geometry");
            let Ok(completion) = take_completion(r, &g) else { return };
            put_completion(&mut Writer::new(&mut again), &completion);
            let again = PageBuf::copy_from(&again);
            assert!(take_completion(&mut Reader::new(&again), &g).is_ok());
        }
        2 => drop(take_identity(r)),
        _ => drop(take_device_error(r)),
    }
});
