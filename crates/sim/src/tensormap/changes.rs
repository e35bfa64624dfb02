//! Tensor maps in global memory that a kernel changes: a copy may use them only after a release by who changed them and an
//! acquire before the use (`fence.proxy.tensormap`), as the copies read them through a proxy of their own. The acquire may be another
//! warp's, if something orders it before the use: the memory model wants the fence on the path that leads there.

use crate::fault::{FaultKind, MemFault};
use crate::shadow::Who;
use rustc_hash::FxHashMap;

/// What happened to an object since it was changed last.
#[derive(Clone, Debug)]
struct Change {
    /// Who changed it.
    by: Who,
    released: bool,
    /// Warps that have acquired it since, and when they did last.
    acquired: FxHashMap<u32, u32>,
}

/// Changed objects, by address.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    list: FxHashMap<u64, Change>,
}

impl Changes {
    /// Somebody changes the object at an address; `released` where the instruction releases it, too.
    pub fn changed(&mut self, at: u64, by: Who, released: bool) {
        self.list.insert(at, Change { by, released, acquired: FxHashMap::default() });
    }

    /// A warp releases what it has changed.
    pub fn release(&mut self, warp: u32) {
        self.list.values_mut().filter(|c| c.by.warp == warp).for_each(|c| c.released = true);
    }

    /// A warp acquires the object at an address, at a moment.
    pub fn acquire(&mut self, at: u64, warp: u32, now: u32) {
        if let Some(c) = self.list.get_mut(&at).filter(|c| c.released) {
            c.acquired.insert(warp, now);
        }
    }

    /// A copy of a warp uses the object at an address; `knows` says whether what another warp did at a moment comes before.
    ///
    /// # Errors
    /// It was changed, and a fence is missing: which.
    pub fn used(&self, at: u64, warp: u32, knows: impl Fn(u32, u32) -> bool) -> Result<(), MemFault> {
        let Some(c) = self.list.get(&at) else { return Ok(()) };
        let missing = match c.released {
            false => "no fence.proxy.tensormap release",
            true if c.acquired.iter().any(|(&w, &time)| w == warp || knows(w, time)) => return Ok(()),
            true => "no fence.proxy.tensormap acquire",
        };
        let message = format!("the tensor map at {at:#x} was changed, and {missing} came between");
        Err(MemFault { kind: FaultKind::Race, message, earlier: Some(c.by) })
    }
}
