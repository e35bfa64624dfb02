//! Comparisons take in the conditions that their outcomes are combined with.
//!
//! A comparison combines its outcome with one predicate for nothing. Selection does so where nobody else reads the outcome. A mask of a tile asks each of
//! its rows and each of its columns once, and combines every row with every column:
//!
//! ```text
//! ISETP P0, R0, R4        ->
//! PLOP3 P3, P0 and P1         ISETP P3, R0, R4 and P1
//! PLOP3 P4, P0 and P2         ISETP P4, R0, R4 and P2
//! ```
//!
//! Each that combines an outcome so in its own block compares anew instead: what it waits for is there earlier, and one of seven predicates waits less; where nobody
//! else reads the outcome, that is an instruction less. Runs on SSA form, before scheduling. Linear.

use crate::mir::{Func, Op, Vreg};
use sass::enums::{bop, icmp};
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};

/// Readers of an outcome, at most: what is compared waits for the last of them.
const MOST: usize = 16;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let both = |i: &crate::mir::Inst| matches!(&i.op, Op::Sass(s) if combined(s).is_some());
    let blocks: Vec<usize> = (0..f.blocks.len()).filter(|&b| f.blocks[b].insts.iter().any(both)).collect();
    if blocks.is_empty() {
        return;
    }
    let reads = reads(f);
    let mut maker: Vec<u32> = vec![u32::MAX; f.vregs.len()];
    for b in blocks {
        block(f, b, &reads, &mut maker);
    }
}

/// How often each value is read.
pub(super) fn reads(f: &Func) -> Vec<u32> {
    let mut reads = vec![0u32; f.vregs.len()];
    for b in &f.blocks {
        b.insts.iter().for_each(|i| f.uses(&i.op, |v| reads[v.index()] += 1));
        f.term_uses(&b.term, |v| reads[v.index()] += 1);
        b.term.edges().iter().flat_map(|e| &e.args).for_each(|v| reads[v.index()] += 1);
    }
    reads
}

/// A predicate that no instruction writes, read as it is.
fn fixed(o: Option<&Operand>) -> bool {
    o.is_none_or(|o| o.as_reg() == Some(Reg::PT) && !o.inv)
}

/// The two predicates that an instruction combines, and how comparisons say so, if it does nothing else.
fn combined(s: &Sass) -> Option<([Operand; 2], u8)> {
    let Value::Imm(lut) = s.get(S::Lut).filter(|_| s.form == F::PLOP3)?.value else { return None };
    let how = match lut.get() {
        0xc0 => bop::AND,
        0xfc => bop::OR,
        0x3c => bop::XOR,
        _ => return None,
    };
    let pair = [*s.get(S::Pp)?, *s.get(S::Pq)?];
    let own = |o: &Operand| o.as_reg().is_some_and(|r| r.is_virtual() && r.file() == File::Pred);
    let plain = s.guard == Operand::reg(Reg::PT) && fixed(s.get(S::Pv)) && fixed(s.get(S::Pr));
    (plain && pair.iter().all(own) && pair[0].as_reg() != pair[1].as_reg()).then_some((pair, how))
}

/// True if the instruction compares two words or floats, and does nothing else.
pub(super) fn compares(s: &Sass) -> bool {
    matches!(s.form().mnemonic, "ISETP" | "FSETP")
        && s.guard == Operand::reg(Reg::PT)
        && s.modifier(M::Bool) == bop::AND
        && fixed(s.get(S::Pp))
        && fixed(s.get(S::Pv))
}

/// The comparison with the opposite outcome.
fn opposite(s: &Sass) -> Option<Sass> {
    if s.form().mnemonic != "ISETP" || s.get(S::Pr).is_some() {
        return None;
    }
    let cmp = match s.modifier(M::Cmp) {
        icmp::LT => icmp::GE,
        icmp::GE => icmp::LT,
        icmp::GT => icmp::LE,
        icmp::LE => icmp::GT,
        icmp::EQ => icmp::NE,
        icmp::NE => icmp::EQ,
        _ => return None,
    };
    Some(s.clone().with_mod(M::Cmp, cmp))
}

fn block(f: &mut Func, b: usize, reads: &[u32], maker: &mut [u32]) {
    let insts = &f.blocks[b].insts;
    // Comparisons of the block, and by whom their outcomes are combined.
    let mut list: Vec<(Vreg, Vec<u32>)> = Vec::new();
    let mut made = Vec::new();
    for (i, inst) in insts.iter().enumerate() {
        let Op::Sass(s) = &inst.op else { continue };
        if let Some((pair, _)) = combined(s) {
            for o in pair {
                let Some(r) = o.as_reg() else { continue };
                if let Some(&at) = maker.get(r.index() as usize).filter(|&&at| at != u32::MAX) {
                    list[at as usize].1.push(i as u32);
                }
            }
        } else if compares(s) {
            f.defs(&inst.op, |v| {
                maker[v.index()] = list.len() as u32;
                made.push(i as u32);
                list.push((v, Vec::new()));
            });
        }
    }
    list.iter().for_each(|(v, _)| maker[v.index()] = u32::MAX);
    let all = |k: usize| list[k].1.len() as u32 == reads[list[k].0.index()];
    // What few read costs least to compare anew; what others read, too, is compared in any case.
    let mut order: Vec<usize> = (0..list.len()).filter(|&k| (1..=MOST).contains(&list[k].1.len())).collect();
    order.sort_by_key(|&k| (!all(k), list[k].1.len(), k));
    let mut gone: Vec<u32> = Vec::new();
    for k in order {
        let (v, by) = &list[k];
        let insts = &mut f.blocks[b].insts;
        let Op::Sass(compare) = &insts[made[k] as usize].op else { continue };
        let (compare, other) = (compare.clone(), opposite(compare));
        let mut new = Vec::with_capacity(by.len());
        for &i in by {
            let Op::Sass(s) = &insts[i as usize].op else { continue };
            // One whose other side was taken in compares already.
            let Some(([x, y], how)) = combined(s) else { continue };
            let (own, rest) = if x.as_reg().is_some_and(|r| r.index() == v.0) { (x, y) } else { (y, x) };
            let base = if own.inv { other.as_ref() } else { Some(&compare) };
            let (Some(base), Some(&to)) = (base, s.get(S::Pu)) else { continue };
            new.push((i, base.clone().with(S::Pu, to).with(S::Pp, rest).with_mod(M::Bool, how)));
        }
        if new.len() == by.len() || !all(k) {
            new.into_iter().for_each(|(i, s)| insts[i as usize].op = Op::Sass(s));
            if all(k) {
                gone.push(made[k]);
            }
        }
    }
    if !gone.is_empty() {
        gone.sort_unstable();
        let mut n = 0;
        f.blocks[b].insts.retain(|_| {
            n += 1;
            gone.binary_search(&(n - 1)).is_err()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> String {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x25\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        text::print(&f)
    }

    /// Two rows and three columns, of which each is combined with each, and what reads that.
    fn tile() -> String {
        let mut t = String::new();
        (2..4).for_each(|r| t += &format!("    ISETP_RI.Cmp=1 Pu=%p{r} Ra=%r0 Rb={r:#x}\n"));
        (4..7).for_each(|c| t += &format!("    ISETP_RI.Cmp=1 Pu=%p{c} Ra=%r1 Rb={c:#x}\n"));
        for (n, (r, c)) in (2..4).flat_map(|r| (4..7).map(move |c| (r, c))).enumerate() {
            t +=
                &format!("    PLOP3 Pu=%p{} Pp=%p{r} Pq=%p{c} Lut=0xc0\n    @%p{} STS Ra=%r0 Rb=%r1\n", 10 + n, 10 + n);
        }
        t
    }

    #[test]
    fn a_tile_compares_its_columns_for_each_row() {
        let t = after(&tile());
        assert!(!t.contains("PLOP3") && t.matches("ISETP").count() == 8, "{t}");
        assert!(t.contains("ISETP_RI.Cmp=1 Pu=%p10 Ra=%r1 Rb=0x4 Pp=%p2"), "{t}");
    }

    /// An outcome that something else reads is still there.
    #[test]
    fn what_is_read_by_others_stays() {
        let t = after(&format!("{}    @%p4 STS Ra=%r0 Rb=%r0\n", tile()));
        assert!(!t.contains("PLOP3") && t.matches("ISETP").count() == 9 && t.contains("Pu=%p4 Ra=%r1 Rb=0x4\n"), "{t}");
    }

    #[test]
    fn the_opposite_is_compared_where_that_is_combined() {
        let one = |p: &str, lut: u32| {
            after(&format!(
                "    ISETP_RI.Cmp=1 Pu=%p2 Ra=%r0 Rb=0x7\n    FSETP_RR.Cmp=1 Pu=%p3 Ra=%r0 Rb=%r1\n    PLOP3 Pu=%p4 Pp={p} Pq=%p3 Lut={lut:#x}\n    \
                 @%p4 STS Ra=%r0 Rb=%r1\n    @%p3 STS Ra=%r0 Rb=%r1\n"
            ))
        };
        let t = one("!%p2", 0xfc);
        assert!(t.contains("ISETP_RI.Cmp=6.Bool=1 Pu=%p4 Ra=%r0 Rb=0x7 Pp=%p3"), "{t}");
        let t = one("%p2", 0x3c);
        assert!(t.contains("ISETP_RI.Cmp=1.Bool=2 Pu=%p4 Ra=%r0 Rb=0x7 Pp=%p3"), "{t}");
        let t = one("!%p2", 0x3c);
        assert!(t.contains("ISETP_RI.Cmp=6.Bool=2 Pu=%p4 Ra=%r0 Rb=0x7 Pp=%p3"), "{t}");
        // Of three, or otherwise.
        assert!(one("%p2", 0x96).contains("PLOP3"));
    }
}
