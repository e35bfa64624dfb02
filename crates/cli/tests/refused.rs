//! What ptxas says of modules that it refuses or warns of beyond their text: pragmas, what is declared and not defined, calling
//! conventions, launch bounds, debugging sections; with `-c`, `-g`, `-ewp` and `-Werror`. Ours says the same, in the same order,
//! with the same exit code.

use std::path::Path;
use testkit::Scratch;
use testkit::tool::run;

const ENTRY: &str = ".visible .entry k() { ret; }\n";

/// Our tool and, where it is at hand, the vendor's give these lines (without `ptxas` and with the first word of severity in front) and
/// fail where `failed` says so.
fn says(dir: &Scratch, text: &str, args: &[&str], failed: bool, lines: &[&str]) {
    let version = if text.starts_with(".version") { "" } else { ".version 9.0\n.target sm_90\n.address_size 64\n" };
    std::fs::write(dir.join("m.ptx"), format!("{version}{text}")).expect("written");
    let mut tools = vec![Path::new(env!("CARGO_BIN_EXE_ptxas")).to_path_buf()];
    tools.extend(testkit::oracle::latest().map(|o| o.join("bin/ptxas")));
    for tool in tools {
        let done = run(&tool, dir, &[&["-arch=sm_90", "m.ptx", "-o", "m.cubin"], args].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let said: Vec<String> = said
            .lines()
            .map(|l| {
                l.trim_start_matches("ptxas ").trim_start_matches("m.ptx, ").replace(" : ", ": ").replace("  ", " ")
            })
            .map(|l| l.replace("  ", " ").replace(" :", ":"))
            .collect();
        assert_eq!(
            (done.status.code(), said.as_slice()),
            (Some(if failed { 255 } else { 0 }), &lines.iter().map(|l| l.to_string()).collect::<Vec<_>>()[..]),
            "{} {args:?} {text}",
            tool.display()
        );
    }
}

const ABORTED: &str = "fatal: Ptx assembly aborted due to errors";
const NO_ABBREVIATIONS: &str = "warning: .debug_abbrev section not found";
const NO_INFO: &str = "warning: .debug_info section not found";

#[test]
fn pragmas() {
    let dir = Scratch::new("refused-pragmas");
    let says = |text: &str, args: &[&str], failed: bool, lines: &[&str]| says(&dir, text, args, failed, lines);
    let unknown = format!(".pragma \"nounroll\", \"foo\";\n{ENTRY}");
    says(&unknown, &[], true, &["error: Pragma 'foo' not supported"]);
    says(&unknown, &["-g"], true, &[NO_ABBREVIATIONS, NO_INFO, "error: Pragma 'foo' not supported"]);
    let inner = format!(".pragma \"frequency 5\";\n{ENTRY}");
    let place = "line 4; error: Pragma 'frequency 5' is allowed only within function scope";
    says(&inner, &["-c"], true, &[place, ABORTED]);
    let two = ".visible .entry k() .pragma \"a\"; { .pragma \"b\", \"nounroll\"; ret; }\n.visible .entry k2() { .pragma \"c\"; ret; }\n";
    let of = |words: [&str; 3], how: &str| words.map(|w| format!("{how}: Pragma '{w}' unsupported"));
    let forth = of(["c", "a", "b"], "warning");
    says(two, &[], false, &forth.each_ref().map(String::as_str));
    says(two, &["-w"], false, &[]);
    let strict = of(["c", "a", "b"], "error");
    says(two, &["-Werror"], true, &strict.each_ref().map(String::as_str));
    let back = of(["a", "b", "c"], "warning");
    let debug = [NO_ABBREVIATIONS, NO_INFO, &back[0], &back[1], &back[2]];
    says(two, &["-g"], false, &debug);
    let spills = ".visible .entry k() { .pragma \"enable_smem_spilling\"; ret; }\n";
    says(spills, &[], false, &[]);
    says(spills, &["-O0"], false, &[]);
    let dynamic = ".extern .shared .align 16 .b8 d[];\n.visible .entry k() { .pragma \"enable_smem_spilling\"; st.shared.u32 [d], 1; ret; }\n";
    says(dynamic, &[], true, &["fatal: Pragma 'enable_smem_spilling' is not allowed for dynamic SMEM"]);
    let alone = "fatal: Pragma 'enable_smem_spilling' is not allowed for per-function compilation modes";
    says(spills, &["-c"], true, &[alone]);
    says(spills, &["-g"], true, &[NO_ABBREVIATIONS, NO_INFO, alone]);
    let function = ".func f()\n{\n.pragma \"enable_smem_spilling\";\nret;\n}\n";
    let never = "line 6; error: Pragma 'enable_smem_spilling' cannot be specified for device functions";
    says(function, &[], true, &[never, ABORTED]);
    for (version, word, since) in
        [("8.2", "used_bytes_mask 0xff", "8.3"), ("8.6", "enable_smem_spilling", "8.7"), ("8.8", "frequency 2", "9.0")]
    {
        let text = format!(
            ".version {version}\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n.pragma \"{word}\";\nret;\n}}\n"
        );
        let name = word.split(' ').next().expect("a word");
        let late = format!("line 6; error: Feature '{name}' requires PTX ISA .version {since} or later");
        says(&text, &[], true, &[&late, ABORTED]);
    }
    let number = |word: &str| format!(".visible .entry k() {{ .pragma \"{word}\"; ret; }}\n");
    for word in ["frequency 0x5", "frequency 99999999999", "used_bytes_mask -1", "used_bytes_mask 0"] {
        says(&number(word), &[], false, &[]);
    }
    for (word, times) in
        [("frequency 0", 1), ("frequency 5x", 1), ("frequency -1", 1), ("frequency x", 2), ("frequency 09", 2)]
    {
        let value = word.split(' ').nth(1).expect("a value");
        let line = format!("error: Invalid value '{value}' specified for .pragma '{word}'");
        let mut lines = vec![line.as_str(); times];
        lines.push(ABORTED);
        says(&number(word), &[], true, &lines);
    }
    says(
        &number("used_bytes_mask zz"),
        &[],
        true,
        &["error: Invalid value 'zz' specified for .pragma 'used_bytes_mask zz'"],
    );
    says(&number("used_bytes_mask"), &[], true, &["error: Argument(s) to pragma 'used_bytes_mask' cannot be empty"]);
}

#[test]
fn what_nobody_defines() {
    let dir = Scratch::new("refused-outside");
    let says = |text: &str, args: &[&str], failed: bool, lines: &[&str]| says(&dir, text, args, failed, lines);
    let call = |f: &str| format!("{{ .param .b32 a; st.param.b32 [a], 1; call.uni {f}, (a); }} ");
    let missing = ["fatal: Unresolved extern function 'f'"];
    for linkage in ["", ".visible ", ".weak "] {
        let text = format!("{linkage}.func f(.param .b32 a);\n{ENTRY}");
        for args in [&[][..], &["-c"], &["-g"], &["-ewp"], &["-Werror"]] {
            says(&text, args, true, &missing);
        }
    }
    let outside = format!(".extern .func f(.param .b32 a);\n.visible .entry k() {{ {}ret; }}\n", call("f"));
    says(&outside, &["-c"], false, &[]);
    says(&outside, &["-ewp"], false, &[]);
    says(&outside, &[], true, &missing);
    // What is called goes before what is declared.
    let order = format!(
        ".func g(.param .b32 a);\n.extern .func f(.param .b32 a);\n.visible .entry k() {{ {}ret; }}\n",
        call("f")
    );
    says(&order, &[], true, &missing);
    says(&order, &["-c"], true, &["fatal: Unresolved extern function 'g'"]);
    let own = |how: &str| {
        format!("{how}: Unresolved extern variable 'x' in whole program compilation, ignoring extern qualifier")
    };
    let variable = format!(".extern .global .u32 x;\n{ENTRY}");
    says(&variable, &[], false, &[&own("warning")]);
    says(&variable, &["-Werror"], true, &[&own("error"), ABORTED]);
    says(&variable, &["-c", "-Werror"], false, &[]);
    let open = format!(".extern .global .u32 x;\n.extern .const .u32 y[];\n.func f();\n{ENTRY}");
    says(&open, &[], true, &[&own("warning"), "fatal: Unresolved extern variable 'y'"]);
    says(&open, &["-ewp"], true, &["fatal: Unresolved extern variable 'y'"]);
    says(&open, &["-c"], true, &missing);
    let unified = format!(".global .attribute(.unified(1,2)) .u32 x;\n{ENTRY}");
    let alone = "error: Feature 'unified Functions' requires command line option '--compile-only'.";
    says(&unified, &[], true, &[alone, ABORTED]);
    says(&unified, &["-c"], false, &[]);
}

#[test]
fn several_results() {
    let dir = Scratch::new("refused-results");
    let says = |text: &str, args: &[&str], failed: bool, lines: &[&str]| says(&dir, text, args, failed, lines);
    let text =
        format!(".func (.reg .u32 r, .reg .u32 s) f(.reg .u32 a) {{ mov.u32 r, a; mov.u32 s, a; ret; }}\n{ENTRY}");
    let without = |how: &str| format!("{how}: Function 'f' with multiple return values found, disabling ABI");
    says(&text, &[], false, &[&without("warning")]);
    says(&text, &["-Werror"], true, &[&without("error"), ABORTED]);
    says(&text, &["-c"], true, &[&without("warning"), "fatal: 'Compile only(-c)' requires ABI"]);
    let never = "error: Function with multiple return values is not allowed with ABI";
    says(&text, &["-g"], true, &[never, ABORTED]);
    says(&text, &["-c", "-g"], true, &[never, "fatal: 'Compile only(-c)' requires ABI"]);
    let whole = "warning: Command line option '--extensible-whole-program' not supported for 'compilation without ABI', will be ignored";
    says(&text, &["-ewp"], false, &[whole, &without("warning")]);
}

#[test]
fn debugging_sections() {
    let dir = Scratch::new("refused-debug");
    let says = |text: &str, args: &[&str], failed: bool, lines: &[&str]| says(&dir, text, args, failed, lines);
    let head = ".version 9.0\n.target sm_90, debug\n.address_size 64\n";
    for args in [&[][..], &["-c"], &["-g"], &["-ewp"], &["-O3"]] {
        let missing = "error: Debug information not found in presence of .target debug";
        says(&format!("{head}{ENTRY}"), args, true, &[missing, ABORTED]);
    }
    let strings = format!("{head}{ENTRY}.section .debug_str {{ .b8 0 }}\n");
    for args in [&[][..], &["-c"], &["-g"], &["-O0"]] {
        says(&strings, args, false, &[NO_ABBREVIATIONS, NO_INFO]);
    }
    says(&strings, &["-O3"], true, &["fatal: Optimized debugging not supported"]);
    let strict = [NO_ABBREVIATIONS, NO_INFO].map(|l| l.replace("warning", "error"));
    says(&strings, &["-Werror"], true, &[&strict[0], &strict[1], ABORTED]);
    let info = format!("{head}{ENTRY}.section .debug_info {{ .b32 0 }}\n");
    let skipped = "info: skipping .debug_info section due to missing .debug_abbrev section";
    says(&info, &[], false, &[NO_ABBREVIATIONS, skipped]);
    let elf = cubin::elf::Elf::read(&std::fs::read(dir.join("m.cubin")).expect("a file")).expect("ELF");
    assert!(elf.section(".debug_info").is_none());
}

/// Bounds that are too much for an SM: warnings, errors with `-Werror`.
#[test]
fn launch_bounds() {
    let dir = Scratch::new("refused-bounds");
    let says = |text: &str, args: &[&str], failed: bool, lines: &[&str]| says(&dir, text, args, failed, lines);
    let entry = |name: &str, bounds: &str| format!(".visible .entry {name}() {bounds} {{ ret; }}\n");
    let out = |what: &str, name: &str, rest: &str| {
        format!("warning: Value of {what} for entry {name} is out of range. {rest} will be ignored")
    };
    let (ctas, threads, both) = ("minnctapersm", ".minnctapersm", ".minnctapersm and .maxntid");
    for (bounds, lines) in [
        (".maxntid 1024 .minnctapersm 2", vec![]),
        (".maxntid 2048", vec![]),
        (".maxnreg 256", vec!["warning: Too many maxnreg specified for entry k, will be ignored".to_string()]),
        (
            ".maxnreg 23",
            vec!["warning: For entry k adjusting per thread register count of 23 to lower bound of 24".to_string()],
        ),
        (".maxntid 32 .minnctapersm 33", vec![out("minnctapersm", "k", ctas)]),
        (".reqntid 512 .minnctapersm 5", vec![out("threads per SM", "k", threads)]),
        (".maxntid 1,2049", vec![out("threads per SM", "k", both)]),
        (".maxntid 2049 .minnctapersm 1", vec![out("maxntid,", "k", both)]),
        (".maxntid 1024,1,3 .minnctapersm 40", vec![out("minnctapersm", "k", ctas), out("threads per SM", "k", both)]),
    ] {
        let text = entry("k", bounds);
        let list: Vec<&str> = lines.iter().map(String::as_str).collect();
        says(&text, &[], false, &list);
        let strict: Vec<String> = lines.iter().map(|l| l.replace("warning", "error")).collect();
        let mut list: Vec<&str> = strict.iter().map(String::as_str).collect();
        if !list.is_empty() {
            list.push(ABORTED);
        }
        says(&text, &["-Werror"], !strict.is_empty(), &list);
    }
    let three = entry("a", "") + &entry("b", ".maxntid 64") + &entry("c", ".reqntid 64 .minnctapersm 2");
    says(&three, &["-maxntid", "2049"], false, &[&out("threads per SM", "a", both)]);
    says(&three, &["-minnctapersm", "33"], false, &[&out("minnctapersm", "b", ctas)]);
    let forced = ["-maxntid", "512", "-minnctapersm", "5", "--override-directive-values"];
    let lines = ["c", "b", "a"].map(|n| out("threads per SM", n, threads));
    says(&three, &forced, false, &lines.each_ref().map(String::as_str));
}

/// What the vendor's tool takes and ours does not yet is named with its place, and nothing is written.
#[test]
fn the_address_of_a_parameter_without_a_size() {
    let dir = Scratch::new("refused-address");
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .func f(.param .align 8 .b8 p[])\n{\n.reg .b64 %d;\n\
                mov.b64 %d, p;\nst.u32 [%d], 0;\nret;\n}\n";
    std::fs::write(dir.join("m.ptx"), text).expect("written");
    let ours = Path::new(env!("CARGO_BIN_EXE_ptxas"));
    let done = run(ours, &dir, &["-c", "-arch=sm_90", "m.ptx", "-o", "m.cubin"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.starts_with("ptxas m.ptx, line 7; error   : the address of 'p' is not supported yet\n"), "{said}");
    assert_eq!((done.status.code(), dir.join("m.cubin").exists()), (Some(255), false));
}
