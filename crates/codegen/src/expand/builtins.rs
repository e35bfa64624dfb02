//! The routines of `builtins/*.ptx`, lowered once each.

use crate::ir::{Func, Rnd};
use crate::layout::Layout;
use std::sync::OnceLock;

/// A routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // named as in the files
pub enum Routine {
    UDiv32,
    URem32,
    UDiv64,
    FDiv(Rnd),
    FDivSlow(Rnd),
    FRcp(Rnd),
    FSqrt(Rnd),
    DDiv(Rnd),
    DSqrt(Rnd),
    Fns,
}

/// One file and the functions of it.
struct Source {
    text: &'static str,
    names: &'static [&'static str],
}

const SOURCES: [Source; 5] = [
    Source { text: include_str!("../../builtins/div_u32.ptx"), names: &["udiv32", "urem32"] },
    Source { text: include_str!("../../builtins/div_u64.ptx"), names: &["udiv64"] },
    Source { text: include_str!("../../builtins/div_f32.ptx"), names: &["fdiv", "frcp", "fsqrt", "fdivslow"] },
    Source { text: include_str!("../../builtins/div_f64.ptx"), names: &["ddiv", "dsqrt"] },
    Source { text: include_str!("../../builtins/fns.ptx"), names: &["fns"] },
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

/// The head of a file and one function of it: reading the others takes as long as compiling a small kernel. All of it, where
/// the function does not stand in it as it should.
fn part(file: usize, name: &str) -> String {
    let text = SOURCES[file].text;
    let found = || {
        let head = text.find(".func")?;
        let start = text[..text.find(&format!(") {name}("))?].rfind(".func")?;
        let end = start + text[start..].find("\n}")? + 2;
        Some(text[..head].to_string() + &text[start..end])
    };
    found().unwrap_or_else(|| text.to_string())
}

/// The IR of a routine: parameters and results are 32-bit words. It is made when it is first asked for.
pub fn body(routine: Routine) -> &'static Func {
    /// Most routines of a file.
    const MOST: usize = 4;
    type Cells = [[OnceLock<Func>; MOST]; ROUNDINGS.len()];
    static LOWERED: [Cells; SOURCES.len()] =
        [const { [const { [const { OnceLock::new() }; MOST] }; ROUNDINGS.len()] }; SOURCES.len()];
    let (file, index, rnd) = match routine {
        Routine::UDiv32 => (0, 0, Rnd::Rn),
        Routine::URem32 => (0, 1, Rnd::Rn),
        Routine::UDiv64 => (1, 0, Rnd::Rn),
        Routine::FDiv(r) => (2, 0, r),
        Routine::FRcp(r) => (2, 1, r),
        Routine::FSqrt(r) => (2, 2, r),
        Routine::FDivSlow(r) => (2, 3, r),
        Routine::DDiv(r) => (3, 0, r),
        Routine::DSqrt(r) => (3, 1, r),
        Routine::Fns => (4, 0, Rnd::Rn),
    };
    LOWERED[file][rnd as usize][index].get_or_init(|| lower(file, SOURCES[file].names[index], rnd))
}

/// Parses and lowers a function of a file. The files are part of this crate: what is wrong with them is a bug that
/// the test below finds.
fn lower(file: usize, name: &str, rnd: Rnd) -> Func {
    let (m, diagnostics) = ptx::parse(&rounding(&part(file, name), rnd));
    assert!(!diagnostics.iter().any(diag::Diagnostic::is_error), "{diagnostics:?}");
    let layout = Layout::new(&m, 90);
    let id = m.funcs.iter().position(|f| f.name == name).expect("a routine of the list");
    let mut program = crate::lower::lower(&m, ptx::module::FuncId(id as u32), &layout).expect("it lowers");
    let mut f = program.funcs.swap_remove(0);
    super::run(&mut f);
    crate::opt::run(&mut f, crate::opt::MOST_EFFORT, false, &mut |_, _| true);
    f
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
                Routine::FDiv(r),
                Routine::FDivSlow(r),
                Routine::FRcp(r),
                Routine::FSqrt(r),
                Routine::DDiv(r),
                Routine::DSqrt(r),
                Routine::Fns,
            ] {
                crate::ir::verify::verify(body(routine)).unwrap();
            }
        }
    }

    #[test]
    fn a_routine_is_read_alone() {
        for (file, source) in SOURCES.iter().enumerate() {
            for name in source.names {
                let text = part(file, name);
                assert_eq!(text.matches(".func").count(), 1, "{name}");
                assert!(text.starts_with(".version") && text.contains(&format!(") {name}(")), "{name}: {text}");
            }
        }
    }
}
