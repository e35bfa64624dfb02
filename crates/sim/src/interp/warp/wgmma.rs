//! Matrix products of a warpgroup, and what is under way of them.
//!
//! Each of the four warps computes its own 16 rows, when it executes the instruction. Until the warp has waited for the group
//! of the product, its results are not there, and its operands must stay: who reads or writes a register of D, or writes one
//! of A, is stopped; and so is the wait, if shared memory was written that the product reads.

use super::*;
use crate::interp::program::{MatrixA, WgmmaOp, WgmmaProduct};
use crate::interp::wgmma::{Descriptor, Wgmma};
use crate::shadow::Access;

/// A product under way.
struct Flight {
    /// Call depth of its registers, and the instruction.
    depth: usize,
    pc: u32,
    /// Registers of D and what they will hold; for each number whether a later product has taken it over.
    d: Vec<(Slot, Lanes)>,
    /// Registers of A.
    a: Vec<Slot>,
    /// Bytes of shared memory that it reads: CTA, offset, size.
    reads: Vec<(usize, usize, u32)>,
    /// Rows and type of D, which the next product on the same registers must share.
    shape: (u32, u32),
}

/// Products under way of a warp.
#[derive(Default)]
pub(super) struct Products {
    /// Since the last commit.
    open: Vec<Flight>,
    groups: std::collections::VecDeque<Vec<Flight>>,
    /// `wgmma.fence` was executed.
    fenced: bool,
}

impl Products {
    fn flights(&self) -> impl DoubleEndedIterator<Item = &Flight> {
        self.groups.iter().flatten().chain(&self.open)
    }

    /// Nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.groups.is_empty()
    }
}

impl Warp {
    pub(super) fn wgmma(&mut self, env: &mut Env<'_>, first: usize, op: &WgmmaOp) -> Res<()> {
        let (depth, pc) = self.together(first)?;
        if env.warps < self.number / 4 * 4 + 4 {
            let message = "the instruction needs a warpgroup of four warps, and the CTA has not that many";
            return Err(stop(FaultKind::BarrierMisuse, message, first, pc));
        }
        match op {
            WgmmaOp::Fence => {
                self.products.fenced = true;
                self.frames.iter_mut().for_each(|f| f.dirty.fill(0));
            }
            WgmmaOp::Commit => {
                let group = std::mem::take(&mut self.products.open);
                self.products.groups.push_back(group);
            }
            WgmmaOp::Wait(n) => {
                while self.products.groups.len() > *n as usize {
                    for f in self.products.groups.pop_front().unwrap_or_default() {
                        self.arrive(env, f, pc)?;
                    }
                }
            }
            WgmmaOp::Product(x) => self.product(env, depth, pc, x)?,
            WgmmaOp::Registers(more, n) => {
                let registers = &mut env.barriers.registers;
                let done = registers.set(self.number, (*more, *n), env.p.registers, pc);
                done.map_err(|m| stop(FaultKind::BarrierMisuse, m, first, pc))?;
            }
        }
        Ok(())
    }

    /// A product is done: its registers hold the results.
    fn arrive(&mut self, env: &mut Env<'_>, f: Flight, pc: u32) -> Res<()> {
        for (rank, at, size) in &f.reads {
            let who = self.who(env, 0, f.pc);
            env.shadow.access((*rank, *at), *size, Access::READ, false, who).map_err(|mut e| {
                e.message = format!("a wgmma that was not waited for reads it: {}", e.message);
                memory(e, 0, pc)
            })?;
        }
        for (slot, value) in &f.d {
            // A later product on the same registers hands on.
            let later = self.products.flights().any(|o| o.depth == f.depth && o.d.iter().any(|d| d.0 == *slot));
            if !later && *slot != Slot::NONE {
                let frame = &mut self.frames[f.depth];
                frame.regs[slot.0 as usize] = *value;
                frame.init[slot.0 as usize] = u32::MAX;
            }
        }
        Ok(())
    }

    fn product(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, x: &WgmmaProduct) -> Res<()> {
        let misuse = |lane: usize, message: String| stop(FaultKind::BarrierMisuse, message, lane, pc);
        if !self.products.fenced {
            return Err(misuse(0, "a wgmma before the first wgmma.fence".into()));
        }
        let held: &[Slot] = match &x.a {
            MatrixA::Held(r) => r,
            MatrixA::Shared(_) => &[],
        };
        self.need_pred(env, depth, x.scale, u32::MAX, pc)?;
        let add = match self.pred(depth, x.scale) {
            u32::MAX => true,
            0 => false,
            _ => return Err(misuse(0, "the threads of a warp do not agree whether a wgmma adds to D".into())),
        };
        let shape = (x.x.n, x.d.len() as u32);
        // Values of D under way from an earlier product of the same shape.
        let mut c = Vec::with_capacity(x.d.len());
        for &slot in &x.d {
            let before = self.products.flights().rev().find(|f| f.depth == depth && f.d.iter().any(|d| d.0 == slot));
            let value = match before {
                Some(f) if f.shape != shape => {
                    let message = "a wgmma accumulates on registers of another under way that has another shape";
                    return Err(misuse(0, message.into()));
                }
                Some(f) => f.d.iter().find(|d| d.0 == slot).map_or([0; 32], |d| d.1),
                None => {
                    self.since_fence(depth, slot, pc)?;
                    if add {
                        self.need(env, depth, &[slot], u32::MAX, pc)?;
                    }
                    *self.values(env.p, depth, slot)
                }
            };
            c.push(value);
        }
        for &slot in held {
            self.since_fence(depth, slot, pc)?;
        }
        self.need(env, depth, held, u32::MAX, pc)?;
        let mut reads = Vec::new();
        let a = match &x.a {
            MatrixA::Held(r) => {
                let regs: Vec<Lanes> = r.iter().map(|&s| *self.values(env.p, depth, s)).collect();
                x.x.held(&regs)
            }
            MatrixA::Shared(s) => {
                let rows = (16 * (self.number as u32 % 4), 16);
                let k = x.x.stored();
                let d = self.descriptor(env, (depth, pc), *s)?;
                let at = Wgmma::pieces(&d, x.x.trans_a, x.x.a, rows, k);
                let content = self.fetch(env, pc, &at, &mut reads)?;
                Wgmma::values(x.x.trans_a, x.x.a, 16, k, &content)
            }
        };
        let d = self.descriptor(env, (depth, pc), x.b)?;
        let at = Wgmma::pieces(&d, x.x.trans_b, x.x.b, (0, x.x.n), x.x.k);
        let content = self.fetch(env, pc, &at, &mut reads)?;
        let b = Wgmma::values(x.x.trans_b, x.x.b, x.x.n, x.x.k, &content);
        let meta = match x.meta {
            Slot::NONE => None,
            s => {
                self.need(env, depth, &[s], u32::MAX, pc)?;
                Some(*self.values(env.p, depth, s))
            }
        };
        let out = x.x.compute(&a, &b, add.then_some(&c[..]), meta.as_ref()).map_err(|(i, m)| misuse(i, m))?;
        // What is under way is not written.
        for slot in x.d.iter().filter(|&&s| s != Slot::NONE) {
            self.frames[depth].init[slot.0 as usize] = 0;
        }
        let d = x.d.iter().copied().zip(out).collect();
        self.products.open.push(Flight { depth, pc, d, a: held.to_vec(), reads, shape });
        Ok(())
    }

    /// A register must not have been written since the last `wgmma.fence`.
    fn since_fence(&self, depth: usize, slot: Slot, pc: u32) -> Res<()> {
        let dirty = match slot.0 >> 30 {
            0 => self.frames[depth].dirty.get(slot.0 as usize).copied().unwrap_or(0),
            _ => 0,
        };
        if dirty == 0 {
            return Ok(());
        }
        let message = "a register of a wgmma was written after the last wgmma.fence";
        Err(stop(FaultKind::BarrierMisuse, message, dirty.trailing_zeros() as usize, pc))
    }

    /// The descriptor in a register: the same in all lanes.
    fn descriptor(&self, env: &Env<'_>, (depth, pc): (usize, u32), s: Slot) -> Res<Descriptor> {
        self.need(env, depth, &[s], u32::MAX, pc)?;
        let v = self.values(env.p, depth, s);
        if let Some(lane) = (1..32).find(|&i| v[i] != v[0]) {
            let message = "the threads of a warp give different matrix descriptors";
            return Err(stop(FaultKind::BarrierMisuse, message, lane, pc));
        }
        Descriptor::read(v[0]).map_err(|m| stop(FaultKind::BarrierMisuse, m, 0, pc))
    }

    /// The content of pieces of shared memory of the own CTA.
    fn fetch(
        &self,
        env: &mut Env<'_>,
        pc: u32,
        at: &[u64],
        reads: &mut Vec<(usize, usize, u32)>,
    ) -> Res<Vec<[u8; 16]>> {
        let rank = env.rank;
        let fault = |e| memory(e, 0, pc);
        let mut places = Vec::with_capacity(at.len());
        for &a in at {
            places.push(env.shared[rank].find(a, 16, "shared").map_err(fault)?);
        }
        // Each byte once, in runs.
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let start = reads.len();
        for i in sorted {
            match reads[start..].last_mut() {
                Some(r) if r.1 + r.2 as usize == i => r.2 += 16,
                _ => reads.push((rank, i, 16)),
            }
        }
        for &(rank, i, size) in &reads[start..] {
            env.shadow.proxy_reads((rank, i), size, self.id(env)).map_err(fault)?;
            env.shadow.access((rank, i), size, Access::READ, false, self.who(env, 0, pc)).map_err(fault)?;
        }
        let content = |i: usize| -> [u8; 16] { std::array::from_fn(|k| env.shared[rank].data[i + k]) };
        Ok(places.into_iter().map(content).collect())
    }

    /// What an instruction did to registers of products under way.
    pub(super) fn touched(&self, depth: usize, pc: u32, exec: &Exec, m: u32) -> Res<()> {
        let bad = |lane: usize, what: &str| {
            let message = format!("a register of a wgmma under way is {what} before wgmma.wait_group");
            Err(stop(FaultKind::BarrierMisuse, message, lane, pc))
        };
        let read: SmallVec<[Slot; 4]> = match exec {
            Exec::Mov { s, .. } | Exec::Unpack { s, .. } => smallvec![*s],
            Exec::Pack { s, .. } | Exec::MovList { s, .. } => s.clone(),
            Exec::PackWide { s, .. } => smallvec![s[0], s[1], s[2], s[3]],
            Exec::UnpackWide { s, .. } => smallvec![s[0], s[1]],
            Exec::Select { a, b, .. } => smallvec![*a, *b],
            _ => SmallVec::new(),
        };
        for f in self.products.flights().filter(|f| f.depth == depth) {
            if f.d.iter().any(|d| read.contains(&d.0)) {
                return bad(m.trailing_zeros() as usize, "read");
            }
            let dirty = &self.frames[depth].dirty;
            let written = |s: &Slot| if s.0 >> 30 == 0 { dirty.get(s.0 as usize).copied().unwrap_or(0) } else { 0 };
            if let Some(mask) = f.d.iter().map(|d| &d.0).chain(&f.a).map(written).find(|&m| m != 0) {
                return bad(mask.trailing_zeros() as usize, "written");
            }
        }
        Ok(())
    }

    /// True if a slot is a result under way.
    pub(super) fn under_way(&self, depth: usize, slot: Slot) -> bool {
        self.products.flights().any(|f| f.depth == depth && f.d.iter().any(|d| d.0 == slot))
    }
}
