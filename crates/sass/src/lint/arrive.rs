//! Registers that a product of a warpgroup takes are handed over by WARPGROUP.ARRIVE, the instruction of PTX's
//! `wgmma.fence`: between a write of such a register by anything else and the product, every path must have one. The
//! vendor's code of all kernels with `wgmma` keeps to it.

use super::{Checker, Fact, Kind, NO_GROUP, NO_SB, Next, unit};
use crate::forms;
use crate::inst::Inst;
use crate::latency::Class;
use crate::reg::{File, Reg};

/// For each general register: 1 + the instruction that wrote it since the last WARPGROUP.ARRIVE, 0 for none.
type Written = [u32; 256];

/// True for WARPGROUP.ARRIVE.
fn arrives(inst: &Inst) -> bool {
    use crate::enums::warpgroup_m79::ARRIVE;
    inst.form == forms::WARPGROUP && inst.mods.first() == Some(&ARRIVE)
}

/// General registers that it names.
fn registers(inst: &Inst) -> impl Iterator<Item = (Reg, bool)> {
    inst.regs()
        .into_iter()
        .filter(|r| r.reg.file() == File::Gpr && !r.reg.is_const() && !r.reg.is_virtual())
        .flat_map(|r| (0..r.width as u32).map(move |n| (r.reg.offset(n), r.def)))
}

/// Reports products that take a register too soon. Calls are not followed: products and calls do not go together.
pub(super) fn check(checker: &mut Checker, leaders: &[bool]) {
    let count = checker.code.len();
    if !checker.code.iter().flatten().any(|i| i.form().class == Class::Gmma) {
        return;
    }
    let mut states: Vec<Option<Box<Written>>> = vec![None; count];
    let mut work = vec![0];
    work.extend(checker.hints.entries.iter().map(|e| (e / 16) as usize).filter(|e| *e < count));
    for &entry in &work {
        states[entry] = Some(Box::new([0; 256]));
    }
    while let Some(start) = work.pop() {
        let Some(mut written) = states[start].clone() else { continue };
        let mut enter = |at: usize, written: &Written| {
            let Some(place) = states.get_mut(at) else { return };
            let changed = match place {
                None => {
                    *place = Some(Box::new(*written));
                    true
                }
                Some(old) => old.iter_mut().zip(written).fold(false, |changed, (old, &new)| {
                    let news = *old == 0 && new != 0;
                    if news {
                        *old = new;
                    }
                    changed || news
                }),
            };
            if changed {
                work.push(at);
            }
        };
        let mut at = start;
        while let Some(Some(inst)) = checker.code.get(at) {
            let product = inst.form().class == Class::Gmma;
            if arrives(inst) {
                written.fill(0);
            }
            let mut soon = None;
            for (reg, def) in registers(inst) {
                let by = &mut written[reg.index() as usize & 255];
                if product && *by != 0 {
                    soon = soon.or(Some((reg, *by - 1)));
                } else if def && !product {
                    *by = at as u32 + 1;
                }
            }
            let next = checker.next(at, inst);
            if let Some((reg, by)) = soon {
                let first = Fact {
                    unit: unit(reg),
                    by,
                    slot: 0,
                    word: 0,
                    write: true,
                    scoreboards: 0,
                    own: NO_SB,
                    guard: super::ALWAYS,
                    groups: NO_GROUP,
                    later: 0,
                    age: 0,
                };
                let what = "takes a register without a WARPGROUP.ARRIVE since it was written by".into();
                checker.report(&first, at, Kind::NotHandedOver, what);
            }
            match next {
                Next::Fall | Next::Call { .. } => {
                    at += 1;
                    if leaders.get(at) == Some(&true) {
                        enter(at, &written);
                        break;
                    }
                }
                Next::To(list) => {
                    list.into_iter().for_each(|to| enter(to, &written));
                    break;
                }
                Next::Return { falls } => {
                    if falls {
                        enter(at + 1, &written);
                    }
                    break;
                }
            }
        }
    }
}
