//! `ptxas`: PTX in, a cubin out, with the vendor's options, messages and exit codes.

mod conflicts;
mod jobserver;
mod more;
mod table;

use crate::compile::{self, Request};
use crate::options::{self, Parsed};
use crate::report::{self, Style};
use arch::{GpuKind, GpuName, Target};
use codegen::compile::Log;
use codegen::pipeline::REGISTER_LEVEL;
use cubin::elf::Elf;
use diag::render::Source;
use diag::{Diagnostic, Severity};
use ptx::module::{Item, Module};
use std::mem::ManuallyDrop;
use std::path::Path;

/// What the vendor's tool exits with after any error.
const FAILED: u8 = 255;
const TOOL: &str = "ptxas";
/// Bytes of a text from which on memory is spared where that takes a little time.
const LARGE: usize = 4 << 20;

/// Runs the tool; gives the exit code.
pub fn main(args: &[String]) -> u8 {
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let parsed = match options::parse(&table::OPTIONS, args, &read) {
        Ok(parsed) => parsed,
        Err(message) => return fatal(&message),
    };
    if args.is_empty() || parsed.has("help") {
        let names = |long: &str| {
            let quoted = || arch::gpu_names().iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
            (long == "gpu-name").then(quoted)
        };
        report::out(&options::help("ptxas [options] <ptx file>,...", &table::OPTIONS, &names));
        return 0;
    }
    if parsed.has("version") {
        report::out(&version("ptxas", "Ptx optimizing assembler"));
        return 0;
    }
    if parsed.has("list-arch") {
        let mut seen = Vec::new();
        for target in arch::TARGETS.iter().filter(|t| !seen.contains(&t.sm)).collect::<Vec<_>>() {
            if !seen.contains(&target.sm) {
                seen.push(target.sm);
                report::out(&format!("{}\n", target.sm));
            }
        }
        return 0;
    }
    if parsed.has("list-version") {
        for (major, minor) in arch::PTX_VERSIONS {
            report::out(&format!("{major}.{minor}\n"));
        }
        return 0;
    }
    compile_inputs(&parsed)
}

/// The lines of `--version`, in the shape that build systems look for (`release 13.5, V13.5.37`).
pub fn version(tool: &str, what: &str) -> String {
    format!(
        "{tool}: Sassafras {what}\nSassafras {}, an open PTX compiler\nCompatible with Cuda compilation tools, release {}, V{}\n",
        env!("CARGO_PKG_VERSION"),
        compile::RELEASE,
        compile::RELEASE_FULL,
    )
}

fn fatal(message: &str) -> u8 {
    report::plain(TOOL, Severity::Fatal, message);
    FAILED
}

fn aborted(message: &str) -> u8 {
    report::plain(TOOL, Severity::Fatal, message);
    fatal(diag::render::ABORTED)
}

fn compile_inputs(parsed: &Parsed) -> u8 {
    let elf = match compile_text(parsed, || input(parsed)) {
        Ok(Some(elf)) => elf,
        Ok(None) => return 0,
        Err(code) => return code,
    };
    let path = parsed.get("output-file").unwrap_or("elf.o");
    if crate::files::write_with(Path::new(path), &|out| elf.write_to(out)).is_err() {
        return fatal(&format!("Output file '{path}' could not be opened"));
    }
    0
}

/// Compiles PTX that is an input of the linker, with options of this tool; what is wrong is printed as this tool does.
///
/// # Errors
/// The exit code.
pub fn compile_for_linker(options: &[String], name: &str, ptx: &[u8], target: Target) -> Result<Vec<u8>, u8> {
    let given = ["-c".to_string(), format!("-arch={target}")];
    let args: Vec<String> = options.iter().cloned().chain(given).collect();
    let read = |file: &str| std::fs::read_to_string(file).ok();
    let parsed = options::parse(&table::OPTIONS, &args, &read).map_err(|m| fatal(&m))?;
    compile_text(&parsed, || Ok((name.to_string(), ptx.to_vec()))).and_then(|elf| elf.map(|e| e.write()).ok_or(FAILED))
}

/// Compiles a text; none for a target that has no machine code. The error is the exit code.
fn compile_text(parsed: &Parsed, input: impl FnOnce() -> Result<(String, Vec<u8>), String>) -> Result<Option<Elf>, u8> {
    let quiet = parsed.has("disable-warnings");
    let strict = parsed.has("warning-as-error") && !quiet;
    let verbose = parsed.has("verbose") || parsed.has("verbose2");
    let style = parsed.get("diagnostics").and_then(Style::parse).unwrap_or_default();
    // The vendor's tool gives these with `-w`, too.
    for w in &parsed.warnings {
        report::plain(TOOL, Severity::Warning, w);
    }
    let gpu = parsed.get("gpu-name").unwrap_or("sm_75");
    let Some(name) = GpuName::parse(gpu) else {
        return Err(fatal(&format!("Value '{gpu}' is not defined for option 'gpu-name'")));
    };
    if let Some(long) = REFUSED.into_iter().find(|long| parsed.has(long)) {
        return Err(fatal(&format!("option '{long}' is not supported")));
    }
    say_without_effect(parsed, verbose, quiet);
    if let Some(message) = conflicts::always(parsed) {
        report::plain(TOOL, Severity::Warning, message);
    }
    let (caches, contradictions) = match more::caches(parsed) {
        Ok(caches) => caches,
        Err(message) => {
            report::plain(TOOL, Severity::Error, &message);
            return Err(fatal(diag::render::ABORTED));
        }
    };
    let nowhere = Source::new("", b"");
    let (registers, failed) = match conflicts::before(parsed, gpu, contradictions) {
        Ok((registers, mut said)) => (registers, show(&mut said, &nowhere, style, quiet, strict)),
        Err((mut said, message)) => {
            show(&mut said, &nowhere, style, quiet, strict);
            return Err(fatal(&message));
        }
    };
    let kind = match (parsed.has("compile-only"), parsed.has("extensible-whole-program")) {
        (true, _) => compile::Kind::Relocatable,
        (false, true) => compile::Kind::Extensible,
        (false, false) => compile::Kind::Executable,
    };
    let (file, mut text) = match input() {
        Ok(input) => input,
        Err(message) => return Err(aborted(&message)),
    };
    let large = text.len() >= LARGE;
    crate::memory::expect(&text);
    let source = Source::new(file.as_str(), &text);
    let (module, mut diagnostics) = if large { ptx::parse_packed(&text) } else { ptx::parse_bytes(&text) };
    // The process ends with this module: what it holds is not given back piece by piece.
    let mut module = ManuallyDrop::new(module);
    if !diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.extend(ptx::check(&module, Some(&name.target)));
    }
    if parsed.has("warn-on-double-precision-use") && !diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.extend(more::double_precision(&module, strict));
    }
    if !diagnostics.iter().any(Diagnostic::is_error) {
        diagnostics.extend(more::advice(&module, parsed));
    }
    // A fatal error without a place (the target does not fit) is the last word.
    let ended = |said: &[Diagnostic]| match said.iter().any(|d| d.severity == Severity::Fatal && d.span.is_none()) {
        true => FAILED,
        false => fatal(diag::render::ABORTED),
    };
    if show(&mut diagnostics, &source, style, quiet, strict) || failed {
        return Err(ended(&diagnostics));
    }
    let meant = module.target.iter().any(|t| t == "debug");
    let debugged = parsed.has("device-debug") || meant;
    let wanted = parsed.has("generate-line-info");
    let line_info =
        (debugged || wanted || codegen::lines::has_sections(&module)) && !(wanted && parsed.has("suppress-debug-info"));
    more::cache_operators(&mut module, caches);
    // A debugger follows the text instruction by instruction.
    let effort = if debugged { 0 } else { more::effort(parsed) };
    let mut request = Request {
        target: name.target,
        kind,
        fmad: parsed.is("fmad", true),
        verify: parsed.has("verify"),
        print_after: parsed.get("print-after").map(str::to_string),
        max_registers: registers.all,
        bounds: more::bounds(parsed),
        entries: parsed.values.get("entry").cloned().unwrap_or_default(),
        errors_at_exit: parsed.has("make-errors-visible-at-exit"),
        check_stack: parsed.has("sp-bounds-check") || effort == 0,
        protect_stack: parsed.is("device-stack-protector", false),
        gather_atomics: parsed.has("optimize-float-atomics") && effort > 0,
        copy_functions: parsed.is("enable-func-clone-sc", false),
        annotate: parsed.has("compiler-annotations"),
        constant_tables: !parsed.has("disable-optimizer-constants"),
        register_level: conflicts::usage_level(parsed).map_or(REGISTER_LEVEL, |n| n as u8),
        threads: parsed.get("split-compile").and_then(|n| n.parse().ok()).unwrap_or(0),
        permits: None,
        line_info: line_info.then(|| text.as_slice().into()),
        debug: debugged && line_info,
        effort,
        max_function_registers: registers.functions,
        options: note(parsed),
    };
    let linking = ptx::Linking {
        relocatable: request.kind == compile::Kind::Relocatable,
        extensible: request.kind == compile::Kind::Extensible,
        debug: parsed.has("device-debug"),
    };
    let mut steps = vec![conflicts::after(parsed, name.target)];
    steps.extend(ptx::outside(&module, linking));
    steps.insert(2, conflicts::optimized(parsed, meant).into_iter().collect());
    let mut last = compile::bounds(&module, &request);
    last.extend(conflicts::debugging(debugged, &sections(&module)));
    steps.push(last);
    for mut step in steps {
        if show(&mut step, &source, style, quiet, strict) {
            return Err(ended(&step));
        }
    }
    if name.kind != GpuKind::Sm {
        return Ok(None);
    }
    if linking.extensible && ptx::without_abi(&module) {
        request.kind = compile::Kind::Executable;
    }
    let compilation = ptx::Compilation { relocatable: linking.relocatable, debug: debugged };
    // The vendor's tool ends with these alone.
    if show(&mut ptx::pragmas(&module, compilation, &request.entries), &source, style, quiet, strict) {
        return Err(FAILED);
    }
    if parsed.has("jobserver") {
        match jobserver::connect() {
            jobserver::Found::Client(found) => request.permits = Some(found),
            jobserver::Found::Damaged => return Err(fatal("Jobserver requested, but an error occurred")),
            // As the vendor's tool, which says so where it would have used it.
            jobserver::Found::Nothing if parsed.get("split-compile").is_some_and(|n| n != "1") => {
                let text = "GNU Jobserver support requested, but no compatible jobserver found. Ignoring '--jobserver'";
                if show(&mut vec![Diagnostic::new(Severity::Warning, text)], &nowhere, style, quiet, strict) {
                    return Err(FAILED);
                }
            }
            jobserver::Found::Nothing => {}
        }
    }
    if large && parsed.inputs.first().is_some_and(|f| *f == file && Path::new(f).is_file()) {
        text = Vec::new();
    }
    // What is left to say seldom has a place in the text; where it has one, a large text is read again.
    let say = |list: &mut Vec<Diagnostic>| {
        let again = text.is_empty() && list.iter().any(|d| d.span.is_some());
        let again = if again { std::fs::read(&file).unwrap_or_default() } else { Vec::new() };
        let text = if again.is_empty() { &text } else { &again };
        show(list, &Source::new(file.as_str(), text), style, quiet, strict)
    };
    let made = compile::in_parts(&module, &request).and_then(|(file, output)| {
        if large {
            drop(ManuallyDrop::into_inner(module));
            crate::memory::give_back();
        }
        Ok((file.into_elf().map_err(|e| vec![e])?, output))
    });
    let (elf, output) = match made {
        Ok(made) => made,
        Err(mut diagnostics) => {
            say(&mut diagnostics);
            // An entry that is not there is the last word, and so is a pragma that does not go with it.
            let last = |d: &Diagnostic| ["Unknown function", "Pragma"].iter().any(|w| d.message.starts_with(w));
            if diagnostics.iter().any(|d| d.severity == Severity::Fatal && last(d)) {
                return Err(FAILED);
            }
            return Err(fatal(diag::render::ABORTED));
        }
    };
    for text in &output.dumps {
        report::out(text);
    }
    let mut diagnostics = output.notes;
    if parsed.has("suppress-stack-size-warning") {
        diagnostics.retain(|d| !d.message.starts_with("Stack size for entry function"));
    }
    let mut log: Vec<&Log> = output.log.iter().collect();
    // A whole program is compiled from the last entry to the first.
    if request.kind == compile::Kind::Executable && !debugged {
        log.reverse();
    }
    for k in log {
        if parsed.has("warn-on-local-memory-usage") {
            let frames = std::iter::once((&k.name, k.stack_frame)).chain(k.functions.iter().map(|(n, b)| (n, *b)));
            for (name, bytes) in frames.filter(|f| f.1 > 0) {
                let m = format!("Local memory used for function '{name}', size of stack frame: {bytes} bytes");
                diagnostics.push(Diagnostic::new(Severity::Warning, m));
            }
        }
        if parsed.has("warn-on-spills") && k.spill_stores + k.spill_loads > 0 {
            let m = format!("Registers are spilled to local memory in function '{}'", k.name);
            let bytes = format!(", {} bytes spill stores, {} bytes spill loads", k.spill_stores, k.spill_loads);
            diagnostics.push(Diagnostic::new(Severity::Warning, m + &bytes));
        }
    }
    let failed = say(&mut diagnostics);
    if verbose {
        let banks = arch::files(name.target.sm).banks_in_figures.then(|| {
            // Code to be linked or looked at counts no addresses.
            let counted = request.kind == compile::Kind::Executable && !debugged;
            let addresses = elf.section(cubin::image::CONSTANT4).filter(|_| counted).map_or(0, |(_, s)| s.size);
            [(3, output.constant_bytes), (4, addresses)]
        });
        print_stats(&output.log, output.global_bytes, banks, gpu, parsed.has("verbose2"));
    }
    if failed {
        return Err(FAILED);
    }
    Ok(Some(elf))
}

/// The names of the sections that the PTX has.
fn sections(module: &Module) -> Vec<&str> {
    let names = module.items.iter().filter_map(|item| match item {
        Item::Section { name, .. } => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

fn input(parsed: &Parsed) -> Result<(String, Vec<u8>), String> {
    if let Some(text) = parsed.get("input-as-string") {
        return Ok(("application ptx input".into(), text.as_bytes().to_vec()));
    }
    let file = match parsed.inputs.as_slice() {
        [file] => file,
        [] => return Err("No input file specified; use option --help for more information".into()),
        // Linking several modules into one file is the linker's work.
        list => {
            return Err(match list.iter().find(|f| !Path::new(f).exists()) {
                Some(gone) => format!("Input file '{gone}' could not be opened"),
                None => "Compilation of several input files at once is not supported yet".into(),
            });
        }
    };
    if file == "-" {
        let mut text = Vec::new();
        let read = std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut text);
        return read.map(|_| (file.clone(), text)).map_err(|_| "Input file '-' could not be opened".into());
    }
    let text = std::fs::read(file).map_err(|_| format!("Input file '{file}' could not be opened"))?;
    Ok((file.clone(), text))
}

/// Shows diagnostics; true if one of them is an error.
fn show(list: &mut Vec<Diagnostic>, source: &Source, style: Style, quiet: bool, strict: bool) -> bool {
    list.retain(|d| d.severity != Severity::Warning || !quiet);
    for d in list.iter_mut() {
        if strict && d.severity == Severity::Warning {
            d.severity = Severity::Error;
        }
        report::show(TOOL, d, source, style);
    }
    list.iter().any(Diagnostic::is_error)
}

/// Options that ask for checks at run time: who gives one must know that there are none.
const CHECKS: [&str; 1] = ["sanitize"];

/// Options whose output would be of no use without what they ask for.
const REFUSED: [&str; 2] = ["apply-controls", "compile-as-tools-patch"];

fn say_without_effect(parsed: &Parsed, verbose: bool, quiet: bool) {
    let mut said = Vec::new();
    for long in &parsed.given {
        let option = table::OPTIONS.iter().find(|o| o.long == *long && !o.works);
        if let Some(o) = option.filter(|o| !said.contains(&o.long)) {
            said.push(o.long);
            let message = format!("option '{}' has no effect yet", o.long);
            if CHECKS.contains(&o.long) && parsed.is(o.long, true) {
                if !quiet {
                    report::plain(TOOL, Severity::Warning, &message);
                }
            } else if verbose {
                report::plain(TOOL, Severity::Info, &message);
            }
        }
    }
}

/// The options as the note of the output names them: short names in the table's order, `-flag  `, `-option value `.
fn note(parsed: &Parsed) -> String {
    let mut out = String::new();
    let hidden =
        ["output-file", "input-as-string", "diagnostics", "print-after", "verify", "gpu-name", "disable-warnings"];
    for o in table::OPTIONS.iter().filter(|o| parsed.values.contains_key(o.long) && !hidden.contains(&o.long)) {
        match parsed.values.get(o.long).map(Vec::as_slice) {
            None => {}
            Some([]) => out.extend(["-", o.short, "  "]),
            Some(values) => out.extend(["-", o.short, " ", &values.join(","), " "]),
        }
    }
    out.push_str(&format!("-arch {} ", parsed.get("gpu-name").unwrap_or("sm_75")));
    if parsed.has("disable-warnings") {
        out.push_str("-w  ");
    }
    out
}

/// The lines of `-v` that tools read, as 13.5 prints them. `banks`: where constant banks are counted, those of the module.
fn print_stats(stats: &[Log], global_bytes: u64, banks: Option<[(u32, u64); 2]>, gpu: &str, progress: bool) {
    let info = |text: &str| report::plain(TOOL, Severity::Info, text);
    if progress {
        for k in stats.iter().rev() {
            info(&format!("Processing {}", k.name));
        }
    }
    let constants = |of: [(u32, u64); 2]| {
        let some = of.iter().filter(|b| banks.is_some() && b.1 > 0);
        some.map(|(bank, bytes)| format!(", {bytes} bytes cmem[{bank}]")).collect::<String>()
    };
    info(&format!("{global_bytes} bytes gmem{}", constants(banks.unwrap_or_default())));
    let frame = |frame: u32, stores: u32, loads: u32| {
        report::err(&format!(
            "    {frame} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
        ));
    };
    for k in stats.iter().rev() {
        if !k.function {
            info(&format!("Compiling entry function '{}' for '{gpu}'", k.name));
        }
        info(&format!("Function properties for {}", k.name));
        frame(k.stack_frame, k.spill_stores, k.spill_loads);
        let ms = format!("Compile time = {:.3} ms", k.time.as_secs_f64() * 1000.0);
        if k.function {
            info(&ms);
            continue;
        }
        let mut line = format!("Used {} registers, used {} barriers", k.registers, k.barriers);
        if let Some(n) = k.stack.filter(|&n| n > 0) {
            line.push_str(&format!(", {n} bytes cumulative stack size"));
        }
        if k.shared > 0 {
            line.push_str(&format!(", {} bytes smem", k.shared));
        }
        line.push_str(&constants([(0, k.constant0.into()), (2, k.constant2.into())]));
        info(&line);
        info(&ms);
        for (name, bytes) in &k.functions {
            info(&format!("Function properties for {name}"));
            frame(*bytes, 0, 0);
        }
    }
    if let Some(bytes) = crate::memory::peak() {
        info(&format!("Peak memory = {:.1} MiB", bytes as f64 / (1 << 20) as f64));
    }
}
