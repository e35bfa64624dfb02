//! What the vendor's tool says about options: those that contradict each other, are out of range, or mean nothing for the target.
//!
//! Messages and their order are those of ptxas 13.5.37, found by giving it options alone and in pairs.

use crate::options::Parsed;
use arch::Target;
use diag::{Diagnostic, Severity};

/// Registers that a calling convention needs; a smaller limit is raised to this.
const MIN_REGISTERS: i64 = 24;
/// Most registers that a thread can have.
const MAX_REGISTERS: i64 = 255;
/// Most that `--register-usage-level` can be.
const MAX_USAGE: u64 = 10;

/// Limits of registers that the options set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// `--maxrregcount`.
    pub all: Option<u32>,
    /// `--device-function-maxrregcount`, with `-c`.
    pub functions: Option<u32>,
}

fn warning(message: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Severity::Warning, message)
}

fn ignored(first: &str, second: &str, what: &str) -> Diagnostic {
    warning(format!("Conflicting options {first} and {second} specified, ignoring {what} option"))
}

/// The limit that an option sets, none where its number is too big; a complaint goes to `said`.
fn limit(parsed: &Parsed, long: &str, gpu: &str, said: &mut Vec<Diagnostic>) -> Result<Option<u32>, String> {
    let n = match parsed.get(long) {
        None => return Ok(None),
        Some("archmax") => return Ok(Some(MAX_REGISTERS as u32)),
        Some("archmin") => return Ok(Some(MIN_REGISTERS as u32)),
        Some(text) => text.parse::<i64>().map_err(|_| format!("Invalid value '{text}' for option '{long}'"))?,
    };
    if !(0..=MAX_REGISTERS).contains(&n) {
        said.push(warning(format!("Too big maxrregcount value specified {n}, will be ignored")));
        return Ok(None);
    }
    if n < MIN_REGISTERS {
        let bound = format!("lower bound of {MIN_REGISTERS}");
        said.push(warning(format!("For profile {gpu} adjusting per thread register count of {n} to {bound}")));
    }
    Ok(Some(n.max(MIN_REGISTERS) as u32))
}

/// `--Ofast-compile` beside a level that it does not go with.
fn fast_compile(parsed: &Parsed) -> Option<String> {
    let word = parsed.get("Ofast-compile").filter(|w| *w != "0")?;
    let level = parsed.get("opt-level")?.parse::<u32>().ok()?;
    let (levels, fits) = if word == "max" { ("1,2,3", level == 0) } else { ("0,2,3", level == 1) };
    (!fits).then(|| format!("Conflicting options -opt-level=<{levels}> and --Ofast-compile={word} specified"))
}

/// The options before the input is read: the limits of registers and what there is to say. `caches` is what the options of
/// caches had to say.
///
/// # Errors
/// The message that ends the run, behind what was said before it.
pub fn before(
    parsed: &Parsed,
    gpu: &str,
    caches: Vec<String>,
) -> Result<(Registers, Vec<Diagnostic>), (Vec<Diagnostic>, String)> {
    let mut said = Vec::new();
    match limits(parsed, gpu, caches, &mut said) {
        Ok(registers) => Ok((registers, said)),
        Err(message) => Err((said, message)),
    }
}

fn limits(parsed: &Parsed, gpu: &str, caches: Vec<String>, said: &mut Vec<Diagnostic>) -> Result<Registers, String> {
    let (debug, relocatable) = (parsed.has("device-debug"), parsed.has("compile-only"));
    let cloned = parsed.is("enable-func-clone-sc", false);
    let level = parsed.get("opt-level").and_then(|n| n.parse::<u32>().ok());
    if parsed.has("position-independent-code") && !parsed.has("suppress-position-independent-code-warning") {
        let rest = "is a deprecated option and is no longer functional. It will be removed in a future release";
        said.push(warning(format!("'--position-independent-code' {rest}")));
    }
    if let Some(n) = given_usage(parsed).filter(|&n| n > MAX_USAGE) {
        let range = format!("out of valid range {{0..{MAX_USAGE}}}");
        said.push(warning(format!("Value of RegUsageLevel ({n}) is {range}, option will be ignored")));
    }
    if relocatable && parsed.has("extensible-whole-program") {
        said.push(ignored("'--compile-only'", "'--extensible-whole-program'", "'--extensible-whole-program'"));
    }
    let blind = if debug { Some("'--device-debug'") } else { (level == Some(0)).then_some("'--opt-level=0'") };
    if let Some(why) = blind.filter(|_| cloned && relocatable) {
        said.push(ignored(why, "'--enable-func-clone-sc'", "'--enable-func-clone-sc'"));
    }
    if debug && parsed.has("generate-line-info") {
        said.push(ignored("--device-debug", "--generate-line-info", "--generate-line-info"));
    }
    if debug && level.is_some_and(|n| n > 0) {
        return Err("Optimized debugging not supported".into());
    }
    let blind = if debug { Some("'--device-debug'") } else { (level == Some(0)).then_some("'-O0'") };
    if let Some(why) = blind.filter(|_| parsed.has("register-usage-level")) {
        said.push(ignored(why, "'--register-usage-level'", "'--register-usage-level'"));
    }
    if debug && parsed.get("Ofast-compile").is_some_and(|w| w != "0") {
        let fast = "'--Ofast-compile=<min,mid,max>'";
        said.push(ignored("'--device-debug'", fast, fast));
    } else if let Some(message) = fast_compile(parsed) {
        return Err(message);
    }
    said.extend(caches.into_iter().map(warning));
    let all = limit(parsed, "maxrregcount", gpu, said)?;
    let mut functions = None;
    if relocatable {
        functions = limit(parsed, "device-function-maxrregcount", gpu, said)?;
    } else if parsed.has("device-function-maxrregcount") {
        let rest = "not supported for 'whole program compilation', will be ignored";
        said.push(warning(format!("Command line option 'device-function-maxrregcount' {rest}")));
    }
    for long in ["minnctapersm", "maxntid"] {
        if parsed.has("maxrregcount") && parsed.has(long) {
            said.push(ignored("-maxrregcount", &format!("-{long}"), &format!("-{long}")));
        }
    }
    if parsed.has("preserve-relocs") {
        let rest = "and may not work as expected";
        said.push(warning(format!("'--preserve-relocs' option is not fully implemented for '{gpu}' {rest}")));
    }
    Ok(Registers { all, functions })
}

fn given_usage(parsed: &Parsed) -> Option<u64> {
    parsed.get("register-usage-level").and_then(|n| n.parse().ok())
}

/// The level of `--register-usage-level`, if one was given that counts.
pub fn usage_level(parsed: &Parsed) -> Option<u64> {
    given_usage(parsed).filter(|&n| n <= MAX_USAGE)
}

/// What is said even with `-w` and never an error: that no function is cloned in a whole program.
pub fn always(parsed: &Parsed) -> Option<&'static str> {
    let lost = parsed.is("enable-func-clone-sc", false) && !parsed.has("compile-only");
    lost.then_some(
        "Option '--enable-func-clone-sc' requires option '--compile-only'; ignoring since latter is not specified",
    )
}

/// The message that ends the run where the PTX itself (`meant`) is for a debugger and a level of optimization was asked for.
pub fn optimized(parsed: &Parsed, meant: bool) -> Option<Diagnostic> {
    let level = parsed.get("opt-level").and_then(|n| n.parse::<u32>().ok());
    let message = "Optimized debugging not supported";
    (meant && level.is_some_and(|n| n > 0)).then(|| Diagnostic::new(Severity::Fatal, message))
}

/// What there is to say once the input has been read without an error: options that concern other machines.
pub fn after(parsed: &Parsed, target: Target) -> Vec<Diagnostic> {
    let mut said = Vec::new();
    let debug = parsed.has("device-debug");
    if parsed.has("suppress-debug-info") && !debug && !parsed.has("generate-line-info") {
        let rest = "requires option device-debug or lineinfo; ignoring since latter is not specified";
        said.push(warning(format!("Option suppress-debug-info {rest}")));
    }
    let unknown = |what: &str, chip: &str| {
        format!("Command line option '{what}' not supported for '.target {chip}', will be ignored")
    };
    if parsed.has("legacy-bar-warp-wide-behavior") {
        let name = "--legacy-bar-warp-wide-behavior";
        let rest = "is a deprecated option, It will be removed in future release and is not recommended";
        said.push(warning(format!("'{name}' {rest}")));
        said.push(warning(unknown(name, "sm_70")));
        if parsed.has("compile-only") {
            let rest = "may not work as expected in separate compilation unless all modules participating in linking have this option specified.";
            said.push(warning(format!("Option '{name}' {rest}")));
        }
    }
    let chip = format!("sm_{}", target.sm);
    if ["g", "gno"].iter().any(|how| parsed.has(&format!("{how}-tensor-memory-access-check"))) {
        let both = "--g-tensor-memory-access-check / --gno-tensor-memory-access-check";
        said.push(Diagnostic::new(Severity::Info, unknown(both, &chip)));
    }
    if parsed.has("gno-fabric-access-check") && !target.has_fabric_checks() {
        said.push(Diagnostic::new(Severity::Info, unknown("--gno-fabric-access-check", &chip)));
    }
    said
}

/// Debugging sections (`sections`: the names of those of the input) that a compilation for a debugger wants.
pub fn debugging(wanted: bool, sections: &[&str]) -> Vec<Diagnostic> {
    let needed = [".debug_abbrev", ".debug_info"];
    let [abbreviations, info] = needed.map(|n| sections.contains(&n));
    if !wanted {
        return Vec::new();
    }
    let missing = needed.iter().filter(|n| !sections.contains(n));
    let mut said: Vec<_> = missing.map(|n| warning(format!(" {n} section not found"))).collect();
    if info && !abbreviations {
        let message = "skipping .debug_info section due to missing .debug_abbrev section";
        said.push(Diagnostic::new(Severity::Info, message));
    }
    said
}
