//! Control flow: how groups of lanes split, wait and join.

use super::*;

impl Warp {
    /// The lanes `m` of the running group go elsewhere; the rest stays the running group.
    fn split(&mut self, m: u32, pc: u32, wait: Wait) {
        let g = &mut self.groups[self.current];
        if g.mask & !m == 0 {
            (g.pc, g.wait) = (pc, wait);
        } else {
            g.mask &= !m;
            self.groups.push(Group { mask: m, pc, wait });
        }
    }

    /// Every lane goes where its word says.
    pub(super) fn jump(&mut self, p: &Program, (to, base): (Lanes, i64), mut left: u32, pc: u32) -> Res<()> {
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            let same = lanes(left).filter(|&j| to[j] == to[i]).fold(0, |r, j| r | 1 << j);
            left &= !same;
            let byte = base + to[i] as i32 as i64;
            if byte < 0 || byte % 16 != 0 || byte / 16 >= p.code.len() as i64 {
                return Err(stop(FaultKind::OutOfBounds, format!("a jump to {byte:#x}"), same, pc));
            }
            self.split(same, (byte / 16) as u32, Wait::None);
        }
        Ok(())
    }

    pub(super) fn control(&mut self, env: &mut Env<'_>, pc: u32, exec: &Exec, m: u32) -> Res<()> {
        match exec {
            Exec::Bra { p, target } => {
                let m = m & self.pred(*p);
                if m != 0 {
                    self.split(m, *target, Wait::None);
                }
            }
            Exec::BraAny { target } => {
                let group = self.groups[self.current].mask;
                self.split(group, *target, Wait::None);
            }
            Exec::BraDiv { converged, mask, inv, target } => {
                let group = self.groups[self.current].mask;
                let mask = self.src(env.p, *mask)[group.trailing_zeros() as usize];
                let mask = if *inv { !mask } else { mask };
                // Lanes that have exited do not make a warp divergent; lanes with a false guard do.
                if (mask & self.alive == m) == *converged {
                    self.split(group, *target, Wait::None);
                }
            }
            Exec::Jump { p, low, high, base } => {
                if let Some(high) = high
                    && self.calls_system(env, pc, (*low, *high), m & self.pred(*p))?
                {
                    return Ok(());
                }
                let to = *self.src(env.p, *low);
                self.jump(env.p, (to, *base), m & self.pred(*p), pc)?;
            }
            Exec::ActiveOut { b } => {
                let mask = self.groups[self.current].mask;
                lanes(m).for_each(|i| self.b[*b as usize & 15][i] = mask);
            }
            Exec::ActiveIn { b, quad } => {
                // Lanes that wait elsewhere help for some instructions, between which nothing diverges.
                let mask = self.b[*b as usize & 15][m.trailing_zeros() as usize];
                let quads = (0..8).map(|q| 15 << (4 * q)).filter(|q| mask & q != 0).fold(0, |r, q| r | q);
                self.groups[self.current].mask = if *quad { quads } else { mask };
            }
            Exec::Exit { p } => {
                let m = m & self.pred(*p);
                self.alive &= !m;
                let g = &mut self.groups[self.current];
                g.mask &= !m;
                self.join();
            }
            Exec::Bsync { b, p } => {
                let m = m & self.pred(*p);
                if m != 0 {
                    self.split(m, pc, Wait::Converge(*b & 15));
                    self.join();
                }
            }
            Exec::WarpSync { p, who } => {
                let mut left = m & self.pred(*p);
                let masks = match who {
                    Meeting::All => [u32::MAX; 32],
                    Meeting::Mask(s) => *self.src(env.p, *s),
                };
                while left != 0 {
                    let i = left.trailing_zeros() as usize;
                    let same = lanes(left).filter(|&j| masks[j] == masks[i]).fold(0, |r, j| r | 1 << j);
                    left &= !same;
                    if same & !masks[i] != 0 {
                        let message = format!("the mask {:#010x} does not name all lanes that wait", masks[i]);
                        return Err(stop(FaultKind::BarrierMisuse, message, same & !masks[i], pc));
                    }
                    self.split(same, pc, Wait::Lanes(masks[i]));
                }
                self.join();
            }
            Exec::Bar { id, packed, count, wait, red } => {
                let i = m.trailing_zeros() as usize;
                let id = self.src(env.p, *id)[i];
                let (id, count) = match packed {
                    true => (id & 15, Some(id >> 16)),
                    false => (id, count.map(|c| self.src(env.p, c)[i])),
                };
                let count = count.filter(|&n| n != 0);
                let bring = red.map_or(0, |(_, p)| self.pred(p) & m);
                env.arrivals.push(Arrival { id, lanes: m, count, bring, pc });
                if let Some(clock) = env.clocks.get_mut(id as usize) {
                    env.shadow.release(env.id, clock);
                }
                if *wait {
                    self.split(m, pc, Wait::Barrier(id as u8));
                }
            }
            Exec::ClusterArrive => {
                let twice = *env.cluster & m;
                if twice != 0 {
                    let message = "the thread arrives twice at the barrier of the cluster before it completes";
                    return Err(stop(FaultKind::BarrierMisuse, message, twice, pc));
                }
                *env.cluster |= m;
                env.shadow.release(env.id, env.cluster_clock);
            }
            Exec::ClusterWait => self.split(m, pc, Wait::Cluster),
            Exec::Yield => self.ran = TURN,
            Exec::Trap => return Err(stop(FaultKind::Trap, "the kernel executed a trap", m, pc)),
            Exec::Unsupported(what) => return Err(stop(FaultKind::Unsupported, what.clone(), m, pc)),
            _ => {}
        }
        Ok(())
    }

    /// Lets every meeting that is complete go on, its lanes together.
    pub(super) fn join(&mut self) {
        let running = self.groups.get(self.current).map(|g| g.mask);
        self.groups.retain(|g| g.mask != 0);
        loop {
            let done = self.groups.iter().find_map(|g| {
                let first = g.mask.trailing_zeros() as usize;
                let wanted = match g.wait {
                    Wait::Converge(b) => self.b[b as usize][first] & self.alive,
                    Wait::Lanes(mask) => mask & self.alive,
                    _ => return None,
                };
                let come = self.groups.iter().filter(|o| o.wait == g.wait).fold(0, |r, o| r | o.mask);
                // Lanes that wait at the same barrier of an inner call have set it for themselves: theirs is another meeting.
                let same = match g.wait {
                    Wait::Converge(b) => lanes(wanted).all(|i| self.b[b as usize][i] & self.alive == wanted),
                    _ => true,
                };
                (same && wanted & !come == 0).then_some((g.wait, wanted | g.mask))
            });
            let Some((wait, m)) = done else { break };
            let mut joined: Vec<Group> = Vec::new();
            self.groups.retain(|g| {
                let goes = g.wait == wait && g.mask & m != 0;
                if goes {
                    match joined.iter_mut().find(|j| j.pc == g.pc + 1) {
                        Some(j) => j.mask |= g.mask,
                        None => joined.push(Group { mask: g.mask, pc: g.pc + 1, wait: Wait::None }),
                    }
                }
                !goes
            });
            self.groups.append(&mut joined);
        }
        // The running group may have moved in the list.
        if let Some(mask) = running {
            self.current = self.groups.iter().position(|g| g.mask & mask != 0).unwrap_or(self.groups.len());
        }
    }

    /// Lets the groups that wait for this go on.
    pub fn release(&mut self, wait: Wait) {
        for g in &mut self.groups {
            if g.wait == wait {
                (g.wait, g.pc) = (Wait::None, g.pc + 1);
            }
        }
    }
}
