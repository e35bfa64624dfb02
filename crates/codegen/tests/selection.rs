//! What becomes of a few lines of PTX: instructions by their names.

use codegen::{Options, Output};

/// The instructions of a kernel with these lines, as text. `%a` is an address, `%r`, `%f`, `%h` are registers.
fn code(lines: &str) -> Vec<String> {
    code_on("sm_90", lines)
}

/// The same on another chip.
fn code_on(chip: &str, lines: &str) -> Vec<String> {
    code_under(chip, "", lines)
}

/// The same with directives for the launch.
fn code_under(chip: &str, directives: &str, lines: &str) -> Vec<String> {
    let text = format!(
        ".version 8.7\n.target {chip}\n.address_size 64\n.visible .entry k(.param .u64 p) {directives} {{\n.reg .b64 %a; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>; .reg .pred %p<9>;\n\
         ld.param.u64 %a, [p];\n{lines}\nret;\n}}\n"
    );
    let (m, d) = ptx::parse(&text);
    assert!(d.is_empty(), "{d:?}\n{text}");
    let target = arch::Target::parse(chip).expect("a target");
    let output: Output = codegen::compile(&m, &Options { target, verify: true, ..Options::default() })
        .unwrap_or_else(|e| panic!("{e:?}"));
    let elf = cubin::elf::Elf::read(&output.cubin).expect("a cubin");
    let section = elf.sections.iter().find(|s| s.name == ".text.k").expect("code");
    let words = section.data.chunks_exact(16).map(|c| u128::from_le_bytes(c.try_into().expect("16 bytes")));
    let known = words.filter_map(|w| {
        sass::codec::decode(w, elf.sm()).known().map(|i| sass::text::print(i, 0, &sass::text::NoLabels))
    });
    known.filter(|t| !t.contains("NOP")).collect()
}

/// Instructions that begin so.
fn count(code: &[String], name: &str) -> usize {
    code.iter().filter(|t| t.split_whitespace().any(|w| w.starts_with(name))).count()
}

#[test]
fn both_halves_of_a_word_become_floats_by_one_instruction() {
    let t = code(
        "ld.global.b32 %r1, [%a]; mov.b32 {%h1, %h2}, %r1; cvt.f32.bf16 %f1, %h1; cvt.f32.bf16 %f2, %h2;\n\
         st.global.f32 [%a], %f1; st.global.f32 [%a+4], %f2;",
    );
    assert_eq!((count(&t, "PRMT"), count(&t, "LOP3"), count(&t, "SHF") + count(&t, "IMAD")), (0, 1, 1), "{t:#?}");
}

#[test]
fn two_conversions_to_halves_are_one() {
    let lines = |to: &str| {
        format!(
            "ld.global.v2.f32 {{%f1, %f2}}, [%a]; cvt.rn.{to}.f32 %h1, %f1; cvt.rn.{to}.f32 %h2, %f2; mov.b32 %r1, {{%h1, %h2}};\nst.global.b32 [%a], %r1;"
        )
    };
    for to in ["f16", "bf16"] {
        let t = code(&lines(to));
        assert_eq!((count(&t, "F2FP"), count(&t, "PRMT")), (1, 0), "{t:#?}");
    }
    // Another half is needed as it is.
    let t = code(&format!("{}st.global.b16 [%a+8], %h1;", lines("bf16")));
    assert_eq!(count(&t, "PRMT"), 1, "{t:#?}");
}

/// An address is rounded down in its lower word alone.
#[test]
fn a_word_with_all_bits_of_a_mask_is_not_masked() {
    let t = code("ld.global.b64 %a, [%a]; and.b64 %a, %a, -4; st.global.b64 [%a], %a;");
    assert_eq!(count(&t, "LOP3"), 1, "{t:#?}");
}

/// What a front end loads once for each row is loaded once.
#[test]
fn the_same_is_not_loaded_again() {
    let lines = |between: &str| {
        format!(
            "ld.global.b32 %r1, [%a]; {between} ld.global.b32 %r2, [%a]; mul.lo.u32 %r3, %r1, %r2; st.global.b32 [%a+8], %r3;"
        )
    };
    assert_eq!(count(&code(&lines("")), "LDG"), 1);
    for between in ["st.global.b32 [%a+4], 7;", "bar.sync 0;", "fence.acq_rel.gpu;", "red.global.add.u32 [%a+4], 1;"] {
        assert_eq!(count(&code(&lines(between)), "LDG"), 2, "{between}");
    }
}

#[test]
fn bytes_are_taken_out_of_a_word_at_once() {
    let t = code(
        "ld.global.b32 %r1, [%a]; bfe.u32 %r2, %r1, 8, 8; bfe.s32 %r3, %r1, 16, 8; shr.u32 %r4, %r1, 16; and.b32 %r4, %r4, 255;\n\
         st.global.v2.b32 [%a], {%r2, %r3}; st.global.b32 [%a+8], %r4;",
    );
    let selectors =
        ["0x7771", "0xaaa2", "0x7772"].map(|s| t.iter().filter(|l| l.contains("PRMT") && l.contains(s)).count());
    assert_eq!((selectors, count(&t, "SHF") + count(&t, "SGXT") + count(&t, "LOP3")), ([1, 1, 1], 0), "{t:#?}");
    // A field that is no byte is shifted and cut.
    let t = code("ld.global.b32 %r1, [%a]; bfe.u32 %r2, %r1, 9, 8; st.global.b32 [%a], %r2;");
    assert_eq!((count(&t, "SHF"), count(&t, "SGXT"), count(&t, "PRMT")), (1, 1, 0), "{t:#?}");
}

#[test]
fn a_half_that_becomes_the_upper_one_is_not_masked() {
    let t = code("ld.global.b16 %h1, [%a]; cvt.u32.u16 %r1, %h1; shl.b32 %r1, %r1, 16; st.global.b32 [%a], %r1;");
    assert_eq!(count(&t, "LOP3") + count(&t, "PRMT"), 0, "{t:#?}");
    let t = code("ld.global.b16 %h1, [%a]; and.b16 %h1, %h1, 255; cvt.u32.u16 %r1, %h1; st.global.b32 [%a], %r1;");
    assert_eq!(count(&t, "LOP3") + count(&t, "PRMT"), 1, "{t:#?}");
}

#[test]
fn one_more_under_a_condition_is_a_carry() {
    let t = code(
        "ld.global.v2.b32 {%r1, %r2}, [%a]; setp.lt.s32 %p1, %r1, 7; selp.b32 %r3, 1, 0, %p1; add.s32 %r2, %r2, %r3; st.global.b32 [%a], %r2;",
    );
    assert_eq!((count(&t, "IADD3.X"), count(&t, "SEL")), (1, 0), "{t:#?}");
    // Two more are chosen.
    let t = code(
        "ld.global.v2.b32 {%r1, %r2}, [%a]; setp.lt.s32 %p1, %r1, 7; selp.b32 %r3, 2, 0, %p1; add.s32 %r2, %r2, %r3; st.global.b32 [%a], %r2;",
    );
    assert_eq!((count(&t, "IADD3.X"), count(&t, "SEL")), (0, 1), "{t:#?}");
}

#[test]
fn a_rotation_and_a_sum_are_one_instruction() {
    let sum = |shift: &str| {
        code(&format!("ld.global.v2.b32 {{%r1, %r2}}, [%a]; {shift}; add.s32 %r3, %r3, %r2; st.global.b32 [%a], %r3;"))
    };
    for (shift, by) in [
        ("shf.l.wrap.b32 %r3, %r1, %r1, 7", "0x7"),
        ("shf.r.wrap.b32 %r3, %r1, %r2, 9", "0x17"),
        ("shf.r.clamp.b32 %r3, %r1, %r2, 31", "0x1"),
    ] {
        let t = sum(shift);
        assert_eq!((count(&t, "LEA.HI"), count(&t, "SHF"), count(&t, "IADD3")), (1, 0, 0), "{t:#?}");
        assert!(
            t.iter().any(|t| t.contains("LEA.HI") && t.trim_end().trim_end_matches(';').trim_end().ends_with(by)),
            "{t:#?}"
        );
    }
    // By how much is not known, or not by less than a word.
    for shift in ["shf.l.wrap.b32 %r3, %r1, %r1, %r2", "shf.l.clamp.b32 %r3, %r1, %r2, 32"] {
        let t = sum(shift);
        assert_eq!((count(&t, "LEA.HI"), count(&t, "IADD3")), (0, 1), "{t:#?}");
    }
    // What is read again is there by itself.
    let t = code(
        "ld.global.v2.b32 {%r1, %r2}, [%a]; shf.l.wrap.b32 %r3, %r1, %r1, 7; add.s32 %r2, %r3, %r2; st.global.v2.b32 [%a], {%r2, %r3};",
    );
    assert_eq!((count(&t, "LEA.HI"), count(&t, "SHF")), (0, 1), "{t:#?}");
}

#[test]
fn the_high_half_of_a_product_widens_no_words() {
    let t =
        code(".reg .b64 %d<4>; ld.global.v2.b64 {%d1, %d2}, [%a]; mul.hi.u64 %d3, %d1, %d2; st.global.b64 [%a], %d3;");
    assert_eq!((count(&t, "IMAD.WIDE.U32"), count(&t, "IMAD.WIDE.U32.X")), (4, 1), "{t:#?}");
    assert!(count(&t, "MOV") <= 2 && count(&t, "IADD3") == 1, "{t:#?}");
    // One of the factors is a word.
    let t = code(".reg .b64 %d<4>; ld.global.b64 %d1, [%a]; mul.hi.u64 %d3, %d1, 1000000007; st.global.b64 [%a], %d3;");
    assert_eq!((count(&t, "IMAD.WIDE.U32"), count(&t, "IMAD.WIDE.U32.X")), (2, 0), "{t:#?}");
}

#[test]
fn logic_says_itself_whether_something_is_left() {
    let lines = |cmp: &str, more: &str| {
        format!(
            "ld.global.b32 %r1, [%a]; and.b32 %r2, %r1, 6; setp.{cmp}.s32 %p1, %r2, 0; {more}@%p1 st.global.b32 [%a+4], %r1;"
        )
    };
    for cmp in ["ne", "eq"] {
        let t = code(&lines(cmp, ""));
        assert_eq!((count(&t, "LOP3"), count(&t, "ISETP")), (1, 0), "{t:#?}");
        let t = code(&lines(cmp, "setp.lt.s32 %p2, %r1, 100; and.pred %p1, %p1, %p2; "));
        assert_eq!((count(&t, "LOP3"), count(&t, "ISETP"), count(&t, "PLOP3")), (1, 1, 0), "{t:#?}");
    }
    // What is read for itself is there anyway, and less than zero is another question.
    assert_eq!(count(&code(&lines("ne", "st.global.b32 [%a+8], %r2; ")), "ISETP"), 1);
    assert_eq!(count(&code(&lines("gt", "")), "ISETP"), 1);
}

#[test]
fn the_largest_of_three_is_one_instruction_where_there_is_one() {
    let of = |chip: &str, second: &str| {
        let t = code_on(
            chip,
            &format!(
                "ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%a]; max.s32 %r1, %r1, %r2; max.{second} %r1, %r3, %r1; st.global.b32 [%a], %r1;"
            ),
        );
        (count(&t, "VIMNMX3"), count(&t, "VIMNMX") + count(&t, "IMNMX"))
    };
    assert_eq!(of("sm_90", "s32"), (1, 1));
    assert_eq!(of("sm_90", "u32"), (0, 2));
    assert_eq!(of("sm_80", "s32"), (0, 2));
    assert_eq!(of("sm_120", "s32"), (1, 1));
}

/// From sm_100 on the driver's words about clusters, shared memory and the environment lie lower the larger clusters are, but for the last sixteen.
#[test]
fn words_of_the_driver_lie_where_clusters_leave_them() {
    let words = [
        "cluster_nctaid.y",
        "nclusterid.z",
        "cluster_nctarank",
        "dynamic_smem_size",
        "envreg2",
        "envreg15",
        "envreg16",
    ];
    let places = |chip: &str| -> Vec<String> {
        let of = |word: &&str| {
            let t = code_on(chip, &format!("mov.u32 %r1, %{word}; st.global.b32 [%a], %r1;"));
            let scaled = count(&t, "SR_CgaSize") == 1 && count(&t, "-0xa0") == 1;
            let load = t.iter().filter_map(|l| Some(l.split_once("c[0x0][")?.1.split_once(']')?.0.to_string()));
            let mut at: Vec<String> = load.map(|at| at.split('+').next_back().unwrap_or("").to_string()).collect();
            at.retain(|at| !["0x28", "0x37c", "0x208", "0x358", "0x210", "0x380"].contains(&at.as_str()));
            assert_eq!(at.len(), 1, "{t:#?}");
            format!("{}{}", if scaled { "*" } else { "" }, at[0])
        };
        words.iter().map(of).collect()
    };
    assert_eq!(places("sm_90"), ["0x148", "0x164", "0x188", "0x2c", "0x48", "0x7c", "0x80"]);
    for chip in ["sm_100", "sm_120"] {
        assert_eq!(places(chip), ["*0x2a4", "*0x2c8", "*0x2cc", "*0x2ac", "*0x258", "*0x28c", "0xd0"], "{chip}");
    }
}

/// A cache policy that is known is computed once, where the kernel begins, so that loads under conditions are guarded instructions.
#[test]
fn accesses_with_a_known_policy_are_guarded() {
    let t = code(
        ".reg .b64 %c; createpolicy.fractional.L2::evict_first.b64 %c, 1.0; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 7;\n\
         mov.b32 %r2, 0; mov.b32 %r3, 0;\n\
         @%p1 ld.global.L2::cache_hint.b32 %r2, [%a], %c; @%p1 ld.global.L2::cache_hint.b32 %r3, [%a+64], %c;\n\
         add.s32 %r4, %r2, %r3; @%p1 st.global.L2::cache_hint.b32 [%a+4], %r4, %c;",
    );
    assert_eq!((count(&t, "LDG"), count(&t, "BRA"), count(&t, "UMOV")), (2, 1, 2), "{t:#?}");
}

/// More policies than there are uniform registers for: those beyond a few are computed beside their accesses.
#[test]
fn many_known_policies_do_not_take_all_uniform_registers() {
    let each = |n: usize| {
        let (kind, part) = (["evict_first", "evict_last", "evict_normal"][n / 16], (n % 16 + 1) as f32 / 16.0);
        format!(
            "createpolicy.fractional.L2::{kind}.b64 %c, {part:?}; ld.global.L2::cache_hint.b32 %r1, [%a+{}], %c; st.global.b32 [%a+{}], %r1;\n",
            4 * n,
            4 * n + 512
        )
    };
    let t = code(&format!(".reg .b64 %c;\n{}", (0..48).map(each).collect::<String>()));
    assert_eq!(count(&t, "LDG"), 48, "{t:#?}");
}

/// What a load or a mask has left zero is not cleared again.
#[test]
fn upper_halves_are_cleared_once() {
    let lines = |first: &str| {
        format!("ld.global.{first}; setp.ne.b16 %p1, %h2, 9; selp.b32 %r1, 5, 6, %p1; st.global.b32 [%a], %r1;")
    };
    assert_eq!(count(&code(&lines("u8 %h2, [%a]")), "LOP3"), 0);
    assert_eq!(count(&code(&lines("b16 %h1, [%a]; and.b16 %h2, %h1, 240")), "LOP3"), 1);
    assert_eq!(count(&code(&lines("s8 %h2, [%a]")), "LOP3"), 1);
    // Whether anything is left, the mask says itself.
    let t = code(
        "ld.global.b16 %h1, [%a]; and.b16 %h2, %h1, 240; setp.ne.b16 %p1, %h2, 0; selp.b32 %r1, 5, 6, %p1; st.global.b32 [%a], %r1;",
    );
    assert_eq!((count(&t, "LOP3"), count(&t, "ISETP")), (1, 0), "{t:#?}");
}

/// The number of a warp as all its lanes are told it is in a uniform register where the CTA's shape says that they have the same; elsewhere
/// the shuffle stays.
#[test]
fn the_number_of_a_warp_is_uniform_where_threads_follow_each_other() {
    let lines = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;\n\
         mul.lo.u32 %r4, %r3, 9; mad.lo.u32 %r5, %r1, 3, %r4; st.global.b32 [%a], %r5;";
    let shuffles = |directives: &str| {
        let t = code_under("sm_90", directives, lines);
        assert!(count(&t, "SHFL") + count(&t, "R2UR") == 1, "{directives}: {t:#?}");
        count(&t, "SHFL")
    };
    // A row of threads, full or not; rows of whole warps.
    for shape in ["128", "100", "128, 1, 1", "64, 2, 1", "32, 1, 4"] {
        assert_eq!(shuffles(&format!(".reqntid {shape}")), 0, "{shape}");
    }
    // Warps lie across rows; nobody says how threads lie.
    for directives in [".reqntid 48, 2, 1", ".reqntid 16, 16, 1", ".maxntid 128", ""] {
        assert_eq!(shuffles(directives), 1, "{directives}");
    }
    // Another lane is asked, or less than a warp's number is.
    for (from, to) in [("%r2, 0,", "%r2, 1,"), ("%r1, 5;", "%r1, 4;")] {
        let t = code_under("sm_90", ".reqntid 128", &lines.replace(from, to));
        assert_eq!((count(&t, "SHFL"), count(&t, "R2UR")), (1, 0), "{to}: {t:#?}");
    }
}

#[test]
fn rows_of_products_with_carries_are_products_of_words() {
    let t = code(
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%a]; ld.global.v2.u32 {%r5, %r6}, [%a+16]; ld.global.u32 %r7, [%a+24];\n\
         mad.lo.cc.u32 %r1, %r5, %r7, %r1; madc.hi.cc.u32 %r2, %r5, %r7, %r2;\n\
         madc.lo.cc.u32 %r3, %r6, %r7, %r3; madc.hi.cc.u32 %r4, %r6, %r7, %r4;\n\
         madc.lo.cc.u32 %r5, %r7, %r7, 0; madc.hi.u32 %r6, %r7, %r7, 0;\n\
         st.global.v4.u32 [%a], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%a+16], {%r5, %r6};",
    );
    assert_eq!((count(&t, "IMAD.WIDE.U32"), count(&t, "IMAD"), count(&t, "IADD3")), (3, 3, 0), "{t:#?}");
}

#[test]
fn a_signed_word_is_extended_where_it_is_added() {
    let t = code(
        ".reg .b64 %x<3>; ld.global.u32 %r1, [%a]; ld.global.u64 %x1, [%a+8]; cvt.s64.s32 %x0, %r1; add.s64 %x2, %x1, %x0; st.global.u64 [%a], %x2;",
    );
    assert_eq!((count(&t, "SHF"), count(&t, "IADD3"), count(&t, "LEA.HI.X.SX32")), (0, 1, 1), "{t:#?}");
}

#[test]
fn what_logic_makes_of_short_numbers_is_not_masked() {
    let t = code(
        "ld.global.u16 %h1, [%a]; ld.global.u16 %h2, [%a+2]; xor.b16 %h3, %h1, %h2; shr.u16 %h4, %h3, 1; or.b16 %h5, %h1, %h2; sub.u16 %h6, %h5, %h4;\n\
         st.global.u16 [%a], %h6;",
    );
    assert_eq!((count(&t, "LOP3"), count(&t, "PRMT"), count(&t, "SHF")), (2, 0, 1), "{t:#?}");
    // What a difference leaves above is masked before it is shifted down.
    let t = code(
        "ld.global.u16 %h1, [%a]; ld.global.u16 %h2, [%a+2]; sub.u16 %h3, %h1, %h2; shr.u16 %h4, %h3, 1; st.global.u16 [%a], %h4;",
    );
    assert_eq!(count(&t, "LOP3") + count(&t, "PRMT"), 1, "{t:#?}");
}

#[test]
fn a_carry_that_becomes_a_number_is_asked_for_as_it_is() {
    for (flag, asked) in [
        ("add.cc.u32 %r3, %r1, %r2; addc.u32 %r4, 0, 0;", "ne"),
        ("sub.cc.u32 %r3, %r1, %r2; subc.u32 %r4, 0, 0;", "eq"),
    ] {
        let t = code(&format!(
            "ld.global.v2.u32 {{%r1, %r2}}, [%a]; {flag} setp.{asked}.u32 %p1, %r4, 0; selp.b32 %r3, %r3, %r1, %p1; st.global.u32 [%a], %r3;"
        ));
        assert_eq!((count(&t, "IADD3"), count(&t, "ISETP"), count(&t, "SEL")), (1, 0, 1), "{t:#?}");
    }
}

/// A quotient by 0 is all ones; where the divisor is no 0, nobody asks.
#[test]
fn divisors_are_asked_for_zero_where_they_may_be_it() {
    let questions = |divisor: &str| {
        let t = code(&format!(
            "ld.global.v2.b32 {{%r1, %r2}}, [%a];\n{divisor}\ndiv.u32 %r5, %r1, %r2;\nst.global.u32 [%a], %r5;"
        ));
        count(&t, "ISETP")
    };
    let asked = questions("");
    for known in ["or.b32 %r2, %r2, 4;", "mov.u32 %r2, %ntid.x;", "mov.u32 %r2, 7;"] {
        assert_eq!(questions(known) + 1, asked, "{known}");
    }
}
