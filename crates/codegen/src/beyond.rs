//! Arguments beyond the window of the ABI, between functions that only one kernel knows.
//!
//! The ABI passes on the stack what R4..R15 have no room for. Nobody need do so where all callers are known: lowering lets these words
//! travel in registers behind the window, so that calls can be inlined as any other ones, and functions that are called in a way of
//! their own (`own.rs`) take them where they are. For all others they move to the stack here.

use crate::abi::Convention;
use crate::ir::{Attr, CallSite, Def, Func, Inst, InstId, Mem, MemSpace, Op, Ty, Value};
use smallvec::smallvec;

/// The first register behind the window.
const FIRST: u8 = 16;

/// So many words travel so at most: as many values are alive at once around the call, and in the function at its beginning.
const MOST: u32 = 32;

/// The register of the word at this byte offset of the stack arguments, of which there are so many bytes.
pub fn register(at: u32, bytes: u32) -> Option<u8> {
    (bytes <= 4 * MOST).then_some(FIRST + (at / 4) as u8)
}

/// Does a function have arguments there? Those that say which registers they keep have a window of their own, which may reach that far.
pub fn has(f: &Func) -> bool {
    f.signature.convention == Convention::default() && f.signature.args.iter().any(|&r| r >= FIRST)
}

/// Moves these arguments of all functions to the stack, in the functions and at their calls. Functions whose stack grows have none.
pub fn to_stack(funcs: &mut [Func]) {
    let wide: Vec<bool> = funcs.iter().map(has).collect();
    if !wide.contains(&true) {
        return;
    }
    for (n, f) in funcs.iter_mut().enumerate() {
        if wide[n] {
            receive(f);
        }
        pass(f, &wide);
    }
}

/// The function loads them.
fn receive(f: &mut Func) {
    let params = std::mem::take(&mut f.blocks[0].params);
    let regs = std::mem::take(&mut f.signature.args);
    let mut loads = vec![zero(f)];
    for (p, r) in params.into_iter().zip(regs) {
        if r < FIRST {
            f.values[p.index()].def = Def::Param(crate::ir::Block(0), f.blocks[0].params.len() as u32);
            f.blocks[0].params.push(p);
            f.signature.args.push(r);
            continue;
        }
        let base = f.inst(loads[0]).results[0];
        let id = add(f, Op::Load, word(), &[base], &[]);
        f.insts[id.0 as usize].imm = offset(r);
        f.insts[id.0 as usize].results = smallvec![p];
        f.values[p.index()].def = Def::Inst(id, 0);
        f.signature.stack = f.signature.stack.max(offset(r) as u32 + 4);
        loads.push(id);
    }
    f.blocks[0].insts.splice(0..0, loads);
}

/// Calls store them.
fn pass(f: &mut Func, wide: &[bool]) {
    for b in 0..f.blocks.len() {
        let mut at = 0;
        while let Some(&id) = f.blocks[b].insts.get(at) {
            let stores = stores(f, id, wide);
            at += stores.len() + 1;
            let here = at - 1 - stores.len();
            f.blocks[b].insts.splice(here..here, stores);
        }
    }
    // Only now: copies of a call (a loop's, written out) speak of the same registers.
    for c in f.calls.iter_mut().filter(|c| calls_wide(c, wide)) {
        c.stack = c.args.iter().filter(|&&r| r >= FIRST).map(|&r| offset(r) as u32 + 4).fold(c.stack, u32::max);
        c.args.retain(|&r| r < FIRST);
    }
}

/// Is what it calls one of these functions?
fn calls_wide(c: &CallSite, wide: &[bool]) -> bool {
    c.far.is_none() && c.callee.and_then(|n| wide.get(n as usize)) == Some(&true)
}

/// The instructions that stand before a call then.
fn stores(f: &mut Func, id: InstId, wide: &[bool]) -> Vec<InstId> {
    let site = f.inst(id).imm as usize;
    if f.inst(id).op != Op::Call || !calls_wide(&f.calls[site], wide) {
        return Vec::new();
    }
    let args = std::mem::take(&mut f.insts[id.0 as usize].args);
    let regs = f.calls[site].args.clone();
    let mut out = vec![zero(f)];
    let base = f.inst(out[0]).results[0];
    for (v, r) in args.into_iter().zip(regs) {
        if r < FIRST {
            f.insts[id.0 as usize].args.push(v);
            continue;
        }
        let store = add(f, Op::Store, word(), &[base, v], &[]);
        f.insts[store.0 as usize].imm = offset(r);
        out.push(store);
    }
    let loc = f.inst(id).loc;
    out.iter().for_each(|i| f.insts[i.0 as usize].loc = loc);
    out
}

fn offset(r: u8) -> i64 {
    4 * i64::from(r - FIRST)
}

/// The base of what lies on the stack.
fn zero(f: &mut Func) -> InstId {
    add(f, Op::Const, Mem::default(), &[], &[Ty::B32])
}

/// A word of what a caller passes on the stack.
fn word() -> Mem {
    Mem { space: MemSpace::Stack, bytes: 4, ..Mem::default() }
}

fn add(f: &mut Func, op: Op, mem: Mem, args: &[Value], results: &[Ty]) -> InstId {
    let args = args.iter().copied().collect();
    f.new_inst(Inst { op, attr: Attr::default(), mem, imm: 0, args, results: smallvec![], loc: u32::MAX }, results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Keeps;
    use crate::ir::{text, verify};

    /// A call of two words, the second of them in R17.
    fn functions() -> Vec<Func> {
        let text = "func k entry returns() {\nblk0():\nv0:b32 = sreg\nv1:b32 = not v0\nv2:b32 = call v0, v1 {imm=0}\nexit\n}\n\
            func g returns(b32) {\nblk0(v0:b32, v1:b32):\nv2:b32 = iadd v0, v1\nret v2\n}";
        let mut funcs = text::parse(text).unwrap();
        funcs[0].calls = vec![CallSite { callee: Some(1), args: vec![4, 17], rets: vec![4], ..CallSite::default() }];
        funcs[1].signature = CallSite { args: vec![4, 17], rets: vec![4], ..CallSite::default() };
        funcs
    }

    #[test]
    fn words_behind_the_window_move_to_the_stack() {
        let mut funcs = functions();
        assert_eq!([has(&funcs[0]), has(&funcs[1])], [false, true]);
        to_stack(&mut funcs);
        funcs.iter().for_each(|f| verify::verify(f).unwrap());
        assert_eq!((&funcs[0].calls[0].args, funcs[0].calls[0].stack), (&vec![4], 8));
        assert_eq!((&funcs[1].signature.args, funcs[1].signature.stack), (&vec![4], 8));
        let (caller, callee) = (text::print(&funcs[0]), text::print(&funcs[1]));
        assert!(caller.contains("store") && caller.contains("= call v0\n"), "{caller}");
        assert!(callee.contains("load") && callee.contains("blk0(v0:b32):"), "{callee}");
        // There is nothing left to move.
        let before = funcs.clone();
        to_stack(&mut funcs);
        assert_eq!(text::print(&funcs[1]), text::print(&before[1]));
    }

    /// Where a call has been copied, both pass what there was.
    #[test]
    fn copies_of_a_call_pass_the_same() {
        let mut funcs = functions();
        let call = *funcs[0].blocks[0].insts.iter().find(|&&i| funcs[0].inst(i).op == Op::Call).unwrap();
        let copy = Inst { results: smallvec![], ..funcs[0].inst(call).clone() };
        let copy = funcs[0].new_inst(copy, &[Ty::B32]);
        funcs[0].blocks[0].insts.insert(3, copy);
        to_stack(&mut funcs);
        funcs.iter().for_each(|f| verify::verify(f).unwrap());
        let caller = text::print(&funcs[0]);
        assert_eq!((caller.matches("store").count(), caller.matches("= call v0\n").count()), (2, 2), "{caller}");
        assert_eq!((&funcs[0].calls[0].args, funcs[0].calls[0].stack), (&vec![4], 8));
    }

    /// What a function takes in a window of its own stays there.
    #[test]
    fn other_windows_are_left_alone() {
        let mut funcs = functions();
        funcs[1].signature.convention.keeps = Keeps::First(8);
        let before = funcs.clone();
        to_stack(&mut funcs);
        assert_eq!([0, 1].map(|n| text::print(&funcs[n])), [0, 1].map(|n| text::print(&before[n])));
        assert_eq!((&funcs[0].calls[0].args, funcs[0].calls[0].stack), (&vec![4, 17], 0));
    }

    #[test]
    fn few_words_have_registers() {
        assert_eq!(
            [register(0, 8), register(4, 8), register(124, 128), register(0, 132)],
            [Some(16), Some(17), Some(47), None]
        );
    }
}
