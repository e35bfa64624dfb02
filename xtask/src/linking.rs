//! The linker, as long as wanted: links of made-up programs beside the vendor's (`crates/link/tests/vendor.rs`), programs of several
//! files (`crates/cli/tests/linking.rs`), mixed linking (`crates/cli/tests/mixed_linking.rs`), and what large links cost.

use crate::cost::{self, Cost};
use crate::test;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs if no range is given.
const ALL: &str = "1..400";

/// Links and runs the programs of the range `args[0]` (`7`, `201..300`).
pub fn run(args: &[String]) -> Result<(), String> {
    let range = match args {
        [] => ALL,
        [range] => range,
        _ => return Err("usage: cargo xtask conformance --linking [FROM..TO]".into()),
    };
    let command = ["test", "--release", "-p", "sassafras", "--test", "mixed_linking", "modules_of_two_compilers_agree"];
    test::cargo_with(&command, &[("SASSAFRAS_SEEDS", range)])
}

/// Links if no number is given, and objects of the large one.
const LINKS: &str = "300";
const OBJECTS: &str = "2000";

/// Links `args[0]` made-up programs beside the vendor's linker, as many whose modules come in files of every kind, a large one, and
/// the programs of `tests/link` for four chips.
pub fn links(args: &[String]) -> Result<(), String> {
    let number = match args {
        [] => LINKS,
        [n] if n.parse::<usize>().is_ok() => n,
        _ => return Err("usage: cargo xtask conformance --links [N]".into()),
    };
    let vendor =
        ["test", "--release", "-p", "sassafras-link", "--test", "vendor", "--test", "kinds", "--", "--nocapture"];
    test::cargo_with(&vendor, &[("SASSAFRAS_LINKS", number), ("SASSAFRAS_LINK_OBJECTS", OBJECTS)])?;
    let programs = ["test", "--release", "-p", "sassafras", "--test", "linking", "--", "--nocapture"];
    test::cargo_with(&programs, &[("SASSAFRAS_LINK_ARCHS", "75,80,90,120")])
}

/// Objects and functions of each of the large links, and how often it is run: the least counts. The vendor's tool takes a minute for
/// the second.
const LARGE: [(usize, usize, usize); 2] = [(400, 20, 5), (2000, 4, 1)];
/// What ours may take of the vendor's time and memory.
const MOST_TIME: f64 = 0.25;
const MOST_MEMORY: f64 = 1.0;

/// Links many objects with both: CPU time and memory of the best of some runs.
pub fn bench(vendor: &Path, ptxas: &Path, ours: &Path, work: &Path) -> Result<(), String> {
    println!("linking (sm_80)           CPU s vendor    ours  ratio   MiB vendor    ours  ratio");
    let mut missed = Vec::new();
    for (objects, functions, runs) in LARGE {
        let files = objects_of(ptxas, work, objects, functions)?;
        let list = work.join("objects.txt");
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        std::fs::write(&list, names.join("\n")).map_err(|e| e.to_string())?;
        let mut best = [Cost { cpu: f64::INFINITY, kib: i64::MAX }; 2];
        for _ in 0..runs {
            for (best, tool) in best.iter_mut().zip([vendor, ours]) {
                let (mut link, note) = cost::launcher(tool)?;
                link.args(["-arch=sm_80", "--options-file"]).arg(&list).arg("-o").arg(work.join("large.cubin"));
                let child = link.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|e| e.to_string())?;
                let (status, cost) = note.wait(child)?;
                if status != 0 {
                    return Err(format!("{} fails on {objects} objects", tool.display()));
                }
                (best.cpu, best.kib) = (best.cpu.min(cost.cpu), best.kib.min(cost.kib));
            }
        }
        let [theirs, mine] = best;
        let (time, memory) = (mine.cpu / theirs.cpu, mine.kib as f64 / theirs.kib as f64);
        println!(
            "{objects:>5} objects, {functions:>2} functions {:9.3} {:7.3} {time:6.2} {:11.1} {:7.1} {memory:6.2}",
            theirs.cpu,
            mine.cpu,
            theirs.kib as f64 / 1024.0,
            mine.kib as f64 / 1024.0,
        );
        if time > MOST_TIME || memory > MOST_MEMORY {
            missed.push(format!("{objects} objects"));
        }
    }
    match missed.as_slice() {
        [] => Ok(()),
        list => {
            Err(format!("linking takes more than {MOST_TIME} of the vendor's time or more memory: {}", list.join(", ")))
        }
    }
}

/// Compiles the modules of a program: each function calls one of the next module, each module has an entry.
fn objects_of(ptxas: &Path, work: &Path, objects: usize, functions: usize) -> Result<Vec<PathBuf>, String> {
    let folder = work.join(format!("link{objects}x{functions}"));
    std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
    let file = |m: usize| folder.join(format!("m{m}.cubin"));
    let compile = |m: usize| -> Result<(), String> {
        if file(m).is_file() {
            return Ok(());
        }
        let text = folder.join(format!("m{m}.ptx"));
        std::fs::write(&text, module(m, objects, functions)).map_err(|e| e.to_string())?;
        let mut command = Command::new(ptxas);
        let done = command.args(["-c", "-arch=sm_80"]).arg(&text).arg("-o").arg(file(m)).output();
        let done = done.map_err(|e| e.to_string())?;
        match done.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
        }
    };
    for m in 0..objects {
        compile(m)?;
    }
    Ok((0..objects).map(file).collect())
}

fn module(m: usize, objects: usize, functions: usize) -> String {
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
    let next = (m + 1) % objects;
    for f in 0..functions {
        if m + 1 < objects {
            let _ = writeln!(text, ".extern .func (.param .b32 r) f{next}_{f} (.param .b32 a);");
        }
        let _ = writeln!(text, ".visible .func (.param .b32 r) f{m}_{f} (.param .b32 a);");
    }
    let _ = writeln!(text, ".visible .global .align 4 .b8 v{m}[64];");
    let call = |name: String| {
        format!(
            "{{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), {name}, (p); ld.param.b32 %r1, [q]; }}"
        )
    };
    for f in 0..functions {
        let inner = if m + 1 < objects { call(format!("f{next}_{f}")) } else { String::new() };
        let _ = writeln!(
            text,
            ".visible .func (.param .b32 r) f{m}_{f} (.param .b32 a) {{ .reg .b32 %r<3>; ld.param.b32 %r1, [a]; \
             st.global.b32 [v{m} + {}], %r1; {inner} st.param.b32 [r], %r1; ret; }}",
            f % 16 * 4
        );
    }
    let _ = writeln!(
        text,
        ".visible .entry k{m}() {{ .reg .b32 %r<3>; mov.u32 %r1, %tid.x; {} ret; }}",
        call(format!("f{m}_0"))
    );
    text
}
