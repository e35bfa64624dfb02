//! Shared memory that bulk copies of a thread still read: it must stay as it is until the thread has waited for their group.

use super::*;
use std::collections::VecDeque;

/// What a copy reads: CTA, offset, and the content when it was asked for.
#[derive(Clone)]
struct Source {
    place: (usize, usize),
    content: Vec<u8>,
}

/// Copies of a thread that read shared memory.
#[derive(Clone, Default)]
pub(super) struct Sources {
    open: Vec<Source>,
    groups: VecDeque<Vec<Source>>,
}

impl Warp {
    /// A bulk copy of a lane begins to read.
    pub(super) fn reads(&mut self, lane: usize, place: (usize, usize), content: &[u8]) {
        self.sources[lane].open.push(Source { place, content: content.to_vec() });
    }

    /// `cp.async.bulk.commit_group`, `.wait_group`
    pub(super) fn bulk_group(&mut self, env: &Env<'_>, pc: u32, what: CopyGroup, m: u32) -> Res<()> {
        for lane in lanes(m) {
            let s = &mut self.sources[lane];
            let CopyGroup::Wait(n) = what else {
                let group = std::mem::take(&mut s.open);
                s.groups.push_back(group);
                continue;
            };
            while s.groups.len() > n as usize {
                let group = s.groups.pop_front().unwrap_or_default();
                unchanged(env, &group, lane, pc)?;
            }
        }
        Ok(())
    }

    /// Threads end: what their copies read must not have changed.
    pub(super) fn sources_at_exit(&mut self, env: &Env<'_>, m: u32) -> Res<()> {
        for lane in lanes(m) {
            let s = std::mem::take(&mut self.sources[lane]);
            let all: Vec<Source> = s.groups.into_iter().flatten().chain(s.open).collect();
            unchanged(env, &all, lane, self.pc[lane].saturating_sub(1))?;
        }
        Ok(())
    }
}

fn unchanged(env: &Env<'_>, list: &[Source], lane: usize, pc: u32) -> Res<()> {
    for s in list {
        let (rank, at) = s.place;
        let now = &env.shared[rank].data[at..at + s.content.len()];
        if let Some(i) = now.iter().zip(&s.content).position(|(a, b)| a != b) {
            let at = at + i;
            let message = format!(
                "shared memory at {at:#x} was written while a bulk copy read it: its group was not waited for before"
            );
            return Err(Stop { earlier: env.shadow.writer((rank, at)), ..stop(FaultKind::Race, message, lane, pc) });
        }
    }
    Ok(())
}
