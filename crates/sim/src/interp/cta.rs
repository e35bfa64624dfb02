//! Barriers of a CTA.

use super::program::{Exec, Program};
use super::registers::Registers;
use super::warp::{Stop, Wait, Warp};
use crate::fault::FaultKind;
use crate::shadow::{Clock, Shadow};

/// One of the 16 barriers.
#[derive(Clone, Debug, Default)]
struct Barrier {
    /// Lanes that have arrived, by warp.
    arrived: Vec<u32>,
    any: bool,
    /// Thread count that the arrivals gave; `None` inside means all threads.
    expected: Option<Option<u32>>,
    popc: u32,
    threads: u32,
    /// What those who arrived had done.
    clock: Clock,
}

/// The barriers of a CTA. A barrier counts whole warps, as PTX says: a warp counts when all its threads that have not
/// exited have arrived.
#[derive(Clone, Debug)]
pub struct Barriers {
    list: Vec<Barrier>,
    cluster: Vec<u32>,
    /// What those who arrived at the barrier of the cluster had done.
    pub cluster_clock: Clock,
    /// Something arrived or exited since the last look.
    pub changed: bool,
    /// Registers that its warpgroups hand to each other.
    pub registers: Registers,
}

impl Barriers {
    /// For a CTA of so many warps.
    pub fn new(warps: usize) -> Barriers {
        let one = Barrier { arrived: vec![0; warps], ..Barrier::default() };
        Barriers {
            list: vec![one; 16],
            cluster: vec![0; warps],
            cluster_clock: Clock::new(),
            changed: false,
            registers: Registers::default(),
        }
    }

    /// A thread arrives; says what is wrong with it.
    pub fn arrive(&mut self, warp: usize, lane: usize, id: u32, count: Option<u32>, bring: bool) -> Result<(), String> {
        let Some(b) = self.list.get_mut(id as usize) else {
            return Err(format!("there is no barrier {id}, only 0 to 15"));
        };
        if let Some(n) = count
            && (n == 0 || n % 32 != 0 || n as usize > 32 * b.arrived.len())
        {
            return Err(format!(
                "barrier {id} is given a thread count of {n}; it must be a multiple of the warp size within the CTA"
            ));
        }
        if b.expected.is_some_and(|e| e != count) {
            let say = |c: Option<u32>| c.map_or("all threads".to_string(), |n| format!("{n} threads"));
            return Err(format!("barrier {id} is used for {} and {} at once", say(b.expected.flatten()), say(count)));
        }
        if b.arrived[warp] >> lane & 1 != 0 {
            return Err(format!("the thread arrives twice at barrier {id} before it completes"));
        }
        b.expected = Some(count);
        b.arrived[warp] |= 1 << lane;
        b.any = true;
        b.popc += bring as u32;
        b.threads += 1;
        self.changed = true;
        Ok(())
    }

    /// The clock of a barrier that threads have arrived at.
    pub fn clock(&mut self, id: u32) -> &mut Clock {
        &mut self.list[id as usize & 15].clock
    }

    /// Threads of a warp arrive at the barrier of the cluster; gives the first that has done so before in this phase.
    pub fn cluster_arrive(&mut self, warp: usize, m: u32) -> Option<usize> {
        let twice = self.cluster[warp] & m;
        self.cluster[warp] |= m;
        self.changed = true;
        (twice != 0).then(|| twice.trailing_zeros() as usize)
    }

    /// True if every living thread of the CTA has arrived at the barrier of the cluster.
    pub fn cluster_complete(&self, warps: &[Warp]) -> bool {
        warps.iter().all(|w| w.alive & !self.cluster[w.number] == 0)
    }

    /// Starts the next phase of the barrier of the cluster.
    pub fn cluster_reset(&mut self) {
        self.cluster.fill(0);
        self.cluster_clock.clear();
    }

    /// Completes what is complete; `first` is the number in the cluster of the CTA's first warp.
    ///
    /// # Errors
    /// Threads of one warp came to an aligned barrier by different instructions: the warp's number, and what is wrong.
    pub fn settle(
        &mut self,
        p: &Program,
        warps: &mut [Warp],
        shadow: &mut Shadow,
        first: u32,
    ) -> Result<(), (usize, Stop)> {
        self.changed = false;
        for (id, b) in self.list.iter_mut().enumerate() {
            if !b.any {
                continue;
            }
            let complete = match b.expected.flatten() {
                None => warps.iter().all(|w| w.alive & !b.arrived[w.number] == 0),
                Some(n) => {
                    let full = |w: &Warp| b.arrived[w.number] != 0 && w.alive & !b.arrived[w.number] == 0;
                    32 * warps.iter().filter(|w| full(w)).count() as u32 >= n
                }
            };
            if complete {
                let fresh = Barrier { arrived: vec![0; warps.len()], ..Barrier::default() };
                let done = std::mem::replace(b, fresh);
                for w in warps.iter_mut() {
                    if let Some(stop) = scattered(p, w, id as u8) {
                        return Err((w.number, stop));
                    }
                    if w.release(p, id as u8, done.popc, done.popc == done.threads, done.popc > 0) {
                        shadow.acquire(first + w.number as u32, &done.clock);
                    }
                }
            }
        }
        Ok(())
    }
}

/// What is wrong with the lanes of a warp that wait at a barrier, if it is aligned and they stand at several instructions.
fn scattered(p: &Program, w: &Warp, id: u8) -> Option<Stop> {
    let mut here = (0..32).filter(|&i| w.waiting >> i & 1 != 0 && w.wait[i] == Wait::Barrier(id));
    let first = here.next()?;
    let aligned = |i: usize| matches!(p.code[w.pc[i] as usize].exec, Exec::Barrier { aligned: true, .. });
    let other = here.find(|&i| w.pc[i] != w.pc[first] && (aligned(i) || aligned(first)))?;
    let message = format!(
        "threads of one warp come to the aligned barrier {id} by different instructions (lane {first} elsewhere than lane {other})"
    );
    Some(Stop { kind: FaultKind::BarrierMisuse, message, lane: other, pc: w.pc[other], earlier: None })
}
