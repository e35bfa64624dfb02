//! Barriers, warp-wide instructions, calls.

use super::*;

impl Decoder<'_> {
    pub(super) fn barrier(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        if inst.has(Mod::Warp) {
            let mask = self.src(ops.first().ok_or("")?, T::U32)?;
            let key = self.key(inst);
            return Ok(Exec::Collective { mask, key, op: Collective::Sync });
        }
        if inst.has(Mod::Cluster) {
            let release = !inst.has(Mod::Relaxed);
            return Ok(if inst.has(Mod::Arrive) { Exec::ClusterArrive { release } } else { Exec::ClusterWait });
        }
        let none = Slot::NONE;
        let aligned = inst.op == Op::Bar || inst.has(Mod::Aligned);
        if inst.has(Mod::Red) {
            let n = ops.len();
            if n < 3 {
                return gap("operands are missing");
            }
            let a = self.psrc(&ops[n - 1])?;
            let d = if inst.has(Mod::Popc) {
                BarDest::Popc(self.dst(&ops[0])?)
            } else {
                let p = self.pdst(&ops[0])?.ok_or("a result is wanted")?;
                if inst.has(Mod::And) { BarDest::And(p) } else { BarDest::Or(p) }
            };
            let id = self.src(&ops[1], T::U32)?;
            let count = if n > 3 { self.src(&ops[2], T::U32)? } else { none };
            return Ok(Exec::Barrier { id, count, wait: true, aligned, red: Some(BarRed { a, d }) });
        }
        let id = self.src(ops.first().ok_or("")?, T::U32)?;
        let count = match ops.get(1) {
            Some(c) => self.src(c, T::U32)?,
            None => none,
        };
        Ok(Exec::Barrier { id, count, wait: !inst.has(Mod::Arrive), aligned, red: None })
    }

    /// A number for "the same instruction with the same qualifiers".
    pub(super) fn key(&mut self, inst: &Inst) -> u32 {
        let known = self.keys.iter().position(|k| k.0 == inst.op && k.1.as_slice() == inst.mods);
        let i = known.unwrap_or_else(|| {
            self.keys.push((inst.op, inst.mods.into()));
            self.keys.len() - 1
        });
        i as u32
    }

    pub(super) fn collective(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        let t = inst.ty();
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else { return gap("operands are missing") };
        let synchronized = inst.has(Mod::Sync);
        let mask = if synchronized { self.src(last, T::U32)? } else { Slot::NONE };
        let given = ops.len() + usize::from(!synchronized);
        let (d, p) = match first {
            Operand::Pair(pair) => (Some(&pair.0), self.pdst(&pair.1)?),
            one => (Some(one), None),
        };
        let d = d.ok_or("")?;
        let op = match inst.op {
            Op::Shfl if given == 5 => Collective::Shfl {
                d: self.dst(d)?,
                p,
                mode: match inst.shift_mode().ok_or("no mode")? {
                    ShiftMode::Up => Shuffle::Up,
                    ShiftMode::Down => Shuffle::Down,
                    ShiftMode::Bfly => Shuffle::Bfly,
                    _ => Shuffle::Idx,
                },
                a: self.src(&ops[1], T::B32)?,
                b: self.src(&ops[2], T::U32)?,
                c: self.src(&ops[3], T::U32)?,
            },
            Op::Vote if given == 3 => {
                let kind = if inst.has(Mod::All) {
                    Vote::All
                } else if inst.has(Mod::Any) {
                    Vote::Any
                } else if inst.has(Mod::Uni) {
                    Vote::Uni
                } else {
                    Vote::Ballot
                };
                let a = self.psrc(&ops[1])?;
                if kind == Vote::Ballot {
                    Collective::Vote { kind, d: self.dst(d)?, p: None, a }
                } else {
                    Collective::Vote { kind, d: Slot::NONE, p: self.pdst(d)?, a }
                }
            }
            Op::Match if synchronized && given == 3 => {
                Collective::Match { all: inst.has(Mod::All), d: self.dst(d)?, p, a: self.src(&ops[1], t)? }
            }
            Op::Redux if synchronized && given == 3 => {
                let f: ReduxFn = match (inst.atom_op().ok_or("no operation")?, t.is_signed()) {
                    (AtomOp::Add, _) => |a, b| a.wrapping_add(b),
                    (AtomOp::Min, true) => |a, b| (a as i32).min(b as i32) as u32,
                    (AtomOp::Max, true) => |a, b| (a as i32).max(b as i32) as u32,
                    (AtomOp::Min, false) if t.is_int() => |a, b| a.min(b),
                    (AtomOp::Max, false) if t.is_int() => |a, b| a.max(b),
                    (AtomOp::And, _) => |a, b| a & b,
                    (AtomOp::Or, _) => |a, b| a | b,
                    (AtomOp::Xor, _) => |a, b| a ^ b,
                    _ => return gap(""),
                };
                Collective::Redux { d: self.dst(d)?, a: self.src(&ops[1], t)?, f }
            }
            Op::Elect if synchronized => Collective::Elect { d: self.dst(d)?, p },
            _ => return gap("operands are missing"),
        };
        let key = self.key(inst);
        Ok(Exec::Collective { mask, key, op })
    }

    pub(super) fn call(&mut self, inst: &Inst) -> Result<Exec> {
        let [Operand::List(rets), target, Operand::List(args), rest @ ..] = inst.operands else {
            return gap("this kind of call");
        };
        let _ = rest;
        let (callee, formals, results) = match target {
            Operand::Func(f) => {
                let func = &self.p.funcs[f.index()];
                let sizes = |v: &[(u32, u32)]| v.iter().map(|p| p.1).collect::<Vec<_>>();
                let (formals, results) = (sizes(&func.params), sizes(&func.returns));
                let callee = if func.defined {
                    Callee::Direct(f.0)
                } else {
                    Callee::System(match func.name.as_str() {
                        "vprintf" => System::Vprintf,
                        "malloc" => System::Malloc,
                        "free" => System::Free,
                        "__assertfail" => System::AssertFail,
                        name => return gap(format!("the function '{name}' has no body")),
                    })
                };
                self.work.push(*f);
                (callee, formals, results)
            }
            other => {
                let s = self.src(other, T::U64)?;
                (Callee::Indirect(s), Vec::new(), Vec::new())
            }
        };
        let pass = |d: &mut Self, op: &Operand, size: Option<u32>| -> Result<(Passed, u32)> {
            if let Operand::Var { var, offset } = op
                && let Place::Frame(off) = d.l.places[var.index()]
            {
                return Ok((Passed::Frame(off + *offset as u32), d.m.vars[var.index()].size() as u32));
            }
            let width = d.width(op).div_ceil(8);
            if let Some(elements) = d.m.funcs[d.func.index()].elements_of(op) {
                let first = d.dst(&elements[0])?;
                let n = elements.len() as u8;
                return Ok((Passed::Slots { first, n, bytes: width as u8 }, width * u32::from(n)));
            }
            if matches!(op, Operand::Reg { .. }) && width == 16 {
                return Ok((Passed::Slots { first: d.halves(op)?[0], n: 2, bytes: 8 }, width));
            }
            if let Operand::Reg { reg, .. } | Operand::NotReg(reg) = op
                && d.is_pred(*reg)
            {
                return Ok((Passed::Pred(d.psrc(op)?), 1));
            }
            Ok((Passed::Slot(d.src(op, T::B64)?), size.unwrap_or(width)))
        };
        let args =
            args.iter().enumerate().map(|(i, a)| pass(self, a, formals.get(i).copied())).collect::<Result<_>>()?;
        let rets =
            rets.iter().enumerate().map(|(i, a)| pass(self, a, results.get(i).copied())).collect::<Result<_>>()?;
        Ok(Exec::Call { callee, args, rets })
    }
}
