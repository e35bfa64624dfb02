//! One register for a constant, or what lies in a register of the other kind, that several instructions of a block read.
//!
//! Selection moves a constant into a register for each instruction that cannot have it as an operand. Where the readers stand close to each
//! other one move will do. Runs on SSA form, behind [`super::sink`].

use super::sink::rename;
use crate::mir::operands::{is_store, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg};
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Instructions between two readers that share a register; what waits longer takes more than its move costs.
const NEAR: usize = 48;

/// In place of the block that reads a value.
const NOBODY: u32 = u32::MAX;
const OTHERS: u32 = u32::MAX - 1;

/// What is moved: a constant (of what a linker knows, a number beyond words), or what lies in a register of the other kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum From {
    Constant(i64),
    UniformConstant(i64),
    Uniform(u32),
    General(u32),
    /// Another register of the same kind, ...
    Copy(u32),
    /// ... and that one itself.
    Itself(u32),
}

/// What is in a register: from where, the register, where it was made or read last.
type Kept = (From, Vreg, usize);

/// Words side by side: from where, the registers, where they were read last.
type Row = (SmallVec<[From; 4]>, SmallVec<[Vreg; 4]>, usize);

/// Runs the pass.
pub fn run(f: &mut Func) {
    counts(f);
    // Most functions have no constant twice in one block.
    let mut seen: Vec<From> = Vec::new();
    let twice: Vec<usize> = (0..f.blocks.len())
        .filter(|&b| {
            seen.clear();
            f.blocks[b].insts.iter().for_each(|i| moved(f, &i.op, |from, _| seen.push(from)));
            seen.sort_unstable();
            seen.windows(2).any(|w| w[0] == w[1])
        })
        .collect();
    if twice.is_empty() {
        return;
    }
    let reader = readers(f);
    let reads = super::conditions::reads(f);
    let mut of: Vec<Vreg> = (0..f.vregs.len() as u32).map(Vreg).collect();
    for b in twice {
        let mut changed = false;
        let mut kept: Vec<Kept> = Vec::new();
        let mut insts = std::mem::take(&mut f.blocks[b].insts);
        let mut n = 0;
        insts.retain(|inst| {
            n += 1;
            f.uses(&inst.op, |v| {
                let v = of[v.index()];
                if let Some(k) = kept.iter_mut().find(|k| k.1 == v) {
                    k.2 = n;
                }
            });
            let Some((bits, v)) = constant(&inst.op).filter(|c| reader[c.1.index()] == b as u32) else { return true };
            kept.retain(|k| n - k.2 <= NEAR);
            if let Some(k) = kept.iter().find(|k| k.0 == bits) {
                of[v.index()] = k.1;
                changed = true;
                return false;
            }
            kept.push((bits, v, n));
            true
        });
        f.blocks[b].insts = insts;
        changed |= vectors(f, b, &reads, &mut of);
        if changed {
            rename(f, b, &mut |_, v| of.get(v.index()).copied().unwrap_or(v));
        }
    }
}

/// Words side by side that are moved for one instruction each (addresses of arrays, numbers of double precision, what memory is filled with) are moved once for
/// those that stand near each other. Says in `of` what becomes of the others, and takes their moves away; true if there were any. `reads`: how often each
/// value is read.
fn vectors(f: &mut Func, b: usize, reads: &[u32], of: &mut [Vreg]) -> bool {
    let mut made: FxHashMap<Vreg, From> = FxHashMap::default();
    let mut kept: Vec<Row> = Vec::new();
    let mut gone: Vec<Vreg> = Vec::new();
    for (n, inst) in f.blocks[b].insts.iter().enumerate() {
        let before = made.len();
        moved(f, &inst.op, |from, v| {
            if !matches!(from, From::General(_)) {
                made.insert(v, from);
            }
        });
        if made.len() > before {
            continue;
        }
        let Op::Sass(s) = &inst.op else { continue };
        if made.is_empty() {
            continue;
        }
        // What else reads vectors mostly has its result where they are, and each needs its own.
        let most = match s.form().class {
            Class::FmaWide | Class::Double => 2,
            _ if is_store(s) => 4,
            _ => continue,
        };
        sass_uses(s, |p| {
            if !(2..=most).contains(&p.width) || !p.reg.is_virtual() {
                return;
            }
            let words = f.scalars(p.reg);
            let of_word = |v: &Vreg| match made.get(v) {
                Some(&from) if reads[v.index()] == 1 => from,
                _ => From::Itself(v.0),
            };
            let from: SmallVec<[From; 4]> = words.iter().map(of_word).collect();
            let whole = |from: &From| matches!(from, From::Itself(_));
            if from.iter().all(whole) || most == 2 && from.iter().any(|k| whole(k) || matches!(k, From::Copy(_))) {
                return;
            }
            kept.retain(|k| n - k.2 <= NEAR);
            if let Some(k) = kept.iter_mut().find(|k| k.0 == from) {
                k.2 = n;
                for (v, one) in words.iter().zip(&k.1).filter(|(v, one)| v != one) {
                    of[v.index()] = *one;
                    gone.push(*v);
                }
            } else {
                kept.push((from, words.iter().copied().collect(), n));
            }
        });
    }
    if gone.is_empty() {
        return false;
    }
    gone.sort_unstable();
    let mut insts = std::mem::take(&mut f.blocks[b].insts);
    let is_gone = |v: Vreg| gone.binary_search(&v).is_ok();
    insts.retain_mut(|i| match &mut i.op {
        Op::Copy(pairs) => {
            pairs.retain(|(to, _)| !(to.is_virtual() && is_gone(Vreg(to.index()))));
            !pairs.is_empty()
        }
        op => constant(op).is_none_or(|(_, v)| !is_gone(v)),
    });
    f.blocks[b].insts = insts;
    true
}

/// What barriers in shared memory are initialised with, two constants beside each other, is made once for those that stand near each other.
fn counts(f: &mut Func) {
    let exchange = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form == F::SYNCS_EXCH);
    let several = |b: &usize| f.blocks[*b].insts.iter().filter(|i| exchange(i)).nth(1).is_some();
    let blocks: Vec<usize> = (0..f.blocks.len()).filter(several).collect();
    if blocks.is_empty() {
        return;
    }
    let reads = super::conditions::reads(f);
    for b in blocks {
        let mut insts = std::mem::take(&mut f.blocks[b].insts);
        let mut made: Vec<(Vreg, i64)> = Vec::new();
        let mut last: Option<([i64; 2], Operand, usize)> = None;
        let mut gone: Vec<Vreg> = Vec::new();
        for (n, inst) in insts.iter_mut().enumerate() {
            let Op::Sass(s) = &mut inst.op else { continue };
            if s.form == F::UMOV_I && s.guard.as_reg().is_some_and(Reg::is_const) {
                let to = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| r.is_virtual());
                if let (Some(to), Some(Value::Imm(k))) = (to, s.get(S::Mask).map(|o| o.value)) {
                    made.push((Vreg(to.index()), k.get()));
                }
            }
            let Some(&pair) = s.get(S::Rb).filter(|_| s.form == F::SYNCS_EXCH) else { continue };
            let Some(r) = pair.as_reg().filter(|r| r.is_virtual()) else { continue };
            let words = f.scalars(r);
            let of = |v: Vreg| made.iter().find(|m| m.0 == v && reads[v.index()] == 1).map(|m| m.1);
            let [Some(x), Some(y)] = [of(words[0]), of(words[1])] else { continue };
            match last {
                Some((k, shared, at)) if k == [x, y] && n - at <= NEAR => {
                    s.set(S::Rb, shared);
                    gone.extend(words);
                    last = Some((k, shared, n));
                }
                _ => last = Some(([x, y], pair, n)),
            }
        }
        if !gone.is_empty() {
            insts.retain(|i| {
                let mut stays = true;
                f.defs(&i.op, |v| stays &= !gone.contains(&v));
                stays
            });
        }
        f.blocks[b].insts = insts;
    }
}

/// What is moved and the register, if this moves a constant, or what is in a register of the other kind, into one of its own.
fn constant(op: &Op) -> Option<(From, Vreg)> {
    let Op::Sass(s) = op else { return None };
    let virt = |name| s.get(name).and_then(Operand::as_reg).filter(|r| r.is_virtual());
    if s.form == F::R2UR && s.guard == Operand::reg(Reg::PT) {
        let (from, to) = (virt(S::Ra)?, virt(S::Rd)?);
        return Some((From::General(from.index()), Vreg(to.index())));
    }
    if s.form == F::UMOV_I && s.guard.as_reg().is_some_and(Reg::is_const) {
        let Value::Imm(bits) = s.get(S::Mask)?.value else { return None };
        return Some((From::UniformConstant(bits.get()), Vreg(virt(S::Rd)?.index())));
    }
    let plain = |s: &Sass| matches!(s.form, F::MOV_I | F::MOV_U) && s.guard == Operand::reg(Reg::PT);
    let d = s.get(S::Rd).and_then(Operand::as_reg).filter(|d| plain(s) && d.is_virtual() && d.file() == File::Gpr)?;
    match s.get(S::Rb)?.value {
        Value::Imm(bits) => Some((From::Constant(bits.get()), Vreg(d.index()))),
        // The number of a value that never changes.
        Value::Reg(r) if r.is_virtual() => Some((From::Uniform(r.index()), Vreg(d.index()))),
        _ => None,
    }
}

/// The same, and of copies of general registers, for each register that is made.
fn moved(f: &Func, op: &Op, mut each: impl FnMut(From, Vreg)) {
    let Op::Copy(pairs) = op else {
        constant(op).into_iter().for_each(|(from, v)| each(from, v));
        return;
    };
    let scalar = |r: Reg| r.is_virtual() && !r.is_pooled() && f.vregs[r.index() as usize] == File::Gpr;
    for (to, from) in pairs.iter().filter(|(to, from)| scalar(*to) && scalar(*from)) {
        each(From::Copy(from.index()), Vreg(to.index()));
    }
}

/// By value: the block that reads it, if instructions of one block do, as a register of its own, and nothing else. As a part of a vector,
/// or where ways meet, it would have to be copied.
fn readers(f: &Func) -> Vec<u32> {
    let mut reader = vec![NOBODY; f.vregs.len()];
    for (b, block) in (0..).zip(&f.blocks) {
        for inst in &block.insts {
            match &inst.op {
                Op::Sass(s) => sass_uses(s, |p| {
                    let by = if p.width > 1 { OTHERS } else { b };
                    f.each_scalar(p.reg, |v| {
                        let r = &mut reader[v.index()];
                        *r = if *r == NOBODY || *r == by { by } else { OTHERS };
                    });
                }),
                op => f.uses(op, |v| reader[v.index()] = OTHERS),
            }
        }
        f.term_uses(&block.term, |v| reader[v.index()] = OTHERS);
        for e in block.term.edges() {
            e.args.iter().for_each(|v| reader[v.index()] = OTHERS);
        }
    }
    reader
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    /// How many moves of constants are left.
    fn moves(body: &str) -> usize {
        let head =
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        f.blocks.iter().flat_map(|b| &b.insts).filter(|i| constant(&i.op).is_some()).count()
    }

    fn reader(k: u32, bits: u32) -> String {
        let (m, d) = (10 + 2 * k, 11 + 2 * k);
        format!(
            "    MOV_I Rd=%r{m} Rb={bits}\n    SEL_RR Rd=%r{d} Ra=%r0 Rb=%r{m} Pp=PT\n    STG.Size=4 Ra=RZ Rb=%r{d} URc=UR4\n"
        )
    }

    #[test]
    fn readers_close_to_each_other_share_a_register() {
        assert_eq!(moves(&format!("{}{}{}", reader(0, 5), reader(1, 5), reader(2, 6))), 2);
    }

    #[test]
    fn what_lies_in_one_uniform_register_is_moved_once() {
        let uniform = |k, ur: &str| reader(k, 5).replace("MOV_I", "MOV_U").replace("Rb=5", ur);
        let made = "    S2UR Rd=%ur1 Sr=0x25\n    S2UR Rd=%ur2 Sr=0x26\n";
        assert_eq!(
            moves(&format!("{made}{}{}{}", uniform(0, "Rb=%ur1"), uniform(1, "Rb=%ur1"), uniform(2, "Rb=%ur2"))),
            2
        );
    }

    #[test]
    fn readers_far_from_each_other_do_not() {
        let between: String = (50..110).map(|n| format!("    IADD3_RIR Rd=%r{n} Ra=%r0 Rb={n} Rc=RZ\n")).collect();
        assert_eq!(moves(&format!("{}{between}{}", reader(0, 5), reader(1, 5))), 2);
    }

    #[test]
    fn barriers_are_initialised_with_one_pair() {
        let one = |n: usize, k: u32| {
            format!(
                "    UMOV_I Rd=%ur{n} Mask={k:#x}\n    UMOV_I Rd=%ur{} Mask=0x7\n    SYNCS_EXCH Ra=%ur1 Rb={{%ur{n},%ur{}}}\n",
                n + 1,
                n + 1
            )
        };
        let t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2UR Rd=%ur1 Sr=0x25\n{}{}{}    exit\n}}\n",
            one(2, 5),
            one(4, 5),
            one(6, 9)
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        let t = text::print(&f);
        assert!(t.matches("UMOV").count() == 4 && t.matches("Rb={%ur2,%ur3}").count() == 2, "{t}");
    }

    #[test]
    fn what_is_moved_to_a_uniform_register_is_moved_once() {
        let body = |n: usize| format!("    R2UR Rd=%ur{n} Ra=%r0\n    STS_U Ra=RZ URc=%ur{n} Rb=RZ\n");
        assert_eq!(moves(&format!("{}{}", body(4), body(5))), 1);
    }

    #[test]
    fn constants_in_uniform_registers_are_made_once() {
        let shift = |k: u32, bits: i64| {
            let (m, d) = (10 + 2 * k, 11 + 2 * k);
            format!("    UMOV_I Rd=%ur{m} Mask={bits:#x}\n    USHF_UUU Rd=%ur{d} Ra=%ur{m} Rb=%ur1 Rc=URZ\n")
        };
        let body = format!("    S2UR Rd=%ur1 Sr=0x25\n{}{}{}", shift(0, 5), shift(1, 6), shift(2, 5));
        assert_eq!(moves(&body), 2);
    }

    #[test]
    fn pairs_that_products_are_added_to_are_moved_once() {
        let product = |k: u32, high: u32| {
            let (low, d) = (10 + 4 * k, 12 + 4 * k);
            format!(
                "    MOV_U Rd=%r{low} Rb=%ur1\n    MOV_U Rd=%r{} Rb=%ur{high}\n    IMAD_WIDE_RIR Rd={{%r{d},%r{}}} Ra=%r0 Rb=8 Rc={{%r{low},%r{}}}\n",
                low + 1,
                d + 1,
                low + 1
            )
        };
        let made = "    S2UR Rd=%ur1 Sr=0x25\n    S2UR Rd=%ur2 Sr=0x26\n";
        assert_eq!(moves(&format!("{made}{}{}", product(0, 2), product(1, 2))), 2);
        assert_eq!(moves(&format!("{made}{}{}", product(0, 2), product(1, 1))), 4);
    }

    #[test]
    fn what_memory_is_filled_with_is_moved_once() {
        let store = |k: u32, last: u32| {
            let at = 10 + 2 * k;
            format!(
                "    MOV_I Rd=%r{at} Rb=5\n    MOV_I Rd=%r{} Rb={last}\n    STG.Size=5 Ra=RZ Rb={{%r{at},%r{}}} URc=UR4\n",
                at + 1,
                at + 1
            )
        };
        assert_eq!(moves(&format!("{}{}{}", store(0, 5), store(1, 5), store(2, 5))), 2);
        assert_eq!(moves(&format!("{}{}{}", store(0, 5), store(1, 6), store(2, 5))), 4);
    }

    #[test]
    fn doubles_in_uniform_registers_are_made_once() {
        let product = |k: u32, high: i64| {
            let at = 10 + 2 * k;
            format!(
                "    UMOV_I Rd=%ur{at} Mask=0x5\n    UMOV_I Rd=%ur{} Mask={high:#x}\n    DMUL_RU Rd={{%r{},%r{}}} Ra={{%r0,%r1}} Rb={{%ur{at},%ur{}}}\n",
                at + 1,
                40 + at,
                41 + at,
                at + 1
            )
        };
        let head = "    S2R Rd=%r1 Sr=0x22\n";
        assert_eq!(moves(&format!("{head}{}{}{}", product(0, 7), product(1, 7), product(2, 8))), 4);
    }

    #[test]
    fn what_fills_memory_is_copied_once() {
        let store = |k: u32, first: u32| {
            let at = 10 + k;
            format!(
                "    copy %r{at}=%r0, %r{}=%r1\n    STG.Size=6 Ra=RZ Rb={{%r{first},%r2,%r{at},%r{}}} URc=UR4\n",
                at + 10,
                at + 10
            )
        };
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x22\n    S2R Rd=%r2 Sr=0x23\n";
        let mut f = text::parse(&format!("{head}{}{}{}    exit\n}}\n", store(0, 0), store(1, 0), store(2, 1)))
            .unwrap()
            .remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        let t = text::print(&f);
        assert_eq!((t.matches("copy").count(), t.matches("{%r0,%r2,%r10,%r20}").count()), (2, 2), "{t}");
    }

    #[test]
    fn parts_of_vectors_stay() {
        let two = "    MOV_I Rd=%r1 Rb=5\n    MOV_I Rd=%r2 Rb=5\n    STG.Size=5 Ra=RZ Rb={%r1,%r2} URc=UR4\n";
        assert_eq!(moves(two), 2);
    }
}
