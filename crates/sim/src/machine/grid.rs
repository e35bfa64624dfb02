//! From a launch of machine code to its outcome: the grid, cluster by cluster.

use super::chip::CGA_SIZE;
use super::decode::decode;
use super::hazard::{Distances, Hazards};
use super::image::Image;
use super::init::Init;
use super::lines;
use super::program::{Lanes, Program};
use super::timing::{Latencies, Occupancy, Timing};
use super::warp::{Arrival, Env, Stop, Wait, Warp, Watch};
use crate::fault::{Fault, FaultKind, Other, Place, SourceLine};
use crate::launch::Launch;
use crate::memory::{Global, SHARED_HIGH, Window};
use crate::shadow::{Checks, Clock, Shadow, Who};
use crate::shape::{self, Engine, Run, Shape};
use crate::{Config, Outcome};
use rustc_hash::FxHashSet;
use std::sync::{Mutex, MutexGuard};

const QUANTUM: u64 = 4_000_000;

/// Runs a kernel of a cubin for sm_75 to sm_121. CTAs run in the order of their number, as in [`crate::run_ptx`].
///
/// # Errors
/// The first fault, with kernel, CTA, thread and instruction. A hazard names both instructions.
pub fn run_sass(cubin: &[u8], launch: &Launch, config: &Config) -> Result<Outcome, Box<Fault>> {
    watched(cubin, launch, config, |_, _| None).map(|done| done.0)
}

/// As [`run_sass`], with an estimate of the time that it takes. One processor runs it.
///
/// # Errors
/// As [`run_sass`].
pub fn time_sass(
    cubin: &[u8],
    launch: &Launch,
    config: &Config,
    latencies: &Latencies,
) -> Result<(Outcome, Timing), Box<Fault>> {
    let start = |p: &Program, image: &Image| {
        let mut t = Timing::new(p, image.sm, *latencies);
        let shared = image.shared + launch.shared;
        t.occupancy = Occupancy::of(image.sm, image.registers, shared, launch.threads() as u32).unwrap_or_default();
        Some(Watch::Time(Box::new(t)))
    };
    let (outcome, watch) = watched(cubin, launch, config, start)?;
    let timing = match watch {
        Some(Watch::Time(t)) => *t,
        _ => Timing::default(),
    };
    Ok((outcome, timing))
}

/// One instruction that a warp issues.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The CTA.
    pub cta: [u32; 3],
    /// The warp's number in it.
    pub warp: u32,
    /// Byte offset of the instruction.
    pub offset: u32,
    /// Lanes that run together, and those of them whose guard is true.
    pub lanes: u32,
    /// See `lanes`.
    pub active: u32,
    /// The instruction.
    pub text: String,
}

/// As [`run_sass`]; `each` is told of every instruction before it is executed, in the order of execution. One processor runs it.
///
/// # Errors
/// As [`run_sass`].
pub fn trace_sass(
    cubin: &[u8],
    launch: &Launch,
    config: &Config,
    each: Box<dyn FnMut(&Step) + Send>,
) -> Result<Outcome, Box<Fault>> {
    watched(cubin, launch, config, |_, _| Some(Watch::Steps(each))).map(|done| done.0)
}

fn watched(
    cubin: &[u8],
    launch: &Launch,
    config: &Config,
    watch: impl FnOnce(&Program, &Image) -> Option<Watch>,
) -> Result<(Outcome, Option<Watch>), Box<Fault>> {
    let named = |mut f: Box<Fault>| {
        f.kernel = launch.kernel.clone();
        f
    };
    let mut global = Global::new();
    let image =
        Image::load(cubin, launch, &mut global).map_err(|e| named(Box::new(Fault::new(FaultKind::Launch, e))))?;
    let p = decode(&image);
    let shape = Shape { launch, cluster: launch.cluster.unwrap_or([1; 3]) };
    let watch = watch(&p, &image).map(Mutex::new);
    // What is watched happens once, in order.
    let one = Config { threads: 1, ..config.clone() };
    let config = if watch.is_some() { &one } else { config };
    let grid = Grid { cubin, p, image, shape, config, watch };
    let stats = shape::run(&grid, shape.total(), &mut global, config).map_err(named)?;
    let outcome = Outcome { buffers: grid.image.world.contents(&global), printed: global.printed, stats };
    Ok((outcome, grid.watch.and_then(|w| w.into_inner().ok())))
}

struct Grid<'a> {
    cubin: &'a [u8],
    p: Program,
    image: Image,
    shape: Shape<'a>,
    config: &'a Config,
    watch: Option<Mutex<Watch>>,
}

/// Lanes that have arrived at a barrier, by warp.
#[derive(Clone, Default)]
struct Barrier {
    arrived: Vec<u32>,
    count: Option<Option<u32>>,
    brought: u32,
    threads: u32,
}

struct Cta {
    index: [u32; 3],
    warps: Vec<Warp>,
    barriers: Vec<Barrier>,
    cluster: Vec<u32>,
    /// What those who arrived at each barrier had done, and at that of the cluster.
    clocks: Vec<Clock>,
    cluster_clock: Clock,
}

struct Cluster {
    ctas: Vec<Cta>,
    shared: Vec<Window>,
    shadow: Shadow,
    objects: FxHashSet<(usize, usize)>,
}

impl Engine for Grid<'_> {
    type Cluster = Cluster;
    type Scratch = Distances;

    fn scratch(&self) -> Distances {
        Distances::new(self.image.sm, self.p.sites)
    }

    fn start(&self, n: u64) -> Cluster {
        let ctas: Vec<[u32; 3]> = self.shape.ctas(n).collect();
        let bytes = (self.image.shared - self.image.reserved + self.shape.launch.shared) as usize;
        let checks = Checks { init: false, races: self.config.check_races, lanes: false };
        let shadow = Shadow::new(ctas.len(), self.shape.warps(), bytes, checks);
        let mut c = Cluster { ctas: Vec::new(), shared: Vec::new(), shadow, objects: FxHashSet::default() };
        for (rank, index) in ctas.into_iter().enumerate() {
            c.shared.push(Window { start: self.image.reserved, data: vec![0; bytes] });
            c.ctas.push(self.cta(index, rank as u32));
        }
        c
    }

    fn step(&self, run: &mut Run<Distances>, c: &mut Cluster) -> Result<bool, Box<Fault>> {
        let mut left = QUANTUM;
        loop {
            let before = run.budget;
            let mut released = false;
            for (rank, cta) in c.ctas.iter_mut().enumerate() {
                let first = (rank * cta.warps.len()) as u32;
                for w in 0..cta.warps.len() {
                    if cta.warps[w].runnable() {
                        self.warp_turn(run, cta, (&mut c.shared, &mut c.shadow, &mut c.objects, first + w as u32), w)?;
                    }
                }
                released |= self.settle(cta, &mut c.shadow, first)?;
                if cta.warps.iter().all(|w| w.alive == 0) {
                    c.shadow.end(rank);
                }
            }
            if c.ctas.iter().all(|cta| cta.warps.iter().all(|w| w.alive == 0)) {
                for w in c.ctas.iter().flat_map(|cta| &cta.warps) {
                    run.cycles = run.cycles.max(w.time);
                }
                if let Some(Watch::Time(t)) = self.watch().as_deref_mut() {
                    for cta in &c.ctas {
                        let longest = cta.warps.iter().map(|w| w.time).max().unwrap_or(0);
                        t.ctas += 1;
                        t.warps += cta.warps.len() as u64;
                        t.sum += cta.warps.iter().map(|w| w.time).sum::<u64>();
                        t.cta_cycles += longest;
                        t.longest = t.longest.max(longest);
                    }
                }
                return Ok(true);
            }
            let waits = |w: &Warp| w.groups.iter().any(|g| g.wait == Wait::Cluster);
            let complete = |cta: &Cta| cta.warps.iter().zip(&cta.cluster).all(|(w, a)| w.alive & !a == 0);
            if c.ctas.iter().any(|cta| cta.warps.iter().any(waits)) && c.ctas.iter().all(complete) {
                let clocks: Vec<_> = c.ctas.iter_mut().map(|cta| std::mem::take(&mut cta.cluster_clock)).collect();
                let warps = c.ctas.iter().map(|cta| cta.warps.len()).sum::<usize>();
                for warp in 0..warps as u32 {
                    clocks.iter().for_each(|clock| c.shadow.acquire(warp, clock));
                }
                for cta in &mut c.ctas {
                    cta.cluster.fill(0);
                    cta.warps.iter_mut().for_each(|w| w.release(Wait::Cluster));
                }
                continue;
            }
            let used = before - run.budget;
            if used == 0 && !released {
                return Err(self.deadlock(c));
            }
            if used >= left {
                return Ok(false);
            }
            left -= used;
        }
    }
}

impl Grid<'_> {
    fn watch(&self) -> Option<MutexGuard<'_, Watch>> {
        self.watch.as_ref().and_then(|w| w.lock().ok())
    }

    fn cta(&self, index: [u32; 3], rank: u32) -> Cta {
        let warps: Vec<Warp> = (0..self.shape.warps())
            .map(|w| {
                let specials = self.p.specials.iter().map(|&s| self.special(s, index, rank, w)).collect();
                let hazards = self.config.check_hazards.then(Hazards::new);
                let init = self.config.check_uninitialized.then(Init::new);
                Warp::new(self.shape.lanes(w), specials, hazards, init, [rank, w as u32, self.shape.warps() as u32])
            })
            .collect();
        let barrier = Barrier { arrived: vec![0; warps.len()], ..Barrier::default() };
        Cta {
            index,
            cluster: vec![0; warps.len()],
            barriers: vec![barrier; 16],
            clocks: vec![Clock::new(); 16],
            cluster_clock: Clock::new(),
            warps,
        }
    }

    fn special(&self, s: u8, cta: [u32; 3], rank: u32, warp: usize) -> Lanes {
        use sass::enums::sr;
        let lane = |f: fn(u32) -> u32| std::array::from_fn(|i| f(i as u32));
        let tid = |k: usize| std::array::from_fn(|i| self.shape.thread(warp, i)[k]);
        match s {
            sr::TID_X => tid(0),
            sr::TID_Y => tid(1),
            sr::TID_Z => tid(2),
            sr::TID => {
                let (x, y, z): (Lanes, Lanes, Lanes) = (tid(0), tid(1), tid(2));
                std::array::from_fn(|i| x[i] | y[i] << 16 | z[i] << 26)
            }
            sr::CTAID_X => [cta[0]; 32],
            sr::CTAID_Y => [cta[1]; 32],
            sr::CTAID_Z => [cta[2]; 32],
            sr::LANEID => lane(|i| i),
            sr::EQMASK => lane(|i| 1 << i),
            sr::LTMASK => lane(|i| (1 << i) - 1),
            sr::LEMASK => lane(|i| u32::MAX >> (31 - i)),
            sr::GTMASK => lane(|i| !(u32::MAX >> (31 - i))),
            sr::GEMASK => lane(|i| u32::MAX << i),
            sr::SWINHI => [SHARED_HIGH; 32],
            sr::CGACTAID => [rank; 32],
            sass::enums::sr100::CGASIZE => [CGA_SIZE; 32],
            // Warp number in bits 14:8; number of warps of an SM in bits 15:8.
            sr::VIRTID => [(warp as u32) << 8; 32],
            sr::VIRTCFG => [64 << 8; 32],
            sr::SMEMSZ => [self.image.shared + self.shape.launch.shared; 32],
            _ => [0; 32],
        }
    }

    fn warp_turn(
        &self,
        run: &mut Run<Distances>,
        cta: &mut Cta,
        (shared, shadow, objects, id): (&mut [Window], &mut Shadow, &mut FxHashSet<(usize, usize)>, u32),
        w: usize,
    ) -> Result<(), Box<Fault>> {
        let mut arrivals = Vec::new();
        let mut watch = self.watch();
        let mut env = Env {
            watch: watch.as_deref_mut(),
            cta: cta.index,
            p: &self.p,
            banks: &self.image.banks,
            global: &mut run.global,
            shared,
            textures: &self.image.world.textures,
            system: &self.image.system,
            constant: &self.image.constant,
            param: &self.image.param,
            budget: &mut run.budget,
            threads: &mut run.threads,
            arrivals: &mut arrivals,
            distances: &mut run.scratch,
            cluster: &mut cta.cluster[w],
            clocks: &mut cta.clocks,
            cluster_clock: &mut cta.cluster_clock,
            shadow,
            objects,
            id,
        };
        let result = cta.warps[w].run(&mut env, self.config.turn.max(1));
        for Arrival { id, lanes, count, bring: brought, pc } in arrivals {
            let misuse = |message: String| {
                let stop = Stop {
                    kind: FaultKind::BarrierMisuse,
                    message,
                    lane: lanes.trailing_zeros() as usize,
                    pc,
                    earlier: None,
                    other: None,
                };
                self.fault(stop, cta.index, w)
            };
            let Some(b) = cta.barriers.get_mut(id as usize) else {
                return Err(misuse(format!("there is no barrier {id}, only 0 to 15")));
            };
            if b.count.is_some_and(|c| c != count) {
                return Err(misuse(format!("barrier {id} is used with different thread counts at once")));
            }
            if b.arrived[w] & lanes != 0 {
                return Err(misuse(format!("a thread arrives twice at barrier {id} before it completes")));
            }
            b.count = Some(count);
            b.arrived[w] |= lanes;
            b.brought += brought.count_ones();
            b.threads += lanes.count_ones();
        }
        result.map_err(|stop| self.fault(stop, cta.index, w))
    }

    /// Completes barriers; true if one was.
    fn settle(&self, cta: &mut Cta, shadow: &mut Shadow, first: u32) -> Result<bool, Box<Fault>> {
        let mut any = false;
        for (id, b) in cta.barriers.iter_mut().enumerate() {
            let Some(count) = b.count else { continue };
            let there = |(w, a): (&Warp, &u32)| w.alive & !a == 0;
            let full = match count {
                None => cta.warps.iter().zip(&b.arrived).all(there),
                Some(n) => {
                    32 * cta.warps.iter().zip(&b.arrived).filter(|&(w, a)| *a != 0 && there((w, a))).count() as u32 >= n
                }
            };
            if !full {
                continue;
            }
            any = true;
            let (brought, threads) = (b.brought, b.threads);
            *b = Barrier { arrived: vec![0; cta.warps.len()], ..Barrier::default() };
            let clock = std::mem::take(&mut cta.clocks[id]);
            if let Some(Watch::Time(t)) = self.watch().as_deref_mut() {
                let here = |w: &Warp| w.groups.iter().find(|g| g.wait == Wait::Barrier(id as u8)).map(|g| g.pc);
                let last = cta.warps.iter().filter(|w| here(w).is_some()).map(|w| w.time).max().unwrap_or(0);
                for w in &mut cta.warps {
                    if let Some(pc) = here(w) {
                        w.leave_barrier(t, pc, last);
                    }
                }
            }
            for (n, w) in cta.warps.iter_mut().enumerate() {
                let waits = w.groups.iter().find(|g| g.wait == Wait::Barrier(id as u8)).map(|g| g.pc);
                let Some(pc) = waits else { continue };
                if let super::program::Exec::Bar { red: Some((op, _)), .. } = &self.p.code[pc as usize].exec {
                    let all = brought == threads;
                    w.bar_result = (brought, if *op == 1 { all } else { brought > 0 });
                }
                shadow.acquire(first + n as u32, &clock);
                w.release(Wait::Barrier(id as u8));
            }
        }
        Ok(any)
    }

    fn text(&self, pc: u32) -> String {
        match self.p.insts.get(pc as usize).and_then(|i| i.as_ref()) {
            Some(inst) => sass::text::print(inst, 16 * pc as u64, &sass::text::NoLabels),
            None => "?".into(),
        }
    }

    fn source(&self, pc: u32) -> Option<SourceLine> {
        lines::source(self.cubin, &self.image.texts, 16 * pc as u64)
    }

    fn fault(&self, stop: Stop, cta: [u32; 3], warp: usize) -> Box<Fault> {
        let mut message = stop.message;
        if let Some(pc) = stop.earlier {
            message += &format!("; the earlier instruction is {:#06x}: {}", 16 * pc, self.text(pc));
        }
        Box::new(Fault {
            kind: stop.kind,
            kernel: String::new(),
            cta: Some(cta),
            thread: Some(self.shape.thread(warp, stop.lane)),
            place: Place::Sass { offset: 16 * stop.pc, text: self.text(stop.pc) },
            source: self.source(stop.pc),
            other: stop.other.map(|who| Box::new(self.other(who, cta))),
            message,
        })
    }

    /// Another thread of the cluster that `cta` belongs to.
    fn other(&self, who: Who, cta: [u32; 3]) -> Other {
        let (cta, thread) = self.shape.who(who, cta);
        Other {
            cta,
            thread,
            place: Place::Sass { offset: 16 * who.pc, text: self.text(who.pc) },
            source: self.source(who.pc),
        }
    }

    fn deadlock(&self, c: &Cluster) -> Box<Fault> {
        let mut list = Vec::new();
        let mut first = None;
        for cta in &c.ctas {
            for (n, w) in cta.warps.iter().enumerate() {
                for g in &w.groups {
                    first.get_or_insert((cta.index, n, *g));
                    let what = match g.wait {
                        Wait::Converge(b) => format!("for the lanes of B{b}"),
                        Wait::Lanes(m) => format!("for the lanes {m:#010x}"),
                        Wait::Barrier(id) => format!("at barrier {id}"),
                        Wait::Cluster => "at the barrier of the cluster".into(),
                        Wait::None => "for nothing".into(),
                    };
                    let [x, y, z] = cta.index;
                    list.push(format!(
                        "CTA ({x},{y},{z}) warp {n} lanes {:#010x} wait {what} at {:#06x}",
                        g.mask,
                        16 * g.pc
                    ));
                }
            }
        }
        let more = list.len().saturating_sub(8);
        list.truncate(8);
        let mut message = format!("no thread can go on: {}", list.join("; "));
        if more > 0 {
            message += &format!("; and {more} groups more");
        }
        match first {
            Some((cta, warp, g)) => {
                let lane = g.mask.trailing_zeros() as usize;
                self.fault(
                    Stop { kind: FaultKind::Deadlock, message, lane, pc: g.pc, earlier: None, other: None },
                    cta,
                    warp,
                )
            }
            None => Box::new(Fault::new(FaultKind::Deadlock, message)),
        }
    }
}
