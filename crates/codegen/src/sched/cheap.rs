//! What may be computed again for little: which instructions, what they make and who reads it, and their copies.

use super::prepass::DEEPER;
use super::sink::each_use;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_defs, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg};
use rustc_hash::FxHashMap;
use sass::inst::{Inst as Sass, Operand};
use sass::latency::Class;
use sass::reg::{File, Reg};
use smallvec::SmallVec;

const NONE: u32 = u32::MAX;

/// An instruction that may be repeated, or two with a carry between them.
pub(super) struct Cheap {
    pub(super) block: u32,
    pub(super) made: SmallVec<[Sass; 1]>,
    pub(super) loc: u32,
    /// What it makes: one predicate, or general registers.
    pub(super) values: Values,
    /// Blocks that read it, but for its own.
    pub(super) readers: SmallVec<[u32; 4]>,
}

pub(super) type Values = SmallVec<[Vreg; 2]>;

impl Cheap {
    /// All that it reads but its own carry.
    pub(super) fn each_read(&self, f: &Func, mut to: impl FnMut(Vreg)) {
        for s in &self.made {
            sass_uses(s, |p| {
                if p.reg.file() != File::Pred {
                    f.each_scalar(p.reg, &mut to);
                }
            });
        }
    }

    /// What kind of registers it makes.
    pub(super) fn file(&self, f: &Func) -> File {
        f.vregs[self.values[0].index()]
    }
}

/// All cheap instructions whose results are read in other blocks, those that are read least often first.
pub(super) fn candidates(f: &Func, cfg: &Cfg, live: &Liveness) -> Vec<Cheap> {
    let mut list: Vec<Cheap> = Vec::new();
    let mut of = vec![NONE; f.vregs.len()];
    let mut travels = vec![false; f.vregs.len()];
    cfg.rpo.iter().flat_map(|&b| &live.live_in[b as usize]).for_each(|v| travels[v.index()] = true);
    let mut reads = vec![0u32; f.vregs.len()];
    cfg.rpo.iter().for_each(|&b| each_use(f, b as usize, |v| reads[v.index()] += 1));
    for &b in &cfg.rpo {
        // Additions that leave a carry for one other instruction.
        let mut carries: FxHashMap<Vreg, &Sass> = FxHashMap::default();
        for inst in &f.blocks[b as usize].insts {
            let Op::Sass(s) = &inst.op else { continue };
            // Most make nothing that others read.
            let mut may = !carries.is_empty();
            f.sass_writes(s, |v| may |= travels[v.index()] || f.vregs[v.index()] == File::Pred);
            let Some(made) = Some(s).filter(|_| may).and_then(|s| cheap(f, s)) else { continue };
            let needed = |values: &Values| values.iter().any(|v| travels[v.index()]);
            let (made, values) = match made {
                Made { values, reads: None, carry: None } if needed(&values) => {
                    (SmallVec::from_elem(s.clone(), 1), values)
                }
                Made { reads: None, carry: Some(c), .. } => {
                    if reads[c.index()] == 1 && !travels[c.index()] {
                        carries.insert(c, s);
                    }
                    continue;
                }
                Made { values, reads: Some(c), carry: None } => {
                    let Some(low) = carries.remove(&c) else { continue };
                    let mut all = Values::new();
                    sass_defs(low, |p| f.each_scalar(p.reg, |v| all.push(v)));
                    all.retain(|v| *v != c);
                    all.extend(values);
                    (SmallVec::from_iter([low.clone(), s.clone()]), all)
                }
                _ => continue,
            };
            if needed(&values) {
                values.iter().for_each(|v| of[v.index()] = list.len() as u32);
                list.push(Cheap { block: b, made, loc: inst.loc, values, readers: SmallVec::new() });
            }
        }
    }
    for &b in &cfg.rpo {
        each_use(f, b as usize, |v| {
            if let Some(c) = list.get_mut(of[v.index()] as usize)
                && c.block != b
                && c.readers.last() != Some(&b)
            {
                c.readers.push(b);
            }
        });
    }
    let weight = |c: &Cheap| -> u64 {
        let often = |&b: &u32| (c.made.len() as u64) << (DEEPER * f.blocks[b as usize].depth.min(4));
        c.readers.iter().map(often).sum()
    };
    list.sort_by_cached_key(|c| (weight(c), c.values[0]));
    list
}

/// What an instruction makes that does nothing else and always happens.
struct Made {
    /// One predicate, or general registers.
    values: Values,
    /// The carry that it reads, and that it makes beside one register.
    reads: Option<Vreg>,
    carry: Option<Vreg>,
}

/// What an instruction makes, if it may be repeated, alone or with what makes or reads its carry.
fn cheap(f: &Func, s: &Sass) -> Option<Made> {
    let class = matches!(s.form().class, Class::Alu | Class::Fma | Class::FmaInt | Class::FmaWide);
    if !class || s.guard != Operand::reg(Reg::PT) || !super::order::movable(s) {
        return None;
    }
    let [mut values, mut predicates, mut reads] = [Values::new(), Values::new(), Values::new()];
    sass_defs(s, |p| {
        f.each_scalar(p.reg, |v| if f.vregs[v.index()] == File::Pred { predicates.push(v) } else { values.push(v) });
    });
    sass_uses(s, |p| {
        if p.reg.file() == File::Pred && !p.reg.is_const() {
            f.each_scalar(p.reg, |v| reads.push(v));
        }
    });
    let general = values.iter().all(|v| f.vregs[v.index()] == File::Gpr);
    match (values.len(), &predicates[..], &reads[..]) {
        (1 | 2, [], []) if general => Some(Made { values, reads: None, carry: None }),
        (0, [_], []) => Some(Made { values: predicates, reads: None, carry: None }),
        (1, &[c], []) if general => Some(Made { values, reads: None, carry: Some(c) }),
        (1, [], &[c]) if general => Some(Made { values, reads: Some(c), carry: None }),
        _ => None,
    }
}

/// The instructions of a candidate with other names for what they make.
pub(super) fn again(f: &mut Func, c: &Cheap, names: &FxHashMap<Vreg, Vreg>) -> SmallVec<[Inst; 2]> {
    let mut carry: Option<(Reg, Reg)> = None;
    let mut out = SmallVec::new();
    for s in &c.made {
        let mut s = s.clone();
        let mut places: SmallVec<[Place; 2]> = SmallVec::new();
        sass_defs(&s, |p| places.push(p));
        for p in places.into_iter().filter(|p| p.reg.is_virtual()) {
            let Some(slot) = p.slot else { continue };
            let mut new = Values::new();
            for v in f.scalars(p.reg) {
                new.push(match names.get(&v) {
                    Some(&name) => name,
                    None => f.new_vreg(f.vregs[v.index()]),
                });
            }
            let r = f.vector(&new);
            if c.made.len() == 2 && p.reg.file() == File::Pred {
                carry = Some((p.reg, r));
            }
            s.operands[slot as usize].value = Operand::reg(r).value;
        }
        let mut reads: SmallVec<[Place; 8]> = SmallVec::new();
        sass_uses(&s, |p| reads.push(p));
        for p in reads {
            if let (Some(slot), Some((_, new))) = (p.slot, carry.filter(|c| c.0 == p.reg)) {
                s.operands[slot as usize].value = Operand::reg(new).value;
            }
        }
        out.push(Inst::new(Op::Sass(s), c.loc));
    }
    out
}
