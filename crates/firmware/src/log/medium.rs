//! What the log needs of a medium: a small trait, so that tests can put faults in between.

use std::path::Path;

use lode_base::{EblockId, Geometry, PageBuf, PageBufMut, Ppa};
use lode_flash::{FlashError, Generation, Medium};

pub(crate) trait LogMedium {
    fn geometry(&self) -> &Geometry;

    /// The name in messages.
    fn path(&self) -> &Path;

    /// The number of this opening of the medium.
    fn open_epoch(&self) -> u32;

    fn generation(&self, e: EblockId) -> Generation;

    /// The WBLOCK that can be programmed next; the number of WBLOCKs when the EBLOCK is ended.
    fn next_wblock(&self, e: EblockId) -> u32;

    /// Says which WBLOCK can be programmed next.
    fn set_next_wblock(&self, e: EblockId, wblock: u32);

    /// Programs whole WBLOCKs whose tags lie inside. After a failure some of them may be there.
    fn program(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError>;

    /// Overwrites `count` WBLOCKs of an ended EBLOCK, of which nothing is needed: fails if the file system has no space.
    fn overwrite(&self, e: EblockId, wblock: u32, count: u32) -> Result<(), FlashError> {
        let g = *self.geometry();
        assert_eq!(self.next_wblock(e), g.wblocks_per_eblock(), "{e:?} is not ended");
        let nothing = PageBufMut::zeroed((count * g.wblock_bytes()) as usize).freeze();
        self.set_next_wblock(e, wblock);
        let written = self.program(e, wblock, &nothing);
        self.set_next_wblock(e, g.wblocks_per_eblock());
        written
    }

    /// Makes durable what was programmed, and what failed programs left.
    fn sync(&self) -> Result<(), FlashError>;

    /// Reads whatever is there.
    fn read(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError>;
}

impl LogMedium for Medium {
    fn geometry(&self) -> &Geometry {
        self.geometry()
    }

    fn path(&self) -> &Path {
        self.path()
    }

    fn open_epoch(&self) -> u32 {
        self.open_epoch()
    }

    fn generation(&self, e: EblockId) -> Generation {
        self.generation(e)
    }

    fn next_wblock(&self, e: EblockId) -> u32 {
        self.next_wblock(e)
    }

    fn set_next_wblock(&self, e: EblockId, wblock: u32) {
        self.set_next_wblock(e, wblock);
    }

    fn program(&self, e: EblockId, wblock: u32, data: &PageBuf) -> Result<(), FlashError> {
        self.program_tagged_inside(e, wblock, data)
    }

    fn sync(&self) -> Result<(), FlashError> {
        self.sync()
    }

    fn read(&self, at: Ppa, len: u32) -> Result<PageBuf, FlashError> {
        self.read_unverified(at, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the log asks of a medium, the medium does.
    #[test]
    fn the_log_speaks_to_the_medium_itself() {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 1 << 20, 16).unwrap();
        let (medium, power) = Medium::with_power(g);
        let (e, data) = (EblockId::new(3), PageBufMut::zeroed(8192).freeze());
        let generation = medium.erase(e).unwrap();
        let log: &dyn LogMedium = &medium;
        assert_eq!((log.geometry(), log.path(), log.open_epoch()), (&g, medium.path(), medium.open_epoch()));
        assert_eq!((log.generation(e), log.next_wblock(e)), (generation, 0));
        log.program(e, 0, &data).unwrap();
        assert_eq!(log.next_wblock(e), 2);
        let spare = EblockId::new(4);
        medium.erase(spare).unwrap();
        medium.set_next_wblock(spare, g.wblocks_per_eblock());
        log.overwrite(spare, 3, 2).unwrap();
        assert_eq!(log.next_wblock(spare), g.wblocks_per_eblock(), "it stays ended");
        let later = medium.after_power_cut().unwrap();
        assert_eq!(LogMedium::open_epoch(&later), medium.open_epoch() + 1);
        // A sync is one of the operations that power can go in.
        let before = power.operations();
        log.sync().unwrap();
        assert!(power.operations() > before);
        power.cut();
        let (found, _) = power.restored(1).unwrap();
        found.set_generation(e, generation);
        assert_eq!(LogMedium::read(&found, g.ppa(e, 0).unwrap(), 8192).unwrap(), data);
    }
}
