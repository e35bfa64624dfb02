//! What must hold of a function in machine form: in SSA form before register allocation, on physical registers after it.

use super::operands::{Place, sass_defs, sass_uses};
use super::{CallTarget, Func, Op, Term, Vreg};
use crate::cfg::NONE;
use sass::form::SlotKind;
use sass::inst::Value;
use sass::reg::{File, Reg};

/// Checks a function in SSA form: every value has one definition that dominates its uses, operands fit their slots,
/// edges carry one argument a parameter, of its file; uniform values are made and joined where the warp is whole.
///
/// # Errors
/// The first thing that is wrong.
pub fn ssa(f: &Func) -> Result<(), String> {
    if f.blocks.is_empty() {
        return Err("a function without blocks".into());
    }
    let n = f.blocks.len() as u32;
    for (b, block) in f.blocks.iter().enumerate() {
        if let Some(t) = block.term.successors().iter().find(|t| t.0 >= n) {
            return Err(format!("blk{b} goes to blk{}, which is not there", t.0));
        }
    }
    let cfg = f.cfg();
    let dom = cfg.dominators();
    // Where each value is defined: block, instruction (0: at the start).
    let mut def = vec![(NONE, 0u32); f.vregs.len()];
    let define = |v: Vreg, b: usize, at: u32, def: &mut Vec<(u32, u32)>| -> Result<(), String> {
        let Some(d) = def.get_mut(v.index()) else { return Err(format!("value {} has no file", v.0)) };
        if d.0 != NONE {
            return Err(format!("{} is defined twice, again in blk{b}", f.reg(v)));
        }
        *d = (b as u32, at);
        Ok(())
    };
    for &(v, _) in &f.live_in {
        define(v, 0, 0, &mut def)?;
    }
    for (b, block) in f.blocks.iter().enumerate() {
        for &p in &block.params {
            define(p, b, 0, &mut def)?;
        }
        for (i, inst) in block.insts.iter().enumerate() {
            slots(f, &inst.op).map_err(|m| format!("blk{b}, instruction {i}: {m}"))?;
            let mut bad = None;
            f.defs(&inst.op, |v| {
                if bad.is_none() {
                    bad = define(v, b, i as u32 + 1, &mut def).err();
                }
            });
            if let Some(m) = bad {
                return Err(m);
            }
        }
    }
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let reach = |v: Vreg, at: u32| -> Result<(), String> {
            let Some(&(db, di)) = def.get(v.index()) else { return Err(format!("value {} has no file", v.0)) };
            let ok = db != NONE && if db == b { di < at } else { dom.dominates(db, b) };
            let uniform = matches!(f.vregs[v.index()], File::Ugpr | File::Upred);
            if ok && uniform && db != b && f.blocks[db as usize].divergent {
                // Inside one block selection may take turns.
                return Err(format!("{} outlives blk{db}, where the warp may be apart", f.reg(v)));
            }
            if ok { Ok(()) } else { Err(format!("{} is read in blk{b} where it is not defined", f.reg(v))) }
        };
        for (i, inst) in block.insts.iter().enumerate() {
            let mut bad = None;
            f.uses(&inst.op, |v| {
                if bad.is_none() {
                    bad = reach(v, i as u32 + 1).err();
                }
            });
            if let Some(m) = bad {
                return Err(m);
            }
        }
        let mut bad = None;
        f.term_uses(&block.term, |v| {
            if bad.is_none() {
                bad = reach(v, u32::MAX).err();
            }
        });
        if let Some(m) = bad {
            return Err(m);
        }
        if let Term::CondBr { cond, .. } = &block.term {
            match cond.as_reg().map(Reg::file) {
                Some(File::Pred | File::Upred) => {}
                _ => return Err(format!("the condition of blk{b} is no predicate")),
            }
        }
        for e in block.term.edges() {
            let target = &f.blocks[e.block.0 as usize];
            if e.args.len() != target.params.len() {
                return Err(format!("blk{b} gives blk{} {} arguments", e.block.0, e.args.len()));
            }
            for (&p, &a) in target.params.iter().zip(&e.args) {
                reach(a, u32::MAX)?;
                if f.vregs[p.index()] != f.vregs[a.index()] {
                    return Err(format!("{} is given to {} on the edge from blk{b}", f.reg(a), f.reg(p)));
                }
                if matches!(f.vregs[p.index()], File::Ugpr | File::Upred) && block.divergent {
                    return Err(format!("{} is passed on where the warp may be apart, in blk{b}", f.reg(a)));
                }
            }
        }
        if let Term::Switch { targets, .. } = &block.term {
            if targets.is_empty() {
                return Err(format!("the switch of blk{b} has no targets"));
            }
            if targets.iter().any(|t| !f.blocks[t.0 as usize].params.is_empty()) {
                return Err(format!("the switch of blk{b} goes to a block with parameters"));
            }
        }
    }
    Ok(())
}

/// Operands fit their slots.
fn slots(f: &Func, op: &Op) -> Result<(), String> {
    match op {
        Op::Sass(s) => {
            let form = s.form();
            for (i, slot) in form.slots.iter().enumerate() {
                let width = s.slot_width(i);
                match (slot.kind, s.operands[i].value) {
                    (SlotKind::Reg(file), Value::Reg(r)) => {
                        if r.file() != file {
                            return Err(format!("{}: {r} in a slot of {file:?}", form.name));
                        }
                        register(f, r, width).map_err(|m| format!("{}: {m}", form.name))?;
                    }
                    (SlotKind::Imm { .. }, Value::Imm(_))
                    | (SlotKind::Const, Value::Const { .. })
                    | (SlotKind::Target, Value::Target(_)) => {}
                    _ => return Err(format!("{}: operand {:?} is of the wrong kind", form.name, slot.name)),
                }
            }
            if let Some(r) = s.guard.as_reg() {
                let file = if form.uniform_guard { File::Upred } else { File::Pred };
                if r.file() != file {
                    return Err(format!("{}: guarded by {r}", form.name));
                }
                register(f, r, 1)?;
            }
            Ok(())
        }
        Op::Copy(pairs) => {
            for &(d, s) in pairs {
                let ok = d.is_virtual()
                    && (d.file() == s.file() || (d.file(), s.file()) == (File::Gpr, File::Ugpr))
                    && (s.is_virtual() || s.is_const());
                if !ok {
                    return Err(format!("a copy from {s} to {d}"));
                }
                register(f, d, 1)?;
                register(f, s, 1)?;
            }
            Ok(())
        }
        Op::Call(c) => {
            for &(v, r) in c.args.iter().chain(&c.rets) {
                register(f, f.reg(v), 1)?;
                if r.is_virtual() || r.file() != File::Gpr || (r.index() == 1 || c.keeps.returns_by(r.index())) {
                    return Err(format!("a call with a value in {r}"));
                }
            }
            if let CallTarget::Symbol(n) = c.target
                && n as usize >= f.refs.len()
            {
                return Err("a call of a function that nothing refers to".into());
            }
            let general = |v: &Vreg| f.vregs.get(v.index()) == Some(&File::Gpr);
            if !c.target.values().iter().all(general) {
                return Err("the target of a call is no general register".into());
            }
            Ok(())
        }
        Op::LoadIncoming { .. } | Op::Hold { .. } => Ok(()),
    }
}

fn register(f: &Func, r: Reg, width: u8) -> Result<(), String> {
    if !r.is_virtual() {
        let aligned = r.is_const() || width <= 1 || r.index().is_multiple_of(super::alignment(width as usize) as u32);
        return if aligned { Ok(()) } else { Err(format!("{r} is not aligned to {width} registers")) };
    }
    if r.is_pooled() != (width > 1) {
        return Err(format!("{r} is not {width} registers wide"));
    }
    if width <= 1 {
        return match f.vregs.get(r.index() as usize) {
            Some(&file) if file == r.file() => Ok(()),
            _ => Err(format!("{r} is a value of another file")),
        };
    }
    let Some(list) = f.vecs.get(r.index() as usize) else { return Err(format!("{r} is no vector")) };
    if list.len() != width as usize {
        return Err(format!("a vector of {} where {width} registers are needed", list.len()));
    }
    for (i, v) in list.iter().enumerate() {
        if f.vregs.get(v.index()) != Some(&r.file()) {
            return Err(format!("value {} of a vector is of another file", v.0));
        }
        if list[..i].contains(v) {
            return Err(format!("{} stands twice in a vector", f.reg(*v)));
        }
    }
    Ok(())
}

/// Checks a function after register allocation: every operand is physical, in the range that may be used, aligned.
///
/// # Errors
/// The first thing that is wrong.
pub fn physical(f: &Func) -> Result<(), String> {
    for (b, block) in f.blocks.iter().enumerate() {
        if !block.params.is_empty() || block.term.edges().iter().any(|e| !e.args.is_empty()) {
            return Err(format!("blk{b} still has parameters or arguments"));
        }
        for (i, inst) in block.insts.iter().enumerate() {
            let at = |m: String| format!("blk{b}, instruction {i}: {m}");
            let Op::Sass(s) = &inst.op else {
                if matches!(inst.op, Op::Call(_)) {
                    continue;
                }
                return Err(at("an operation that allocation should have replaced".into()));
            };
            slots(f, &inst.op).map_err(at)?;
            let mut bad = None;
            let mut look = |p: Place| {
                let last = p.reg.index() + p.width as u32 - 1;
                let limit = match p.reg.file() {
                    File::Gpr => f.max_gprs.max(2) - 1,
                    File::Ugpr => 62,
                    File::Pred | File::Upred => 7,
                    File::Bar => 15,
                };
                if p.reg.is_virtual() {
                    bad = Some(format!("{} is virtual", p.reg));
                } else if !p.reg.is_const() && last > limit {
                    bad = Some(format!("{} is beyond the limit", p.reg));
                }
            };
            sass_uses(s, &mut look);
            sass_defs(s, &mut look);
            if let Some(m) = bad {
                return Err(at(m));
            }
        }
        if let Term::CondBr { cond, .. } = &block.term
            && cond.as_reg().is_none_or(Reg::is_virtual)
        {
            return Err(format!("the condition of blk{b} is no physical register"));
        }
    }
    Ok(())
}
