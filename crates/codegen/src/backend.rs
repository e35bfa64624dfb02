//! The back end: a kernel in machine form, with the device functions it reaches, to code.

use crate::abi::Keeps;
use crate::callers::{self, Callers};
use crate::emit::{self, Code, Ready};
use crate::isel::chip;
use crate::mir::{Func, Op, text, verify};
use crate::opt::{self, LEAST_EFFORT, SOME_EFFORT};
use crate::regalloc::{self, Tightness, frame};
use crate::registers;
use crate::sched::branches::{self, uses_descriptor};
use crate::sched::{
    ahead, conditions, control, copies, dead, fewer, forward, halves, holds, home, postpass, prepass, share, sink,
};
use crate::uniform;
use crate::{guards, spins};

mod search;

use arch::Target;
use diag::Diagnostic;
use sass::lint;
use search::{Search, Trial};

/// What to compile.
#[derive(Clone, Debug, Default)]
pub struct BackendInput {
    /// The kernel, then the device functions it reaches; a function's number is its place here.
    pub functions: Vec<Func>,
    /// Numbers of the functions that are called through pointers: their offsets are words 1, 2, ... of the table at the start of bank 2.
    pub table: Vec<u32>,
    /// Registers that a thread of the kernel has at first, where it changes their number itself.
    pub registers: Option<u32>,
}

/// How.
#[derive(Clone, Debug)]
pub struct BackendOptions {
    /// Run every verifier after every pass.
    pub verify: bool,
    /// Keep the text form after this pass (`isel`, `uniform`, `prepass`, `regalloc`, `postpass`) in [`Code::dumps`].
    pub print_after: Option<String>,
    /// How much work goes into the code, as [`crate::Options::effort`].
    pub effort: u8,
    /// As [`crate::Options::register_level`].
    pub register_level: u8,
    /// As [`crate::Options::cancel`].
    pub cancel: Option<std::sync::Arc<std::sync::atomic::AtomicBool>>,
}

impl Default for BackendOptions {
    fn default() -> Self {
        BackendOptions {
            verify: false,
            print_after: None,
            effort: opt::MOST_EFFORT,
            register_level: crate::pipeline::REGISTER_LEVEL,
            cancel: None,
        }
    }
}

/// Why there is no code.
#[derive(Clone, Debug)]
pub enum Failure {
    /// Registers could not be assigned with so many values in uniform registers; with fewer there they may.
    Uniform,
    /// As `Uniform`, where what products are asked with was made early.
    Early,
    /// Registers could not be assigned with hardly more general ones than values are alive, or products of warpgroups wait for it; with more they may be,
    /// or need not.
    Tight,
    /// Registers could not be assigned in the order of the program, at the least effort; with more work they may.
    Hurried,
    /// What was said.
    Said(Vec<Diagnostic>),
}

impl From<Diagnostic> for Failure {
    fn from(d: Diagnostic) -> Failure {
        Failure::Said(vec![d])
    }
}

impl From<Vec<Diagnostic>> for Failure {
    fn from(list: Vec<Diagnostic>) -> Failure {
        Failure::Said(list)
    }
}

/// Compiles a kernel.
///
/// # Errors
/// Where something does not fit into the registers there may be; with `verify`, where a pass has made a mistake.
pub fn compile(input: &BackendInput, target: Target, options: &BackendOptions) -> Result<Code, Vec<Diagnostic>> {
    attempts(|room| attempt(input.clone(), target, options, room))
}

/// What an attempt may use.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// So many values may be in uniform registers at once that need not be there.
    pub uniform: u32,
    /// How few general registers are assigned.
    pub tight: Tightness,
    /// Registers are assigned as at more effort: with the least one they could not be.
    pub unhurried: bool,
    /// What products are asked with is made ready while others are waited for, in uniform registers.
    pub early: bool,
}

/// Calls `attempt` with fewer and fewer uniform registers until they can be assigned. It makes its input each time: nearly always
/// the first time is the last, and keeping a copy of a function would cost as much as a pass.
///
/// # Errors
/// What `attempt` says.
pub fn attempts<T>(mut attempt: impl FnMut(Room) -> Result<T, Failure>) -> Result<T, Vec<Diagnostic>> {
    let mut uniform = [uniform::MOST, uniform::MANY, uniform::SOME, uniform::FEW, 0].into_iter();
    let mut room =
        Room { uniform: uniform.next().unwrap_or(0), tight: Tightness::Tight, unhurried: false, early: true };
    loop {
        match attempt(room) {
            Ok(made) => return Ok(made),
            Err(Failure::Said(list)) => return Err(list),
            Err(Failure::Tight) if room.tight != Tightness::Free => room.tight = room.tight.looser(),
            Err(Failure::Hurried) if !room.unhurried => room.unhurried = true,
            Err(Failure::Early) => room.early = false,
            Err(_) => match uniform.next() {
                Some(n) => room.uniform = n,
                None => break,
            },
        }
    }
    Err(vec![Diagnostic::error("internal error: uniform registers could not be assigned")])
}

/// As [`compile`], with so much room.
///
/// # Errors
/// As [`compile`], and where fewer uniform registers or more general ones may do.
pub fn attempt(input: BackendInput, target: Target, options: &BackendOptions, room: Room) -> Result<Code, Failure> {
    let sm = target.sm;
    let Some(bank0) = arch::bank0(sm) else {
        return Err(Diagnostic::error(format!("no code can be made for sm_{sm} yet")).into());
    };
    let mut dumps = Vec::new();
    let mut spills = (0, 0);
    let mut shared_spills = None;
    let needs_descriptor =
        |f: &Func| f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Sass(s) if uses_descriptor(s)));
    let descriptor = input.functions.iter().any(needs_descriptor);
    let descriptor = if descriptor { bank0.descriptor } else { None };
    let mut ready = Vec::with_capacity(input.functions.len());
    let mut moving = None;
    let mut losses = Vec::new();
    let wants = |least: u8| options.effort >= least;
    // Routines for seldom cases stand last. Where nothing else is called, the kernel says where their registers are.
    let alone = input.functions.iter().skip(1).all(|f| f.keeps.light());
    let mut light = None;
    let least = options.effort == LEAST_EFFORT;
    let quickly = least && !room.unhurried;
    let tight = if wants(SOME_EFFORT) { room.tight } else { Tightness::Free };
    let mut after = |pass: &str, f: &Func, ssa: bool| -> Result<(), Diagnostic> {
        if options.print_after.as_deref() == Some(pass) {
            dumps.push((format!("{pass}: {}", f.name), text::print(f)));
        }
        if options.verify {
            let check = if ssa { verify::ssa(f) } else { verify::physical(f) };
            check.map_err(|m| Diagnostic::error(format!("internal error in '{}' after {pass}: {m}", f.name)))?;
        }
        Ok(())
    };
    // A routine for seldom cases shall take few registers, whatever time it takes.
    let schedule = |f: &mut Func| {
        let level = if f.keeps.seldom() { 0 } else { options.register_level };
        prepass::run(f, sm, prepass::Freedom::of(level));
        if room.uniform < uniform::MOST || home::needed(f) {
            home::run(f);
        }
    };
    let mut functions = Vec::with_capacity(input.functions.len());
    let mut early = false;
    for mut f in input.functions {
        if options.cancel.as_ref().is_some_and(|c| c.load(std::sync::atomic::Ordering::Relaxed)) {
            return Err(Diagnostic::new(diag::Severity::Fatal, "the compilation was cancelled").into());
        }
        if f.entry {
            f.at_entry = input.registers.unwrap_or(0);
        }
        after("isel", &f, true)?;
        // What leaves fewer values alive takes less time than spilling them does.
        let crowded = least && (room.unhurried || regalloc::crowded(&f));
        if wants(SOME_EFFORT) || crowded {
            forward::run(&mut f);
            halves::run(&mut f);
            dead::run(&mut f);
            guards::run(&mut f);
        }
        after("guards", &f, true)?;
        if wants(opt::MOST_EFFORT) {
            ahead::run(&mut f, sm);
        }
        after("ahead", &f, true)?;
        // Uniform registers cannot be moved everywhere: where they do not fit, there shall be less of them.
        let moved = wants(SOME_EFFORT) && room.uniform > 0 && uniform::run(&mut f, sm, room.uniform);
        if moved {
            // Moves to uniform registers have become copies.
            forward::run(&mut f);
            dead::run(&mut f);
        }
        after("uniform", &f, true)?;
        if wants(SOME_EFFORT) || crowded {
            conditions::run(&mut f);
            sink::run(&mut f);
            share::run(&mut f);
            early |= spins::run(&mut f, room.early);
        }
        after("sink", &f, true)?;
        // Where this makes values spill, registers that wait may be the better choice.
        let mut plain = None;
        if wants(SOME_EFFORT) && f.entry && alone && holds::wanted(&f) {
            plain = Some(f.clone());
            holds::run(&mut f);
        }
        after("holds", &f, true)?;
        if wants(SOME_EFFORT) {
            schedule(&mut f);
        } else if crowded {
            fewer::run(&mut f, sm);
            home::run(&mut f);
        }
        after("prepass", &f, true)?;
        functions.push((f, plain, crowded));
    }
    // How many registers the program's own functions take is known now.
    functions.iter_mut().for_each(|(f, ..)| regalloc::light::fit(f, tight));
    if functions.len() > 1 {
        let keeps: Vec<Keeps> = functions.iter().map(|(f, ..)| f.keeps).collect();
        regalloc::light::tell(&mut functions[0].0, &keeps);
    }
    let mut callers = (functions.len() > 1).then(|| {
        let calls: Vec<Vec<u32>> = functions.iter().map(|(f, ..)| callers::called(f)).collect();
        let mut known: Vec<bool> = functions.iter().map(|(f, ..)| !f.linkable).collect();
        for &n in &input.table {
            known[n as usize] = false;
        }
        Callers::new(&calls, |n| known[n])
    });
    let order = callers.as_ref().map_or_else(|| vec![0], |c| c.order().to_vec());
    let mut functions: Vec<_> = functions.into_iter().map(Some).collect();
    for n in order {
        let Some((mut f, plain, crowded)) = functions[n].take() else { continue };
        if let Some(callers) = &callers {
            f.vacant = callers.vacant(n);
        }
        if !f.entry
            && let Some(first) = light
        {
            regalloc::light::place(&mut f, first);
        }
        let choose = |f: &mut Func, to: &mut Option<regalloc::light::Place>| {
            if f.entry && alone {
                *to = regalloc::light::choose(f);
            }
        };
        let once = if f.linkable { None } else { descriptor };
        let polish = wants(SOME_EFFORT) || crowded;
        let search = Search {
            sm,
            verify: options.verify,
            tight,
            quickly,
            polish,
            uniform: room.uniform,
            stack: bank0.stack,
            once,
        };
        let mut trial = search.run(f, &mut |f| choose(f, &mut light), &mut after);
        if let Some(mut f) = plain
            && trial
                .as_ref()
                .map_or_else(|e| !matches!(e, Failure::Uniform), |t| t.stats.spilled > 0 || !t.lost.is_empty())
        {
            schedule(&mut f);
            after("prepass", &f, true)?;
            let mut place = None;
            let other = search.run(f, &mut |f| choose(f, &mut place), &mut after);
            if other.as_ref().is_ok_and(|o| trial.as_ref().map_or(true, |t| o.replaces(t))) {
                (trial, light) = (other, place);
            }
        }
        let why = |e| if early && matches!(e, Failure::Uniform) { Failure::Early } else { e };
        let Trial { mut f, stats, lost } = trial.map_err(why)?;
        if f.entry {
            shared_spills = f.shared_spills;
        }
        spills.0 += stats.spill_loads;
        spills.1 += stats.spill_stores;
        losses.extend(lost);
        if f.linkable
            && let Some(at) = descriptor
        {
            frame::reload_descriptor(&mut f, at);
        }
        if wants(SOME_EFFORT) {
            let mut scheduler = postpass::Scheduler::new(sm, postpass::Slots::of(&f), f.lanes_tell);
            f.blocks.iter_mut().for_each(|b| scheduler.block(&mut b.insts));
        }
        copies::run(&mut f);
        after("postpass", &f, false)?;
        if let Some(callers) = &mut callers {
            callers.assigned(n, &f);
        }
        if f.entry && input.registers.is_some() {
            moving = Some(f.clone());
        }
        let (name, frame, grows, returns_by) = (f.name.clone(), f.frame.size, f.frame.grows, f.keeps.return_pair());
        let (linkable, mut refs) = (f.linkable, std::mem::take(&mut f.refs));
        let mut blocks = branches::run(f);
        let calls = emit::expand_calls(&mut blocks, descriptor, &mut refs, sm);
        for b in &mut blocks {
            chip::on_chip(&mut b.insts, sm)?;
        }
        match options.effort {
            LEAST_EFFORT => control::plain::run(&mut blocks, sm),
            _ => control::run(&mut blocks, sm),
        }
        ready.push((n, Ready { name, frame, grows, blocks, calls, returns_by, linkable, refs }));
    }
    ready.sort_unstable_by_key(|r| r.0);
    let ready = ready.into_iter().map(|r| r.1).collect();
    let mut code = emit::run(ready, &input.table, sm)?;
    if options.verify {
        let hints = lint::CfgHints {
            indirect: code
                .indirect_branches
                .iter()
                .map(|(at, to)| (*at as u64, to.iter().map(|&t| t as u64).collect()))
                .collect(),
            ..lint::CfgHints::default()
        };
        if let Some(h) = lint::check(&code.words, sm, &hints).first() {
            let name = &code.functions[0].name;
            return Err(Diagnostic::error(format!("internal error: hazard in the code of '{name}': {h}")).into());
        }
    }
    if let (Some(f), Some(n)) = (moving, input.registers) {
        let others = if alone { 0 } else { code.gprs_used };
        code.misfit = registers::misfit(&f, n, others);
    }
    code.dumps = dumps;
    code.losses = losses;
    code.spill_bytes = spills;
    code.shared_spills = shared_spills;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::{self, Moving, Watch};
    use ptx::module::FuncId;

    /// Where few registers do not do, a few more are tried before all.
    #[test]
    fn registers_are_given_step_by_step() {
        let mut seen = Vec::new();
        let end: Result<(), _> = attempts(|room| {
            seen.push(room.tight);
            Err(if room.tight == Tightness::Free { Failure::Said(Vec::new()) } else { Failure::Tight })
        });
        assert!(end.is_err());
        assert_eq!(seen, [Tightness::Tight, Tightness::Loose, Tightness::Free]);
    }

    /// At the least effort the kernel is not compiled again because a routine for division has no place for a vector.
    #[test]
    fn short_routines_do_not_hold_up_their_kernels() {
        let text = std::fs::read_to_string(testkit::root().join("tests/kernels/cuda/doubles.ptx")).unwrap();
        let (m, _) = ptx::parse(&text);
        let target = Target::parse("sm_90").unwrap();
        let options = crate::Options { target, effort: LEAST_EFFORT, ..crate::Options::default() };
        let layout = crate::layout::Layout::new(&m, 90);
        let how = BackendOptions { verify: true, effort: LEAST_EFFORT, ..BackendOptions::default() };
        let room = Room { uniform: uniform::MOST, tight: Tightness::Tight, unhurried: false, early: true };
        let mut short = 0;
        for (n, _) in m.funcs.iter().enumerate().filter(|f| f.1.kind == ptx::module::FuncKind::Entry) {
            let (moving, mut watch) = (Moving { kept: false, calls: true }, Watch::new(&options));
            let selected = pipeline::select(&m, FuncId(n as u32), &layout, &options, 253, moving, &mut watch).unwrap();
            short += selected.funcs.iter().filter(|f| f.keeps.light()).count();
            let input =
                BackendInput { functions: selected.funcs, table: selected.program.table.clone(), registers: None };
            attempt(input, target, &how, room).unwrap();
        }
        assert!(short > 0);
    }
}
