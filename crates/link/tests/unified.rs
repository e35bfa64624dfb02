//! Unified functions and variables: a file that links again keeps them as the vendor's does; an executable needs an index file.

#[allow(dead_code)]
mod program;

use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Scratch;

/// Functions with stubs, one called and one whose address is taken; variables with and without values; both in another file, too.
const MODULES: [&str; 3] = [
    ".visible .func .attribute(.unified(0x11223344aabbccdd, 0x5566778899001122)) (.param .b32 r) f (.param .b32 a) {
.reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, 1; st.param.b32 [r], %x; ret;
}
.visible .func .attribute(.unified(0x1122334400000001, 0x5566778899001133)) (.param .b32 r) g (.param .b32 a) {
.reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, 2; st.param.b32 [r], %x; ret;
}
.visible .entry k(.param .u64 p) {
.reg .b64 %a; .reg .b32 %s; mov.u32 %s, %tid.x; ld.param.u64 %a, [p];
{ .param .b32 q; .param .b32 r; st.param.b32 [q], %s; call (r), f, (q); ld.param.b32 %s, [r]; }
st.global.u32 [%a], %s; mov.u64 %a, g; st.global.u64 [%a], %a; ret;
}",
    ".visible .global .attribute(.unified(0x5, 0x6)) .u32 xa;
.visible .global .attribute(.unified(0x7, 0x8)) .align 16 .b8 xb[40];",
    ".extern .func .attribute(.unified(0x11223344aabbccdd, 0x5566778899001122)) (.param .b32 r) f (.param .b32 a);
.visible .func .attribute(.unified(0x1122334400000009, 0x5566778899001139)) (.param .b32 r) h (.param .b32 a) {
.reg .b32 %x; ld.param.b32 %x, [a]; add.u32 %x, %x, 5; st.param.b32 [r], %x; ret;
}
.visible .global .attribute(.unified(0x1, 0x2)) .u32 uv;
.visible .global .attribute(.unified(0x3, 0x4)) .u64 uw = 5;
.visible .entry k2(.param .u64 p) {
.reg .b64 %a; .reg .b32 %s; mov.u32 %s, %tid.x; ld.param.u64 %a, [p];
{ .param .b32 q; .param .b32 r; st.param.b32 [q], %s; call (r), f, (q); ld.param.b32 %s, [r]; }
st.global.u32 [%a], %s; ld.global.u32 %s, [uv]; st.global.u32 [%a+4], %s; ret;
}",
];

fn ours(files: &[PathBuf], arch: &str, relocatable: bool) -> Result<Vec<u8>, Vec<diag::Diagnostic>> {
    let bytes: Vec<Vec<u8>> = files.iter().map(|f| std::fs::read(f).expect("a file")).collect();
    let cubins: Vec<link::Cubin> =
        bytes.iter().map(|bytes| link::Cubin { name: "m.o", bytes, system: false }).collect();
    let options = link::Options { relocatable, ..program::options(arch) };
    link::link(&cubins, &options).map(|l| l.bytes)
}

/// The vendor's `-r`.
fn again(bin: &Path, files: &[PathBuf], arch: &str, out: &Path) -> Vec<u8> {
    let mut nvlink = Command::new(bin.join("nvlink"));
    nvlink.arg(format!("-arch={arch}")).arg("-r").args(files).arg("-o").arg(out);
    let done = nvlink.output().expect("nvlink runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    std::fs::read(out).expect("a file")
}

#[test]
fn files_that_link_again_keep_unified_symbols() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    for arch in ["sm_90", "sm_100a"] {
        let dir = Scratch::new("unified");
        let modules: Vec<String> =
            MODULES.iter().map(|m| format!(".version 8.8\n.target {arch}\n.address_size 64\n{m}\n")).collect();
        let files = program::compile(&bin, &dir, &modules, arch);
        // Entries are those of the vendor's file.
        let entries = |bytes: &[u8]| {
            let list = link::diff(bytes, &again(&bin, &files, arch, &dir.join("vendor.cubin"))).expect("cubins");
            let of = |d: &&link::Difference| d.part.contains("udt") || d.part.ends_with("uft.entry");
            list.iter().filter(of).map(|d| d.to_string()).collect::<Vec<_>>()
        };
        let mine = ours(&files, arch, true).expect("it links");
        assert_eq!(entries(&mine), Vec::<String>::new(), "{arch}");
        // What the vendor makes of either is the same, and so is what we make of our own.
        let (a, b) = (dir.join("ours.cubin"), dir.join("vendor.cubin"));
        std::fs::write(&a, &mine).expect("writable");
        let from_ours = again(&bin, std::slice::from_ref(&a), arch, &dir.join("a.cubin"));
        let from_theirs = again(&bin, &[b], arch, &dir.join("b.cubin"));
        assert_eq!(link::diff(&from_ours, &from_theirs), Ok(Vec::new()), "{arch}");
        let twice = ours(&[a], arch, true).expect("it links");
        assert_eq!(link::diff(&mine, &twice), Ok(Vec::new()), "{arch}");
        for file in &files {
            let errors = ours(std::slice::from_ref(file), arch, false).expect_err("an index file is missing");
            let said = &errors[0].message;
            assert!(said.starts_with("Unified symbols found but index file not specified: '"), "{said}");
        }
    }
}
