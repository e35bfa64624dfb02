//! How fast PTX is read and checked: a long text made of the kernels of the corpus, over and over under new names.

use crate::cost;
use std::collections::HashSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Megabytes of the texts: time and memory must grow with them and no faster.
const SIZES: [usize; 3] = [25, 100, 400];

/// Prints a line for each size, and how long it takes to start.
pub fn run(release: &Path, work: &Path) -> Result<(), String> {
    let tool = release.join("sassafras");
    let kernels = kernels()?;
    println!("reading PTX: bytes       parse s  check s   MB/s   memory/bytes");
    for size in SIZES {
        let file = work.join("reading.ptx");
        std::fs::write(&file, text(&kernels, size * 1_000_000)).map_err(|e| e.to_string())?;
        // The best of several: what else the machine does is not of interest.
        let mut best = (f64::MAX, f64::MAX, 0);
        for _ in 0..if size > SIZES[0] { 2 } else { 7 } {
            let (parse, check, kib) = once(&tool, &file)?;
            if parse + check < best.0 + best.1 {
                best = (parse, check, kib);
            }
        }
        let (parse, check, kib) = best;
        let bytes = std::fs::metadata(&file).map_err(|e| e.to_string())?.len() as f64;
        println!(
            "{bytes:>22} {parse:>11.3} {check:>8.3} {:>6.0} {:>14.2}",
            bytes / 1e6 / (parse + check),
            kib as f64 * 1024.0 / bytes
        );
        std::fs::remove_file(&file).map_err(|e| e.to_string())?;
    }
    let small =
        testkit::corpus().into_iter().find(|f| f.ends_with("saxpy.ptx")).ok_or("saxpy.ptx is not in the corpus")?;
    let mut start = f64::MAX;
    for _ in 0..20 {
        let begin = std::time::Instant::now();
        let status = Command::new(release.join("sassafras")).arg("check").arg(&small).stdout(Stdio::null()).status();
        if !status.map_err(|e| e.to_string())?.success() {
            return Err(format!("{} does not pass", small.display()));
        }
        start = start.min(begin.elapsed().as_secs_f64());
    }
    println!("checking saxpy.ptx: {:.2} ms in all", start * 1e3);
    Ok(())
}

/// Seconds of parsing and of checking, and the peak memory.
fn once(tool: &Path, file: &Path) -> Result<(f64, f64, i64), String> {
    let (mut command, note) = cost::launcher(tool)?;
    command.args(["check", "--time", "--arch", "sm_90a"]).arg(file).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let mut out = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        std::io::Read::read_to_string(&mut pipe, &mut out).map_err(|e| e.to_string())?;
    }
    let (code, cost) = note.wait(child)?;
    let figures: Vec<f64> = out.split_whitespace().filter_map(|w| w.parse().ok()).collect();
    match (code, figures.as_slice()) {
        (0, &[_, parse, check]) => Ok((parse, check, cost.kib)),
        _ => Err(format!("{}: {code}\n{out}", tool.display())),
    }
}

/// The corpus without headers: each with the names that a second copy must not have.
fn kernels() -> Result<Vec<(String, HashSet<String>)>, String> {
    let mut out = Vec::new();
    for file in testkit::corpus() {
        let source = std::fs::read_to_string(&file).map_err(|e| e.to_string())?;
        let (module, diags) = ptx::parse(&source);
        if diags.iter().any(|d| d.is_error()) {
            return Err(format!("{} does not parse", file.display()));
        }
        // There is room for one copy of constants only.
        if module.vars.iter().any(|v| v.space == ptx::types::Space::Const) {
            continue;
        }
        let vars = module.vars.iter().filter(|v| v.scope.is_none()).map(|v| &v.name);
        let names = vars.chain(module.funcs.iter().map(|f| &f.name)).cloned().collect();
        let header =
            |l: &&str| [".version", ".target", ".address_size", ".file"].iter().any(|w| l.trim().starts_with(w));
        let body: Vec<&str> = source.lines().filter(|l| !header(l)).collect();
        out.push((body.join("\n") + "\n", names));
    }
    Ok(out)
}

/// A module of at least so many bytes.
fn text(kernels: &[(String, HashSet<String>)], bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + (1 << 20));
    out.push_str(".version 9.0\n.target sm_90a\n.address_size 64\n.file 1 \"kernels.cu\"\n.file 2 \"header.h\"\n");
    for (copy, (body, names)) in kernels.iter().cycle().enumerate() {
        if out.len() >= bytes {
            break;
        }
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%');
        let mut rest = body.as_str();
        while let Some(start) = rest.find(word) {
            let end = rest[start..].find(|c| !word(c)).map_or(rest.len(), |n| start + n);
            out.push_str(&rest[..end]);
            if !rest[..start].ends_with('.') && names.contains(&rest[start..end]) {
                out += &format!("_{copy}");
            }
            rest = &rest[end..];
        }
        out.push_str(rest);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn copies_are_one_legal_module() {
        let text = super::text(&super::kernels().unwrap(), 1_500_000);
        let (module, mut diags) = ptx::parse(&text);
        diags.extend(ptx::check(&module, arch::Target::parse("sm_90a").as_ref()));
        let errors: Vec<_> = diags.iter().filter(|d| d.is_error()).take(3).collect();
        assert!(errors.is_empty(), "{errors:?}");
        assert!(module.funcs.len() > 100);
    }
}
