//! Sums on the rungs of a ladder are rungs of one themselves.
//!
//! ```text
//! r1 = r0 + c; f1 = r1 + b        f0 = r0 + b
//! r2 = r1 + c; f2 = r2 + b        f1 = f0 + c
//! r3 = r2 + d; f3 = r3 + b        f2 = f1 + c; f3 = f2 + d
//! ```
//!
//! Front ends compute the rows of a tile ahead, each from the one before, and add to each where the tile begins. Where nothing else reads the rows, half of the
//! sums are enough; and of the rungs those that wait for their readers through a crowded loop can be made again from others there
//! ([`crate::sched::remat`]), which is not so where what they are the sums of is gone. Within a block. Linear.

use super::uses;
use crate::ir::{Func, Inst, InstId, Op, Value};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Readers of a rung.
const MOST: usize = 4;

/// Sums in a block below which there is no ladder in it.
const FEWEST: usize = 6;

/// Runs the pass; true if anything changed.
pub fn run(f: &mut Func) -> bool {
    let mut counts: Vec<u32> = Vec::new();
    let mut changed = false;
    for b in 0..f.blocks.len() {
        let sums: Vec<InstId> = f.blocks[b].insts.iter().copied().filter(|&i| sum(f.inst(i))).collect();
        if sums.len() < FEWEST {
            continue;
        }
        if counts.is_empty() {
            counts = uses(f);
        }
        for (id, args) in rungs(f, &sums, &counts) {
            f.insts[id.0 as usize].args = smallvec![args[0], args[1]];
            changed = true;
        }
    }
    changed
}

fn sum(inst: &Inst) -> bool {
    inst.op == Op::IAdd && !inst.attr.sat
}

/// The sums of a block that are made of the rung below, with what they are to add. `uses`: how often each value is read.
fn rungs(f: &Func, sums: &[InstId], uses: &[u32]) -> Vec<(InstId, [Value; 2])> {
    let args = |k: u32| -> [Value; 2] { [0, 1].map(|n| f.inst(sums[k as usize]).args[n]) };
    let mut readers: FxHashMap<Value, SmallVec<[u32; 2]>> = FxHashMap::default();
    for k in 0..sums.len() as u32 {
        args(k).into_iter().for_each(|a| readers.entry(a).or_default().push(k));
    }
    let of = |v: Value| readers.get(&v).map_or(&[][..], |r| r.as_slice());
    // What a sum adds to a value.
    let beside = |k: u32, v: Value| args(k)[usize::from(args(k)[0] == v)];
    // Rungs that are not needed, and the rung below.
    let mut spare: FxHashMap<Value, Value> = FxHashMap::default();
    let mut out = Vec::new();
    for k in (0..sums.len() as u32).rev() {
        let rung = f.inst(sums[k as usize]).results[0];
        let all = of(rung);
        if all.is_empty() || all.len() > MOST || uses[rung.index()] as usize != all.len() {
            continue;
        }
        // Its sums, without the next rung where that is not needed either.
        let next = |&u: &u32| spare.get(&f.inst(sums[u as usize]).results[0]) == Some(&rung);
        let own: SmallVec<[u32; 2]> = all.iter().copied().filter(|u| !next(u)).collect();
        let below = args(k).into_iter().find_map(|below| {
            let on = |&u: &u32| {
                let base = beside(u, rung);
                let at = of(below).iter().find(|&&g| g != k && g < u && beside(g, below) == base)?;
                Some((sums[u as usize], [f.inst(sums[*at as usize]).results[0], beside(k, below)]))
            };
            let found: Option<SmallVec<[_; 2]>> = own.iter().map(on).collect();
            found.map(|found| (below, found))
        });
        if let (Some((below, found)), false) = (below, own.is_empty()) {
            spare.insert(rung, below);
            out.extend(found);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::dce;

    /// Four rows, each added to where a tile begins; `more` reads something else.
    fn sums(more: &str) -> usize {
        let body = "v0:b32 = sreg\nv1:b32 = sreg {sub=1}\nv2:b32 = sreg {sub=2}\nv3:b32 = iadd v0, v1\nv4:b32 = iadd v3, v2\nv5:b32 = iadd v3, v1\n\
                    v6:b32 = iadd v5, v2\nv7:b32 = iadd v1, v5\nv8:b32 = iadd v2, v7\nv9:b32 = iadd v7, v1\nv10:b32 = iadd v9, v2\n\
                    v11:b32 = xor v4, v6\nv12:b32 = xor v8, v10\nv13:b32 = and v11, v12\n";
        let mut f = text::parse(&format!("func k returns(b32) {{\nblk0():\n{body}{more}\n}}")).unwrap().remove(0);
        run(&mut f);
        dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f).matches("iadd").count()
    }

    #[test]
    fn rows_that_nobody_else_reads_go() {
        // The first row and the four places.
        assert_eq!(sums("ret v13"), 5);
    }

    #[test]
    fn two_places_in_each_row() {
        let mut body = "v0:b32 = sreg\nv1:b32 = sreg {sub=1}\nv2:b32 = sreg {sub=2}\nv3:b32 = sreg {sub=3}\nv4:b32 = iadd v0, v1\n".to_string();
        let (mut row, mut n, mut all) = (4, 5, 0);
        for _ in 0..4 {
            body += &format!(
                "v{n}:b32 = iadd v{row}, v2\nv{}:b32 = iadd v{row}, v3\nv{}:b32 = iadd v{row}, v1\n",
                n + 1,
                n + 2
            );
            body += &format!("v{}:b32 = xor v{all}, v{n}\nv{}:b32 = xor v{}, v{}\n", n + 3, n + 4, n + 3, n + 1);
            (row, all, n) = (n + 2, n + 4, n + 5);
        }
        let mut f = text::parse(&format!("func k returns(b32) {{\nblk0():\n{body}ret v{all}\n}}")).unwrap().remove(0);
        dce::run(&mut f);
        run(&mut f);
        dce::run(&mut f);
        verify::verify(&f).unwrap();
        // The first row and eight places.
        assert_eq!(text::print(&f).matches("iadd").count(), 9);
    }

    #[test]
    fn rows_that_are_read_stay() {
        // The last row is read: those below are needed for it.
        assert_eq!(sums("v14:b32 = xor v13, v9\nret v14"), 8);
        // The second is, those above it are not needed.
        assert_eq!(sums("v14:b32 = xor v13, v5\nret v14"), 6);
    }
}
