//! The instruction table against the vendor's tool: examples of every form, legal ones and near misses, on several targets
//! and versions, must be taken by both or refused by both.
//!
//! A sample runs with the other tests. `cargo xtask conformance --ptx` runs all (`SASSAFRAS_CONFORMANCE=full`), and prints
//! the agreement of each opcode and every disagreement. `SASSAFRAS_CONFORMANCE=mma,wgmma/8` runs one of eight of
//! some opcodes.
//! `known.txt` lists the disagreements that are known, with their reasons, `known-cases.txt` those of `cases.txt`: any other one
//! is a failure, and so is a line that covers none.

mod cases;
mod generate;
mod vendor;

use diag::Diagnostic;
use diag::render::Source;
use generate::Example;
use std::collections::BTreeMap;
use std::sync::Mutex;
use testkit::Random;

/// Instructions in one file: more would reach the limits of messages.
const BATCH: usize = 40;

/// A sample takes one of so many.
const SAMPLE: usize = 16;

/// Percent of the examples that must agree.
const AGREE: f64 = 99.8;

/// Percent of the refused examples that must be refused with the same class of message; of a sample one less.
const CLASS: f64 = 98.0;

/// What both say of an example.
struct Judged {
    example: Example,
    op: &'static str,
    vendor: Vec<String>,
    ours: Vec<String>,
}

impl Judged {
    fn agree(&self) -> bool {
        self.vendor.is_empty() == self.ours.is_empty()
    }

    fn same_class(&self) -> bool {
        let Some(mine) = self.ours.first().map(|m| class(m)) else { return true };
        self.vendor.is_empty() || self.vendor.iter().any(|v| class(v) == mine)
    }
}

/// A message without what it names: what stands between quotes, and the modifiers and numbers outside of them.
fn class(message: &str) -> String {
    let mut out = String::new();
    for (i, part) in message.split('\'').enumerate() {
        out += if i % 2 == 0 { part } else { "'" };
    }
    out
}

fn ours(version: (u16, u16), target: &str, lines: &[&str]) -> Vec<Vec<String>> {
    let head = vendor::head(version, target);
    let first = head.lines().count() as u32 + 1;
    let text = format!("{head}{}\n{}", lines.join("\n"), vendor::TAIL);
    let (module, mut diags) = ptx::parse(&text);
    diags.extend(ptx::check(&module, arch::Target::parse(target).as_ref()));
    // A file ends after a hundred messages.
    if diags.len() >= 90 && lines.len() > 1 {
        let (a, b) = lines.split_at(lines.len() / 2);
        let mut out = ours(version, target, a);
        out.extend(ours(version, target, b));
        return out;
    }
    let source = Source::new("a.ptx", text.as_bytes());
    let mut out = vec![Vec::new(); lines.len()];
    for d in diags.iter().filter(|d| Diagnostic::is_error(d)) {
        let line = d.span.map_or(0, |s| source.position(s.start).0);
        if let Some(list) = line.checked_sub(first).and_then(|i| out.get_mut(i as usize)) {
            list.push(d.message.clone());
        }
    }
    out
}

fn all(wanted: &dyn Fn(&str) -> bool, sample: usize) -> Vec<(&'static str, Example)> {
    let mut out = BTreeMap::new();
    for form in ptx::isa::FORMS.iter().filter(|f| wanted(f.op.name())) {
        // Forms that come and go leave the examples of others as they are.
        let seed =
            format!("{form:?}").bytes().fold(0x5a55u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let mut random = Random(seed);
        for e in generate::examples(form, &mut random) {
            out.insert(e, form.op.name());
        }
    }
    out.into_iter().enumerate().filter(|(i, _)| i % sample == 0).map(|(_, (e, op))| (op, e)).collect()
}

/// An opcode and an example of it.
type Case = (&'static str, Example);

fn judge(examples: Vec<Case>, ptxas: &std::path::Path) -> Vec<Judged> {
    let mut groups: BTreeMap<(&'static str, (u16, u16)), Vec<Case>> = BTreeMap::new();
    for (op, e) in examples {
        groups.entry((e.target, e.version)).or_default().push((op, e));
    }
    let mut work: Vec<Vec<Case>> = Vec::new();
    for list in groups.into_values() {
        work.extend(list.chunks(BATCH).map(<[_]>::to_vec));
    }
    let work = Mutex::new(work.into_iter());
    let out = Mutex::new(Vec::new());
    let cache = &vendor::Cache::open(ptxas);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(batch) = work.lock().ok().and_then(|mut w| w.next()) else { return };
                    let (target, version) = (batch[0].1.target, batch[0].1.version);
                    let lines: Vec<&str> = batch.iter().map(|(_, e)| e.text.as_str()).collect();
                    let theirs = vendor::Vendor::new(ptxas, version, target).judge_cached(&lines, cache);
                    let ours = ours(version, target, &lines);
                    let judged = batch.into_iter().zip(theirs).zip(ours);
                    let judged = judged.map(|(((op, example), vendor), ours)| Judged { example, op, vendor, ours });
                    if let Ok(mut out) = out.lock() {
                        out.extend(judged);
                    }
                }
            });
        }
    });
    let mut out = out.into_inner().unwrap_or_default();
    out.sort_by(|a: &Judged, b| (a.op, &a.example).cmp(&(b.op, &b.example)));
    out
}

/// A line of a list of known disagreements.
struct Known {
    /// The vendor takes it and we refuse it, or the other way round.
    taken: bool,
    /// A pattern with `*`.
    pattern: &'static str,
    why: &'static str,
    /// The disagreements that it covers.
    covers: std::cell::Cell<usize>,
    /// An example that it matches, on which both agree as it says we would not.
    broad: std::cell::RefCell<Option<String>>,
}

/// Reads a list of known disagreements.
fn known(text: &'static str) -> Vec<Known> {
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    let one = |l: &'static str| {
        let (head, why) = l.split_once(" -- ").unwrap_or_else(|| panic!("no reason in {l}"));
        let taken = match head.as_bytes() {
            [b'+', b' ', ..] => true,
            [b'-', b' ', ..] => false,
            _ => panic!("neither + nor - before {l}"),
        };
        Known { taken, pattern: head[2..].trim_end(), why, covers: Default::default(), broad: Default::default() }
    };
    lines.map(one).collect()
}

impl Known {
    /// Notes an example with both answers; true if it is a disagreement that the line covers.
    fn covers(&self, text: &str, theirs: bool, ours: bool) -> bool {
        if !matches(self.pattern, text) {
            return false;
        }
        if theirs == ours {
            if theirs == self.taken && self.broad.borrow().is_none() {
                *self.broad.borrow_mut() = Some(text.to_string());
            }
            return false;
        }
        let covers = theirs == self.taken;
        self.covers.set(self.covers.get() + usize::from(covers));
        covers
    }

    /// What is wrong with the line itself, after all examples have been seen.
    fn wrong(&self) -> Option<String> {
        let sign = if self.taken { '+' } else { '-' };
        let line = format!("{sign} {}", self.pattern);
        match &*self.broad.borrow() {
            Some(text) => Some(format!("{line} is too broad: {text}")),
            None if self.covers.get() == 0 => Some(format!("{line} matches no disagreement any more")),
            None => None,
        }
    }
}

/// Does a text match a pattern in which `*` stands for anything?
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.trim().split('*');
    let Some(mut rest) = parts.next().and_then(|p| text.strip_prefix(p)) else { return false };
    let mut open = false;
    for part in parts {
        open = part.is_empty();
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || open
}

#[test]
fn examples_are_taken_as_the_vendor_takes_them() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let mode = std::env::var("SASSAFRAS_CONFORMANCE").unwrap_or_default();
    let (words, part) = mode.split_once('/').unwrap_or((&mode, "1"));
    let full = mode == "full";
    let ops: Vec<&str> = words.split(',').filter(|w| !w.is_empty() && *w != "full").collect();
    let sample = if mode.is_empty() { SAMPLE } else { part.parse().unwrap_or(1) };
    let examples = all(&|op| ops.is_empty() || ops.contains(&op), sample);
    println!("{} examples to judge", examples.len());
    let mut judged = judge(examples, &ptxas);
    let all = judged.len();
    judged.retain(|j| j.vendor.first().is_none_or(|m| m != vendor::CRASH));
    println!("{} left out, on which the vendor's tool fails", all - judged.len());
    let known = known(include_str!("known.txt"));
    let mut rows: BTreeMap<&str, [usize; 5]> = BTreeMap::new();
    let mut unknown = Vec::new();
    let mut pairs: BTreeMap<(String, String), (usize, String)> = BTreeMap::new();
    for j in &judged {
        let row = rows.entry(j.op).or_default();
        row[0] += 1;
        row[1] += usize::from(j.vendor.is_empty());
        row[2] += usize::from(!j.agree());
        if !j.ours.is_empty() && !j.vendor.is_empty() {
            row[3] += 1;
            row[4] += usize::from(!j.same_class());
        }
        let e = &j.example;
        let shown = format!("{} {}.{} {}", e.target, e.version.0, e.version.1, e.text);
        // Every line of the list sees every example.
        let covering: Vec<&Known> =
            known.iter().filter(|k| k.covers(&shown, j.vendor.is_empty(), j.ours.is_empty())).collect();
        if !j.agree() {
            let reason = covering.first();
            if !mode.is_empty() || reason.is_none() {
                let why = reason.map_or("", |k| k.why);
                println!("DISAGREE {} {shown}\n    vendor: {:?}\n    ours:   {:?} {why}", j.op, j.vendor, j.ours);
            }
            if reason.is_none() {
                unknown.push(shown);
            }
        } else if !mode.is_empty() && !j.same_class() {
            println!("MESSAGE {} {shown}\n    vendor: {:?}\n    ours:   {:?}", j.op, j.vendor, j.ours);
            let first = |list: &[String]| list.first().map(|m| class(m)).unwrap_or_default();
            let pair = pairs.entry((first(&j.ours), first(&j.vendor))).or_default();
            pair.0 += 1;
            if pair.0 == 1 || e.text.len() < pair.1.len() {
                pair.1 = shown;
            }
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
    for ((mine, theirs), (n, shown)) in pairs {
        println!("PAIR {n:>5} ours: {mine}\n           vendor: {theirs}\n           {shown}");
    }
    let sum = |i: usize| rows.values().map(|r| r[i]).sum::<usize>();
    let percent = |bad: usize, of: usize| 100.0 - 100.0 * bad as f64 / of.max(1) as f64;
    if !mode.is_empty() {
        for (op, r) in &rows {
            println!(
                "{op:<20} {:>6} examples, {:>6} legal, {:>5} disagree ({:.2} %), class {:.2} %",
                r[0],
                r[1],
                r[2],
                percent(r[2], r[0]),
                percent(r[4], r[3])
            );
        }
    }
    println!(
        "{} examples, {} legal; accept or reject agrees on {:.2} % ({} differ), class of message on {:.2} % of {}",
        sum(0),
        sum(1),
        percent(sum(2), sum(0)),
        sum(2),
        percent(sum(4), sum(3)),
        sum(3)
    );
    if full || mode.is_empty() {
        assert!(sum(0) * sample > 20_000, "{} examples", sum(0));
    }
    // Both answers must be there in number, or the comparison would see a tool that says always the same.
    assert!(sum(1) * 10 > sum(0) && (sum(0) - sum(1)) * 10 > sum(0), "{} of {} are legal", sum(1), sum(0));
    assert!(percent(sum(2), sum(0)) >= AGREE, "{} of {} differ", sum(2), sum(0));
    if full || mode.is_empty() {
        let least = if full { CLASS } else { CLASS - 1.0 };
        assert!(percent(sum(4), sum(3)) >= least, "{} messages of {} are of another class", sum(4), sum(3));
    }
    assert!(unknown.is_empty(), "known.txt does not list {} disagreements:\n{}", unknown.len(), unknown.join("\n"));
    let wrong: Vec<String> = known.iter().filter(|_| full).filter_map(Known::wrong).collect();
    assert!(wrong.is_empty(), "known.txt:\n{}", wrong.join("\n"));
}

/// Percent of the refused cases of `cases.txt` that must be refused with the same class of message.
const CASES_CLASS: f64 = 95.0;

#[test]
fn modules_and_declarations_are_taken_as_the_vendor_takes_them() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let mode = std::env::var("SASSAFRAS_CONFORMANCE").unwrap_or_default();
    let full = mode == "full" || mode == "cases";
    if !full && !mode.is_empty() {
        return;
    }
    let sample = if full { 1 } else { SAMPLE / 2 };
    let cases: Vec<_> = cases::all().into_iter().step_by(sample).collect();
    let judged = cases::judge(cases, &ptxas);
    let known = known(include_str!("known-cases.txt"));
    let mut unknown = Vec::new();
    let [mut legal, mut differ, mut both, mut lines, mut classes] = [0usize; 5];
    for (case, theirs, ours) in &judged {
        legal += usize::from(theirs.is_empty());
        if theirs.iter().any(|t| t.1 == vendor::CRASH) {
            continue;
        }
        let covering: Vec<&Known> =
            known.iter().filter(|k| k.covers(&case.text, theirs.is_empty(), ours.is_empty())).collect();
        if theirs.is_empty() != ours.is_empty() {
            differ += 1;
            if full || covering.is_empty() {
                println!("DISAGREE {}\n    vendor: {theirs:?}\n    ours:   {ours:?}", case.text);
            }
            if covering.is_empty() {
                unknown.push(case.text.clone());
            }
            continue;
        }
        let Some((line, message)) = ours.first() else { continue };
        both += 1;
        // Some messages of the vendor have no place where ours have one.
        let same_line = theirs.iter().any(|t| t.0 == *line || t.0 == 0);
        let same_class = theirs.iter().any(|t| class(&t.1) == class(message));
        lines += usize::from(!same_line);
        classes += usize::from(!same_class);
        if !same_line || !same_class {
            let what = if same_line { "MESSAGE" } else { "LINE" };
            println!("{what} {}\n    vendor: {theirs:?}\n    ours:   {ours:?}", case.text);
        }
    }
    let percent = |bad: usize, of: usize| 100.0 - 100.0 * bad as f64 / of.max(1) as f64;
    println!(
        "{} cases, {legal} legal; accept or reject agrees on {:.2} % ({differ} differ), line on {:.2} %, class of message on {:.2} % of {both}",
        judged.len(),
        percent(differ, judged.len()),
        percent(lines, both),
        percent(classes, both),
    );
    assert!(unknown.is_empty(), "known-cases.txt does not list:\n{}", unknown.join("\n"));
    assert!(percent(lines, both) == 100.0, "{lines} refusals at another line");
    // A sample may have less luck than all.
    let least = if full { CASES_CLASS } else { CASES_CLASS - 5.0 };
    assert!(percent(classes, both) >= least, "{classes} messages of {both} are of another class");
    let wrong: Vec<String> = known.iter().filter(|_| full).filter_map(Known::wrong).collect();
    assert!(wrong.is_empty(), "known-cases.txt:\n{}", wrong.join("\n"));
}
