//! How a launch is laid out in clusters, CTAs, warps and threads, and whose turn it is: the same for both engines.

use crate::fault::Fault;
use crate::launch::Launch;
use crate::memory::Global;
use crate::shadow::Who;
use crate::view::{Memory, Trace, View, Written};
use crate::{Config, Stats};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

/// Clusters that are begun and not ended.
const RESIDENT: usize = 256;

/// The n-th of `d[0] * d[1] * d[2]` places, x first.
pub(crate) fn coordinates(n: u64, d: [u32; 3]) -> [u32; 3] {
    let (x, y) = (d[0] as u64, d[1] as u64);
    [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
}

/// A launch with the size of its clusters.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    pub launch: &'a Launch,
    /// CTAs of a cluster.
    pub cluster: [u32; 3],
}

impl Shape<'_> {
    /// Clusters in x, y, z.
    pub fn clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.launch.grid[i] / self.cluster[i])
    }

    /// How many clusters there are.
    pub fn total(&self) -> u64 {
        self.clusters().into_iter().map(|n| n as u64).product()
    }

    /// Warps of a CTA.
    pub fn warps(&self) -> usize {
        self.launch.threads().div_ceil(32) as usize
    }

    /// The lanes of a CTA's warp that are threads.
    pub fn lanes(&self, warp: usize) -> u32 {
        match (self.launch.threads() as usize).saturating_sub(32 * warp) {
            count @ 0..32 => (1 << count) - 1,
            _ => u32::MAX,
        }
    }

    /// The CTAs of the n-th cluster, by rank.
    pub fn ctas(&self, n: u64) -> impl Iterator<Item = [u32; 3]> {
        let at = coordinates(n, self.clusters());
        (0..self.cluster.iter().product::<u32>()).map(move |rank| self.within(at, rank))
    }

    fn within(&self, cluster: [u32; 3], rank: u32) -> [u32; 3] {
        let inside = coordinates(rank as u64, self.cluster);
        std::array::from_fn(|i| cluster[i] * self.cluster[i] + inside[i])
    }

    /// The thread of a CTA that is a lane of a warp.
    pub fn thread(&self, warp: usize, lane: usize) -> [u32; 3] {
        coordinates((32 * warp + lane) as u64, self.launch.block)
    }

    /// CTA and thread of somebody in the cluster that `cta` belongs to.
    pub fn who(&self, who: Who, cta: [u32; 3]) -> ([u32; 3], [u32; 3]) {
        let warps = self.warps() as u32;
        let at = std::array::from_fn(|i| cta[i] / self.cluster[i]);
        (self.within(at, who.warp / warps), self.thread((who.warp % warps) as usize, who.lane as usize))
    }
}

/// What clusters use while they run, and what they count.
pub(crate) struct Run<S> {
    /// Global memory.
    pub global: Memory,
    /// Warp instructions that may still be issued.
    pub budget: u64,
    /// What was done so far.
    pub threads: u64,
    /// Estimated cycles of the longest warp.
    pub cycles: u64,
    /// What the engine keeps for a thread of this machine.
    pub scratch: S,
}

/// An engine that runs a launch cluster by cluster.
pub(crate) trait Engine: Sync {
    /// A cluster that is begun.
    type Cluster;
    /// What it keeps for a thread of this machine: nothing that a result depends on.
    type Scratch: Send;

    /// See [`Engine::Scratch`].
    fn scratch(&self) -> Self::Scratch;

    /// The n-th cluster, at its beginning.
    fn start(&self, n: u64) -> Self::Cluster;

    /// Runs a cluster for a quantum; true if it has ended.
    fn step(&self, run: &mut Run<Self::Scratch>, c: &mut Self::Cluster) -> Result<bool, Box<Fault>>;
}

/// Clusters on trial at once, for each thread of this machine.
const TRIALS: u64 = 16;
/// Warp instructions below which a launch is not worth several threads.
const WORTH: u64 = 50_000;

/// How a cluster ended that ran on trial.
struct Trial {
    trace: Trace,
    issued: u64,
    threads: u64,
    cycles: u64,
    /// False if it did not end within its first quantum.
    ended: Result<bool, Box<Fault>>,
}

/// Runs all `total` clusters, as if one after the other; gives what was counted.
///
/// One keeps its turn unless it has used a quantum; then the next may start, as it might wait for it.
///
/// With several threads clusters run on trial, each with a view of global memory as it was before the trial. In the order of
/// their number, the writes of each are put into memory if the cluster has read nothing that one before it in the same
/// trial wrote: then it has done what it would have done after them. Otherwise it runs again. From a cluster that does not
/// end in its first quantum, or that allocates memory, and where trials mostly fail, no more trials are made.
pub(crate) fn run<E: Engine>(
    engine: &E,
    total: u64,
    global: &mut Global,
    config: &Config,
) -> Result<Stats, Box<Fault>> {
    let mut stats = Stats::default();
    if let Some(p) = &config.progress {
        p.clusters.store(total, std::sync::atomic::Ordering::Relaxed);
    }
    let processors = if config.threads == 0 { rayon::current_num_threads() } else { config.threads };
    let mut next = 0;
    if processors > 1 && total > 2 {
        let pool = (config.threads != 0).then(|| rayon::ThreadPoolBuilder::new().num_threads(processors).build());
        let pool = pool.and_then(Result::ok);
        let mut failed = 0;
        let mut count = 1;
        while next < total && failed <= next / 4 + 2 {
            let left = config.max_instructions - stats.warp_instructions;
            let numbers: Vec<u64> = (next..total.min(next + count)).collect();
            let trials = on_trial(global, |below| {
                let all = || numbers.par_iter().map(|&n| trial(engine, n, below.clone(), left)).collect::<Vec<_>>();
                match &pool {
                    _ if count == 1 => numbers.iter().map(|&n| trial(engine, n, below.clone(), left)).collect(),
                    Some(pool) => pool.install(all),
                    None => all(),
                }
            });
            let mut written = Written::default();
            let mut go_on = true;
            for mut t in trials {
                let left = config.max_instructions - stats.warp_instructions;
                if written.disturbs(&t.trace) {
                    failed += 1;
                    t = on_trial(global, |below| trial(engine, next, below, left));
                }
                let whole = !t.trace.alone && t.issued < left && !matches!(t.ended, Ok(false));
                if !whole {
                    go_on = false;
                    break;
                }
                t.ended?;
                written.apply(t.trace, global);
                stats.warp_instructions += t.issued;
                stats.thread_instructions += t.threads;
                stats.cycles = stats.cycles.max(t.cycles);
                next += 1;
                if let Some(p) = &config.progress {
                    p.tell(next, stats.warp_instructions);
                }
            }
            // The first cluster tells what the others will take.
            let worth = stats.warp_instructions.saturating_mul(total - next) / next.max(1) > WORTH;
            if !go_on || !worth {
                break;
            }
            count = TRIALS * processors as u64;
        }
    }
    one_by_one(engine, next..total, global, config, &mut stats)?;
    Ok(stats)
}

/// Lends memory to `f`, whose views are all gone when it ends.
fn on_trial<T>(global: &mut Global, f: impl FnOnce(Arc<Global>) -> T) -> T {
    let below = Arc::new(std::mem::take(global));
    let result = f(below.clone());
    *global = Arc::into_inner(below).expect("no view outlives its trial");
    result
}

fn trial<E: Engine>(engine: &E, n: u64, below: Arc<Global>, budget: u64) -> Trial {
    let global = Memory::View(View::new(below));
    let mut run = Run { global, budget, threads: 0, cycles: 0, scratch: engine.scratch() };
    let ended = engine.step(&mut run, &mut engine.start(n));
    let trace = match run.global {
        Memory::View(v) => v.trace(),
        Memory::Whole(..) => unreachable!("a trial has a view"),
    };
    Trial { trace, issued: budget - run.budget, threads: run.threads, cycles: run.cycles, ended }
}

fn one_by_one<E: Engine>(
    engine: &E,
    mut numbers: std::ops::Range<u64>,
    global: &mut Global,
    config: &Config,
    stats: &mut Stats,
) -> Result<(), Box<Fault>> {
    let budget = config.max_instructions - stats.warp_instructions;
    let memory = Memory::Whole(std::mem::take(global), 0);
    let mut run = Run { global: memory, budget, threads: 0, cycles: 0, scratch: engine.scratch() };
    let mut active: VecDeque<E::Cluster> = VecDeque::new();
    let mut ended = numbers.start;
    loop {
        if let Some(p) = &config.progress {
            p.tell(ended, config.max_instructions - run.budget);
        }
        let mut c = match active.pop_front() {
            Some(c) => c,
            None => match numbers.next() {
                Some(n) => engine.start(n),
                None => break,
            },
        };
        if engine.step(&mut run, &mut c)? {
            ended += 1;
            continue;
        }
        active.push_back(c);
        if active.len() < RESIDENT
            && let Some(n) = numbers.next()
        {
            active.push_front(engine.start(n));
        }
    }
    if let Memory::Whole(g, _) = run.global {
        *global = g;
    }
    stats.warp_instructions += budget - run.budget;
    stats.thread_instructions += run.threads;
    stats.cycles = stats.cycles.max(run.cycles);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_a_launch() {
        let launch = Launch { grid: [4, 2, 1], block: [10, 4, 1], ..Launch::default() };
        let shape = Shape { launch: &launch, cluster: [2, 1, 1] };
        assert_eq!((shape.clusters(), shape.warps()), ([2, 2, 1], 2));
        assert_eq!((shape.lanes(0), shape.lanes(1), shape.lanes(2)), (u32::MAX, 0xff, 0));
        assert_eq!(shape.ctas(1).collect::<Vec<_>>(), [[2, 0, 0], [3, 0, 0]]);
        assert_eq!(shape.thread(1, 3), [5, 3, 0]);
        let who = Who { warp: 3, lane: 3, pc: 0 };
        assert_eq!(shape.who(who, [2, 1, 0]), ([3, 1, 0], [5, 3, 0]));
    }
}
