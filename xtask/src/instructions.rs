//! `cargo xtask conformance --instructions`: instructions of the PTX table one by one, computed by three witnesses.
//!
//! Every form that computes something of registers becomes kernels of one such instruction each, with every combination
//! of its modifiers (or a sample of them). 256 threads give it values at the edges of every format. The PTX interpreter,
//! the vendor's machine code and ours must leave the same bytes; an approximate function may differ in the interpreter,
//! as PTX leaves its last bits open, but not between the two machine codes.

use crate::{oracle, root, test};
use ptx::isa::{Count, Form, Mod, Op, OperandForm, OperandKind as K, OperandType, Slot, Values};
use ptx::types::ScalarType as T;
use sim::{Arg, Config, Launch};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use testkit::Random;
use values::{Given, Source, values};

mod values;

/// The chip that is asked where none is named.
const CHIP: &str = "sm_90a";
const THREADS: u32 = 256;
/// Combinations of modifiers that are tried of a form.
const COMBINATIONS: usize = 128;
/// Kernels that the vendor's tool gets at a time.
const BATCH: usize = 40;

/// Instructions whose results say something of the machine rather than of their operands, or that are defined for
/// certain addresses only; the fragments of `wmma` have no stated layout.
const OPAQUE: [Op; 10] = [
    Op::Createpolicy,
    Op::Stacksave,
    Op::Alloca,
    Op::Mbarrier,
    Op::Cvta,
    Op::Mapa,
    Op::Getctarank,
    Op::Istypep,
    Op::Activemask,
    Op::Wmma,
];

/// A register of an instruction.
#[derive(Clone, Debug)]
struct Reg {
    name: String,
    ty: T,
    /// The values that PTX gives the operand a meaning for.
    domain: Domain,
    /// Where its value comes from, if it is an input.
    from: Source,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Domain {
    All,
    /// A position or length in bits.
    Below(u64),
    /// A divisor.
    NotZero,
}

impl Reg {
    /// Bits of the register; 1 is a predicate.
    fn bits(&self) -> u32 {
        if self.ty == T::Pred { 1 } else { self.ty.bits().max(16).next_power_of_two() }
    }
}

/// One instruction with the registers that it reads and writes.
#[derive(Clone, Debug)]
struct Case {
    op: Op,
    text: String,
    inputs: Vec<Reg>,
    outputs: Vec<Reg>,
    /// Operands made so far.
    operands: usize,
    carry: bool,
    approximate: bool,
}

/// Where the vendor's code and the PTX document differ, and why; ours then must be as one of them.
fn known(case: &Case) -> Option<&'static str> {
    use Op::*;
    let has = |words: &[&str]| words.iter().all(|w| case.text.contains(w));
    match case.op {
        // The document has the second operation, and saturation, on 32 bits.
        Vadd | Vsub | Vabsdiff | Vmin | Vmax | Vshl | Vshr | Vset | Vmad => {
            Some("wider intermediates than the document has")
        }
        Cvt if has(&[".ftz", ".f16.f32"]) && (has(&[".rm"]) || has(&[".rp"])) => Some("ptxas does not flush"),
        Cvt if has(&[".satfinite.tf32"]) => Some("ptxas makes some NaNs infinite"),
        _ => None,
    }
}

/// What came of a case.
enum Verdict {
    Agree,
    /// A known difference.
    Known(&'static str),
    /// Our compiler refuses it; the other two agree.
    NotOurs(String),
    /// A simulator does not run it.
    NotRun(String),
    Disagree(String),
}

/// Runs the forms of the opcodes and prints the table. `args`: opcodes with commas between (all where none are named),
/// `--given threads|constants|parameters|mixed|signed`, `--chip sm_90a`.
///
/// # Errors
/// A wrong argument, a tool that is missing, or the number of disagreements.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut opcodes, mut given, mut chip) = ("", Given::Threads, CHIP);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--given" => given = args.next().and_then(|g| Given::parse(g)).ok_or(Given::USAGE)?,
            "--chip" => chip = args.next().ok_or("--chip needs a name, like sm_75")?,
            name => opcodes = name,
        }
    }
    let vendor = oracle::tool("ptxas")?;
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let ours = target.join("release/ptxas");
    let wanted: Vec<&str> = opcodes.split(',').filter(|o| !o.is_empty()).collect();
    let mut random = Random(1);
    let mut cases = Vec::new();
    let known = arch::Target::parse(chip).ok_or("no such target")?;
    let tried = |o: &Op| !OPAQUE.contains(o) && (wanted.is_empty() || wanted.contains(&o.name()));
    for op in Op::ALL.into_iter().filter(tried) {
        for form in op.forms().iter().filter(|f| f.since.has(known)) {
            cases.extend(combinations(form, chip, &mut random));
        }
    }
    cases.sort_by(|a, b| a.text.cmp(&b.text));
    cases.dedup_by(|a, b| a.text == b.text);
    for case in &mut cases {
        given.draw(case);
    }
    let batches = Mutex::new(cases.chunks(BATCH).enumerate());
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((n, batch)) = batches.lock().ok().and_then(|mut b| b.next()) else { return };
                    let verdicts = judge(batch, n, chip, [&vendor, &ours]);
                    if let Ok(mut done) = done.lock() {
                        done.extend(batch.iter().cloned().zip(verdicts));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().map_err(|e| e.to_string())?;
    done.sort_by(|a, b| a.0.text.cmp(&b.0.text));
    report(&done)
}

fn report(done: &[(Case, Verdict)]) -> Result<(), String> {
    let mut counts = [0; 5];
    let mut rows: Vec<(&str, [usize; 5])> = Vec::new();
    for (case, verdict) in done {
        let (i, why) = match verdict {
            Verdict::Agree => (0, None),
            Verdict::NotOurs(why) => (1, Some(("not compiled", why))),
            Verdict::NotRun(why) => (2, Some(("not run", why))),
            Verdict::Disagree(why) => (3, Some(("DISAGREE", why))),
            Verdict::Known(why) => {
                println!("known: {}  {why}", case.text);
                (4, None)
            }
        };
        if let Some((what, why)) = why {
            println!("{what}: {}  {why}", case.text);
        }
        counts[i] += 1;
        if rows.last().is_none_or(|r| r.0 != case.op.name()) {
            rows.push((case.op.name(), [0; 5]));
        }
        if let Some(row) = rows.last_mut() {
            row.1[i] += 1;
        }
    }
    println!("{:<12} {:>6} {:>6} {:>13} {:>8} {:>9}", "", "agree", "known", "not compiled", "not run", "disagree");
    for (name, [a, b, c, d, k]) in rows {
        println!("{name:<12} {a:>6} {k:>6} {b:>13} {c:>8} {d:>9}");
    }
    let [agree, compiled, ran, bad, known] = counts;
    print!("{} instructions: {agree} agree, {known} differ as known, ", done.len());
    println!("{compiled} not compiled, {ran} not run, {bad} disagree");
    if bad > 0 || done.is_empty() { Err(format!("{bad} instructions disagree")) } else { Ok(()) }
}

/// The instructions of a form.
fn combinations(form: &'static Form, chip: &str, random: &mut Random) -> Vec<Case> {
    let choices: Vec<usize> = form.groups.iter().map(|g| g.words.len() + g.optional as usize).collect();
    let total = choices.iter().try_fold(1usize, |n, &c| n.checked_mul(c)).unwrap_or(usize::MAX);
    let mut out = Vec::new();
    for n in 0..total.min(COMBINATIONS) {
        let mut at = if total <= COMBINATIONS { n } else { random.bits() as usize % total };
        let words: Vec<Option<Mod>> = form
            .groups
            .iter()
            .zip(&choices)
            .map(|(g, &c)| {
                let word = g.words.get(at % c).map(|w| w.word);
                at /= c;
                word
            })
            .collect();
        if let Some(case) = case(form, &words, random).filter(|c| legal(c, chip)) {
            out.push(case);
        }
    }
    out
}

fn legal(case: &Case, chip: &str) -> bool {
    let text = module(std::slice::from_ref(case), chip);
    let (module, mut diags) = ptx::parse(&text);
    diags.extend(ptx::check(&module, arch::Target::parse(chip).as_ref()));
    !diags.iter().any(|d| d.is_error())
}

/// An instruction with these words, if it computes of registers only.
fn case(form: &'static Form, words: &[Option<Mod>], random: &mut Random) -> Option<Case> {
    let mods: Vec<Mod> = words.iter().flatten().copied().collect();
    let mut types = [None; 6];
    for (g, w) in form.groups.iter().zip(words) {
        if let (Some(slot), Some(w)) = (g.slot, w) {
            types[slot as usize] = T::from_mod(*w);
        }
    }
    let sync = mods.contains(&Mod::Sync);
    let mut c = Case {
        op: form.op,
        text: String::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        operands: 0,
        carry: mods.contains(&Mod::Cc) || matches!(form.op, Op::Addc | Op::Subc | Op::Madc),
        // The order and precision of the sums of a matrix product are open, too.
        approximate: mods.contains(&Mod::Approx)
            || form.name.contains(&Mod::Full)
            || form.op == Op::Mma && types.iter().flatten().any(|t| t.is_float()),
    };
    let called: Vec<&OperandForm> = form.operands.iter().filter(|o| o.when.is_none_or(|w| mods.contains(&w))).collect();
    let mut operands = Vec::new();
    for (i, o) in called.iter().enumerate() {
        if o.optional && random.index(2) == 0 && called[i..].iter().all(|o| o.optional) {
            break;
        }
        let ty = match o.ty {
            OperandType::Slot(s) => types[s as usize].unwrap_or(T::B32),
            OperandType::Fixed(t) => t,
            OperandType::Twice => types[Slot::T as usize].map(wider).unwrap_or(T::B64),
            _ => return None,
        };
        let last_mask = sync && i + 1 == called.len();
        operands.push(c.operand(o, ty, &mods, last_mask, random)?);
        c.operands += 1;
    }
    if c.outputs.is_empty() || ty_too_wide(&c) {
        return None;
    }
    if c.inputs.is_empty() {
        c.register(T::B32, false);
    }
    let name: String = form.name.iter().chain(&mods).map(|m| format!(".{}", m.name())).collect();
    c.text = format!("{}{name} {};", form.op.name(), operands.join(", "));
    Some(c)
}

fn ty_too_wide(c: &Case) -> bool {
    c.inputs.iter().chain(&c.outputs).any(|r| r.bits() > 64)
}

fn wider(t: T) -> T {
    match t {
        T::U16 => T::U32,
        T::S16 => T::S32,
        T::U32 => T::U64,
        _ => T::S64,
    }
}

impl Case {
    /// The inputs that are parameters: their number, the register, the value.
    fn parameters(&self) -> impl Iterator<Item = (usize, &Reg, u64)> {
        self.inputs.iter().enumerate().filter_map(|(i, r)| match r.from {
            Source::Parameter(v) => Some((i, r, v)),
            _ => None,
        })
    }

    /// What its carry goes into, and comes from.
    fn chain(&self) -> &'static str {
        if matches!(self.op, Op::Sub | Op::Subc) { "sub" } else { "add" }
    }

    fn register(&mut self, ty: T, output: bool) -> String {
        // Which of the sources, the first being 0.
        let sources = self.operands.saturating_sub(1);
        let domain = match self.op {
            Op::Bfe if sources > 0 => Domain::Below(256),
            Op::Bfi if sources > 1 => Domain::Below(256),
            // From bit 31 down or 0 up, at most 32 steps.
            Op::Fns if sources == 1 => Domain::Below(32),
            Op::Fns if sources == 2 => Domain::Below(33),
            Op::Div | Op::Rem if sources == 1 && !ty.is_float() => Domain::NotZero,
            _ => Domain::All,
        };
        let list = if output { &mut self.outputs } else { &mut self.inputs };
        let name = format!("%{}{}", if output { "d" } else { "s" }, list.len());
        list.push(Reg { name: name.clone(), ty, domain, from: Source::Thread });
        name
    }

    fn vector(&mut self, ty: T, n: usize, output: bool) -> String {
        let parts: Vec<String> = (0..n).map(|_| self.register(ty, output)).collect();
        format!("{{{}}}", parts.join(", "))
    }

    fn operand(&mut self, o: &OperandForm, ty: T, mods: &[Mod], mask: bool, random: &mut Random) -> Option<String> {
        let lanes = mods.iter().find_map(|m| m.name().strip_prefix('v')?.parse().ok()).unwrap_or(1);
        Some(match o.kind {
            K::Source | K::Register if mask => "-1".into(),
            // A barrier's number, and how many threads meet there.
            K::Source | K::Multiple(_) if matches!(self.op, Op::Bar | Op::Barrier) && ty != T::Pred => {
                let first = !self.text.contains('#');
                self.text.push('#');
                if first { random.index(16).to_string() } else { THREADS.to_string() }
            }
            K::Dest | K::ConvDest => self.register(ty, true),
            K::DestPred if matches!(ty, T::F16x2 | T::BF16x2) => {
                format!("{}|{}", self.register(T::Pred, true), self.register(T::Pred, true))
            }
            K::DestPred => {
                let p = self.register(T::Pred, true);
                if random.index(2) == 0 { p } else { format!("{p}|{}", self.register(T::Pred, true)) }
            }
            K::DestAndPred => {
                let d = self.register(ty, true);
                if random.index(2) == 0 { d } else { format!("{d}|{}", self.register(T::Pred, true)) }
            }
            K::DestBoth => format!("{}|{}", self.register(ty, true), self.register(T::Pred, true)),
            K::Source if !ty.is_float() && ty != T::Pred && random.index(8) == 0 => {
                ["1", "5", "31", "0"][random.index(3 + !matches!(self.op, Op::Div | Op::Rem) as usize)].to_string()
            }
            K::Source | K::Register | K::ConvSource => self.register(ty, false),
            K::Pred => format!("{}{}", ["", "!"][random.index(2)], self.register(T::Pred, false)),
            K::MoveDest if lanes > 1 => self.vector(ty, lanes, true),
            K::MoveSource if lanes > 1 => self.vector(ty, lanes, false),
            K::MoveDest => self.register(ty, true),
            K::MoveSource => self.register(ty, false),
            K::DestVec(Count::Fixed(n)) => self.vector(ty, n as usize, true),
            K::SourceVec(Count::Fixed(n)) => self.vector(ty, n as usize, false),
            K::Constant(Values::Any) => (random.bits() as u8).to_string(),
            K::Constant(Values::OneOf(list)) => list[random.index(list.len())].to_string(),
            K::Constant(Values::Range(a, b)) => {
                (a + random.index((b - a + 1).clamp(1, 1 << 20) as usize) as i64).to_string()
            }
            K::Part => {
                let dest = self.outputs.is_empty();
                let scalar = !self.op.name().ends_with(['2', '4']);
                let parts: &[&str] = if scalar && !dest { &["", ".b0", ".b3", ".h1"] } else { &[""] };
                format!("{}{}", self.register(T::B32, dest), parts[random.index(parts.len())])
            }
            _ => return None,
        })
    }
}

/// A module for a chip with a kernel for each case: `k0`, `k1`, ...
fn module(cases: &[Case], chip: &str) -> String {
    let (major, minor) = arch::LATEST_PTX;
    let mut m = format!(".version {major}.{minor}\n.target {chip}\n.address_size 64\n");
    for (n, c) in cases.iter().enumerate() {
        let _ = write!(
            m,
            ".visible .entry k{n}(.param .u64 in, .param .u64 out{})\n{{\n.reg .b64 %i, %o, %n;\n.reg .b32 %t;\n",
            c.parameters().map(|(i, r, _)| format!(", .param .b{} p{i}", r.bits().max(32))).collect::<String>()
        );
        for (name, bits) in c.inputs.iter().chain(&c.outputs).map(|r| (&r.name, r.bits())) {
            let _ = match bits {
                1 => writeln!(m, ".reg .pred {name};"),
                _ => writeln!(m, ".reg .b{bits} {name};"),
            };
        }
        m += "ld.param.u64 %i, [in];\nld.param.u64 %o, [out];\nmov.u32 %t, %tid.x;\n";
        let _ = writeln!(m, "mad.wide.u32 %i, %t, {}, %i;", 8 * c.inputs.len());
        let words = c.outputs.len() + c.carry as usize;
        let _ = writeln!(m, "mad.wide.u32 %o, %t, {}, %o;", 8 * words);
        for (i, (name, bits)) in c.inputs.iter().map(|r| (&r.name, r.bits())).enumerate() {
            let at = 8 * i;
            let _ = match (bits, c.inputs[i].from) {
                (1, Source::Constant(v)) => writeln!(m, "mov.b32 %t, {};\nsetp.ne.b32 {name}, %t, 0;", v & 1),
                (1, Source::Parameter(_)) => {
                    writeln!(m, "ld.param.b32 %t, [p{i}];\nand.b32 %t, %t, 1;\nsetp.ne.b32 {name}, %t, 0;")
                }
                (1, _) => writeln!(m, "ld.global.b32 %t, [%i+{at}];\nand.b32 %t, %t, 1;\nsetp.ne.b32 {name}, %t, 0;"),
                (_, Source::Constant(v)) => writeln!(m, "mov.b{bits} {name}, {v:#x};"),
                (_, Source::Parameter(_)) => writeln!(m, "ld.param.b{bits} {name}, [p{i}];"),
                _ => writeln!(m, "ld.global.b{bits} {name}, [%i+{at}];"),
            };
            // Of types without a negation of their own the bits are inverted.
            let ty = c.inputs[i].ty;
            let _ = match (c.inputs[i].from, ty) {
                (Source::Negated, T::F16 | T::F16x2 | T::BF16 | T::BF16x2 | T::F32 | T::F64) => {
                    writeln!(m, "neg.{} {name}, {name};", ty.name())
                }
                (Source::Negated, T::S16 | T::S32 | T::S64) => writeln!(m, "neg.{} {name}, {name};", ty.name()),
                (Source::Negated, _) if bits > 1 => writeln!(m, "not.b{bits} {name}, {name};"),
                (Source::Absolute, T::F16 | T::F16x2 | T::BF16 | T::BF16x2 | T::F32 | T::F64) => {
                    writeln!(m, "abs.{} {name}, {name};", ty.name())
                }
                _ => Ok(()),
            };
        }
        if c.carry {
            let _ = writeln!(m, "ld.global.b32 %t, [%i];\n{}.cc.u32 %t, %t, 77;", c.chain());
        }
        let _ = writeln!(m, "{}", c.text);
        if c.carry {
            let _ = writeln!(m, "{}c.u32 %t, 0, 0;\nst.global.b32 [%o+{}], %t;", c.chain(), 8 * c.outputs.len());
        }
        for (i, (name, bits)) in c.outputs.iter().map(|r| (&r.name, r.bits())).enumerate() {
            let at = 8 * i;
            let _ = match bits {
                1 => writeln!(m, "selp.b32 %t, 1, 0, {name};\nst.global.b32 [%o+{at}], %t;"),
                _ => writeln!(m, "st.global.b{bits} [%o+{at}], {name};"),
            };
        }
        m += "ret;\n}\n";
    }
    m
}

fn launch(n: usize, case: &Case) -> Launch {
    let bytes = 8 * THREADS as usize * (case.outputs.len() + case.carry as usize);
    Launch {
        kernel: format!("k{n}"),
        grid: [1, 1, 1],
        block: [THREADS, 1, 1],
        cluster: None,
        shared: 0,
        args: [
            Arg::Buffer { data: values(case), out: None },
            Arg::Buffer { data: vec![0; bytes], out: Some("out".into()) },
        ]
        .into_iter()
        .chain(case.parameters().map(|(_, r, v)| Arg::Value(v.to_le_bytes()[..r.bits().max(32) as usize / 8].to_vec())))
        .collect(),
        ..Launch::default()
    }
}

fn judge(cases: &[Case], batch: usize, chip: &str, [vendor, ours]: [&Path; 2]) -> Vec<Verdict> {
    let scratch = std::env::temp_dir().join(format!("sassafras-instructions-{}-{batch}", std::process::id()));
    let (source, out) = (scratch.with_extension("ptx"), scratch.with_extension("cubin"));
    let compile = |tool: &Path, text: &str| -> Result<Vec<u8>, String> {
        std::fs::write(&source, text).map_err(|e| e.to_string())?;
        let done = Command::new(tool)
            .args([&format!("-arch={chip}"), "-fmad=false"])
            .arg(&source)
            .arg("-o")
            .arg(&out)
            .output()
            .map_err(|e| e.to_string())?;
        if !done.status.success() {
            let text = String::from_utf8_lossy(&done.stderr).into_owned();
            let line = text.lines().next().unwrap_or("failed");
            return Err(line.split("error   : ").last().unwrap_or(line).to_string());
        }
        std::fs::read(&out).map_err(|e| e.to_string())
    };
    let text = module(cases, chip);
    let (parsed, _) = ptx::parse(&text);
    let all = compile(vendor, &text);
    let verdicts = cases.iter().enumerate().map(|(n, case)| {
        let one = module(std::slice::from_ref(case), chip);
        // What the vendor's tool refuses in one kernel spoils the file.
        let (theirs, at) = match &all {
            Ok(cubin) => (Ok(cubin.clone()), n),
            Err(_) => (compile(vendor, &one), 0),
        };
        let theirs = match theirs {
            Ok(cubin) => cubin,
            Err(why) => return Verdict::Disagree(format!("the vendor's ptxas refuses it: {why}")),
        };
        let config = Config { check_uninitialized: false, ..Config::default() };
        let run = |cubin: &[u8], n| sim::run_sass(cubin, &launch(n, case), &config).map(|o| o.buffers);
        let reference = match sim::run_ptx(&parsed, &launch(n, case), &config) {
            Ok(o) => o.buffers,
            Err(f) => return Verdict::NotRun(format!("PTX: {f}")),
        };
        let theirs = match run(&theirs, at) {
            Ok(b) => b,
            Err(f) => return Verdict::NotRun(format!("vendor's code: {f}")),
        };
        let apart = if case.approximate { None } else { difference(case, &reference, &theirs) };
        let known = apart.as_ref().and_then(|_| known(case));
        if let (Some(d), None) = (apart, known) {
            return Verdict::Disagree(format!("vendor's code: {d}"));
        }
        let mine = match compile(ours, &one) {
            Ok(cubin) => cubin,
            Err(why) => return known.map_or(Verdict::NotOurs(why), Verdict::Known),
        };
        let mine = match run(&mine, 0) {
            Ok(b) => b,
            Err(f) => return Verdict::Disagree(format!("our code: {f}")),
        };
        // Some chips have an instruction where others, and our code everywhere, have several; in which order it sums is open.
        let sums = case.op == Op::Mma && case.approximate && chip != CHIP;
        match (difference(case, &theirs, &mine), known) {
            (None, None) => Verdict::Agree,
            (None, Some(why)) => Verdict::Known(why),
            (Some(_), None) if sums => Verdict::Known("sums in another order"),
            (Some(_), Some(why)) if difference(case, &reference, &mine).is_none() => Verdict::Known(why),
            (Some(d), _) => Verdict::Disagree(format!("our code: {d}")),
        }
    });
    let verdicts = verdicts.collect();
    for file in [source, out] {
        let _ = std::fs::remove_file(file);
    }
    verdicts
}

/// The first thread whose results differ, with what it was given.
fn difference(case: &Case, want: &[Vec<u8>], got: &[Vec<u8>]) -> Option<String> {
    let (Some(w), Some(g)) = (want.last(), got.last()) else { return Some("no results".into()) };
    let words = case.outputs.len() + case.carry as usize;
    let same = |(i, (a, b)): (usize, (&[u8], &[u8]))| {
        let ty = case.outputs.get(i % words).map_or(T::U32, |r| r.ty);
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |v, &b| v << 8 | b as u64);
        a == b || same_number(ty, word(a), word(b))
    };
    let at = w.chunks(8).zip(g.chunks(8)).enumerate().position(|x| !same(x))? / words;
    let show = |bytes: &[u8], n: usize| -> String {
        let words = bytes[8 * n * at..8 * n * (at + 1)].chunks(8);
        words
            .map(|c| format!("{:x}", c.iter().rev().fold(0u64, |v, &b| v << 8 | b as u64)))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let given = show(&values(case), case.inputs.len());
    let from: Vec<&str> = case.inputs.iter().map(|r| r.from.name()).collect();
    Some(format!("thread {at} has {} instead of {} of {given} ({})", show(g, words), show(w, words), from.join(" ")))
}

/// True for two NaNs: PTX leaves their bits open.
fn same_number(ty: T, a: u64, b: u64) -> bool {
    let half = |x: u64, bf16: bool| (x as u16 & 0x7fff) > if bf16 { 0x7f80 } else { 0x7c00 };
    let halves = |bf16: bool| {
        let same = |s: u32| (a >> s) as u16 == (b >> s) as u16 || half(a >> s, bf16) && half(b >> s, bf16);
        same(0) && same(16)
    };
    match ty {
        T::F16 => half(a, false) && half(b, false),
        T::BF16 => half(a, true) && half(b, true),
        T::F16x2 => halves(false),
        T::BF16x2 => halves(true),
        T::F32 | T::TF32 => f32::from_bits(a as u32).is_nan() && f32::from_bits(b as u32).is_nan(),
        T::F64 => f64::from_bits(a).is_nan() && f64::from_bits(b).is_nan(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_the_same() {
        assert!(same_number(T::F32, 0x7fc0_0000, 0xffff_ffff));
        assert!(!same_number(T::F32, 0x7f80_0000, 0xffff_ffff));
        assert!(same_number(T::F16x2, 0x7e00_3c00, 0xffff_3c00));
        assert!(!same_number(T::F16x2, 0x7e00_3c00, 0xffff_3c01));
        assert!(!same_number(T::U32, 0x7fc0_0000, 0xffff_ffff));
    }

    #[test]
    fn kernels_of_every_kind_are_legal_ptx() {
        let mut random = Random(1);
        for op in [Op::Add, Op::Cvt, Op::Setp, Op::Shfl, Op::Barrier, Op::Vadd] {
            assert!(op.forms().iter().any(|f| !combinations(f, CHIP, &mut random).is_empty()), "{}", op.name());
        }
    }
}
