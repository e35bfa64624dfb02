//! Matrix products of a warpgroup, and what is under way of them.
//!
//! A product is computed when it is issued, from what lies in shared memory then; until its group has been waited for
//! (`WARPGROUP.DEPBAR`) no other instruction may touch its registers. Registers that others wrote may be used only behind
//! `WARPGROUP.ARRIVE`.

use super::*;
use crate::machine::gmma::{Descriptor, Gmma};
use crate::machine::hazard;
use std::collections::VecDeque;

/// A set of general registers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Set([u64; 4]);

impl Set {
    fn add(&mut self, first: u8, count: usize) {
        if first == 255 {
            return;
        }
        (first as usize..(first as usize + count).min(255)).for_each(|r| self.0[r / 64] |= 1 << (r % 64));
    }
    fn has(&self, r: usize) -> bool {
        self.0[r / 64] >> (r % 64) & 1 != 0
    }
    fn join(&mut self, o: &Set) {
        (0..4).for_each(|k| self.0[k] |= o.0[k]);
    }
    fn common(&self, o: &Set) -> Option<usize> {
        (0..4).find_map(|k| Some(self.0[k] & o.0[k]).filter(|&x| x != 0).map(|x| 64 * k + x.trailing_zeros() as usize))
    }
    fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

/// Products under way in a warp.
#[derive(Default)]
pub(super) struct Products {
    /// Results and sources of those since the last commit, and of each group.
    open: Group,
    groups: VecDeque<Group>,
    /// All of them together.
    busy: Group,
    /// Registers written since the last `WARPGROUP.ARRIVE`.
    fresh: Set,
}

#[derive(Clone, Copy, Default)]
struct Group {
    results: Set,
    sources: Set,
    pc: u32,
}

impl Group {
    fn join(&mut self, o: &Group) {
        self.results.join(&o.results);
        self.sources.join(&o.sources);
        self.pc = o.pc;
    }
}

impl Products {
    /// `WARPGROUP.ARRIVE`
    pub(super) fn arrive(&mut self) {
        self.fresh = Set::default();
    }

    /// `WARPGROUP.DEPBAR`: all groups but the last `n` are done.
    pub(super) fn wait(&mut self, n: usize) {
        while self.groups.len() > n {
            self.groups.pop_front();
        }
        self.busy = self.open;
        let groups = std::mem::take(&mut self.groups);
        groups.iter().for_each(|g| self.busy.join(g));
        self.groups = groups;
    }

    /// Another instruction touches registers.
    ///
    /// # Errors
    /// What is wrong, and the product that is under way.
    pub(super) fn watch(&mut self, ins: &Ins) -> Result<(), (String, u32)> {
        let name = |r: u16| hazard::name(r);
        if !self.busy.results.is_empty() {
            for u in ins.uses.iter().filter(|u| u.reg < 255) {
                if self.busy.results.has(u.reg as usize) {
                    let what = format!("{} is read before the matrix product that writes it is done", name(u.reg));
                    return Err((what, self.busy.pc));
                }
            }
        }
        for d in ins.defs.iter().filter(|d| d.reg < 255) {
            if self.busy.results.has(d.reg as usize) || self.busy.sources.has(d.reg as usize) {
                let what = format!("{} is overwritten before the matrix product that uses it is done", name(d.reg));
                return Err((what, self.busy.pc));
            }
            self.fresh.add(d.reg as u8, 1);
        }
        Ok(())
    }
}

impl Warp {
    pub(super) fn gmma(&mut self, env: &mut Env<'_>, pc: u32, x: &Gmma, m: u32) -> Res<()> {
        self.whole(m, pc)?;
        if x.d == 255 {
            // Nothing is computed: it ends the group of those before it.
            let products = &mut self.products;
            products.groups.push_back(std::mem::take(&mut products.open));
            return Ok(());
        }
        let (rows, n, k) = x.op.dims;
        let adds = self.pred(x.scale) & m != 0;
        let first = self.number % 4;
        if self.warps < 4 {
            let message = "a matrix product of a warpgroup in a CTA of less than four warps";
            return Err(stop(FaultKind::BarrierMisuse, message, m, pc));
        }
        let halves = 1 + x.op.half as usize;
        let (nd, stored) = (rows * n / 32 / halves, if x.op.sparse { k / 2 } else { k });
        let bits = bits(x.op.a);
        let mut group = Group { pc, ..Group::default() };
        group.results.add(x.d, nd);
        if let Some(a) = x.a {
            group.sources.add(a, rows * stored * bits / 1024);
        }
        if let (true, Some(c)) = (adds, x.c) {
            group.results.add(c, nd);
        }
        let mut touched = group.results;
        touched.join(&group.sources);
        if let Some(r) = self.products.fresh.common(&touched) {
            let message = format!("R{r} was written after the last WARPGROUP.ARRIVE");
            return Err(stop(FaultKind::Hazard, message, m, pc));
        }
        // A source may not be a result that is still to come.
        if let Some(r) = self.products.busy.results.common(&group.sources) {
            let earlier = Some(self.products.busy.pc);
            let message = format!("R{r} is read before the matrix product that writes it is done");
            return Err(Stop { earlier, ..stop(FaultKind::Hazard, message, m, pc) });
        }
        let word = |w: &Warp, s: Src| w.src(env.p, s)[0] as u64;
        let [a0, a1, b0, b1] = x.descriptors.map(|s| word(self, s));
        let (da, db) = (Descriptor::read(a0 | a1 << 32), Descriptor::read(b0 | b1 << 32));
        let mut ma = match x.a {
            Some(a) => {
                let regs: Vec<Lanes> =
                    (0..rows * stored * bits / 1024).map(|r| self.r.0[(a as usize + r).min(255)]).collect();
                x.op.rows_of_a(&regs, stored)
            }
            None => {
                let from = (rows * first as usize) as u32;
                self.matrix_at(env, (da, from, rows), (stored, bits, x.transposed.0), pc)?
            }
        };
        let mut mb = self.matrix_at(env, (db, 0, n), (k, bits, x.transposed.1), pc)?;
        for (matrix, negated) in [(&mut ma, x.negated.0), (&mut mb, x.negated.1)] {
            if negated {
                matrix.iter_mut().for_each(|v| *v ^= 1 << (bits - 1));
            }
        }
        let meta = x.meta.map(|(s, selector)| (*self.src(env.p, s), selector));
        let c: Vec<Lanes> = match (adds, x.c) {
            (true, Some(c)) => (0..nd).map(|r| self.r.0[(c as usize + r).min(255)]).collect(),
            _ => vec![[0; 32]; nd],
        };
        let out = x.op.multiply((&ma, stored), &mb, &c, meta.as_ref().map(|(l, s)| (l, *s)));
        for (r, out) in out.iter().enumerate() {
            self.put(gpr(x.d, r), m, out);
        }
        let products = &mut self.products;
        products.open.join(&group);
        products.busy.join(&group);
        if x.commits {
            products.groups.push_back(std::mem::take(&mut products.open));
        }
        Ok(())
    }

    /// `count` rows of a matrix in shared memory from row `first` on, of `depth` elements of so many bits.
    fn matrix_at(
        &self,
        env: &mut Env<'_>,
        (d, first, count): (Descriptor, u32, usize),
        (depth, bits, transposed): (usize, usize, bool),
        pc: u32,
    ) -> Res<Vec<u64>> {
        let mut out = vec![0u64; count * depth];
        let fault = |e| memory(e, 0, pc);
        let rank = self.rank as u64;
        let mut seen = FxHashSet::default();
        for row in 0..count {
            let mut last = (u32::MAX, 0u64);
            for k in 0..depth {
                // Bytes of at least one element at once.
                let (byte, size) = if bits < 8 { (k * bits / 8, 1) } else { (k * bits / 8, bits / 8) };
                let a = d.place(first + row as u32, if transposed { k } else { byte } as u32, transposed);
                if last.0 != a {
                    let place = self.here(env, rank << 24 | a as u64, size as u32).map_err(fault)?;
                    if seen.insert(place.1 / 16) {
                        env.shadow.proxy_reads((place.0, place.1 & !15), 16, env.id).map_err(fault)?;
                    }
                    last = (a, get(&env.shared[place.0].data, place.1, size as u32));
                }
                out[row * depth + k] = if bits < 8 { last.1 >> (k * bits % 8) & 1 } else { last.1 };
            }
        }
        Ok(out)
    }
}

/// Bits of an element.
fn bits(t: MatrixType) -> usize {
    match t {
        MatrixType::Float(_, bits) | MatrixType::Int(bits, _) => bits as usize,
        MatrixType::Bit(_) => 1,
        MatrixType::Double => 64,
    }
}
