//! A warp of machine code.
//!
//! Lanes run in groups that only the code itself brings together: a divergent branch splits a group, `BSYNC` and
//! `WARPSYNC` join groups, nothing else does. So code that needs convergence and does not ask for it is seen to fail.
//! A convergence barrier is held per lane: `BSSY` notes the lanes of the group, `BSYNC` waits for those of them that
//! have neither left (`BREAK`) nor exited.
//!
//! A group runs until it waits, ends, splits (the lanes that do not branch go on first), yields, or has run for long.

mod control;
mod gmma;
mod memory;
mod sync;
mod system;
mod texture;
mod tma;
mod watch;

use super::hazard::{Distances, Hazards};
use super::image::{STACK_TOP, in_bank};
use super::init::Init;
use super::program::*;
use super::timing::{Lost, Timing};
use crate::copies::Copies;
use crate::fault::{FaultKind, MemFault};
use crate::memory::{Window, check_aligned, get, put};
use crate::shadow::{Clock, Shadow, Who};
use crate::texture::Textures;
use crate::view::Memory;
use memory::resolve;
use rustc_hash::FxHashSet;

/// Instructions that a group may issue while another could run.
const TURN: u32 = 10_000;
/// What a shuffle gives that reads an inactive lane; also the content of registers at start, with their number.
const JUNK: u32 = 0xbad0_0000;

/// A fault inside a warp.
pub struct Stop {
    /// Kind.
    pub kind: FaultKind,
    /// What happened.
    pub message: String,
    /// Lane.
    pub lane: usize,
    /// Instruction.
    pub pc: u32,
    /// A second instruction that is part of it.
    pub earlier: Option<u32>,
    /// Another thread that is part of it.
    pub other: Option<Who>,
}

/// Lanes of a warp arrive at a barrier.
pub struct Arrival {
    /// Which barrier.
    pub id: u32,
    /// The lanes.
    pub lanes: u32,
    /// Threads that the barrier is for; `None` for all.
    pub count: Option<u32>,
    /// Lanes with a true predicate.
    pub bring: u32,
    /// The instruction.
    pub pc: u32,
}

/// What a group waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Nothing.
    None,
    /// Convergence barrier.
    Converge(u8),
    /// The lanes of a mask.
    Lanes(u32),
    /// A barrier of the CTA.
    Barrier(u8),
    /// The barrier of the cluster.
    Cluster,
}

/// Lanes that run together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Which.
    pub mask: u32,
    /// Where: the next instruction, or the one that it waits at.
    pub pc: u32,
    /// For what.
    pub wait: Wait,
}

/// What a warp needs besides its own state.
pub struct Env<'a> {
    /// The program.
    pub p: &'a Program,
    /// Constant banks.
    pub banks: &'a [Window],
    /// Global memory.
    pub global: &'a mut Memory,
    /// Shared memory of the CTAs of the cluster, by rank.
    pub shared: &'a mut [Window],
    /// Textures and surfaces.
    pub textures: &'a Textures,
    /// Functions that the file does not have, by number.
    pub system: &'a [String],
    /// Constants as generic memory.
    pub constant: &'a Window,
    /// Parameters as generic memory.
    pub param: &'a Window,
    /// Instructions that may still be issued.
    pub budget: &'a mut u64,
    /// Thread instructions so far.
    pub threads: &'a mut u64,
    /// Arrivals at barriers.
    pub arrivals: &'a mut Vec<Arrival>,
    /// What those who arrived at each barrier had done, and at that of the cluster.
    pub clocks: &'a mut [Clock],
    /// See `clocks`.
    pub cluster_clock: &'a mut Clock,
    /// Barriers in shared memory that were made and not invalidated.
    pub objects: &'a mut FxHashSet<(usize, usize)>,
    /// What is known about the bytes of shared memory.
    pub shadow: &'a mut Shadow,
    /// The warp's number in its cluster.
    pub id: u32,
    /// Latencies looked up so far.
    pub distances: &'a mut Distances,
    /// Threads that arrived at the barrier of the cluster.
    pub cluster: &'a mut u32,
    /// Who watches, where somebody does.
    pub watch: Option<&'a mut Watch>,
    /// The CTA.
    pub cta: [u32; 3],
}

/// Who looks at what a launch does while it runs.
pub enum Watch {
    /// An estimate of its time.
    Time(Box<Timing>),
    /// Somebody who is told of each instruction.
    Steps(Box<dyn FnMut(&super::grid::Step) + Send>),
}

/// Uniform registers: from sm_100 on code uses more than 64.
const UNIFORM: usize = super::hazard::UNIFORM as usize;

/// Registers, aligned as the widest vectors want it.
#[repr(C, align(64))]
struct Registers<const N: usize>([Lanes; N]);

/// A warp.
pub struct Warp {
    /// Lanes that have not exited.
    pub alive: u32,
    /// The groups of living lanes.
    pub groups: Vec<Group>,
    r: Box<Registers<256>>,
    u: Box<Registers<UNIFORM>>,
    /// Results of the last lane-wise operation.
    out: Box<Out>,
    preds: [u32; 8],
    upreds: [u32; 8],
    b: [Lanes; 16],
    specials: Vec<Lanes>,
    /// See [`Exec::Rpc`].
    rpc: [Lanes; 2],
    local: Vec<Vec<u8>>,
    copies: Copies,
    hazards: Option<Box<Hazards>>,
    init: Option<Box<Init>>,
    products: gmma::Products,
    /// Rank of its CTA in the cluster, its number in the CTA, and how many warps that has.
    rank: u32,
    number: u32,
    warps: u32,
    /// Result of the last barrier reduction.
    pub bar_result: (u32, bool),
    /// Which group runs, and for how long it has.
    current: usize,
    ran: u32,
    /// Instructions issued.
    pub issued: u64,
    /// Estimated cycles, and when scoreboards are expected to clear.
    pub time: u64,
    ready: [u64; 6],
    /// When the last of its copies into shared memory is expected to be there.
    copied: u64,
    /// By scoreboard: what it is waited for, and the cycles of it that are lost for another reason.
    cause: [(Lost, Lost, u64); 6],
}

type Res<T> = Result<T, Stop>;

fn lanes(m: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |i| m >> i & 1 != 0)
}

fn stop(kind: FaultKind, message: impl Into<String>, m: u32, pc: u32) -> Stop {
    Stop { kind, message: message.into(), lane: m.trailing_zeros().min(31) as usize, pc, earlier: None, other: None }
}

fn memory(e: MemFault, lane: usize, pc: u32) -> Stop {
    Stop { other: e.earlier, ..stop(e.kind, e.message, 1 << lane, pc) }
}

impl Warp {
    /// A warp at the first instruction.
    ///
    /// `place`: the rank of its CTA in the cluster, its number in the CTA, and how many warps that has.
    pub fn new(
        exists: u32,
        specials: Vec<Lanes>,
        hazards: Option<Hazards>,
        init: Option<Init>,
        place: [u32; 3],
    ) -> Warp {
        let [rank, number, warps] = place;
        Warp {
            products: gmma::Products::default(),
            rank,
            number,
            warps,
            alive: exists,
            groups: vec![Group { mask: exists, pc: 0, wait: Wait::None }],
            r: Box::new(Registers(std::array::from_fn(|n| if n == 255 { [0; 32] } else { [JUNK | n as u32; 32] }))),
            u: Box::new(Registers(std::array::from_fn(|n| [JUNK | 0x1000 | n as u32; 32]))),
            out: Box::new(Out { r: [[0; 32]; 2], p: [0; 2] }),
            preds: [0, 0, 0, 0, 0, 0, 0, u32::MAX],
            upreds: [0, 0, 0, 0, 0, 0, 0, u32::MAX],
            b: [[0; 32]; 16],
            specials,
            rpc: [[JUNK; 32]; 2],
            local: vec![Vec::new(); 32],
            copies: Copies::default(),
            hazards: hazards.map(Box::new),
            init: init.map(Box::new),
            bar_result: (0, false),
            current: 0,
            ran: 0,
            issued: 0,
            time: 0,
            ready: [0; 6],
            copied: 0,
            cause: [(Lost::Scoreboard, Lost::Memory, 0); 6],
        }
    }

    /// True if a group can go on.
    pub fn runnable(&self) -> bool {
        self.groups.iter().any(|g| g.wait == Wait::None)
    }

    #[inline]
    fn src<'s>(&'s self, p: &'s Program, s: Src) -> &'s Lanes {
        fetch(&self.r, &self.u, p, s)
    }

    #[inline]
    fn pred(&self, p: Pred) -> u32 {
        let v = if p.uniform { self.upreds[p.index as usize] } else { self.preds[p.index as usize] };
        if p.neg { !v } else { v }
    }

    #[inline]
    fn put(&mut self, d: Dst, m: u32, out: &Lanes) {
        match d {
            Dst::R(255) | Dst::None => {}
            Dst::R(n) => {
                let r = &mut self.r.0[n as usize];
                if m == u32::MAX {
                    *r = *out;
                } else {
                    for i in 0..32 {
                        if m >> i & 1 != 0 {
                            r[i] = out[i];
                        }
                    }
                }
            }
            Dst::U(n) => self.u.0[n as usize % UNIFORM] = [out[m.trailing_zeros().min(31) as usize]; 32],
        }
    }

    #[inline]
    fn put_pred(&mut self, p: Pred, m: u32, value: u32) {
        if p.index == 7 {
            return;
        }
        if p.uniform {
            let bit = value >> m.trailing_zeros().min(31) & 1 != 0;
            self.upreds[p.index as usize] = if bit { u32::MAX } else { 0 };
        } else {
            let v = &mut self.preds[p.index as usize];
            *v = (*v & !m) | (value & m);
        }
    }

    /// Runs until every group waits or has exited, or `slice` instructions were issued.
    pub fn run(&mut self, env: &mut Env<'_>, slice: u32) -> Res<()> {
        let mut left = slice;
        while left > 0 && self.alive != 0 {
            if self.current >= self.groups.len() || self.groups[self.current].wait != Wait::None || self.ran >= TURN {
                let n = self.groups.len();
                let from = self.current + 1;
                let Some(next) = (0..n).map(|k| (from + k) % n).find(|&k| self.groups[k].wait == Wait::None) else {
                    return Ok(());
                };
                (self.current, self.ran) = (next, 0);
            }
            let Group { mask, mut pc, .. } = self.groups[self.current];
            loop {
                left -= 1;
                self.ran += 1;
                let Some(ins) = env.p.code.get(pc as usize) else {
                    return Err(stop(
                        FaultKind::OutOfBounds,
                        "control leaves the code of the kernel",
                        mask,
                        pc.saturating_sub(1),
                    ));
                };
                if *env.budget == 0 {
                    return Err(stop(FaultKind::Watchdog, "the launch has used up its instructions", mask, pc));
                }
                *env.budget -= 1;
                self.issued += 1;
                let active = mask & self.pred(ins.guard);
                *env.threads += active.count_ones() as u64;
                if env.watch.is_none() {
                    self.pass_time(ins);
                } else {
                    self.watched(env, pc, mask, active);
                }
                if let Some(h) = &mut self.hazards
                    && let Err(h) = h.issue(env.distances, env.p, pc, mask, active)
                {
                    return Err(Stop { earlier: Some(h.earlier), ..stop(FaultKind::Hazard, h.message, mask, pc) });
                }
                if let Some(i) = &mut self.init
                    && let Err((missing, message)) = i.issue(ins, mask, active)
                {
                    return Err(stop(FaultKind::Uninitialized, message, missing, pc));
                }
                if env.p.products
                    && active != 0
                    && !matches!(ins.exec, Exec::Gmma(_))
                    && let Err((message, earlier)) = self.products.watch(ins)
                {
                    let earlier = Some(earlier);
                    return Err(Stop { earlier, ..stop(FaultKind::Hazard, message, active, pc) });
                }
                if (active != 0 || ins.always) && !self.simple(env, pc, &ins.exec, active)? {
                    self.groups[self.current].pc = pc + 1;
                    self.control(env, pc, &ins.exec, active)?;
                    break;
                }
                pc += 1;
                if left == 0 || self.ran >= TURN {
                    self.groups[self.current].pc = pc;
                    break;
                }
            }
        }
        Ok(())
    }

    /// An instruction that all lanes of a warp execute together.
    fn whole(&self, m: u32, pc: u32) -> Res<()> {
        if m == u32::MAX {
            return Ok(());
        }
        let message = "not all lanes of the warp execute the instruction together";
        Err(stop(FaultKind::BarrierMisuse, message, m, pc))
    }

    #[inline]
    pub(super) fn pass_time(&mut self, ins: &Ins) {
        self.time += ins.stall as u64;
        let wait = ins.wait | ins.named;
        if wait | (ins.write_sb & ins.read_sb ^ 7) == 0 {
            return;
        }
        self.time -= ins.stall as u64;
        if wait != 0 {
            for sb in 0..6 {
                if wait >> sb & 1 != 0 {
                    self.time = self.time.max(self.ready[sb]);
                }
            }
        }
        for sb in [ins.write_sb, ins.read_sb] {
            if sb < 6 {
                let ready = &mut self.ready[sb as usize];
                *ready = (*ready).max(self.time + ins.expected as u64);
            }
        }
        self.time += ins.stall as u64;
    }

    /// Executes an instruction after which its lanes go on together; false for all others.
    fn simple(&mut self, env: &mut Env<'_>, pc: u32, exec: &Exec, m: u32) -> Res<bool> {
        match exec {
            Exec::Nop => {}
            Exec::Alu { s, n, pin, d, nd, pout, f } => {
                let p = pin.map(|p| self.pred(p));
                let zero = &env.p.consts[0];
                let mut src = [zero; 6];
                for (to, &from) in src.iter_mut().zip(&s[..*n as usize]) {
                    *to = fetch(&self.r, &self.u, env.p, from);
                }
                // What the operation leaves in lanes that do not count is never looked at.
                f(&In { s: src, p, mask: m }, &mut self.out);
                let mut d = *d;
                for k in 0..*nd as usize {
                    match d {
                        Dst::R(n @ 0..=254) if m == u32::MAX => self.r.0[n as usize] = self.out.r[k],
                        _ => {
                            let out = self.out.r[k];
                            self.put(d, m, &out);
                        }
                    }
                    d = d.next(1);
                }
                let [p, q] = self.out.p;
                self.put_pred(pout[0], m, p);
                self.put_pred(pout[1], m, q);
            }
            Exec::Load(x) => self.load(env, pc, x, m)?,
            Exec::Store(x) => self.store(env, pc, x, m)?,
            Exec::LoadConst { bank, index, offset, size, sign, d } => {
                let index = *self.src(env.p, *index);
                let mut out = [[0u32; 32]; 4];
                for i in lanes(m) {
                    let at = in_bank(index[i] as i32 as i64 + offset);
                    let fault = |e| memory(e, i, pc);
                    check_aligned(at, *size as u32, "constant").map_err(fault)?;
                    let bank = &env.banks[*bank as usize & 7];
                    let v = bank.load(at, (*size).min(8) as u32, "constant").map_err(fault)?;
                    if *size == 16 {
                        let v = bank.load(at + 8, 8, "constant").map_err(fault)?;
                        (out[2][i], out[3][i]) = (v as u32, (v >> 32) as u32);
                    }
                    let unused = 64 - 8 * (*size).min(8) as u32;
                    let v = if *sign { ((v << unused) as i64 >> unused) as u64 } else { v };
                    (out[0][i], out[1][i]) = (v as u32, (v >> 32) as u32);
                }
                for k in 0..size.div_ceil(4) {
                    self.put(d.next(k), m, &out[k as usize]);
                }
            }
            Exec::Atom(list) => list.iter().try_for_each(|x| self.atom(env, pc, x, m))?,
            Exec::ProxyFence => env.shadow.proxy_fence(env.id),
            Exec::Copy(x) => self.copy(env, pc, x, m)?,
            Exec::CopyGroup => self.copies.commit(),
            Exec::WaitFor { groups, all_but, .. } => {
                if let (Some((sb, n)), Some(h)) = (all_but, &mut self.hazards) {
                    h.wait_but(*sb as usize, *n as usize);
                }
                if let Some(n) = groups {
                    self.copies.wait(env.shadow, *n as usize).map_err(|e| memory(e, 0, pc))?;
                }
            }
            Exec::Exchange128 { space, addr, d, b, c } => {
                self.exchange(env, pc, (*space, addr), (*d, b, c.as_ref()), m)?;
            }
            Exec::Syncs(x) => self.syncs(env, pc, x, m)?,
            Exec::Bulk(x) => self.bulk(env, pc, x, m)?,
            Exec::AsyncStore(x) => self.async_store(env, pc, x, m)?,
            Exec::Rpc { d, s, high } => {
                if let Some(s) = s {
                    let v = *self.src(env.p, *s);
                    lanes(m).for_each(|i| self.rpc[*high as usize][i] = v[i]);
                } else {
                    let v = self.rpc[*high as usize];
                    self.put(*d, m, &v);
                }
            }
            Exec::Fence => env.shadow.fence(env.id),
            Exec::Matrix { load, trans, addr, r, count } => {
                self.matrix(env, pc, (*load, *trans, *r, *count), addr, m)?
            }
            Exec::Mma { op, r: [d, a, b, c], meta } => {
                self.whole(m, pc)?;
                let [na, nb, nc] = op.registers();
                let list = |first: u8, n: usize| -> Vec<Lanes> {
                    (0..n)
                        .map(|k| if first == 255 { [0; 32] } else { self.r.0[(first as usize + k).min(255)] })
                        .collect()
                };
                let meta = meta.map(|(s, selector)| (self.src(env.p, s), selector));
                let out = op.compute(&list(*a, na), &list(*b, nb), &list(*c, nc), meta);
                for (k, out) in out.iter().enumerate() {
                    self.put(gpr(*d, k), m, out);
                }
            }
            Exec::Mma884 { op, r: [d, a, b, c] } => {
                self.whole(m, pc)?;
                let two = |first: u8| -> [Lanes; 2] {
                    std::array::from_fn(
                        |k| if first == 255 { [0; 32] } else { self.r.0[(first as usize + k).min(255)] },
                    )
                };
                let out = op.compute(&two(*a), &two(*b), &two(*c));
                for (k, out) in out.iter().enumerate() {
                    self.put(gpr(*d, k), m, out);
                }
            }
            Exec::Gmma(x) => self.gmma(env, pc, x, m)?,
            Exec::GroupArrive => {
                self.whole(m, pc)?;
                self.products.arrive();
            }
            Exec::GroupWait(n) => {
                self.whole(m, pc)?;
                self.products.wait(*n as usize);
            }
            Exec::Tensor(x) => self.tensor(env, pc, x, m)?,
            Exec::Texture(x) => self.texture(env, pc, x, m)?,
            Exec::Surface(x) => self.surface(env, pc, x, m)?,
            Exec::Movm { d, a, widens } => {
                self.whole(m, pc)?;
                let a = self.src(env.p, *a);
                if *widens {
                    let out = super::tensor::widen(a);
                    (0..2).for_each(|k| self.put(gpr(*d, k), m, &out[k]));
                } else {
                    let out = super::tensor::transpose(a);
                    self.put(gpr(*d, 0), m, &out);
                }
            }
            Exec::Qspc { addr, space, p, d } => {
                let at = self.address(env.p, addr);
                let mut yes = 0;
                for i in lanes(m) {
                    let sp = resolve(Space::Generic, at[i]).0;
                    let hit = match space {
                        0 => sp == Space::Global,
                        1 => sp == Space::Local,
                        // Shared of the own CTA, or of any of the cluster; ranks are not told apart here.
                        _ => sp == Space::Shared,
                    };
                    yes |= (hit as u32) << i;
                }
                self.put_pred(*p, m, yes);
                self.put(*d, m, &std::array::from_fn(|i| yes >> i & 1));
            }
            Exec::Shfl { mode, d, p, a, b, c } => {
                let (a, b, c) = (*self.src(env.p, *a), *self.src(env.p, *b), *self.src(env.p, *c));
                let mut ok = 0;
                let out = std::array::from_fn(|i| {
                    let (j, inside) = source_lane(*mode, i as u32, b[i], c[i]);
                    ok |= (inside as u32) << i;
                    if m >> j & 1 != 0 { a[j as usize] } else { JUNK }
                });
                self.put(gpr(*d, 0), m, &out);
                self.put_pred(*p, m, ok);
            }
            Exec::Vote { mode, d, p, a } => {
                let a = self.pred(*a) & m;
                let r = match mode {
                    0 => a == m,
                    1 => a != 0,
                    _ => a == 0 || a == m,
                };
                self.put(*d, m, &[a; 32]);
                self.put_pred(*p, m, if r { u32::MAX } else { 0 });
            }
            Exec::Match { all, d, p, a } => {
                let (x, y) = (*self.src(env.p, a[0]), *self.src(env.p, a[1]));
                let same = |i: usize| lanes(m).filter(|&j| x[j] == x[i] && y[j] == y[i]).fold(0, |r, j| r | 1 << j);
                let masks: Lanes = std::array::from_fn(|i| if m >> i & 1 != 0 { same(i) } else { 0 });
                let agree = lanes(m).all(|i| masks[i] == m);
                let out = if *all { [if agree { m } else { 0 }; 32] } else { masks };
                self.put(gpr(*d, 0), m, &out);
                self.put_pred(*p, m, if agree { u32::MAX } else { 0 });
            }
            Exec::Redux { d, a, each, f } => {
                let a = self.src(env.p, *a);
                let r = lanes(m).map(|i| each.map_or(a[i], |g| g(a[i]))).reduce(f).unwrap_or(0);
                self.put(*d, m, &[r; 32]);
            }
            Exec::Elect { d, p, a } => {
                let leader = (self.pred(*a) & m).trailing_zeros();
                self.put(*d, m, &[leader; 32]);
                self.put_pred(*p, m, 1u32.checked_shl(leader).unwrap_or(0));
            }
            Exec::ToUniform { d, p, a, or } => {
                let a = *self.src(env.p, *a);
                let first = a[m.trailing_zeros() as usize];
                self.put(*d, m, &a);
                // The lanes for which another one was taken.
                let others = lanes(m).filter(|&i| a[i] != first).fold(0, |r, i| r | 1 << i);
                let before = if *or { self.pred(*p) } else { 0 };
                self.put_pred(*p, m, others | before);
            }
            Exec::PredsOut { d, a, shift, mask, uniform } => {
                let a = self.src(env.p, *a);
                let file = if *uniform { &self.upreds } else { &self.preds };
                let out = std::array::from_fn(|i| {
                    let bits = (0..7).fold(0, |r, k| r | (file[k] >> i & 1) << k);
                    (a[i] & !(mask << shift)) | (bits & mask) << shift
                });
                self.put(*d, m, &out);
            }
            Exec::PredsIn { a, shift, mask, uniform } => {
                let a = *self.src(env.p, *a);
                for k in (0..7).filter(|k| mask >> k & 1 != 0) {
                    let v = (0..32).fold(0, |r, i| r | (a[i] >> (shift + k) & 1) << i);
                    self.put_pred(Pred { uniform: *uniform, index: k as u8, neg: false }, m, v);
                }
            }
            Exec::Special { d, index, wide } => {
                let v = self.specials[*index];
                self.put(*d, m, &v);
                if *wide {
                    self.put(d.next(1), m, &[0; 32]);
                }
            }
            Exec::Clock { d, high, wide } => {
                let t = self.time;
                self.put(*d, m, &[if *high { (t >> 32) as u32 } else { t as u32 }; 32]);
                if *wide {
                    self.put(d.next(1), m, &[(t >> 32) as u32; 32]);
                }
            }
            Exec::BarrierOut { d, b, clear } => {
                let v = self.b[*b as usize & 15];
                self.put(gpr(*d, 0), m, &v);
                if *clear {
                    lanes(m).for_each(|i| self.b[*b as usize & 15][i] = 0);
                }
            }
            Exec::BarrierIn { b, s } => {
                let v = *self.src(env.p, *s);
                lanes(m).for_each(|i| self.b[*b as usize & 15][i] = v[i]);
            }
            Exec::BarResult { d, p } => {
                let (count, r) = self.bar_result;
                self.put(*d, m, &[count; 32]);
                self.put_pred(*p, m, if r { u32::MAX } else { 0 });
            }
            Exec::Bssy { b, p } => {
                let m = m & self.pred(*p);
                lanes(m).for_each(|i| self.b[*b as usize & 15][i] = m);
            }
            Exec::Break { b, p } => {
                let m = m & self.pred(*p);
                let masks = &mut self.b[*b as usize & 15];
                // Those that wait at the same barrier for who called the function that this stands in have set it for themselves.
                let set_with = lanes(m).fold(0, |r, i| r | masks[i]);
                lanes(set_with).for_each(|i| masks[i] &= !m);
                self.join();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

#[inline]
fn fetch<'s>(r: &'s Registers<256>, u: &'s Registers<UNIFORM>, p: &'s Program, s: Src) -> &'s Lanes {
    match s {
        Src::R(n) => &r.0[n as usize],
        Src::U(n) => &u.0[n as usize % UNIFORM],
        Src::K(n) => &p.consts[n as usize],
    }
}

fn gpr(d: u8, n: usize) -> Dst {
    if d == 255 { Dst::None } else { Dst::R(d.wrapping_add(n as u8)) }
}

fn source_lane(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let b = b & 31;
    let (clamp, segment) = (c & 31, c >> 8 & 31);
    let first = lane & segment;
    let last = first | (clamp & !segment);
    let (j, ok) = match mode {
        Shuffle::Up => (lane as i32 - b as i32, lane as i32 - b as i32 >= last as i32),
        Shuffle::Down => ((lane + b) as i32, lane + b <= last),
        Shuffle::Bfly => ((lane ^ b) as i32, lane ^ b <= last),
        Shuffle::Idx => ((first | (b & !segment)) as i32, first | (b & !segment) <= last),
    };
    (if ok { j as u32 & 31 } else { lane }, ok)
}
