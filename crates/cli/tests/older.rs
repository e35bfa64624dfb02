//! What older versions of PTX write otherwise, and the vendor's tool still takes: its warnings and errors, and that ours computes what is meant.

mod compiled;

use compiled::{cubin, words};
use std::path::Path;
use testkit::Scratch;
use testkit::tool::run;

/// Our tool and, where it is at hand, the vendor's say these lines about a text, without the file's name.
fn says(dir: &Scratch, text: &str, lines: &[&str]) {
    std::fs::write(dir.join("m.ptx"), text).expect("written");
    let mut tools = vec![Path::new(env!("CARGO_BIN_EXE_ptxas")).to_path_buf()];
    tools.extend(testkit::oracle::latest().map(|o| o.join("bin/ptxas")));
    let failed = lines.iter().any(|l| l.contains("error") || l.contains("fatal"));
    for tool in tools {
        let done = run(&tool, dir, &["-arch=sm_90", "m.ptx", "-o", "m.cubin"]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let said = said.lines().filter(|l| !l.contains("aborted due to errors"));
        let said: Vec<String> =
            said.map(|l| l.replace("ptxas m.ptx, ", "").replace("   :", ":").replace(" :", ":")).collect();
        assert_eq!(said, lines, "{} {text}", tool.display());
        assert_eq!(done.status.code(), Some(if failed { 255 } else { 0 }), "{} {text}", tool.display());
    }
}

/// The `;` behind a prototype may be missing, but not behind that of an entry.
#[test]
fn prototypes_without_an_end() {
    let dir = Scratch::new("older-prototypes");
    let text = |end: &str| {
        format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.extern .func x (.param .b32 a) .noreturn{end}\n\
             .visible .func (.param .b32 r) f (.param .b32 a){end}\n.visible .func (.param .b32 r) f (.param .b32 a){end}\n\
             .visible .func (.param .b32 r) f (.param .b32 a)\n{{ st.param.b32 [r], 1; ret; }}\n.entry k() {{ ret; }}\n"
        )
    };
    assert_eq!(cubin(&dir, &text("")), cubin(&dir, &text(";")));
    let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
    says(&dir, &format!("{head}.entry k(.param .u64 a) {{ ret; }}\n.extern .func f (.param .b32 a)"), &[]);
    let junk = format!("{head}.func f (.param .b32 a) junk\n");
    says(&dir, &junk, &["line 4; fatal: Parsing error near 'junk': syntax error"]);
    let entry = format!("{head}.entry k(.param .u64 a)\n.entry k(.param .u64 a) {{ ret; }}\n");
    says(&dir, &entry, &["line 5; fatal: Parsing error near '.entry': syntax error"]);
}

/// Votes and shuffles of the threads that are together.
#[test]
fn votes_and_shuffles_without_sync() {
    let dir = Scratch::new("older-votes");
    let body = ".entry k(.param .u64 a) {\n.reg .b32 %r<9>; .reg .pred %p<9>; .reg .b64 %d<3>;\n";
    let head = |version: &str, target: &str| format!(".version {version}\n.target {target}\n.address_size 64\n{body}");
    for (op, text) in [("vote", "vote.all.pred %p1, %p2;"), ("shfl", "shfl.up.b32 %r1|%p1, %r2, 1, 0;")] {
        let how = format!("Instruction '{op}' without '.sync'");
        let may = format!("line 6; warning: {how} may produce unpredictable results on sm_70 and later architectures");
        let old = format!(
            "line 6; warning: {how} is deprecated since PTX ISA version 6.0 and will be discontinued in a future PTX ISA version"
        );
        let gone =
            format!("line 6; error: {how} is not supported on .target sm_70 and higher from PTX ISA version 6.4");
        let of = |version, target| format!("{}{text}\nret;\n}}\n", head(version, target));
        says(&dir, &of("5.0", "sm_30"), &[&may]);
        says(&dir, &of("6.3", "sm_70"), &[&may, &old]);
        says(&dir, &of("8.0", "sm_60"), &[&may, &old]);
        says(&dir, &of("6.4", "sm_70"), &[&gone]);
    }
    let ballot = |version, target| format!("{}vote.ballot.b32 %r1, %p1, -1;\nret;\n}}\n", head(version, target));
    let required = "line 6; error: .sync modifier required for instruction 'vote'";
    let may = "line 6; warning: Instruction 'vote' without '.sync' may produce unpredictable results on sm_70 and later architectures";
    says(&dir, &ballot("5.0", "sm_30"), &[required, may]);

    let text = format!(
        "{}ld.param.u64 %d1, [a];\nmov.u32 %r1, %tid.x;\nsetp.gt.u32 %p1, %r1, 3;\nand.b32 %r2, %r1, 1;\nsetp.eq.u32 %p2, %r2, 1;\n\
         vote.ballot.b32 %r3, %p1;\nvote.all.pred %p3, %p1;\nvote.any.pred %p4, %p1;\nvote.uni.pred %p5, !%p1;\nmov.u32 %r4, 7;\n\
         mov.u32 %r6, 0;\n@!%p2 bra MEET;\nvote.ballot.b32 %r4, %p1;\nvote.all.pred %p6, %p2;\n@%p6 add.u32 %r6, %r6, 8;\nMEET:\n\
         @%p3 add.u32 %r6, %r6, 1;\n@%p4 add.u32 %r6, %r6, 2;\n@%p5 add.u32 %r6, %r6, 4;\n\
         shfl.up.b32 %r5|%p7, %r1, 1, 0;\n@%p7 add.u32 %r5, %r5, 100;\nmad.wide.u32 %d1, %r1, 16, %d1;\n\
         st.global.v4.u32 [%d1], {{%r3, %r4, %r5, %r6}};\nret;\n}}\n",
        head("5.0", "sm_30")
    );
    let thread = |i: u32| {
        let odd = i % 2 == 1;
        [0xffff_fff0, if odd { 0xaaaa_aaa0 } else { 7 }, if i == 0 { 0 } else { i + 99 }, if odd { 10 } else { 2 }]
    };
    let expected: Vec<u32> = (0..32).flat_map(thread).collect();
    let [interpreted, ours] = words(&dir, &text, 32, 128);
    assert_eq!(interpreted, expected);
    assert_eq!(ours, expected);
}

/// `mad.f32` says no rounding before PTX 3.1, and never for targets before sm_20, where it also flushes: one rounding, to nearest.
#[test]
fn products_without_rounding() {
    let dir = Scratch::new("older-mad");
    let text = |version: &str, target: &str| {
        format!(
            ".version {version}\n.target {target}\n.entry k(.param .u64 a) {{\n.reg .b64 %d; .reg .f32 %f<9>;\n\
             mad.f32 %f3, 0f3f800800, 0f3f800800, 0fbf801000;\n\
             ld.param.u64 %d, [a];\nst.global.f32 [%d], %f3;\nmov.b32 %f1, 1;\nmad.sat.f32 %f4, %f1, 0f3f800000, 0f00000000;\n\
             st.global.f32 [%d+4], %f4;\nret;\n}}\n"
        )
    };
    for (version, target, small) in [("1.4", "sm_13", 0), ("4.0", "sm_12", 0), ("2.3", "sm_20", 1)] {
        says(&dir, &text(version, target), &[]);
        let [interpreted, ours] = words(&dir, &text(version, target), 1, 2);
        assert_eq!(interpreted, [0x3380_0000, small], "{version} {target}");
        assert_eq!(ours, interpreted, "{version} {target}");
    }
    let warned = "warning: Rounding modifier required for mad.f32 if .target is sm_20 or later.";
    says(&dir, &text("3.1", "sm_20"), &[&format!("line 5; {warned}"), &format!("line 9; {warned}")]);
    let wrong = "error: Rounding modifier required for instruction 'mad'";
    says(&dir, &text("3.2", "sm_20"), &[&format!("line 5; {wrong}"), &format!("line 9; {wrong}")]);
}

/// Matrices of warps did not say `.aligned` before PTX 6.3.
#[test]
fn matrices_without_aligned() {
    let dir = Scratch::new("older-wmma");
    let text = |version: &str, aligned: &str| {
        format!(
            ".version {version}\n.target sm_70\n.address_size 64\n.entry k(.param .u64 a) {{\n.reg .b64 %d; .reg .b32 %r<9>;\n\
             ld.param.u64 %d, [a];\nwmma.load.a.sync{aligned}.row.m16n16k16.f16 {{%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}}, [%d];\n\
             wmma.store.d.sync{aligned}.row.m16n16k16.f16 [%d], {{%r1,%r2,%r3,%r4}};\nret;\n}}\n"
        )
    };
    for version in ["6.0", "6.2"] {
        assert_eq!(cubin(&dir, &text(version, "")), cubin(&dir, &text(version, ".aligned")));
    }
    let lines = [(7, "load.a"), (8, "store.d")]
        .map(|(n, what)| format!("line {n}; error: .aligned modifier required for instruction 'wmma.{what}'"));
    says(&dir, &text("6.3", ""), &lines.each_ref().map(String::as_str));
}

/// Vectors of coordinates may be longer than the geometry wants, in every version.
#[test]
fn more_coordinates_than_dimensions() {
    let dir = Scratch::new("older-coordinates");
    let text = |[one, two, three]: [&str; 3], fetch: &str| {
        format!(
            ".version 8.0\n.target sm_90\n.address_size 64\n.global .texref t; .global .surfref s;\n.entry k(.param .u64 a) {{\n\
             .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d, %l;\nld.param.u64 %d, [a];\nld.global.v4.u32 {{%r1,%r2,%r3,%r4}}, [%d];\n\
             tex.1d.v4.f32.s32 {{%f1,%f2,%f3,%f4}}, [t, {one}];\nst.global.f32 [%d], %f1;\n\
             tex.2d.v4.f32.s32 {{%f1,%f2,%f3,%f4}}, [t, {two}];\nst.global.f32 [%d], %f1;\n\
             tex.a1d.v4.f32.s32 {{%f1,%f2,%f3,%f4}}, [t, {three}];\nst.global.f32 [%d], %f1;\n\
             suld.b.1d.b32.trap %r5, [s, {one}];\nsust.b.2d.b32.trap [s, {two}], %r5;\n{fetch}\nret;\n}}\n"
        )
    };
    let short = text(["{%r1}", "{%r1,%r2}", "{%r1,%r2}"], "");
    let long = text(["{%r1,%r4}", "{%r1,%r2,%r3,%r4}", "{%r1,%r2,7,%r4}"], "");
    says(&dir, &long, &[]);
    assert_eq!(cubin(&dir, &long), cubin(&dir, &short));
    let three = text(["{%r1,%r2,%r3}", "{%r1,%r2}", "{%r1,%r2}"], "");
    let size = "error: Illegal vector size: 3";
    says(&dir, &three, &[&format!("line 9; {size}"), &format!("line 15; {size}")]);
    let wide = text(["{%r1}", "{%r1,%r2}", "{%r1,%r2}"], "tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [t, {%r1,%l}];");
    says(&dir, &wide, &["line 17; error: Incompatible elements of vector expression"]);
}

/// A register and a constant as a source: the sum, as wide as the register.
#[test]
fn sums_as_sources() {
    let dir = Scratch::new("older-sums");
    let text = |body: &str| {
        format!(
            ".version 6.5\n.target sm_30\n.address_size 64\n.entry k(.param .u64 a) {{\n.reg .b64 %d, %l; .reg .b32 %r<9>; .reg .u16 %h<3>; .reg .f32 %f<3>; .reg .pred %p;\n\
             ld.param.u64 %d, [a];\n{body}\nret;\n}}\n"
        )
    };
    let all = text(
        "mov.u32 %r1, %tid.x;\nadd.u32 %r2, %r1+4, %r1+-3;\nadd.u32 %r2, %r2+4+5, 1;\nst.global.u32 [%d], %r2+0x100000001;\n\
         setp.eq.u32 %p, %r1+1, 1;\nselp.b32 %r3, %r2+(4-5), 0, %p;\nst.global.u32 [%d+4], %r3;\nmov.u64 %l, -1;\nst.global.u64 [%d+8], %l + 1;\n\
         mov.u16 %h1, 65535;\nmul.wide.u16 %r4, %h1+3, %h1+4;\nst.global.u32 [%d+16], %r4;\nst.global.u8 [%d+20], %r1+511;\n\
         cvt.u64.u32 %l, %r1+-1;\nst.global.u64 [%d+24], %l;",
    );
    says(&dir, &all, &[]);
    let expected = [12, 10, 0, 0, 6, 255, u32::MAX, 0];
    let [interpreted, ours] = words(&dir, &all, 1, 8);
    assert_eq!(interpreted, expected);
    assert_eq!(ours, expected);
    says(&dir, &text("add.u32 %r1+1, %r1, 1;"), &["line 7; error: Result register required for instruction 'add'"]);
    says(&dir, &text("add.u32 %r1, %r1-1, 1;"), &["line 7; fatal: Parsing error near '-': syntax error"]);
    says(&dir, &text("mov.b32 %r1, {%h1+1, %h1};"), &["line 7; fatal: Parsing error near '+': syntax error"]);
}

/// Directives that came later than the version.
#[test]
fn directives_before_their_time() {
    let dir = Scratch::new("older-directives");
    let size = ".version 2.2\n.target sm_20\n.address_size 64\n.entry k() { ret; }\n";
    says(&dir, size, &["line 3; error: Feature '.address_size directive' requires PTX ISA .version 2.3 or later"]);
    let keeps = ".version 8.5\n.target sm_80\n.address_size 64\n.entry k() {\n\
                 p: .callprototype _ (.param .u32 x) .abi_preserve 4 .abi_preserve_control 2;\nret;\n}\n";
    let since = |n: &str| format!("line 5; error: Feature '.abi_preserve{n}' requires PTX ISA .version 9.0 or later");
    says(&dir, keeps, &[&since(""), &since("_control")]);
    let pairs = ".version 4.1\n.target sm_30\n.address_size 64\n.entry k() {\n.reg .f16x2 a, b;\nret;\n}\n";
    let feature = "line 5; error: Feature '.f16x2 packed data-type' requires";
    says(
        &dir,
        pairs,
        &[&format!("{feature} .target sm_53 or higher"), &format!("{feature} PTX ISA .version 4.2 or later")],
    );
    says(&dir, &pairs.replace("4.1", "4.2").replace("sm_30", "sm_53"), &[]);
}

/// Lines and order of messages about headers and calls.
#[test]
fn where_headers_and_calls_are_wrong() {
    let dir = Scratch::new("older-places");
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n";
    let open = format!("{head}.entry k(.param .u32 a[]\n)\n{{ ret; }}\n.entry k2(.param .u32 a[]) {{ ret; }}\n");
    let array = "error: Parameter to entry function cannot be an incomplete array.";
    says(&dir, &open, &[&format!("line 5; {array}"), &format!("line 7; {array}")]);
    let ending = format!("{head}.entry k()\n.noreturn\n{{ ret; }}\n");
    says(&dir, &ending, &["line 5; fatal: Parsing error near '.noreturn': syntax error"]);
    let calls = format!("{head}.entry k() {{\n.reg .b32 r;\ncall foo, (r);\ncall bar;\nret;\n}}\n");
    let requires = |line: u32, name: &str| format!("line {line}; error: Call to '{name}' requires call prototype");
    let unknown = |line: u32, name: &str| format!("line {line}; error: Unknown symbol '{name}'");
    says(&dir, &calls, &[&requires(6, "foo"), &requires(7, "bar"), &unknown(6, "foo"), &unknown(7, "bar")]);
}
