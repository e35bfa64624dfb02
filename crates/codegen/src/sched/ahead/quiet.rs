//! May loads of global memory pass the barriers of a kernel?
//!
//! A barrier makes seen what other threads have written before it, and what these have seen by fences and accesses that order. Where no thread
//! writes global memory before its last barrier, and none orders memory in any other way, what a load gives is the same on either side of one: a load and
//! a write that nothing orders race, and PTX says nothing of what the load gives then.

use crate::cfg::Cfg;
use crate::mir::{Func, Op};
use crate::sched::memory::memory;
use sass::form::ModName as M;
use sass::forms as F;
use sass::inst::Inst as Sass;
use sass::latency::Class;

/// Global memory, as in [`memory`].
pub const GLOBAL: u8 = 1;

/// Threads of a CTA, warp or cluster wait for each other, or one for what it copies into shared memory, or for a product.
pub fn barrier(s: &Sass) -> bool {
    matches!(
        s.form().mnemonic,
        "BAR" | "WARPSYNC" | "SYNCS" | "LDGDEPBAR" | "DEPBAR" | "FENCE" | "WARPGROUP" | "UCGABAR_ARV" | "UCGABAR_WAIT"
    )
}

/// What an instruction does to what others see.
#[derive(PartialEq)]
enum Kind {
    Nothing,
    Barrier,
    /// An ordinary write of global memory, or what may be one.
    Write,
    /// Orders memory, or nobody knows.
    Other,
}

fn kind(op: &Op) -> Kind {
    let s = match op {
        Op::Sass(s) => s,
        Op::Copy(_) => return Kind::Nothing,
        _ => return Kind::Other,
    };
    if barrier(s) {
        return Kind::Barrier;
    }
    let (m, form) = (memory(s), s.form());
    let plain = match form.class {
        Class::Shared | Class::Local => matches!(form.mnemonic, "LDS" | "STS" | "LDL" | "STL" | "LDSM" | "STSM"),
        _ => matches!(form.mnemonic, "LDG" | "STG" | "LD" | "ST") && s.modifier(M::Sem) == 0,
    };
    match m {
        m if !m.ordered || s.form == F::LDGSTS => Kind::Nothing,
        _ if form.effects.sync || !plain => Kind::Other,
        m if m.spaces & GLOBAL != 0 => Kind::Write,
        _ => Kind::Nothing,
    }
}

/// True for a kernel that writes no global memory before a barrier, and where nothing else makes seen what others write.
pub fn quiet(f: &Func, cfg: &Cfg) -> bool {
    if !f.entry {
        return false;
    }
    let n = f.blocks.len();
    // By block: a barrier is in it; may come behind its end.
    let (mut within, mut behind) = (vec![false; n], vec![false; n]);
    let mut writes = false;
    for &b in &cfg.rpo {
        for inst in &f.blocks[b as usize].insts {
            match kind(&inst.op) {
                Kind::Nothing => {}
                Kind::Barrier => within[b as usize] = true,
                Kind::Write => writes = true,
                Kind::Other => return false,
            }
        }
    }
    if !writes {
        return true;
    }
    let mut work: Vec<u32> = cfg.rpo.iter().copied().filter(|&b| within[b as usize]).collect();
    while let Some(b) = work.pop() {
        for &p in &cfg.preds[b as usize] {
            if !std::mem::replace(&mut behind[p as usize], true) {
                work.push(p);
            }
        }
    }
    cfg.rpo.iter().all(|&b| {
        let mut waits = behind[b as usize];
        f.blocks[b as usize].insts.iter().rev().all(|i| match kind(&i.op) {
            Kind::Barrier => {
                waits = true;
                true
            }
            Kind::Write => !waits,
            _ => true,
        })
    })
}
