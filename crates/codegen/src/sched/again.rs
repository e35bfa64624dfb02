//! Computes again inside a block what would wait through a place where too many values are alive.
//!
//! Triton's kernels compute the addresses and conditions of hundreds of accesses ahead, load everything, and store as much later under the same conditions
//! beside addresses of the same indices: each of these values waits from its load to its store, though a few instructions make it of what is alive anyway or is
//! one value for all of them. Here such values are made anew before a reader that has a crowded place between itself and the reader before it. What they are made of goes
//! with them, but for what many read, what is dear and what no arithmetic gives: that stays alive, if enough hangs on it. It is done in the block that needs most
//! registers, in an order that needs few, where the function's instructions times its registers become less by it; then in the next one. Linear in the length of
//! the block, but for the orders.

use super::least;
use super::order::{Steps, movable};
use super::prepass::{DEEPER, Values, begin};
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Most instructions that make a value again.
const DEAR: u32 = 8;
/// Most values that they are made of.
const LEAVES: usize = 6;
/// A value that so many instructions read stays.
const SHARED: u32 = 8;
/// So many values less must be alive for one that lives longer for them.
const PAYS: u32 = 4;
/// So many registers are not for values.
const SPARE: u32 = 6;
/// How many uniform values may live longer.
const UNIFORM: u32 = 8;

/// A function that needs no more than so many registers stays as it is: as many threads as an SM may hold have them.
const FREELY: u32 = 29;
/// So many times a block is looked at.
const ROUNDS: u32 = 4;
/// For so many numbers of registers above which places are crowded. (With a third, of 683 modules of public code registers are 0.05 % more and static cycles 0.05 % fewer.)
const LIMITS: u32 = 2;

const NONE: u32 = u32::MAX;

/// What is known of a function.
pub(super) struct Task<'a> {
    pub(super) cfg: &'a Cfg,
    pub(super) live: &'a Liveness,
    /// Of each block.
    pub(super) steps: &'a [Steps],
    pub(super) sm: u16,
}

impl Task<'_> {
    /// As [`least::lessen`].
    pub(super) fn lessen(&self, f: &mut Func, b: u32, values: &mut Values, limit: Option<u32>) -> u32 {
        values.steps(&self.steps[b as usize], true);
        let need = least::lessen(f, b as usize, self.live, values, self.sm, limit);
        values.steps(&self.steps[b as usize], false);
        need
    }
}

/// Instructions, as often as loops around them are taken to run.
fn weight(f: &Func, b: u32) -> u64 {
    weighed(f, b, &f.blocks[b as usize].insts)
}

/// As [`weight`], if the block had these.
fn weighed(f: &Func, b: u32, insts: &[Inst]) -> u64 {
    (insts.len() as u64) << (DEEPER * f.blocks[b as usize].depth.min(4))
}

/// Blocks by how many registers they need in the order that they have or, where that is known, in the best.
struct Needs {
    heap: BinaryHeap<(u32, bool, Reverse<u32>)>,
    /// As many as any block may need.
    few: u32,
}

impl Needs {
    /// The block that needs most in its best order, and how many that is.
    fn most(&mut self, f: &mut Func, task: &Task, values: &mut Values) -> Option<(u32, u32)> {
        while let Some((need, known, Reverse(b))) = self.heap.pop() {
            if known || need <= self.few {
                self.heap.push((need, known, Reverse(b)));
                return known.then_some((need, b));
            }
            let need = task.lessen(f, b, values, None);
            self.heap.push((need, true, Reverse(b)));
        }
        None
    }
}

/// Runs the pass on blocks that need more than `few` registers; `by_block` says how many each needs as it is. Gives how many the function then needs at
/// least.
pub(super) fn run(f: &mut Func, task: &Task, values: &mut Values, by_block: &mut [[u32; 4]], few: u32) -> u32 {
    let rpo = || task.cfg.rpo.iter().copied();
    let few = rpo().map(|b| by_block[b as usize][0]).max().unwrap_or(0).min(few);
    let heap = rpo().map(|b| (by_block[b as usize][0], false, Reverse(b))).filter(|x| x.0 > few).collect();
    let mut needs = Needs { heap, few };
    let mut total: u64 = rpo().map(|b| weight(f, b)).sum();
    let mut changed = false;
    for round in 0.. {
        let Some((need, b)) = needs.most(f, task, values) else { break };
        if round == ROUNDS || need <= FREELY.max(few) {
            break;
        }
        needs.heap.pop();
        let Some((least, weighs)) = lessen(f, b, task, values, need, &mut needs, total) else {
            needs.heap.push((need, true, Reverse(b)));
            break;
        };
        changed = true;
        total = weighs;
        by_block[b as usize][0] = least;
        needs.heap.push((least, true, Reverse(b)));
    }
    if changed {
        super::dead::run(f);
    }
    needs.most(f, task, values).map_or(few, |x| x.0)
}

/// Lets a block compute values again if that pays: it needs so many registers, `needs` says how many others do, and all have so many instructions. Gives how
/// many registers it then needs, and how many instructions all have.
fn lessen(
    f: &mut Func,
    b: u32,
    task: &Task,
    values: &mut Values,
    need: u32,
    needs: &mut Needs,
    total: u64,
) -> Option<(u32, u64)> {
    // The order stays if nothing else comes of it: the function will want no other.
    task.lessen(f, b, values, Some(need));
    let rest = total - weight(f, b);
    let mut limit = need - need / 4;
    // Most have nothing to gain; only where there is something, others are asked.
    let mut first = repeat(f, b as usize, task.live, values, limit).filter(|x| x.least < need);
    first.as_ref()?;
    let others = needs.most(f, task, values).map_or(needs.few, |x| x.0);
    limit = limit.max(others);
    let cost = |least: u32, weighs: u64| u128::from(weighs) * u128::from(least.max(others).max(FREELY));
    let mut best: Option<(u128, u64, Repeated)> = None;
    for _ in 0..LIMITS {
        let known = first.take().filter(|x| x.limit == limit);
        let Some(found) = known.or_else(|| repeat(f, b as usize, task.live, values, limit)) else { break };
        let (least, weighs) = (found.least, rest + weighed(f, b, &found.insts));
        let now = cost(least, weighs);
        if least.max(others) >= need {
            break;
        }
        if now < best.as_ref().map_or(cost(need, total), |x| x.0) {
            best = Some((now, weighs, found));
        }
        // What is made again for nothing is not with more registers; then half of what there is to gain.
        limit = if limit < least { least } else { least.midpoint(need) };
        if limit >= need {
            break;
        }
    }
    let (_, weighs, found) = best?;
    f.vregs.extend(found.vregs);
    f.vecs.extend(found.vecs);
    f.blocks[b as usize].insts = found.insts;
    values.grow(f);
    Some((found.least, weighs))
}

/// A block that computes again what waited where more than `limit` values are alive.
struct Repeated {
    limit: u32,
    /// How many registers it needs.
    least: u32,
    insts: Vec<Inst>,
    /// Values and vectors that the function has more with it.
    vregs: Vec<File>,
    vecs: Vec<SmallVec<[Vreg; 4]>>,
}

/// What is known of an instruction's results.
#[derive(Clone, Default)]
struct Unit {
    /// They stay as they are: what is made of them may read them anywhere.
    stays: bool,
    /// They wait through a crowded place.
    waits: bool,
    /// Instructions that make them, where they do not stay.
    cost: u32,
    readers: u32,
    /// Where they were read last.
    last: u32,
    /// How many there are, and how many general registers.
    made: u32,
    general: u32,
    /// What stays and they are made of.
    leaves: SmallVec<[Vreg; LEAVES]>,
}

/// Block `b`, computing again what waits where more than `limit` values are alive; `None` if there is nothing to gain. The function stays as it is.
fn repeat(f: &mut Func, b: usize, live: &Liveness, values: &mut Values, limit: u32) -> Option<Repeated> {
    let (vregs, vecs) = (f.vregs.len(), f.vecs.len());
    let insts = std::mem::take(&mut f.blocks[b].insts);
    let done = block(f, b, &insts, live, values, limit);
    f.blocks[b].insts = insts;
    let found = done.map(|insts| {
        values.grow(f);
        let mut most = 0;
        needs(f, b, &insts, live, values, |n| most = most.max(n));
        Repeated { limit, least: most as u32, insts, vregs: f.vregs.split_off(vregs), vecs: f.vecs.split_off(vecs) }
    });
    f.vregs.truncate(vregs);
    f.vecs.truncate(vecs);
    found
}

fn block(
    f: &mut Func,
    b: usize,
    insts: &[Inst],
    live: &Liveness,
    values: &mut Values,
    limit: u32,
) -> Option<Vec<Inst>> {
    let (crowd, most) = crowded(f, b, insts, live, values, limit);
    if crowd.last() == Some(&0) {
        return None;
    }
    let mut by = vec![NONE; f.vregs.len()];
    let mut read = vec![NONE; f.vregs.len()];
    let units = units(f, b, insts, live, &crowd, &mut by, &mut read);
    let again = choose(f, &units, &by, &read, most + SPARE > f.max_gprs);
    again.contains(&true).then(|| {
        let names = units.iter().enumerate().map(|(i, _)| Name { at: i as u32, now: SmallVec::new() }).collect();
        let mut writer =
            Writer { f, insts, units: &units, by: &by, crowd: &crowd, again: &again, names, out: Vec::new() };
        writer.write();
        let out = writer.out;
        unread(f, insts.len() as u32, &read, out)
    })
}

/// Takes out what nobody reads any more: what is made again before all its readers has moved there, and costs nothing. `read` says what is read behind the
/// block, as behind so many instructions.
fn unread(f: &Func, end: u32, read: &[u32], mut insts: Vec<Inst>) -> Vec<Inst> {
    let mut reads = vec![false; f.vregs.len()];
    reads.iter_mut().zip(read).for_each(|(r, &last)| *r = last == end);
    let mut stays = vec![true; insts.len()];
    for (inst, stays) in insts.iter().zip(&mut stays).rev() {
        if matches!(&inst.op, Op::Sass(s) if repeatable(f, s)) {
            *stays = false;
            f.defs(&inst.op, |v| *stays |= reads[v.index()]);
        }
        if *stays {
            f.uses(&inst.op, |v| reads[v.index()] = true);
        }
    }
    let mut at = 0;
    insts.retain(|_| {
        at += 1;
        stays[at - 1]
    });
    insts
}

/// By place: how many places before it have more than `limit` values alive; and how many are alive at most.
fn crowded(f: &Func, b: usize, insts: &[Inst], live: &Liveness, values: &mut Values, limit: u32) -> (Vec<u32>, u32) {
    let mut crowd = Vec::with_capacity(insts.len() + 1);
    let (mut n, mut most) = (0, 0);
    crowd.push(0);
    needs(f, b, insts, live, values, |need| {
        n += (need > limit as i32) as u32;
        most = most.max(need);
        crowd.push(n);
    });
    (crowd, most as u32)
}

/// How many registers each instruction needs, predicates beyond those that there are among them.
fn needs(f: &Func, b: usize, insts: &[Inst], live: &Liveness, values: &mut Values, mut need: impl FnMut(i32)) {
    begin(f, b, insts, live, values);
    let traffic = values.traffic(f, insts);
    let predicates = values.limit[2] as i32;
    traffic.needs(0..insts.len() as u32, |n| need(n[0] + (n[1] - predicates).max(0)));
}

/// True if a place between two is crowded.
fn apart(crowd: &[u32], from: u32, to: u32) -> bool {
    to > from && crowd[to as usize] > crowd[from as usize + 1]
}

/// What is known of each instruction's results. `by` will say which instruction makes a value, `read` where it is read last.
fn units(
    f: &Func,
    b: usize,
    insts: &[Inst],
    live: &Liveness,
    crowd: &[u32],
    by: &mut [u32],
    read: &mut [u32],
) -> Vec<Unit> {
    let mut units = vec![Unit::default(); insts.len()];
    for (i, inst) in (0..).zip(insts) {
        let unit = &mut units[i as usize];
        unit.last = i;
        unit.stays = !matches!(&inst.op, Op::Sass(s) if repeatable(f, s));
        f.defs(&inst.op, |v| {
            by[v.index()] = i;
            unit.made += 1;
            unit.general += (f.vregs[v.index()] == File::Gpr) as u32;
        });
    }
    let behind = |v: Vreg, units: &mut [Unit], read: &mut [u32]| {
        read[v.index()] = insts.len() as u32;
        if by[v.index()] != NONE {
            units[by[v.index()] as usize].stays = true;
        }
    };
    live.live_out[b].iter().for_each(|&v| behind(v, &mut units, read));
    f.term_uses(&f.blocks[b].term, |v| behind(v, &mut units, read));
    f.blocks[b].term.edges().iter().flat_map(|e| &e.args).for_each(|&v| behind(v, &mut units, read));
    for (i, inst) in (0..).zip(insts) {
        let mut last = NONE;
        f.uses(&inst.op, |v| {
            if read[v.index()] == NONE || read[v.index()] < i {
                read[v.index()] = i;
            }
            if let Some(unit) = units.get_mut(by[v.index()] as usize) {
                unit.waits |= apart(crowd, unit.last, i);
                unit.last = i;
                unit.readers += (last != by[v.index()]) as u32;
                last = by[v.index()];
            }
        });
    }
    for (i, inst) in insts.iter().enumerate() {
        let mut unit = std::mem::take(&mut units[i]);
        unit.cost = 1;
        let mut seen = NONE;
        f.uses(&inst.op, |v| {
            let from = units.get(by[v.index()] as usize).filter(|u| !u.stays);
            let mut leaf = |v: Vreg| {
                if !unit.leaves.contains(&v) {
                    unit.leaves.push(v);
                }
            };
            match from {
                Some(u) => u.leaves.iter().for_each(|&v| leaf(v)),
                None => leaf(v),
            }
            if by[v.index()] != seen {
                unit.cost += from.map_or(0, |u| u.cost);
                seen = by[v.index()];
            }
        });
        unit.stays |= unit.cost > DEAR || unit.leaves.len() > LEAVES || unit.readers >= SHARED;
        units[i] = unit;
    }
    units
}

/// Arithmetic that always happens and gives general registers or predicates.
fn repeatable(f: &Func, s: &Sass) -> bool {
    let mut general = s.guard == Operand::reg(Reg::PT) && movable(s);
    sass_defs(s, |p| {
        f.each_scalar(p.reg, |v| general &= matches!(f.vregs[v.index()], File::Gpr | File::Pred));
    });
    general
}

/// Which instructions to repeat: what they read is alive anyway, or lives longer for several of them; where registers are `short`,
/// fewer may live longer than are made.
fn choose(f: &Func, units: &[Unit], by: &[u32], read: &[u32], short: bool) -> Vec<bool> {
    let mut shares = vec![0u32; by.len()];
    let wants = |u: &Unit| u.waits && !u.stays;
    let longer = |u: &Unit, v: Vreg| read[v.index()] < u.last;
    for u in units.iter().filter(|u| wants(u)) {
        u.leaves.iter().filter(|v| longer(u, **v)).for_each(|v| shares[v.index()] += u.made);
    }
    let mut uniform = 0;
    let mut granted = vec![false; by.len()];
    let mut may = |v: Vreg| {
        let file = f.vregs[v.index()];
        if matches!(file, File::Gpr | File::Pred) || granted[v.index()] {
            return shares[v.index()] >= PAYS;
        }
        granted[v.index()] = uniform < UNIFORM && shares[v.index()] >= PAYS;
        uniform += granted[v.index()] as u32;
        granted[v.index()]
    };
    units
        .iter()
        .map(|u| {
            // General registers that live longer for this one alone.
            let mut lone = 0;
            let mut alone = |v: Vreg| {
                lone += 1;
                short && f.vregs[v.index()] == File::Gpr && lone < u.general
            };
            wants(u) && u.leaves.iter().all(|&v| !longer(u, v) || may(v) || alone(v))
        })
        .collect()
}

/// Where an instruction's results were read or made last, and their names since then, where these are new.
struct Name {
    at: u32,
    now: SmallVec<[(Vreg, Vreg); 2]>,
}

struct Writer<'a> {
    f: &'a mut Func,
    insts: &'a [Inst],
    units: &'a [Unit],
    by: &'a [u32],
    crowd: &'a [u32],
    again: &'a [bool],
    names: Vec<Name>,
    out: Vec<Inst>,
}

impl Writer<'_> {
    fn write(&mut self) {
        for (i, inst) in (0..).zip(self.insts) {
            let mut inst = inst.clone();
            match &mut inst.op {
                Op::Sass(s) => self.rename(s, i, false),
                Op::Copy(pairs) => {
                    for (_, s) in pairs.iter_mut().filter(|p| p.1.is_virtual()) {
                        let v = self.value(Vreg(s.index()), i, false);
                        *s = self.f.reg(v);
                    }
                }
                Op::Call(c) => {
                    c.args.iter_mut().for_each(|a| a.0 = self.value(a.0, i, false));
                    c.target.values_mut().into_iter().for_each(|v| *v = self.value(*v, i, false));
                }
                Op::LoadIncoming { .. } | Op::Hold { .. } => {}
            }
            self.out.push(inst);
        }
    }

    /// The name by which an instruction at `at` reads a value; `anew` if that instruction is itself one that is repeated.
    fn value(&mut self, v: Vreg, at: u32, anew: bool) -> Vreg {
        let unit = self.by[v.index()];
        let Some(u) = self.units.get(unit as usize) else { return v };
        if !u.stays && (anew || self.again[unit as usize]) && apart(self.crowd, self.names[unit as usize].at, at) {
            self.repeat(unit, at);
        }
        let name = &mut self.names[unit as usize];
        name.at = at;
        name.now.iter().find(|n| n.0 == v).map_or(v, |n| n.1)
    }

    fn repeat(&mut self, unit: u32, at: u32) {
        let inst = &self.insts[unit as usize];
        let Op::Sass(s) = &inst.op else { return };
        let mut s = s.clone();
        self.rename(&mut s, at, true);
        let mut places: SmallVec<[Place; 2]> = SmallVec::new();
        sass_defs(&s, |p| places.push(p));
        let mut now = SmallVec::new();
        for p in places.into_iter().filter(|p| p.reg.is_virtual()) {
            let Some(slot) = p.slot else { continue };
            let old = self.f.scalars(p.reg);
            let new: SmallVec<[Vreg; 4]> = old.iter().map(|v| self.f.new_vreg(self.f.vregs[v.index()])).collect();
            s.operands[slot as usize].value = Value::Reg(self.f.vector(&new));
            now.extend(old.into_iter().zip(new));
        }
        self.names[unit as usize] = Name { at, now };
        self.out.push(Inst::new(Op::Sass(s), inst.loc));
    }

    fn rename(&mut self, s: &mut Sass, at: u32, anew: bool) {
        let mut places: SmallVec<[Place; 8]> = SmallVec::new();
        sass_uses(s, |p| places.push(p));
        for p in places.into_iter().filter(|p| p.reg.is_virtual()) {
            let old = self.f.scalars(p.reg);
            let new: SmallVec<[Vreg; 4]> = old.iter().map(|&v| self.value(v, at, anew)).collect();
            if new != old {
                let r = Value::Reg(self.f.vector(&new));
                match p.slot {
                    Some(n) => s.operands[n as usize].value = r,
                    None => s.guard.value = r,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::prepass;
    use super::*;
    use crate::mir::{text, verify};

    /// `n` values made of `first` by `make`, loads that need them and stores behind all loads that need them again; what stands in the
    /// block when it has been ordered, and how many registers that needs.
    fn after(n: usize, first: &str, make: &str) -> (Func, u32) {
        let mut t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n{first}"
        );
        let mut part = |line: &str| {
            (1..=n).for_each(|k| {
                t += &format!("    {}\n", line.replace("#9", &(k + 1000).to_string()).replace('#', &k.to_string()))
            })
        };
        part(make);
        part("LDG Rd=%r#9 UR=UR4 Ra={%r#,%r0}");
        part("STG Ra={%r#,%r0} Rb=%r#9 URc=UR4");
        t += "    exit\n}\n";
        let mut f = text::parse(&t).unwrap().remove(0);
        prepass::run(&mut f, 90, prepass::Freedom::of(5));
        verify::ssa(&f).unwrap();
        let cfg = f.cfg();
        let live = Liveness::new(&f, &cfg);
        let need = crate::regalloc::pressures(&f, &cfg, &live).1[0][0];
        (f, need)
    }

    fn count(f: &Func, mnemonic: &str) -> usize {
        let is = |i: &&Inst| matches!(&i.op, Op::Sass(s) if s.form().mnemonic == mnemonic);
        f.blocks[0].insts.iter().filter(is).count()
    }

    #[test]
    fn what_loads_and_stores_need_is_made_for_each() {
        // Sixty offsets wait, or are made twice.
        let (f, need) = after(60, "", "LOP3_RIR Rd=%r# Ra=%r0 Rb=# Rc=RZ Lut=0xfc");
        assert_eq!(count(&f, "LOP3"), 120);
        assert!(need < 75, "{need}");
    }

    #[test]
    fn few_values_wait() {
        let (f, _) = after(12, "", "LOP3_RIR Rd=%r# Ra=%r0 Rb=# Rc=RZ Lut=0xfc");
        assert_eq!(count(&f, "LOP3"), 12);
    }

    #[test]
    fn what_memory_gives_waits() {
        let (f, _) = after(60, "", "LDS.Size=4 Rd=%r# Ra=%r0 Imm=#");
        assert_eq!(count(&f, "LDS"), 60);
    }

    #[test]
    fn what_nobody_reads_any_more_goes() {
        let t = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    \
                 LOP3_RIR Rd=%r1 Ra=%r0 Rb=0x1 Lut=0xfc\n    LOP3_RIR Rd=%r2 Ra=%r1 Rb=0x2 Lut=0xfc\n    STG Ra=RZ Rb=%r0 URc=UR4\n    exit\n}\n";
        let f = text::parse(t).unwrap().remove(0);
        let insts = &f.blocks[0].insts;
        let left = |read: &[u32]| unread(&f, insts.len() as u32, read, insts.clone()).len();
        let mut read = vec![NONE; f.vregs.len()];
        assert_eq!(left(&read), 2);
        // What is read behind the block stays, and what that reads.
        read[2] = insts.len() as u32;
        assert_eq!(left(&read), 4);
    }
}
