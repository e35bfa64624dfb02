//! The order of blocks in which two operations are one.
//!
//! The one stands where the later of the two stood, or in front of what reads the result of the earlier before that, with what it needs itself, if that is pure. If it is not, or
//! if the two need what comes of them, such mates stay apart.

use super::weigh::Live;
use super::{Halves, Made};
use crate::ir::{Def, Effect, Func, InstId};

/// So often is it tried again, with fewer mates.
const ROUNDS: usize = 4;

/// The instructions of a block as they are to stand, one of two that become one. None where they stay.
pub(super) type Order = Option<Vec<InstId>>;

/// Orders all blocks; drops mates that cannot stand together. None if no mates are left, or it is not clear which.
pub(super) fn run(f: &Func, halves: &Halves, live: &mut Live) -> Option<Vec<Order>> {
    let mut states = vec![State::There; f.insts.len()];
    for _ in 0..ROUNDS {
        if live.none() {
            return None;
        }
        let mut broken = Vec::new();
        let mut orders = Vec::with_capacity(f.blocks.len());
        for block in &f.blocks {
            let mut at = Walk { f, halves, live, states: &mut states, out: Vec::new() };
            match at.block(&block.insts) {
                Ok(order) => orders.push(order),
                // Who is in the way is always known; were it not, all would stay.
                Err(pairs) if pairs.is_empty() => return None,
                Err(pairs) => {
                    broken.extend(pairs);
                    block.insts.iter().for_each(|id| states[id.0 as usize] = State::There);
                }
            }
        }
        if broken.is_empty() {
            return Some(orders);
        }
        broken.into_iter().for_each(|n| live.drop(n));
    }
    None
}

/// How far it is with an instruction.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It has been put, or belongs to another block.
    There,
    /// It is to come.
    Coming,
    /// The other of two that become one is to come.
    Seen,
    /// What it reads is being put.
    Asked,
}

struct Walk<'a> {
    f: &'a Func,
    halves: &'a Halves,
    live: &'a Live,
    states: &'a mut [State],
    out: Vec<InstId>,
}

impl Walk<'_> {
    /// The pair of an instruction that becomes one with another, and both.
    fn pair(&self, id: InstId) -> Option<(u32, InstId, InstId)> {
        let &r = self.f.inst(id).results.first()?;
        let n = self.halves.mates[r.index()];
        match self.halves.pairs.get(n as usize)?.made {
            Made::Operations(x, y) if self.live.becomes(n) => Some((n, x, y)),
            _ => None,
        }
    }

    fn block(&mut self, insts: &[InstId]) -> Result<Order, Vec<u32>> {
        if !insts.iter().any(|&id| self.pair(id).is_some()) {
            return Ok(None);
        }
        self.out.reserve(insts.len());
        insts.iter().for_each(|id| self.states[id.0 as usize] = State::Coming);
        for &id in insts {
            if self.states[id.0 as usize] == State::There {
                continue;
            }
            if let Some((_, x, y)) = self.pair(id) {
                let other = if id == x { y } else { x };
                if self.states[other.0 as usize] != State::Seen {
                    self.states[id.0 as usize] = State::Seen;
                    continue;
                }
            }
            self.put(id)?;
        }
        Ok(Some(std::mem::take(&mut self.out)))
    }

    /// Puts an instruction, behind what it reads; else the pairs that stand against that.
    fn put(&mut self, id: InstId) -> Result<(), Vec<u32>> {
        let f = self.f;
        // Of two that become one, the first stands for both.
        let one = |walk: &Self, id: InstId| walk.pair(id).map_or(id, |(_, x, _)| x);
        let mut work = vec![one(self, id)];
        while let Some(&id) = work.last() {
            let both = self.pair(id);
            let state = self.states[id.0 as usize];
            if state == State::There {
                work.pop();
                continue;
            }
            let first = work.len();
            let args = f.inst(id).args.iter().chain(both.iter().flat_map(|&(_, _, y)| &f.inst(y).args));
            for &a in args.filter(|_| state != State::Asked) {
                let Def::Inst(d, _) = f.def(a) else { continue };
                let d = one(self, d);
                match self.states[d.0 as usize] {
                    State::There => {}
                    State::Asked => return Err(self.blamed(&work)),
                    _ if f.inst(d).op.effect() != Effect::Pure || d == id => return Err(self.blamed(&work)),
                    _ => work.push(d),
                }
            }
            self.states[id.0 as usize] = State::Asked;
            if work.len() == first {
                self.states[id.0 as usize] = State::There;
                if let Some((_, _, y)) = both {
                    self.states[y.0 as usize] = State::There;
                }
                self.out.push(id);
                work.pop();
            }
        }
        Ok(())
    }

    /// The pairs whose operands are being put.
    fn blamed(&self, work: &[InstId]) -> Vec<u32> {
        let asked = work.iter().filter(|id| matches!(self.states[id.0 as usize], State::Asked));
        let last = work.iter().rev().find_map(|&id| self.pair(id));
        asked.filter_map(|&id| self.pair(id)).chain(last).map(|(n, ..)| n).collect()
    }
}
