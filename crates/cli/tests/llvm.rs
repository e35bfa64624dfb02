//! What LLVM writes on purpose and others do seldom, and what older chips have other instructions for: the PTX interpreter, our code, and the
//! vendor's where the tool is at hand, leave the same in memory.

use sim::{Arg, Config, Launch};
use std::path::Path;
use testkit::Scratch;
use testkit::tool::run;

const HEAD: &str = ".version 8.6\n.target CHIP\n.address_size 64\n";

/// One block of `k` with one buffer.
fn launch(threads: u32, data: Vec<u8>) -> Launch {
    let args = vec![Arg::Buffer { data, out: None }];
    Launch { kernel: "k".into(), grid: [1, 1, 1], block: [threads, 1, 1], args, ..Launch::default() }
}

/// What a warp of `k` leaves of a buffer of these bytes, whoever runs it, for a chip; `text` has all but the directives in front.
fn left(text: &str, chip: &str, data: Vec<u8>) -> Vec<u8> {
    left_by(&format!("{}{text}", HEAD.replace("CHIP", chip)), chip, data, true)
}

/// The same of a whole text; `vendor`: the simulator knows what the vendor's tool makes of it.
fn left_by(text: &str, chip: &str, data: Vec<u8>, vendor: bool) -> Vec<u8> {
    let (m, mut d) = ptx::parse(text);
    let target = arch::Target::parse(chip).expect("a chip");
    d.extend(ptx::check(&m, Some(&target)));
    assert!(d.is_empty(), "{d:?}\n{text}");
    let launch = launch(32, data);
    let done = sim::run_ptx(&m, &launch, &Config::default()).unwrap_or_else(|f| panic!("{f}\n{text}"));
    let mut codes = Vec::new();
    for effort in 0..=codegen::opt::MOST_EFFORT {
        let options = codegen::Options { verify: true, target, effort, ..Default::default() };
        codes.push(codegen::compile(&m, &options).unwrap_or_else(|d| panic!("{d:?}\n{text}")).cubin);
    }
    if let Some(tool) = testkit::oracle::ptxas().filter(|_| vendor) {
        codes.push(testkit::oracle::compile(&tool, text, &[&format!("-arch={chip}")]).expect("the vendor's code"));
    }
    for (n, code) in codes.iter().enumerate() {
        let got = sim::run_sass(code, &launch, &Config::default()).unwrap_or_else(|f| panic!("{n}: {f}\n{text}"));
        assert_eq!(got.buffers, done.buffers, "code {n} for {chip}: {text}");
    }
    done.buffers[0].clone()
}

/// The same in words.
fn words(text: &str, chip: &str, data: &[u32]) -> Vec<u32> {
    let bytes = left(text, chip, data.iter().flat_map(|w| w.to_le_bytes()).collect());
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
}

/// Our tool and the vendor's say these lines, without `ptxas`, of a module for a chip.
fn says(text: &str, chip: &str, lines: &[&str]) {
    let dir = Scratch::new("llvm");
    std::fs::write(dir.join("m.ptx"), text).expect("written");
    let mut tools = vec![Path::new(env!("CARGO_BIN_EXE_ptxas")).to_path_buf()];
    tools.extend(testkit::oracle::latest().map(|o| o.join("bin/ptxas")));
    for tool in tools {
        let done = run(&tool, &dir, &[&format!("-arch={chip}"), "m.ptx", "-o", "m.cubin"]);
        let said = String::from_utf8_lossy(&done.stderr).replace("ptxas ", "");
        assert_eq!(said.lines().map(str::trim_end).collect::<Vec<_>>(), lines, "{} {text}", tool.display());
    }
}

#[test]
fn vectors_of_four_of_parameters_of_twelve_bytes() {
    let text = ".func (.param .align 16 .b8 r[12]) f(.param .align 16 .b8 p[12], .param .b32 q)\n{\n.reg .b32 %r<6>;\n\
        .pragma \"used_bytes_mask 0xfff\";\nld.param.v4.b32 {%r1, %r2, %r3, %r4}, [p];\nld.param.b32 %r5, [q];\nadd.u32 %r3, %r3, %r5;\n\
        st.param.v2.b32 [r], {%r2, %r1};\nst.param.b32 [r+8], %r3;\nst.param.b32 [r+12], %r5;\nret;\n}\n\
        .visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<6>; .reg .b64 %d;\nld.param.u64 %d, [p];\nld.global.v2.b32 {%r1,%r2}, [%d];\n\
        ld.global.b32 %r3, [%d+8];\n{\n.param .align 16 .b8 a[12];\n.param .b32 q;\n.param .align 16 .b8 b[12];\n\
        st.param.b32 [q], 100;\nst.param.v4.b32 [a], {%r1, %r2, %r3, 5};\ncall.uni (b), f, (a, q);\n\
        ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [b];\n}\n\
        st.global.v2.b32 [%d], {%r1, %r2};\nst.global.b32 [%d+8], %r3;\nret;\n}\n";
    for chip in ["sm_90a", "sm_75"] {
        assert_eq!(words(text, chip, &[3, 4, 5, 6]), [4, 3, 105, 6], "{chip}");
    }
}

#[test]
fn signs_of_bf16_where_nothing_adds_them() {
    let text = ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d; .reg .b32 %r<6>; .reg .b16 %h<6>;\nld.param.u64 %d, [p];\nmov.u32 %r0, %tid.x;\n\
        mad.wide.u32 %d, %r0, 16, %d;\nld.global.b32 %r1, [%d];\nneg.bf16x2 %r2, %r1;\nabs.bf16x2 %r3, %r1;\nst.global.v2.b32 [%d], {%r2, %r3};\n\
        mov.b32 {%h1, %h2}, %r1;\nneg.bf16 %h3, %h1;\nabs.bf16 %h4, %h2;\nst.global.v2.b16 [%d+8], {%h3, %h4};\nret;\n}\n";
    let special = [0, 0x8000, 0x3f80, 0xbf80, 1, 0x8001, 0x7f80, 0xff80, 0x7f7f, 0xff7f, 0x4049];
    let value = |i: usize| special[i % special.len()];
    let data: Vec<u32> = (0..32).flat_map(|i| [value(i) | value(i * 3 + 1) << 16, 0, 0, 9]).collect();
    for chip in ["sm_80", "sm_86", "sm_89", "sm_90"] {
        let got = words(text, chip, &data);
        for (x, y) in data.chunks(4).zip(got.chunks(4)) {
            let (neg, abs) = (x[0] ^ 0x8000_8000, x[0] & 0x7fff_7fff);
            assert_eq!(y, [neg, abs, neg & 0xffff | abs & 0xffff_0000, 9], "{:x} on {chip}", x[0]);
        }
    }
}

#[test]
fn all_of_shared_memory_on_the_first_chips() {
    let text = ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %d; .reg .b32 %r<6>;\n.shared .b32 s[100];\nld.param.u64 %d, [p];\nmov.u32 %r1, %total_smem_size;\n\
        mov.u32 %r3, %tid.x;\nshl.b32 %r3, %r3, 2;\nmov.u32 %r4, s;\nadd.u32 %r3, %r3, %r4;\n\
         st.shared.b32 [%r3], %r1;\nld.shared.b32 %r2, [%r3];\nst.global.b32 [%d], %r2;\nret;\n}\n";
    let (m, _) = ptx::parse(&format!("{}{text}", HEAD.replace("CHIP", "sm_75")));
    let target = arch::Target::parse("sm_75").expect("a chip");
    let code = codegen::compile(&m, &codegen::Options { target, verify: true, ..Default::default() }).expect("code");
    let got = sim::run_sass(&code.cubin, &launch(32, vec![0; 4]), &Config::default()).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(got.buffers[0], 400u32.to_le_bytes());
}

/// Products of bytes in every shape, with and without saturation, of matrices that are whole numbers in memory.
#[test]
fn products_of_bytes_by_eight_rows() {
    let fill = |n: usize| (0..n).map(|i| (i * 37 + i / 7 * 11) as u8);
    for (m, n) in [(16usize, 16usize), (32, 8), (8, 32)] {
        let (a, b) = (m * 16 / 128, n * 16 / 128);
        let list = |first: usize, n: usize| (first..first + n).map(|i| format!("%r{i}")).collect::<Vec<_>>().join(", ");
        let (a, b, c, d) = (list(0, a), list(8, b), list(16, 8), list(24, 8));
        for (ty, sat, high) in [("s8", "", 0u32), ("u8", "", 1 << 20), ("s8", ".satfinite", 0x7fff_f000)] {
            let shape = format!("m{m}n{n}k16");
            let text = format!(
                ".visible .entry k(.param .u64 p)\n{{\n.reg .b64 %d<5>; .reg .b32 %r<40>;\nld.param.u64 %d0, [p];\nadd.u64 %d1, %d0, {};\nadd.u64 %d2, %d1, {};\n\
                 wmma.load.a.sync.aligned.row.{shape}.global.{ty} {{{a}}}, [%d0];\nwmma.load.b.sync.aligned.col.{shape}.global.{ty} {{{b}}}, [%d1];\n\
                 wmma.load.c.sync.aligned.row.{shape}.global.s32 {{{c}}}, [%d2];\n\
                 wmma.mma.sync.aligned.row.col.{shape}.s32.{ty}.{ty}.s32{sat} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};\n\
                 wmma.store.d.sync.aligned.row.{shape}.global.s32 [%d2], {{{d}}};\nret;\n}}\n",
                m * 16,
                n * 16
            );
            let bytes: Vec<u8> = fill((m + n) * 16).collect();
            let sums: Vec<u32> = (0..m * n).map(|i| high.wrapping_add(i as u32 * 3)).collect();
            let data: Vec<u8> = bytes.iter().copied().chain(sums.iter().flat_map(|s| s.to_le_bytes())).collect();
            let got = left(&text, "sm_75", data);
            let number = |b: u8| if ty == "s8" { i64::from(b as i8) } else { i64::from(b) };
            for i in 0..m {
                for j in 0..n {
                    let products = (0..16).map(|k| number(bytes[i * 16 + k]) * number(bytes[m * 16 + j * 16 + k]));
                    let sum = i64::from(sums[i * n + j] as i32) + products.sum::<i64>();
                    let want = sum.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                    let at = (m + n) * 16 + 4 * (i * n + j);
                    assert_eq!(got[at..at + 4], want.to_le_bytes(), "{shape} {ty}{sat}: row {i} column {j}");
                }
            }
        }
    }
}

#[test]
fn pointers_to_textures_samplers_and_surfaces() {
    for (word, number) in [("texref", 6), ("surfref", 7), ("samplerref", 8)] {
        let text = format!(
            "{}.visible .entry k(.param .u64 .ptr .{word} .align 16 p, .param .u64 .ptr .{word} q) {{ ret; }}\n",
            HEAD.replace("CHIP", "sm_90a")
        );
        let (m, d) = ptx::parse(&text);
        assert!(d.is_empty(), "{d:?}");
        let (again, d) = ptx::parse(&ptx::print(&m));
        assert!(d.is_empty() && again.vars[0].ptr == m.vars[0].ptr, "{d:?}");
        let target = arch::Target::parse("sm_90a").expect("a chip");
        let code =
            codegen::compile(&m, &codegen::Options { target, verify: true, ..Default::default() }).expect("code");
        let elf = cubin::elf::Elf::read(&code.cubin).expect("a cubin");
        let kernel = cubin::load::Loaded::load(&elf).expect("loads").kernels.remove(0);
        assert_eq!(
            kernel.params.iter().map(|p| (p.space, p.log_align)).collect::<Vec<_>>(),
            [(number, 4), (number, 0)]
        );
        says(&text, "sm_90a", &[]);
        for wrong in [".align 8 .WORD", ".global .WORD", ".WORD .WORD", ".WORD .global", ".align 4 .align 8"] {
            let wrong = wrong.replace("WORD", word);
            let near = wrong.rsplit(" .").next().unwrap_or_default().split(' ').next().unwrap_or_default().to_string();
            says(
                &format!(
                    "{}.visible .entry k(.param .u64 .ptr {wrong} p) {{ ret; }}\n",
                    HEAD.replace("CHIP", "sm_90a")
                ),
                "sm_90a",
                &[
                    &format!("m.ptx, line 4; fatal   : Parsing error near '.{near}': syntax error"),
                    "fatal   : Ptx assembly aborted due to errors",
                ],
            );
        }
    }
}

#[test]
fn stores_of_256_bits_leave_out_what_is_not_named() {
    let kernel = |store: &str| {
        format!(
            ".visible .entry k(.param .u64 p)\n{{\n.reg .b64 %d<4>; .reg .b32 %r<9>;\nld.param.u64 %d0, [p];\nmov.u32 %r1, 17;\nmov.u32 %r2, 18;\nmov.u64 %d1, 0x500000006;\n\
             mov.u32 %r0, %tid.x;\nmul.wide.u32 %d2, %r0, 32;\nadd.u64 %d0, %d0, %d2;\n{store}\nret;\n}}\n"
        )
    };
    let data: Vec<u32> = (100..100 + 32 * 8).collect();
    let first = |store: &str| {
        let text = kernel(store);
        let got = left_by(
            &format!(".version 8.8\n.target sm_100\n.address_size 64\n{text}"),
            "sm_100",
            data.iter().flat_map(|w| w.to_le_bytes()).collect(),
            // It makes one store with a mask.
            false,
        );
        let got: Vec<u32> = got.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        assert_eq!(got[8..16].iter().zip(&data[8..16]).map(|(g, d)| g == d).collect::<Vec<_>>(), {
            got[..8].iter().zip(&data[..8]).map(|(g, d)| g == d).collect::<Vec<_>>()
        });
        got[..8].to_vec()
    };
    let some = "st.global.v8.b32 [%d0], {%r1, _, %r2, %r1, _, _, _, %r1};";
    assert_eq!(first(some), [17, 101, 18, 17, 104, 105, 106, 17]);
    assert_eq!(first(&some.replace("global", "release.gpu.global")), [17, 101, 18, 17, 104, 105, 106, 17]);
    let half = "st.global.v8.b32 [%d0], {_, _, _, _, %r1, %r2, %r2, %r1};";
    assert_eq!(first(half), [100, 101, 102, 103, 17, 18, 18, 17]);
    assert_eq!(first("st.global.v4.b64 [%d0], {_, %d1, _, %d1};"), [100, 101, 6, 5, 104, 105, 6, 5]);
    let narrow = kernel("st.global.v4.b32 [%d0], {%r1, _, %r1, _};");
    let head = ".version 8.8\n.target sm_100\n.address_size 64\n";
    says(
        &format!("{head}{narrow}"),
        "sm_100",
        &[
            "m.ptx, line 14; error   : Sink '_' not allowed as a source operand",
            "fatal   : Ptx assembly aborted due to errors",
        ],
    );
}

#[test]
fn the_fifth_way_to_swizzle() {
    let text = |n: u32| {
        format!(
            ".visible .entry k(.param .u64 p)\n{{\n.reg .b64 %d;\nld.param.u64 %d, [p];\ntensormap.replace.tile.swizzle_mode.global.b1024.b32 [%d], {n};\nret;\n}}\n"
        )
    };
    let head = |chip: &str| format!(".version 8.8\n.target {chip}\n.address_size 64\n");
    says(&format!("{}{}", head("sm_103a"), text(4)), "sm_103a", &[]);
    let (m, d) = ptx::parse(&format!("{}{}", head("sm_103a"), text(4)));
    assert!(d.is_empty());
    let target = arch::Target::parse("sm_103a").expect("a chip");
    let code = codegen::compile(&m, &codegen::Options { target, verify: true, ..Default::default() }).expect("code");
    let launch = launch(1, vec![0xff; 128]);
    let got =
        sim::run_sass(&code.cubin, &launch, &Config::default()).unwrap_or_else(|f| panic!("{f}")).buffers.remove(0);
    let word = u32::from_le_bytes([got[8], got[9], got[10], got[11]]);
    assert_eq!(word, 0xffff_9fff);
    let (m, d) = ptx::parse(&format!("{}{}", head("sm_100a"), text(4)));
    assert!(d.is_empty() && !ptx::check(&m, None).is_empty());
}

#[test]
fn labels_of_sections_by_version() {
    let module = |version: &str, body: &str| {
        format!(
            ".version {version}\n.target sm_75, debug\n.address_size 64\n.visible .entry k()\n{{ ret; }}\n.section .debug_loc\n{{\n{body}\n}}\n"
        )
    };
    let labels = "lab:\n.b8 1 // no: label\n.b32 lab2-lab\nlab2: .b8 2";
    let define = |line| {
        format!(
            "m.ptx, line {line}; error   : Feature 'Defining labels in .section' requires PTX ISA .version 7.0 or later"
        )
    };
    let apart = "m.ptx, line 10; error   : Feature 'labels1 - labels2 expression in .section' requires PTX ISA .version 7.5 or later";
    let aborted = "fatal   : Ptx assembly aborted due to errors";
    says(&module("6.3", labels), "sm_75", &[&define(8), apart, &define(11), aborted]);
    says(&module("7.4", labels), "sm_75", &[apart, aborted]);
    let missing = ["warning :  .debug_abbrev section not found", "warning :  .debug_info section not found"];
    says(&module("7.5", labels), "sm_75", &missing);
    let negative =
        "m.ptx, line 9; error   : Feature 'Negative numbers in dwarf section' requires PTX ISA .version 7.5 or later";
    says(&module("6.3", ".b8 1\n.b32 -5, 7"), "sm_75", &[negative, aborted]);
    says(&module("7.5", ".b8 1\n.b32 -5, 7"), "sm_75", &missing);
}

/// Addresses byte by byte: what the bytes of a table make is what an instruction gives.
#[test]
fn bytes_of_addresses_in_tables() {
    let bytes = |of: &str| (0..8).map(|n| format!("0xFF{}({of})", "00".repeat(n))).collect::<Vec<_>>().join(", ");
    let text = format!(
        ".visible .func (.param .b32 r) f() {{ st.param.b32 [r], 77; ret; }}\n.visible .global .align 1 .u8 p[8];\n.visible .global .align 8 .u8 s[8] = {{{}}};\n\
         .visible .global .align 8 .u8 t[8] = {{{}}};\n.visible .global .align 8 .u8 u[8] = {{{}}};\n\
         .visible .entry k(.param .u64 p0)\n{{\n.reg .b64 %d<9>; .reg .b32 %r<9>;\nld.param.u64 %d0, [p0];\nmov.u64 %d1, p;\ncvta.global.u64 %d2, %d1;\n\
         ld.global.u64 %d3, [s];\nsub.u64 %d3, %d3, %d2;\nld.global.u64 %d4, [t];\nsub.u64 %d4, %d4, %d2;\n\
         st.global.u32 [%d0], %d3;\nst.global.u32 [%d0+4], %d4;\nld.global.u64 %d5, [u];\n\
         {{\n.param .b32 r;\nproto: .callprototype (.param .b32 _) _ ();\ncall (r), %d5, (), proto;\nld.param.b32 %r1, [r];\n}}\n\
         st.global.u32 [%d0+8], %r1;\nret;\n}}\n",
        bytes("p"),
        bytes("generic(p)+3"),
        bytes("f")
    );
    assert_eq!(words(&text, "sm_90a", &[9, 9, 9]), [0, 3, 77]);
    let whole = format!("{}{text}", HEAD.replace("CHIP", "sm_90a"));
    let (m, _) = ptx::parse(&whole);
    let (again, d) = ptx::parse(&ptx::print(&m));
    assert!(d.is_empty(), "{d:?}");
    assert!(m.vars.iter().zip(&again.vars).all(|(a, b)| a.init == b.init));
    // Where a linker decides where things lie it fills in the bytes.
    let dir = Scratch::new("llvm-bytes");
    std::fs::write(dir.join("m.ptx"), whole).expect("written");
    testkit::tool::must(env!("CARGO_BIN_EXE_ptxas"), &dir, &["-arch=sm_90a", "-c", "m.ptx", "-o", "m.o"]);
    let elf = cubin::elf::Elf::read(&std::fs::read(dir.join("m.o")).expect("an object")).expect("an object");
    let section = elf.sections.iter().find(|s| s.name == ".rela.nv.global.init").expect("relocations");
    let mut kinds: Vec<u32> = section.relocs().iter().map(|r| r.kind).collect();
    kinds.sort_unstable();
    assert_eq!(
        kinds,
        [0x54..0x5c, 0x54..0x5c, 0x68..0x70]
            .into_iter()
            .flatten()
            .collect::<std::collections::BTreeSet<u32>>()
            .into_iter()
            .flat_map(|k| vec![k; if k < 0x5c { 2 } else { 1 }])
            .collect::<Vec<u32>>()
    );
}
