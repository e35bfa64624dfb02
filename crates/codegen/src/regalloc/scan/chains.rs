//! Sums of products of warpgroups: what is added to them again and again has one place, and nothing else lies there meanwhile.
//!
//! A chain is the vectors that such products add to and give, one after the other, around loops too, and the values that they begin with or that are made of
//! them component by component on edges. Its place is found before registers are assigned: what is alive when the chain begins is kept out of it.

use super::spans::Known;
use crate::cfg::NONE;
use crate::mir::{Func, alignment};
use sass::reg::File;

/// Places of chains begin here: what else is needed lies below.
const LOWEST: usize = 8;
/// So many times values without a chain take the one of what they are given to, or are given.
const ROUNDS: usize = 4;

/// A chain.
#[derive(Clone, Copy)]
pub(super) struct Chain {
    /// How many registers it takes.
    pub size: u32,
    /// From where to where some value of it has a register.
    pub start: u32,
    pub end: u32,
    /// Where it lies.
    pub base: u8,
}

impl Chain {
    /// Its registers.
    pub(super) fn registers(&self) -> std::ops::Range<usize> {
        let base = self.base as usize;
        base..base + self.size as usize
    }
}

/// The chains of a function.
#[derive(Default)]
pub(in super::super) struct Chains {
    /// In the order in which they begin.
    pub(super) list: Vec<Chain>,
    /// By vector: its chain; empty where there are none.
    of: Vec<u32>,
}

/// The root of a tree of sets that are one.
fn root(parent: &mut [u32], mut n: u32) -> u32 {
    while parent[n as usize] != n {
        parent[n as usize] = parent[parent[n as usize] as usize];
        n = parent[n as usize];
    }
    n
}

fn join(parent: &mut [u32], a: u32, b: u32) {
    let (a, b) = (root(parent, a), root(parent, b));
    parent[a.max(b) as usize] = a.min(b);
}

impl Chains {
    /// The chain of a vector.
    #[inline]
    pub(super) fn of(&self, vec: usize) -> Option<usize> {
        self.of.get(vec).filter(|&&c| c != NONE).map(|&c| c as usize)
    }

    /// The chain that a value belongs to.
    #[inline]
    pub(super) fn home(&self, v: &Known) -> Option<usize> {
        if self.list.is_empty() { None } else { v.vector().and_then(|(vec, _)| self.of(vec)) }
    }

    /// Finds the chains of these products, vectors that each gives and adds to (or none), and tells their values where they belong.
    pub(super) fn find(f: &Func, values: &mut [Known], products: &[(u32, u32)]) -> Chains {
        if products.is_empty() {
            return Chains::default();
        }
        let size = |vec: u32| f.vecs[vec as usize].len();
        let mut of = vec![NONE; f.vecs.len()];
        // One set a vector at first.
        let (mut vecs, mut parent): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for vec in products.iter().flat_map(|p| [p.0, p.1]).filter(|&vec| vec != NONE) {
            if of[vec as usize] == NONE {
                of[vec as usize] = vecs.len() as u32;
                parent.push(vecs.len() as u32);
                vecs.push(vec);
            }
        }
        for &(to, from) in products {
            if from != NONE && size(to) == size(from) {
                join(&mut parent, of[to as usize], of[from as usize]);
            }
        }
        // By value: the vector that begins with it.
        let mut begins = vec![NONE; f.vregs.len()];
        for &vec in &vecs {
            let first = &mut begins[f.vecs[vec as usize][0].index()];
            match *first {
                NONE => *first = vec,
                other if size(other) == size(vec) => join(&mut parent, of[vec as usize], of[other as usize]),
                _ => {}
            }
        }
        for &vec in &vecs {
            let meet = values[f.vecs[vec as usize][0].index()].meet;
            let other = begins.get(meet as usize).copied().unwrap_or(NONE);
            if other != NONE && size(other) == size(vec) {
                join(&mut parent, of[vec as usize], of[other as usize]);
            }
        }
        for n in 0..vecs.len() {
            let vec = vecs[n];
            let set = vecs[root(&mut parent, n as u32) as usize];
            for (k, v) in f.vecs[vec as usize].iter().enumerate() {
                let known = &mut values[v.index()];
                if known.vector().is_none_or(|(w, _)| of[w] == NONE) {
                    known.belong(set, k);
                }
            }
        }
        spread(f, values, &of);
        let mut list: Vec<(Chain, u32)> = vecs
            .iter()
            .enumerate()
            .filter(|&(n, _)| parent[n] == n as u32)
            .map(|(n, &vec)| (Chain { size: size(vec) as u32, start: NONE, end: 0, base: 0 }, n as u32))
            .collect();
        let mut place = vec![NONE; vecs.len()];
        list.iter().enumerate().for_each(|(k, &(_, n))| place[n as usize] = k as u32);
        for known in values.iter().filter(|k| k.start != 0) {
            let Some(set) = known.vector().map(|(vec, _)| of[vec]).filter(|&s| s != NONE) else { continue };
            let chain = &mut list[place[root(&mut parent, set) as usize] as usize].0;
            (chain.start, chain.end) = (chain.start.min(known.start), chain.end.max(known.end));
        }
        list.sort_by_key(|c| c.0.start);
        (0..).zip(&list).for_each(|(k, &(_, n))| place[n as usize] = k);
        for &vec in &vecs {
            of[vec as usize] = place[root(&mut parent, of[vec as usize]) as usize];
        }
        Chains { list: list.into_iter().map(|c| c.0).collect(), of }
    }

    /// Notes by vector where those of chains lie.
    pub(super) fn bases(&self, to: &mut [u8]) {
        for (base, &c) in to.iter_mut().zip(&self.of).filter(|&(_, &c)| c != NONE) {
            *base = self.list[c as usize].base;
        }
    }

    /// Finds a place for each among these registers; false if there is none.
    pub(super) fn place(&mut self, usable: impl Fn(usize) -> bool) -> bool {
        for n in 0..self.list.len() {
            let (before, rest) = self.list.split_at_mut(n);
            let chain = &mut rest[0];
            let size = chain.size as usize;
            let step = alignment(size);
            let fits = |base: usize| {
                let clear =
                    |o: &Chain| o.end < chain.start || o.registers().end <= base || base + size <= o.registers().start;
                (base..base + size).all(&usable) && before.iter().all(clear)
            };
            let first = LOWEST.next_multiple_of(step);
            let Some(base) = (first..=256usize.saturating_sub(size)).step_by(step).find(|&base| fits(base)) else {
                return false;
            };
            chain.base = base as u8;
        }
        true
    }
}

/// What a value of a chain is given to on an edge, and what it is given, belong to the chain, too.
fn spread(f: &Func, values: &mut [Known], of: &[u32]) {
    let home = |k: &Known| k.vector().filter(|&(vec, _)| of[vec] != NONE);
    for _ in 0..ROUNDS {
        let mut more = false;
        for n in 0..values.len() {
            let meet = values[n].meet;
            if meet == NONE || f.vregs[n] != File::Gpr {
                continue;
            }
            match (home(&values[n]), home(&values[meet as usize])) {
                (Some((vec, k)), None) => values[meet as usize].belong(vec as u32, k),
                (None, Some((vec, k))) => values[n].belong(vec as u32, k),
                _ => continue,
            }
            more = true;
        }
        if !more {
            break;
        }
    }
}

/// The vectors that a product gives and adds to.
pub(super) fn sums(s: &sass::inst::Inst) -> Option<(u32, u32)> {
    use sass::form::SlotName as S;
    let vector = |slot| {
        let at = s.slot(slot)?;
        let r = s.operands[at].as_reg().filter(|r| r.is_virtual() && r.file() == File::Gpr)?;
        (s.slot_width(at) > 1).then(|| r.index())
    };
    vector(S::Rd).map(|to| (to, vector(S::Rc).unwrap_or(NONE)))
}

/// True if what a product reads there in general registers is read until a wait for it: all but the sums.
pub(super) fn slow(s: &sass::inst::Inst, slot: usize) -> bool {
    use sass::form::SlotName as S;
    s.slot(S::Ra) == Some(slot) || s.slot(S::RegAt40) == Some(slot)
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, run, spans};
    use crate::mir::{Func, Op, text};
    use crate::regalloc::{checker, prepare, spill};
    use sass::form::SlotName as S;
    use sass::inst::Inst as Sass;
    use sass::{forms as F, reg::Reg};

    /// Registers from this number on, as a list.
    fn list(from: usize, n: usize) -> String {
        (from..from + n).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",")
    }

    /// Assigns, and checks the assignment.
    fn assign(body: &str) -> Func {
        let text = format!("func k entry max=255 outgoing=0 fixed=0 size=0 align=8 {{\n{body}}}\n");
        let mut f = text::parse(&text).unwrap().remove(0);
        let cfg = prepare::run(&mut f);
        let original = f.clone();
        let mut notes: Vec<_> = f.blocks.iter().map(|b| vec![super::super::Note::Orig; b.insts.len()]).collect();
        let found = spans::find(&f, &cfg).unwrap();
        assert!(matches!(run(&mut f, &cfg, found, &mut notes), Outcome::Done));
        checker::run(&original, &f, &cfg, &spill::Symbols::new(&original, &cfg), &notes).unwrap();
        f
    }

    fn insts(f: &Func) -> impl Iterator<Item = &Sass> {
        f.blocks.iter().flat_map(|b| &b.insts).filter_map(|i| match &i.op {
            Op::Sass(s) => Some(s),
            _ => None,
        })
    }

    fn reg(s: &Sass, slot: S) -> Reg {
        s.get(slot).and_then(|o| o.as_reg()).unwrap()
    }

    /// A value that lives through all of it, uniform registers, and a factor that is loaded before each product.
    const BEGIN: &str = "blk0(): depth=0\n    LDC Rd=%r1 Const=c[0][528]\n    LDC Rd=%r2 Const=c[0][532]\n    UMOV_I Rd=%ur10 Mask=0\n    \
                         UMOV_I Rd=%ur11 Mask=0\n    UMOV_I Rd=%ur12 Mask=0\n    UMOV_I Rd=%ur13 Mask=0\n    ISETP_RI.Cmp=1 Pu=%p9 Ra=%r1 Rb=0x3\n";
    const PRODUCT: &str = "HGMMA_RRUR_OPEN.M53=7.M75=1";
    const UNIFORM: &str = "UR={%ur10,%ur11,%ur12,%ur13}";

    fn zeros(from: usize) -> String {
        (from..from + 32).map(|k| format!("    MOV_I Rd=%r{k} Rb=0\n")).collect()
    }

    fn stores(from: usize) -> String {
        (from..from + 32).map(|k| format!("    STS Ra=%r2 Rb=%r{k} Imm={:#x}\n", 4 * k)).collect()
    }

    /// The sums of a loop begin as zeros, are scaled in each iteration, added to, and stored at the end: nothing is moved.
    #[test]
    fn sums_of_a_loop_stay_where_they_are() {
        let scaled: String =
            (0..32).map(|k| format!("    FMUL_RR Rd=%r{} Ra=%r{} Rb=%r1\n", 300 + k, 200 + k)).collect();
        let f = assign(&format!(
            "{BEGIN}{}    br blk1({})\nblk1({}): depth=1\n{scaled}    LDS.Size=6 Rd={{{}}} Ra=%r2\n    WARPGROUP.M79=1\n    {PRODUCT} Rd={{{}}} Ra={{{}}} \
             {UNIFORM} Rc={{{}}}\n    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n    brif %p9, blk1({}), blk2()\nblk2(): depth=0\n{}    exit\n",
            zeros(100),
            list(100, 32),
            list(200, 32),
            list(20, 4),
            list(400, 32),
            list(20, 4),
            list(300, 32),
            list(400, 32),
            stores(400),
        ));
        assert!(insts(&f).all(|s| s.form != F::MOV_R), "{}", text::print(&f));
        let product = insts(&f).find(|s| s.form == F::HGMMA_RRUR_OPEN).unwrap();
        assert_eq!(reg(product, S::Rd), reg(product, S::Rc));
    }

    /// What a product reads is not written before the wait, and not by the product itself.
    #[test]
    fn a_factor_stays_until_the_wait() {
        let others: String =
            (600..640).map(|k| format!("    LDC Rd=%r{k} Const=c[0][{}]\n    STS Ra=%r2 Rb=%r{k}\n", 4 * k)).collect();
        let f = assign(&format!(
            "{BEGIN}    LDS.Size=6 Rd={{{}}} Ra=%r2\n    WARPGROUP.M79=1\n    {PRODUCT} Rd={{{}}} Ra={{{}}} {UNIFORM} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n{others}    \
             WARPGROUP_I\n{}    exit\n",
            list(20, 4),
            list(400, 32),
            list(20, 4),
            stores(400),
        ));
        let all: Vec<_> = insts(&f).collect();
        let at = all.iter().position(|s| s.form == F::HGMMA_RRUR_OPEN).unwrap();
        let wait = all.iter().position(|s| s.form == F::WARPGROUP_I).unwrap();
        let (factor, sums) = (reg(all[at], S::Ra).index(), reg(all[at], S::Rd).index());
        assert!(factor + 4 <= sums || sums + 32 <= factor);
        assert!(wait > at + 80);
        let written = |s: &&Sass| s.form == F::LDC && (factor..factor + 4).contains(&reg(s, S::Rd).index());
        assert!(!all[at..wait].iter().any(written), "{}", text::print(&f));
    }

    /// What says which elements are there is one of the sums, too: its register is the new sum's, behind the wait as well.
    #[test]
    fn a_sum_is_read_besides() {
        let others: String = (600..640).map(|k| format!("    LDS Rd=%r{k} Ra=%r2 Imm={:#x}\n", 4 * k)).collect();
        let ends: String = (600..640).map(|k| format!("    STS Ra=%r2 Rb=%r{k}\n")).collect();
        let f = assign(&format!(
            "{BEGIN}{}    WARPGROUP.M79=1\n    HGMMA_RURRI_OPEN.M53=39.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} Rc={{{}}} RegAt40=%r103\n    HGMMA_RUR \
             Pp=!UPT\n    WARPGROUP_I\n{others}{}{ends}    exit\n",
            zeros(100),
            list(400, 32),
            list(100, 32),
            stores(400),
        ));
        let product = insts(&f).find(|s| s.form == F::HGMMA_RURRI_OPEN).unwrap();
        assert_eq!(reg(product, S::Rd), reg(product, S::Rc));
    }

    /// A value that lives on where sums begin keeps out of their place, though it comes first.
    #[test]
    fn what_is_there_before_keeps_out() {
        let values: String = (500..530).map(|k| format!("    LDS Rd=%r{k} Ra=%r2 Imm={:#x}\n", 4 * k)).collect();
        let ends: String = (500..530).map(|k| format!("    STS Ra=%r2 Rb=%r{k}\n")).collect();
        let f = assign(&format!(
            "{BEGIN}{values}    WARPGROUP.M79=1\n    HGMMA_RUR_OPEN.M53=7.M75=1 Rd={{{}}} URa={{%ur10,%ur11,%ur12,%ur13}} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    \
             WARPGROUP_I\n{}{ends}    exit\n",
            list(400, 32),
            stores(400),
        ));
        assert!(insts(&f).all(|s| s.form != F::MOV_R), "{}", text::print(&f));
        let product = insts(&f).find(|s| s.form == F::HGMMA_RUR_OPEN).unwrap();
        assert_eq!(reg(product, S::Rd).index(), super::LOWEST as u32);
    }
}
