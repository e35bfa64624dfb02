//! `sassafras asm`: cubins as text and back, kernels written by hand, mistakes with their places.

use cli::asm::{assemble, disassemble};
use std::process::Command;
use testkit::{Scratch, oracle};

/// The vendor's cubins of the corpus for several targets, each source in one or two ways.
fn cubins(mut each: impl FnMut(&str, &[u8])) {
    let Some(ptxas) = oracle::ptxas() else { return };
    for (n, ptx) in testkit::corpus().iter().enumerate() {
        let text = std::fs::read_to_string(ptx).expect("readable");
        let name = ptx.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let own = oracle::arch(&text);
        let kind = [&["-O3"][..], &["-c"], &["-lineinfo"], &["-g"], &["-c", "-g"]][n % 5];
        let options: Vec<&str> = [&["-arch", own], kind].concat();
        let cubin = oracle::compile(&ptxas, &text, &options).unwrap_or_else(|m| panic!("{name}: {m}"));
        each(&format!("{name} {own} {kind:?}"), &cubin);
        let other = ["sm_75", "sm_80", "sm_89", "sm_100a", "sm_120a", "sm_121"][n % 6];
        let text = text.replace(&format!(".target {own}"), &format!(".target {other}"));
        // Not everything that sm_90 has is there elsewhere.
        if let Ok(cubin) = oracle::compile(&ptxas, &text, &["-arch", other]) {
            each(&format!("{name} {other}"), &cubin);
        }
    }
}

#[test]
fn the_text_of_a_cubin_gives_it_again() {
    let (mut files, mut numbers, mut wrong) = (0, 0, Vec::new());
    cubins(|name, cubin| {
        files += 1;
        match disassemble(cubin) {
            // It has been compared.
            Ok((_, n)) => numbers += if name.contains("sm_90") { n } else { 0 },
            Err(m) => wrong.push(format!("{name}: {m}")),
        }
    });
    eprintln!("{files} files");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files == 0 || files > 100, "{files}");
    assert_eq!(numbers, 0, "words of sm_90 that no instruction gives back");
}

#[test]
fn a_changed_instruction_changes_its_word_alone() {
    let cubin = assemble(ADD).expect("assembles");
    let (text, numbers) = disassemble(&cubin).expect("a cubin");
    assert_eq!(numbers, 0);
    assert_eq!(assemble(&text).expect("assembles"), cubin);
    let changed = text.replace("IADD3 R5, R5, 0x1, RZ", "IADD3 R5, R5, 0x2, RZ");
    assert_ne!(changed, text);
    let changed = assemble(&changed).expect("assembles");
    let different = cubin.iter().zip(&changed).filter(|(a, b)| a != b).count();
    assert_eq!((changed.len(), different), (cubin.len(), 1));
}

const ADD: &str = "\
.kernel add1 .target sm_90 .params 8 4
    S2R R0, SR_TID.X
    ULDC UR4, c[0x0][0x218]
    ISETP.GE.AND P0, PT, R0, UR4, PT
    @P0 EXIT
    LDC.64 R2, c[0x0][0x210]
    ULDC.64 UR4, c[0x0][0x208]
    IMAD.WIDE R2, R0, 0x4, R2
    LDG.E R5, desc[UR4][R2.64]
    IADD3 R5, R5, 0x1, RZ      // a comment
    STG.E desc[UR4][R2.64], R5
    EXIT
";

/// A loop, a branch, shared memory, a barrier, one control field written by hand.
const SUM: &str = "\
.kernel sum .target sm_90 .params 8 .shared 128 .maxntid 32 1 1
    S2R R0, SR_TID.X
    MOV R4, 0x400
    S2R R5, SR_CgaCtaId
    LEA R4, R5, R4, 0x18
    LEA R5, R0, R4, 0x2
    STS [R5], R0
    BAR.SYNC.DEFER_BLOCKING 0x0
    ISETP.NE.AND P0, PT, R0, RZ, PT
    @P0 BRA `(done)
    MOV R6, RZ
    MOV R7, RZ
loop:
    LDS R8, [R4]
    IADD3 R6, R6, R8, RZ
    IADD3 R4, R4, 0x4, RZ
    IADD3 R7, R7, 0x1, RZ
    ISETP.NE.AND P1, PT, R7, 0x20, PT
    @P1 BRA `(loop)
    LDC.64 R2, c[0x0][0x210]
    [B------:R-:W-:-:S05] ULDC.64 UR4, c[0x0][0x208]
    STG.E desc[UR4][R2.64], R6
done:
    EXIT
";

#[test]
fn kernels_written_by_hand_run() {
    let dir = Scratch::new("asm");
    for (name, text, launch, wanted) in [
        (
            "add1",
            ADD,
            "block = [4, 1, 1]\nshared = 0\n[[arg]]\nbuffer = { hex = \"01000000ffffffff05000000\" }\nout = \"data\"\n[[arg]]\nu32 = 3\n",
            vec![2u8, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0],
        ),
        (
            "sum",
            SUM,
            "block = [32, 1, 1]\nshared = 0\n[[arg]]\nbuffer = { bytes = 4, fill = 0 }\nout = \"data\"\n",
            496u32.to_le_bytes().to_vec(),
        ),
    ] {
        let cubin = assemble(text).unwrap_or_else(|d| panic!("{name}: {}", d.message));
        assert_eq!(cli::tools::hazards(&cubin).expect("a cubin"), Vec::<String>::new(), "{name}");
        std::fs::write(dir.join("k.cubin"), &cubin).expect("writable");
        std::fs::write(dir.join("k.toml"), format!("kernel = \"{name}\"\ngrid = [1, 1, 1]\n{launch}"))
            .expect("writable");
        let run = Command::new(env!("CARGO_BIN_EXE_sassafras"))
            .args(["run", "k.cubin", "--launch", "k.toml", "--out", "."])
            .current_dir(&*dir)
            .output()
            .expect("the tool runs");
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(std::fs::read(dir.join("data")).expect("written"), wanted, "{name}");
    }
    // What was written by hand stands there.
    let (text, _) = disassemble(&assemble(SUM).expect("assembles")).expect("a cubin");
    assert!(text.contains("[B------:R-:W-:-:S05] ULDC.64 UR4, c[0x0][0x208]"), "{text}");
}

/// An indexed branch, a call and a return, for every chip: what differs is where parameters lie, how memory is
/// addressed, how a sum is written.
fn jumps(target: &str) -> String {
    let sm: u16 = target.trim_start_matches("sm_").parse().expect("a number");
    let (params, descriptor, store) = match sm {
        75 => ("0x160", "NOP", "STG.E.SYS [R2], R5"),
        76..90 => ("0x160", "ULDC.64 UR4, c[0x0][0x118]", "STG.E [R2.64], R5"),
        90 => ("0x210", "ULDC.64 UR4, c[0x0][0x208]", "STG.E desc[UR4][R2.64], R5"),
        _ => ("0x380", "LDCU.64 UR4, c[0x0][0x358]", "STG.E desc[UR4][R2.64], R5"),
    };
    let twice = if sm < 100 { "IADD3 R5, R5, R5, RZ" } else { "IADD3 R5, PT, PT, R5, R5, RZ" };
    format!(
        "\
.kernel jumps .target {target} .params 8
    S2R R0, SR_TID.X
    LDC.64 R2, c[0x0][{params}]
    {descriptor}
    IMAD.WIDE R2, R0, 0x4, R2
    LOP3.LUT R9, R0, 0x3, RZ, 0xc0, !PT
    SHF.L.U32 R9, R9, 0x2, RZ
    LDC R6, c[0x2][R9]
    MOV R7, RZ
    BSSY B0, `(join)
    BRX R6
    .table zero one two three
zero:
    MOV R5, 0x64
    BRA `(join)
one:
    MOV R5, 0xc8
    BRA `(join)
two:
    MOV R5, 0x12c
    BRA `(join)
three:
    MOV R5, 0x190
join:
    BSYNC B0
    MOV R20, offset(back)
    MOV R21, RZ
    CALL.REL.NOINC `(twice)
back:
    {store}
    EXIT
twice:
    {twice}
    RET.REL.NODEC R20 0x0
"
    )
}

#[test]
fn branches_calls_and_returns_by_hand_on_every_chip() {
    let dir = Scratch::new("asm-chips");
    let wanted: Vec<u8> = (0..8u32).flat_map(|n| (200 * (n % 4 + 1)).to_le_bytes()).collect();
    let launch = "kernel = \"jumps\"\ngrid = [1, 1, 1]\nblock = [8, 1, 1]\nshared = 0\n[[arg]]\nbuffer = { bytes = 32, fill = 0 }\nout = \"data\"\n";
    std::fs::write(dir.join("k.toml"), launch).expect("writable");
    let mut wrong = Vec::new();
    for sm in [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121] {
        let text = jumps(&format!("sm_{sm}"));
        let cubin = match assemble(&text) {
            Ok(cubin) => cubin,
            Err(d) => {
                wrong.push(format!(
                    "sm_{sm}: {} at {:?}",
                    d.message,
                    d.span.map(|s| &text[s.start as usize..s.end as usize])
                ));
                continue;
            }
        };
        let hazards = cli::tools::hazards(&cubin).expect("a cubin");
        wrong.extend(hazards.first().map(|h| format!("sm_{sm}: {h}")));
        let (back, numbers) = disassemble(&cubin).expect("a cubin");
        assert_eq!((assemble(&back).expect("assembles") == cubin, numbers), (true, 0), "sm_{sm}");
        std::fs::write(dir.join("k.cubin"), &cubin).expect("writable");
        let run = Command::new(env!("CARGO_BIN_EXE_sassafras"))
            .args(["run", "k.cubin", "--launch", "k.toml", "--out", "."])
            .current_dir(&*dir)
            .output()
            .expect("the tool runs");
        let told = String::from_utf8_lossy(&run.stderr);
        if !run.status.success() {
            wrong.push(format!("sm_{sm}: {told}"));
        } else if std::fs::read(dir.join("data")).expect("written") != wanted {
            wrong.push(format!("sm_{sm}: another result"));
        }
        // The vendor's disassembler reads it, and prints what ours prints.
        let Some(oracle) = oracle::latest() else { continue };
        let theirs = Command::new(oracle.join("bin/nvdisasm"))
            .args(["-c", "k.cubin"])
            .current_dir(&*dir)
            .output()
            .expect("runs");
        let ours = cli::nvdisasm::print_bytes(&cubin, &["-c"]).expect("a cubin");
        if String::from_utf8_lossy(&theirs.stdout) != ours {
            wrong.push(format!("sm_{sm}: the listings differ: {}", String::from_utf8_lossy(&theirs.stderr)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn mistakes_have_their_place() {
    let dir = Scratch::new("asm-bad");
    for (text, place, message) in [
        (ADD.replace("R2, R0, 0x4", "R2, Q0, 0x4"), "8:19", "cannot read this as an operand of `IMAD`"),
        (ADD.replace("LDG.E", "FOO.E"), "9:5", "unknown instruction `FOO`"),
        (ADD.replace("sm_90", "sm_91"), "1:22", "unknown target 'sm_91'"),
        (ADD.replace("    EXIT\n", "    BRX R2\n    EXIT\n"), "12:5", "needs its targets"),
        (ADD.replace("    EXIT\n", "    BRX R2\n    .table here\n    EXIT\n"), "13:12", "no label `here`"),
        (ADD.replace("    EXIT\n", "    NOP\n"), "1:9", "does not end with EXIT"),
        (ADD.replace(".params 8 4", ".params 8 3"), "1:9", "a parameter of 3 bytes"),
        (SUM.replace("`(loop)", "`(loops)"), "19:13", "cannot read this"),
        (SUM.replace("done:", "loop:"), "23:1", "stands twice"),
        ("EXIT\n".to_string(), "1:1", "a kernel begins with"),
        (".elf ident=00\n".to_string(), "1:6", "32 hexadecimal digits"),
        (String::new(), "1:1", "there is no `.kernel`"),
    ] {
        std::fs::write(dir.join("bad.sass"), &text).expect("writable");
        let run = Command::new(env!("CARGO_BIN_EXE_sassafras"))
            .args(["asm", "bad.sass", "-o", "bad.cubin"])
            .current_dir(&*dir)
            .output()
            .expect("the tool runs");
        let told = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{told}");
        assert!(told.contains(message) && told.contains(&format!("bad.sass:{place}")), "{message}, {place}: {told}");
    }
}
