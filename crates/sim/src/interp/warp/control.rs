//! Instructions that move lanes elsewhere or make them wait: branches, calls, exits, barriers.

use super::*;

impl Warp {
    /// Executes an instruction that moves lanes elsewhere or makes them wait. Every lane of the group already stands
    /// at the next instruction.
    pub(super) fn control(&mut self, env: &mut Env<'_>, depth: usize, pc: u32, exec: &Exec, m: u32) -> Res<()> {
        match exec {
            Exec::Bra { target } => each(m, |i| self.pc[i] = *target),
            Exec::Brx { s, targets } => {
                self.need(env, depth, &[*s], m, pc)?;
                let index = *self.values(env.p, depth, *s);
                for i in lanes(m) {
                    let Some(&t) = targets.get(index[i] as u32 as usize) else {
                        let message = format!("index {} of a table of {} targets", index[i], targets.len());
                        return Err(stop(FaultKind::OutOfBounds, message, i, pc));
                    };
                    self.pc[i] = t;
                }
            }
            Exec::Call { callee, args, rets } => self.call(env, depth, pc, (callee, args, rets), m)?,
            Exec::Ret if depth == 0 => self.exit(env, m)?,
            Exec::Ret => self.ret(env, depth, m),
            Exec::Exit => self.exit(env, m)?,
            Exec::Trap => {
                return Err(stop(FaultKind::Trap, "the kernel executed trap", m.trailing_zeros() as usize, pc));
            }
            Exec::Sleep => {}
            Exec::Barrier { id, count, wait, red, .. } => {
                self.need(env, depth, &[*id], m, pc)?;
                let ids = *self.values(env.p, depth, *id);
                let counts = (*count != Slot::NONE).then(|| *self.values(env.p, depth, *count));
                if let Some(red) = red {
                    self.need_pred(env, depth, red.a, m, pc)?;
                }
                let bring = red.as_ref().map_or(0, |r| self.pred(depth, r.a));
                let mut last = u32::MAX;
                for i in lanes(m) {
                    let (id, count) = (ids[i] as u32, counts.map(|c| c[i] as u32));
                    env.barriers
                        .arrive(self.number, i, id, count, bring >> i & 1 != 0)
                        .map_err(|e| stop(FaultKind::BarrierMisuse, e, i, pc))?;
                    if last != id {
                        last = id;
                        env.shadow.release(self.id(env), env.barriers.clock(id));
                    }
                    if *wait {
                        self.pc[i] = pc;
                        self.wait[i] = Wait::Barrier(id as u8);
                        self.waiting |= 1 << i;
                    }
                }
            }
            Exec::ClusterArrive { release } => {
                if let Some(again) = env.barriers.cluster_arrive(self.number, m) {
                    let message = "the thread arrives twice at the barrier of the cluster before it completes";
                    return Err(stop(FaultKind::BarrierMisuse, message, again, pc));
                }
                if *release {
                    env.shadow.release(self.id(env), &mut env.barriers.cluster_clock);
                }
            }
            Exec::ClusterWait => each(m, |i| {
                self.pc[i] = pc;
                self.wait[i] = Wait::Cluster;
                self.waiting |= 1 << i;
            }),
            Exec::Collective { mask: Slot::NONE, .. } => {
                each(m, |i| self.pc[i] = pc);
                self.complete(env, m)?;
                each(m, |i| self.pc[i] = pc + 1);
            }
            Exec::Collective { mask, key, .. } => {
                self.need(env, depth, &[*mask], m, pc)?;
                let masks = *self.values(env.p, depth, *mask);
                for i in lanes(m) {
                    let mask = masks[i] as u32;
                    if mask >> i & 1 == 0 {
                        let message = format!("the member mask {mask:#010x} does not name the lane itself ({i})");
                        return Err(stop(FaultKind::BarrierMisuse, message, i, pc));
                    }
                    self.pc[i] = pc;
                    self.wait[i] = Wait::Lanes { key: *key, mask };
                    self.waiting |= 1 << i;
                }
                self.meet(env)?;
            }
            Exec::Unsupported(what) => {
                return Err(stop(FaultKind::Unsupported, what.clone(), m.trailing_zeros() as usize, pc));
            }
            _ => {}
        }
        Ok(())
    }

    fn exit(&mut self, env: &mut Env<'_>, m: u32) -> Res<()> {
        self.sources_at_exit(env, m)?;
        self.alive &= !m;
        env.barriers.changed = true;
        self.meet(env)
    }

    /// Lets the lanes that wait at a barrier go on, with the result of its reduction; true if there are any.
    pub fn release(&mut self, p: &Program, id: u8, popc: u32, all: bool, any: bool) -> bool {
        let mut some = false;
        for i in lanes(self.waiting) {
            if self.wait[i] != Wait::Barrier(id) {
                continue;
            }
            some = true;
            let depth = self.depth[i] as usize;
            let bit = 1 << i;
            if let Exec::Barrier { red: Some(red), .. } = &p.code[self.pc[i] as usize].exec {
                match red.d {
                    BarDest::Popc(d) => self.put(depth, d, bit, &[popc as u64; 32]),
                    BarDest::And(p) => self.put_pred(depth, Some(p), bit, if all { bit } else { 0 }),
                    BarDest::Or(p) => self.put_pred(depth, Some(p), bit, if any { bit } else { 0 }),
                }
            }
            self.go_on(i);
        }
        some
    }

    /// Lets the lanes that wait for the cluster go on.
    pub fn release_cluster(&mut self) {
        for i in lanes(self.waiting) {
            if self.wait[i] == Wait::Cluster {
                self.go_on(i);
            }
        }
    }

    fn go_on(&mut self, i: usize) {
        self.wait[i] = Wait::None;
        self.waiting &= !(1 << i);
        self.pc[i] += 1;
    }
}
