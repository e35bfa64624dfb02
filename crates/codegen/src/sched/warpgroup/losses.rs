//! What the user is told where products of warpgroups wait though the program does not ask for it: the vendor's messages, found
//! by asking ptxas 13.5 about kernels that break each rule.
//!
//! The vendor's tool looks at the registers of the PTX; this is said of what the machine code must wait for. A sum that the program
//! overwrites while a product is under way has a register of its own here, and needs no wait.

use crate::cfg::Cfg;
use crate::mir::{Func, Inst, Op};
use diag::{Diagnostic, Severity, Span};
use sass::forms as F;

/// Why there is a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A call; of a function that is `linked` by name nothing is known.
    Call {
        /// The file is to be linked.
        linked: bool,
    },
    /// Register assignment has not kept what is under way apart from the rest.
    Registers,
    /// The program never waits.
    Unawaited,
    /// Sums are read before the program waits.
    Read,
}

/// A wait that the program did not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Why.
    pub cause: Cause,
    /// Byte offset in the text of what waits; `u32::MAX` where there is none.
    pub loc: u32,
}

/// What is said of the losses of a kernel or function: of waits that are put in each, of every other cause once.
pub fn notes(losses: &[Loss], function: &str) -> Vec<Diagnostic> {
    let mut out: Vec<Diagnostic> = Vec::new();
    let mut said = Vec::new();
    for l in losses {
        let of = |number: u32, why: &str, line: &str| {
            format!(
                "(C{number}) Potential Performance Loss: wgmma.mma_async instructions are serialized due to {why} in the \
                 function '{function}' in line {line}"
            )
        };
        let line = if l.loc == u32::MAX { "0" } else { "{line}" };
        let text = match l.cause {
            Cause::Call { linked: true } => of(7509, "the presence of Extern calls", line),
            Cause::Call { linked: false } => {
                of(7510, "wgmma pipeline crossing function boundary at a function call", line)
            }
            Cause::Registers => of(7511, "insufficient register resources for the wgmma pipeline", line),
            Cause::Unawaited => format!(
                "(C7517) wgmma.wait_group is injected in around line {line} by compiler to allow \
                 use of registers defined by GMMA in function '{function}'"
            ),
            // The vendor's message has two spaces and no line.
            Cause::Read => of(
                7514,
                "non wgmma instructions reading accumulator registers of  a wgmma between start and end of the pipeline stage",
                "0",
            ),
        };
        let again =
            if l.cause == Cause::Unawaited { said.contains(l) } else { said.iter().any(|s: &Loss| s.cause == l.cause) };
        if again {
            continue;
        }
        said.push(*l);
        let note = Diagnostic::new(Severity::Info, text);
        out.push(if l.loc == u32::MAX { note } else { note.label(Span::new(l.loc, l.loc), "here") });
    }
    out
}

/// Where the program itself waits.
pub struct Awaited {
    /// The last wait of each block.
    last: Vec<Option<usize>>,
    /// Some path from the end of the block comes to a wait.
    later: Vec<bool>,
}

impl Awaited {
    /// Of the waits of a function before any are put in.
    pub fn new(f: &Func, cfg: &Cfg) -> Awaited {
        let wait = |i: &Inst| matches!(&i.op, Op::Sass(s) if s.form == F::WARPGROUP_I);
        let last: Vec<_> = f.blocks.iter().map(|b| b.insts.iter().rposition(wait)).collect();
        let mut later = vec![false; f.blocks.len()];
        let mut work: Vec<usize> = (0..f.blocks.len()).filter(|&b| last[b].is_some()).collect();
        while let Some(b) = work.pop() {
            for &p in &cfg.preds[b] {
                if !std::mem::replace(&mut later[p as usize], true) {
                    work.push(p as usize);
                }
            }
        }
        Awaited { last, later }
    }

    /// Some path from behind instruction `at` of block `b` comes to a wait.
    pub fn behind(&self, b: usize, at: usize) -> bool {
        self.later[b] || self.last[b].is_some_and(|last| last > at)
    }
}
