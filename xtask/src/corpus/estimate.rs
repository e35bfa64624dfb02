//! Static cycles of a function's code: the sum of its stall counts, each as often as ten times for every loop around it, up to three deep.
//!
//! A loop is what leads back to one beginning, in however many ways: a `continue` is no loop of its own, and what stands behind a loop
//! and leads back into it is not a loop for that, but part of the one it leads into.

use codegen::cfg::{Blocks, Cfg};
use sass::codec::Decoded;
use sass::inst::{Inst, Value};
use sass::reg::File;

/// How often a loop's code is taken to run.
const TIMES: f64 = 10.0;

/// Loops around an instruction that count.
const DEEPEST: u32 = 3;

/// What a function's code comes to.
pub struct Estimate {
    /// Instructions, `NOP` left out.
    pub instructions: f64,
    /// Cycles.
    pub cycles: f64,
}

/// Estimates the code of one function.
pub fn estimate(code: &[Decoded]) -> Estimate {
    let cfg = graph(code);
    let depth = cfg.loops(&cfg.dominators()).depth;
    let mut made = Estimate { instructions: 0.0, cycles: 0.0 };
    for (d, &depth) in code.iter().zip(&depth) {
        if let Decoded::Known(i) = d
            && i.form().mnemonic != "NOP"
        {
            made.instructions += 1.0;
            made.cycles += f64::from(i.ctrl.stall.max(1)) * TIMES.powi(depth.min(DEEPEST) as i32);
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
