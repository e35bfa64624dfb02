//! A warp: 32 threads with a program counter each.
//!
//! Lanes that stand at the same instruction in the same call depth run together. Of several groups the deepest runs
//! first, then the one with the lowest program counter, which brings lanes together again at the end of an `if` or a
//! loop. A group that runs for long while others could run gives way, so that a lane may wait for another of its warp.
//!
//! Warp-wide instructions (`shfl.sync`, `vote.sync`, `bar.warp.sync`, ...) wait for every lane that their mask names and
//! that has not exited, wherever those lanes come from.
//!
//! Registers that were never written may be moved, selected and packed, which leaves the target unwritten where the
//! source was; any other use is a fault. A shuffle that reads a lane which does not take part leaves its result
//! unwritten.

mod calls;
mod collective;
mod control;
mod mbarrier;
mod memory;
mod sources;
mod tensormap;
mod texture;
mod wgmma;

use super::cta::Barriers;
use super::lanes::{each, mask as bits_mask, sx};
use super::layout::FUNCTION;
use super::program::*;
use crate::copies::Copies;
use crate::fault::{FaultKind, MemFault};
use crate::memory::{LOCAL_SIZE, Window, check_aligned, get, put};
use crate::shadow::{Shadow, Who};
use crate::texture::Textures;
use crate::view::Memory;
use memory::{At, resolve};
use smallvec::{SmallVec, smallvec};

/// Instructions that a group of lanes may issue while another group of the warp could run.
const TURN: u32 = 20_000;
/// Calls that may be nested.
const MAX_DEPTH: usize = 1024;

/// A fault inside a warp: which lane, at which instruction.
pub struct Stop {
    /// Kind.
    pub kind: FaultKind,
    /// What happened.
    pub message: String,
    /// Lane.
    pub lane: usize,
    /// Instruction.
    pub pc: u32,
    /// Another thread that is part of it.
    pub earlier: Option<Who>,
}

/// What a lane waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Nothing.
    None,
    /// A barrier of the CTA.
    Barrier(u8),
    /// The barrier of the cluster.
    Cluster,
    /// The other lanes of a warp-wide instruction.
    Lanes { key: u32, mask: u32 },
}

/// Registers of one call depth.
#[derive(Default)]
struct Frame {
    regs: Vec<Lanes>,
    init: Vec<u32>,
    preds: Vec<u32>,
    pinit: Vec<u32>,
    /// In a kernel with `wgmma`, lanes that wrote a register since the last `wgmma.fence`.
    dirty: Vec<u32>,
    carry: u32,
    /// Start and end of the frame in local memory.
    base: [u32; 32],
    top: [u32; 32],
    /// The call instruction that a lane came from, and the function it is in.
    site: [u32; 32],
    func: [u32; 32],
}

/// What a warp needs besides its own state.
pub struct Env<'a> {
    /// The program.
    pub p: &'a Program,
    /// Global memory.
    pub global: &'a mut Memory,
    /// Shared memory of the CTAs of the cluster, by rank.
    pub shared: &'a mut [Window],
    /// Constant memory.
    pub constant: &'a Window,
    /// Kernel parameters.
    pub param: &'a Window,
    /// Textures and surfaces.
    pub textures: &'a Textures,
    /// Barriers of the CTA.
    pub barriers: &'a mut Barriers,
    /// Instructions that may still be issued by the launch.
    pub budget: &'a mut u64,
    /// Stop at reads of unwritten registers.
    pub check_init: bool,
    /// Thread instructions so far.
    pub threads: &'a mut u64,
    /// What is known about the bytes of shared memory.
    pub shadow: &'a mut Shadow,
    /// Rank of the CTA in its cluster, and warps of a CTA.
    pub rank: usize,
    /// See `rank`.
    pub warps: usize,
}

/// Operands of a load or store.
struct Operands<'a> {
    space: Space,
    addr: &'a Addr,
    size: u8,
    sign: Option<u32>,
    slots: &'a [Slot],
}

/// A warp.
pub struct Warp {
    /// Number in its CTA.
    pub number: usize,
    /// Lanes that have not exited.
    pub alive: u32,
    /// Lanes that wait.
    pub waiting: u32,
    /// What they wait for.
    pub wait: [Wait; 32],
    /// Where each lane is.
    pub pc: [u32; 32],
    depth: [u16; 32],
    frames: Vec<Frame>,
    specials: Vec<Lanes>,
    local: Vec<Window>,
    copies: Vec<Copies>,
    products: wgmma::Products,
    sources: Vec<sources::Sources>,
    /// Instructions issued.
    pub issued: u64,
    /// When each lane last ran beside others, and for how long lanes have run since the last turn was given away.
    last_run: [u64; 32],
    ran: u32,
}

type Res<T> = Result<T, Stop>;
/// Arguments or results with their sizes.
type PassedList<'a> = &'a [(Passed, u32)];

impl Warp {
    /// A warp at the kernel's first instruction.
    pub fn new(p: &Program, number: usize, exists: u32, specials: Vec<Lanes>) -> Warp {
        let f = &p.funcs[p.entry as usize];
        let mut w = Warp {
            number,
            alive: exists,
            waiting: 0,
            wait: [Wait::None; 32],
            pc: [f.entry; 32],
            depth: [0; 32],
            frames: Vec::new(),
            specials,
            local: vec![Window::default(); 32],
            copies: vec![Copies::default(); 32],
            products: wgmma::Products::default(),
            sources: vec![sources::Sources::default(); 32],
            issued: 0,
            last_run: [0; 32],
            ran: 0,
        };
        w.frame(p, 0);
        w.frames[0].top = [f.frame; 32];
        w.frames[0].func = [p.entry; 32];
        for l in &mut w.local {
            l.data.resize(f.frame as usize, 0);
        }
        w
    }

    /// Makes sure that the registers of a depth exist.
    fn frame(&mut self, p: &Program, depth: usize) {
        while self.frames.len() <= depth {
            self.frames.push(Frame {
                regs: vec![[0; 32]; p.slots],
                init: vec![0; p.slots],
                dirty: vec![0; if p.warpgroups { p.slots } else { 0 }],
                preds: std::iter::once(u32::MAX).chain(vec![0; p.preds - 1]).collect(),
                pinit: std::iter::once(u32::MAX).chain(vec![0; p.preds - 1]).collect(),
                ..Frame::default()
            });
        }
    }

    /// Lanes that could go on.
    pub fn runnable(&self) -> u32 {
        self.alive & !self.waiting
    }

    fn values<'s>(&'s self, p: &'s Program, depth: usize, slot: Slot) -> &'s Lanes {
        match slot.0 >> 30 {
            0 => &self.frames[depth].regs[slot.0 as usize],
            1 => &p.consts[(slot.0 & !Slot::CONST) as usize],
            _ => &self.specials[(slot.0 & !Slot::SPECIAL) as usize],
        }
    }

    /// Lanes for which a slot holds a value.
    fn written(&self, depth: usize, slot: Slot) -> u32 {
        if slot.0 >> 30 == 0 { self.frames[depth].init[slot.0 as usize] } else { u32::MAX }
    }

    fn put(&mut self, depth: usize, slot: Slot, m: u32, out: &Lanes) {
        self.put_partly(depth, slot, m, m, out);
    }

    /// Parts of `bits` each in one value, low part first, and where all of them are written.
    fn packed(&self, env: &Env, depth: usize, s: &[Slot], bits: u32) -> (Lanes, u32) {
        let (mut out, mut valid) = ([0; 32], u32::MAX);
        for (k, &x) in s.iter().enumerate() {
            let v = self.values(env.p, depth, x);
            for i in 0..32 {
                out[i] |= (v[i] & bits_mask(bits)) << (k as u32 * bits);
            }
            valid &= self.written(depth, x);
        }
        (out, valid)
    }

    /// A value into parts of `bits` each.
    fn unpack(&mut self, env: &Env, depth: usize, (d, s, bits): (&[Slot], Slot, u32), m: u32) {
        let v = *self.values(env.p, depth, s);
        let valid = self.written(depth, s);
        for (k, &x) in d.iter().enumerate() {
            let out = v.map(|v| v >> (k as u32 * bits) & bits_mask(bits));
            self.put_partly(depth, x, m, valid, &out);
        }
    }

    /// Writes the lanes of `m`; those outside `valid` become unwritten.
    fn put_partly(&mut self, depth: usize, slot: Slot, m: u32, valid: u32, out: &Lanes) {
        if slot == Slot::NONE {
            return;
        }
        let f = &mut self.frames[depth];
        let d = &mut f.regs[slot.0 as usize];
        if m == u32::MAX {
            *d = *out;
        } else {
            each(m, |i| d[i] = out[i]);
        }
        let init = &mut f.init[slot.0 as usize];
        *init = (*init & !m) | (valid & m);
        if let Some(dirty) = f.dirty.get_mut(slot.0 as usize) {
            *dirty |= m;
        }
    }

    fn put_pred(&mut self, depth: usize, p: Option<u32>, m: u32, value: u32) {
        if let Some(p) = p {
            let f = &mut self.frames[depth];
            let v = &mut f.preds[p as usize];
            *v = (*v & !m) | (value & m);
            f.pinit[p as usize] |= m;
        }
    }

    fn pred(&self, depth: usize, p: PRef) -> u32 {
        let v = self.frames[depth].preds[p.slot as usize];
        if p.neg { !v } else { v }
    }

    fn need(&self, env: &Env<'_>, depth: usize, slots: &[Slot], m: u32, pc: u32) -> Res<()> {
        if !env.check_init {
            return Ok(());
        }
        for &s in slots.iter().filter(|s| **s != Slot::NONE) {
            let missing = m & !self.written(depth, s);
            if missing != 0 {
                if self.under_way(depth, s) {
                    let message = "a register of a wgmma under way is read before wgmma.wait_group";
                    return Err(stop(FaultKind::BarrierMisuse, message, missing.trailing_zeros() as usize, pc));
                }
                return Err(unwritten(missing, pc));
            }
        }
        Ok(())
    }

    fn need_pred(&self, env: &Env<'_>, depth: usize, p: PRef, m: u32, pc: u32) -> Res<()> {
        let missing = m & !self.frames[depth].pinit[p.slot as usize];
        if env.check_init && missing != 0 { Err(unwritten(missing, pc)) } else { Ok(()) }
    }

    /// Picks the lanes that run next: depth, program counter, lanes, and the next program counter at which other lanes
    /// of this depth stand.
    fn pick(&self, oldest: bool) -> (usize, u32, u32, u32) {
        let run = self.runnable();
        let mut best = run.trailing_zeros() as usize;
        each(run, |i| {
            let better = if oldest {
                self.last_run[i] < self.last_run[best]
            } else {
                (self.depth[i], !self.pc[i]) > (self.depth[best], !self.pc[best])
            };
            if better {
                best = i;
            }
        });
        let (depth, pc) = (self.depth[best], self.pc[best]);
        let (mut group, mut next) = (0, u32::MAX);
        each(run, |i| {
            if self.depth[i] == depth {
                if self.pc[i] == pc {
                    group |= 1 << i;
                } else if self.pc[i] > pc {
                    next = next.min(self.pc[i]);
                }
            }
        });
        (depth as usize, pc, group, next)
    }

    /// Runs until every lane waits or has exited, or `slice` instructions were issued.
    pub fn run(&mut self, env: &mut Env<'_>, slice: u32) -> Res<()> {
        let mut left = slice;
        while self.runnable() != 0 && left > 0 {
            let (depth, mut pc, group, next) = self.pick(self.ran >= TURN);
            if self.ran >= TURN {
                self.ran = 0;
            }
            let alone = group == self.runnable();
            let start = left;
            loop {
                left -= 1;
                if *env.budget == 0 {
                    let lane = group.trailing_zeros() as usize;
                    return Err(stop(FaultKind::Watchdog, "the launch has used up its instructions", lane, pc));
                }
                *env.budget -= 1;
                self.issued += 1;
                let ins = &env.p.code[pc as usize];
                if ins.guard.slot != 0 {
                    self.need_pred(env, depth, ins.guard, group, pc)?;
                }
                let active = group & self.pred(depth, ins.guard);
                *env.threads += active.count_ones() as u64;
                if active != 0 && !self.simple(env, depth, pc, &ins.exec, active)? {
                    // Control flow: program counters are per lane from here on.
                    each(group, |i| self.pc[i] = pc + 1);
                    self.control(env, depth, pc, &ins.exec, active)?;
                    break;
                }
                if active != 0 && !self.products.is_empty() {
                    self.touched(depth, pc, &ins.exec, active)?;
                }
                pc += 1;
                if pc >= next || left == 0 || (!alone && self.ran + (start - left) >= TURN) {
                    each(group, |i| self.pc[i] = pc);
                    break;
                }
            }
            if alone {
                self.ran = 0;
            } else {
                each(group, |i| self.last_run[i] = self.issued);
                self.ran += start - left;
            }
        }
        Ok(())
    }

    /// Executes an instruction that only computes or accesses memory; false for all others.
    #[inline]
    fn simple(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, exec: &Exec, m: u32) -> Res<bool> {
        match exec {
            Exec::Nop => {}
            Exec::Alu { d, s, n, f } => {
                self.need(env, depth, &s[..*n as usize], m, pc)?;
                let mut out = [0; 32];
                f(s.map(|x| self.values(env.p, depth, x)), &mut out, m);
                self.put(depth, *d, m, &out);
            }
            Exec::Mov { d, s } => {
                let out = *self.values(env.p, depth, *s);
                self.put_partly(depth, *d, m, self.written(depth, *s), &out);
            }
            Exec::MovList { d, s } => {
                let values: SmallVec<[(Lanes, u32); 4]> =
                    s.iter().map(|&s| (*self.values(env.p, depth, s), self.written(depth, s))).collect();
                for (&d, (out, valid)) in d.iter().zip(&values) {
                    self.put_partly(depth, d, m, *valid, out);
                }
            }
            Exec::ComparePair { d, s, f, with, yes } => {
                self.need(env, depth, s, m, pc)?;
                let mut out = [0; 32];
                for (k, f) in f.iter().enumerate() {
                    let mut r = f(s.map(|x| self.values(env.p, depth, x)));
                    if let Some((c, op)) = with {
                        self.need_pred(env, depth, *c, m, pc)?;
                        r = op.of(r, self.pred(depth, *c));
                    }
                    each(r, |i| out[i] |= yes << (16 * k));
                }
                self.put(depth, *d, m, &out);
            }
            Exec::AtomWide(x) => self.atom_wide(env, depth, pc, x, m)?,
            Exec::Compare { p, q, s, f, with } => {
                self.need(env, depth, s, m, pc)?;
                let mut r = f(s.map(|x| self.values(env.p, depth, x)));
                let mut not = !r;
                if let Some((c, op)) = with {
                    self.need_pred(env, depth, *c, m, pc)?;
                    let c = self.pred(depth, *c);
                    r = op.of(r, c);
                    not = op.of(not, c);
                }
                self.put_pred(depth, *p, m, r);
                self.put_pred(depth, *q, m, not);
            }
            Exec::Load { order, space, addr, size, d, sign } => {
                let x = Operands { space: *space, addr, size: *size, sign: *sign, slots: d };
                self.load(env, depth, pc, (*order, &x), m)?
            }
            Exec::Store { order, space, addr, size, s } => {
                let x = Operands { space: *space, addr, size: *size, sign: None, slots: s };
                self.store(env, depth, pc, (*order, &x), m)?
            }
            Exec::Select { d, a, b, p } => {
                self.need_pred(env, depth, *p, m, pc)?;
                let p = self.pred(depth, *p);
                let (x, y) = (self.values(env.p, depth, *a), self.values(env.p, depth, *b));
                let out = std::array::from_fn(|i| if p >> i & 1 != 0 { x[i] } else { y[i] });
                let valid = (self.written(depth, *a) & p) | (self.written(depth, *b) & !p);
                self.put_partly(depth, *d, m, valid, &out);
            }
            Exec::Carry { d, s, n, f, reads, writes } => {
                self.need(env, depth, &s[..*n as usize], m, pc)?;
                let carry = self.frames[depth].carry;
                let _ = reads;
                let mut out = [0; 32];
                let c = f(s.map(|x| self.values(env.p, depth, x)), carry, &mut out);
                self.put(depth, *d, m, &out);
                if *writes {
                    self.frames[depth].carry = (carry & !m) | (c & m);
                }
            }
            Exec::Pack { d, s, bits } => {
                let (out, valid) = self.packed(env, depth, s, *bits);
                self.put_partly(depth, *d, m, valid, &out);
            }
            Exec::Unpack { d, s, bits } => self.unpack(env, depth, (d, *s, *bits), m),
            Exec::PackWide { d, s } => {
                // All parts are read before the first half is written.
                let halves = [self.packed(env, depth, &s[..2], 32), self.packed(env, depth, &s[2..], 32)];
                for (&d, (out, valid)) in d.iter().zip(halves) {
                    self.put_partly(depth, d, m, valid, &out);
                }
            }
            Exec::UnpackWide { d, s } => {
                self.unpack(env, depth, (&d[..2], s[0], 32), m);
                self.unpack(env, depth, (&d[2..], s[1], 32), m);
            }
            Exec::CompareTo { d, s, f, with, yes } => {
                self.need(env, depth, s, m, pc)?;
                let mut r = f(s.map(|x| self.values(env.p, depth, x)));
                if let Some((c, op)) = with {
                    self.need_pred(env, depth, *c, m, pc)?;
                    r = op.of(r, self.pred(depth, *c));
                }
                let out = std::array::from_fn(|i| if r >> i & 1 != 0 { *yes } else { 0 });
                self.put(depth, *d, m, &out);
            }
            Exec::Pred { d, a, b, op } => {
                self.need_pred(env, depth, *a, m, pc)?;
                self.need_pred(env, depth, *b, m, pc)?;
                self.put_pred(depth, Some(*d), m, op.of(self.pred(depth, *a), self.pred(depth, *b)));
            }
            Exec::LopPred { d, p, s, f, c, op } => {
                self.need(env, depth, &s[..3], m, pc)?;
                self.need_pred(env, depth, *c, m, pc)?;
                let mut out = [0; 32];
                f(s.map(|x| self.values(env.p, depth, x)), &mut out, m);
                let set = (0..32).fold(0, |r, i| r | ((out[i] != 0) as u32) << i);
                let r = op.of(set, self.pred(depth, *c));
                self.put(depth, *d, m, &out);
                self.put_pred(depth, *p, m, r);
            }
            Exec::FrameAddr { d, offset, base } => {
                let start = self.frames[depth].base;
                let out = start.map(|b| base.wrapping_add(b as u64).wrapping_add(*offset as u64));
                self.put(depth, *d, m, &out);
            }
            Exec::Atom(list) => {
                for x in list {
                    self.atom(env, depth, pc, x, m)?;
                }
            }
            Exec::Stack { d, how } => self.stack(env, depth, pc, *d, *how, m)?,
            Exec::Copy(x) => self.copy(env, depth, pc, x, m)?,
            Exec::BulkGroup(what) => self.bulk_group(env, pc, *what, m)?,
            Exec::CopyGroup(what) => self.copy_group(env, pc, *what, m)?,
            Exec::Mbarrier(x) => self.mbarrier(env, depth, pc, x, m)?,
            Exec::Bulk(x) => self.bulk(env, depth, pc, x, m)?,
            Exec::TensorCopy(x) => self.tensor_copy(env, depth, pc, x, m)?,
            Exec::MapReplace(x) => self.map_replace(env, depth, pc, x, m)?,
            Exec::Texture(x) => self.texture(env, depth, pc, x, m)?,
            Exec::Surface(x) => self.surface(env, depth, pc, x, m)?,
            Exec::TextureQuery { d, object, level, query } => {
                self.texture_query(env, (depth, pc), (*d, *object, *level, *query), m)?;
            }
            Exec::AsyncStore(x) => self.async_store(env, depth, pc, x, m)?,
            Exec::ProxyFence => env.shadow.proxy_fence(self.id(env)),
            Exec::MapFence(at) => {
                let id = self.id(env);
                match at {
                    None => env.shadow.map_release(id),
                    Some(at) => {
                        let at = self.address(env, depth, pc, at, m)?;
                        lanes(m).for_each(|i| env.shadow.map_acquire(resolve(Space::Generic, at[i]).1, id));
                    }
                }
            }
            Exec::Fence => env.shadow.fence(self.id(env)),
            Exec::ActiveMask { d } => self.put(depth, *d, m, &[m as u64; 32]),
            Exec::Clock { d, high } => {
                let now = if *high { self.issued >> 32 } else { self.issued };
                self.put(depth, *d, m, &[now; 32]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn lanes(m: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |i| m >> i & 1 != 0)
}

fn stop(kind: FaultKind, message: impl Into<String>, lane: usize, pc: u32) -> Stop {
    Stop { kind, message: message.into(), lane, pc, earlier: None }
}

#[cold]
fn unwritten(missing: u32, pc: u32) -> Stop {
    let message = "an operand was never written";
    stop(FaultKind::Uninitialized, message, missing.trailing_zeros() as usize, pc)
}

#[cold]
fn memory(e: MemFault, lane: usize, pc: u32) -> Stop {
    Stop { earlier: e.earlier, ..stop(e.kind, e.message, lane, pc) }
}
