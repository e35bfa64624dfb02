//! The routines of `builtins/*.ptx`, lowered once each.
//!
//! Reading and lowering one takes as long as compiling a small kernel. So what becomes of those that round to nearest stands beside them as
//! text of the IR, `builtins/*.ir`, which a test compares (`BLESS=1` writes it); the others are seldom, and lowered when they are asked for.
//!
//! Some have a part for seldom cases, a function of its own in the text. A kernel gets it once, and calls it ([`Seldom`]); where that is not
//! possible, it stands in the place of each call.

use crate::abi::Keeps;
use crate::ir::{CallSite, Cmp, Fmt, Func, Inst, Op, Rnd, Term, Ty};
use crate::layout::Layout;
use std::sync::OnceLock;

/// A routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named as in the files
pub enum Routine {
    UDiv32,
    URem32,
    UDiv64,
    UDiv64Slow,
    /// By what is not 0.
    UDiv64Known,
    /// 0: signed quotient, 1: unsigned remainder, 2: signed remainder.
    Div64(u8),
    Div64Slow(u8),
    FDiv(Rnd),
    FDivSlow(Rnd),
    FRcp(Rnd),
    FRcpSlow(Rnd),
    FSqrt(Rnd),
    FSqrtSlow(Rnd),
    DDiv(Rnd),
    DDivSlow(Rnd),
    /// Rounded to nearest.
    DRcp,
    DSqrt(Rnd),
    DSqrtSlow(Rnd),
    Fns,
}

/// One file and the functions of it.
struct Source {
    text: &'static str,
    /// What becomes of each that rounds to nearest: with everything in it under its name, and, where it calls one, under
    /// its name with [`CALLS`].
    lowered: &'static str,
    names: &'static [&'static str],
}

/// Stands behind the name of a routine that calls what it does in seldom cases.
const CALLS: &str = ".calls";

/// A file of `builtins`.
macro_rules! source {
    ($name:literal, $names:expr) => {
        Source {
            text: include_str!(concat!("../../builtins/", $name, ".ptx")),
            lowered: include_str!(concat!("../../builtins/", $name, ".ir")),
            names: &$names,
        }
    };
}

const SOURCES: [Source; 5] = [
    source!("div_u32", ["udiv32", "urem32"]),
    source!(
        "div_u64",
        ["udiv64", "udiv64slow", "sdiv64", "urem64", "srem64", "sdiv64slow", "urem64slow", "srem64slow", "udiv64known"]
    ),
    source!("div_f32", ["fdiv", "frcp", "fsqrt", "fdivslow", "frcpslow", "fsqrtslow", "frcpnear", "fsqrtnear"]),
    source!("div_f64", ["ddiv", "dsqrt", "ddivslow", "dsqrtslow", "ddivnear", "drcpnear", "dsqrtnear"]),
    source!("fns", ["fns"]),
];

/// How double division rounds a magnitude in integers (`w10` mantissa, `w11` next and sticky bit, `p1` inexact, `p2`
/// positive), and what it gives where that is too large.
const ROUND: [(&str, &str); 4] = [
    ("and.b64 w12, w10, 1; add.u64 w12, w12, w11; setp.gt.u64 p3, w12, 2;", "mov.b64 w15, 0x7ff0000000000000;"),
    ("setp.ne.u64 p3, w10, w10;", "mov.b64 w15, 0x7fefffffffffffff;"),
    ("not.pred p3, p2; and.pred p3, p3, p1;", "selp.b64 w15, 0x7fefffffffffffff, 0x7ff0000000000000, p2;"),
    ("and.pred p3, p1, p2;", "selp.b64 w15, 0x7ff0000000000000, 0x7fefffffffffffff, p2;"),
];

const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// The text of a file for one rounding.
pub fn text(file: usize, rnd: Rnd) -> String {
    rounding(SOURCES[file].text, rnd)
}

fn rounding(text: &str, rnd: Rnd) -> String {
    let r = rnd as usize;
    text.replace("@RND", ROUNDINGS[r]).replace("@ROUND", ROUND[r].0).replace("@OVERFLOW", ROUND[r].1)
}

/// The head of a file and one function of it, with that for its seldom cases before it: reading the others takes as long as compiling a small
/// kernel. All of it, where the function does not stand in it as it should.
fn part(file: usize, name: &str) -> String {
    let text = SOURCES[file].text;
    let function = |name: &str| {
        let start = text[..text.find(&format!(") {name}("))?].rfind(".func")?;
        let end = start + text[start..].find("\n}")? + 2;
        Some(&text[start..end])
    };
    let found = || {
        // All of these need one of them.
        if file == 1 {
            return None;
        }
        let own = function(name)?;
        let call = own.find("call (q), ").map(|at| &own[at + "call (q), ".len()..]);
        let slow = call.and_then(|c| function(&c[..c.find(',')?])).unwrap_or_default();
        Some(format!("{}{slow}\n{own}", &text[..text.find(".func")?]))
    };
    found().unwrap_or_else(|| text.to_string())
}

/// Most routines of a file.
const MOST: usize = 9;

/// A routine in the ways it is used in, each made when it is first asked for.
#[derive(Debug)]
struct Cell {
    /// With everything in it.
    whole: OnceLock<Func>,
    /// With a call of what it does in seldom cases.
    quick: OnceLock<Func>,
}

fn cell(routine: Routine) -> (&'static Cell, usize, usize, Rnd) {
    type Cells = [[Cell; MOST]; ROUNDINGS.len()];
    static LOWERED: [Cells; SOURCES.len()] = [const {
        [const { [const { Cell { whole: OnceLock::new(), quick: OnceLock::new() } }; MOST] }; ROUNDINGS.len()]
    }; SOURCES.len()];
    let (file, index, rnd) = match routine {
        Routine::UDiv32 => (0, 0, Rnd::Rn),
        Routine::URem32 => (0, 1, Rnd::Rn),
        Routine::UDiv64 => (1, 0, Rnd::Rn),
        Routine::UDiv64Slow => (1, 1, Rnd::Rn),
        Routine::UDiv64Known => (1, 8, Rnd::Rn),
        Routine::Div64(n) => (1, 2 + n as usize, Rnd::Rn),
        Routine::Div64Slow(n) => (1, 5 + n as usize, Rnd::Rn),
        Routine::FDiv(r) => (2, 0, r),
        Routine::FRcp(Rnd::Rn) => (2, 6, Rnd::Rn),
        Routine::FRcp(r) => (2, 1, r),
        Routine::FSqrt(Rnd::Rn) => (2, 7, Rnd::Rn),
        Routine::FSqrt(r) => (2, 2, r),
        Routine::FDivSlow(r) => (2, 3, r),
        Routine::FRcpSlow(r) => (2, 4, r),
        Routine::FSqrtSlow(r) => (2, 5, r),
        Routine::DDiv(Rnd::Rn) => (3, 4, Rnd::Rn),
        Routine::DDiv(r) => (3, 0, r),
        Routine::DRcp => (3, 5, Rnd::Rn),
        Routine::DSqrt(Rnd::Rn) => (3, 6, Rnd::Rn),
        Routine::DSqrt(r) => (3, 1, r),
        Routine::DDivSlow(r) => (3, 2, r),
        Routine::DSqrtSlow(r) => (3, 3, r),
        Routine::Fns => (4, 0, Rnd::Rn),
    };
    (&LOWERED[file][rnd as usize][index], file, index, rnd)
}

/// The IR of a routine with everything in it: parameters and results are 32-bit words.
pub fn body(routine: Routine) -> &'static Func {
    let (cell, file, index, rnd) = cell(routine);
    cell.whole.get_or_init(|| made(file, SOURCES[file].names[index], rnd, true))
}

/// The IR of a routine that calls what it does in seldom cases; [`slow`] says what.
fn quick(routine: Routine) -> &'static Func {
    let (cell, file, index, rnd) = cell(routine);
    cell.quick.get_or_init(|| made(file, SOURCES[file].names[index], rnd, false))
}

/// What a routine calls in seldom cases.
fn slow(routine: Routine) -> Option<Routine> {
    match routine {
        Routine::UDiv64 => Some(Routine::UDiv64Slow),
        Routine::Div64(n) => Some(Routine::Div64Slow(n)),
        Routine::FDiv(r) => Some(Routine::FDivSlow(r)),
        Routine::FRcp(r) => Some(Routine::FRcpSlow(r)),
        Routine::FSqrt(r) => Some(Routine::FSqrtSlow(r)),
        Routine::DDiv(r) => Some(Routine::DDivSlow(r)),
        Routine::DRcp => Some(Routine::DDivSlow(Rnd::Rn)),
        Routine::DSqrt(r) => Some(Routine::DSqrtSlow(r)),
        _ => None,
    }
}

/// How many registers from R4 on a routine for seldom cases may change, the two of the return address among them.
fn changes(routine: Routine) -> u8 {
    match routine {
        Routine::DDivSlow(_) | Routine::DSqrtSlow(_) | Routine::UDiv64Slow | Routine::Div64Slow(_) => 16,
        _ => 12,
    }
}

/// The routines for seldom cases that a kernel calls, behind its own functions.
#[derive(Clone, Debug)]
pub struct Seldom {
    list: Vec<Routine>,
    first: u32,
    /// Of each kind ([`kind`]), whether the function at hand calls them.
    wanted: [bool; 3],
    /// They are called where products of warpgroups are under way, too.
    beside: bool,
    /// Blocks of the function at hand that are come to where integers of 64 bits do not fit into 32.
    large: Vec<bool>,
}

/// The kinds of routines: single precision, double precision, integers of 64 bits.
fn kind(routine: Routine) -> usize {
    match routine {
        Routine::FDiv(_) | Routine::FRcp(_) | Routine::FSqrt(_) => 0,
        Routine::DDiv(_) | Routine::DRcp | Routine::DSqrt(_) => 1,
        _ => 2,
    }
}

/// So many places of each kind are worth a call outside of loops: a call takes registers, and what it calls takes its place once.
const PLACES: [u32; 3] = [3, 2, 2];

impl Seldom {
    /// None yet; the first will be the function of this number. With `beside` they are called where products of warpgroups are under way, too.
    pub fn behind(first: u32, beside: bool) -> Seldom {
        Seldom { list: Vec::new(), first, wanted: [false; 3], beside, large: Vec::new() }
    }

    /// Finds out what is worth calling in a function: what stands in a loop, where seldom cases are in the way, or in many places.
    pub(super) fn look(&mut self, f: &Func) {
        let cfg = f.cfg();
        let loops = cfg.loops(&cfg.dominators());
        let mut places = [0u32; 3];
        // What might have to wait for products of warpgroups is not called.
        let mut early = [false; 3];
        let flight = if self.beside { None } else { super::flight::blocks(f, &cfg) };
        for (b, block) in f.blocks.iter().enumerate() {
            let mut flying = flight.as_ref().map(|list| list[b]);
            for &i in &block.insts {
                let inst = f.inst(i);
                flying = flying.map(|now| super::flight::behind(now, inst));
                let exact = inst.attr.sub & 3 == 0;
                let at = match (inst.op, inst.attr.fmt) {
                    (Op::FDiv | Op::FRcp | Op::FSqrt, Fmt::F32) if exact => 0,
                    (Op::FDiv | Op::FRcp | Op::FSqrt, Fmt::F64) if exact => 1,
                    (Op::IDiv | Op::IRem, _) if f.ty(inst.args[0]) == Ty::B64 => 2,
                    _ => continue,
                };
                places[at] += if loops.depth[b] > 0 { PLACES[at] } else { 1 };
                early[at] |= flying.is_some_and(|now| now != super::flight::NONE);
            }
        }
        self.wanted = std::array::from_fn(|k| places[k] >= PLACES[k] && !early[k]);
        let wide = self.wanted[kind(Routine::UDiv64)];
        self.large = if wide { (0..f.blocks.len()).map(|b| large(f, &cfg, b)).collect() } else { Vec::new() };
    }

    /// Is this one called, in the function at hand?
    pub(super) fn wants(&self, routine: Routine) -> bool {
        self.wanted[kind(routine)]
    }

    /// Puts what `routine` does into `f` in the place of call `at` of `block`, its seldom cases as a call.
    pub(super) fn inline(
        &mut self,
        f: &mut Func,
        block: crate::ir::Block,
        at: usize,
        routine: Routine,
    ) -> Option<crate::ir::Block> {
        let Some(slow) = slow(routine).filter(|_| self.wants(routine)) else {
            return Some(crate::inline::inline(f, block, at, body(routine), false));
        };
        // Where the program itself divides as words what fits, nothing else is left.
        if kind(routine) == kind(Routine::UDiv64) && self.large.get(block.index()) == Some(&true) {
            let site = self.site(f, slow);
            let id = f.blocks[block.index()].insts[at];
            (f.insts[id.0 as usize].op, f.insts[id.0 as usize].imm) = (Op::Routine, site);
            return None;
        }
        // The block behind the call comes first, then those of the routine.
        let first = f.blocks.len() + 1;
        let behind = crate::inline::inline(f, block, at, quick(routine), false);
        let site = self.site(f, slow);
        for b in first..f.blocks.len() {
            for n in 0..f.blocks[b].insts.len() {
                let inst = &mut f.insts[f.blocks[b].insts[n].0 as usize];
                if inst.op == Op::Call {
                    (inst.op, inst.imm) = (Op::Routine, site);
                }
            }
        }
        Some(behind)
    }

    /// The number of a call of this routine among the calls of `f`.
    pub(super) fn site(&mut self, f: &mut Func, routine: Routine) -> i64 {
        let number = self.list.iter().position(|&r| r == routine).unwrap_or_else(|| {
            self.list.push(routine);
            self.list.len() - 1
        });
        let callee = Some(self.first + number as u32);
        if let Some(known) = f.calls.iter().position(|c| c.callee == callee) {
            return known as i64;
        }
        f.calls.push(CallSite { callee, ..signature(routine) });
        f.calls.len() as i64 - 1
    }

    /// The functions, in the order of their numbers.
    pub fn functions(&self) -> Vec<Func> {
        let function = |(n, &r): (usize, &Routine)| Func {
            name: format!("$seldom{n}"),
            signature: signature(r),
            ..body(r).clone()
        };
        self.list.iter().enumerate().map(function).collect()
    }
}

/// True for a block that is come to where something has bits above the lowest 32, and by no other way: as LLVM writes divisions of 64 bits.
fn large(f: &Func, cfg: &crate::cfg::Cfg, b: usize) -> bool {
    let &[pred] = cfg.preds[b].as_slice() else { return false };
    let Term::CondBr { cond, then, els, .. } = &f.blocks[pred as usize].term else { return false };
    let Some(asks) = f.def_inst(*cond).filter(|d| d.op == Op::ICmp && f.constant(d.args[1]) == Some(0)) else {
        return false;
    };
    let side = match asks.attr.cmp {
        Cmp::Ne => then,
        Cmp::Eq => els,
        _ => return false,
    };
    let upper = |d: &Inst| d.op == Op::And && f.constant(d.args[1]) == Some(!u64::from(u32::MAX));
    then.block != els.block && side.block.index() == b && f.def_inst(asks.args[0]).is_some_and(upper)
}

/// How a routine for seldom cases is called.
fn signature(routine: Routine) -> CallSite {
    let mut out = body(routine).signature.clone();
    out.convention.keeps = Keeps::But(4, changes(routine));
    out
}

/// A function of a file, read from what it was lowered to, or lowered; `whole`: with what it calls in its place.
fn made(file: usize, name: &str, rnd: Rnd, whole: bool) -> Func {
    let known = || match rnd {
        Rnd::Rn => crate::ir::text::parse(known(file, name, whole)?).ok()?.pop(),
        _ => None,
    };
    known().unwrap_or_else(|| lower(file, name, rnd, whole))
}

/// The text that a function of a file was lowered to, rounding to nearest.
fn known(file: usize, name: &str, whole: bool) -> Option<&'static str> {
    let text = SOURCES[file].lowered;
    let head = format!("func {name}{} ", if whole { "" } else { CALLS });
    let start = memchr::memmem::find(text.as_bytes(), head.as_bytes())?;
    let end = memchr::memmem::find(&text.as_bytes()[start..], b"\n}\n")?;
    text.get(start..start + end + 3)
}

/// Parses and lowers a function of a file; `whole`: with what it calls in its place. The files are part of this crate: what is wrong with them is
/// a bug that the test below finds.
fn lower(file: usize, name: &str, rnd: Rnd, whole: bool) -> Func {
    let (m, diagnostics) = ptx::parse(&rounding(&part(file, name), rnd));
    assert!(!diagnostics.iter().any(diag::Diagnostic::is_error), "{diagnostics:?}");
    let layout = Layout::new(&m, 90);
    let id = m.funcs.iter().position(|f| f.name == name).expect("a routine of the list");
    let mut program = crate::lower::lower(&m, ptx::module::FuncId(id as u32), &layout).expect("it lowers");
    if whole {
        crate::inliner::run(&mut program.funcs, &mut []);
    }
    let mut f = program.funcs.swap_remove(0);
    super::run(&mut f);
    crate::opt::run(&mut f, crate::opt::MOST_EFFORT, false, &mut |_, _| true);
    for inst in &mut f.insts {
        inst.loc = u32::MAX;
    }
    f.blocks.iter_mut().for_each(|b| b.loc = u32::MAX);
    packed(&f)
}

/// The function without instructions and values that are in no block, numbered in the order of the text.
fn packed(f: &Func) -> Func {
    let mut out = Func { blocks: Vec::new(), insts: Vec::new(), values: Vec::new(), calls: Vec::new(), ..f.clone() };
    let mut values = crate::opt::identity(f);
    for (b, block) in f.blocks.iter().enumerate() {
        let new = out.new_block();
        (out.blocks[b].loc, out.blocks[b].rolled) = (block.loc, block.rolled);
        for &p in &block.params {
            values[p.index()] = out.add_param(new, f.ty(p));
        }
        for &i in &block.insts {
            let inst = f.inst(i);
            let types: Vec<Ty> = inst.results.iter().map(|&r| f.ty(r)).collect();
            let id = out.new_inst(inst.clone(), &types);
            for (&r, &new) in inst.results.iter().zip(&out.inst(id).results) {
                values[r.index()] = new;
            }
            out.blocks[b].insts.push(id);
        }
    }
    for inst in &mut out.insts {
        inst.args.iter_mut().for_each(|a| *a = values[a.index()]);
    }
    for (block, old) in out.blocks.iter_mut().zip(&f.blocks) {
        block.term = old.term.clone();
        block.term.map(|v| values[v.index()]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_routine_lowers() {
        for r in [Rnd::Rn, Rnd::Rz, Rnd::Rm, Rnd::Rp] {
            for routine in [
                Routine::UDiv32,
                Routine::URem32,
                Routine::UDiv64,
                Routine::UDiv64Slow,
                Routine::UDiv64Known,
                Routine::FDiv(r),
                Routine::FDivSlow(r),
                Routine::FRcpSlow(r),
                Routine::FSqrtSlow(r),
                Routine::DDivSlow(r),
                Routine::DSqrtSlow(r),
                Routine::DRcp,
                Routine::FRcp(r),
                Routine::FSqrt(r),
                Routine::DDiv(r),
                Routine::DSqrt(r),
                Routine::Fns,
            ] {
                crate::ir::verify::verify(body(routine)).unwrap();
                let f = body(routine);
                assert!(!f.blocks.iter().flat_map(|b| &b.insts).any(|&i| f.inst(i).op == Op::Call), "{routine:?}");
                crate::ir::verify::verify(quick(routine)).unwrap();
            }
        }
    }

    /// The routines of a file that are asked for to round to nearest: where there is one for that alone, the other is for the other roundings.
    fn nearest(file: usize) -> impl Iterator<Item = &'static str> {
        let names = SOURCES[file].names;
        names.iter().copied().filter(|name| !names.contains(&format!("{name}near").as_str()))
    }

    /// All that a file is lowered to, rounding to nearest.
    fn lowered(file: usize) -> String {
        let mut out = String::new();
        for name in nearest(file) {
            let whole = lower(file, name, Rnd::Rn, true);
            out += &crate::ir::text::print(&whole);
            let mut calls = lower(file, name, Rnd::Rn, false);
            if calls.insts.iter().any(|i| i.op == Op::Call) {
                calls.name += CALLS;
                out += &crate::ir::text::print(&calls);
            }
        }
        out
    }

    #[test]
    fn what_routines_were_lowered_to_is_what_they_are_lowered_to() {
        for (file, name) in ["div_u32", "div_u64", "div_f32", "div_f64", "fns"].into_iter().enumerate() {
            let now = lowered(file);
            if std::env::var_os("BLESS").is_some() {
                let path = format!("{}/builtins/{name}.ir", env!("CARGO_MANIFEST_DIR"));
                std::fs::write(path, &now).unwrap();
                continue;
            }
            assert!(SOURCES[file].lowered == now, "{name} is lowered to something else now: BLESS=1 writes it");
            for routine in nearest(file) {
                let read = made(file, routine, Rnd::Rn, true);
                assert!(known(file, routine, true).is_some(), "{routine} is not read");
                assert_eq!(crate::ir::text::print(&read), crate::ir::text::print(&lower(file, routine, Rnd::Rn, true)));
                crate::ir::verify::verify(&read).unwrap();
                let calls = lower(file, routine, Rnd::Rn, false).insts.iter().any(|i| i.op == Op::Call);
                assert_eq!(known(file, routine, false).is_some(), calls, "{routine}");
            }
        }
    }

    #[test]
    fn a_routine_is_read_alone() {
        for (file, source) in SOURCES.iter().enumerate() {
            for name in source.names {
                let text = part(file, name);
                let slow = text.matches("call (").count();
                assert_eq!(text.matches(".func").count(), 1 + slow, "{name}");
                assert!(text.starts_with(".version") && text.contains(&format!(") {name}(")), "{name}: {text}");
            }
        }
    }
}
