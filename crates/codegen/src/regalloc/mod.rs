//! Register allocation, in SSA form: [`prepare`], [`spill`] until everything fits, [`assign`], [`frame`].
//!
//! Needs a verified function in SSA form; leaves one whose operands are all physical, without block parameters, copies
//! or stack accesses that depend on the frame. [`checker`] proves the assignment.

pub mod assign;
pub mod checker;
mod flood;
pub mod frame;
pub mod light;
pub mod parcopy;
pub mod prepare;
mod room;
pub mod scan;
pub mod shared;
pub mod spill;
pub mod undefined;

use crate::abi::Keeps;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::{Call, Func, Op, Vreg};
use diag::Diagnostic;
use sass::reg::{File, Reg};

/// Bias of the distance of an incoming stack argument until the size of the frame is known.
pub const INCOMING: i64 = 1 << 40;

/// Why registers could not be assigned.
#[derive(Clone, Debug)]
pub struct Unfit {
    /// What is said of it.
    pub why: Diagnostic,
    /// There are too few uniform registers, or they would have to be moved where threads may be apart: more general registers are no help.
    pub uniform: bool,
}

impl From<Diagnostic> for Unfit {
    fn from(why: Diagnostic) -> Unfit {
        Unfit { why, uniform: false }
    }
}

/// What an instruction of the result is, for the checker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Note {
    /// The next instruction of the input.
    Orig,
    /// Not the last of several instructions with one effect.
    Part,
    /// `dst = src`
    Move(Reg, Reg),
    /// The two registers exchange their values.
    Swap(Reg, Reg),
    /// Stores a value in a stack slot.
    Store(u32),
    /// Loads the value of a stack slot.
    Load(u32),
    /// Puts a predicate into a general register.
    Encode,
    /// Gets a predicate from a general register.
    Decode,
    /// Computes the constant value again.
    Again(Vreg),
    /// Computes the value again from what it was computed from.
    Anew(Vreg),
}

/// The registers that may be assigned.
#[derive(Clone, Copy, Debug)]
pub struct Banks {
    /// Bound of the general registers.
    pub gprs: u32,
    /// Bound of the uniform registers.
    pub uniform: u32,
    /// What the function keeps, where that is all but a few registers: it takes these, and so many below them that it saves.
    pub light: Option<(Keeps, u8)>,
}

impl Banks {
    /// Those that a function may have.
    pub fn of(f: &Func) -> Banks {
        // A function that is linked by name need not keep UR4 to UR35 for its callers, and must keep the others.
        let light = Some((f.keeps, f.borrows)).filter(|k| k.0.light() && !f.entry);
        Banks { gprs: f.max_gprs, uniform: if f.linkable && !f.entry { 36 } else { 61 }, light }
    }

    /// Which registers of a file may be assigned.
    pub fn usable(&self, file: File) -> [bool; 256] {
        let range = match file {
            File::Gpr => 0..self.gprs.min(253) as usize,
            File::Ugpr => 6..self.uniform as usize,
            File::Pred | File::Upred => 0..7,
            File::Bar => 0..0,
        };
        let mut out = [false; 256];
        range.for_each(|r| out[r] = true);
        if file == File::Gpr {
            out[1] = false;
            // The return address is a value that must have its place, too.
            if let Some((k, borrows)) = self.light {
                let first = (0..256u32).find(|&r| !k.keeps(r)).unwrap_or(0);
                (0..256u32).for_each(|r| {
                    let own = !k.keeps(r) && k.predicates().map(u32::from) != Some(r);
                    let borrowed = r < first && r + u32::from(borrows) >= first;
                    out[r as usize] &= own || borrowed || k.returns_by(r);
                });
            }
        }
        out
    }

    /// How many there are.
    pub fn count(&self, file: File) -> u32 {
        self.usable(file).iter().filter(|&&u| u).count() as u32
    }

    /// How many general registers a function keeps that may be assigned.
    pub fn kept(&self, keeps: Keeps) -> u32 {
        let usable = self.usable(File::Gpr);
        (0..256).filter(|&r| usable[r] && keeps.keeps(r as u32)).count() as u32
    }

    /// How many general registers survive a call of a function that keeps `kept` of them. A target that no argument register is left for takes one of them.
    pub fn across(kept: u32, call: &Call) -> u32 {
        kept - u32::from(!call.target.values().is_empty() && call.args.len() > 10)
    }
}

/// How many registers an instruction needs at once, given how many values live through it.
///
/// Vectors that are read and those that are written are counted apart, so that they can always be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Values read for the last time.
    pub dying: u32,
    /// Values defined.
    pub defs: u32,
    /// There are vectors.
    pub vectors: bool,
}

impl Demand {
    /// Registers beyond those that live through.
    pub fn extra(self) -> u32 {
        if self.vectors { self.dying + self.defs } else { self.dying.max(self.defs) }
    }
}

/// The largest register pressure of each file, and whether calls need values out of their way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pressure {
    /// By file.
    pub max: [u32; 4],
    /// More general registers live across some call than it keeps.
    pub across: bool,
    /// Some block has more general registers alive than its threads have there.
    pub tight: bool,
    /// Predicates live across some call.
    pub preds_across: u32,
}

/// True for an instruction whose vectors that it reads and those that it writes are counted apart: a warpgroup's product works in place.
pub(crate) fn apart(s: &sass::inst::Inst) -> bool {
    !s.registers().all_single() && prepare::has_vectors(s) && s.form().class != sass::latency::Class::Gmma
}

/// Measures the register pressure.
pub fn pressure(f: &Func, cfg: &Cfg, live: &Liveness) -> Pressure {
    pressures(f, cfg, live).0
}

/// Measures the register pressure, of every block and file apart, too.
pub fn pressures(f: &Func, cfg: &Cfg, live: &Liveness) -> (Pressure, Vec<[u32; 4]>) {
    pressures_in(f, cfg, live, &cfg.rpo)
}

/// As [`pressures`], of these blocks alone.
pub fn pressures_in(f: &Func, cfg: &Cfg, live: &Liveness, blocks: &[u32]) -> (Pressure, Vec<[u32; 4]>) {
    let mut by_block = vec![[0; 4]; f.blocks.len()];
    let banks = Banks::of(f);
    let mut out = Pressure::default();
    let owned = crate::registers::owned(f, cfg);
    let mut alive = vec![u32::MAX; f.vregs.len()];
    // Most calls keep the same registers.
    let mut kept: Option<(Keeps, u32, u32)> = None;
    for &b in blocks {
        let before = std::mem::take(&mut out.max);
        let own = owned.get(b as usize).copied();
        let banks = Banks { gprs: own.map_or(banks.gprs, |n| banks.gprs.min(n as u32)), ..banks };
        let block = &f.blocks[b as usize];
        let mut now = [0u32; 4];
        let mut enter = |v: Vreg, now: &mut [u32; 4]| {
            if alive[v.index()] != b {
                alive[v.index()] = b;
                now[f.vregs[v.index()] as usize] += 1;
            }
        };
        live.live_out[b as usize].iter().for_each(|&v| enter(v, &mut now));
        f.term_uses(&block.term, |v| enter(v, &mut now));
        for e in block.term.edges() {
            e.args.iter().for_each(|&v| enter(v, &mut now));
        }
        let note = |now: &[u32; 4], out: &mut Pressure| (0..4).for_each(|k| out.max[k] = out.max[k].max(now[k]));
        note(&now, &mut out);
        for inst in block.insts.iter().rev() {
            // By file: values defined, and read for the last time.
            let (mut defs, mut dying) = ([0u32; 4], [0u32; 4]);
            f.defs(&inst.op, |v| {
                let file = f.vregs[v.index()] as usize;
                defs[file] += 1;
                if alive[v.index()] == b {
                    alive[v.index()] = u32::MAX;
                    now[file] -= 1;
                }
            });
            let through = now;
            f.uses(&inst.op, |v| {
                if alive[v.index()] != b {
                    alive[v.index()] = b;
                    let file = f.vregs[v.index()] as usize;
                    now[file] += 1;
                    dying[file] += 1;
                }
            });
            let vectors = matches!(&inst.op, Op::Sass(s) if apart(s));
            for k in 0..4 {
                let extra = Demand { dying: dying[k], defs: defs[k], vectors }.extra();
                out.max[k] = out.max[k].max(through[k] + extra);
            }
            if let Op::Call(c) = &inst.op {
                let n = match kept {
                    Some((keeps, gprs, n)) if (keeps, gprs) == (c.keeps, banks.gprs) => n,
                    _ => banks.kept(c.keeps),
                };
                kept = Some((c.keeps, banks.gprs, n));
                out.across |= through[0] > Banks::across(n, c);
                if !c.keeps.light() {
                    out.preds_across = out.preds_across.max(through[File::Pred as usize]);
                }
                if let Keeps::But(_, n) = c.keeps {
                    out.max[0] = out.max[0].max((through[0] + u32::from(n)).min(banks.count(File::Gpr)));
                }
                let target = !c.target.values().is_empty() as u32;
                out.max[0] = out.max[0].max(through[0] + c.args.len() as u32 + 2 * target + 2);
            }
        }
        // Parameters nobody reads need a register, too.
        for &p in &block.params {
            if alive[p.index()] != b {
                now[f.vregs[p.index()] as usize] += 1;
            }
        }
        if b == 0 {
            for l in &f.live_in {
                if alive[l.0.index()] != b {
                    now[f.vregs[l.0.index()] as usize] += 1;
                }
            }
        }
        note(&now, &mut out);
        out.tight |= own.is_some_and(|n| out.max[0] as usize + SPARE >= n);
        by_block[b as usize] = out.max;
        (0..4).for_each(|k| out.max[k] = out.max[k].max(before[k]));
    }
    (out, by_block)
}

/// General registers that stay free where there are too few at most: for stack-to-stack copies on edges and for odd places of vectors ([`room`]).
const SPARE: usize = 3;

/// How many general registers may be assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tightness {
    /// Hardly more than values are alive at once: vectors must find places among the values that are there.
    Tight,
    /// A sixteenth more.
    Loose,
    /// All there are.
    Free,
    /// As `Loose`, but so many stay free in blocks with products of warpgroups, for what these read until they are done.
    Apart(u32),
}

impl Tightness {
    /// What may do where this does not.
    pub fn looser(self) -> Tightness {
        if self == Tightness::Tight { Tightness::Loose } else { Tightness::Free }
    }

    /// How many more registers than the `want` values that are alive at once there may be where they shall be few: with fewer, more is moved out
    /// of the way of vectors. Where all may be taken, what the linear scan needs for its holes.
    pub fn slack(self, want: u32) -> u32 {
        match self {
            Tightness::Tight => 1 + want / 32,
            Tightness::Loose | Tightness::Apart(_) => 4 + want / 16,
            Tightness::Free => 4 + want / 8,
        }
    }
}

/// What allocation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Values kept on the stack.
    pub spilled: u32,
    /// Bytes stored and loaded for them, counted once per instruction.
    pub spill_stores: u32,
    /// Loads of them, in bytes.
    pub spill_loads: u32,
    /// Values that were moved to put vectors together for want of registers, of which there are more; as often as loops around that are taken to run.
    pub moved: u64,
}

/// Allocates the registers of `f`.
///
/// # Errors
/// Where the function needs more registers than there may be, or `verify` finds a mistake of this pass.
pub fn run(f: &mut Func, verify: bool, tight: Tightness) -> Result<Stats, Unfit> {
    undefined::run(f);
    let cfg = prepare::run(f);
    let original = verify.then(|| f.clone());
    let notes: Vec<Vec<Note>> = f.blocks.iter().map(|b| vec![Note::Orig; b.insts.len()]).collect();
    let symbols = spill::Symbols::new(f, &cfg);
    rest(f, cfg, symbols, notes, original, tight)
}

/// Allocates the registers of a prepared function, whose values have these names; `original`: the function that the checker shall compare it with.
fn rest(
    f: &mut Func,
    mut cfg: Cfg,
    mut symbols: spill::Symbols,
    mut notes: Vec<Vec<Note>>,
    original: Option<Func>,
    tight: Tightness,
) -> Result<Stats, Unfit> {
    let mut banks = Banks::of(f);
    let fixed = f.frame.fixed;
    let mut live = Liveness::new(f, &cfg);
    let (mut need, by_block) = pressures(f, &cfg, &live);
    for file in [File::Ugpr, File::Upred] {
        if need.max[file as usize] > banks.count(file) {
            let what = if file == File::Ugpr { "uniform registers" } else { "uniform predicates" };
            let why = format!(
                "function '{}' needs {} {what} at once; there are {}",
                f.name,
                need.max[file as usize],
                banks.count(file)
            );
            return Err(Unfit { why: Diagnostic::error(why), uniform: true });
        }
    }
    let crowded = match tight {
        Tightness::Apart(more) => {
            let crowded = assign::products(f).any(|b| by_block[b][0] + more > banks.count(File::Gpr));
            if !crowded {
                let why = format!("'{}' has room for {more} registers more around its products", f.name);
                return Err(Diagnostic::error(why).into());
            }
            true
        }
        _ => false,
    };
    let mut stats = Stats::default();
    for file in [File::Pred, File::Gpr] {
        let across = if file == File::Pred { need.preds_across > 0 } else { need.across || need.tight || crowded };
        if file == File::Pred && (need.max[file as usize] > banks.count(file) || across) {
            spill::run(f, &cfg, &live, file, &banks, &[], &mut symbols, &mut notes, &mut stats)?;
            cfg = f.cfg();
            live = Liveness::new(f, &cfg);
            need = pressure(f, &cfg, &live);
        } else if file == File::Gpr && (need.max[file as usize] > banks.count(file) || across) {
            if flood::run(f, &cfg, &need) {
                banks = Banks::of(f);
            }
            shared::reserve(f, need.max[0], banks.count(file));
            let before = room::Before { cfg, live, symbols, notes, stats, tight };
            let spilled = room::run(f, before)?;
            return Ok(finish(f, spilled, original, fixed)?);
        }
    }
    let means = assign::Means { banks, pressure: need.max, tight, slot: None };
    stats.moved = assign::run(f, &cfg, &live, means, &mut notes)?.moved;
    Ok(finish(f, room::Assigned { cfg, symbols, notes, stats }, original, fixed)?)
}

/// Checks the registers that were assigned, and finds places for what is spilled; `fixed`: where the frame's part for that begins.
fn finish(f: &mut Func, made: room::Assigned, original: Option<Func>, fixed: u32) -> Result<Stats, Diagnostic> {
    let room::Assigned { cfg, symbols, notes, mut stats } = made;
    if let Some(original) = &original {
        checker::run(original, f, &cfg, &symbols, &notes)?;
    }
    if stats.spilled > 0 {
        shared::run(f, fixed, &notes);
    }
    frame::run(f, &mut stats);
    Ok(stats)
}

/// So many times as many values as there are registers live after others without being too many, as a rule.
const SUCCESSIVE: usize = 5;

/// True if there are fewer general registers than values that would lie in one at once at the least effort.
pub fn crowded(f: &Func) -> bool {
    let there = Banks::of(f).count(File::Gpr);
    let all = f.vregs.iter().filter(|&&file| file == File::Gpr).count();
    // Most functions have too few values altogether, of which most live after others: of 433 in public code one of the 37 that are crowded has 3.6 times as many
    // as there are registers, the others at least 5.7 times.
    all > SUCCESSIVE * there as usize
        && scan::spans::find(f, &f.cfg()).is_some_and(|s| s.most[File::Gpr as usize] > there)
}

/// As [`run`], in less time and with more moves, by [`scan`] where that will do; before anything else is done, where it will not, `whole` is called.
///
/// # Errors
/// Where `scan` gets stuck; and as [`run`].
pub fn run_quickly(f: &mut Func, verify: bool, whole: impl FnOnce(&mut Func)) -> Result<Stats, Unfit> {
    undefined::settle(f);
    let cfg = prepare::run(f);
    let mut spans = scan::spans::find(f, &cfg);
    let many = |s: &&scan::spans::Spans| s.most[File::Pred as usize] > Banks::of(f).count(File::Pred);
    let carried = spans.as_ref().filter(many).is_some_and(|s| s.fit || s.changed.is_empty());
    if spans.is_none() || !carried && spans.as_ref().is_some_and(|s| !s.fit) {
        whole(f);
        return run(f, verify, Tightness::Free);
    }
    // A routine for seldom cases is short and has few registers: its kernel is not compiled again for it.
    let short = f.keeps.light().then(|| f.clone());
    let original = verify.then(|| f.clone());
    let mut notes = Vec::new();
    if verify || carried {
        notes = f.blocks.iter().map(|b| vec![Note::Orig; b.insts.len()]).collect();
    }
    let mut symbols = None;
    if let Some(s) = spans.as_ref().filter(|_| carried) {
        let symbols = symbols.insert(spill::Symbols::new(f, &cfg));
        scan::carry::run(f, &cfg, &s.values, symbols, &mut notes);
        spans = scan::spans::find(f, &cfg);
    }
    let outcome = match spans {
        Some(s) => scan::run(f, &cfg, s, &mut notes),
        None => scan::Outcome::Unfit,
    };
    match outcome {
        scan::Outcome::Stuck => {
            if let Some(before) = short {
                *f = before;
                whole(f);
                return run(f, verify, Tightness::Free);
            }
            return Err(Diagnostic::error(format!("no place for a vector of '{}'", f.name)).into());
        }
        scan::Outcome::Unfit if !carried => {
            whole(f);
            return run(f, verify, Tightness::Free);
        }
        scan::Outcome::Unfit => {
            let symbols = symbols.unwrap_or_else(|| spill::Symbols::new(f, &cfg));
            return rest(f, cfg, symbols, notes, original, Tightness::Free);
        }
        scan::Outcome::Done => {}
    }
    if let Some(original) = &original {
        let symbols = symbols.unwrap_or_else(|| spill::Symbols::new(original, &cfg));
        checker::run(original, f, &cfg, &symbols, &notes)?;
    }
    let mut stats = Stats::default();
    frame::run(f, &mut stats);
    Ok(stats)
}
