//! `sassafras run`: a kernel of a PTX file or a cubin, on the CPU.

use crate::compile::{self, Request};
use crate::report::{self, Style};
use crate::tools::{only, read, take};
use arch::Target;
use diag::Diagnostic;
use diag::render::Source;
use sim::{Config, Launch};
use std::path::{Path, PathBuf};

/// Runs the command; 1 on any mistake or fault.
pub fn main(args: &[String]) -> u8 {
    run(args).unwrap_or_else(|message| report::fail(&message))
}

fn show(list: &[Diagnostic], source: &Source) {
    for d in list {
        report::show("sassafras", d, source, Style::Pretty);
    }
}

fn run(args: &[String]) -> Result<u8, String> {
    let mut args = args.to_vec();
    let launch_file = take(&mut args, "--launch")?.ok_or("--launch FILE.toml is missing")?;
    let out = take(&mut args, "--out")?;
    let target = take(&mut args, "--arch")?.unwrap_or_else(|| "sm_90".into());
    let target = Target::parse(&target).ok_or_else(|| format!("unknown target '{target}'"))?;
    let engine = take(&mut args, "--engine")?;
    let timing = args.iter().position(|a| a == "--timing").map(|i| args.remove(i)).is_some();
    let path = only(&args, "the module to run")?;
    let text = read(&path)?;
    let is_cubin = text.starts_with(b"\x7fELF");
    let by_sass = match engine.as_deref() {
        Some("sass") => true,
        Some("ptx") if is_cubin => return Err("a cubin runs on the engine 'sass' only".into()),
        Some("ptx") => false,
        Some(other) => return Err(format!("--engine takes ptx or sass, not '{other}'")),
        None => is_cubin,
    };

    let folder = Path::new(&launch_file).parent().map(Path::to_path_buf).unwrap_or_default();
    let launch_text = read(&launch_file)?;
    let launch_text = String::from_utf8(launch_text).map_err(|_| format!("'{launch_file}' is not UTF-8"))?;
    let mut open = |file: &str| std::fs::read(folder.join(file)).map_err(|e| e.to_string());
    let launch = match Launch::parse(&launch_text, &mut open) {
        Ok(launch) => launch,
        Err(list) => {
            show(&list, &Source::new(launch_file, launch_text.as_bytes()));
            return Ok(1);
        }
    };

    let source = Source::new(path, &text);
    let config = Config::default();
    let outcome = if is_cubin {
        sim::run_sass(&text, &launch, &config)
    } else {
        let (module, mut list) = ptx::parse_bytes(&text);
        if !list.iter().any(Diagnostic::is_error) {
            list.extend(ptx::check(&module, Some(&target)));
        }
        show(&list, &source);
        if list.iter().any(Diagnostic::is_error) {
            return Ok(1);
        }
        if by_sass {
            let request = Request {
                target,
                fmad: true,
                verify: false,
                print_after: None,
                max_registers: None,
                options: format!("-arch {target} "),
            };
            match compile::compile(&module, &request) {
                Ok(output) => sim::run_sass(&output.cubin, &launch, &config),
                Err(list) => {
                    show(&list, &source);
                    return Ok(1);
                }
            }
        } else {
            sim::run_ptx(&module, &launch, &config)
        }
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(fault) => {
            show(&[Diagnostic::from(*fault)], &source);
            return Ok(1);
        }
    };

    report::out(&String::from_utf8_lossy(&outcome.printed));
    for (name, bytes) in launch.outputs().into_iter().zip(&outcome.buffers) {
        let Some(name) = name else { continue };
        report::out(&format!("{name}: {}\n", summary(bytes)));
        if let Some(folder) = &out {
            let path: PathBuf = Path::new(folder).join(Path::new(name).file_name().unwrap_or(name.as_ref()));
            std::fs::create_dir_all(folder).map_err(|e| format!("cannot make '{folder}': {e}"))?;
            crate::files::write(&path, bytes).map_err(|e| format!("cannot write '{}': {e}", path.display()))?;
        }
    }
    if timing {
        let s = &outcome.stats;
        let cycles = if s.cycles > 0 { format!(", about {} cycles", s.cycles) } else { String::new() };
        report::out(&format!(
            "{} warp instructions, {} thread instructions{cycles}\n",
            s.warp_instructions, s.thread_instructions
        ));
    }
    Ok(0)
}

/// Size, and the first words as numbers: integers and, where they look like such, floats.
fn summary(bytes: &[u8]) -> String {
    let words: Vec<u32> = bytes.chunks_exact(4).take(8).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let float = |w: &u32| *w == 0 || (0x2000_0000..0x6000_0000).contains(&(w & 0x7fff_ffff));
    let shown: Vec<String> = if words.iter().all(float) && words.iter().any(|&w| w != 0) {
        words.iter().map(|&w| f32::from_bits(w).to_string()).collect()
    } else {
        words.iter().map(|&w| (w as i32).to_string()).collect()
    };
    let more = if bytes.len() > 32 { ", ..." } else { "" };
    format!("{} bytes: {}{more}", bytes.len(), shown.join(", "))
}
