//! From a launch to its outcome: the grid, cluster by cluster.

use super::cta::Barriers;
use super::decode::decode;
use super::layout::layout;
use super::program::{Lanes, Program, Special};
use super::warp::{Env, Stop, Wait, Warp};
use crate::fault::{Fault, FaultKind, Other, Place, SourceLine};
use crate::launch::Launch;
use crate::memory::{Global, LOCAL_SIZE, MAX_SHARED, SHARED_RESERVED, Window, get};
use crate::shadow::{Checks, Shadow, Who};
use crate::shape::{self, Engine, Run, Shape};
use crate::texture::{Handles, Sampler, Textures};
use crate::world::World;
use crate::{Config, Outcome};
use ptx::module::{Directive, FuncKind, Module};
use ptx::types::{Dim, SpecialReg as S};

/// Instructions that a cluster issues before the next one starts.
const QUANTUM: u64 = 4_000_000;
/// Largest variable, in bytes.
const MAX_VARIABLE: u64 = 1 << 28;

/// Runs a kernel of a checked module.
///
/// CTAs run one after the other in the order of their number; only one that runs for very long (waiting for another,
/// say) lets the next ones start before it has ended. So the result is the same every time.
///
/// # Errors
/// The first fault, with kernel, CTA, thread and place.
pub fn run_ptx(m: &Module, launch: &Launch, config: &Config) -> Result<Outcome, Box<Fault>> {
    let named = |mut f: Box<Fault>| {
        f.kernel = launch.kernel.clone();
        f
    };
    let bad = |message: String| named(Box::new(Fault::new(FaultKind::Launch, message)));
    let entry = m.funcs.iter().position(|f| f.kind == FuncKind::Entry && f.name == launch.kernel && f.body.is_some());
    let Some(entry) = entry else {
        return Err(bad(format!("there is no kernel '{}' in the module", launch.kernel)));
    };
    let f = &m.funcs[entry];
    if f.params.len() != launch.args.len() {
        return Err(bad(format!(
            "the kernel has {} parameters, the launch {} arguments",
            f.params.len(),
            launch.args.len()
        )));
    }
    launch.check().map_err(bad)?;
    for d in &f.directives {
        if let Directive::ReqNtid(n) = d
            && *n != launch.block
        {
            return Err(bad(format!("the kernel requires blocks of {n:?} threads, the launch has {:?}", launch.block)));
        }
    }
    // What would not fit a GPU shall not be tried in memory here.
    if let Some(v) = m.vars.iter().find(|v| v.size() > MAX_VARIABLE || v.align > 1 << 20) {
        return Err(bad(format!("the variable '{}' has {} bytes", v.name, v.size())));
    }
    let mut global = Global::new();
    let sizes: Vec<usize> = f.params.iter().map(|v| m.vars[v.index()].size() as usize).collect();
    let mut world = World::place(launch, &sizes, Handles::Marked, &mut global).map_err(bad)?;
    for v in m.vars.iter().filter(|v| v.ty == ptx::types::ScalarType::SamplerRef) {
        if let Some(fields) = v.fields.first() {
            world.describe(&v.name, described(fields)).map_err(bad)?;
        }
    }
    let l = layout(m, ptx::module::FuncId(entry as u32), &mut global);
    if l.frames.iter().any(|&n| n > LOCAL_SIZE) {
        return Err(bad(format!("a function needs more than {LOCAL_SIZE} bytes of local memory")));
    }
    let shared = (l.shared - SHARED_RESERVED).saturating_add(launch.shared);
    if shared > MAX_SHARED {
        return Err(bad(format!("{shared} bytes of shared memory; a CTA has at most {MAX_SHARED}")));
    }
    let mut param = Window { start: 0, data: vec![0; l.param_size as usize] };
    for ((i, &v), value) in f.params.iter().enumerate().zip(&world.values) {
        let var = &m.vars[v.index()];
        if var.size() as usize != value.len() {
            let message =
                format!("parameter {i} ('{}') has {} bytes, the argument {}", var.name, var.size(), value.len());
            return Err(bad(message));
        }
        if let super::layout::Place::Param(off) = l.places[v.index()] {
            param.data[off as usize..off as usize + value.len()].copy_from_slice(value);
        }
    }
    let shape = Shape { launch, cluster: launch.cluster.unwrap_or([1; 3]) };
    let clustered = shape.cluster.iter().any(|&n| n > 1);
    let handles = |v: ptx::module::VarId| -> Option<u64> {
        match l.places[v.index()] {
            super::layout::Place::Param(off) => Some(get(&param.data, off as usize, 8)),
            _ => world.binds.iter().find(|b| b.0 == m.vars[v.index()].name).map(|b| b.1),
        }
    };
    let p = decode(m, &l, ptx::module::FuncId(entry as u32), clustered, &handles);
    let grid = Grid {
        constant: Window { start: 0, data: p.constant.clone() },
        p,
        shape,
        config,
        param,
        textures: &world.textures,
    };
    let stats = shape::run(&grid, shape.total(), &mut global, config).map_err(named)?;
    Ok(Outcome { buffers: world.contents(&global), printed: global.printed, stats })
}

/// The sampler that an initialiser describes: names and values.
fn described(fields: &[(String, String)]) -> Sampler {
    let field = |name: &str| fields.iter().find(|f| f.0 == name).map(|f| f.1.as_str());
    let edge = |name: &str| {
        let words = ["wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];
        field(name).and_then(|v| words.iter().position(|w| *w == v)).map(|n| n as u8)
    };
    Sampler::described(
        [edge("addr_mode_0"), edge("addr_mode_1"), edge("addr_mode_2")],
        field("filter_mode").map(|v| v == "linear"),
        field("force_unnormalized_coords").is_some_and(|v| v != "0"),
    )
}

struct Grid<'a> {
    p: Program,
    shape: Shape<'a>,
    config: &'a Config,
    constant: Window,
    param: Window,
    textures: &'a Textures,
}

struct Cta {
    index: [u32; 3],
    warps: Vec<Warp>,
    barriers: Barriers,
}

struct Cluster {
    ctas: Vec<Cta>,
    shared: Vec<Window>,
    shadow: Shadow,
}

impl Engine for Grid<'_> {
    type Cluster = Cluster;
    type Scratch = ();

    fn scratch(&self) {}

    fn start(&self, n: u64) -> Cluster {
        let ctas: Vec<[u32; 3]> = self.shape.ctas(n).collect();
        let bytes = (self.p.shared - SHARED_RESERVED + self.shape.launch.shared) as usize;
        let checks = Checks { init: self.config.check_uninitialized, races: self.config.check_races, lanes: true };
        let shadow = Shadow::new(ctas.len(), self.shape.warps(), bytes, checks);
        let mut c = Cluster { ctas: Vec::new(), shared: Vec::new(), shadow };
        for (rank, index) in ctas.into_iter().enumerate() {
            c.shared.push(Window { start: SHARED_RESERVED, data: vec![0; bytes] });
            c.ctas.push(self.cta(index, rank as u32));
        }
        c
    }

    fn step(&self, run: &mut Run<()>, c: &mut Cluster) -> Result<bool, Box<Fault>> {
        let mut left = QUANTUM;
        loop {
            let before = run.budget;
            let mut alive = false;
            for (rank, cta) in c.ctas.iter_mut().enumerate() {
                self.cta_turn(run, cta, (rank, &mut c.shared, &mut c.shadow))?;
                if cta.warps.iter().all(|w| w.alive == 0) {
                    c.shadow.end(rank);
                } else {
                    alive = true;
                }
            }
            if !alive {
                for cta in &c.ctas {
                    if let Some((pc, warp)) = cta.barriers.registers.missing() {
                        let message = "setmaxnreg waits for registers that no other warpgroup gives up".into();
                        let stop = Stop { kind: FaultKind::Deadlock, message, lane: 0, pc, earlier: None };
                        return Err(self.fault(stop, cta.index, warp));
                    }
                }
                return Ok(true);
            }
            let waits = |w: &Warp| (0..32).any(|i| w.waiting >> i & 1 != 0 && w.wait[i] == Wait::Cluster);
            if c.ctas.iter().any(|cta| cta.warps.iter().any(waits))
                && c.ctas.iter().all(|cta| cta.barriers.cluster_complete(&cta.warps))
            {
                let clocks: Vec<_> =
                    c.ctas.iter_mut().map(|cta| std::mem::take(&mut cta.barriers.cluster_clock)).collect();
                let warps = c.ctas.iter().map(|cta| cta.warps.len()).sum::<usize>();
                for warp in 0..warps as u32 {
                    clocks.iter().for_each(|clock| c.shadow.acquire(warp, clock));
                }
                for cta in &mut c.ctas {
                    cta.barriers.cluster_reset();
                    cta.warps.iter_mut().for_each(Warp::release_cluster);
                }
                continue;
            }
            let used = before - run.budget;
            if used == 0 {
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
    fn cta(&self, index: [u32; 3], rank: u32) -> Cta {
        let warps: Vec<Warp> = (0..self.shape.warps())
            .map(|w| {
                let special = |&s: &Special| self.special(s, index, rank, w);
                Warp::new(&self.p, w, self.shape.lanes(w), self.p.specials.iter().map(special).collect())
            })
            .collect();
        let barriers = Barriers::new(warps.len());
        Cta { index, warps, barriers }
    }

    fn special(&self, s: Special, cta: [u32; 3], rank: u32, warp: usize) -> Lanes {
        let dim = |v: [u32; 3], d: Dim| match d {
            Dim::X => v[0],
            Dim::Y => v[1],
            Dim::Z => v[2],
            Dim::W => 0,
        };
        let per = |i: usize, v: [u32; 3]| v[i] / self.shape.cluster[i];
        let reg = match s {
            Special::Shared(off) => return [(rank << 24 | off) as u64; 32],
            Special::Reg(r) => r,
        };
        let grid = self.shape.launch.grid;
        let same = |n: u32| [n as u64; 32];
        let lane = |f: fn(u32) -> u32| std::array::from_fn(|i| f(i as u32) as u64);
        match reg {
            S::Tid(d) => std::array::from_fn(|i| dim(self.shape.thread(warp, i), d) as u64),
            S::Ntid(d) => same(dim(self.shape.launch.block, d)),
            S::Ctaid(d) => same(dim(cta, d)),
            S::Nctaid(d) => same(dim(grid, d)),
            S::Clusterid(d) => same(dim(std::array::from_fn(|i| per(i, cta)), d)),
            S::Nclusterid(d) => same(dim(std::array::from_fn(|i| per(i, grid)), d)),
            S::ClusterCtaid(d) => same(dim(std::array::from_fn(|i| cta[i] % self.shape.cluster[i]), d)),
            S::ClusterNctaid(d) => same(dim(self.shape.cluster, d)),
            S::ClusterCtarank => same(rank),
            S::ClusterNctarank => same(self.shape.cluster.iter().product()),
            S::IsExplicitCluster => same(self.shape.launch.cluster.is_some() as u32),
            S::Laneid => lane(|i| i),
            S::Warpid => same(warp as u32),
            S::Nwarpid => same(64),
            S::Smid => same(0),
            S::Nsmid => same(1),
            S::LanemaskEq => lane(|i| 1 << i),
            S::LanemaskLe => lane(|i| u32::MAX >> (31 - i)),
            S::LanemaskLt => lane(|i| (1 << i) - 1),
            S::LanemaskGe => lane(|i| u32::MAX << i),
            S::LanemaskGt => lane(|i| !(u32::MAX >> (31 - i))),
            S::DynamicSmemSize => same(self.shape.launch.shared),
            S::TotalSmemSize | S::AggrSmemSize => same(self.p.shared + self.shape.launch.shared),
            S::ReservedSmemOffsetEnd | S::ReservedSmemOffsetCap => same(SHARED_RESERVED),
            _ => same(0),
        }
    }

    /// One slice for every warp of a CTA.
    fn cta_turn(
        &self,
        run: &mut Run<()>,
        cta: &mut Cta,
        (rank, shared, shadow): (usize, &mut [Window], &mut Shadow),
    ) -> Result<(), Box<Fault>> {
        let warps = cta.warps.len();
        for w in 0..cta.warps.len() {
            if cta.warps[w].runnable() == 0 {
                continue;
            }
            let mut env = Env {
                p: &self.p,
                global: &mut run.global,
                shared,
                constant: &self.constant,
                param: &self.param,
                textures: self.textures,
                barriers: &mut cta.barriers,
                budget: &mut run.budget,
                check_init: self.config.check_uninitialized,
                threads: &mut run.threads,
                shadow,
                rank,
                warps,
            };
            if let Err(stop) = cta.warps[w].run(&mut env, self.config.turn.max(1)) {
                return Err(self.fault(stop, cta.index, w));
            }
            if cta.barriers.changed {
                let first = (rank * warps) as u32;
                if let Err((w, stop)) = cta.barriers.settle(&self.p, &mut cta.warps, shadow, first) {
                    return Err(self.fault(stop, cta.index, w));
                }
            }
        }
        Ok(())
    }

    fn fault(&self, stop: Stop, cta: [u32; 3], warp: usize) -> Box<Fault> {
        Box::new(Fault {
            kind: stop.kind,
            kernel: String::new(),
            cta: Some(cta),
            thread: Some(self.shape.thread(warp, stop.lane)),
            place: Place::Ptx(self.p.code[stop.pc as usize].span),
            source: self.source(stop.pc),
            other: stop.earlier.map(|who| Box::new(self.other(who, cta))),
            message: stop.message,
        })
    }

    /// The source line of an instruction.
    fn source(&self, pc: u32) -> Option<SourceLine> {
        let (file, line) = self.p.code.get(pc as usize)?.line;
        let file = self.p.files.get(file as usize).filter(|_| line > 0)?;
        Some(SourceLine { file: file.clone(), line })
    }

    /// Another thread of the cluster that `cta` belongs to.
    fn other(&self, who: Who, cta: [u32; 3]) -> Other {
        let (cta, thread) = self.shape.who(who, cta);
        Other {
            cta,
            thread,
            place: self.p.code.get(who.pc as usize).map_or(Place::None, |i| Place::Ptx(i.span)),
            source: self.source(who.pc),
        }
    }

    /// Who waits where, when nobody can go on.
    fn deadlock(&self, c: &Cluster) -> Box<Fault> {
        let mut list: Vec<String> = Vec::new();
        let mut first = None;
        for cta in &c.ctas {
            for w in &cta.warps {
                let mut left = w.waiting;
                while left != 0 {
                    let i = left.trailing_zeros() as usize;
                    let same = (0..32).filter(|&j| left >> j & 1 != 0 && w.wait[j] == w.wait[i] && w.pc[j] == w.pc[i]);
                    let m = same.fold(0u32, |m, j| m | 1 << j);
                    left &= !m;
                    first.get_or_insert((cta.index, w.number, i, w.pc[i]));
                    let what = match w.wait[i] {
                        Wait::Barrier(id) => format!("at barrier {id}"),
                        Wait::Cluster => "at the barrier of the cluster".into(),
                        Wait::Lanes { mask, .. } => format!("for the lanes {mask:#010x} of a warp-wide instruction"),
                        Wait::None => "for nothing".into(),
                    };
                    let [x, y, z] = cta.index;
                    list.push(format!("CTA ({x},{y},{z}) warp {} lanes {m:#010x} wait {what}", w.number));
                }
            }
        }
        let more = list.len().saturating_sub(8);
        list.truncate(8);
        let mut message = format!("no thread can go on: {}", list.join("; "));
        if more > 0 {
            message += &format!("; and {more} groups more");
        }
        let mut fault = Box::new(Fault::new(FaultKind::Deadlock, message));
        if let Some((cta, warp, lane, pc)) = first {
            fault.cta = Some(cta);
            fault.thread = Some(self.shape.thread(warp, lane));
            fault.place = Place::Ptx(self.p.code[pc as usize].span);
            fault.source = self.source(pc);
        }
        fault
    }
}
