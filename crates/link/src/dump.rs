//! The call graph as text, as the vendor's `-dump-callgraph` prints it.

use crate::callgraph::Graph;
use crate::world::{Place, World};
use std::fmt::Write;

/// A line for each function: its number, marks, name, registers, and whom it may call. Names are those of the file; whoever
/// prints them may show them as the source has them.
pub(crate) fn callgraph(world: &World, graph: &Graph) -> String {
    let mut out = format!("callgraph for {}:\n", world.options.target);
    out.push_str("# A: s -> B // s (number A) potentially calls B\n# s [N]     // s uses N registers\n");
    out.push_str("# ^s        // s is entry point\n# &s        // s has address taken\n");
    let symbols: Vec<u32> = (0..world.symbols.len() as u32).filter(|&s| world.symbol(s).kind == 2).collect();
    let mut number = vec![0u32; world.symbols.len()];
    for (i, &s) in symbols.iter().enumerate() {
        number[s as usize] = i as u32 + 1;
    }
    for &s in &symbols {
        let n = number[s as usize];
        let alias = matches!(world.symbol(s).place, Place::Alias(_));
        let function = world.called(s).filter(|&f| world.function(f).alive && !alias);
        let Some(f) = function else {
            let _ = match world.symbol(s) {
                system if system.wanted && system.place == Place::Undefined => writeln!(out, "{n}: {} ->", system.name),
                _ => writeln!(out, "{n}: "),
            };
            continue;
        };
        let own = world.function(f);
        let taken = graph.taken.iter().any(|t| t.0 == s);
        let mark = if own.entry { "^" } else { "" }.to_string() + if taken { "&" } else { "" };
        let _ = write!(out, "{n}: {mark}{} [{}] ->", world.symbol(s).name, own.registers);
        let mut called = Vec::new();
        for p in graph.indirect[f as usize].iter().rev() {
            called.extend(graph.taken.iter().rev().filter(|t| t.1 == *p).map(|t| number[t.0 as usize]));
        }
        called.extend(graph.calls[f as usize].iter().rev().map(|&c| number[c as usize]));
        for c in called {
            let _ = write!(out, " {c}");
        }
        out.push('\n');
    }
    out
}
