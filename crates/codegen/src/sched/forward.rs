//! Readers of a copy read what was copied.
//!
//! Selection copies values that it hands through: the low word of a number that becomes wider, halves of a pair that change places. In
//! SSA form the original is still there; where a register has to be in two places, assignment puts it there. Runs first of all, before
//! [`super::dead`] takes out the copies.

use super::sink::rename;
use crate::mir::{Func, Op, Vreg};

/// Vectors longer than this keep their copies: what lies in them should stay where it is (sums of matrix products).
const LONGEST: usize = 4;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let mut of: Vec<Vreg> = Vec::new();
    let cfg = f.cfg();
    // A definition comes before its readers in this order, so one step leads to the original.
    for &b in &cfg.rpo {
        for inst in &f.blocks[b as usize].insts {
            let Op::Copy(pairs) = &inst.op else { continue };
            for (d, s) in pairs.iter().filter(|(d, s)| s.is_virtual() && d.file() == s.file()) {
                if of.is_empty() {
                    of = (0..f.vregs.len() as u32).map(Vreg).collect();
                }
                of[d.index() as usize] = of[s.index() as usize];
            }
        }
    }
    if of.is_empty() {
        return;
    }
    // What must not stand twice in one vector keeps its copy, and so does what was copied from it.
    let mut kept = vec![false; of.len()];
    for list in &f.vecs {
        for (n, v) in list.iter().enumerate() {
            let twice = list.iter().enumerate().any(|(k, w)| k != n && of[w.index()] == of[v.index()]);
            kept[v.index()] |= list.len() > LONGEST || twice;
        }
    }
    for &b in &cfg.rpo {
        for inst in &f.blocks[b as usize].insts {
            let Op::Copy(pairs) = &inst.op else { continue };
            for (d, s) in pairs.iter().filter(|(d, s)| s.is_virtual() && d.file() == s.file()) {
                let original = of[s.index() as usize];
                of[d.index() as usize] = if kept[d.index() as usize] { Vreg(d.index()) } else { original };
            }
        }
    }
    for &b in &cfg.rpo {
        rename(f, b as usize, &mut |_, v| of.get(v.index()).copied().unwrap_or(v));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> String {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        run(&mut f);
        super::super::dead::run(&mut f);
        verify::ssa(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn copies_of_copies_go() {
        let t = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    copy %r1=%r0\n    copy %r2=%r1\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    br blk1(%r1)\nblk1(%r3): depth=0\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\n",
        );
        assert!(!t.contains("copy") && t.contains("Rb=%r0") && t.contains("blk1(%r0)"), "{t}");
    }

    #[test]
    fn a_vector_has_a_register_once() {
        let t = after(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    copy %r1=%r0\n    STG.Size=5 Ra=RZ Rb={%r0,%r1} URc=UR4\n    exit\n",
        );
        assert!(t.contains("copy %r1=%r0") && t.contains("{%r0,%r1}"), "{t}");
    }
}
