//! Attributes of the output: each list of an input is turned around, as the vendor's tool has it, with symbols by their new
//! numbers, without what linking has settled, and with what entries need together with all that they call.

use crate::callgraph::Graph;
use crate::world::{NONE, World};
use cubin::attr::{self, Attr, Value};

/// The new number of a symbol of an object; 0 where it is not in the output.
pub(crate) fn renumbered(world: &World, object: u32, symbol: u32) -> u32 {
    let map = &world.maps[object as usize];
    let o = &world.objects[object as usize];
    let Some(s) = o.symbols.get(symbol as usize) else { return 0 };
    if s.kind == 3 {
        let place = map.sections.get(s.shndx as usize).map_or(NONE, |m| m.0);
        return if place == NONE { 0 } else { world.sections[place as usize].symbol };
    }
    match map.symbols[symbol as usize] {
        NONE => 0,
        id => world.symbol(id).index,
    }
}

/// `.nv.info`: registers and frames of functions, then the stack that each entry needs.
pub(crate) fn module(world: &World, graph: &Graph) -> Vec<u8> {
    let mut out = Vec::new();
    for &(object, data) in world.module_info.iter().rev() {
        // Read without error when it was merged.
        for mut a in attr::read(data).unwrap_or_default().into_iter().rev() {
            match a.code {
                attr::REGCOUNT | attr::FRAME_SIZE | attr::MAX_STACK_SIZE | attr::MIN_STACK_SIZE => {
                    let words = a.to_words();
                    let [symbol, n, ..] = words[..] else { continue };
                    let id = world.maps[object as usize].symbols[symbol as usize];
                    let Some(f) = (if id == NONE { None } else { world.called(id) }) else { continue };
                    let function = world.function(f);
                    let keep = function.alive && function.object == object && world.symbol(id).object == object;
                    let relocatable = world.options.relocatable;
                    if !keep || !relocatable && matches!(a.code, attr::MAX_STACK_SIZE | attr::MIN_STACK_SIZE) {
                        continue;
                    }
                    let n = match a.code {
                        attr::REGCOUNT => registers(world, graph, f),
                        _ => n,
                    };
                    a = Attr::words(a.code, [world.symbol(id).index, n]);
                }
                attr::SAMPLER_INIT | attr::SAMPLER_FORCE_UNNORMALIZED => {
                    let words = a.to_words();
                    let symbol = words.first().map_or(0, |&s| renumbered(world, object, s));
                    a = Attr::words(a.code, std::iter::once(symbol).chain(words.into_iter().skip(1)));
                }
                _ => {}
            }
            out.push(a);
        }
    }
    if !world.options.relocatable {
        for f in 0..world.functions.len() {
            let function = &world.functions[f];
            if function.entry && function.alive {
                let symbol = world.symbol(function.symbol).index;
                let stack = graph.needs[f].stack.unwrap_or(u32::MAX);
                out.push(Attr::words(attr::MIN_STACK_SIZE, [symbol, stack]));
            }
        }
    }
    attr::write(&out)
}

/// Registers of a function: of an entry, those of all that it calls.
pub(crate) fn registers(world: &World, graph: &Graph, f: u32) -> u32 {
    let function = world.function(f);
    if function.entry && !world.options.relocatable { graph.needs[f as usize].registers } else { function.registers }
}

/// Attributes whose words are all symbols, and those whose first word is one.
const SYMBOLS: [u8; 1] = [attr::EXTERNS];
const FIRST_IS_SYMBOL: [u8; 2] = [attr::PARAM_CBANK, attr::REGCOUNT];

/// `.nv.info.<function>`.
pub(crate) fn of_function(world: &World, graph: &Graph, f: u32) -> Vec<u8> {
    let function = world.function(f);
    let needs = &graph.needs[f as usize];
    let exec = !world.options.relocatable;
    let mut list = attr::read(function.info).unwrap_or_default();
    list.reverse();
    let mut out: Vec<Attr> = Vec::with_capacity(list.len() + 1);
    for mut a in list {
        let object = function.object;
        if SYMBOLS.contains(&a.code) {
            let words = a.to_words().into_iter();
            let mut words: Vec<u32> = words.filter_map(|s| external(world, object, s, exec)).collect();
            // What functions of other files call is called too.
            for (bit, &e) in graph.externs.iter().enumerate().filter(|_| exec && function.entry) {
                let index = world.symbol(e).index;
                if needs.externs >> bit.min(127) & 1 != 0 && bit < 128 && index != 0 && !words.contains(&index) {
                    words.push(index);
                }
            }
            if words.is_empty() {
                continue;
            }
            a = Attr::words(a.code, words);
        } else if FIRST_IS_SYMBOL.contains(&a.code) || texture_parameter(&a) {
            let words = a.to_words();
            let symbol = words.first().map_or(0, |&s| renumbered(world, object, s));
            a = Attr::words(a.code, std::iter::once(symbol).chain(words.into_iter().skip(1)));
        }
        if exec && function.entry {
            match a.code {
                attr::NUM_BARRIERS => a.value = Value::Byte(needs.barriers.min(255) as u8, 0),
                attr::CRS_STACK_SIZE if needs.stack.is_none() => a = Attr::words(attr::CRS_STACK_SIZE, [u32::MAX]),
                _ => {}
            }
        }
        out.push(a);
    }
    if exec && function.entry {
        // The bank with the words of references. (Observed: nvlink 13.5 adds both beside a capsule.)
        if world.has_capsule && needs.references {
            out.extend([attr::BINDLESS_TEXTURE_BANK, attr::BINDLESS_SURFACE_BANK].map(|code| Attr::byte(code, 0)));
        }
        let has = |out: &[Attr], code: u8| out.iter().any(|a| a.code == code);
        if needs.barriers > 0 && !has(&out, attr::NUM_BARRIERS) {
            out.push(Attr::byte(attr::NUM_BARRIERS, needs.barriers.min(255) as u8));
        }
        if needs.stack.is_none() && !has(&out, attr::CRS_STACK_SIZE) {
            out.push(Attr::words(attr::CRS_STACK_SIZE, [u32::MAX]));
        }
    }
    attr::write(&out)
}

/// A parameter that is a texture or surface names a symbol: its offset is 0xffff.
fn texture_parameter(a: &Attr) -> bool {
    a.code == attr::KPARAM_INFO && a.to_words().get(1).is_some_and(|w| w >> 16 == 0xffff)
}

/// The number of a function that a function calls and that no file defines.
fn external(world: &World, object: u32, symbol: u32, exec: bool) -> Option<u32> {
    let id = *world.maps[object as usize].symbols.get(symbol as usize)?;
    if id == NONE {
        return None;
    }
    let s = world.symbol(id);
    (!exec || world.is_external(id)).then_some(s.index).filter(|&n| n != 0)
}

/// The call graph of the output, and the strings of prototypes that it names, each with the places that take its offset.
pub(crate) struct Lists {
    /// Pairs of words.
    pub callgraph: Vec<u8>,
    /// Pairs of words; empty where no name that others see is left.
    pub prototypes: Vec<u8>,
}

/// The prototype of a function whose address is taken stands in the call graph alone.
fn has_prototype(graph: &Graph, symbol: u32) -> bool {
    graph.taken.binary_search_by_key(&symbol, |t| t.0).is_err()
}

/// True if a name that others see has a prototype.
pub(crate) fn has_prototypes(world: &World, graph: &Graph) -> bool {
    graph.prototypes.keys().any(|&s| crate::symbols::in_output(world, s) && has_prototype(graph, s))
}

/// Writes `.nv.callgraph` and `.nv.prototype`; `string` gives the offset of a string in the table of names.
pub(crate) fn lists(world: &World, graph: &Graph, string: &mut dyn FnMut(&str) -> u32) -> Lists {
    let mut callgraph = Vec::new();
    let pair = |out: &mut Vec<u8>, a: u32, b: u32| {
        out.extend(a.to_le_bytes());
        out.extend(b.to_le_bytes());
    };
    let mut order: Vec<(u32, u32)> = Vec::new();
    for f in 0..world.functions.len() as u32 {
        let function = world.function(f);
        if function.alive {
            order.push((world.symbol(function.symbol).index, f));
        }
    }
    order.sort_unstable();
    let index = |id: u32| Some(world.symbol(id).index).filter(|&n| n != 0);
    let mut aliases: Vec<(u32, u32)> =
        graph.aliases.iter().filter_map(|&(a, b)| Some((index(a)?, index(b)?))).collect();
    aliases.sort_unstable();
    pair(&mut callgraph, 0, -1i32 as u32);
    let mut next_alias = aliases.into_iter().peekable();
    for &(symbol, f) in &order {
        while let Some((a, b)) = next_alias.next_if(|&(a, _)| a < symbol) {
            pair(&mut callgraph, a, b);
        }
        for to in graph.calls[f as usize].iter().rev().filter_map(|&s| index(s)) {
            pair(&mut callgraph, symbol, to);
        }
    }
    next_alias.for_each(|(a, b)| pair(&mut callgraph, a, b));
    pair(&mut callgraph, 0, -2i32 as u32);
    let mut taken: Vec<(u32, &str)> = graph.taken.iter().filter_map(|&(s, p)| Some((index(s)?, p))).collect();
    taken.sort_unstable();
    for (symbol, prototype) in taken {
        pair(&mut callgraph, symbol, string(prototype));
    }
    pair(&mut callgraph, 0, -3i32 as u32);
    for &(symbol, f) in &order {
        for prototype in graph.indirect[f as usize].iter().rev() {
            pair(&mut callgraph, symbol, string(prototype));
        }
    }
    pair(&mut callgraph, 0, -4i32 as u32);
    for &(symbol, f) in &order {
        for to in graph.takes[f as usize].iter().rev().filter_map(|&s| index(s)) {
            pair(&mut callgraph, symbol, to);
        }
    }
    let mut prototypes = Vec::new();
    let known = graph.prototypes.iter().filter(|&(&s, _)| has_prototype(graph, s));
    let mut known: Vec<(u32, &str)> = known.filter_map(|(&s, &p)| Some((index(s)?, p))).collect();
    known.sort_unstable();
    for (symbol, prototype) in known {
        pair(&mut prototypes, symbol, string(prototype));
    }
    Lists { callgraph, prototypes }
}
