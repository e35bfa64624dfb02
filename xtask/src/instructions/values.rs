//! The values that instructions get: at the edges of every format, and others.

use super::{Case, Domain, Reg, THREADS};
use ptx::isa::Op;
use ptx::types::ScalarType as T;
use testkit::Random;

/// Where the value of an input comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Source {
    /// Memory, every thread its own.
    Thread,
    /// The program.
    Constant(u64),
    /// A parameter of the kernel, the same in every thread.
    Parameter(u64),
    /// Memory, negated.
    Negated,
    /// Memory, without its sign.
    Absolute,
}

impl Source {
    /// One word for a report.
    pub fn name(self) -> &'static str {
        match self {
            Source::Thread => "thread",
            Source::Constant(_) => "constant",
            Source::Parameter(_) => "parameter",
            Source::Negated => "negated",
            Source::Absolute => "absolute",
        }
    }
}

/// What the inputs of all instructions are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    /// All of the thread.
    Threads,
    Constants,
    Parameters,
    /// Each of any kind.
    Mixed,
    /// Of the thread, but some are negated first and some lose their sign: what compilers take into the instruction.
    Signed,
}

impl Given {
    pub const USAGE: &str = "--given takes threads, constants, parameters, mixed or signed";

    /// As the command line names it.
    pub fn parse(name: &str) -> Option<Given> {
        Some(match name {
            "threads" => Given::Threads,
            "constants" => Given::Constants,
            "parameters" => Given::Parameters,
            "mixed" => Given::Mixed,
            "signed" => Given::Signed,
            _ => return None,
        })
    }

    /// Gives the inputs of a case their sources; the same ones whatever else is judged.
    pub fn draw(self, case: &mut Case) {
        // Of a constant ptxas computes the angle itself, in more digits; PTX leaves the last bits open.
        let angle = matches!(case.op, Op::Sin | Op::Cos);
        let mut r = Random(case.text.bytes().fold(7, |h: u64, b| h.wrapping_mul(31).wrapping_add(b as u64)));
        for reg in &mut case.inputs {
            let value = number(reg, &mut r);
            reg.from = match (self, r.index(3)) {
                (Given::Constants, _) | (Given::Mixed, 1) if !angle => Source::Constant(value),
                (Given::Parameters, _) | (Given::Mixed, 2) => Source::Parameter(value),
                (Given::Signed, 0 | 1) if reg.domain == Domain::All && reg.ty != T::Pred => Source::Negated,
                (Given::Signed, _) if reg.ty.is_float() => Source::Absolute,
                _ => Source::Thread,
            };
        }
    }
}

/// A value for a register, no wider than it.
pub fn number(reg: &Reg, r: &mut Random) -> u64 {
    const INTS: [u64; 12] =
        [0, 1, 2, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 1 << 63, u64::MAX];
    const HALVES: [u16; 14] =
        [0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xffff, 1, 0x03ff, 0x0400, 0x7bff, 0x3f80, 0x7f80];
    const SINGLES: [u32; 16] = [
        0,
        0x8000_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0xffff_ffff,
        1,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x4f00_0000,
        0x4b00_0001,
        0x3f00_0000,
        0x3fc0_0000,
    ];
    const DOUBLES: [u64; 10] = [
        0,
        1 << 63,
        0x3ff0 << 48,
        0x7ff0 << 48,
        0xfff0 << 48,
        0x7ff8 << 48,
        1,
        0x000f_ffff_ffff_ffff,
        0x7fef_ffff_ffff_ffff,
        0x43e0 << 48,
    ];
    let mut half = || match r.index(4) {
        0 => r.bits() as u16,
        // Numbers near one.
        1 => (r.bits() as u16 & 0x83ff) | (0x3800 + ((r.bits() as u16 & 3) << 10)),
        _ => HALVES[r.index(HALVES.len())],
    };
    let pair = half() as u64 | (half() as u64) << 16;
    let value = match (reg.bits(), r.index(8)) {
        (_, 0) => r.bits(),
        (_, 1) => r.bits() >> (r.bits() & 63),
        (_, 2) => INTS[r.index(INTS.len())],
        (16 | 32, 3) => pair,
        (16, _) => pair,
        (64, 3 | 4) => DOUBLES[r.index(DOUBLES.len())],
        (64, _) => (r.bits() & !(0x7ff << 52)) | (0x3f0 + (r.bits() & 31)) << 52,
        (_, 4 | 5) => SINGLES[r.index(SINGLES.len())] as u64,
        (_, _) => (r.bits() & 0x807f_ffff) | (0x70 + (r.bits() & 31)) << 23,
    };
    let value = match reg.domain {
        Domain::All => value,
        Domain::Below(n) => value % n,
        Domain::NotZero if value << (64 - reg.bits()) == 0 => 3,
        Domain::NotZero => value,
    };
    value & u64::MAX >> (64 - reg.bits().max(8))
}

/// Eight bytes an input a thread; what is not the thread's own is there as well.
pub fn values(case: &Case) -> Vec<u8> {
    let mut r = Random(case.text.len() as u64 ^ 0x5eed);
    let mut out = Vec::new();
    for _ in 0..THREADS {
        for reg in &case.inputs {
            let own = number(reg, &mut r);
            let value = match reg.from {
                Source::Thread | Source::Negated | Source::Absolute => own,
                Source::Constant(v) | Source::Parameter(v) => v,
            };
            out.extend(value.to_le_bytes());
        }
    }
    out
}
