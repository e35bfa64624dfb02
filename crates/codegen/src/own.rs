//! Which device functions are called as routines for seldom cases are: only a few registers change, which lie behind what lives across the calls,
//! and not the predicates. Functions of the program's own that call nothing, where nobody else knows how they are called.
//!
//! With the ABI's registers everything that lives across a call has to lie in some of few registers, and moves there and back (what CUDA's
//! `pow` calls is called in a row by kernels of physics). The vendor's compiler chooses registers for such functions, too.

use crate::abi::{Convention, Keeps};
use crate::ir::{Func, Op};

/// How they are called: how many registers a function takes is known when its instructions have been ordered.
const OPEN: Keeps = Keeps::But(4, 0);

/// Finds out whether all functions behind the first, the kernel, may be called so; then it says so in each, and at every call.
/// `table`: what is called through pointers; `most`: registers that there may be.
pub fn mark(funcs: &mut [Func], table: &[u32], most: u32) -> bool {
    let may = funcs.len() > 1 && table.is_empty() && funcs[1..].iter().all(|f| leaf(f) && room(f, most));
    if may {
        set(funcs, OPEN);
    }
    may
}

/// Takes it back.
pub fn unmark(funcs: &mut [Func]) {
    set(funcs, Keeps::Usual);
}

/// It calls nothing, has its arguments in registers, does nothing that belongs to the whole kernel, and makes itself room on the stack without a
/// register that the ABI leaves to it (R0, where the stack pointer has to be kept).
fn leaf(f: &Func) -> bool {
    let apart = |op| matches!(op, Op::Call | Op::CallIndirect | Op::SetMaxReg | Op::Wgmma | Op::WgmmaOrder);
    f.signature.convention == Convention::default()
        && f.signature.stack == 0
        && !f.grows
        && f.local_align <= 8
        && !has(f, apart)
}

/// Registers that callers have beside those of a function's arguments and return address, at least.
const BESIDE: u32 = 12;

/// There are registers enough for its arguments and its return address.
fn room(f: &Func, most: u32) -> bool {
    let last = f.signature.args.iter().max().map_or(0, |&r| u32::from(r));
    last + 4 + BESIDE <= most
}

fn has(f: &Func, wanted: impl Fn(Op) -> bool) -> bool {
    f.blocks.iter().flat_map(|b| &b.insts).any(|&i| wanted(f.inst(i).op))
}

fn set(funcs: &mut [Func], keeps: Keeps) {
    let (kernel, own) = funcs.split_at_mut(1);
    own.iter_mut().for_each(|f| f.signature.convention.keeps = keeps);
    for c in kernel[0].calls.iter_mut().filter(|c| c.far.is_none()) {
        if c.callee.is_some_and(|n| n > 0 && n as usize <= own.len()) {
            c.convention.keeps = keeps;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{CallSite, text};

    const TWO: &str = "func k entry returns() {\nblk0():\nv0:b32 = sreg\nv1:b32 = call v0 {imm=0}\nexit\n}\n\
        func g returns(b32) {\nblk0(v0:b32):\nv1:b32 = not v0\nret v1\n}";

    fn functions(callee: &str) -> Vec<Func> {
        let mut funcs = text::parse(&TWO.replace("v1:b32 = not v0", callee)).unwrap();
        for f in &mut funcs {
            f.calls = vec![CallSite { callee: Some(1), ..CallSite::default() }];
        }
        funcs
    }

    #[test]
    fn functions_that_call_nothing_are_called_so() {
        let mut funcs = functions("v1:b32 = not v0");
        assert!(mark(&mut funcs, &[], 253));
        assert_eq!((funcs[1].signature.convention.keeps, funcs[0].calls[0].convention.keeps), (OPEN, OPEN));
        unmark(&mut funcs);
        assert_eq!(funcs[0].calls[0].convention, Convention::default());
    }

    /// The kernel may call somebody through a pointer, if that is none of them.
    #[test]
    fn a_pointer_to_others_does_no_harm() {
        let kernel = TWO.replace("exit", "v2:b64 = const\ncall.indirect v2 {imm=1}\nexit");
        let mut funcs = text::parse(&kernel).unwrap();
        funcs[0].calls = vec![CallSite { callee: Some(1), ..CallSite::default() }, CallSite::default()];
        assert!(mark(&mut funcs, &[], 253));
        assert_eq!((funcs[0].calls[0].convention.keeps, funcs[0].calls[1].convention.keeps), (OPEN, Keeps::Usual));
        assert!(!mark(&mut funcs, &[1], 253));
    }

    #[test]
    fn others_keep_to_the_abi() {
        // It calls something, it is called through pointers, and its arguments lie on the stack.
        assert!(!mark(&mut functions("v1:b32 = call v0 {imm=0}"), &[], 253));
        assert!(!mark(&mut functions("v1:b32 = not v0"), &[1], 253));
        let mut funcs = functions("v1:b32 = not v0");
        funcs[1].signature.stack = 4;
        assert!(!mark(&mut funcs, &[], 253));
        // With few registers there is no room for arguments that lie far behind.
        let mut funcs = functions("v1:b32 = not v0");
        funcs[1].signature.args = vec![30];
        assert!(!mark(&mut funcs, &[], 40) && mark(&mut funcs, &[], 46));
        unmark(&mut funcs);
        let mut funcs = functions("v1:b32 = not v0");
        (funcs[1].local_size, funcs[1].local_align) = (32, 16);
        assert!(!mark(&mut funcs, &[], 253));
        assert_eq!(funcs[0].calls[0].convention, Convention::default());
    }
}
