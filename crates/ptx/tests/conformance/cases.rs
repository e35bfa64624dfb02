//! Modules, declarations and operands that no line of the instruction table varies: the lines of `cases.txt`, judged by
//! both tools.

use crate::vendor;
use diag::render::Source;
use std::path::Path;
use std::sync::Mutex;

/// A module to be judged.
pub struct Case {
    /// The target that both tools are asked for.
    pub target: String,
    /// What the table says, with its alternatives chosen.
    pub text: String,
    /// The whole module.
    pub module: String,
}

/// Every choice of `[[a||b]]` in a line.
fn expand(line: &str) -> Vec<String> {
    let Some((head, rest)) = line.split_once("[[") else { return vec![line.to_string()] };
    let (choices, tail) = rest.split_once("]]").unwrap_or_else(|| panic!("cases.txt: no ]] in {line}"));
    let tails = expand(tail);
    let one = |c: &str| tails.iter().map(|t| format!("{head}{}{t}", c.trim())).collect::<Vec<_>>();
    choices.split("||").flat_map(one).collect()
}

/// What stands around the text of a case, and its text.
fn module(context: &str, target: &str, version: &str, text: &str) -> String {
    let head = format!(".version {version}\n.target {target}\n.address_size 64\n");
    match context {
        "module" => format!("{head}{text}\n"),
        "body" => format!(
            "{head}.extern .shared .align 16 .b8 smem[];\n.global .align 64 .b8 gmem[1024];\n\
             .const .align 64 .b8 cmem[64];\n.global .texref tex0;\n.func f() {{ ret; }}\n\
             .func g(.param .b32 a) {{ ret; }}\n.func (.param .b32 r) h(.param .b32 a) {{ ret; }}\n\
             .func s(.param .align 8 .b8 a[16]) {{ ret; }}\n\
             .visible .entry k(.param .u64 p, .param .align 64 .b8 tm[128])\n{{\n\
             .reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n\
             .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .v2 .b32 v2; .reg .v4 .b32 v4; {}\n{text}\nL: ret;\n}}\n",
            if version.parse::<f32>().is_ok_and(|v| v >= 8.3) { ".reg .b128 %q<9>;" } else { "" },
        ),
        "text" => format!("{text}\n"),
        other => panic!("cases.txt: unknown context {other}"),
    }
}

/// All cases of the table.
pub fn all() -> Vec<Case> {
    let mut out = Vec::new();
    let (mut target, mut version, mut context) = ("", "", "");
    for line in include_str!("cases.txt").lines() {
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        if let Some(rest) = line.strip_prefix("@ ")
            && let [t, v, c @ ("module" | "body" | "text")] = rest.split(' ').collect::<Vec<_>>()[..]
        {
            (target, version, context) = (t, v, c);
            continue;
        }
        for text in expand(line) {
            let module = module(context, target, version, &text.replace("\\n", "\n"));
            let text = format!("{target} {version} {context} {text}");
            if !out.iter().any(|c: &Case| c.text == text) {
                out.push(Case { target: target.to_string(), text, module });
            }
        }
    }
    out
}

/// The errors that a tool finds: line (0 where it names none) and message.
pub type Errors = Vec<(usize, String)>;

fn ours(case: &Case) -> Errors {
    let (module, mut diags) = ptx::parse(&case.module);
    if !diags.iter().any(diag::Diagnostic::is_error) {
        diags.extend(ptx::check(&module, arch::Target::parse(&case.target).as_ref()));
    }
    if !diags.iter().any(diag::Diagnostic::is_error) {
        diags.extend(ptx::unresolved(&module));
    }
    let source = Source::new("a.ptx", case.module.as_bytes());
    let place = |d: &diag::Diagnostic| d.span.map_or(0, |s| source.position(s.start).0 as usize);
    diags.iter().filter(|d| d.is_error()).map(|d| (place(d), d.message.clone())).collect()
}

/// What both say of each case.
pub fn judge(cases: Vec<Case>, ptxas: &Path) -> Vec<(Case, Errors, Errors)> {
    let work = Mutex::new(cases.into_iter().enumerate());
    let out = Mutex::new(Vec::new());
    let cache = &vendor::Cache::open(ptxas);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((n, case)) = work.lock().ok().and_then(|mut w| w.next()) else { return };
                    let theirs = vendor::Vendor::new(ptxas, (0, 0), &case.target).judge_module(&case.module, cache);
                    let ours = ours(&case);
                    if let Ok(mut out) = out.lock() {
                        out.push((n, (case, theirs, ours)));
                    }
                }
            });
        }
    });
    let mut out = out.into_inner().unwrap_or_default();
    out.sort_by_key(|(n, _)| *n);
    out.into_iter().map(|(_, j)| j).collect()
}
