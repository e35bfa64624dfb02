//! Which value of the function before spilling each name stands for.

use crate::cfg::Cfg;
use crate::mir::{Func, Op, Vreg};
use sass::reg::Reg;

/// Which value of the input each register holds: reloads and carriers of predicates are new names of old values.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    of: Vec<u32>,
}

impl Symbols {
    /// Marks a predicate in a general register.
    pub const ENCODED: u32 = 1 << 31;

    /// Each value is itself; copies are what they copy.
    pub fn new(f: &Func, cfg: &Cfg) -> Symbols {
        let mut s = Symbols { of: (0..f.vregs.len() as u32).collect() };
        for &b in &cfg.rpo {
            for inst in &f.blocks[b as usize].insts {
                if let Op::Copy(pairs) = &inst.op {
                    for &(d, src) in pairs {
                        s.of[d.index() as usize] = s.source(src);
                    }
                }
            }
        }
        s
    }

    /// The value in a virtual register; constants and physical registers have numbers of their own.
    pub fn source(&self, r: Reg) -> u32 {
        match r.is_virtual() {
            true => self.of[r.index() as usize],
            false => 0x7000_0000 | (r.file() as u32) << 8 | (r.index() & 255),
        }
    }

    /// The value that a name stands for.
    pub fn get(&self, v: Vreg) -> u32 {
        self.of[v.index()]
    }

    /// The value that the next new name stands for.
    pub fn push(&mut self, symbol: u32) {
        self.of.push(symbol);
    }
}
