//! Finds a launch of an entry that the PTX interpreter ends well, and asks the vendor's machine code and ours what they leave.

use super::flow::{Flow, Kind, flow};
use super::makeup::{Guess, blocks, guesses, launch};
use crate::conformance::compile;
use ptx::module::{FuncId, Module};
use sim::{Config, Fault, FaultKind, Launch, Outcome};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Warp instructions of a run of the interpreter, and how many times as many machine code may take.
const STEPS: u64 = 1_500_000;
/// The same of the first launch that is tried.
const FIRST: u64 = 6_000_000;
const LONGER: u64 = 16;
/// How long launches of an entry are sought.
const PATIENCE: Duration = Duration::from_secs(15);

/// How many guesses are made again with larger memory.
const LARGER: usize = 3;

/// The compilers.
pub struct Tools {
    pub vendor: PathBuf,
    pub ours: PathBuf,
    pub arch: Option<String>,
    /// Further options for ours.
    pub further: Vec<String>,
}

/// The machine code of a file, made when it is first wanted.
pub struct Compiled<'a> {
    file: &'a Path,
    tools: &'a Tools,
    arch: String,
    out: PathBuf,
    made: [Option<Result<Vec<u8>, String>>; 4],
}

/// Who made code, and with what.
#[derive(Clone, Copy, PartialEq)]
pub enum Who {
    Vendor,
    Ours,
    OursContracted,
    VendorContracted,
}

impl<'a> Compiled<'a> {
    pub fn new(file: &'a Path, m: &Module, tools: &'a Tools, thread: usize) -> Compiled<'a> {
        // What is older than sm_90 runs there; what is newer does not.
        let target = m.target.first().map_or("sm_90", String::as_str);
        let number = |t: &str| t.trim_start_matches("sm_").trim_end_matches(|c: char| c.is_alphabetic()).parse::<u32>();
        let newer = number(target).is_ok_and(|n| n > 90);
        let own = if newer || target.ends_with('a') { target } else { "sm_90" };
        let arch = tools.arch.clone().unwrap_or_else(|| own.to_string());
        let out = std::env::temp_dir().join(format!("sassafras-launches-{}-{thread}.cubin", std::process::id()));
        Compiled { file, tools, arch, out, made: [const { None }; 4] }
    }

    fn get(&mut self, who: Who) -> Result<&[u8], String> {
        let further: Vec<&str> = self.tools.further.iter().map(String::as_str).collect();
        let (tool, options) = match who {
            Who::Vendor => (&self.tools.vendor, vec!["-fmad=false"]),
            Who::Ours => (&self.tools.ours, [vec!["-fmad=false"], further].concat()),
            Who::OursContracted => (&self.tools.ours, [vec!["-fmad=true"], further].concat()),
            Who::VendorContracted => (&self.tools.vendor, vec!["-fmad=true"]),
        };
        let slot = &mut self.made[who as usize];
        let made = slot.get_or_insert_with(|| compile(tool, self.file, &self.arch, &options, &self.out));
        made.as_deref().map_err(Clone::clone)
    }
}

impl Drop for Compiled<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.out);
    }
}

/// What came of an entry.
pub enum Verdict {
    /// All witnesses leave the same bytes.
    Same { idle: bool, how: String },
    /// They are near, where PTX leaves bits open; `alike` where both compilers' code leaves the same.
    Near { alike: bool, how: String },
    /// Our code is wrong: it does what neither the interpreter nor the vendor's code does.
    Ours(String),
    /// The vendor's code does what neither of the others does.
    Vendor(String),
    /// Both compilers' code does the same, or the same kind of thing, and the interpreter another.
    Interpreter(String),
    /// No two agree.
    All(String),
    /// No launch, or no code.
    Skipped { why: String, more: String },
}

impl Verdict {
    /// The word for our code being wrong.
    pub const OURS: &str = "OURS";

    pub fn skipped(why: &str, more: String) -> Verdict {
        Verdict::Skipped { why: why.into(), more }
    }

    /// One word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Same { idle: false, .. } => "same",
            Verdict::Same { .. } => "idle",
            Verdict::Near { alike: true, .. } => "alike",
            Verdict::Near { .. } => "near",
            Verdict::Ours(_) => Verdict::OURS,
            Verdict::Vendor(_) => "VENDOR",
            Verdict::Interpreter(_) => "INTERPRETER",
            Verdict::All(_) => "ALL-DIFFER",
            Verdict::Skipped { .. } => "skipped",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = match self {
            Verdict::Same { how, .. } | Verdict::Near { how, .. } => how.clone(),
            Verdict::Ours(t) | Verdict::Vendor(t) | Verdict::Interpreter(t) | Verdict::All(t) => t.clone(),
            Verdict::Skipped { why, more } => format!("{why}: {more}"),
        };
        write!(f, "{} {}", self.word(), more.lines().next().unwrap_or_default())
    }
}

/// Launches an entry; gives the launch, too, if there is one.
pub fn entry(m: &Module, id: FuncId, compiled: &mut Compiled<'_>, seed: u64) -> (Verdict, Option<Launch>) {
    let flow = flow(m, id);
    if flow.clock {
        return (Verdict::skipped("reads a clock or the like", String::new()), None);
    }
    let found = match find(m, id, &flow, seed) {
        Ok(found) => found,
        Err(verdict) => return (verdict, None),
    };
    let Guess { ints, content, grid, .. } = found.guess;
    let lax = if found.lax { " lax" } else { "" };
    let how = format!("{ints:?} {content:?} grid {grid} block {:?}{lax}", found.launch.block);
    let verdict = match judge(&found, &flow, compiled) {
        Ok(Verdict::Same { .. }) => Verdict::Same { idle: found.idle, how },
        Ok(Verdict::Near { alike, .. }) => Verdict::Near { alike, how },
        // Who differs may be right: a kernel whose threads race leaves what its warps' turns make of it.
        Ok(v) | Err(v) => match unordered(m, &found) && !beyond_its_stack(&v) {
            true => Verdict::skipped("depends on the order of warps", v.to_string()),
            false if found.lax => Verdict::skipped("differs, but was not checked", v.to_string()),
            false => v,
        },
    };
    (verdict, Some(found.launch))
}

/// How a run is watched. Compilers let registers be read that nobody wrote where nothing comes of it, and whether a made-up launch
/// is free of races nobody knows: what is `lax` is launched without these checks, in the same way on every engine.
fn config(steps: u64, lax: bool) -> Config {
    Config { max_instructions: steps, threads: 1, check_uninitialized: !lax, check_races: !lax, ..Config::default() }
}

/// A launch that the interpreter ends well.
struct Found {
    launch: Launch,
    left: Outcome,
    /// Memory is as it was.
    idle: bool,
    lax: bool,
    guess: Guess,
}

/// The first launch that ends well and changes memory; or else the first that ends well.
fn find(m: &Module, id: FuncId, flow: &Flow, seed: u64) -> Result<Found, Verdict> {
    let begin = Instant::now();
    let (mut idle, mut doubtful, mut fault) = (None, None, None);
    // The first guess may be right, and its kernel a long one. Whoever waits for a copy of another size waits for ever.
    let mut steps = FIRST;
    let further = if flow.maps.is_empty() { STEPS } else { STEPS / 5 };
    let mut guesses: VecDeque<Guess> = guesses(flow, blocks(&m.funcs[id.index()], flow.dims[0]).len()).into();
    let mut large = 0;
    while let Some(guess) = guesses.pop_front() {
        if begin.elapsed() > PATIENCE {
            break;
        }
        let launch = match launch(m, id, flow, guess, seed) {
            Ok(launch) => launch,
            Err(e) => return Err(Verdict::skipped("cannot be made up", e)),
        };
        let strict = sim::run_ptx(m, &launch, &config(steps, false));
        let again = if std::mem::replace(&mut steps, further) == FIRST { FIRST } else { further };
        let blamed = strict.as_ref().err().filter(|f| matches!(f.kind, FaultKind::Uninitialized | FaultKind::Race));
        // Compilers let registers be read that nobody wrote; memory rather tells that the guess is a bad one.
        let harmless = blamed.is_none_or(|f| f.kind == FaultKind::Uninitialized && f.message.contains("operand"));
        let lax = blamed.is_some();
        if lax && !harmless && doubtful.is_some() {
            continue;
        }
        let left = if lax { sim::run_ptx(m, &launch, &config(again, true)) } else { strict };
        match left {
            Ok(left) => {
                let found = Found { idle: !changed(&launch, &left), launch, left, lax, guess };
                match (found.idle, harmless) {
                    (false, true) => return Ok(found),
                    (false, false) => doubtful = Some(found),
                    (true, _) => idle = idle.or(Some(found)),
                }
            }
            // The first says most: its numbers are the likeliest.
            Err(f) if f.kind == FaultKind::Unsupported => return Err(told(&f)),
            Err(f) => {
                if f.kind == FaultKind::OutOfBounds && f.message.contains("global") && !guess.large && large < LARGER {
                    large += 1;
                    guesses.push_front(Guess { large: true, ..guess });
                }
                fault = fault.or(Some(f));
            }
        }
    }
    let left = fault.map_or_else(|| Verdict::skipped("too long", String::new()), |f| told(&f));
    doubtful.or(idle).ok_or(left)
}

/// True if our code alone reads or writes beyond its stack: that is no matter of order.
fn beyond_its_stack(v: &Verdict) -> bool {
    matches!(v, Verdict::Ours(told) if told.contains("local address"))
}

/// Whether another order of the warps leaves other memory.
fn unordered(m: &Module, found: &Found) -> bool {
    [1, 13, 100].into_iter().any(|turn| {
        let config = Config { turn, ..config(STEPS * LONGER, true) };
        sim::run_ptx(m, &found.launch, &config).is_ok_and(|left| left.buffers != found.left.buffers)
    })
}

fn told(f: &Fault) -> Verdict {
    Verdict::skipped(f.kind.name(), f.to_string())
}

/// Whether a run has left other memory than it found.
fn changed(launch: &Launch, left: &Outcome) -> bool {
    // In memory that holds addresses these are written before the launch.
    let before = launch.args.iter().filter_map(|a| match a {
        sim::Arg::Buffer { data, .. } => Some(data),
        _ => None,
    });
    let held: Vec<usize> = launch.pointers.iter().map(|p| p.place).collect();
    let memory = launch.memory.iter().enumerate();
    let memory = memory.map(|(i, x)| (&x.data, held.contains(&(launch.args.len() + i))));
    let args = before.map(|d| (d, false));
    args.chain(memory).zip(&left.buffers).any(|((b, held), a)| !held && b != a) || !left.printed.is_empty()
}

/// Compares what the three leave.
fn judge(found: &Found, flow: &Flow, compiled: &mut Compiled<'_>) -> Result<Verdict, Verdict> {
    let (launch, want) = (&found.launch, &found.left);
    let config = config(STEPS * LONGER, found.lax);
    let mut code = |who: Who| compiled.get(who).map(<[u8]>::to_vec);
    let theirs = code(Who::Vendor).map_err(|e| Verdict::skipped("the vendor's ptxas refuses", e))?;
    let ours = code(Who::Ours).map_err(|e| match e.contains("not supported") {
        true => Verdict::skipped("our ptxas refuses", e),
        false => Verdict::Ours(format!("does not compile: {e}")),
    })?;
    let run = |cubin: &[u8]| sim::run_sass(cubin, launch, &config);
    let (theirs, mine) = (run(&theirs), run(&ours));
    let unknown = |f: &Fault| f.kind == FaultKind::Unsupported;
    let (theirs, mine) = match (theirs, mine) {
        (Err(v), _) if unknown(&v) => return Err(told(&v)),
        (_, Err(o)) if unknown(&o) => return Err(told(&o)),
        (Err(v), Err(o)) => return Err(Verdict::Interpreter(format!("theirs: {v}; ours: {o}"))),
        (Ok(_), Err(o)) => return Err(Verdict::Ours(o.to_string())),
        (Err(v), Ok(o)) => return Err(Verdict::Vendor(format!("{v}; ours: {}", say(want, &o)))),
        (Ok(v), Ok(o)) => (v, o),
    };
    let loose = |a: &Outcome, b: &Outcome| a.buffers.iter().zip(&b.buffers).all(|(a, b)| loosely(a, b, &flow.floats));
    // The bits of a NaN are nobody's.
    let same =
        |a: &Outcome, b: &Outcome| a.buffers.iter().zip(&b.buffers).all(|(a, b)| a == b || nans(a, b, &flow.floats));
    let near = |a: &Outcome, b: &Outcome| flow.approximate && loose(a, b);
    let (v, o, alike) = (same(want, &theirs), same(want, &mine), same(&theirs, &mine));
    let exact = match (v, o, alike) {
        (true, true, _) => Verdict::Same { idle: false, how: String::new() },
        (_, _, true) if flow.approximate => Verdict::Near { alike: true, how: String::new() },
        (_, _, true) => return Err(Verdict::Interpreter(say(want, &mine))),
        _ if near(want, &mine) && near(want, &theirs) => Verdict::Near { alike: false, how: String::new() },
        (true, false, _) => return Err(Verdict::Ours(say(want, &mine))),
        (false, true, _) => return Err(Verdict::Vendor(say(want, &theirs))),
        _ if near(want, &theirs) => return Err(Verdict::Ours(say(want, &mine))),
        _ if near(want, &mine) => return Err(Verdict::Vendor(say(want, &theirs))),
        _ => return Err(Verdict::All(format!("theirs: {}; ours: {}", say(want, &theirs), say(want, &mine)))),
    };
    // Fused operations round once: PTX permits it, and the interpreter does not do it.
    let contracted = code(Who::OursContracted).map_err(|e| Verdict::Ours(format!("does not compile: {e}")))?;
    if contracted == ours {
        return Ok(exact);
    }
    let fused = run(&contracted).map_err(|f| Verdict::Ours(format!("contracted: {f}")))?;
    if loose(want, &fused) {
        return Ok(exact);
    }
    let theirs = code(Who::VendorContracted).map_err(|e| Verdict::skipped("the vendor's ptxas refuses", e))?;
    match run(&theirs) {
        Ok(t) if loose(&t, &fused) => Ok(exact),
        // A sum that cancels is another one altogether.
        Ok(t) if !loose(want, &t) => Ok(exact),
        Ok(_) => Err(Verdict::Ours(format!("contracted: {}", say(want, &fused)))),
        Err(v) => Err(Verdict::Vendor(format!("contracted: {v}"))),
    }
}

/// Where two outcomes differ first, and in how many words.
fn say(want: &Outcome, got: &Outcome) -> String {
    for (n, (w, g)) in want.buffers.iter().zip(&got.buffers).enumerate() {
        let words = || w.chunks(4).zip(g.chunks(4)).enumerate().filter(|(_, (x, y))| x != y);
        if let Some((at, (x, y))) = words().next() {
            let hex = |b: &[u8]| b.iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
            return format!("buffer {n} differs in {} words, first {at}: {} not {}", words().count(), hex(x), hex(y));
        }
    }
    "the same".into()
}

/// Whether all numbers are near, read as one of these kinds or another.
fn loosely(a: &[u8], b: &[u8], floats: &BTreeSet<Kind>) -> bool {
    let f32s = |b: &[u8]| b.chunks_exact(4).map(|c| f64::from(f32::from_le_bytes(c.try_into().unwrap()))).collect();
    let f64s = |b: &[u8]| b.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect();
    let halves = |b: &[u8]| b.chunks_exact(2).map(|c| u16::from_le_bytes(c.try_into().unwrap())).collect::<Vec<u16>>();
    let bf16s = |b: &[u8]| halves(b).into_iter().map(|h| f64::from(f32::from_bits(u32::from(h) << 16))).collect();
    let f16s = |b: &[u8]| halves(b).into_iter().map(half).collect();
    type Read<'r> = &'r dyn Fn(&[u8]) -> Vec<f64>;
    let kinds: [(Kind, Read<'_>); 4] =
        [(Kind::F32, &f32s), (Kind::F64, &f64s), (Kind::BF16, &bf16s), (Kind::F16, &f16s)];
    let bytes = || a.iter().zip(b).filter(|(x, y)| x != y);
    a == b
        || kinds.iter().any(|(kind, read)| floats.contains(kind) && all_near(&read(a), &read(b)))
        // Quantized: a few that are one off.
        || bytes().all(|(x, y)| x.abs_diff(*y) == 1) && bytes().count() * 50 < a.len()
}

/// Whether numbers of one of these kinds differ in the bits of NaNs alone.
fn nans(a: &[u8], b: &[u8], floats: &BTreeSet<Kind>) -> bool {
    let wide = |x: &[u8]| x.try_into().is_ok_and(|x| f64::from_le_bytes(x).is_nan());
    let single = |x: &[u8]| x.try_into().is_ok_and(|x| f32::from_le_bytes(x).is_nan());
    let alike = |bytes: usize, nan: &dyn Fn(&[u8]) -> bool| {
        a.len() == b.len() && a.chunks(bytes).zip(b.chunks(bytes)).all(|(x, y)| x == y || nan(x) && nan(y))
    };
    floats.contains(&Kind::F64) && alike(8, &wide) || floats.contains(&Kind::F32) && alike(4, &single)
}

fn half(h: u16) -> f64 {
    let (sign, exponent, fraction) = (h >> 15, i32::from(h >> 10 & 31), f64::from(h & 1023));
    let size = match exponent {
        31 if h & 1023 != 0 => f64::NAN,
        31 => f64::INFINITY,
        0 => fraction * 2f64.powi(-24),
        e => (1.0 + fraction / 1024.0) * 2f64.powi(e - 15),
    };
    if sign == 1 { -size } else { size }
}

fn all_near(a: &[f64], b: &[f64]) -> bool {
    // Where terms cancel, what is left is as wrong as they were.
    let changed = || a.iter().zip(b).filter(|(x, y)| x != y && !(x.is_nan() && y.is_nan()));
    let size = changed().flat_map(|(x, y)| [x.abs(), y.abs()]).filter(|x| x.is_finite()).fold(0.0, f64::max);
    // Numbers that are no such numbers are mostly tiny or huge.
    (size == 0.0 || (1e-12..1e12).contains(&size))
        && changed()
            .all(|(x, y)| x.is_finite() && y.is_finite() && (x - y).abs() <= 0.02 * x.abs().max(y.abs()) + 0.002 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_near_in_one_kind_at_least() {
        let bytes = |list: &[f32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let floats = BTreeSet::from([Kind::F32]);
        assert!(loosely(&bytes(&[1.0, 2.0]), &bytes(&[1.0001, 2.0]), &floats));
        assert!(!loosely(&bytes(&[1.0, 2.0]), &bytes(&[1.5, 2.0]), &floats));
        assert!(!loosely(&bytes(&[1.0, 2.0]), &bytes(&[1.0001, 2.0]), &BTreeSet::new()));
        assert!(!loosely(&[1, 0, 0, 0], &[9, 0, 0, 0], &floats));
        assert_eq!([half(0x3c00), half(0xc000), half(0x0001)], [1.0, -2.0, 2f64.powi(-24)]);
    }
}
