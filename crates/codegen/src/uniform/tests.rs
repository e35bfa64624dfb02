//! Over the text form: what becomes uniform, what is copied for others, and what stays.

use super::*;
use crate::mir::{text, verify};

fn after(body: &str) -> Func {
    on(90, body)
}

fn on(sm: u16, body: &str) -> Func {
    let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
    let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
    verify::ssa(&f).unwrap();
    run(&mut f, sm, MOST);
    verify::ssa(&f).unwrap();
    f
}

fn names(f: &Func, b: usize) -> Vec<&'static str> {
    let name = |i: &Inst| if let Op::Sass(s) = &i.op { s.form().name } else { "copy" };
    f.blocks[b].insts.iter().map(name).collect()
}

#[test]
fn numbers_of_ctas_are_uniform() {
    let f = after(
        "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    IMAD_RIR Rd=%r2 Ra=%r0 Rb=64\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r1\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\n",
    );
    assert_eq!(names(&f, 0), ["S2UR", "S2R", "UIMAD_UIU", "IADD3_RUR", "STG"]);
}

#[test]
fn what_a_reader_does_not_take_stays() {
    let f = after(
        "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    IMAD_RIR Rd=%r2 Ra=%r0 Rb=64\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n",
    );
    assert_eq!(names(&f, 0), ["S2R", "IMAD_RIR", "STG"]);
}

/// An instruction takes one uniform operand, be it a pair; the other one stays whole.
#[test]
fn of_two_operands_one_is_uniform() {
    let f = after(
        "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    LDC Rd=%r1 Const=c[0][584]\n    LDC.Size=5 Rd={%r2,%r3} Const=c[0][552]\n    \
         IMAD_WIDE_RRR Rd={%r4,%r5} Ra=%r0 Rb=%r1 Rc={%r2,%r3}\n    STG.Size=4 Ra={%r4,%r5} Rb=%r0 URc=UR4\n    exit\n",
    );
    assert_eq!(names(&f, 0), ["S2R", "LDC", "ULDC", "IMAD_WIDE_RRU", "STG"]);
    let f = after(
        "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    LDC.Size=5 Rd={%r2,%r3} Const=c[0][552]\n    ISETP_RR.Cmp=1.Sign=0 Pu=%p6 Ra=%r2 Rb=%r0\n    \
         ISETPX_RR.Cmp=1 Pu=%p7 Ra=%r3 Rb=RZ Pr=%p6\n    SEL_RI Rd=%r8 Ra=%r0 Rb=5 Pp=%p7\n    STG.Size=4 Ra=RZ Rb=%r8 URc=UR4\n    exit\n",
    );
    assert_eq!(names(&f, 0), ["S2R", "ULDC", "ISETP_RU", "ISETPX_RU", "SEL_RI", "STG"]);
}

#[test]
fn nothing_is_computed_where_threads_are_apart() {
    let f = after(
        "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    ISETP_RI Pu=%p4 Ra=%r1 Rb=5\n    brif %p4, blk1(), blk2()\nblk1(): depth=0 divergent\n    IMAD_RIR Rd=%r2 Ra=%r0 Rb=64\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r1\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    br blk2()\nblk2(): depth=0\n    exit\n",
    );
    assert_eq!(names(&f, 1), ["IMAD_RIR", "IADD3_RRR", "STG"]);
}

#[test]
fn counters_of_loops_are_uniform_and_end_them() {
    let f = after(
        "blk0(): depth=0\n    MOV_R Rd=%r0\n    S2R Rd=%r1 Sr=0x21\n    br blk1(%r0)\nblk1(%r2): depth=1\n    IADD3_RRR Rd=%r3 Ra=%r1 Rb=%r2\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=1\n    ISETP_RI.Cmp=1 Pu=%p5 Ra=%r4 Rb=9\n    brif %p5, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r4)\nblk3(): depth=0\n    exit\n",
    );
    assert_eq!(names(&f, 0), ["UMOV_U", "S2R"]);
    assert_eq!(names(&f, 1)[0], "IADD3_RUR");
    assert!(names(&f, 1).contains(&"UIADD3_UIU"), "{:?}", names(&f, 1));
}

#[test]
fn constants_at_uniform_places_are_loaded_there() {
    let f = after(
        "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    LDC Rd=%r2 Ra=%r0 Const=c[0x3][0x10]\n    IADD3_RRR Rd=%r3 Ra=%r2 Rb=%r1\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\n",
    );
    assert_eq!(names(&f, 0), ["S2UR", "S2R", "ULDC_R", "IADD3_RUR", "STG"]);
}

#[test]
fn what_moves_are_computed_of_is_copied_for_other_readers() {
    // IADD3 takes no uniform register beside an immediate: it gets a copy, and the move to a uniform register goes.
    let body = |move_it: &str| {
        format!(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n    IMAD_RIR Rd=%r1 Ra=%r0 Rb=64\n{move_it}    IADD3_RIR Rd=%r2 Ra=%r1 Rb=8\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n"
        )
    };
    let f = after(&body("    R2UR Rd=%ur3 Ra=%r1\n    STS_U Ra=RZ URc=%ur3 Rb=RZ\n"));
    assert_eq!(names(&f, 0), ["S2UR", "UIMAD_UIU", "copy", "STS_U", "MOV_U", "IADD3_RIR", "STG"]);
    // Without the move it is not worth a copy.
    assert_eq!(names(&after(&body("")), 0), ["S2R", "IMAD_RIR", "IADD3_RIR", "STG"]);
}

/// A loop with a counter, of which the numbers in `readers` are made by instructions that take no uniform register beside an immediate.
fn counting(readers: &str) -> Func {
    after(&format!(
        "blk0(): depth=0\n    MOV_R Rd=%r0\n    br blk1(%r0)\nblk1(%r2): depth=1\n{readers}    IADD3_RIR Rd=%r4 Ra=%r2 Rb=1\n    ISETP_RI.Cmp=1 Pu=%p5 Ra=%r4 Rb=9\n    brif %p5, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r4)\nblk3(): depth=0\n    exit\n"
    ))
}

/// `n` threads' numbers and a CTA's live into a block that stores them all, and the latter beside an immediate.
fn crowd(sm: u16, n: usize) -> Func {
    let each = |line: &dyn Fn(usize) -> String| (10..10 + n).map(line).collect::<String>();
    let made = each(&|r| format!("    S2R Rd=%r{r} Sr=0x21\n"));
    let read = each(&|r| format!("    STG.Size=4 Ra=RZ Rb=%r{r} URc=UR4\n"));
    on(
        sm,
        &format!(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n{made}    br blk1()\nblk1(): depth=0\n{read}    IADD3_RIR Rd=%r2 Ra=%r0 Rb=8\n    STG.Size=4 Ra=RZ Rb=%r2 URc=UR4\n    exit\n"
        ),
    )
}

#[test]
fn copies_save_registers_where_many_values_live() {
    assert_eq!(crowd(90, 1).vregs[0], File::Gpr);
    // Where there is no move from a uniform register.
    assert_eq!(crowd(80, 8).vregs[0], File::Gpr);
    let f = crowd(90, 8);
    assert_eq!((f.vregs[0], names(&f, 0)[0]), (File::Ugpr, "S2UR"));
    assert_eq!(names(&f, 1)[8..], ["MOV_U", "IADD3_RIR", "STG"]);
}

#[test]
fn what_lives_into_a_crowded_loop_is_copied_once() {
    let once = "    IADD3_RIR Rd=%r3 Ra=%r2 Rb=8\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n";
    let f = counting(once);
    assert_eq!(names(&f, 1), ["MOV_U", "IADD3_RIR", "STG", "UIADD3_UIU", "UISETP_UI"]);
    // Two moves in each iteration are more than a register is worth.
    let f = counting(&format!("{once}{}", once.replace("%r3", "%r6").replace('8', "24")));
    assert_eq!(names(&f, 1), ["IADD3_RIR", "STG", "IADD3_RIR", "STG", "IADD3_RIR", "ISETP_RI"]);
    assert_eq!(f.vregs[2], File::Gpr);
    // They are worth two that go to uniform registers.
    let moved = "    R2UR Rd=%ur20 Ra=%r2\n    STS_U Ra=RZ URc=%ur20 Rb=RZ\n";
    let f = counting(&format!(
        "{moved}{}{once}{}",
        moved.replace("20", "21"),
        once.replace("%r3", "%r6").replace('8', "24")
    ));
    assert_eq!((f.vregs[2], names(&f, 1).iter().filter(|n| **n == "MOV_U").count()), (File::Ugpr, 2));
}

#[test]
fn a_pair_of_which_both_are_uniform_is_copied_whole() {
    let f = after(
        "blk0(): depth=0\n    MOV_R Rd=%r0\n    br blk1(%r0, %r0)\nblk1(%r2, %r7): depth=1\n    LDG UR=UR4 Rd=%r6 Ra={%r2,%r7}\n    STG.Size=4 Ra=RZ Rb=%r6 URc=UR4\n    IADD3_RIR Rd=%r4 Ra=%r2 Rb=1\n    IADD3_RIR Rd=%r8 Ra=%r7 Rb=2\n    ISETP_RI.Cmp=1 Pu=%p5 Ra=%r4 Rb=9\n    brif %p5, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r4, %r8)\nblk3(): depth=0\n    exit\n",
    );
    assert_eq!(names(&f, 1), ["MOV_U", "MOV_U", "LDG", "STG", "UIADD3_UIU", "UIADD3_UIU", "UISETP_UI"]);
}

#[test]
fn sides_of_a_branch_do_not_share_uniform_registers() {
    // The value for the second side must not lie where the first side writes.
    let f = text::parse(
        "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2UR Rd=%ur0 Sr=0x25\n    S2R Rd=%r1 Sr=0x21\n    ISETP_RI Pu=%p2 Ra=%r1 Rb=5\n    brif %p2, blk1(), blk2()\nblk1(): depth=0 divergent\n    R2UR Rd=%ur3 Ra=%r1\n    IADD3_RUR Rd=%r4 Ra=%r1 Rb=%ur3\n    STG.Size=4 Ra=RZ Rb=%r4 URc=UR4\n    br blk3()\nblk2(): depth=0 divergent\n    IADD3_RUR Rd=%r5 Ra=%r1 Rb=%ur0\n    STG.Size=4 Ra=RZ Rb=%r5 URc=UR4\n    br blk3()\nblk3(): depth=0\n    exit\n}\n",
    )
    .unwrap()
    .remove(0);
    let live = Liveness::new(&f, &f.cfg());
    assert!(live.live_in[1].contains(&Vreg(0)) && live.live_out[1].contains(&Vreg(0)));
}
