//! Random operations on media in memory, simulated, and in a file, compared with a simple model.

use std::collections::HashMap;

use lode_base::{EblockId, Geometry, PageBuf};
use lode_flash::{FlashError, Generation, Medium, WblockState};
use proptest::prelude::*;

/// EBLOCKs of 256 KB, so that four share a group of tags, and WBLOCKs that straddle no group.
const EBLOCKS: u32 = 12;
const WBLOCK_BYTES: usize = 16_384;
const EBLOCK_BYTES: u32 = 256 << 10;

#[derive(Clone, Debug)]
enum Op {
    Erase(u32),
    Program { eblock: u32, wblocks: u32, seed: u8, tagged: bool },
    Read { eblock: u32, offset: u32, len: u32 },
    Discard(u32),
    Sync,
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let program = (0..EBLOCKS, 1..6u32, any::<u8>(), prop::bool::weighted(0.8));
    let read = (0..EBLOCKS, 0..4096u32, 0..40_000u32);
    prop_oneof![
        2 => (0..EBLOCKS).prop_map(Op::Erase),
        6 => program.prop_map(|(eblock, wblocks, seed, tagged)| Op::Program { eblock, wblocks, seed, tagged }),
        6 => read.prop_map(|(eblock, cell, len)| Op::Read { eblock, offset: cell * 64, len }),
        1 => (0..EBLOCKS).prop_map(Op::Discard),
        1 => Just(Op::Sync),
        1 => Just(Op::Reopen),
    ]
}

/// The contents of an EBLOCK: its generation, and its WBLOCKs' bytes and whether they have tags.
#[derive(Default)]
struct Model {
    eblocks: HashMap<u32, (Generation, Vec<u8>, Vec<bool>)>,
}

impl Model {
    fn read(&self, eblock: u32, offset: u32, len: u32) -> Option<&[u8]> {
        let (_, bytes, tagged) = self.eblocks.get(&eblock)?;
        let (from, to) = (offset as usize, (offset + len) as usize);
        let units = from / 4096 * 4096..to.next_multiple_of(4096);
        let sound = units.step_by(4096).all(|at| tagged.get(at / WBLOCK_BYTES) == Some(&true));
        sound.then(|| &bytes[from..to])
    }
}

fn check(ops: &[Op]) {
    let geometry = Geometry::new(2, 1, 1, 4096, WBLOCK_BYTES as u32, EBLOCK_BYTES, EBLOCKS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let file = Medium::create_file(&path, geometry, 1).unwrap();
    let mut media = vec![Medium::memory(geometry), Medium::simulated(geometry).0, file];
    let mut model = Model::default();
    for op in ops {
        match *op {
            Op::Erase(n) => {
                let g: Vec<_> = media.iter().map(|m| m.erase(EblockId::new(n)).unwrap()).collect();
                assert!(g.iter().all(|x| *x == g[0]), "generations are counted alike");
                model.eblocks.insert(n, (g[0], Vec::new(), Vec::new()));
            }
            Op::Program { eblock, wblocks, seed, tagged } => {
                let Some((_, bytes, flags)) = model.eblocks.get_mut(&eblock) else { continue };
                let wblocks = wblocks.min(geometry.wblocks_per_eblock() - flags.len() as u32) as usize;
                if wblocks == 0 {
                    continue;
                }
                let fill = |i: usize| seed.wrapping_add((i / 97) as u8);
                let data = PageBuf::copy_from(&(0..wblocks * WBLOCK_BYTES).map(fill).collect::<Vec<_>>());
                for m in &media {
                    let (e, at) = (EblockId::new(eblock), flags.len() as u32);
                    let done =
                        if tagged { m.program(e, at, &data) } else { m.program_tagged_inside(e, at, &data) };
                    done.unwrap();
                }
                bytes.extend_from_slice(&data);
                flags.extend(vec![tagged; wblocks]);
            }
            Op::Read { eblock, offset, len } => {
                let e = EblockId::new(eblock);
                let at = geometry.ppa(e, offset).unwrap();
                let len = len.min(geometry.eblock_bytes() - offset);
                for m in &media {
                    match (m.read(at, len), model.read(eblock, offset, len)) {
                        (Ok(got), Some(expected)) => assert_eq!(&*got, expected),
                        (
                            Err(FlashError::WrongGeneration { .. } | FlashError::ChecksumMismatch { .. }),
                            None,
                        ) => {}
                        (got, expected) => {
                            panic!("{m:?}: {got:?}, where the model has {:?}", expected.map(<[u8]>::len))
                        }
                    }
                }
            }
            Op::Discard(n) => {
                media.iter().for_each(|m| m.discard(EblockId::new(n)).unwrap());
                model.eblocks.remove(&n);
            }
            Op::Sync => media.iter().for_each(|m| m.sync().unwrap()),
            Op::Reopen => {
                let file = media.pop().unwrap();
                drop(file);
                media = media.iter().map(|m| m.after_power_cut().unwrap()).collect();
                media.push(Medium::open_file(&path).unwrap());
                for m in &media {
                    for (&n, (g, _, flags)) in &model.eblocks {
                        m.set_generation(EblockId::new(n), *g);
                        m.set_next_wblock(EblockId::new(n), flags.len() as u32);
                    }
                }
            }
        }
    }
    for m in &media {
        for (&n, (_, _, flags)) in &model.eblocks {
            for w in 0..geometry.wblocks_per_eblock() {
                let tagged = flags.get(w as usize) == Some(&true);
                let expected = if tagged { WblockState::Programmed } else { WblockState::Empty };
                assert_eq!(m.probe(EblockId::new(n), w).unwrap(), expected, "{m:?}, EBLOCK {n}, WBLOCK {w}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn memory_simulation_file_and_model_agree(ops in prop::collection::vec(op(), 1..80)) {
        check(&ops);
    }
}
