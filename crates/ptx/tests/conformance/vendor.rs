//! What the vendor's tool says of many single instructions.

use std::path::Path;
use std::process::Command;
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
                    out[one] = vec![if crash { CRASH.to_string() } else { text }];
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
