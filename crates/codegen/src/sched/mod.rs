//! Scheduling: before register allocation ([`prepass`]), after it ([`postpass`]), and the control fields ([`control`]).

pub mod again;
pub mod ahead;
mod asked;
mod balance;
pub mod branches;
mod cheap;
pub mod cluster;
pub mod conditions;
pub mod control;
pub mod copies;
pub mod dead;
pub mod fewer;
pub mod forward;
pub mod halves;
pub mod heads;
pub mod held;
pub mod holds;
pub mod home;
pub mod least;
pub mod memory;
pub mod once;
pub mod order;
pub mod pack;
mod peaks;
pub mod postpass;
pub mod prepass;
pub mod profile;
pub mod remat;
pub mod select;
pub mod share;
pub mod sink;
pub mod traffic;
pub mod units;
pub mod unread;
pub mod warpgroup;
pub mod zeros;

use crate::mir::operands::{Place, sass_defs, sass_uses};
use sass::inst::Inst;
use sass::reg::{File, Reg};

/// How many register units there are: one a physical register of any file.
pub const UNITS: usize = 256 + 256 + 8 + 8 + 16;

/// The dense number of a physical register.
pub fn unit(r: Reg) -> usize {
    let n = r.index() as usize;
    match r.file() {
        File::Gpr => n,
        File::Ugpr => 256 + n,
        File::Pred => 512 + n,
        File::Upred => 520 + n,
        File::Bar => 528 + n,
    }
}

fn each(p: Place, f: &mut impl FnMut(usize, Option<u8>)) {
    if !p.reg.is_const() {
        let first = unit(p.reg);
        (first..first + p.width as usize).for_each(|u| f(u, p.slot));
    }
}

/// Calls `f` with each register unit that is read, and the slot that reads it.
pub fn reads(inst: &Inst, mut f: impl FnMut(usize, Option<u8>)) {
    sass_uses(inst, |p| each(p, &mut f));
}

/// Calls `f` with each register unit that is written, and the slot that writes it.
pub fn writes(inst: &Inst, mut f: impl FnMut(usize, Option<u8>)) {
    sass_defs(inst, |p| each(p, &mut f));
}
