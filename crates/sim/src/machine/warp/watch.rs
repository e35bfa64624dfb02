//! What is noted of each instruction where a launch is timed or traced.

use super::*;
use crate::machine::grid::Step;
use crate::machine::timing::{passes, sectors};

impl Warp {
    /// An instruction issues, and somebody watches.
    pub(super) fn watched(&mut self, env: &mut Env<'_>, pc: u32, mask: u32, active: u32) {
        let p = env.p;
        let ins = &p.code[pc as usize];
        let request = self.request(p, &ins.exec, active);
        let cta = env.cta;
        match env.watch.as_deref_mut() {
            Some(Watch::Time(t)) => self.timed(t, p, pc, active, request),
            Some(Watch::Steps(f)) => {
                self.pass_time(ins);
                let text = match &p.insts[pc as usize] {
                    Some(inst) => sass::text::print(inst, 16 * pc as u64, &sass::text::NoLabels),
                    None => "?".into(),
                };
                f(&Step { cta, warp: self.number, offset: 16 * pc, lanes: mask, active, text });
            }
            None => {}
        }
    }

    /// The units and the fewest units of an access to memory, and if it is one to shared memory.
    fn request(&self, p: &Program, exec: &Exec, active: u32) -> Option<(bool, u64, u64)> {
        let (space, addr, size) = match exec {
            Exec::Load(x) => (x.space, &x.addr, x.size as u32),
            Exec::Store(x) => (x.space, &x.addr, x.size as u32),
            Exec::Atom(list) => (list[0].space, &list[0].addr, list[0].size as u32 * list.len() as u32),
            Exec::Copy(x) => (Space::Global, &x.from, x.size as u32),
            Exec::Matrix { addr, count, .. } => {
                let at = self.address(p, addr);
                let parts = (0..*count as usize).map(|j| {
                    let rows: Vec<(usize, u64)> = (8 * j..8 * j + 8).map(|i| (i % 8, at[i])).collect();
                    passes(&rows, 16).0
                });
                return Some((true, parts.sum(), *count as u64));
            }
            _ => return None,
        };
        if active == 0 {
            return None;
        }
        let at = self.address(p, addr);
        let first = lanes(active).next().unwrap_or(0);
        match resolve(space, at[first]).0 {
            Space::Shared => {
                let list: Vec<(usize, u64)> = lanes(active).map(|i| (i, at[i] & 0xff_ffff)).collect();
                let (units, least) = passes(&list, size);
                Some((true, units, least))
            }
            Space::Global => {
                let (units, least) = sectors(lanes(active).map(|i| at[i]).collect::<Vec<_>>().into_iter(), size);
                Some((false, units, least))
            }
            // Local memory lies so that the lanes of a warp are beside each other.
            _ => None,
        }
    }

    fn timed(&mut self, t: &mut Timing, p: &Program, pc: u32, active: u32, request: Option<(bool, u64, u64)>) {
        let ins = &p.code[pc as usize];
        let class = p.insts[pc as usize].as_ref().map_or(sass::latency::Class::Control, |i| i.form().class);
        let (mut latency, reason) = t.latency(class, ins.expected);
        let line = &mut t.lines[pc as usize].1;
        line.issued += 1;
        line.threads += active.count_ones() as u64;
        let wait = ins.wait | ins.named;
        for sb in (0..6).filter(|sb| wait >> sb & 1 != 0) {
            let late = self.ready[sb].saturating_sub(self.time);
            let (reason, other, extra) = self.cause[sb];
            let extra = extra.min(late);
            line.lost[other as usize] += extra;
            line.lost[reason as usize] += late - extra;
            self.time += late;
        }
        let mut extra = (Lost::Memory, 0);
        if let Some((shared, units, least)) = request {
            line.requests += 1;
            line.units += units;
            line.least += least;
            line.shared = shared;
            let more = units.saturating_sub(least);
            extra = if shared { (Lost::BankConflict, more) } else { (Lost::Uncoalesced, more / 4) };
        }
        // What copies into shared memory, and what closes a group of copies, clears its scoreboard when the data are there.
        let mnemonic = p.insts[pc as usize].as_ref().map_or("", |i| i.form().mnemonic);
        let done = matches!(mnemonic, "LDGSTS" | "LDGDEPBAR" | "UTMACMDFLUSH");
        if mnemonic == "LDGDEPBAR" {
            latency = self.copied.saturating_sub(self.time).max(t.latencies.operands as u64);
        } else if active == 0 && reason == Lost::Memory {
            // No lane asks for anything.
            latency = latency.min(t.latencies.operands as u64);
        }
        if mnemonic == "LDGSTS" {
            self.copied = self.copied.max(self.time + latency + extra.1);
        }
        let read = if done { latency } else { latency.min(t.latencies.operands as u64) };
        for (sb, latency) in [(ins.write_sb, latency), (ins.read_sb, read)].into_iter().filter(|x| x.0 < 6) {
            let sb = sb as usize;
            let ready = self.time + latency + extra.1;
            if ready > self.ready[sb] {
                (self.ready[sb], self.cause[sb]) = (ready, (reason, extra.0, extra.1));
            }
        }
        let stall = ins.stall.max(1) as u64;
        line.lost[Lost::Dependency as usize] += stall - 1;
        self.time += stall;
    }

    /// The warp leaves a barrier, where the last came at this time.
    pub fn leave_barrier(&mut self, t: &mut Timing, pc: u32, time: u64) {
        t.lines[pc as usize].1.lost[Lost::Barrier as usize] += time.saturating_sub(self.time);
        self.time = self.time.max(time);
    }
}
