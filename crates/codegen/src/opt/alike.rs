//! Shuffles of what all threads of a warp have alike.
//!
//! Triton reduces a tile across the threads of a warp row by row, and rows that a mask leaves out are one constant in all of them: whichever lane
//! such a word is read from, it is the thread's own. Only shuffles of the whole warp; a thread that has ended leaves what is read from its lane
//! undefined.

use super::{identity, substitute};
use crate::converge::{self, whole};
use crate::ir::Func;

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    if !f.entry || !f.blocks.iter().flat_map(|b| &b.insts).any(|&i| whole(f, f.inst(i))) {
        return false;
    }
    let uniform = converge::uniform(f);
    let mut replaced = identity(f);
    let mut changed = false;
    for b in &f.blocks {
        for &id in &b.insts {
            let inst = f.inst(id);
            if whole(f, inst) && uniform[inst.args[0].index()] {
                replaced[inst.results[0].index()] = inst.args[0];
                changed = true;
            }
        }
    }
    if changed {
        substitute(f, &mut replaced);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    #[test]
    fn words_that_all_have_are_read_from_no_other_thread() {
        let after = |of: &str, mask: u32| {
            let body = format!(
                "v0:b64 = param {{bytes=8}}\nv1:b32 = {of}\nv2:b32 = const {{imm=16}}\nv3:b32 = const {{imm=31}}\nv4:b32 = const {{imm={mask}}}\n\
                 v5:b32,v6:p = shfl v1, v2, v3, v4 {{sub=2}}\nstore v0, v5 {{space=global bytes=4}}\nexit"
            );
            let mut f = text::parse(&format!("func k entry returns() {{\nblk0():\n{body}\n}}")).unwrap().remove(0);
            run(&mut f);
            verify::verify(&f).unwrap();
            text::print(&f)
        };
        let (tid, cta) = (crate::ir::Sreg::TidX as u8, crate::ir::Sreg::CtaidX as u8);
        assert!(after(&format!("sreg {{sub={cta}}}"), u32::MAX).contains("store v0, v1"));
        assert!(after(&format!("sreg {{sub={tid}}}"), u32::MAX).contains("store v0, v5"));
        assert!(after(&format!("sreg {{sub={cta}}}"), 0xffff).contains("store v0, v5"));
    }
}
