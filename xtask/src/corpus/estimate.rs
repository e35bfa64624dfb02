//! Two estimates of a function's code. Static cycles: the sum of its stall counts, each as often as ten times for every loop around it, up to
//! three deep. Waits: the same with the cycles that instructions wait for scoreboards, of what was issued before them on the only way to them
//! ([`Pending`]). The second says where loads are started too late; both say nothing of other warps, which fill such gaps.
//!
//! A loop is what leads back to one beginning, in however many ways: a `continue` is no loop of its own, and what stands behind a loop
//! and leads back into it is not a loop for that, but part of the one it leads into.

use codegen::cfg::{Blocks, Cfg};
use sass::codec::Decoded;
use sass::form::SlotName;
use sass::inst::{Inst, Value};
use sass::latency::immediate;
use sass::reg::File;

/// How often a loop's code is taken to run.
const TIMES: f64 = 10.0;

/// Loops around an instruction that count.
const DEEPEST: u32 = 3;

/// What a function's code comes to.
pub struct Estimate {
    /// Instructions, `NOP` left out.
    pub instructions: f64,
    /// Cycles, waits for scoreboards left out.
    pub cycles: f64,
    /// Cycles, with waits for scoreboards.
    pub waits: f64,
}

/// Cycles until far memory (global, or what may be) has answered: about what published measurements of Hopper give for its L2 and DRAM.
const FAR: f64 = 400.0;

/// Cycles until anything else that sets a scoreboard has done so: shared memory, conversions, operands that were read.
const NEAR: f64 = 28.0;

/// What scoreboards stand for while a row of instructions issues that has one way through it.
#[derive(Default)]
struct Pending {
    /// The cycle in which the next instruction may issue.
    now: f64,
    /// When each scoreboard's operations will be done, in the order in which they were issued.
    done: [Vec<f64>; 6],
}

impl Pending {
    /// Issues an instruction; gives the cycles until the next one may.
    fn issue(&mut self, i: &Inst) -> f64 {
        let began = self.now;
        for (sb, done) in self.done.iter_mut().enumerate() {
            if i.ctrl.wait >> sb & 1 != 0 {
                self.now = done.drain(..).fold(self.now, f64::max);
            }
        }
        if i.form().mnemonic == "DEPBAR"
            && let (Some(left), Some(sb)) = (immediate(i, SlotName::Pending), immediate(i, SlotName::Sb))
            && let Some(done) = self.done.get_mut(sb as usize)
        {
            let over = done.len().saturating_sub(left as usize);
            self.now = done.drain(..over).fold(self.now, f64::max);
        }
        let mnemonic = i.form().mnemonic;
        for sb in [i.ctrl.write_sb, i.ctrl.read_sb].into_iter().flatten() {
            let written = i.ctrl.write_sb == Some(sb);
            let takes = if written && far(mnemonic) { FAR } else { NEAR };
            self.done[sb as usize].push(self.now + takes);
        }
        self.now += f64::from(i.ctrl.stall.max(1));
        self.now - began
    }
}

/// True for what is answered by memory that is shared by the GPU, or may be.
fn far(mnemonic: &str) -> bool {
    ["LDG", "LD", "ATOM", "ATOMG", "TEX", "TLD", "TLD4", "TXD", "SULD", "SUATOM", "LDGDEPBAR"].contains(&mnemonic)
}

/// Estimates the code of one function.
pub fn estimate(code: &[Decoded]) -> Estimate {
    let cfg = graph(code);
    let depth = cfg.loops(&cfg.dominators()).depth;
    let mut made = Estimate { instructions: 0.0, cycles: 0.0, waits: 0.0 };
    let mut pending = Pending::default();
    for (at, (d, &depth)) in code.iter().zip(&depth).enumerate() {
        if at == 0 || cfg.preds[at][..] != [at as u32 - 1] {
            pending = Pending::default();
        }
        if let Decoded::Known(i) = d
            && i.form().mnemonic != "NOP"
        {
            let times = TIMES.powi(depth.min(DEEPEST) as i32);
            made.instructions += 1.0;
            made.cycles += f64::from(i.ctrl.stall.max(1)) * times;
            made.waits += pending.issue(i) * times;
        }
    }
    made
}

/// Where each instruction leads. What nobody leads to (routines, what a table leads to) is led to by the last branch by a table before it, or
/// by the function's first instruction.
fn graph(code: &[Decoded]) -> Cfg {
    let mut succs = vec![Blocks::new(); code.len()];
    let mut reached = vec![false; code.len()];
    for (at, d) in code.iter().enumerate() {
        let (mut goes_on, mut to) = (true, None);
        if let Decoded::Known(i) = d {
            match i.form().mnemonic {
                "BRA" | "JMP" => {
                    to = target(i, at, code.len());
                    goes_on = conditional(i) || to.is_none();
                }
                // What a call does is counted once, wherever it is called.
                "CALL" => to = target(i, at, code.len()),
                "BRX" | "BRXU" | "JMX" | "JMXU" | "EXIT" | "RET" | "KILL" => goes_on = conditional(i),
                _ => {}
            }
        }
        let next = goes_on.then_some(at + 1).filter(|&n| n < code.len());
        for s in next.into_iter().chain(to) {
            succs[at].push(s as u32);
            reached[s] = true;
        }
    }
    let mut table = 0;
    for (at, d) in code.iter().enumerate() {
        if at > 0 && !reached[at] {
            succs[table].push(at as u32);
        }
        if let Decoded::Known(i) = d
            && matches!(i.form().mnemonic, "BRX" | "BRXU" | "JMX" | "JMXU")
        {
            table = at;
        }
    }
    Cfg::new(succs)
}

/// Where a branch leads within its function.
fn target(i: &Inst, at: usize, len: usize) -> Option<usize> {
    let distance = i.operands.iter().find_map(|o| if let Value::Target(d) = o.value { Some(d.get()) } else { None })?;
    usize::try_from(at as i64 + 1 + distance.div_euclid(16)).ok().filter(|&to| to < len)
}

/// True where some threads may not take a branch: a guard, or a predicate or a set of lanes among its operands.
fn conditional(i: &Inst) -> bool {
    let asks = |o: &sass::inst::Operand| {
        o.as_reg()
            .is_some_and(|r| (!r.is_const() || o.inv) && matches!(r.file(), File::Pred | File::Upred | File::Ugpr))
    };
    asks(&i.guard) || i.operands.iter().any(asks) && !matches!(i.form().mnemonic, "BRXU" | "JMXU")
}

#[cfg(test)]
mod tests {
    use super::estimate;
    use sass::codec::Decoded;
    use sass::control::Control;
    use sass::text::{NoLabels, parse_at};

    /// The cycles of a few lines, one cycle each.
    fn cycles(lines: &[&str]) -> f64 {
        let code: Vec<Decoded> = lines
            .iter()
            .enumerate()
            .map(|(n, line)| Decoded::Known(parse_at(line, n as u64 * 16, &NoLabels).map_err(|d| d.message).unwrap()))
            .collect();
        estimate(&code).cycles
    }

    #[test]
    fn waits_count_what_was_issued_on_the_only_way() {
        let waits = |lines: &[(&str, Control)]| {
            let code: Vec<Decoded> = lines
                .iter()
                .enumerate()
                .map(|(n, (line, ctrl))| {
                    let mut i = parse_at(line, n as u64 * 16, &NoLabels).map_err(|d| d.message).unwrap();
                    i.ctrl = *ctrl;
                    Decoded::Known(i)
                })
                .collect();
            estimate(&code).waits
        };
        let one = Control { stall: 1, ..Control::default() };
        let load = |sb| Control { write_sb: Some(sb), ..one };
        let wait = |mask| Control { wait: mask, ..one };
        let (ldg, lds, add) = ("LDG.E R2, desc[UR4][R4.64]", "LDS R3, [R6]", "IADD3 R7, R2, R3, RZ");
        // The second load is done while the first is waited for.
        assert_eq!(waits(&[(ldg, load(0)), (lds, load(1)), (add, wait(3)), ("EXIT", one)]), 402.0);
        assert_eq!(waits(&[(lds, load(1)), (add, wait(2)), ("EXIT", one)]), 30.0);
        // Of two copies one may still be under way.
        let some = "DEPBAR.LE SB0, 0x1";
        assert_eq!(waits(&[("LDGDEPBAR", load(0)), ("LDGDEPBAR", load(0)), (some, one), ("EXIT", one)]), 402.0);
        // What a loop's end asked for is not waited for at its beginning, where others come, too.
        let back = "@P0 BRA 0x0";
        assert_eq!(waits(&[(add, wait(1)), (ldg, load(0)), (back, one), ("EXIT", one)]), 31.0);
    }

    #[test]
    fn two_ways_back_to_one_beginning_are_one_loop() {
        let one = ["IADD3 R0, R0, 0x1, RZ", "ISETP.GE.AND P0, PT, R0, R1, PT", "@P0 BRA 0x0", "EXIT"];
        assert_eq!(cycles(&one), 31.0);
        let two = ["IADD3 R0, R0, 0x1, RZ", "@P1 BRA 0x0", "IADD3 R2, R2, 0x1, RZ", "@P0 BRA 0x0", "EXIT"];
        assert_eq!(cycles(&two), 41.0);
    }

    #[test]
    fn what_stands_behind_a_loop_belongs_to_where_it_leads() {
        // A seldom case behind the end is in the loop; what leaves the loop and goes back before its end is not.
        let seldom = ["@P1 BRA 0x30", "@P0 BRA 0x0", "EXIT", "IADD3 R0, R0, 0x1, RZ", "BRA 0x10"];
        assert_eq!(cycles(&seldom), 41.0);
        let before = ["@P1 BRA 0x30", "IADD3 R0, R0, 0x1, RZ", "EXIT", "IADD3 R0, R0, 0x2, RZ", "BRA 0x20"];
        assert_eq!(cycles(&before), 5.0);
    }

    #[test]
    fn loops_in_loops_count_each() {
        let nest = ["NOP", "IADD3 R0, R0, 0x1, RZ", "@P1 BRA 0x10", "@P0 BRA 0x0", "EXIT"];
        assert_eq!(cycles(&nest), 211.0);
    }
}
