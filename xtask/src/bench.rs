//! Ours against the vendor's newest ptxas in one run: CPU seconds and peak memory over the corpus and over generated
//! programs, static code size, registers, spills. Figures are of this machine and this run; the ratios are what counts.

use crate::cost::{self, Cost};
use crate::{oracle, root, test};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Above this ratio of instructions a kernel needs a line in [`REASONS`].
const MOST: f64 = 1.5;

/// Kernels with more code than [`MOST`] times the vendor's, and why.
const REASONS: [(&str, &str); 0] = [];

/// Statements and live values of the generated programs.
const SIZES: [usize; 4] = [1_000, 4_000, 16_000, 64_000];
const LIVE: [usize; 2] = [40, 300];

/// Runs the benchmark and prints its tables.
pub fn run(args: &[String]) -> Result<(), String> {
    const PARTS: [&str; 5] = ["compiling", "reading", "listing", "simulating", "linking"];
    if args.iter().any(|a| !PARTS.contains(&a.as_str())) {
        return Err(format!("usage: cargo xtask bench [{}]", PARTS.join("] [")));
    }
    let wanted = |part: &str| args.is_empty() || args.iter().any(|a| a == part);
    let (vendor, disassembler) = (oracle::tool("ptxas")?, oracle::tool("nvdisasm")?);
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras"])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let ours = target.join("release/ptxas");
    let work = target.join("bench");
    std::fs::create_dir_all(&work).map_err(|e| e.to_string())?;
    let mut unexplained = Vec::new();
    if wanted("compiling") {
        unexplained = corpus(&vendor, &ours, &disassembler, &work)?;
        generated(&vendor, &ours, &work)?;
    }
    if wanted("reading") {
        crate::reading::run(&target.join("release"), &work)?;
    }
    if wanted("listing") {
        let largest = work.join(LARGEST);
        if !largest.is_file() {
            let file = work.join("largest.ptx");
            std::fs::write(&file, program(SIZES[SIZES.len() - 1], LIVE[LIVE.len() - 1])).map_err(|e| e.to_string())?;
            compile(&vendor, &file, "sm_90", &largest)?;
        }
        listings(&disassembler, &target.join("release/nvdisasm"), &work)?;
    }
    if wanted("simulating") {
        simulators(&vendor, &target.join("release"), &work)?;
    }
    if wanted("linking") {
        crate::linking::bench(&oracle::tool("nvlink")?, &vendor, &target.join("release/nvlink"), &work)?;
    }
    match unexplained.as_slice() {
        [] => Ok(()),
        list => Err(format!("more than {MOST} times the vendor's code, without a reason: {}", list.join(", "))),
    }
}

fn corpus(vendor: &Path, ours: &Path, disassembler: &Path, work: &Path) -> Result<Vec<String>, String> {
    println!(
        "kernel                    instructions vendor   ours  ratio  registers vendor ours  spill bytes vendor ours"
    );
    let (mut total, mut cost) = ([0usize; 2], [Cost::default(); 2]);
    let mut unexplained = Vec::new();
    for file in testkit::corpus() {
        let name = file.file_stem().unwrap_or_default().to_string_lossy().to_string();
        let text = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let arch = testkit::oracle::arch(&text);
        let mut row = [(0usize, 0u32, 0u32); 2];
        for (i, tool) in [vendor, ours].into_iter().enumerate() {
            let out = work.join("k.cubin");
            let (c, log) = compile(tool, &file, arch, &out)?;
            cost[i].cpu += c.cpu;
            cost[i].kib = cost[i].kib.max(c.kib);
            row[i] =
                (instructions(disassembler, &out)?, number(&log, "Used ", true), number(&log, " bytes spill", false));
            total[i] += row[i].0;
        }
        let ratio = row[1].0 as f64 / row[0].0 as f64;
        let reason = REASONS.iter().find(|r| r.0 == name).map(|r| r.1);
        println!(
            "{name:<25} {:>19} {:>6} {ratio:>6.2} {:>17} {:>4} {:>18} {:>4}",
            row[0].0, row[1].0, row[0].1, row[1].1, row[0].2, row[1].2
        );
        if ratio > MOST {
            match reason {
                Some(why) => println!("  why: {why}"),
                None => unexplained.push(name),
            }
        }
    }
    println!(
        "total instructions: vendor {}, ours {}, ratio {:.3}",
        total[0],
        total[1],
        total[1] as f64 / total[0] as f64
    );
    println!(
        "corpus: CPU vendor {:.2} s, ours {:.2} s, ratio {:.3}; peak memory vendor {} KiB, ours {} KiB, ratio {:.3}",
        cost[0].cpu,
        cost[1].cpu,
        cost[1].cpu / cost[0].cpu,
        cost[0].kib,
        cost[1].kib,
        cost[1].kib as f64 / cost[0].kib as f64
    );
    Ok(unexplained)
}

fn generated(vendor: &Path, ours: &Path, work: &Path) -> Result<(), String> {
    println!(
        "statements  live   CPU s vendor    ours  ratio   memory KiB vendor    ours  ratio   ours: us a statement"
    );
    for live in LIVE {
        for size in SIZES {
            let file = work.join(format!("generated_{size}_{live}.ptx"));
            std::fs::write(&file, program(size, live)).map_err(|e| e.to_string())?;
            let out = work.join("g.cubin");
            let (v, _) = compile(vendor, &file, "sm_90", &work.join(LARGEST))?;
            let (o, _) = compile(ours, &file, "sm_90", &out)?;
            println!(
                "{size:>10} {live:>5} {:>14.2} {:>7.2} {:>6.3} {:>19} {:>7} {:>6.3} {:>14.2}",
                v.cpu,
                o.cpu,
                o.cpu / v.cpu,
                v.kib,
                o.kib,
                o.kib as f64 / v.kib as f64,
                o.cpu * 1e6 / size as f64
            );
        }
    }
    Ok(())
}

/// A program that does nothing: how long a tool takes to start.
const SMALLEST: &str = ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k() { ret; }\n";

/// The vendor's code of the last generated program, the largest at hand.
const LARGEST: &str = "largest.cubin";

/// Disassembling: our tool beside the vendor's on the largest cubin, how long it takes to start, and the decoder alone.
fn listings(vendor: &Path, ours: &Path, work: &Path) -> Result<(), String> {
    let file = work.join(LARGEST);
    let bytes = std::fs::read(&file).map_err(|e| e.to_string())?;
    let small = work.join("smallest.cubin");
    let text = work.join("smallest.ptx");
    std::fs::write(&text, SMALLEST).map_err(|e| e.to_string())?;
    compile(&oracle::tool("ptxas")?, &text, "sm_90", &small)?;
    // CPU seconds: the machine may be busy with other things.
    let timed = |tool: &Path, args: &[&str], file: &Path| -> Result<f64, String> {
        let (mut command, note) = cost::launcher(tool)?;
        let child = command.args(args).arg(file).stdout(std::process::Stdio::null()).spawn();
        match note.wait(child.map_err(|e| e.to_string())?)? {
            (0, cost) => Ok(cost.cpu),
            _ => Err(format!("{} failed on {}", tool.display(), file.display())),
        }
    };
    let median = |tool: &Path, args: &[&str], file: &Path, runs: usize| -> Result<f64, String> {
        let mut all = (0..runs).map(|_| timed(tool, args, file)).collect::<Result<Vec<f64>, String>>()?;
        all.sort_by(f64::total_cmp);
        Ok(all[runs / 2])
    };
    let (theirs, listing) = (median(vendor, &["-c"], &file, 3)?, median(ours, &["-c"], &file, 9)?);
    let (slow, start) = (median(vendor, &["-c"], &small, 5)?, median(ours, &["-c"], &small, 51)?);
    let elf = cubin::elf::Elf::read(&bytes).map_err(|d| d.message)?;
    let code = elf.sections.iter().filter(|s| s.name.starts_with(".text."));
    let words: Vec<String> = code
        .flat_map(|s| s.data.chunks_exact(16))
        .filter_map(|c| Some(format!("{:032x}", u128::from_le_bytes(c.try_into().ok()?))))
        .collect();
    println!(
        "disassembling {} instructions, CPU: vendor {theirs:.3} s, ours {listing:.3} s, {:.1} times as fast",
        words.len(),
        theirs / listing
    );
    println!(
        "disassembling an empty kernel, CPU: vendor {:.1} ms, ours {:.2} ms (median of 51), {:.0} times as fast",
        slow * 1e3,
        start * 1e3,
        slow / start
    );
    let list = work.join("words.txt");
    std::fs::write(&list, words.join("\n")).map_err(|e| e.to_string())?;
    let input = std::fs::File::open(&list).map_err(|e| e.to_string())?;
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras-sass", "--example", "speed"])?;
    let speed = ours.with_file_name("examples").join("speed");
    match Command::new(&speed).stdin(input).status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{}: {other:?}", speed.display())),
    }
}

/// Both engines of the simulator on a kernel that does nothing but compute, and their peak memory. All checks are on.
fn simulators(vendor: &Path, release: &Path, work: &Path) -> Result<(), String> {
    let (ptx, launch, cubin) = (work.join("compute.ptx"), work.join("compute.toml"), work.join("compute.cubin"));
    std::fs::write(&ptx, compute()).map_err(|e| e.to_string())?;
    let text = "kernel = \"k\"\ngrid = [64]\nblock = [128]\n[[arg]]\nbuffer = { bytes = 32768, fill = 0 }\n[[arg]]\nu32 = 300\n";
    std::fs::write(&launch, text).map_err(|e| e.to_string())?;
    compile(vendor, &ptx, "sm_90", &cubin)?;
    test::cargo(&["build", "--release", "--quiet", "-p", "sassafras-sim", "--example", "speed"])?;
    let (mut command, note) = cost::launcher(&release.join("examples/speed"))?;
    let child = command.args([&ptx, &launch]).arg("3").arg(&cubin).spawn();
    let (code, cost) = note.wait(child.map_err(|e| e.to_string())?)?;
    println!("simulators: peak memory {} KiB", cost.kib);
    if code == 0 { Ok(()) } else { Err(format!("the simulators ended with {code}")) }
}

/// A kernel whose loop computes with integers, floats and predicates and touches no memory.
fn compute() -> String {
    let mut body = String::new();
    for k in 0..6 {
        let r = |n: usize| format!("%r{}", (k + n) % 4);
        let f = |n: usize| format!("%f{}", (k + n) % 4);
        body += &format!("fma.rn.f32 {}, {}, {}, {};\n", f(0), f(1), f(2), f(0));
        body += &format!("xor.b32 {}, {}, {};\n", r(0), r(1), r(0));
        body += &format!("mad.lo.u32 {}, {}, {}, {};\n", r(2), r(0), r(3), r(1));
        body += &format!("shf.l.wrap.b32 {}, {}, {}, 7;\n", r(1), r(0), r(1));
        body += &format!("lop3.b32 {}, {}, {}, {}, 0xe8;\n", r(3), r(0), r(1), r(2));
        body += &format!("add.f32 {}, {}, {};\n", f(1), f(1), f(3));
        body += &format!("add.u32 {}, {}, {};\n", r(0), r(0), r(2));
        body += &format!("setp.lt.u32 %p1, {}, {};\n", r(0), r(1));
        body += &format!("selp.b32 {}, {}, {}, %p1;\n", r(2), r(0), r(2));
    }
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n) {{
.reg .b64 %d<4>; .reg .b32 %r<16>; .reg .f32 %f<8>; .reg .pred %p<3>;
ld.param.u64 %d1, [p]; ld.param.u32 %r10, [n];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, 0x9e3779b9; add.u32 %r3, %r0, %r1;
mov.u32 %r12, %ntid.x; mad.lo.u32 %r13, %r1, %r12, %r0;
cvt.rn.f32.u32 %f0, %r0; mov.f32 %f1, 0f3f000000; mov.f32 %f2, 0f3e000000; mov.f32 %f3, 0f3d800000;
L:\n{body}
sub.u32 %r10, %r10, 1; setp.ne.u32 %p2, %r10, 0; @%p2 bra L;
add.f32 %f0, %f0, %f1; add.f32 %f2, %f2, %f3; add.f32 %f0, %f0, %f2; mov.b32 %r14, %f0;
xor.b32 %r0, %r0, %r1; xor.b32 %r2, %r2, %r3; xor.b32 %r0, %r0, %r2; xor.b32 %r0, %r0, %r14;
mul.wide.u32 %d2, %r13, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r0; ret; }}\n"
    )
}

/// Runs a compiler on a file; gives what it took and what `-v` printed.
fn compile(tool: &Path, file: &Path, arch: &str, out: &Path) -> Result<(Cost, String), String> {
    let (code, cost, text) = compile_any(tool, file, arch, &["-fmad=false"], out)?;
    if code != 0 {
        return Err(format!("{} failed on {}:\n{text}", tool.display(), file.display()));
    }
    Ok((cost, text))
}

/// The same where it may fail; gives the exit code, too.
pub fn compile_any(
    tool: &Path,
    file: &Path,
    arch: &str,
    options: &[&str],
    out: &Path,
) -> Result<(i32, Cost, String), String> {
    let log = out.with_extension("log");
    // Ours leaves a file that has the same bytes already, which the first of several runs would have made.
    let _ = std::fs::remove_file(out);
    let sink = std::fs::File::create(&log).map_err(|e| e.to_string())?;
    let (mut command, note) = cost::launcher(tool)?;
    command.arg(format!("-arch={arch}")).args(options).args(["-v", "-o"]).arg(out).arg(file);
    command.stdout(sink.try_clone().map_err(|e| e.to_string())?).stderr(sink);
    let child = command.spawn().map_err(|e| format!("cannot run {}: {e}", tool.display()))?;
    let (code, cost) = note.wait(child)?;
    Ok((code, cost, std::fs::read_to_string(&log).unwrap_or_default()))
}

/// Instructions in a cubin, NOPs left out, as the vendor's nvdisasm lists them.
fn instructions(disassembler: &Path, cubin: &Path) -> Result<usize, String> {
    let run = Command::new(disassembler).arg("-c").arg(cubin).output().map_err(|e| e.to_string())?;
    if !run.status.success() {
        return Err(format!("nvdisasm: {}", String::from_utf8_lossy(&run.stderr)));
    }
    let text = String::from_utf8_lossy(&run.stdout);
    let is = |l: &&str| {
        let l = l.trim_start();
        l.starts_with("/*") && l.ends_with(';') && !l.contains(" NOP")
    };
    Ok(text.lines().filter(is).count())
}

/// The largest number behind (or, summed, before) a word in a log.
pub fn number(log: &str, word: &str, behind: bool) -> u32 {
    let mut out = 0;
    for line in log.lines() {
        for (at, _) in line.match_indices(word) {
            let digits = |s: &str| s.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
            if behind {
                out = out.max(digits(&line[at + word.len()..]));
            } else {
                let before: String = line[..at].chars().rev().take_while(char::is_ascii_digit).collect();
                out += before.chars().rev().collect::<String>().parse().unwrap_or(0);
            }
        }
    }
    out
}

/// A seeded program of about `size` statements over `live` values that are all alive to its end: integer arithmetic,
/// with a short divergent branch now and then.
pub fn program(size: usize, live: usize) -> String {
    let mut state = (size as u64) << 20 | live as u64 | 1;
    let mut next = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    };
    let mut out = format!(
        ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry generated(.param .u64 p)\n{{\n\
         .reg .b32 %r<{live}>;\n.reg .pred %p<2>;\n.reg .b64 %d<2>;\nld.param.u64 %d0, [p];\nmov.u32 %r0, %tid.x;\n\
         mul.wide.u32 %d1, %r0, {};\nadd.s64 %d0, %d0, %d1;\n",
        4 * live
    );
    for i in 0..live {
        out += &format!("ld.global.u32 %r{i}, [%d0+{}];\n", 4 * i);
    }
    let ops = ["add.s32", "sub.s32", "mul.lo.s32", "xor.b32", "and.b32", "or.b32", "min.s32", "max.u32"];
    let (mut written, mut labels) = (0, 0);
    while written < size {
        let branch = next(50) == 0;
        let body = if branch { 3 + next(17) } else { 1 };
        if branch {
            labels += 1;
            out += &format!("setp.lt.s32 %p1, %r{}, %r{};\n@%p1 bra L{labels};\n", next(live), next(live));
        }
        for _ in 0..body {
            out += &format!("{} %r{}, %r{}, %r{};\n", ops[next(ops.len())], next(live), next(live), next(live));
        }
        if branch {
            out += &format!("L{labels}:\n");
        }
        written += body + 2 * branch as usize;
    }
    for i in 0..live {
        out += &format!("st.global.u32 [%d0+{}], %r{i};\n", 4 * i);
    }
    out + "ret;\n}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_programs_are_valid_and_of_their_size() {
        for live in LIVE {
            let text = program(1000, live);
            let (m, d) = ptx::parse(&text);
            assert!(!d.iter().any(|d| d.is_error()), "{d:?}");
            assert_eq!(m.funcs.len(), 1);
            let statements = text.matches(';').count();
            assert!((1000..1100 + 2 * live).contains(&statements), "{statements}");
            assert_eq!(text, program(1000, live), "the same every time");
        }
    }

    #[test]
    fn numbers_are_found_in_logs() {
        let log =
            "    0 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\nptxas info    : Used 18 registers";
        assert_eq!(number(log, " bytes spill", false), 20);
        assert_eq!(number(log, "Used ", true), 18);
    }
}
