//! Where the registers lie that routines for seldom cases may change ([`Keeps::But`]): behind what lives across their calls, so that nothing has to
//! make room for them.

use crate::abi::Keeps;
use crate::mir::liveness::Liveness;
use crate::mir::{Func, Op, Term, Vreg};
use sass::reg::{File, Reg};

/// Chooses the place for a kernel before its registers are assigned, and changes its calls; gives the first register.
pub fn choose(f: &mut Func) -> Option<u8> {
    let light = |op: &Op| match op {
        Op::Call(c) => Some(c.keeps).filter(|k| k.light()),
        _ => None,
    };
    let calls = |b: usize, f: &Func| f.blocks[b].insts.iter().any(|i| light(&i.op).is_some());
    let with: Vec<usize> = (0..f.blocks.len()).filter(|&b| calls(b, f)).collect();
    if with.is_empty() {
        return None;
    }
    let cfg = f.cfg();
    let live = Liveness::new(f, &cfg);
    let (mut most, mut count) = (0u32, 0u8);
    let mut alive = vec![u32::MAX; f.vregs.len()];
    for b in with {
        let mark = b as u32;
        let block = &f.blocks[b];
        let mut now = 0;
        let enter = |v: Vreg, now: &mut u32, alive: &mut Vec<u32>| {
            if f.vregs[v.index()] == File::Gpr && alive[v.index()] != mark {
                alive[v.index()] = mark;
                *now += 1;
            }
        };
        live.live_out[b].iter().for_each(|&v| enter(v, &mut now, &mut alive));
        f.term_uses(&block.term, |v| enter(v, &mut now, &mut alive));
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|&v| enter(v, &mut now, &mut alive));
        for inst in block.insts.iter().rev() {
            f.defs(&inst.op, |v| {
                if f.vregs[v.index()] == File::Gpr && alive[v.index()] == mark {
                    alive[v.index()] = u32::MAX;
                    now -= 1;
                }
            });
            if let Some(Keeps::But(_, n)) = light(&inst.op) {
                most = most.max(now);
                count = count.max(n);
            }
            f.uses(&inst.op, |v| enter(v, &mut now, &mut alive));
        }
    }
    // R1 is one more.
    let room = f.max_gprs.saturating_sub(u32::from(count) + 2) & !1;
    let first = (most + 1).next_multiple_of(2).min(room).max(4) as u8;
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let Op::Call(c) = &mut inst.op
            && let Keeps::But(old, n) = c.keeps
        {
            c.keeps = Keeps::But(first, n);
            c.args.iter_mut().chain(&mut c.rets).for_each(|a| a.1 = moved(a.1, old, first));
        }
    }
    Some(first)
}

/// Puts the registers of a routine where its callers have them.
pub fn place(f: &mut Func, first: u8) {
    let Keeps::But(old, n) = f.keeps else { return };
    f.keeps = Keeps::But(first, n);
    f.live_in.iter_mut().for_each(|a| a.1 = moved(a.1, old, first));
    for b in &mut f.blocks {
        if let Term::Ret(list) = &mut b.term {
            list.iter_mut().for_each(|a| a.1 = moved(a.1, old, first));
        }
    }
}

fn moved(r: Reg, old: u8, first: u8) -> Reg {
    Reg::r((r.index() as u8 - old) + first)
}
