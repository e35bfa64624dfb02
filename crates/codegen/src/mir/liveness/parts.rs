//! Parts of the graph in which threads of a warp may be apart.

use crate::cfg::{Cfg, NONE};
use crate::mir::Func;

/// By block the part that it lies in, by the number of one of its blocks: blocks where a warp may be divided that follow each other or the same block. [`NONE`] of
/// all other blocks.
pub fn parts(f: &Func, cfg: &Cfg) -> Vec<u32> {
    let mut part: Vec<u32> = (0..f.blocks.len() as u32).collect();
    let apart = |b: u32| f.blocks[b as usize].divergent;
    for &b in &cfg.rpo {
        let mut first = apart(b).then_some(b);
        for &s in cfg.succs[b as usize].iter().filter(|&&s| apart(s)) {
            let to = root(&mut part, *first.get_or_insert(s));
            let from = root(&mut part, s);
            part[from as usize] = to;
        }
    }
    (0..part.len() as u32).map(|b| if apart(b) && cfg.reachable(b) { root(&mut part, b) } else { NONE }).collect()
}

fn root(part: &mut [u32], b: u32) -> u32 {
    let mut b = b;
    while part[b as usize] != b {
        part[b as usize] = part[part[b as usize] as usize];
        b = part[b as usize];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::{NONE, parts};
    use crate::mir::text;

    #[test]
    fn sides_of_a_branch_are_one_part() {
        let t = "func k entry {\nblk0(): depth=0\n    brif %p0, blk1(), blk2()\nblk1(): depth=0 divergent\n    br blk3()\nblk2(): depth=0 divergent\n    br blk3()\n\
                 blk3(): depth=0\n    brif %p0, blk4(), blk5()\nblk4(): depth=0 divergent\n    br blk5()\nblk5(): depth=0\n    exit\n}\n";
        let f = text::parse(t).unwrap().remove(0);
        let p = parts(&f, &f.cfg());
        assert!(p[1] == p[2] && p[1] != p[4] && p[4] != NONE, "{p:?}");
        assert_eq!([p[0], p[3], p[5]], [NONE; 3]);
    }
}
