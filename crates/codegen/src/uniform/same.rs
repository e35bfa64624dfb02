//! What is the same in all threads of a warp, whatever registers it is in.

use super::forms::uniform_form;
use crate::cfg::Cfg;
use crate::mir::operands::names_physical;
use crate::mir::{Func, Op, Term, Vreg};
use sass::inst::Operand;
use sass::latency::Class;
use sass::reg::{File, Reg};

/// True for a block whose successors are entered by all threads of a warp, if they come from blocks like it alone.
pub(super) fn whole(f: &Func, b: u32) -> bool {
    let block = &f.blocks[b as usize];
    let apart = matches!(&block.term, Term::CondBr { then, els, .. } if then.block == els.block);
    !block.divergent && !apart
}

/// By value: it is the same in all threads of a warp. Optimistic, so that counters of loops are found.
pub(super) fn same(f: &Func, cfg: &Cfg) -> Vec<bool> {
    let mut out = vec![true; f.vregs.len()];
    f.live_in.iter().for_each(|l| out[l.0.index()] = false);
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        if block.divergent || b == 0 || !cfg.preds[b as usize].iter().all(|&p| whole(f, p)) {
            block.params.iter().for_each(|p| out[p.index()] = shared(f, *p));
        }
        for inst in &block.insts {
            if block.divergent || !repeats(&inst.op) {
                f.defs(&inst.op, |v| out[v.index()] = shared(f, v));
            }
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            for inst in &block.insts {
                let mut all = true;
                f.uses(&inst.op, |v| all &= out[v.index()]);
                if !all {
                    f.defs(&inst.op, |v| {
                        changed |= std::mem::replace(&mut out[v.index()], shared(f, v)) && !shared(f, v)
                    });
                }
            }
            for e in block.term.edges() {
                let params = &f.blocks[e.block.0 as usize].params;
                for (&p, &a) in params.iter().zip(&e.args) {
                    changed |= !out[a.index()] && std::mem::replace(&mut out[p.index()], shared(f, p)) && !shared(f, p);
                }
            }
        }
    }
    out
}

/// True for a value that all threads of a warp share as it is in a uniform register.
fn shared(f: &Func, v: Vreg) -> bool {
    matches!(f.vregs[v.index()], File::Ugpr | File::Upred)
}

/// True for what gives the same in all threads that give it the same.
fn repeats(op: &Op) -> bool {
    match op {
        Op::Copy(pairs) => pairs.iter().all(|p| p.1.is_virtual() || p.1.is_const()),
        Op::Sass(s) if uniform_form(s).is_some() => true,
        Op::Sass(s) => {
            let effects = s.form().effects;
            let plain = !effects.load && !effects.store && !effects.sync && !effects.flow && !effects.cross_lane;
            let computes = matches!(
                s.form().class,
                Class::Alu
                    | Class::Pack
                    | Class::Fma
                    | Class::FmaInt
                    | Class::FmaWide
                    | Class::Half
                    | Class::Double
                    | Class::Xu
            );
            plain && computes && s.guard == Operand::reg(Reg::PT) && !names_physical(s, s.registers().reads, true)
        }
        _ => false,
    }
}
