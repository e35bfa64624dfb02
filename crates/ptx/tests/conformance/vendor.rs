//! What the vendor's tool says of many single instructions.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use testkit::Scratch;

/// What stands before the instruction at hand: a register of every kind of every type, variables of every space.
pub fn head(version: (u16, u16), target: &str) -> String {
    format!(
        ".version {}.{}\n.target {target}\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n\
         .global .align 64 .b8 gmem[1024];\n.global .texref tex0;\n.global .surfref surf0;\n\
         .visible .entry k(.param .u64 p, .param .align 64 .b8 tm[128])\n{{\n\
         .reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<300>; .reg .b64 %rd<40>; {}\
         .reg .u8 %uc<9>; .reg .u16 %uh<9>; .reg .u32 %u<300>; .reg .u64 %ud<40>; \
         .reg .s8 %sc<9>; .reg .s16 %sh<9>; .reg .s32 %s<300>; .reg .s64 %sd<40>; \
         .reg .f32 %f<300>; .reg .f64 %d<40>;\n",
        version.0,
        version.1,
        if version >= (8, 3) { ".reg .b128 %q<9>; " } else { "" },
    )
}

/// What stands behind it.
pub const TAIL: &str = "L: ret;\n}\n";

/// The messages of the errors of each instruction; none where it is taken.
pub struct Vendor<'a> {
    pub ptxas: &'a Path,
    pub version: (u16, u16),
    pub target: &'a str,
    dir: Scratch,
}

impl<'a> Vendor<'a> {
    pub fn new(ptxas: &'a Path, version: (u16, u16), target: &'a str) -> Self {
        Vendor { ptxas, version, target, dir: Scratch::new("conformance") }
    }

    /// Judges instructions, one a line.
    pub fn judge(&self, lines: &[&str]) -> Vec<Vec<String>> {
        let mut out = vec![Vec::new(); lines.len()];
        self.some(lines, (0..lines.len()).collect(), &mut out);
        out
    }

    /// The same, asking only for those that the cache does not have.
    pub fn judge_cached(&self, lines: &[&str], cache: &Cache) -> Vec<Vec<String>> {
        let key = |line: &str| format!("{} {}.{} {line}", self.target, self.version.0, self.version.1);
        let mut out: Vec<Option<Vec<String>>> = lines.iter().map(|l| cache.known.get(&key(l)).cloned()).collect();
        let left: Vec<usize> = (0..lines.len()).filter(|&i| out[i].is_none()).collect();
        let asked: Vec<&str> = left.iter().map(|&i| lines[i]).collect();
        for (i, answer) in left.into_iter().zip(self.judge(&asked)) {
            cache.add(&key(lines[i]), &answer);
            out[i] = Some(answer);
        }
        out.into_iter().flatten().collect()
    }

    /// The errors of a whole module: line (0 where none is named) and message; none where it is taken.
    pub fn judge_module(&self, module: &str, cache: &Cache) -> Vec<(usize, String)> {
        let key = format!("{} {}", self.target, module.replace('\t', " ").replace('\n', "\\n"));
        let placed = |list: &Vec<String>| -> Vec<(usize, String)> {
            let one = |m: &String| m.split_once(' ').map(|(n, m)| (n.parse().unwrap_or(0), m.to_string()));
            list.iter().filter_map(one).collect()
        };
        if let Some(known) = cache.known.get(&key) {
            return placed(known);
        }
        let mut out: Vec<String> = Vec::new();
        if let Err(text) = self.run(module) {
            out = messages(&text).into_iter().map(|(line, message, _)| format!("{line} {message}")).collect();
            let fatal =
                text.lines().filter_map(|l| l.strip_prefix("ptxas fatal   : ")).map(|m| format!("0 {}", m.trim()));
            let error =
                text.lines().filter_map(|l| l.strip_prefix("ptxas error   : ")).map(|m| format!("0 {}", m.trim()));
            out.extend(fatal.chain(error).filter(|m| !m.ends_with("aborted due to errors")));
            if out.is_empty() {
                out.push(format!("0 {CRASH}"));
            }
        }
        cache.add(&key, &out);
        placed(&out)
    }

    fn some(&self, lines: &[&str], mut left: Vec<usize>, out: &mut [Vec<String>]) {
        let head = head(self.version, self.target);
        let first = head.lines().count();
        // Every round takes out what it refuses: an error hides those of later phases, a syntax error all others.
        while !left.is_empty() {
            let body: String = left.iter().map(|&i| format!("{}\n", lines[i])).collect();
            let Err(text) = self.run(&format!("{head}{body}{TAIL}")) else { return };
            let mut hit = vec![Vec::new(); left.len()];
            for (line, message, fatal) in messages(&text) {
                if let Some(at) = line.checked_sub(first + 1)
                    && at < left.len()
                {
                    if fatal {
                        hit.iter_mut().for_each(Vec::clear);
                    }
                    hit[at].push(message);
                }
            }
            if hit.iter().all(Vec::is_empty) {
                if let [one] = left[..] {
                    let crash = text.trim().is_empty() || text.contains("Internal compiler error");
                    // Some messages have no place.
                    let plain =
                        text.lines().filter_map(|l| l.strip_prefix("ptxas fatal   : ")).map(|m| m.trim().to_string());
                    let plain: Vec<String> = plain.collect();
                    out[one] = if crash {
                        vec![CRASH.to_string()]
                    } else if plain.is_empty() {
                        vec![text]
                    } else {
                        plain
                    };
                    return;
                }
                let tail = left.split_off(left.len() / 2);
                self.some(lines, tail, out);
                continue;
            }
            let mut next = Vec::new();
            for (i, found) in left.into_iter().zip(hit) {
                if found.is_empty() {
                    next.push(i);
                } else {
                    // Its own routines, into which it expands some instructions, are none of ours.
                    let inner = |m: &String| {
                        m.contains("Internal compiler error") || m.contains("'_gen_proto'") || m.contains("'__cuda_")
                    };
                    out[i] = if found.iter().any(inner) { vec![CRASH.to_string()] } else { found };
                }
            }
            left = next;
        }
    }

    fn run(&self, text: &str) -> Result<(), String> {
        let (input, output) = (self.dir.join("a.ptx"), self.dir.join("a.cubin"));
        std::fs::write(&input, text).expect("writable");
        let log = self.dir.join("log");
        let file = std::fs::File::create(&log).expect("writable");
        let mut command = Command::new(self.ptxas);
        command.arg(format!("-arch={}", self.target)).arg(&input).arg("-o").arg(&output);
        command.stdout(file.try_clone().expect("a second handle")).stderr(file);
        let mut child = command.spawn().expect("ptxas runs");
        let start = Instant::now();
        // A few inputs make it compute for ever.
        while start.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait().expect("a child") {
                let text = || String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
                return if status.success() { Ok(()) } else { Err(text()) };
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = child.kill();
        let _ = child.wait();
        Err("no answer".to_string())
    }
}

/// Answers of the tool to earlier runs, in the file that the variable `SASSAFRAS_CONFORMANCE_CACHE` names, if it names one: a
/// line each, the instruction and the messages with tabs between.
pub struct Cache {
    known: HashMap<String, Vec<String>>,
    file: Option<Mutex<File>>,
}

impl Cache {
    /// Reads the file; one of another version of the tool is begun anew.
    pub fn open(ptxas: &Path) -> Self {
        let mut known = HashMap::new();
        let Some(path) = std::env::var_os("SASSAFRAS_CONFORMANCE_CACHE") else { return Cache { known, file: None } };
        let version = Command::new(ptxas).arg("--version").output().expect("ptxas runs").stdout;
        let version = String::from_utf8_lossy(&version).lines().last().unwrap_or_default().to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let same = text.lines().next() == Some(&version);
        for line in text.lines().skip(1).filter(|_| same) {
            let mut parts = line.split('\t').map(str::to_string);
            known.insert(parts.next().unwrap_or_default(), parts.collect());
        }
        let mut file = File::options().create(true).write(true).truncate(!same).open(&path).expect("a writable cache");
        file.seek(SeekFrom::End(0)).expect("a file");
        if !same {
            writeln!(file, "{version}").expect("a writable cache");
        }
        Cache { known, file: Some(Mutex::new(file)) }
    }

    fn add(&self, key: &str, answer: &[String]) {
        let Some(Ok(mut file)) = self.file.as_ref().map(Mutex::lock) else { return };
        let line: String = [key].into_iter().chain(answer.iter().map(String::as_str)).collect::<Vec<_>>().join("\t");
        // A tool that failed says many lines; that is no answer to keep.
        if !line.contains('\n') {
            writeln!(file, "{line}").expect("a writable cache");
        }
    }
}

/// Stands for the message where the tool itself fails.
pub const CRASH: &str = "the tool fails";

/// How long the tool may take for one file.
const PATIENCE: Duration = Duration::from_secs(20);

/// Line, message, and whether it is a syntax error, of each error with a line.
fn messages(text: &str) -> Vec<(usize, String, bool)> {
    let mut out = Vec::new();
    for line in text.lines() {
        let Some((place, rest)) = line.split_once("; ") else { continue };
        let Some(number) = place.rsplit_once(", line ").and_then(|(_, n)| n.parse().ok()) else { continue };
        for severity in ["error   : ", "fatal   : "] {
            if let Some(message) = rest.strip_prefix(severity) {
                out.push((number, message.to_string(), message.starts_with("Parsing error")));
            }
        }
    }
    out
}
