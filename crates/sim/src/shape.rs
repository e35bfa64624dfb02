//! How a launch is laid out in clusters, CTAs, warps and threads, and whose turn it is: the same for both engines.

use crate::fault::Fault;
use crate::launch::Launch;
use crate::shadow::Who;
use std::collections::VecDeque;

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

/// An engine that runs a launch cluster by cluster.
pub(crate) trait Engine {
    /// A cluster that is begun.
    type Cluster;

    /// The n-th cluster, at its beginning.
    fn start(&self, n: u64) -> Self::Cluster;

    /// Runs a cluster for a quantum; true if it has ended.
    fn step(&mut self, c: &mut Self::Cluster) -> Result<bool, Box<Fault>>;
}

/// Runs all `total` clusters. One keeps its turn unless it has used a quantum; then the next may start.
pub(crate) fn run<E: Engine>(engine: &mut E, total: u64) -> Result<(), Box<Fault>> {
    let mut next = 0;
    let mut active: VecDeque<E::Cluster> = VecDeque::new();
    loop {
        let mut c = match active.pop_front() {
            Some(c) => c,
            None if next < total => {
                next += 1;
                engine.start(next - 1)
            }
            None => return Ok(()),
        };
        if engine.step(&mut c)? {
            continue;
        }
        active.push_back(c);
        if next < total && active.len() < RESIDENT {
            active.push_front(engine.start(next));
            next += 1;
        }
    }
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
