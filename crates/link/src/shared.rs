//! Addresses of shared variables.
//!
//! A function has one code for all entries that reach it, so a variable that several entries reach has one address in all of
//! them. These come first: by falling size (equals in the order that [`halved`] gives) each takes the first slot in which no variable
//! is that an entry of its reaches too; slots lie behind one another. Then each entry's own, by falling alignment and rising size. Dynamic memory begins behind
//! all. (Observed: nvlink 13.5 puts them like this.)

use crate::callgraph::Graph;
use crate::world::{FunctionId, NONE, Place, World};
use diag::Diagnostic;
use rustc_hash::FxHashMap;

/// Where shared variables lie.
#[derive(Default)]
pub(crate) struct Places {
    /// By shared variable: its address.
    pub addresses: Vec<u64>,
    /// By function: bytes that an entry takes, without those of the system.
    pub sizes: Vec<u64>,
    /// By shared variable: the only entry that reaches it; NONE where there are several or none.
    only: Vec<FunctionId>,
    /// By function that uses dynamic memory: where it begins, [`NOWHERE`] in code that no entry reaches.
    pub dynamic: FxHashMap<FunctionId, u64>,
    /// There are variables that belong to no entry.
    has_common: bool,
    /// Dynamic memory is listed: always for debuggers, otherwise if there are variables that belong to no entry. (Observed: so does
    /// nvlink 13.5 with `-preserve-relocs` where the system reserves shared memory; elsewhere not, and it fails where code that no
    /// entry reaches uses dynamic memory.)
    pub lists_dynamic: bool,
}

/// Where dynamic memory begins in code that no entry reaches. (Observed: nvlink 13.5 writes -1.)
pub(crate) const NOWHERE: u64 = u64::MAX;

impl Places {
    /// The last place where dynamic memory begins; none where no entry uses it.
    pub fn last_dynamic(&self) -> Option<u64> {
        self.dynamic.values().copied().filter(|&d| d != NOWHERE).max()
    }

    /// Puts the addresses into the symbols' variables, for an output that lists them: those of one entry in its section, as local
    /// symbols, others in `.nv_debug.shared`. What no code names is left out.
    fn list(&self, world: &mut World, graph: &Graph) {
        // A capsule says how far behind what the system has.
        let reserved = if world.capsule { 0 } else { arch::files(world.options.target.sm).reserved_shared as u64 };
        let dynamic = if world.options.debug { self.last_dynamic().unwrap_or(0) } else { NOWHERE };
        let dynamic = dynamic.wrapping_add(if self.has_common { reserved } else { 0 });
        let mut end = 0;
        for s in 0..world.symbols.len() {
            let Place::Shared(v) = world.symbols[s].place else { continue };
            let v = v as usize;
            let variable = &world.shared[v];
            let at = if variable.dynamic { dynamic } else { reserved + self.addresses[v] };
            let home = match self.only[v] {
                _ if variable.dynamic => world.debug_shared,
                NONE => world.debug_shared,
                entry => world.functions[entry as usize].shared,
            };
            let lists_dynamic = self.lists_dynamic && (world.options.debug || !world.capsule);
            let shown = if variable.dynamic { lists_dynamic } else { graph.named[v] };
            if !shown || home == NONE || world.sections[home as usize].dead {
                world.symbols[s].hidden = true;
                continue;
            }
            if home != world.debug_shared {
                world.symbols[s].bind = 0;
            } else if !variable.dynamic {
                end = end.max(at + variable.size);
            }
            (world.shared[v].home, world.shared[v].value) = (home, at);
        }
        if world.debug_shared != NONE {
            let id = world.debug_shared;
            world.section(id).size = end;
        }
    }
}

/// Alignment of dynamic shared memory.
const DYNAMIC_ALIGN: u64 = 16;

/// Gives addresses where the output is an executable, and lists them where it lists shared variables.
pub(crate) fn place(world: &mut World, graph: &Graph) -> Result<Places, Vec<Diagnostic>> {
    if world.options.relocatable {
        return Ok(Places::default());
    }
    let places = lay_out(world, graph)?;
    if world.options.lists_shared() {
        places.list(world, graph);
    }
    Ok(places)
}

/// Gives addresses; sets size and alignment of the entries' sections.
fn lay_out(world: &mut World, graph: &Graph) -> Result<Places, Vec<Diagnostic>> {
    let count = world.shared.len();
    let sizes = vec![0; world.functions.len()];
    let mut places = Places { addresses: vec![0; count], sizes, only: vec![NONE; count], ..Places::default() };
    let live = |f: u32| world.functions[f as usize].entry && world.functions[f as usize].alive;
    let entries: Vec<u32> = (0..world.functions.len() as u32).filter(|&f| live(f)).collect();
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); count + graph.dynamic.len()];
    for &f in &entries {
        for &v in &graph.shared[f as usize] {
            users[v as usize].push(f);
        }
    }
    for (only, users) in places.only.iter_mut().zip(&users) {
        if let [entry] = users[..] {
            *only = entry;
        }
    }
    let size = |v: usize| (world.shared[v].size, world.shared[v].align);
    // All but what stands in entries' own sections are sorted, then those are taken out that one entry reaches or no code names: so
    // it is among equals too. What is named by functions alone that no entry reaches takes part.
    let anyones = (0..count).filter(|&v| world.shared[v].entry == NONE).collect();
    let mut common = halved(anyones, &|&v| std::cmp::Reverse(size(v).0));
    // By function: what it alone reaches, first what stands in its own section.
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); world.functions.len()];
    let in_sections = (0..count).filter(|&v| world.shared[v].entry != NONE);
    for v in in_sections.chain(common.iter().copied()) {
        if !world.shared[v].dynamic
            && let [entry] = users[v][..]
        {
            own[entry as usize].push(v);
        }
    }
    common.retain(|&v| users[v].len() != 1 && graph.named[v] && !world.shared[v].dynamic);
    // By slot: variables; by entry and slot: is one there that the entry reaches.
    let mut slots: Vec<Vec<usize>> = Vec::new();
    let mut taken: Vec<Vec<bool>> = Vec::new();
    for v in common {
        let free = |taken: &Vec<bool>| users[v].iter().all(|&f| !taken[f as usize]);
        let slot = match taken.iter().position(free) {
            Some(slot) => slot,
            None => {
                slots.push(Vec::new());
                taken.push(vec![false; world.functions.len()]);
                slots.len() - 1
            }
        };
        slots[slot].push(v);
        users[v].iter().for_each(|&f| taken[slot][f as usize] = true);
    }
    let mut end = 0u64;
    for slot in &slots {
        let align = slot.iter().map(|&v| size(v).1).max().unwrap_or(1);
        let start = end.next_multiple_of(align);
        for &v in slot {
            places.addresses[v] = start;
            end = end.max(start.saturating_add(size(v).0));
            for &f in &users[v] {
                let total = &mut places.sizes[f as usize];
                *total = (*total).max(start.saturating_add(size(v).0));
            }
        }
    }
    for &f in &entries {
        let own = halved(std::mem::take(&mut own[f as usize]), &|&v| (size(v).1, std::cmp::Reverse(size(v).0)));
        let mut at = places.sizes[f as usize];
        for v in own.into_iter().rev() {
            at = at.next_multiple_of(size(v).1);
            places.addresses[v] = at;
            at = at.saturating_add(size(v).0);
        }
        places.sizes[f as usize] = at;
    }
    dynamic(graph, &users[count..], &mut places);
    if world.options.debug {
        one_dynamic(&users[count..], &mut places);
    }
    places.has_common = !slots.is_empty();
    let reserved = arch::files(world.options.target.sm).reserved_shared != 0;
    places.lists_dynamic = world.options.debug || places.has_common && reserved;
    sections(world, graph, &entries, &places)?;
    Ok(places)
}

/// Sorts as the vendor's tool does, whose order of equal elements shows in the addresses: the list is dealt out to two, each element
/// in front of those before, both are sorted, and of equals the second one's come first. (Observed: links of 2 to 11 variables
/// of the same size, and of 30 random sizes.)
pub(crate) fn halved<T: Clone, K: Ord>(list: Vec<T>, key: &dyn Fn(&T) -> K) -> Vec<T> {
    if list.len() < 2 {
        return list;
    }
    let deal =
        |from: usize| halved(list.iter().skip(from).step_by(2).rev().cloned().collect(), key).into_iter().peekable();
    let (mut first, mut second) = (deal(0), deal(1));
    let mut out = Vec::with_capacity(list.len());
    loop {
        let next = match (first.peek(), second.peek()) {
            (Some(a), Some(b)) if key(a) < key(b) => first.next(),
            (_, Some(_)) => second.next(),
            _ => first.next(),
        };
        match next {
            Some(x) => out.push(x),
            None => return out,
        }
    }
}

/// Dynamic memory begins behind an entry's static memory. A function that several entries reach has one code, so there it begins
/// behind the static memory of all of them; `users` are those entries, by function.
fn dynamic(graph: &Graph, users: &[Vec<u32>], places: &mut Places) {
    // Entries that share one function, directly or over others, have the same start; so repeat until nothing moves.
    loop {
        let mut moved = false;
        for (&(f, align), users) in graph.dynamic.iter().zip(users) {
            let align = align.max(DYNAMIC_ALIGN);
            let ends = users.iter().map(|&e| places.sizes[e as usize]);
            let start = ends.max().map_or(NOWHERE, |end| end.next_multiple_of(align));
            places.dynamic.insert(f, start);
            for &e in users {
                moved |= places.sizes[e as usize] != start;
                places.sizes[e as usize] = start;
            }
        }
        if !moved {
            return;
        }
    }
}

/// For debuggers dynamic memory has one address: the last of those where it would begin.
fn one_dynamic(users: &[Vec<u32>], places: &mut Places) {
    let start = places.last_dynamic().unwrap_or(0);
    places.dynamic.values_mut().for_each(|s| *s = start);
    for &e in users.iter().flatten() {
        places.sizes[e as usize] = start;
    }
}

fn sections(world: &mut World, graph: &Graph, entries: &[u32], places: &Places) -> Result<(), Vec<Diagnostic>> {
    let sm = world.options.target.sm;
    let limit = arch::limits(sm).map_or(0xc000, |l| l.shared_static_per_cta) as u64;
    let reserved = arch::files(sm).reserved_shared as u64;
    let common_align = match world.debug_shared {
        NONE => 1,
        s => world.sections[s as usize].align,
    };
    let mut errors = Vec::new();
    for &f in entries {
        let id = world.functions[f as usize].shared;
        let list = &graph.shared[f as usize];
        let size = places.sizes[f as usize];
        if size > limit && !world.options.relocatable {
            let name = world.name_of(f);
            let m = format!("Entry function '{name}' uses too much shared data (0x{size:x} bytes, 0x{limit:x} max)");
            errors.push(Diagnostic::error(m));
        }
        let variables = || list.iter().filter_map(|&v| world.shared.get(v as usize));
        let dynamic = list.last().is_some_and(|&v| v as usize >= world.shared.len());
        let common = dynamic || variables().any(|v| v.entry == NONE);
        let aligns = variables().map(|v| v.align).max().unwrap_or(1);
        let section = world.section(id);
        section.align = section.align.max(aligns).max(if common { common_align } else { 1 });
        section.size = size + if list.is_empty() { 0 } else { reserved };
        section.dead |= list.is_empty();
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::halved;

    /// Orders that nvlink 13.5 gave to variables of equal size, and to some of several sizes.
    #[test]
    fn equals_stand_as_the_vendor_has_them() {
        let same = |n: usize| halved((0..n).collect(), &|_| 0);
        assert_eq!(same(3), [1, 0, 2]);
        assert_eq!(same(6), [3, 5, 1, 2, 4, 0]);
        assert_eq!(same(11), [7, 3, 5, 1, 9, 4, 0, 8, 6, 2, 10]);
        let sizes = [4, 8, 12, 4];
        assert_eq!(halved((0..4).collect(), &|&v: &usize| std::cmp::Reverse(sizes[v])), [2, 1, 3, 0]);
    }
}
