//! `nvlink`: relocatable cubins in, one cubin out, with the vendor's options, messages and exit codes.

mod demangle;
mod files;
mod script;
mod table;

use crate::options::{self, Parsed};
use crate::report;
use arch::{GpuKind, GpuName, Target};
use cubin::image::Tool;
use diag::{Diagnostic, Severity};
use link::input::Inputs;
use link::{Cubin, Keep, Linked, Options};
use std::path::Path;
use std::time::Instant;

const TOOL: &str = "nvlink";
/// What the vendor's tool exits with after a fatal error, and after others.
const FATAL: u8 = 1;
const FAILED: u8 = 255;
/// The newest release whose files are linked, times ten.
const TOOLKIT: u16 = 135;

/// Messages on their way to the user.
struct Messages {
    no_infos: bool,
    no_warnings: bool,
    strict: bool,
    failed: bool,
}

impl Messages {
    fn new(parsed: &Parsed) -> Messages {
        Messages {
            no_infos: parsed.has("disable-infos"),
            no_warnings: parsed.has("disable-warnings"),
            strict: parsed.has("warning-as-error"),
            failed: false,
        }
    }

    fn say(&mut self, severity: Severity, message: &str) {
        let severity = match severity {
            Severity::Info if self.no_infos => return,
            Severity::Warning if self.no_warnings => return,
            Severity::Warning if self.strict => Severity::Error,
            s => s,
        };
        self.failed |= severity >= Severity::Error;
        report::plain(TOOL, severity, message);
    }

    /// Prints errors; gives the exit code.
    fn end(&mut self, errors: Vec<Diagnostic>) -> u8 {
        errors.iter().for_each(|d| self.say(d.severity, &d.message));
        if errors.iter().any(|d| d.severity == Severity::Fatal) { FATAL } else { FAILED }
    }
}

/// Runs the tool; gives the exit code.
pub fn main(args: &[String]) -> u8 {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let parsed = match options::parse(&table::OPTIONS, args, &read) {
        Ok(parsed) => parsed,
        Err(message) => return fatal(&message),
    };
    if parsed.has("help") {
        let names = |long: &str| {
            let quoted = || arch::gpu_names().iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
            (long == "arch").then(quoted)
        };
        report::out(&options::help("nvlink [options] <objects>", &table::OPTIONS, &names));
        return 0;
    }
    if parsed.has("version") {
        report::out(&crate::ptxas::version("nvlink", "Cuda linker"));
        return 0;
    }
    if let Some(kind) = parsed.get("gen-host-linker-script") {
        return script::write(&parsed, kind).unwrap_or_else(|m| fatal(&m));
    }
    run(&parsed, args)
}

fn fatal(message: &str) -> u8 {
    report::fatal(TOOL, message)
}

fn target(parsed: &Parsed) -> Result<Target, String> {
    let name = parsed.get("arch").ok_or("Unknown arch name '(null)'")?;
    let gpu = GpuName::parse(name).ok_or_else(|| format!("Value '{name}' is not defined for option 'arch'"))?;
    match gpu.kind {
        GpuKind::Sm => Ok(gpu.target),
        _ => {
            let m = format!("Link target of '{name}' is virtual target that is not JIT-able; use 'sm_' target instead");
            Err(m)
        }
    }
}

fn run(parsed: &Parsed, args: &[String]) -> u8 {
    let start = Instant::now();
    let mut messages = Messages::new(parsed);
    parsed.warnings.iter().for_each(|w| messages.say(Severity::Warning, w));
    let target = match target(parsed) {
        Ok(target) => target,
        Err(message) => return fatal(&message),
    };
    if let Some(option) = ["dlto", "link-time-opt", "emit-ptx"].iter().find(|o| parsed.has(o)) {
        return fatal(&format!("Link-time optimization (--{option}) is not supported yet"));
    }
    // As the vendor's tool says it of options that need the optimizer.
    if let Some(option) = ["--Ofast-compile", "-nvvm-latest"].iter().find(|o| parsed.has(o.trim_start_matches('-'))) {
        return fatal(&format!("Conflicting options '{option}' and 'no -dlto'"));
    }
    if parsed.has("suppress-debug-info") && !parsed.has("debug") {
        return fatal("Conflicting options '-suppress-debug-info' and 'no -g'");
    }
    if parsed.has("uidx-file") {
        return fatal("Unified functions (--uidx-file) are not supported yet");
    }
    let Some(output) = parsed.get("output-file") else {
        return fatal("Must specify output file with -o option");
    };
    let mut times = vec![("init", start), ("read", Instant::now())];
    let listed = match files::find(parsed) {
        Ok(listed) => listed,
        Err(message) => return fatal(&message),
    };
    if let Some(folder) = parsed.get("save-repro")
        && let Err(message) = files::save(Path::new(folder), &listed, args)
    {
        return fatal(&message);
    }
    let inputs = match files::collect(&listed, target, parsed) {
        Ok(inputs) => inputs,
        Err(errors) => return messages.end(errors),
    };
    if !parsed.has("suppress-arch-warning") {
        inputs.warnings.iter().for_each(|w| messages.say(w.severity, &w.message));
    }
    let keep = keep(parsed, &inputs, &mut messages);
    let options = options_of(parsed, target, keep);
    let cubins: Vec<Cubin> = inputs.cubins.iter().map(|f| f.as_cubin()).collect();
    times.push(("link", Instant::now()));
    let linked = match link::link(&cubins, &options) {
        Ok(linked) => linked,
        Err(errors) => return messages.end(errors),
    };
    times.push(("write", Instant::now()));
    linked.warnings.iter().for_each(|w| messages.say(w.severity, &w.message));
    if messages.failed {
        return FAILED;
    }
    if parsed.has("verbose") {
        verbose(&linked, &mut messages);
    }
    if parsed.has("dump-callgraph") || parsed.has("dump-callgraph-no-demangle") {
        // The vendor's tool shows names as the source has them with both options.
        report::err(&script::demangle(&linked.callgraph));
        linked.propagated.iter().for_each(|l| report::err(&script::demangle(&format!("{l}\n"))));
    }
    if let Some(path) = parsed.get("register-link-binaries") {
        let mut text = format!("#define NUM_PRELINKED_OBJECTS {}\n", inputs.modules.len());
        inputs.modules.iter().for_each(|m| text.push_str(&format!("DEFINE_REGISTER_FUNC({})\n", identifier(m))));
        if crate::files::write(Path::new(path), text.as_bytes()).is_err() {
            return fatal(&format!("Could not open output file '{path}'"));
        }
    }
    if crate::files::write(Path::new(output), &linked.bytes).is_err() {
        return fatal(&format!("Could not open output file '{output}'"));
    }
    match parsed.get("time") {
        Some(path) => {
            script::times(path, &target.to_string(), &times, &linked.times).map_or_else(|m| fatal(&m), |()| 0)
        }
        None => 0,
    }
}

/// Links one file, of any kind, whose PTX is compiled.
///
/// # Errors
/// What is wrong with the options (a target, for example) or the file.
pub fn link_bytes(args: &[String], bytes: Vec<u8>) -> Result<Vec<u8>, Vec<Diagnostic>> {
    let wrong = |m: String| vec![Diagnostic::new(Severity::Fatal, m)];
    let parsed = options::parse(&table::OPTIONS, args, &|_| None).map_err(wrong)?;
    let target = target(&parsed).map_err(wrong)?;
    let listed = [files::Listed { name: "x".into(), bytes, system: false }];
    let inputs = files::collect(&listed, target, &parsed)?;
    let cubins: Vec<Cubin> = inputs.cubins.iter().map(|f| f.as_cubin()).collect();
    link::link(&cubins, &options_of(&parsed, target, Keep::default())).map(|linked| linked.bytes)
}

/// What the linker is asked for.
fn options_of(parsed: &Parsed, target: Target, keep: Keep) -> Options {
    Options {
        target,
        tool: tool(parsed),
        relocatable: parsed.has("relocatable-link"),
        preserve_relocs: parsed.has("preserve-relocs"),
        debug: parsed.has("debug"),
        strip_debug: parsed.has("debug") && parsed.has("suppress-debug-info"),
        keep,
        report_arch: parsed.has("report-arch"),
        quiet_stack: parsed.has("suppress-stack-size-warning"),
        keep_system: parsed.has("keep-system-libraries"),
        tools_patch: parsed.has("link-as-tools-patch"),
    }
}

/// The name of a host object as C has it: an object without one of its own is called by its path.
fn identifier(module: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if module.chars().all(plain) {
        return module.to_string();
    }
    let path = std::env::current_dir().unwrap_or_default().join(module).display().to_string();
    path.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

/// Which kernels stay: what the options say, else what host objects say if all of them say something.
fn keep(parsed: &Parsed, inputs: &Inputs, messages: &mut Messages) -> Keep {
    let named = ["kernels-used", "variables-used"].iter().any(|o| parsed.has(o));
    if named {
        if parsed.has("use-host-info") {
            let m = "ignore -use-host-info because -kernels-used or -variables-used is specified";
            messages.say(Severity::Info, m);
        }
        return Keep::Containing(parsed.values.get("kernels-used").cloned().unwrap_or_default());
    }
    match inputs.referenced() {
        Some(list) if !parsed.has("ignore-host-info") => Keep::Referenced(list),
        _ => Keep::All,
    }
}

/// The note of the output: options in short spelling, without file names.
fn tool(parsed: &Parsed) -> Tool {
    let hidden =
        ["output-file", "library", "library-path", "register-link-binaries", "save-repro", "time", "host-ccbin"];
    let mut text = String::new();
    for o in table::OPTIONS.iter().filter(|o| !hidden.contains(&o.long)) {
        match parsed.values.get(o.long).map(Vec::as_slice) {
            None => {}
            Some([]) => text.push_str(&format!("-{}  ", o.short)),
            Some(values) => text.push_str(&format!("-{} {} ", o.short, values.join(","))),
        }
    }
    Tool { name: TOOL.into(), options: text, toolkit: TOOLKIT, ..codegen::compile::default_tool() }
}

/// The lines of `-v` that tools read, as 13.5 prints them.
fn verbose(linked: &Linked, messages: &mut Messages) {
    let mut line = format!("{} bytes gmem", linked.global_bytes);
    if linked.constant_bytes > 0 {
        line.push_str(&format!(", {} bytes cmem[3]", linked.constant_bytes));
    }
    messages.say(Severity::Info, &line);
    for u in &linked.usage {
        messages.say(Severity::Info, &format!("Function properties for '{}':", u.name));
        let (registers, barriers, stack, shared) = (u.registers, u.barriers, u.stack, u.shared);
        let mut line =
            format!("used {registers} registers, used {barriers} barriers, {stack} stack, {shared} bytes smem");
        for (bank, size) in &u.constants {
            line.push_str(&format!(", {size} bytes cmem[{bank}]"));
        }
        messages.say(Severity::Info, &(line + ", 0 bytes lmem"));
    }
}
