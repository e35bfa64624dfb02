//! What our `nvdisasm` shows beyond the vendor's: control fields, when results are ready, live registers in graphs, colour.

use cli::asm::assemble;
use cli::nvdisasm::print_bytes;
use std::process::Command;
use testkit::Scratch;

const KERNEL: &str = "\
.kernel k .target sm_90 .params 8
    [B------:R-:W0:-:S02] LDC.64 R2, c[0x0][0x210]
    [B------:R-:W-:-:S01] ULDC.64 UR4, c[0x0][0x208]
    [B0-----:R-:W2:-:S01] LDG.E R5, desc[UR4][R2.64]
    [B--2---:R-:W-:-:S05] ISETP.NE.AND P0, PT, R5, RZ, PT
    @P0 BRA `(out)
    [B------:R-:W-:-:S05] IADD3 R5, R5, 0x1, RZ
    [B------:R1:W-:-:S01] STG.E desc[UR4][R2.64], R5
out:
    EXIT
";

fn line<'a>(text: &'a str, with: &str) -> &'a str {
    text.lines().find(|l| l.contains(with)).unwrap_or_else(|| panic!("no {with} in {text}"))
}

#[test]
fn control_fields_stand_before_instructions() {
    let cubin = assemble(KERNEL).expect("assembles");
    let text = print_bytes(&cubin, &["-c", "--control"]).expect("a cubin");
    for (field, inst) in [
        ("[B------:R-:W0:-:S02]", "LDC.64 R2"),
        ("[B0-----:R-:W2:-:S01]", "LDG.E R5"),
        ("[B--2---:R-:W-:-:S05]", "ISETP.NE.AND P0"),
        ("[B------:R1:W-:-:S01]", "STG.E desc"),
    ] {
        let line = line(&text, inst);
        assert!(line.contains(field) && line.find(field) < line.find(inst), "{line}");
    }
    // One for each instruction, and none without the option.
    let count = |t: &str| (t.matches(" [B").count(), t.lines().filter(|l| l.contains("*/ ")).count());
    assert_eq!(count(&text).0, count(&text).1, "{text}");
    assert_eq!(count(&print_bytes(&cubin, &["-c"]).expect("a cubin")).0, 0);
}

#[test]
fn latencies_stand_behind_instructions() {
    let cubin = assemble(KERNEL).expect("assembles");
    let text = print_bytes(&cubin, &["-c", "--latency"]).expect("a cubin");
    assert!(line(&text, "LDG.E R5").ends_with("// ready: SB2"), "{text}");
    // An addition: four cycles to the ALU, two more to what is farthest.
    assert!(line(&text, "IADD3 R5").contains("// ready: R5 3-"), "{text}");
    assert!(line(&text, "ISETP.NE.AND P0").contains("// ready: P0 4-13"), "{text}");
    assert!(!line(&text, "STG.E").contains("ready"), "{text}");
}

#[test]
fn graphs_count_live_registers() {
    let cubin = assemble(KERNEL).expect("assembles");
    let text = print_bytes(&cubin, &["-bbcfg", "--live-counts"]).expect("a cubin");
    assert!(text.starts_with("digraph f {") && text.ends_with("}\n"), "{text}");
    // R1 always lives; R2, R3 and R5 are needed behind the branch.
    let block = line(&text, "IADD3");
    assert!(block.contains("live\\ registers:\\ 4\\ at\\ entry,\\ at\\ most\\ 4"), "{text}");
    assert!(!print_bytes(&cubin, &["-bbcfg"]).expect("a cubin").contains("live"));
}

#[test]
fn colour_is_for_terminals_only() {
    let dir = Scratch::new("colour");
    std::fs::write(dir.join("k.cubin"), assemble(KERNEL).expect("assembles")).expect("writable");
    let run = Command::new(env!("CARGO_BIN_EXE_nvdisasm")).args(["-c", "k.cubin"]).current_dir(&*dir).output();
    let out = run.expect("the tool runs").stdout;
    assert!(!out.contains(&0x1b) && !out.is_empty());
}
