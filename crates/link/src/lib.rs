//! The device linker: relocatable cubins in, one cubin out, as the vendor's nvlink makes it.
//!
//! The phases, each a file: [`input`] finds the cubins in what is named on a command line; `object` reads one; `merge` puts
//! symbols and sections of all into a [`world`](World); `callgraph` finds what entries reach, and what that needs;
//! `shared` gives shared variables their addresses; `info` writes attributes; `reloc` resolves what needs no load address;
//! `write` lays the file out. `docs/link.md` says more.
#![deny(missing_docs)]

mod callgraph;
mod capsule;
mod diff;
mod dump;
mod field;
mod info;
pub mod input;
mod merge;
mod object;
mod reloc;
mod shared;
mod symbols;
mod texture;
mod unified;
mod world;
mod write;

pub use diff::{Difference, diff};

use arch::Target;
use capsule::Capsule;
use cubin::image::Tool;
use diag::{Diagnostic, Severity};
use std::time::{Duration, Instant};
use world::World;

/// How to link.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the output is for.
    pub target: Target,
    /// Who links: the note of the output. The toolkit is the newest that inputs may come from.
    pub tool: Tool,
    /// Make a file that links again instead of an executable one (`-r`).
    pub relocatable: bool,
    /// Keep resolved relocations as `.nv.resolvedrela.*` (`-preserve-relocs`).
    pub preserve_relocs: bool,
    /// The output is for debuggers (`-g`): shared variables are listed with their addresses.
    pub debug: bool,
    /// Leave sections with debug information out.
    pub strip_debug: bool,
    /// Which entries stay.
    pub keep: Keep,
    /// Say the target in messages about symbols (`-report-arch`).
    pub report_arch: bool,
    /// Do not say that a stack size is unknown.
    pub quiet_stack: bool,
    /// Keep the system's library also where nothing refers to it.
    pub keep_system: bool,
    /// Link code that was compiled as a patch for tools: every function must say so, and all stay.
    pub tools_patch: bool,
}

impl Options {
    /// True if an executable lists its shared variables.
    fn lists_shared(&self) -> bool {
        self.debug || self.preserve_relocs
    }
}

/// Which entries stay in an executable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    #[default]
    All,
    /// Those with one of these in their names (`-kernels-used`).
    Containing(Vec<String>),
    /// Those that host code refers to: names, in which `*` stands for anything.
    Referenced(Vec<String>),
}

impl Keep {
    fn keeps(&self, name: &str) -> bool {
        match self {
            Keep::All => true,
            Keep::Containing(list) => list.iter().any(|part| name.contains(part.as_str())),
            Keep::Referenced(list) => list.iter().any(|n| matches(n, name)),
        }
    }
}

/// True where a name fits a pattern, in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// A cubin to link.
#[derive(Clone, Copy, Debug)]
pub struct Cubin<'a> {
    /// What messages call it: `a.o`, `lib.a:m.o`.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// It is part of the system's library and left out if nothing refers to it.
    pub system: bool,
}

/// What an entry needs, for `-v`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Name of the entry.
    pub name: String,
    /// Registers a thread.
    pub registers: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of stack; of the entry alone where the depth of calls is unknown.
    pub stack: u32,
    /// Bytes of shared memory, with those that the system reserves.
    pub shared: u64,
    /// Bytes of constant banks, by number.
    pub constants: Vec<(u8, u64)>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Linked {
    /// The file.
    pub bytes: Vec<u8>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
    /// What entries need, in the vendor's order (the last entry first).
    pub usage: Vec<Usage>,
    /// Bytes of global variables.
    pub global_bytes: u64,
    /// Bytes of constant variables.
    pub constant_bytes: u64,
    /// The call graph as `-dump-callgraph` prints it, with names as they stand in the file.
    pub callgraph: String,
    /// Notes about registers that a call forces on an entry, as `-dump-callgraph` prints them.
    pub propagated: Vec<String>,
    /// What each phase took: merge, layout, relocate, finalize.
    pub times: Vec<(&'static str, Duration)>,
}

/// Links cubins.
///
/// # Errors
/// All that is wrong with symbols of one phase, or the first thing that is wrong with a file. A [`Severity::Fatal`] one is the
/// last: the vendor's tool ends with exit code 1 then, otherwise with 255.
pub fn link(inputs: &[Cubin<'_>], options: &Options) -> Result<Linked, Vec<Diagnostic>> {
    let mut clock = Clock::default();
    let mut objects = Vec::with_capacity(inputs.len());
    for input in inputs {
        objects.push(object::Object::read(input, options)?);
    }
    if !options.keep_system {
        drop_unused_system(&mut objects);
    }
    let capsules = capsule::objects(&objects)?;
    let mut world = World::new(objects, options);
    merge::merge(&mut world)?;
    clock.end("merge");
    let graph = callgraph::resolve(&mut world)?;
    let places = shared::place(&mut world, &graph)?;
    let slots = match options.relocatable {
        true => texture::Slots::default(),
        false => texture::Slots::lay_out(&mut world, &graph, capsules.is_some()),
    };
    let capsule = capsules.map(|list| Capsule::link(list, options)).transpose()?;
    clock.end("layout");
    let mut linked = write::write(&mut world, &graph, &Addresses { places, slots }, capsule, &mut clock)?;
    linked.callgraph = dump::callgraph(&world, &graph);
    linked.propagated = graph.propagated;
    linked.warnings = world.warnings;
    linked.times = clock.times;
    Ok(linked)
}

/// What layout gives to variables that are no part of a section of an input.
struct Addresses {
    places: shared::Places,
    slots: texture::Slots,
}

/// The system's library is linked only where another object refers to a function of it.
fn drop_unused_system(objects: &mut Vec<object::Object<'_>>) {
    if !objects.iter().any(|o| o.system) {
        return;
    }
    let mut missing = rustc_hash::FxHashSet::default();
    for s in objects.iter().filter(|o| !o.system).flat_map(|o| &o.symbols) {
        if s.shndx == 0 && s.bind != 0 {
            missing.insert(s.name);
        }
    }
    let serves = |o: &object::Object| o.symbols.iter().any(|s| s.shndx != 0 && s.bind != 0 && missing.contains(s.name));
    let any = objects.iter().any(|o| o.system && serves(o));
    objects.retain(|o| !o.system || any);
}

/// Times of phases.
struct Clock {
    start: Instant,
    times: Vec<(&'static str, Duration)>,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { start: Instant::now(), times: Vec::new() }
    }
}

impl Clock {
    /// A phase ends.
    fn end(&mut self, phase: &'static str) {
        let now = Instant::now();
        self.times.push((phase, now - self.start));
        self.start = now;
    }
}

fn fatal(message: impl Into<String>) -> Vec<Diagnostic> {
    vec![Diagnostic::new(Severity::Fatal, message)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_names() {
        for (pattern, name, fits) in [
            ("k", "k", true),
            ("k", "kk", false),
            ("_Z2ka*", "_Z2kaPi", true),
            ("_Z2ka*", "_Z2kbPi", false),
            ("a_*3hk2*", "a__Z3hk2Pi", true),
            ("a_*3hk2*", "a__Z3hk3Pi", false),
            ("a*b", "ab", true),
            ("a*b", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }
}
