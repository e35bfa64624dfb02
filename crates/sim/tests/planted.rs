//! Planted faults: the tables in `tests/faults` hold kernels in a right and a wrong version. The right one runs without
//! any complaint, in the PTX interpreter and (the vendor's code of it) in the simulator; the wrong one is stopped by the
//! fault, at the thread and statement that the table names.
//!
//! A case is
//!
//! ```text
//! case NAME
//! with KEY KEY = a b | c d        one case for each alternative, {KEY} replaced
//! fault KIND thread N at TEXT     of the wrong version; TEXT is part of the statement
//! sass KIND                       what the vendor's code of the wrong version ends with (left out: not looked at)
//! right KIND                      what the vendor's code of the right version ends with, where that is a false alarm
//! ptx-only                        this case and those after it in the file: the simulator lacks the instructions
//! launch block 64 grid 1 cluster 1 shared 0
//! chip sm_90a                     instead of sm_90
//! entry .maxnreg 64               directives of the kernel
//! decl .shared .b32 x;            declarations before the kernel
//! - only in the wrong version
//! + only in the right version
//! in both
//! ```
//!
//! Empty lines and lines with `#` are left out. The kernel has the parameter `p`, a buffer of 1024 bytes that hold 1;
//! `%rd1` is its address, `%r1` is `%tid.x`. References named `image` and `pixels` in the declarations are bound to a texture and
//! a surface of 16 x 8 floats.

use sim::texture::{Array, Object, Sampler};
use sim::{Arg, Config, Fault, FaultKind, Launch, Place};

#[derive(Clone, Default)]
struct Case {
    name: String,
    with: Option<(Vec<String>, Vec<Vec<String>>)>,
    kind: String,
    thread: String,
    at: String,
    sass: Option<String>,
    right: Option<String>,
    ptx_only: bool,
    block: u32,
    grid: u32,
    cluster: u32,
    shared: u32,
    chip: String,
    entry: String,
    decls: Vec<String>,
    body: Vec<(char, String)>,
}

fn parse(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut ptx_only = false;
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "case" {
            let chip = "sm_90".into();
            cases.push(Case { name: rest.into(), block: 64, grid: 1, cluster: 1, ptx_only, chip, ..Case::default() });
            continue;
        }
        if word == "ptx-only" {
            ptx_only = true;
            continue;
        }
        let c = cases.last_mut().expect("a case first");
        match word {
            "with" => {
                let (keys, values) = rest.split_once(" = ").expect("with KEYS = VALUES");
                let words = |s: &str| s.split_whitespace().map(String::from).collect::<Vec<_>>();
                c.with = Some((words(keys), values.split('|').map(words).collect()));
            }
            "fault" => {
                let (kind, rest) = rest.split_once(" thread ").expect("fault KIND thread N at TEXT");
                let (thread, at) = rest.split_once(" at ").expect("fault KIND thread N at TEXT");
                (c.kind, c.thread, c.at) = (kind.into(), thread.into(), at.into());
            }
            "sass" => c.sass = Some(rest.into()),
            "right" => c.right = Some(rest.into()),
            "chip" => c.chip = rest.into(),
            "entry" => c.entry = rest.into(),
            "launch" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                for pair in words.chunks(2) {
                    let n = pair[1].parse().unwrap();
                    match pair[0] {
                        "block" => c.block = n,
                        "grid" => c.grid = n,
                        "cluster" => c.cluster = n,
                        "shared" => c.shared = n,
                        other => panic!("launch {other}"),
                    }
                }
            }
            "decl" => c.decls.push(rest.into()),
            "-" | "+" => c.body.push((word.chars().next().unwrap(), rest.into())),
            _ => c.body.push((' ', line.into())),
        }
    }
    cases.into_iter().flat_map(expand).collect()
}

fn expand(c: Case) -> Vec<Case> {
    let Some((keys, rows)) = c.with.clone() else { return vec![c] };
    let one = |row: Vec<String>| {
        let fill = |s: &String| keys.iter().zip(&row).fold(s.clone(), |s, (k, v)| s.replace(&format!("{{{k}}}"), v));
        let mut n = c.clone();
        n.name = format!("{} {}", c.name, row.join(" "));
        n.at = fill(&c.at);
        n.thread = fill(&c.thread);
        n.decls = c.decls.iter().map(fill).collect();
        n.body = c.body.iter().map(|(x, s)| (*x, fill(s))).collect();
        n
    };
    rows.into_iter().map(one).collect()
}

impl Case {
    fn text(&self, wrong: bool) -> String {
        let skip = if wrong { '+' } else { '-' };
        let body: Vec<&str> = self.body.iter().filter(|l| l.0 != skip).map(|l| l.1.as_str()).collect();
        format!(
            ".version 8.6\n.target {}\n.address_size 64\n{}\n.visible .entry k(.param .u64 p) {}\n{{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n\
             .reg .b32 %r<32>;\n.reg .b32 %f<8>;\n.reg .b64 %rd<16>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n{}\nret;\n}}\n",
            self.chip,
            self.decls.join("\n"),
            self.entry,
            body.join("\n")
        )
    }

    fn binds(&self) -> Vec<(String, Object)> {
        let all = [("image", Object::Texture(0, Sampler::default())), ("pixels", Object::Surface(0))];
        let used = |name: &str| self.decls.iter().any(|d| d.contains("ref ") && d.contains(name));
        all.into_iter().filter(|b| used(b.0)).map(|b| (b.0.to_string(), b.1)).collect()
    }

    fn launch(&self) -> Launch {
        Launch {
            kernel: "k".into(),
            grid: [self.grid, 1, 1],
            block: [self.block, 1, 1],
            cluster: (self.cluster > 1).then_some([self.cluster, 1, 1]),
            shared: self.shared,
            args: vec![Arg::Buffer { data: vec![1; 1024], out: None }],
            arrays: if self.decls.iter().any(|d| d.contains("ref ")) { vec![image()] } else { Vec::new() },
            binds: self.binds(),
            ..Launch::default()
        }
    }
}

fn image() -> Array {
    let data = (0..16 * 8).flat_map(|n| (n as f32).to_le_bytes()).collect();
    Array { name: "image".into(), size: [16, 8, 0], levels: 1, samples: 1, channels: 1, data, ..Array::default() }
}

fn config() -> Config {
    Config { max_instructions: 200_000, ..Config::default() }
}

fn run(c: &Case, wrong: bool) -> Result<Result<(), (Fault, String)>, String> {
    let text = c.text(wrong);
    let (module, mut messages) = ptx::parse(&text);
    messages.extend(ptx::check(&module, None));
    if let Some(m) = messages.iter().find(|m| m.is_error()) {
        return Err(format!("does not parse: {} {:?}", m.message, m.span));
    }
    Ok(match sim::run_ptx(&module, &c.launch(), &config()) {
        Ok(_) => Ok(()),
        Err(f) => {
            let at = match f.place {
                Place::Ptx(s) => text[s.start as usize..s.end as usize].to_string(),
                _ => String::new(),
            };
            Err((*f, at))
        }
    })
}

/// What is wrong with a case, if anything is.
fn wrong(c: &Case) -> Option<String> {
    match run(c, false) {
        Err(e) => return Some(format!("the right version {e}")),
        Ok(Err((f, at))) => return Some(format!("the right version is blamed: {f} at {at}")),
        Ok(Ok(())) => {}
    }
    match run(c, true) {
        Err(e) => Some(format!("the wrong version {e}")),
        Ok(Ok(())) => Some("the wrong version is not caught".into()),
        Ok(Err((f, at))) => {
            let thread = f.thread.map(|t| t[0].to_string());
            let right =
                f.kind.name() == c.kind && thread.as_ref() == Some(&c.thread) && at.contains(&c.at) && f.kernel == "k";
            (!right || f.kind == FaultKind::Race && f.other.is_none()).then(|| format!("the fault is: {f} at {at}"))
        }
    }
}

fn tables() -> Vec<Case> {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().flatten().map(|e| e.path()).collect();
    files.sort();
    files.iter().flat_map(|f| parse(&std::fs::read_to_string(f).unwrap())).collect()
}

#[test]
fn every_fault_is_caught_where_it_is() {
    let cases = tables();
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let mut names: Vec<&str> = cases.iter().map(|c| c.name.as_str()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), cases.len(), "two cases of one name");
    let bad: Vec<String> = cases.iter().filter_map(|c| wrong(c).map(|w| format!("{}: {w}", c.name))).collect();
    assert!(bad.is_empty(), "{} of {} cases:\n{}", bad.len(), cases.len(), bad.join("\n"));
}

/// The vendor's code: right versions raise no alarm, wrong ones end as the table says.
#[test]
fn machine_code_is_judged_alike() {
    let Some(ptxas) = testkit::oracle::ptxas() else { return };
    let (mut bad, mut looked) = (Vec::new(), 0);
    // The same code over and over is one case of each family here; all of them if asked.
    let all = std::env::var_os("SIM_ALL_FAULTS").is_some();
    let mut family = String::new();
    for c in tables() {
        let first = c.with.is_none() || family != c.name.split(' ').next().unwrap_or_default();
        family = c.name.split(' ').next().unwrap_or_default().to_string();
        if c.ptx_only || !all && !first {
            continue;
        }
        let mut judge = |wrong: bool, want: &str| {
            let cubin = match testkit::oracle::compile(&ptxas, &c.text(wrong), &[&format!("-arch={}", c.chip)]) {
                Ok(cubin) => cubin,
                Err(e) => return bad.push(format!("{}: ptxas refuses it: {e}", c.name)),
            };
            let got = match sim::run_sass(&cubin, &c.launch(), &config()) {
                Ok(_) => "nothing".to_string(),
                Err(f) if f.kind.name() == want => want.to_string(),
                Err(f) => f.to_string(),
            };
            looked += 1;
            if got != want {
                bad.push(format!("{} ({}): {got}", c.name, if wrong { "wrong" } else { "right" }));
            }
        };
        judge(false, c.right.as_deref().unwrap_or("nothing"));
        if let Some(kind) = &c.sass {
            judge(true, kind);
        }
    }
    assert!(bad.is_empty(), "{} of {looked}:\n{}", bad.len(), bad.join("\n"));
}
