//! What goes wrong in a link: each gives one clear message that names the file, and the symbol where there is one; and damage
//! of any kind does no harm. `SASSAFRAS_FUZZ=600` takes ten minutes for the damage, of one kind of file with
//! `SASSAFRAS_FUZZ_KIND`: cubin, zstd, lz4, joined, archive, host, capsule or references.

#[allow(dead_code)]
mod program;

use cubin::elf::Elf;
use diag::{Diagnostic, Severity};
use link::input::{Collector, Host};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::{Random, Scratch};

struct NoFiles;

impl Host for NoFiles {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        // An archive that names itself.
        (path == Path::new("x")).then(|| {
            b"!<thin>\n//                                              6         `\nx/\n\n\n\n/0                                              8         `\n".to_vec()
        })
    }

    fn compile(&self, name: &str, _: &[u8], target: arch::Target) -> Result<Vec<u8>, Vec<Diagnostic>> {
        Err(vec![Diagnostic::new(Severity::Fatal, format!("'{name}' is not compiled for {target}"))])
    }
}

fn link(files: &[(&str, Vec<u8>)], arch: &str) -> Result<link::Linked, Vec<Diagnostic>> {
    link_with(files, &program::options(arch))
}

fn link_with(files: &[(&str, Vec<u8>)], options: &link::Options) -> Result<link::Linked, Vec<Diagnostic>> {
    let mut collector = Collector::new(options.target, &NoFiles);
    for (name, bytes) in files {
        collector.add(name, bytes, false)?;
    }
    let inputs = collector.finish();
    let cubins: Vec<link::Cubin> = inputs.cubins.iter().map(|c| c.as_cubin()).collect();
    link::link(&cubins, options)
}

/// The vendor's exit code for these errors.
fn code(errors: &[Diagnostic]) -> i32 {
    if errors.iter().any(|d| d.severity == Severity::Fatal) { 1 } else { 255 }
}

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";
const ENTRY: &str = ".visible .entry k() { ret; }\n";

/// Modules that do not fit, and what is said: the vendor says the same, with the same exit code.
const MODULES: &[(&[&str], &str)] = &[
    (
        &[".visible .entry k() { ret; }", ".visible .entry k() { ret; }"],
        "Multiple definition of 'k' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .func f() { ret; }", ".visible .func f() { ret; }"],
        "Multiple definition of 'f' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .global .b32 v;", ".visible .global .b32 v;"],
        "Multiple definition of 'v' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .global .b32 v = 1;", ".visible .global .b32 v;"],
        "Multiple definition of 'v' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .const .b32 c = 1;", ".visible .const .b32 c = 2;"],
        "Multiple definition of 'c' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .entry k() { ret; }", "", ".visible .entry k() { ret; }"],
        "Multiple definition of 'k' in '{2}', first defined in '{0}'",
    ),
    (&[".extern .func f(); .visible .entry k() { call f; ret; }"], "Undefined reference to 'f' in '{0}'"),
    (&["", ".extern .func f(); .visible .entry k2() { call f; ret; }"], "Undefined reference to 'f' in '{1}'"),
    (
        &[
            ".extern .global .b32 v; .visible .entry k() { .reg .b32 %r; ld.global.b32 %r, [v]; st.global.b32 [v], %r; ret; }",
        ],
        "Undefined reference to 'v' in '{0}'",
    ),
    (
        &[
            ".extern .const .b32 c; .visible .global .b32 g; .visible .entry k() { .reg .b32 %r; ld.const.b32 %r, [c]; st.global.b32 [g], %r; ret; }",
        ],
        "Undefined reference to 'c' in '{0}'",
    ),
    (
        &[
            ".extern .global .b32 v[4]; .visible .entry k() { .reg .b32 %r; ld.global.b32 %r, [v]; st.global.b32 [v], %r; ret; }",
            ".visible .global .b32 v[8];",
        ],
        "Size doesn't match for 'v' in '{1}', first specified in '{0}'",
    ),
    (
        &[
            ".visible .global .b32 v[8];",
            ".extern .global .b32 v[4]; .visible .entry k() { .reg .b32 %r; ld.global.b32 %r, [v]; st.global.b32 [v], %r; ret; }",
        ],
        "Size doesn't match for 'v' in '{1}', first specified in '{0}'",
    ),
    (
        &[
            ".extern .func f(.param .b32 a); .visible .entry k() { .param .b32 p; st.param.b32 [p], 1; call f, (p); ret; }",
            ".visible .func f(.param .b64 a) { ret; }",
        ],
        "Prototype doesn't match for 'f' in '{1}', first defined in '{1}'",
    ),
    (
        &[
            ".visible .entry k() { .shared .b8 s[40000]; .shared .b8 t[40000]; st.shared.b8 [s], 1; st.shared.b8 [t], 1; ret; }",
        ],
        "Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max)",
    ),
    (
        &[".common .global .b8 c[8];", ".visible .global .b8 c[4] = {1};"],
        "Common symbol 'c' in file '{0}' has larger size than initialization",
    ),
    (
        &[".visible .global .b8 c[4] = {1};", ".common .global .b8 c[8];"],
        "Common symbol 'c' in file '{1}' has larger size than initialization",
    ),
    (
        &[".visible .shared .b8 s[4];", ".visible .shared .b8 s[4];"],
        "Multiple definition of 's' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .func f() { ret; }", ".visible .entry f() { ret; }"],
        "Multiple definition of 'f' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .func f() { ret; }", "", "", ".visible .func g() { ret; } .visible .func f() { ret; }"],
        "Multiple definition of 'f' in '{3}', first defined in '{0}'",
    ),
    (
        &[".visible .global .b32 v[2] = {1, 2};", "", ".visible .global .b32 v[2];"],
        "Multiple definition of 'v' in '{2}', first defined in '{0}'",
    ),
    (
        &[".extern .func f(); .visible .func g() { call f; ret; } .visible .entry k() { call g; ret; }"],
        "Undefined reference to 'f' in '{0}'",
    ),
    (
        &[
            ".extern .func g(); .visible .entry k() { call g; ret; }",
            ".extern .func f(); .visible .func g() { call f; ret; }",
        ],
        "Undefined reference to 'f' in '{1}'",
    ),
    (
        &[".extern .global .b32 v; .visible .global .u64 p = v; .visible .entry k() { ret; }"],
        "Undefined reference to 'v' in '{0}'",
    ),
    (
        &[
            ".extern .const .b8 c[4]; .visible .entry k(.param .b64 p) { .reg .b32 %r; .reg .b64 %d; ld.param.b64 %d, [p]; ld.const.b32 %r, [c]; st.global.b32 [%d], %r; ret; }",
            ".visible .const .b8 c[8] = {1};",
        ],
        "Size doesn't match for 'c' in '{1}', first specified in '{0}'",
    ),
    (
        &[
            ".visible .const .b8 c[8] = {1};",
            ".extern .const .b8 c[4]; .visible .entry k(.param .b64 p) { .reg .b32 %r; .reg .b64 %d; ld.param.b64 %d, [p]; ld.const.b32 %r, [c]; st.global.b32 [%d], %r; ret; }",
        ],
        "Size doesn't match for 'c' in '{1}', first specified in '{0}'",
    ),
    (
        &[".weak .global .b8 w[4];", ".weak .global .b8 w[8];"],
        "Size doesn't match for 'w' in '{1}', first specified in '{0}'",
    ),
    (
        &[
            ".visible .func (.param .b32 r) f() { st.param.b32 [r], 1; ret; }",
            ".extern .func f(); .visible .entry k() { call f; ret; }",
        ],
        "Prototype doesn't match for 'f' in '{1}', first defined in '{0}'",
    ),
    (
        &[
            ".visible .func f(.param .b32 a, .param .b32 b) { ret; }",
            ".extern .func f(.param .b32 a); .visible .entry k() { .param .b32 p; st.param.b32 [p], 1; call f, (p); ret; }",
        ],
        "Prototype doesn't match for 'f' in '{1}', first defined in '{0}'",
    ),
    (
        &[
            ".visible .func f(.param .f32 a) { ret; }",
            ".extern .func f(.param .b32 a); .visible .entry k() { .param .b32 p; st.param.b32 [p], 1; call f, (p); ret; }",
        ],
        "Prototype doesn't match for 'f' in '{1}', first defined in '{0}'",
    ),
    (
        &[".visible .entry k() { .shared .b8 s[49153]; st.shared.b8 [s], 1; ret; }"],
        "Entry function 'k' uses too much shared data (0xc001 bytes, 0xc000 max)",
    ),
    (
        &[
            ".extern .func f(); .visible .entry k() { .shared .b8 t[30000]; st.shared.b8 [t], 1; call f; ret; }",
            ".visible .func f() { .shared .b8 u[30000]; st.shared.b8 [u], 1; ret; }",
        ],
        "Entry function 'k' uses too much shared data (0xea60 bytes, 0xc000 max)",
    ),
];

#[test]
fn modules_that_do_not_fit() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    for (modules, expected) in MODULES {
        let dir = Scratch::new("errors");
        let texts: Vec<String> = modules.iter().map(|m| format!("{HEAD}{m}\n")).collect();
        let files = program::compile(&bin, &dir, &texts, "sm_80");
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        let read = names.iter().zip(&files).map(|(n, f)| (n.as_str(), std::fs::read(f).expect("a file")));
        let errors = link(&read.collect::<Vec<_>>(), "sm_80").expect_err(expected);
        let mut text = expected.to_string();
        names.iter().enumerate().for_each(|(i, n)| text = text.replace(&format!("{{{i}}}"), n));
        assert_eq!(errors[0].message, text, "{modules:?}");
        let mut vendor = Command::new(bin.join("nvlink"));
        let done = vendor.arg("-arch=sm_80").args(&files).arg("-o").arg(dir.join("out")).output().expect("nvlink runs");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(said.contains(&text), "they say {said}");
        assert_eq!(done.status.code(), Some(code(&errors)), "{text}");
    }
}

/// A good cubin.
fn good(oracle: &Path) -> Vec<u8> {
    let text = format!(
        "{HEAD}.visible .global .b32 g = 3;\n.visible .func f() {{ .shared .b8 s[4]; st.shared.b8 [s], 1; ret; }}\n\
         .visible .entry k() {{ call f; st.global.b32 [g], 4; ret; }}\n"
    );
    testkit::oracle::compile(&oracle.join("bin/ptxas"), &text, &["-c", "-arch=sm_80"]).expect("it compiles")
}

/// A good cubin for sm_90, with a relocation against a constant.
fn newer(oracle: &Path) -> Vec<u8> {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .const .b8 c[4] = {1};\n.visible .entry k(.param .b64 p) {\n\
        .shared .b8 s[4]; .reg .b32 %r; .reg .b64 %d; ld.param.b64 %d, [p]; ld.const.b32 %r, [c]; st.shared.b32 [s], %r; st.global.b32 [%d], %r; ret; }\n";
    testkit::oracle::compile(&oracle.join("bin/ptxas"), text, &["-c", "-arch=sm_90"]).expect("it compiles")
}

/// Makes a section a byte shorter.
fn cut_by_one(s: &mut cubin::elf::Section) {
    s.data.pop();
    s.size = s.data.len() as u64;
}

/// Changes the first relocation of a kind in a section with addends.
fn relocation(s: &mut cubin::elf::Section, kind: u8, change: &dyn Fn(&mut [u8])) {
    change(s.data.chunks_exact_mut(24).find(|r| r[8] == kind).expect("a relocation"));
}

/// An object of the host with one section.
fn host_object(name: &str, data: &[u8]) -> Vec<u8> {
    let names = [b"\0.shstrtab\0", name.as_bytes(), b"\0"].concat();
    let mut out = vec![0; 64];
    out[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    out[16] = 1;
    out[18] = 62;
    let (at, names_at) = (64, 64 + data.len().next_multiple_of(8));
    out.extend(data);
    out.resize(names_at, 0);
    out.extend(&names);
    out.resize(out.len().next_multiple_of(8), 0);
    let table = out.len();
    out[40..48].copy_from_slice(&(table as u64).to_le_bytes());
    for (i, n) in [(58, 64u16), (60, 3), (62, 1)] {
        out[i..i + 2].copy_from_slice(&n.to_le_bytes());
    }
    for (name, kind, offset, size) in [(0u32, 0u32, 0, 0), (1, 3, names_at, names.len()), (11, 1, at, data.len())] {
        let mut h = [0; 64];
        h[..4].copy_from_slice(&name.to_le_bytes());
        h[4..8].copy_from_slice(&kind.to_le_bytes());
        h[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        h[32..40].copy_from_slice(&(size as u64).to_le_bytes());
        out.extend(h);
    }
    out
}

fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = b"!<arch>\n".to_vec();
    for (name, data) in members {
        out.extend(
            format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", format!("{name}/"), 0, 0, 0, 644, data.len()).bytes(),
        );
        out.extend(*data);
        out.resize(out.len().next_multiple_of(2), b'\n');
    }
    out
}

fn fatbin(body: &[u8], kind: cubin::fatbin::Kind, sm: u32) -> cubin::fatbin::Entry<'_> {
    cubin::fatbin::Entry {
        kind,
        version: (1, 8),
        sm,
        flags: 0x11,
        identifier: Default::default(),
        options: None,
        body: body.into(),
        uncompressed: 0,
    }
}

/// Files that are damaged, or for something else: the name of the file, and of the member, is in the only message.
#[test]
fn files_that_cannot_be_linked() {
    use cubin::fatbin::{Kind, write};
    let Some(oracle) = testkit::oracle::latest() else { return };
    let cubin = good(&oracle);
    let elf = Elf::read(&cubin).expect("a cubin");
    let changed = |change: &dyn Fn(&mut Elf)| {
        let mut e = elf.clone();
        change(&mut e);
        e.write()
    };
    let section = |e: &mut Elf, name: &str, change: &dyn Fn(&mut cubin::elf::Section)| {
        let at = e.sections.iter().position(|s| s.name == name).expect(name);
        change(&mut e.sections[at]);
    };
    let bytes_at = |at: usize, bytes: &[u8]| {
        let mut b = cubin.clone();
        b[at..at + bytes.len()].copy_from_slice(bytes);
        b
    };
    let container = write(&[fatbin(&cubin, Kind::Elf, 80)]);
    let packed = |kind: u64| {
        let e = fatbin(&cubin, Kind::Elf, 80);
        let mut e = if kind == 0 { e.compress_lz4() } else { e.compress_zstd() };
        let cut = e.body[..e.body.len() / 2].to_vec();
        e.body = cut.into();
        write(&[e])
    };
    let mut cases: Vec<(Vec<u8>, &str)> = vec![
        (Vec::new(), "Input file 'x' is empty"),
        (b"hello".to_vec(), "Input file 'x' is no object, archive, fatbin, cubin or PTX"),
        (vec![0; 4096], "Input file 'x' is no object, archive, fatbin, cubin or PTX"),
        (b"int main() { return 0; }\n".repeat(9), "Input file 'x' is no object, archive, fatbin, cubin or PTX"),
        (b"\xed\x43\x4e\x7f0123456789".to_vec(), "LTO objects found, use -dlto: 'x'"),
        (b".version 8.0\n".to_vec(), "'x' is not compiled for sm_80"),
        (bytes_at(16, &[2, 0]), "Input file 'x' is no relocatable cubin: it was linked before"),
        (bytes_at(8, &[7]), "Input file 'x' has ABI version 7, not 8 of CUDA 13"),
        (bytes_at(4, &[1]), "not 64-bit and little-endian"),
        (bytes_at(58, &[1]), "section headers have an unknown size"),
        (bytes_at(62, &[200]), "the table of section names is missing"),
        (bytes_at(40, &[0xff; 8]), "ends past the file's end"),
        (bytes_at(60, &[0xff, 0xff]), "ends past the file's end"),
        (bytes_at(48, &[4, 75, 0, 6]), "Input file 'x' arch does not match target 'sm_80'"),
        (bytes_at(48, &[4, 90, 0, 6]), "Input file 'x' arch does not match target 'sm_80'"),
        (bytes_at(48, &[4, 86, 0, 6]), "Input file 'x' arch does not match target 'sm_80'"),
        (bytes_at(48, &[4, 87, 0, 6]), "Input file 'x' arch does not match target 'sm_80'"),
        (changed(&|e| section(e, ".nv.info", &|s| s.data[0] = 9)), "has the unknown format 9"),
        (changed(&|e| section(e, ".nv.info", &|s| s.data[2] = 0xff)), "is cut off"),
        (changed(&|e| section(e, ".nv.info", &|s| s.data[4] = 0xee)), "an attribute names symbol"),
        (changed(&|e| section(e, ".nv.info.k", &|s| s.data[0] = 7)), "has the unknown format 7"),
        (changed(&|e| section(e, ".nv.info.k", &|s| s.info = 999)), "belongs to section 999"),
        (changed(&|e| section(e, ".nv.callgraph", &|s| s.data[8] = 0xee)), "the call graph names symbol"),
        (changed(&|e| section(e, ".nv.prototype", &|s| s.data[7] = 0x7f)), "there is no name at"),
        (changed(&|e| section(e, ".symtab", &|s| s.link = 999)), "has no string table"),
        (changed(&|e| section(e, ".symtab", &|s| s.data[31] = 0x7f)), "a symbol lies in section"),
        (changed(&|e| section(e, ".symtab", &|s| s.data[27] = 0x7f)), "there is no name at"),
        (changed(&|e| section(e, ".text.k", &|s| s.align = 3)), "has the alignment 0x3"),
        (changed(&|e| section(e, ".text.k", &|s| s.align = 1 << 40)), "has the alignment"),
        (changed(&|e| section(e, ".rel.text.k", &|s| s.info = 0x7777)), "belongs to section 30583"),
        (changed(&|e| section(e, ".rel.text.k", &|s| s.data[12] = 0xee)), "names symbol 238"),
        (changed(&|e| section(e, ".rel.text.k", &|s| s.data[4] = 1)), "outside of its section"),
        (changed(&|e| section(e, ".rel.text.k", &|s| s.data[9] = 7)), "relocation 0x7"),
        (changed(&|e| section(e, ".note.nv.cuinfo", &|s| s.data[28] = 0xff)), "newer than toolkit (255 vs 135)"),
        (archive(&[("m.o", &cubin[..200])]), "'x:m.o'"),
        (archive(&[("m.o", &bytes_at(8, &[7]))]), "'x:m.o'"),
        (archive(&[("a.a", &archive(&[("b.o", &bytes_at(8, &[7]))]))]), "'x:a.a:b.o'"),
        (archive(&[("m.o", &cubin)])[..100].to_vec(), "Input file 'x' is damaged: not a valid archive: member 1 is cut off"),
        (b"!<arch>\nshort".to_vec(), "not a valid archive: member 1 is cut off"),
        ([b"!<arch>\n".to_vec(), vec![b'x'; 60]].concat(), "not a valid archive: member 1 has no header"),
        (b"!<thin>\n//                                              8         `\na.o/\n\n\n\n/0                                              8         `\n".to_vec(), "Could not open 'a.o' of 'x'"),
        (container[..40].to_vec(), "not a valid fatbin: it is cut off"),
        (container[..container.len() - 8].to_vec(), "not a valid fatbin: it is cut off"),
        ([&container[..4], &[9, 0], &container[6..]].concat(), "not a valid fatbin: version 9"),
        ([&container[..20], &[1, 0, 0, 0], &container[24..]].concat(), "not a valid fatbin: entry 1 is cut off"),
        (packed(0), "the LZ4 body of the entry for sm_80 does not unpack"),
        (packed(1), "the zstd body of the entry for sm_80 does not unpack"),
        (write(&[fatbin(b"xx", Kind::Lto, 80)]), "LTO objects found, use -dlto: 'x'"),
        (write(&[fatbin(b"xx", Kind::Other(0x100), 80)]), "Input file 'x' is damaged: not a valid fatbin: the headers of entries that were compressed together are damaged"),
        (write(&[fatbin(b"junk", Kind::Elf, 80)]), "Input file 'x' is damaged"),
    ];
    let newer = newer(&oracle);
    let of_newer = |change: &dyn Fn(&mut Elf)| {
        let mut e = Elf::read(&newer).expect("a cubin");
        change(&mut e);
        e.write()
    };
    // Of files for sm_90: what only they have.
    let cases_90: Vec<(Vec<u8>, &str)> = vec![
        (
            of_newer(&|e| section(e, ".note.nv.cuinfo", &|s| s.data[28] = 118)),
            "must be recompiled with toolkit >= Cuda 12.0",
        ),
        (
            of_newer(&|e| section(e, ".note.nv.cuinfo", &|s| (s.data, s.size) = (vec![0; 16], 16))),
            "must be recompiled with toolkit >= Cuda 12.0",
        ),
        (
            of_newer(&|e| section(e, ".nv.compat", &|s| s.data[2] = 1)),
            "cannot link accelerated arch to non-accelerated: 'x' is made for 'sm_90a'",
        ),
        (of_newer(&|e| section(e, ".nv.compat", &|s| s.data[0] = 9)), "has the unknown format 9"),
        (of_newer(&|e| e.header.flags = e.header.flags & 0xff00_00ff | 100 << 8), "arch does not match target 'sm_90'"),
        (of_newer(&|e| e.header.flags = e.header.flags & 0xff00_00ff | 89 << 8), "arch does not match target 'sm_90'"),
        (of_newer(&|e| e.header.kind = 3), "Input file 'x' is no relocatable cubin"),
        (
            of_newer(&|e| section(e, ".rela.text.k", &|s| relocation(s, 0x42, &|r| r[18] = 2))),
            "against 'c' in 'x' does not fit: 0x20000",
        ),
        (of_newer(&|e| section(e, ".rela.text.k", &|s| relocation(s, 0x42, &|r| r[8] = 0x7a))), "relocation 0x7a"),
        (of_newer(&|e| section(e, ".rela.text.k", &|s| relocation(s, 0x42, &|r| r[12] = 0xee))), "names symbol 238"),
        (of_newer(&|e| section(e, ".rela.text.k", &|s| relocation(s, 0x42, &|r| r[5] = 1))), "outside of its section"),
        (of_newer(&|e| section(e, ".rela.text.k", &cut_by_one)), "is no multiple of 24"),
        (of_newer(&|e| section(e, ".rela.text.k", &|s| s.info = 0x7777)), "belongs to section 30583"),
        (of_newer(&|e| section(e, ".symtab", &cut_by_one)), "is no multiple of 24"),
        (of_newer(&|e| section(e, ".nv.shared.k", &|s| s.info = 0x7777)), "belongs to section 30583"),
        (
            of_newer(&|e| section(e, ".nv.constant3", &|s| (s.data, s.size) = (vec![0], 1))),
            "'c' ends outside of section .nv.constant3",
        ),
    ];
    for (bytes, expected) in &cases_90 {
        let errors = link(&[("x", bytes.clone())], "sm_90").err().unwrap_or_else(|| panic!("it links: {expected}"));
        assert!(errors[0].message.contains(expected), "{} instead of {expected}", errors[0].message);
        assert!(errors[0].message.contains("'x'"), "{}", errors[0].message);
    }
    // Host objects and programs, archives in archives, and what holds itself.
    let mut nested = archive(&[("m.o", &cubin)]);
    for _ in 0..9 {
        nested = archive(&[("a.a", &nested)]);
    }
    let host = |name: &str, data: &[u8]| host_object(name, data);
    cases.extend([
        (nested, "holds archives in archives too deeply"),
        (b"!<thin>\n//                                              6         `\nx/\n\n\n\n/0                                              8         `\n".to_vec(), "holds archives in archives too deeply"),
        (host("__nv_relfatbin", &container[..40]), "Input file 'x' is damaged: not a valid fatbin"),
        (host("__nv_relfatbin", &write(&[fatbin(b"junk", Kind::Elf, 80)])), "Input file 'x' is damaged"),
        (host("__nv_relfatbin", &write(&[fatbin(&bytes_at(8, &[7]), Kind::Elf, 80)])), "Input file 'x' has ABI version 7"),
        (host("__nv_relfatbin", &write(&[fatbin(&bytes_at(16, &[2]), Kind::Elf, 80)])), "Input file 'x' is no relocatable cubin"),
        (host("__nv_relfatbin", &write(&[fatbin(b"xx", Kind::Lto, 80)])), "LTO objects found, use -dlto: 'x'"),
        (host("__nv_relfatbin", &packed(0)), "the LZ4 body of the entry for sm_80 does not unpack"),
        (host("__nv_relfatbin", &packed(1)), "the zstd body of the entry for sm_80 does not unpack"),
        (host("__nv_relfatbin", b"12345678"), "Input file 'x' is damaged: not a valid fatbin"),
        (archive(&[("h.o", &host("__nv_relfatbin", &packed(1)))]), "'x:h.o'"),
        (archive(&[("a.o", &cubin), ("b.o", &cubin)]), "Multiple definition of 'f' in 'x:b.o', first defined in 'x:a.o'"),
        ([container.clone(), container.clone()].concat(), "Multiple definition of 'f' in 'x'"),
        ({ let mut h = host("__nv_relfatbin", &container); h[4] = 1; h }, "not 64-bit and little-endian"),
        ({ let mut h = host("__nv_relfatbin", &container); h[5] = 2; h }, "not 64-bit and little-endian"),
    ]);
    // Cut at some places: never a panic, always the file's name.
    for n in (1..11).map(|i| cubin.len() * i / 11) {
        cases.push((cubin[..n].to_vec(), "Input file 'x'"));
    }
    let mut seen = 0;
    for (bytes, expected) in &cases {
        let errors = match link(&[("x", bytes.clone())], "sm_80") {
            Ok(_) => panic!("it links: {expected}"),
            Err(errors) => errors,
        };
        assert!(errors[0].message.contains(expected), "{} instead of {expected}", errors[0].message);
        assert!(errors[0].message.contains("'x") || errors[0].message.contains("in 'x'"), "{}", errors[0].message);
        seen += 1;
    }
    let seen = seen + cases_90.len();
    assert!(seen + MODULES.len() >= 110, "{seen}");
    let wrong = [("x", write(&[fatbin(&cubin, Kind::Elf, 75)]))];
    let mut collector = Collector::new(arch::Target::parse("sm_80").expect("a target"), &NoFiles);
    collector.add("x", &wrong[0].1, false).expect("a warning only");
    let inputs = collector.finish();
    assert_eq!(inputs.warnings[0].message, "SM Arch ('sm_80') not found in 'x', which has sm_75");
}

/// An attribute of each code that names a symbol, with a number that no symbol has.
#[test]
fn attributes_name_symbols() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let whole = good(&oracle);
    let mut seen = 0;
    for code in [cubin::attr::REGCOUNT, cubin::attr::FRAME_SIZE, cubin::attr::MIN_STACK_SIZE] {
        // Words, the code, eight bytes: symbol and value.
        let Some(at) = whole.windows(4).position(|w| w == [4, code, 8, 0]) else { continue };
        let mut bytes = whole.clone();
        bytes[at + 4..at + 8].copy_from_slice(&2829u32.to_le_bytes());
        let errors = link(&[("x", bytes)], "sm_80").expect_err("no such symbol");
        assert!(errors[0].message.contains("an attribute names symbol 2829"), "{}", errors[0].message);
        seen += 1;
    }
    assert!(seen > 1, "{seen}");
}

/// An object with a capsule that names shared and constant variables in its code.
fn with_capsule(oracle: &Path) -> Vec<u8> {
    let text = ".version 8.8
.target sm_100a
.address_size 64
.shared .align 4 .b32 s[8];
.const .align 4 .b32 c[4] = {1, 2, 3, 4};
.visible .func (.param .b32 r) f(.param .b32 a) {
.reg .b32 %r<4>; ld.param.b32 %r1, [a]; st.shared.b32 [s + 4], %r1; ld.const.b32 %r2, [c + 8]; mad.lo.s32 %r1, %r1, %r2, %r1;
st.param.b32 [r], %r1; ret; }
.global .align 8 .u64 table[1] = {f};
.visible .entry k(.param .u64 p) {
.reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; ld.const.b32 %r, [c];
{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r; call (r), f, (a); ld.param.b32 %r, [r]; }
st.global.b32 [%d], %r; ret; }
";
    testkit::oracle::compile(&oracle.join("bin/ptxas"), text, &["-c", "-arch=sm_100a"]).expect("it compiles")
}

/// An object with a capsule, references to textures, and unified functions and variables.
fn with_references(oracle: &Path) -> Vec<u8> {
    let text = ".version 8.8
.target sm_100a
.address_size 64
.global .texref t; .global .surfref s;
.visible .global .attribute(.unified(3, 4)) .u64 w = 5;
.visible .func .attribute(.unified(1, 2)) (.param .b32 r) f(.param .b32 a) {
.reg .b32 %x, %y, %z, %w, %r; ld.param.b32 %r, [a]; tex.1d.v4.s32.s32 {%x, %y, %z, %w}, [t, {%r}];
suld.b.1d.b32.trap {%y}, [s, {%r}]; add.u32 %x, %x, %y; st.param.b32 [r], %x; ret; }
.visible .entry k(.param .u64 p) {
.reg .b64 %d; .reg .b32 %r; ld.param.u64 %d, [p]; ld.global.b32 %r, [w];
{ .param .b32 a; .param .b32 r; st.param.b32 [a], %r; call (r), f, (a); ld.param.b32 %r, [r]; }
st.global.b32 [%d], %r; ret; }
";
    testkit::oracle::compile(&oracle.join("bin/ptxas"), text, &["-c", "-arch=sm_100a"]).expect("it compiles")
}

#[test]
fn damage_does_no_harm() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let cubin = good(&oracle);
    let packed = cubin::fatbin::write(&[fatbin(&cubin, cubin::fatbin::Kind::Elf, 80).compress_zstd()]);
    let other = cubin::fatbin::write(&[fatbin(&cubin, cubin::fatbin::Kind::Elf, 80).compress_lz4()]);
    let members = archive(&[("a.o", &cubin), ("b.o", &packed)]);
    let host = host_object("__nv_relfatbin", &packed);
    let capsule = with_capsule(&oracle);
    // Two entries that were compressed together.
    let entries = [80, 80].map(|sm| fatbin(&cubin, cubin::fatbin::Kind::Elf, sm));
    let joined = cubin::fatbin::write(&[cubin::fatbin::join(&entries).compress_zstd()]);
    let references = with_references(&oracle);
    let named = [
        ("joined", &joined),
        ("references", &references),
        ("cubin", &cubin),
        ("zstd", &packed),
        ("lz4", &other),
        ("archive", &members),
        ("host", &host),
        ("capsule", &capsule),
    ];
    let wanted = std::env::var("SASSAFRAS_FUZZ_KIND").ok();
    let chosen = named.iter().filter(|k| wanted.as_deref().is_none_or(|w| w == k.0));
    let kinds: Vec<(&Vec<u8>, bool)> = chosen.map(|k| (k.1, matches!(k.0, "capsule" | "references"))).collect();
    assert!(!kinds.is_empty(), "no such kind: {wanted:?}");
    let seconds = std::env::var("SASSAFRAS_FUZZ").ok().and_then(|s| s.parse().ok()).unwrap_or(5);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut random, mut rounds) = (Random(4), 0u64);
    while Instant::now() < end {
        rounds += kinds.len() as u64;
        for &(whole, capsule) in &kinds {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.index(6) {
                let at = random.index(bytes.len());
                bytes[at] = if random.index(2) == 0 { random.bits() as u8 } else { bytes[at] ^ 1 << random.index(8) };
            }
            if random.index(4) == 0 {
                bytes.truncate(random.index(bytes.len()));
            }
            let mut files = vec![("x", bytes)];
            files.extend((!capsule).then(|| ("y", cubin.clone())));
            let mut options = program::options(if capsule { "sm_100a" } else { "sm_80" });
            (options.relocatable, options.debug) = (random.index(4) == 0, random.index(4) == 0);
            options.preserve_relocs = random.index(4) == 0;
            let _ = link_with(&files, &options);
        }
    }
    eprintln!("{rounds} damaged files");
}

#[test]
fn an_entry_alone_links() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let cubin = testkit::oracle::compile(&oracle.join("bin/ptxas"), &format!("{HEAD}{ENTRY}"), &["-c", "-arch=sm_80"]);
    assert!(link(&[("x", cubin.expect("it compiles"))], "sm_80").is_ok());
}
