//! Control flow for Graphviz: what the vendor's tool prints with `-bbcfg` (a node a basic block) and `-cfg` (a node a run
//! of blocks that only fall into one another).

use super::code::{Line, Options, Row};
use super::live::{Flow, leaders, unconditional};
use super::{Binding, Function, Listing};
use crate::reg::File;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// `-cfg`: hyperblocks, which a conditional exit does not end.
    pub hyperblocks: bool,
    /// `-poff`: offsets before instructions.
    pub offsets: bool,
    /// Not of the vendor: how many registers live in each block.
    pub counts: bool,
}

/// A text as Graphviz wants it inside of a label.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if matches!(c, ' ' | '[' | ']' | '<' | '>' | '{' | '}' | '|' | '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// A node: instructions `from..to`.
struct Block {
    from: usize,
    to: usize,
    name: String,
}

/// What the graphs of the functions of a section share.
struct Drawing {
    graph: Graph,
    flows: Vec<Flow>,
    count: usize,
    starts: Vec<bool>,
    lines: Vec<Line>,
    live: Option<Vec<usize>>,
}

impl Listing<'_> {
    /// The graph of every section that `keep` wants.
    pub fn graph(&self, graph: Graph, keep: &dyn Fn(usize) -> bool) -> String {
        let mut out = String::from("digraph f {\n");
        let mut unnamed = 0;
        for n in (0..self.code.len()).filter(|&n| keep(n)) {
            self.section_graph(&mut out, n, graph, &mut unnamed);
        }
        out.push_str("}\n");
        out
    }

    fn section_graph(&self, out: &mut String, n: usize, graph: Graph, unnamed: &mut usize) {
        let mut flows = self.flows(n);
        for (f, code) in flows.iter_mut().zip(&self.code[n]) {
            if let (Some(target), Some(inst)) = (f.jump, code.known()) {
                *f = Flow { next: !unconditional(inst), ends: true, to: vec![target], ..Flow::default() };
            }
        }
        let count = self.code_end(n);
        let named = |i: usize| self.place(n, i as u64 * 16).is_some();
        let mut starts = leaders(&flows, count, named);
        for (i, _) in flows.iter().enumerate().take(count).filter(|(_, f)| f.callee.is_some()) {
            starts[i + 1] = true;
        }
        // The function at the begin, those with names, and those that are called.
        let mut functions = vec![0];
        for f in self.file.functions.iter().filter(|f| f.section == n) {
            let at = (f.offset / 16) as usize;
            if at < count && !functions.contains(&at) {
                functions.push(at);
            }
        }
        let mut known = 0;
        while known < functions.len() {
            let reached = reachable(&flows, count, functions[known]);
            let called =
                flows.iter().take(count).enumerate().filter(|(i, _)| reached[*i]).filter_map(|(_, f)| f.callee);
            for callee in called {
                if !functions.contains(&callee) {
                    functions.push(callee);
                }
            }
            known += 1;
        }
        functions.sort_unstable();
        let mut heads = self.heads(n, count);
        let lines = self.lines(n, Options::default());
        let live = graph.counts.then(|| self.live_of(n));
        let drawing = Drawing { graph, flows, count, starts, lines, live };
        for at in functions {
            self.function_graph(out, n, at, &drawing, &mut heads, unnamed);
        }
    }

    fn function_graph(
        &self,
        out: &mut String,
        n: usize,
        at: usize,
        drawing: &Drawing,
        heads: &mut BTreeMap<usize, String>,
        unnamed: &mut usize,
    ) {
        let Drawing { graph, flows, count, starts, lines, live } = drawing;
        let (graph, count) = (*graph, *count);
        let section = &self.file.sections[n];
        let reached = reachable(flows, count, at);
        let mut blocks: Vec<Block> = Vec::new();
        for i in (0..count).filter(|&i| starts[i] && reached[i]) {
            let to = (i + 1..=count).find(|&j| j == count || starts[j]).unwrap_or(count);
            let own = self.function_name(n, i).or_else(|| self.label(n, i as u64 * 16).map(str::to_string));
            // A hyperblock goes on behind a conditional exit.
            let behind = i > 0 && own.is_none() && graph.hyperblocks && flows[i - 1].next;
            if behind && let Some(last) = blocks.last_mut().filter(|b| b.to == i) {
                last.to = to;
                continue;
            }
            let name = own.unwrap_or_else(|| {
                *unnamed += 1;
                format!("BB{}", *unnamed - 1)
            });
            blocks.push(Block { from: i, to, name });
        }
        let own = if at == 0 { section.name.strip_prefix(".text.") } else { self.place(n, at as u64 * 16) };
        let _ = writeln!(out, "subgraph \"cluster_{}\" {{", own.unwrap_or("?"));
        let name_of = |i: usize| blocks.iter().find(|b| b.from == i).map(|b| b.name.as_str());
        for block in &blocks {
            let _ = write!(
                out,
                "node [fontname=\"Courier\",fontsize=10,shape=Mrecord];\n\"{}\"\n[label=\"{{<entry>",
                block.name
            );
            if let Some(head) = heads.remove(&block.from) {
                out.push_str(&head);
            }
            if let Some(label) = self.label(n, block.from as u64 * 16) {
                let _ = write!(out, "{label}:\\l");
            }
            if let Some(live) = live {
                let most = (block.from..block.to).map(|i| live[i]).max().unwrap_or(0);
                let _ = write!(
                    out,
                    "\\ \\ //\\ live\\ registers:\\ {}\\ at\\ entry,\\ at\\ most\\ {most}\\l",
                    live[block.from]
                );
            }
            let mut exits = 0;
            let mut edges = String::new();
            let mut split = false;
            for i in block.from..block.to {
                let line = &lines[i];
                let mut text = line.guard.clone();
                if !text.is_empty() {
                    text.push(' ');
                }
                text.push_str(&line.body);
                if let Some(note) = &line.note {
                    let _ = write!(text, " {note}");
                }
                text.push(';');
                let f = &flows[i];
                let exit = !f.next || !f.to.is_empty() || f.ends || f.callee.is_some();
                if exit {
                    let _ = write!(out, "|<exit{exits}>");
                } else if split {
                    let _ = write!(out, "|<exitpost{}>", exits - 1);
                    split = false;
                }
                let _ = match graph.offsets {
                    true => write!(out, "{:04x}:{}\\l", line.offset, escaped(&format!("   {text}"))),
                    false => write!(out, "{}\\l", escaped(&format!("  {text}"))),
                };
                if exit {
                    for target in f.to.iter().chain(&f.callee).filter_map(|&t| name_of(t)) {
                        let _ =
                            writeln!(edges, "\"{}\":exit{exits}:e -> \"{target}\":entry:n [style=solid];", block.name);
                    }
                    split = i + 1 < block.to;
                    if f.next
                        && !split
                        && let Some(next) = name_of(i + 1)
                    {
                        let _ =
                            writeln!(edges, "\"{}\":exit{exits}:s -> \"{next}\":entry:n [style=solid];", block.name);
                    }
                    exits += 1;
                } else if i + 1 == block.to
                    && f.next
                    && let Some(next) = name_of(i + 1)
                {
                    let port = if exits > 0 { format!("exitpost{}", exits - 1) } else { "entry".into() };
                    let _ = writeln!(edges, "\"{}\":{port}:s -> \"{next}\":entry:n [style=solid];", block.name);
                }
            }
            let _ = writeln!(out, "}}\"]\n{}", edges.trim_end());
            if edges.is_empty() {
                out.pop();
            }
        }
        out.push_str("}\n");
    }

    fn function_name(&self, n: usize, i: usize) -> Option<String> {
        let f = super::labels::function_at(self.file, n, i as u64 * 16)?;
        Some(if i == 0 && !f.entry && !f.leads { self.file.sections[n].name.clone() } else { f.name.clone() })
    }

    /// The lines before the first instruction of a function, by instruction.
    fn heads(&self, n: usize, count: usize) -> BTreeMap<usize, String> {
        let mut out = BTreeMap::new();
        let mut text = String::new();
        for row in self.rows(n, count) {
            match row {
                Row::Function(f, end) => text.push_str(&graph_head(f, end)),
                Row::Section => _ = write!(text, "{}:\\l", self.file.sections[n].name),
                Row::Label(_) => {}
                Row::Inst(i) => {
                    if !text.is_empty() {
                        out.insert(i, std::mem::take(&mut text));
                    }
                }
            }
        }
        out
    }

    /// How many general registers live before each instruction.
    fn live_of(&self, n: usize) -> Vec<usize> {
        let all: Vec<Vec<Flow>> = (0..self.code.len()).map(|k| self.flows(k)).collect();
        let mut live = self.live(&all);
        live.swap_remove(n).0.iter().map(|s| s.count(File::Gpr)).collect()
    }
}

/// Which instructions control can reach from instruction `at`, without those of called functions.
pub(super) fn reachable(flows: &[Flow], count: usize, at: usize) -> Vec<bool> {
    let mut out = vec![false; count];
    let mut work = vec![at];
    while let Some(i) = work.pop() {
        if i >= count || std::mem::replace(&mut out[i], true) {
            continue;
        }
        work.extend(&flows[i].to);
        if flows[i].next {
            work.push(i + 1);
        }
    }
    out
}

fn graph_head(function: &Function, end: &str) -> String {
    let name = escaped(&function.name);
    let mut out = String::new();
    match function.binding {
        Binding::Local => {}
        Binding::Global => _ = write!(out, "\t.global\t\t{name}\\l"),
        Binding::Weak => _ = write!(out, "\t.weak\t\t{name}\\l"),
    }
    let _ = write!(out, "\t.type\t\t{name},@function\\l\t.size\t\t{name},({end}\\ -\\ {name})\\l");
    if function.entry {
        let _ = write!(out, "\t.other\t\t{name},\\<no\\ object\\>\\l");
    }
    let _ = write!(out, "{name}:\\l");
    out
}
