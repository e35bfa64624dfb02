//! Proves that nobody waits for threads that wait elsewhere.
//!
//! Whoever sets a barrier waits where it is waited for, gives it up, or ends. A thread that came to a meeting set before, or set the barrier again, without
//! either would wait there for those that wait inside for it. And nobody comes there who has not set it: he would wait for those who have, and have left.

use super::{Convergence, living_graph, one_way_in, walk};
use crate::cfg::Cfg;
use crate::ir::Func;

/// Checks every barrier of `f`.
///
/// # Errors
/// Which barrier a way leads around, and where to.
pub fn run(f: &Func, c: &Convergence) -> Result<(), String> {
    let cfg = Cfg::new(f.blocks.iter().map(|b| b.term.successors().into_iter().map(|s| s.0).collect()).collect());
    let living = living_graph(f);
    let mut opens_for = vec![Vec::new(); f.blocks.len()];
    for (b, list) in c.open.iter().enumerate() {
        list.iter().for_each(|o| opens_for[o.1.index()].push(b as u32));
    }
    for (b, list) in c.open.iter().enumerate() {
        for (n, &(barrier, join)) in list.iter().enumerate() {
            let inside = walk(&cfg, b as u32, |x| x == join.0 || c.leave[x as usize] == Some(barrier));
            // Who only exits waits for nobody, wherever he comes from.
            let mut set = walk(&living, b as u32, |x| x == join.0 || c.leave[x as usize] == Some(barrier));
            set.insert(join.0);
            if !one_way_in(&living, b as u32, &set) {
                return Err(format!(
                    "B{barrier}, set in blk{b}, is waited for in blk{}, and a way there does not set it",
                    join.0
                ));
            }
            for &x in inside.list() {
                // What is set inside, or behind this one in the same block, is waited for first.
                let behind = |&start: &u32| match start == b as u32 {
                    true => list[n + 1..].iter().any(|o| o.1.0 == x),
                    false => inside.contains(start),
                };
                if c.close[x as usize].is_some() && !opens_for[x as usize].iter().any(behind) {
                    return Err(format!(
                        "B{barrier}, set in blk{b}, is neither waited for nor given up on a way to blk{x}, where others meet"
                    ));
                }
                if x != b as u32 && c.open[x as usize].iter().any(|o| o.0 == barrier) {
                    return Err(format!("B{barrier}, set in blk{b}, is set again in blk{x}"));
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Block, text};

    /// Two meetings, of which one way leads to the outer one past the inner one.
    fn around() -> (Func, Convergence) {
        let body = "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\nbrif v2, blk1(), blk2()\nblk1():\nbr blk3()\n\
                    blk2():\nv3:p = icmp v0, v1 {cmp=eq}\nbrif v3, blk3(), blk5()\nblk3():\nbr blk4()\nblk4():\nexit\nblk5():\nbr blk4()";
        let f = text::parse(&format!("func k entry returns() {{\n{body}\n}}")).unwrap().remove(0);
        let n = f.blocks.len();
        let (mut open, mut close) = (vec![Vec::new(); n], vec![None; n]);
        open[0] = vec![(1, Block(4)), (0, Block(3))];
        (close[3], close[4]) = (Some(0), Some(1));
        let c = Convergence { open, close, leave: vec![None; n], ..Convergence::default() };
        (f, c)
    }

    #[test]
    fn who_goes_past_a_meeting_gives_it_up() {
        let (f, mut c) = around();
        assert!(run(&f, &c).is_err_and(|e| e.contains("B0, set in blk0") && e.contains("blk4")));
        c.leave[5] = Some(1);
        assert!(run(&f, &c).is_err(), "another barrier");
        c.leave[5] = Some(0);
        assert_eq!(run(&f, &c), Ok(()));
        // The outer one first.
        c.open[0].swap(0, 1);
        assert!(run(&f, &c).is_err());
    }

    #[test]
    fn a_barrier_is_not_set_again_while_it_is_waited_for() {
        let (f, mut c) = around();
        c.leave[5] = Some(0);
        c.open[2] = vec![(1, Block(5))];
        c.close[5] = Some(1);
        assert!(run(&f, &c).is_err_and(|e| e.contains("set again in blk2")));
    }

    /// A kernel or a function of `blocks` blocks whose ways are chance's, but for the way from each block to the next: every branch tells threads apart.
    fn by_chance(seed: u64, blocks: u64) -> Func {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % n
        };
        let function = below(3) == 0;
        let end = if function { "ret v0" } else { "exit" };
        let near = 2 + below(12);
        let mut body =
            "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=3}\nv2:p = icmp v0, v1 {cmp=lt}\nbr blk1()\n".to_owned();
        for b in 1..blocks {
            let mut to = || (b.saturating_sub(near) + below(2 * near)).clamp(1, blocks);
            let other = to();
            let term = match below(12) {
                0..7 if other != b + 1 => format!("brif v2, blk{}(), blk{other}()", b + 1),
                7 if other < b => format!("br blk{other}()"),
                8 if below(4) == 0 => end.to_owned(),
                _ => format!("br blk{}()", b + 1),
            };
            body += &format!("blk{b}():\n{term}\n");
        }
        body += &format!("blk{blocks}():\n{end}");
        let head = if function { "func f returns(b32)" } else { "func k entry returns()" };
        text::parse(&format!("{head} {{\n{body}\n}}")).unwrap().remove(0)
    }

    #[test]
    fn nobody_waits_for_who_waits_elsewhere() {
        let (first, count) = (1, std::env::var("SASSAFRAS_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000));
        for seed in first..first + count {
            let mut f = by_chance(seed, 4 + seed % 28);
            let c = crate::converge::run(&mut f);
            assert_eq!(run(&f, &c), Ok(()), "graph {seed}:\n{}", text::print(&f));
        }
    }
}
