//! Links of made-up programs beside the vendor's: the same symbols, attributes, figures and words.
//!
//! A few dozen links in a usual run; `SASSAFRAS_LINKS=300` makes as many, `SASSAFRAS_LINKS=42..43` those, `SASSAFRAS_LINK_OBJECTS=2000`
//! adds one of that many objects. `SASSAFRAS_KEEP` names a folder for the files of links that differ.

mod program;

use program::Shape;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Random, Scratch};

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn ours(files: &[PathBuf], options: &link::Options) -> Result<link::Linked, Vec<diag::Diagnostic>> {
    let bytes: Vec<Vec<u8>> = files.iter().map(|f| std::fs::read(f).expect("a file")).collect();
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    let cubins: Vec<link::Cubin> =
        bytes.iter().zip(&names).map(|(bytes, name)| link::Cubin { name, bytes, system: false }).collect();
    link::link(&cubins, options)
}

/// How the modules of a program reach the linkers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    /// The first half was linked before to a file that links again.
    Twice,
    /// What is resolved is kept.
    Preserve,
    /// For debuggers.
    Debug,
}

/// The vendor's own plain machine code of sm_100 and later: its linker takes it if the file says that it has no capsule. What we link
/// of the plain code is the same.
fn without_capsules(files: &[PathBuf], arch: &str) {
    const FLAGS: usize = 48;
    for f in files {
        let mut bytes = std::fs::read(f).expect("a file");
        let options = link::Options { relocatable: true, ..program::options(arch) };
        let before = ours(std::slice::from_ref(f), &options);
        bytes[FLAGS] = 4;
        std::fs::write(f, bytes).expect("writable");
        let after = ours(std::slice::from_ref(f), &options);
        if let (Ok(before), Ok(after)) = (before, after) {
            let list = link::diff(&before.bytes, &after.bytes).expect("cubins");
            let text: Vec<String> = list.iter().map(|d| d.to_string()).collect();
            assert_eq!(text, ["header: only the first has a capsule"], "the capsule changes what we link");
        }
    }
}

/// Compiles the modules and links them with both; what is said where they differ.
fn compare(bin: &Path, dir: &Path, modules: &[String], arch: &str, way: Way) -> Vec<String> {
    let files = program::compile(bin, dir, modules, arch);
    let mut found = Vec::new();
    if arch.starts_with("sm_1") {
        found = compare_files(bin, dir, files.clone(), arch, way, true);
        without_capsules(&files, arch);
    }
    found.extend(compare_files(bin, dir, files, arch, way, false));
    found
}

/// Differences in capsules. The vendor makes the plain code again, and a capsule says what has to be added to that; where its plain code
/// is not that of the input, so is not its capsule.
fn in_capsules(list: &[link::Difference]) -> Vec<String> {
    let remade = |d: &link::Difference| {
        let function = d.part.strip_prefix(".nv.capmerc");
        function.is_some_and(|f| list.iter().any(|o| o.part == f && o.what.contains("bytes")))
    };
    let of = |d: &&link::Difference| {
        d.to_string().contains("capsule") || d.to_string().contains(".nv.merc") || d.part.starts_with(".nv.capmerc")
    };
    list.iter().filter(of).filter(|d| !remade(d)).map(|d| d.to_string()).collect()
}

/// Compares what both make of files: of capsules alone, or everything.
fn compare_files(bin: &Path, dir: &Path, mut files: Vec<PathBuf>, arch: &str, way: Way, capsules: bool) -> Vec<String> {
    let mut options = program::options(arch);
    options.preserve_relocs = way == Way::Preserve;
    if way == Way::Twice {
        let again = link::Options { relocatable: true, ..options.clone() };
        let half: Vec<PathBuf> = files.drain(..files.len().div_ceil(2)).collect();
        let linked = match ours(&half, &again) {
            Ok(linked) => linked,
            // What cannot be linked again cannot be linked at once either.
            Err(errors) => return ours(&half, &options).map_or(Vec::new(), |_| vec![format!("-r: {errors:?}")]),
        };
        files.insert(0, dir.join("half.cubin"));
        std::fs::write(&files[0], linked.bytes).expect("writable");
    }
    let theirs = dir.join("vendor.cubin");
    let mut vendor = Command::new(bin.join("nvlink"));
    options.debug = way == Way::Debug;
    vendor.args((way == Way::Preserve).then_some("-preserve-relocs"));
    vendor.args((way == Way::Debug).then_some("-g"));
    vendor.arg(format!("-arch={arch}")).args(&files).arg("-o").arg(&theirs);
    let done = vendor.output().expect("nvlink runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match ours(&files, &options) {
        Err(errors) => {
            let fatal = errors.iter().any(|d| d.severity == diag::Severity::Fatal);
            let code = if fatal { 1 } else { 255 };
            let mut mine: Vec<&str> = errors.iter().map(|d| d.message.as_str()).collect();
            mine.sort_unstable();
            let mut all: Vec<&str> = said.lines().filter(|l| !l.contains("warning")).collect();
            all.sort_by_key(|l| l.split(": ").nth(1).unwrap_or(l).to_string());
            let same = done.status.code() == Some(code)
                && mine.iter().all(|m| all.iter().any(|l| l.ends_with(m)))
                && mine.len() == all.len();
            if same { Vec::new() } else { vec![format!("we say {mine:?}, they {:?}: {said}", done.status.code())] }
        }
        Ok(linked) => {
            // Before sm_90 their tool fails where it should keep a relocation of code that no entry reaches (docs/link.md).
            if way == Way::Preserve && said.contains("Internal error: reference to deleted symbol") {
                return Vec::new();
            }
            if !done.status.success() {
                return vec![format!("they refuse what we link: {said}")];
            }
            for w in &linked.warnings {
                assert!(said.contains(&w.message), "they do not say: {}", w.message);
            }
            let vendor = std::fs::read(&theirs).expect("a cubin");
            std::fs::write(dir.join("ours.cubin"), &linked.bytes).expect("writable");
            let list = link::diff(&linked.bytes, &vendor).expect("cubins");
            if capsules {
                return in_capsules(&list);
            }
            list.iter().filter(|d| !program::explained(d)).map(|d| d.to_string()).collect()
        }
    }
}

const ARCHS: [&str; 9] = ["sm_80", "sm_90", "sm_75", "sm_89", "sm_90a", "sm_100a", "sm_120", "sm_103", "sm_121"];

#[test]
fn made_up_programs_link_as_the_vendor_links_them() {
    links(8, |random, arch| {
        let shape = Shape::random(random);
        (program::modules(random, &shape, arch), format!("{shape:?}"))
    });
}

#[test]
fn references_to_textures_link_as_the_vendor_links_them() {
    links(10, |random, arch| (program::references::modules(random, arch), String::new()));
}

/// References that are parameters of entries: their words stand in the banks of their entries alone.
#[test]
fn references_that_are_parameters_link_as_the_vendor_links_them() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let module = "\
.version 8.8
.target sm_90, texmode_independent
.address_size 64
.global .texref tx;
.global .samplerref sp = {addr_mode_0 = wrap, force_unnormalized_coords = 1};
.visible .entry ka(.param .u64 p, .param .surfref u, .param .texref t)
{
.reg .b64 %p; .reg .b32 %r; .reg .f32 %q<5>;
ld.param.u64 %p, [p]; mov.f32 %q4, 0f3F800000; mov.u32 %r, 4;
tex.2d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [t, sp, {%q4, %q4}];
st.global.f32 [%p], %q0;
suld.b.1d.b32.trap %r, [u, {%r}];
st.global.u32 [%p+4], %r;
ret;
}
.visible .entry kb(.param .u64 p, .param .samplerref own, .param .texref to, .param .b32 n)
{
.reg .b64 %p; .reg .b32 %n; .reg .f32 %q<5>;
ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; mov.f32 %q4, 0f3F800000;
tex.2d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [to, own, {%q4, %q4}];
st.global.f32 [%p], %q0;
tex.2d.v4.f32.f32 {%q0, %q1, %q2, %q3}, [tx, sp, {%q4, %q4}];
st.global.f32 [%p+4], %q0; st.global.u32 [%p+8], %n;
ret;
}
.visible .entry kc(.param .u64 p) { ret; }
";
    let dir = Scratch::new("link");
    let found = compare(&oracle.join("bin"), &dir, &[module.to_string()], "sm_90", Way::Plain);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Links programs that `make` makes for a chip, which also says what they are like.
fn links(seed: u64, mut make: impl FnMut(&mut Random, &str) -> (Vec<String>, String)) {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let mut random = Random(seed);
    let mut failed = Vec::new();
    let range = std::env::var("SASSAFRAS_LINKS").unwrap_or("24".into());
    let number = |n: &str| n.parse::<usize>().expect("a number or a range of numbers");
    let range = range.split_once("..").map_or_else(|| 0..number(&range), |(from, to)| number(from)..number(to));
    for n in 0..range.end {
        let arch = ARCHS[n % ARCHS.len()];
        let way = [Way::Plain, Way::Twice, Way::Plain, Way::Preserve, Way::Plain, Way::Debug][n / 2 % 6];
        let (modules, shape) = make(&mut random, arch);
        if n < range.start {
            continue;
        }
        let dir = Scratch::new("link");
        let found = compare(&bin, &dir, &modules, arch, way);
        if !found.is_empty() {
            keep(&dir, &format!("{n}"));
            failed.push(format!(
                "link {n} for {arch}, {way:?}, {shape}:\n  {}",
                found[..found.len().min(8)].join("\n  ")
            ));
        }
    }
    let text = format!("{} of {} links differ\n{}", failed.len(), range.len(), failed.join("\n"));
    assert!(failed.is_empty(), "{text}");
    println!("{text}");
}

/// Keeps the files of a link that differs, if they are wanted.
fn keep(dir: &Path, name: &str) {
    let Some(to) = std::env::var_os("SASSAFRAS_KEEP").map(|k| Path::new(&k).join(name)) else { return };
    std::fs::create_dir_all(&to).expect("a folder");
    for file in std::fs::read_dir(dir).expect("a folder").flatten() {
        std::fs::copy(file.path(), to.join(file.file_name())).expect("a copy");
    }
}

#[test]
fn a_link_of_many_objects() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let objects = number("SASSAFRAS_LINK_OBJECTS", 40);
    let mut random = Random(9);
    let shape = Shape { modules: objects, functions: 4, entries: 1, ..Shape::random(&mut random) };
    let modules = program::modules(&mut random, &shape, "sm_90");
    let dir = Scratch::new("link");
    let found = compare(&oracle.join("bin"), &dir, &modules, "sm_90", Way::Plain);
    assert!(found.is_empty(), "{shape:?}: {}", found[..found.len().min(20)].join("\n"));
}
