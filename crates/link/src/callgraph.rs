//! Who calls whom, and what follows from it: which functions stay, how many registers, barriers and bytes of stack an entry
//! needs, and which shared variables it reaches.
//!
//! Edges are direct calls and, for an indirect call, all functions whose address is taken and whose prototype is the same
//! string. What follows is computed over strongly connected components, so the time is linear in the graph.

use crate::object::{Role, role};
use crate::world::{FunctionId, NONE, Place, SymbolId, World, is_system, is_unified_table};
use cubin::view::str_at;
use diag::{Diagnostic, Severity};
use rustc_hash::FxHashMap;

/// The call graph of the output.
#[derive(Default)]
pub(crate) struct Graph<'a> {
    /// By function: what it calls directly.
    pub calls: Vec<Vec<SymbolId>>,
    /// By function: prototypes that it calls through.
    pub indirect: Vec<Vec<&'a str>>,
    /// By function: whose address it takes.
    pub takes: Vec<Vec<SymbolId>>,
    /// Functions whose address is taken, with their prototypes.
    pub taken: Vec<(SymbolId, &'a str)>,
    /// Prototypes of names that others see.
    pub prototypes: FxHashMap<SymbolId, &'a str>,
    /// Names of aliases and what they stand for.
    pub aliases: Vec<(SymbolId, SymbolId)>,
    /// By function: what an entry needs together with all that it reaches.
    pub needs: Vec<Needs>,
    /// By entry: shared variables that it reaches, rising. Empty for other functions. Numbers behind those of variables stand
    /// for functions that use dynamic memory, in the order of [`Graph::dynamic`].
    pub shared: Vec<Vec<u32>>,
    /// Functions that use dynamic shared memory, and the largest alignment that one wants.
    pub dynamic: Vec<(FunctionId, u64)>,
    /// By shared variable: code names it, if only that of a function that is left out, or it is an entry's own.
    pub named: Vec<bool>,
    /// Functions of the system that are called, kernels that are launched; the first 128.
    pub externs: Vec<SymbolId>,
    /// Lines about registers that calls force on entries.
    pub propagated: Vec<String>,
}

/// What a function and all that it reaches need.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    pub registers: u32,
    /// The function with the most registers.
    pub widest: FunctionId,
    pub barriers: u32,
    /// Bytes of the deepest chain of frames; none where a chain has no end.
    pub stack: Option<u32>,
    /// What is called outside of the output or launched: bits by [`Graph::externs`].
    pub externs: u128,
    /// References to textures, samplers or surfaces are used.
    pub references: bool,
}

/// Reads the call graphs of all inputs, removes what no entry reaches, and computes what entries need.
pub(crate) fn resolve<'a>(world: &mut World<'a>) -> Result<Graph<'a>, Vec<Diagnostic>> {
    let mut graph = read(world)?;
    let keep = world.options.keep.clone();
    for f in 0..world.functions.len() {
        let name = match world.functions[f].symbol {
            NONE => "",
            s => world.symbol(s).name,
        };
        let symbol = world.functions[f].symbol;
        let entry = world.functions[f].entry && symbol != NONE;
        // A kernel that code can launch stays whatever host code refers to.
        let taken = graph.taken.binary_search_by_key(&symbol, |t| t.0).is_ok();
        world.functions[f].alive = entry && (world.options.relocatable || taken || keep.keeps(name));
    }
    let by_prototype = by_prototype(world, &graph);
    mark(world, &graph, &by_prototype);
    let components = Components::of(world, &graph, &by_prototype);
    needs(world, &mut graph, &components);
    for f in 0..world.functions.len() {
        let (alive, symbol, text) = (world.functions[f].alive, world.functions[f].symbol, world.functions[f].text);
        if !alive {
            world.section(text).dead = true;
            if symbol != NONE {
                world.symbols[symbol as usize].hidden = true;
            }
            let (bank, shared) = (world.functions[f].constant0, world.functions[f].shared);
            for s in [bank, shared] {
                if s != NONE {
                    world.section(s).dead = true;
                }
            }
        }
    }
    let mut errors = Vec::new();
    let uses = uses(world, &mut graph, &mut errors);
    check(world, &mut graph, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let uses = by_function(world, &mut graph, uses);
    reach_shared(world, &mut graph, &components, uses);
    Ok(graph)
}

/// The pairs of a section of the call graph, and the strings that its offsets lead to.
fn read<'a>(world: &mut World<'a>) -> Result<Graph<'a>, Vec<Diagnostic>> {
    let n = world.functions.len();
    let mut graph = Graph {
        calls: vec![Vec::new(); n],
        indirect: vec![Vec::new(); n],
        takes: vec![Vec::new(); n],
        shared: vec![Vec::new(); n],
        ..Graph::default()
    };
    let mut taken = FxHashMap::default();
    let mut errors = Vec::new();
    for (number, o) in world.objects.iter().enumerate() {
        let map = &world.maps[number];
        let wrong = |m: String| crate::fatal(format!("Input file '{}' is damaged: {m}", o.name));
        let strings = o.view.sections.iter().find(|s| s.kind == 2).and_then(|s| o.view.sections.get(s.link as usize));
        let strings = strings.map_or(&[][..], |s| s.data);
        let text = |at: u32| str_at(strings, at).map_err(|d| wrong(d.message));
        let symbol = |i: u32| match map.symbols.get(i as usize) {
            Some(&id) if id != NONE => Ok(id),
            _ => Err(wrong(format!("the call graph names symbol {i}, which is no function"))),
        };
        for s in &o.view.sections {
            let pairs = s.data.chunks_exact(8).map(|p| {
                let word = |i: usize| u32::from_le_bytes([p[i], p[i + 1], p[i + 2], p[i + 3]]);
                (word(0), word(4))
            });
            match role(s.kind, s.name) {
                Role::Callgraph => {
                    let mut list = 0;
                    for (a, b) in pairs {
                        if a == 0 && (b as i32) < 0 && (b as i32) >= -4 {
                            list = -(b as i32);
                            continue;
                        }
                        let who = symbol(a)?;
                        // Of a function that another file defines, what is said here does not hold.
                        let own = world.symbol(who).object == number as u32;
                        let function = world.called(who);
                        match (list, function) {
                            (2, _) => {
                                let prototype = text(b)?;
                                if taken.insert(who, prototype).is_none() {
                                    graph.taken.push((who, prototype));
                                }
                            }
                            (1 | 3 | 4, Some(f)) if own => {
                                let f = f as usize;
                                match list {
                                    1 if matches!(world.symbol(who).place, Place::Alias(_)) => {
                                        graph.aliases.push((who, symbol(b)?));
                                    }
                                    1 => graph.calls[f].push(symbol(b)?),
                                    3 => graph.indirect[f].push(text(b)?),
                                    _ => graph.takes[f].push(symbol(b)?),
                                }
                            }
                            _ => {}
                        }
                    }
                }
                Role::Prototype => {
                    for (a, b) in pairs {
                        let (who, prototype) = (symbol(a)?, text(b)?);
                        let first = graph.prototypes.entry(who).or_insert(prototype);
                        if *first != prototype && !is_system(world.symbol(who).name) {
                            let (name, by) = (world.symbol(who).name, world.file(world.symbol(who).object));
                            let m = format!(
                                "Prototype doesn't match for '{name}' in '{}', first defined in '{by}'",
                                o.name
                            );
                            errors.push(Diagnostic::error(m));
                        }
                    }
                }
                _ => {}
            }
        }
    }
    if !errors.is_empty() {
        errors.push(Diagnostic::new(Severity::Fatal, "merge_elf failed"));
        return Err(errors);
    }
    graph.taken.sort_by_key(|t| t.0);
    Ok(graph)
}

/// Functions by the prototype that they are called through.
struct ByPrototype<'a> {
    numbers: FxHashMap<&'a str, u32>,
    functions: Vec<Vec<FunctionId>>,
}

fn by_prototype<'a>(world: &World<'a>, graph: &Graph<'a>) -> ByPrototype<'a> {
    let mut out = ByPrototype { numbers: FxHashMap::default(), functions: Vec::new() };
    for &(symbol, prototype) in &graph.taken {
        let Some(f) = world.called(symbol) else { continue };
        let next = out.functions.len() as u32;
        let number = *out.numbers.entry(prototype).or_insert(next);
        if number == next {
            out.functions.push(Vec::new());
        }
        out.functions[number as usize].push(f);
    }
    out
}

/// Marks what entries reach. A function whose address is taken stays too; what only it calls does not, for nobody can call it.
fn mark<'a>(world: &mut World<'a>, graph: &Graph<'a>, by_prototype: &ByPrototype<'a>) {
    let mut seen = vec![false; by_prototype.functions.len()];
    // The vendor's tool removes nothing from files for debuggers and where what is resolved is kept.
    let all = world.options.relocatable || world.options.lists_shared() || world.options.tools_patch;
    let roots = (0..world.functions.len() as u32).filter(|&f| {
        let f = &mut world.functions[f as usize];
        f.alive |= all && f.symbol != NONE;
        f.alive
    });
    let mut work: Vec<u32> = roots.collect();
    let visit = |world: &mut World<'a>, work: &mut Vec<u32>, f: u32| {
        let function = &mut world.functions[f as usize];
        if !function.alive && function.symbol != NONE && !function.entry {
            function.alive = true;
            work.push(f);
        }
    };
    while let Some(f) = work.pop() {
        for i in 0..graph.calls[f as usize].len() {
            if let Some(to) = world.called(graph.calls[f as usize][i]) {
                visit(world, &mut work, to);
            }
        }
        for prototype in &graph.indirect[f as usize] {
            let Some(&n) = by_prototype.numbers.get(prototype) else { continue };
            if !std::mem::replace(&mut seen[n as usize], true) {
                for &to in &by_prototype.functions[n as usize] {
                    visit(world, &mut work, to);
                }
            }
        }
    }
    for &(symbol, _) in &graph.taken {
        if let Some(f) = world.called(symbol) {
            let function = &mut world.functions[f as usize];
            function.alive |= function.symbol != NONE && !function.entry;
        }
    }
}

/// Strongly connected components of functions and prototypes, callees before callers.
struct Components {
    /// By node.
    of: Vec<u32>,
    /// Nodes in order of components.
    nodes: Vec<u32>,
    /// Where each component begins in `nodes`.
    starts: Vec<u32>,
    /// Successors of nodes, in compressed form.
    edges: Vec<u32>,
    edge_starts: Vec<u32>,
}

impl Components {
    fn successors(&self, node: u32) -> &[u32] {
        &self.edges[self.edge_starts[node as usize] as usize..self.edge_starts[node as usize + 1] as usize]
    }

    fn of<'a>(world: &World<'a>, graph: &Graph<'a>, by_prototype: &ByPrototype<'a>) -> Components {
        let functions = world.functions.len();
        let count = functions + by_prototype.functions.len();
        let (mut edges, mut edge_starts) = (Vec::new(), vec![0]);
        for f in 0..functions {
            if world.functions[f].alive {
                let called = graph.calls[f].iter().filter_map(|&s| world.called(s));
                edges.extend(called.filter(|&to| world.functions[to as usize].alive));
                let through = graph.indirect[f].iter().filter_map(|p| by_prototype.numbers.get(p));
                edges.extend(through.map(|&n| functions as u32 + n));
            }
            edge_starts.push(edges.len() as u32);
        }
        for list in &by_prototype.functions {
            edges.extend(list);
            edge_starts.push(edges.len() as u32);
        }
        let mut out = Components { of: vec![NONE; count], nodes: Vec::new(), starts: vec![0], edges, edge_starts };
        out.tarjan();
        out
    }

    fn tarjan(&mut self) {
        let count = self.of.len();
        let (mut index, mut low, mut next) = (vec![0u32; count], vec![0u32; count], 1u32);
        let (mut stack, mut on_stack) = (Vec::new(), vec![false; count]);
        let mut work: Vec<(u32, u32)> = Vec::new();
        for root in 0..count as u32 {
            if index[root as usize] != 0 {
                continue;
            }
            work.push((root, 0));
            while let Some(&mut (node, ref mut i)) = work.last_mut() {
                let n = node as usize;
                if *i == 0 {
                    (index[n], low[n]) = (next, next);
                    next += 1;
                    stack.push(node);
                    on_stack[n] = true;
                }
                let edge = self.edge_starts[n] + *i;
                if edge < self.edge_starts[n + 1] {
                    *i += 1;
                    let to = self.edges[edge as usize];
                    if index[to as usize] == 0 {
                        work.push((to, 0));
                    } else if on_stack[to as usize] {
                        low[n] = low[n].min(index[to as usize]);
                    }
                    continue;
                }
                // A node without edges is seen twice with `i` 0 only if it was just pushed; it is done now.
                work.pop();
                if let Some(&(up, _)) = work.last() {
                    low[up as usize] = low[up as usize].min(low[n]);
                }
                if low[n] == index[n] {
                    let component = self.starts.len() as u32 - 1;
                    while let Some(member) = stack.pop() {
                        on_stack[member as usize] = false;
                        self.of[member as usize] = component;
                        self.nodes.push(member);
                        if member == node {
                            break;
                        }
                    }
                    self.starts.push(self.nodes.len() as u32);
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn members(&self, component: usize) -> &[u32] {
        &self.nodes[self.starts[component] as usize..self.starts[component + 1] as usize]
    }

    fn is_cycle(&self, component: usize) -> bool {
        let members = self.members(component);
        members.len() > 1 || self.successors(members[0]).contains(&members[0])
    }
}

fn needs(world: &World, graph: &mut Graph, components: &Components) {
    let functions = world.functions.len();
    let mut own = vec![0u128; functions];
    for (f, function) in world.functions.iter().enumerate().filter(|(_, f)| f.alive) {
        for &to in &function.externs {
            if !world.is_external(to) {
                continue;
            }
            let bit = graph.externs.iter().position(|&e| e == to).unwrap_or_else(|| {
                graph.externs.push(to);
                graph.externs.len() - 1
            });
            own[f] |= 1u128.checked_shl(bit as u32).unwrap_or(0);
        }
    }
    let references = crate::texture::users(world);
    let mut by_component: Vec<Needs> = Vec::with_capacity(components.len());
    for c in 0..components.len() {
        let mut sum = Needs { stack: Some(0), widest: NONE, ..Needs::default() };
        let mut frame = 0;
        for &node in components.members(c) {
            if (node as usize) < functions {
                let f = &world.functions[node as usize];
                frame = f.frame;
                sum.barriers = sum.barriers.max(f.barriers);
                sum.externs |= own[node as usize];
                sum.references |= references.get(node as usize) == Some(&true);
                if f.registers > sum.registers || sum.widest == NONE {
                    (sum.registers, sum.widest) = (f.registers, node);
                }
            }
            for &to in components.successors(node) {
                let to = components.of[to as usize] as usize;
                if to == c {
                    continue;
                }
                let of = by_component[to];
                sum.barriers = sum.barriers.max(of.barriers);
                sum.externs |= of.externs;
                sum.references |= of.references;
                if of.registers > sum.registers {
                    (sum.registers, sum.widest) = (of.registers, of.widest);
                }
                sum.stack = sum.stack.zip(of.stack).map(|(a, b)| a.max(b));
            }
        }
        sum.stack = if components.is_cycle(c) { None } else { sum.stack.map(|s| s.saturating_add(frame)) };
        by_component.push(sum);
    }
    graph.needs = (0..functions).map(|f| by_component[components.of[f] as usize]).collect();
    // An only entry gets the barriers of all functions, reached or not, and the words of all references. (Observed: so does nvlink 13.5, and only then.)
    let alive = |f: &&crate::world::Function| f.alive;
    let mut entries = (0..functions).filter(|&f| world.functions[f].alive && world.functions[f].entry);
    if let (Some(entry), None) = (entries.next(), entries.next()) {
        let most = world.functions.iter().filter(alive).map(|f| f.barriers).max();
        graph.needs[entry].barriers = most.unwrap_or(0);
        graph.needs[entry].references = references.contains(&true);
    }
}

/// Looks at the places of relocations: which functions use which shared variables, and what is defined nowhere.
fn uses(world: &mut World, graph: &mut Graph, errors: &mut Vec<Diagnostic>) -> Vec<(FunctionId, u32)> {
    graph.named = vec![false; world.shared.len()];
    let mut uses = Vec::new();
    let mut missing: Vec<(SymbolId, u32)> = Vec::new();
    let mut said = vec![false; world.symbols.len()];
    let mut wanted = Vec::new();
    for &(object, section, out) in &world.reloc_sections {
        let target = world.sections[out as usize].owner;
        let owner = &world.sections[target as usize];
        let map = &world.maps[object as usize];
        let o = &world.objects[object as usize];
        let relocs = || o.view.sections[section as usize].relocs();
        // Code of a function that another file defines names nothing.
        if owner.function != NONE && world.function(owner.function).symbol != NONE {
            for r in relocs() {
                if let Some(&id) = map.symbols.get(r.symbol as usize)
                    && id != NONE
                    && let Place::Shared(v) = world.symbol(id).place
                {
                    graph.named[v as usize] = true;
                }
            }
        }
        if owner.dead {
            continue;
        }
        let reached = owner.function == NONE || {
            let f = world.function(owner.function);
            f.alive
        };
        if !reached || owner.name == ".debug_frame" {
            continue;
        }
        for r in relocs() {
            let id = map.symbols[r.symbol as usize];
            if id == NONE {
                continue;
            }
            match world.symbol(id).place {
                Place::Shared(v) if owner.function != NONE => uses.push((owner.function, v)),
                Place::Undefined => {
                    let s = world.symbol(id);
                    wanted.push(id);
                    let known = is_system(s.name)
                        || is_unified_table(s.name)
                        // In a capsule that was linked before these are no longer weak.
                        || s.name.starts_with(".nv.reservedSmem.")
                        || matches!(s.kind, 10..=12)
                        || s.bind == 2
                        || s.bind == 0;
                    if !known && !std::mem::replace(&mut said[id as usize], true) {
                        missing.push((id, object));
                    }
                }
                _ => {}
            }
        }
    }
    wanted.into_iter().for_each(|id| world.symbols[id as usize].wanted = true);
    for &id in &world.globals {
        let s = world.symbol(id);
        // A function that nobody calls may be missing; a variable may not.
        let variable = s.kind == 13 || s.kind == 1;
        let (name, bind) = (s.name, s.bind);
        let system = name.starts_with(".nv.") || is_unified_table(name);
        let undefined = s.place == Place::Undefined && bind == 1 && variable && !system;
        if undefined && !std::mem::replace(&mut said[id as usize], true) {
            missing.push((id, s.object));
        }
    }
    if world.options.relocatable {
        missing.clear();
    }
    missing.sort_unstable();
    for (id, object) in missing {
        let (name, file) = (world.symbol(id).name, world.file(object));
        let target = match world.options.report_arch {
            true => format!(" (target: {})", world.options.target),
            false => String::new(),
        };
        errors.push(Diagnostic::error(format!("Undefined reference to '{name}' in '{file}'{target}")));
    }
    uses.sort_unstable();
    uses.dedup();
    uses
}

/// What entries need must be within their limits.
fn check(world: &mut World, graph: &mut Graph, errors: &mut Vec<Diagnostic>) {
    for f in 0..world.functions.len() {
        let function = &world.functions[f];
        if !function.entry || !function.alive {
            continue;
        }
        let (needs, name) = (graph.needs[f], world.name_of(f as u32));
        if needs.registers > function.registers && !world.options.relocatable {
            let widest = world.name_of(needs.widest);
            let line = format!("regcount {} for {widest} propagated to entry {name}", needs.registers);
            graph.propagated.push(line);
            let limit = function.max_registers;
            if limit != 0 && needs.registers > limit {
                let m = format!(
                    "entry function '{name}' with max regcount of {limit} calls function '{widest}' with regcount of {}",
                    needs.registers
                );
                errors.push(Diagnostic::error(m));
            }
        }
        if needs.stack.is_none() && !world.options.quiet_stack && !world.options.relocatable {
            world.warn(format!("Stack size for entry function '{name}' cannot be statically determined"));
        }
    }
}

/// Dynamic memory has no address of its own: where it begins is a matter of each function that uses it.
fn by_function(world: &World, graph: &mut Graph, uses: Vec<(FunctionId, u32)>) -> Vec<(FunctionId, u32)> {
    let mut out: Vec<(FunctionId, u32)> = Vec::with_capacity(uses.len());
    for (f, v) in uses {
        let variable = &world.shared[v as usize];
        if !variable.dynamic {
            out.push((f, v));
        } else if let Some(last) = graph.dynamic.last_mut().filter(|d| d.0 == f) {
            last.1 = last.1.max(variable.align);
        } else {
            out.push((f, (world.shared.len() + graph.dynamic.len()) as u32));
            graph.dynamic.push((f, variable.align));
        }
    }
    out
}

/// Which shared variables each entry reaches.
fn reach_shared(world: &World, graph: &mut Graph, components: &Components, uses: Vec<(FunctionId, u32)>) {
    for (v, variable) in world.shared.iter().enumerate() {
        graph.named[v] |= variable.entry != NONE;
        // What stands in an entry's own section is its own, used or not.
        if variable.entry != NONE {
            graph.shared[variable.entry as usize].push(v as u32);
        }
    }
    if uses.is_empty() {
        return;
    }
    let words = (world.shared.len() + graph.dynamic.len()).div_ceil(64);
    let mut sets = vec![0u64; words * components.len()];
    for &(f, v) in &uses {
        let c = components.of[f as usize] as usize;
        sets[c * words + v as usize / 64] |= 1 << (v % 64);
    }
    for c in 0..components.len() {
        for &node in components.members(c) {
            for &to in components.successors(node) {
                let to = components.of[to as usize] as usize;
                if to < c {
                    let (low, high) = sets.split_at_mut(c * words);
                    let from = &low[to * words..(to + 1) * words];
                    high[..words].iter_mut().zip(from).for_each(|(a, b)| *a |= b);
                }
            }
        }
    }
    for f in 0..world.functions.len() {
        let function = &world.functions[f];
        if !function.entry || !function.alive {
            continue;
        }
        let c = components.of[f] as usize;
        for (i, &word) in sets[c * words..(c + 1) * words].iter().enumerate() {
            for bit in 0..64 {
                if word >> bit & 1 != 0 {
                    graph.shared[f].push((i * 64 + bit) as u32);
                }
            }
        }
        graph.shared[f].sort_unstable();
        graph.shared[f].dedup();
    }
}
