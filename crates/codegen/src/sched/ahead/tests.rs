//! Over the text form: a loop that reads memory, and what keeps a load in its iteration.

use super::*;
use crate::mir::{text, verify};
use sass::inst::Inst as Sass;

/// A kernel with a loop of this body, whose counter %r4 ends at %r1, and whose pointer {%r5,%r6} is that of the next iteration as {%r9,%r10}.
fn kernel(body: &str, behind: &str) -> Func {
    let t = format!(
        "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{
blk0(): depth=0
    S2R Rd=%r0 Sr=0x21
    S2R Rd=%r1 Sr=0x25
    S2R Rd=%r2 Sr=0x26
    MOV_I Rd=%r3 Rb=0x0
    br blk1(%r3, %r0, %r2, %r3)
blk1(%r4, %r5, %r6, %r7): depth=1
{body}    IADD3_RIR Rd=%r8 Ra=%r4 Rb=0x1
    IADD3_RIR Rd=%r9 Pu=%p11 Ra=%r5 Rb=0x200
    IADD3X_RRR Rd=%r10 Ra=%r6 Pp=%p11
    ISETP_RR.Cmp=1 Pu=%p12 Ra=%r8 Rb=%r1
    brif %p12, blk2(), blk3()
blk2(): depth=1
    br blk1(%r8, %r9, %r10, %r40)
blk3(): depth=0
{behind}    STG URc=UR4 Ra={{%r0,%r2}} Rb=%r40
    exit
}}
"
    );
    let f = text::parse(&t).unwrap().remove(0);
    verify::ssa(&f).unwrap();
    f
}

/// A chain that takes long, from %r20 to %r40.
fn chain() -> String {
    let step = |n: u32| format!("    MUFU_R.Func=2 Rd=%r{} Rb=%r{}\n", n + 1, n);
    let steps: String = (20..39).map(step).collect();
    format!("{steps}    FADD_RR Rd=%r40 Ra=%r7 Rb=%r39\n")
}

const LOAD: &str = "    LDG Rd=%r20 UR=UR4 Ra={%r5,%r6}\n";

fn loads(f: &Func, b: usize) -> Vec<&Sass> {
    let load = |i| match i {
        &Inst { op: Op::Sass(ref s), .. } if s.form().mnemonic == "LDG" => Some(s),
        _ => None,
    };
    f.blocks[b].insts.iter().filter_map(load).collect()
}

/// The function behind the pass, and whether it has changed.
fn after(mut f: Func) -> (Func, bool) {
    let changed = run(&mut f, 90);
    verify::ssa(&f).unwrap();
    (f, changed)
}

/// True if the load of the loop with this body is ahead.
fn is_ahead(body: &str) -> bool {
    after(kernel(body, "")).1
}

#[test]
fn a_load_stands_in_the_iteration_before_its_own() {
    let (f, changed) = after(kernel(&(LOAD.to_string() + &chain()), ""));
    assert!(changed);
    let t = text::print(&f);
    // The first one stands before the loop and always happens, the others where the loop goes on.
    let [first, next] = [0, 1].map(|b| loads(&f, b));
    assert_eq!((first.len(), next.len()), (1, 1), "{t}");
    assert_eq!(first[0].guard, Operand::reg(Reg::PT), "{t}");
    let Term::CondBr { cond, .. } = &f.blocks[1].term else { panic!("{t}") };
    assert_eq!(&next[0].guard, cond, "{t}");
    // Its address is the next one's, which is known before it, and the loaded value goes round.
    let address = |s: &Sass| s.get(S::Ra).and_then(Operand::as_reg).map(|r| f.scalars(r));
    assert_eq!(address(next[0]).unwrap()[..], [Vreg(9), Vreg(10)], "{t}");
    assert_eq!(address(first[0]).unwrap()[..], [Vreg(0), Vreg(2)], "{t}");
    let made = |s: &Sass| s.get(S::Rd).and_then(Operand::as_reg).map(|r| Vreg(r.index()));
    let Term::Br(back) = &f.blocks[2].term else { panic!("{t}") };
    assert_eq!((back.args.last().copied(), f.blocks[1].params.len()), (made(next[0]), 5), "{t}");
    // The reader of what is there stands before the load that takes its registers.
    let at = |text: &str| t.find(text).unwrap();
    let param = format!("MUFU_R.Func=2 Rd=%r21 Rb=%r{}", f.blocks[1].params[4].0);
    assert!(at(&param) < at("@%p12 LDG"), "{t}");
}

#[test]
fn a_guard_holds_with_the_question() {
    let body =
        "    ISETP_RR.Cmp=1 Pu=%p13 Ra=%r4 Rb=%r0\n    @%p13 LDG Rd=%r20 UR=UR4 Ra={%r5,%r6} else 0x0\n".to_string();
    let (f, changed) = after(kernel(&(body + &chain()), ""));
    let t = text::print(&f);
    assert!(changed, "{t}");
    // The guard of the next iteration, by the next counter.
    let both = t.lines().find(|l| l.contains("PLOP3")).unwrap();
    assert!(both.contains("Pp=%p12") && both.contains("Lut=0x80"), "{t}");
    let own = both.split("Pq=").nth(1).unwrap().split(' ').next().unwrap();
    assert!(t.contains(&format!("ISETP_RR.Cmp=1 Pu={own} Ra=%r8 Rb=%r0")), "{t}");
    assert!(f.blocks[1].insts.iter().any(|i| i.other == Some(0)), "{t}");
}

#[test]
fn what_may_change_what_is_read_keeps_it() {
    let with = |extra: &str| is_ahead(&format!("{LOAD}{}{extra}", chain()));
    assert!(with(""));
    let store = "    STG URc=UR4 Ra={%r0,%r2} Rb=%r39\n";
    assert!(!with(store));
    assert!(with("    STS Ra=%r0 Rb=%r39\n"));
    assert!(!with("    MEMBAR\n"));
    assert!(!with("    ATOMG Rd=%r50 URc=UR4 Ra={%r0,%r2} Rb=%r39\n"));
    // Memory that nobody writes.
    assert!(is_ahead(&format!("{}{}{store}", LOAD.replace("LDG", "LDG.Sem=4"), chain())));
    // A store between the load and its last reader is not passed.
    let early = |at: &str| is_ahead(&format!("{LOAD}{at}{}", chain()));
    assert!(early("    STG URc=UR4 Ra={%r0,%r2} Rb=%r20\n"));
}

#[test]
fn signals_stay() {
    for sem in [5, 7, 8, 10, 12] {
        assert!(!is_ahead(&format!("{}{}", LOAD.replace("LDG", &format!("LDG.Sem={sem}")), chain())), "{sem}");
    }
}

#[test]
fn barriers_are_passed_where_nothing_is_written_before_one() {
    let body = format!("{LOAD}{}    BAR_SYNC_I Bar=0x0\n", chain());
    assert!(after(kernel(&body, "")).1);
    // Threads that are done write, and meet the others at their barrier.
    let write = "    STG URc=UR4 Ra={%r0,%r2} Rb=%r0\n    BAR_SYNC_I Bar=0x0\n";
    assert!(!after(kernel(&body, write)).1);
    assert!(!after(kernel(&body, "    MEMBAR\n")).1);
    // Whoever calls a function may have written.
    let mut f = kernel(&body, "");
    f.entry = false;
    assert!(!run(&mut f, 90));
}

#[test]
fn what_is_asked_of_loaded_values_or_read_behind_the_loop_stays() {
    let asked = format!("{LOAD}{}", chain()).replace("FADD_RR", "LOP3_RRR");
    let mut f = kernel(&asked, "");
    f.blocks[1].insts.iter_mut().for_each(|i| {
        if let Op::Sass(s) = &mut i.op
            && s.form().mnemonic == "ISETP"
            && let Some(slot) = s.slot(S::Rb)
        {
            s.operands[slot].value = Value::Reg(Reg::virt(File::Gpr, 20));
        }
    });
    assert!(!run(&mut f, 90));
    assert!(!after(kernel(&format!("{LOAD}{}", chain()), "    STG URc=UR4 Ra={%r0,%r2} Rb=%r20\n")).1);
    // An address that is loaded itself.
    let list = "    LDG.Size=5 Rd={%r50,%r51} UR=UR4 Ra={%r5,%r6}\n    LDG Rd=%r20 UR=UR4 Ra={%r50,%r51}\n";
    let (f, _) = after(kernel(&format!("{list}{}", chain()), ""));
    assert!(loads(&f, 1).iter().all(
        |s| s.get(S::Rd).unwrap().as_reg().unwrap() != Reg::virt(File::Gpr, 20) || s.guard == Operand::reg(Reg::PT)
    ));
}

#[test]
fn loops_that_hardly_wait_stay() {
    // The loop does nothing but wait.
    let short = "    FADD_RR Rd=%r40 Ra=%r7 Rb=%r20\n";
    assert!(!is_ahead(&format!("{LOAD}{short}")));
    // There is no room.
    let mut f = kernel(&format!("{LOAD}{}", chain()), "");
    f.max_gprs = 16;
    assert!(!run(&mut f, 90));
}

#[test]
fn what_is_looked_up_is_not_looked_up_ahead() {
    let body = format!(
        "    LDC Rd=%r14 Const=c[0x3][0x0] Ra=%r4\n    IADD3_RRR Rd=%r15 Ra=%r5 Rb=%r14 Rc=RZ\n    LDG Rd=%r20 UR=UR4 Ra={{%r15,%r6}}\n{}",
        chain()
    );
    assert!(!is_ahead(&body));
}
