//! `sassafras run`: a kernel of a PTX file or a cubin, on the CPU.

use crate::compile::{self, Kind, Request};
use crate::report::{self, Style};
use crate::tools::{only, read, take};
use arch::Target;
use diag::Diagnostic;
use diag::render::Source;
use sim::timing::Latencies;
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
    let trace = args.iter().position(|a| a == "--trace").map(|i| args.remove(i)).is_some();
    let latencies = match take(&mut args, "--latency")? {
        Some(list) => latencies(&list)?,
        None => Latencies::default(),
    };
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
    // What is traced is its own progress.
    let bar = crate::progress::Bar::new(!trace);
    let config = Config { progress: Some(bar.counters()), ..Config::default() };
    let sass = |cubin: &[u8]| {
        if trace {
            let each = |s: &sim::Step| {
                let [x, y, z] = s.cta;
                let (lanes, text) = (s.active, &s.text);
                report::out(&format!("({x},{y},{z}) warp {} {lanes:08x} {:06x} {text}\n", s.warp, s.offset));
            };
            sim::trace_sass(cubin, &launch, &config, Box::new(each)).map(|o| (o, None))
        } else if timing {
            sim::time_sass(cubin, &launch, &config, &latencies).map(|(o, t)| (o, Some(t)))
        } else {
            sim::run_sass(cubin, &launch, &config).map(|o| (o, None))
        }
    };
    if trace && !is_cubin && !by_sass {
        return Err("--trace shows machine code: give a cubin, or --engine sass".into());
    }
    let outcome = if is_cubin {
        sass(&text)
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
            match compile::compile(&module, &Request::new(target, Kind::Executable)) {
                Ok(output) => sass(&output.cubin),
                Err(list) => {
                    show(&list, &source);
                    return Ok(1);
                }
            }
        } else {
            sim::run_ptx(&module, &launch, &config).map(|o| (o, None))
        }
    };
    drop(bar);
    let (outcome, estimate) = match outcome {
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
        if let Some(t) = &estimate {
            report::out(&t.report());
        }
        let cycles =
            if s.cycles > 0 && estimate.is_none() { format!(", about {} cycles", s.cycles) } else { String::new() };
        report::out(&format!(
            "{} warp instructions, {} thread instructions{cycles}\n",
            s.warp_instructions, s.thread_instructions
        ));
    }
    Ok(0)
}

/// `global=600,local=40,texture=700,shared=25,constant=40,operands=15,sectors=2,sms=132`: what the estimate assumes, where it is not the default.
fn latencies(list: &str) -> Result<Latencies, String> {
    let mut l = Latencies::default();
    for part in list.split(',') {
        let bad = || {
            format!(
                "--latency takes global=, local=, texture=, shared=, constant=, operands=, sectors= and sms= with a number, not '{part}'"
            )
        };
        let (name, value) = part.split_once('=').ok_or_else(bad)?;
        let whole = || value.parse::<u32>().map_err(|_| bad());
        match name {
            "global" => l.global = whole()?,
            "local" => l.local = whole()?,
            "texture" => l.texture = whole()?,
            "shared" => l.shared = whole()?,
            "constant" => l.constant = whole()?,
            "operands" => l.operands = whole()?,
            "sectors" => l.sectors = value.parse().ok().filter(|&s: &f64| s > 0.0).ok_or_else(bad)?,
            "sms" => l.sms = whole()?.max(1),
            _ => return Err(bad()),
        }
    }
    Ok(l)
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
