//! Life ranges as the vendor's tool shows them: what lives across conditional branches, calls and guards; and what a linker fills in.

use sass::codec::encode;
use sass::text::listing::{Binding, Field, File, Function, Listing, Options, Ranges, Relocation, Section};
use sass::text::{NoLabels, parse_on};

/// The table of life ranges of a kernel; its registers are up to R11.
fn table(code: &[&str]) -> String {
    table_of(code, Ranges::Wide)
}

fn table_of(code: &[&str], ranges: Ranges) -> String {
    let word = |(n, text): (usize, &&str)| {
        let inst = parse_on(text, n as u64 * 16, &NoLabels, Some(90)).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        encode(&inst, 90).unwrap_or_else(|e| panic!("{text}: {e:?}"))
    };
    let words: Vec<u128> = code.iter().enumerate().map(word).collect();
    let size = words.len() as u64 * 16;
    let section = Section { name: ".text.k".into(), align: 128, words, ..Section::default() };
    let function =
        Function { name: "k".into(), section: 0, offset: 0, size, binding: Binding::Global, entry: true, leads: true };
    let file = File { sm: 90, sections: vec![section], functions: vec![function], ..File::default() };
    Listing::new(&file).life_ranges(ranges, Options::default()).concat()
}

/// The mark of a general register at an instruction.
fn mark(table: &str, offset: u64, register: u32) -> char {
    let row = |line: &str| line.split_once("// |").map(|(_, row)| row.split('|').next().unwrap_or("").to_string());
    let head = table.lines().filter_map(row).find(|r| r.trim_start().starts_with('#')).expect("a head");
    let line = table.lines().find(|l| l.contains(&format!("/*{offset:04x}*/"))).expect("the instruction");
    let from = head.find('#').expect("a count") + 1;
    let at = head[from..].find(&format!(" {register} ")).expect("the register") + from + register.to_string().len();
    row(line).expect("a table").chars().nth(at).expect("a mark")
}

#[test]
fn a_guarded_write_hides_what_was_there_before_only_where_its_run_does_not_read_it() {
    let begin = [
        "MOV R8, 0x1",
        "NOP",
        // Here the branch comes back to.
        "ISETP.GE.AND P0, PT, R4, RZ, PT",
        "@!P0 MOV R8, 0x2",
        "@P0 BRA 0x20",
    ];
    // The run goes on behind the conditional branch, and reads R8.
    let read: Vec<&str> = begin.iter().copied().chain(["IADD3 R9, R8, R8, RZ", "EXIT"]).collect();
    assert_eq!(mark(&table(&read), 0x10, 8), ':');
    // Another run reads it: a place that is gone to.
    let other: Vec<&str> = begin.iter().copied().chain(["BRA 0x60", "IADD3 R9, R8, R8, RZ", "EXIT"]).collect();
    assert_eq!(mark(&table(&other), 0x10, 8), ' ');
    assert_eq!(mark(&table(&other), 0x40, 8), ':');
}

#[test]
fn the_stack_pointer_lives_until_it_is_set_and_where_code_ends() {
    // As in what ptxas makes of alloca and stackrestore.
    let code = ["MOV R0, R1", "MOV R3, R1", "IADD3 R4, R3, R3, RZ", "MOV R1, R0", "IADD3 R5, R4, R4, RZ", "EXIT"];
    let table = table(&code);
    let marks: String = (0..6).map(|n| mark(&table, n * 16, 1)).collect();
    assert_eq!(marks, "vv ^::");
}

#[test]
fn the_half_of_an_immediate_is_an_operand_of_its_own_in_json() {
    let words = vec![0x001f_c800_0200_1405_0000_7f7f_0007_7e3e, 0x000f_ea00_0380_0000_0000_0000_0000_794d];
    let section = Section { name: ".text.k".into(), align: 128, words, ..Section::default() };
    let function = Function {
        name: "k".into(),
        section: 0,
        offset: 0,
        size: 32,
        binding: Binding::Global,
        entry: true,
        leads: true,
    };
    let file = File { sm: 120, sections: vec![section], functions: vec![function], ..File::default() };
    let json = Listing::new(&file).json(&|_| true);
    let says = "\"opcode\":\"F2FP.BF16.E5M2.UNPACK_B\",\"operands\":\"R7,R5,4.5736980577097704378e-41,H0\"";
    assert!(json.contains(says), "{json}");
}

#[test]
fn a_guard_of_the_uniform_datapath_hides_what_was_there() {
    let code = ["UMOV UR4, 0x1", "NOP", "@UP0 UMOV UR4, 0x2", "MOV R8, UR4", "EXIT"];
    let table = table(&code);
    let line = table.lines().find(|l| l.contains("/*0010*/")).expect("the instruction");
    let row = line.split_once("// |").expect("a table").1;
    let uniform: Vec<&str> = row.split('|').collect();
    let titles = table.lines().find(|l| l.contains("UGPR")).expect("titles").split_once("// |").expect("a table").1;
    let at = titles.split('|').position(|t| t.trim() == "UGPR").expect("a column");
    assert_eq!(uniform[at].trim(), "");
    // The guard stands with the text.
    assert!(table.contains("/*0020*/                   @UP0 UMOV UR4, 0x2 ;"), "{table}");
}

#[test]
fn what_nothing_leads_to_is_left_out() {
    let code = ["MOV R8, 0x1", "EXIT", "MOV R9, 0x1", "BRA 0x30"];
    let table = table(&code);
    assert!(!table.contains("/*0020*/") && table.contains("/*0030*/"), "{table}");
}

#[test]
fn what_a_linker_fills_in_is_shown_by_name() {
    // The types of relocations that ptxas 13.5 writes for sm_75 to sm_89, with what nvdisasm 13.5 shows of them.
    let rows = [
        ("STS.64 [R0], R6", 0x4a, 0, "STS.64 [R0+`(tile)], R6 ;"),
        ("@P0 LDS R0, [R7.X4]", 0x4a, 0x10, "LDS R0, [R7.X4+`((tile + 0x10))] ;"),
        ("STS [RZ], R4", 0x4a, 0x10, "STS [`((tile + 0x10))], R4 ;"),
        ("IMAD R17, R4, R21, c[0x0][0x0]", 0x40, 0, "IMAD R17, R4, R21, c[`(tile)] ;"),
        ("CALL.ABS.NOINC 0x0", 0x3a, 0, "CALL.ABS.NOINC `(tile) ;"),
        ("YIELD", 0x44, 0, " (*\"RELOCATOR OPCODE,YIELD,280\"*);"),
    ];
    let word = |(n, row): (usize, &(&str, u32, i64, &str))| {
        let inst = parse_on(row.0, n as u64 * 16, &NoLabels, Some(86)).unwrap_or_else(|e| panic!("{}: {e:?}", row.0));
        encode(&inst, 86).unwrap_or_else(|e| panic!("{}: {e:?}", row.0))
    };
    let words: Vec<u128> = rows.iter().enumerate().map(word).collect();
    let relocation = |(n, row): (usize, &(&str, u32, i64, &str))| Relocation {
        offset: n as u64 * 16,
        field: Field::of_type(row.1).expect("a field"),
        symbol: "tile".into(),
        function: None,
        value: None,
        addend: row.2,
    };
    let relocations = rows.iter().enumerate().map(relocation).collect();
    let section = Section { name: ".text.k".into(), align: 128, words, relocations, ..Section::default() };
    let file = File { sm: 86, relocatable: true, sections: vec![section], ..File::default() };
    let text = Listing::new(&file).sections(Options::default()).concat();
    for row in rows {
        assert!(text.contains(row.3), "{}: {text}", row.0);
    }
}

#[test]
fn counts_are_as_wide_as_the_last_register() {
    let counts = |last: &str| {
        let set = format!("UMOV {last}, 0x1");
        let table = table_of(&[&set, &format!("MOV R2, {last}"), "EXIT"], Ranges::Count);
        let row = |line: &str| line.split_once("// |").map(|(_, row)| row.split('|').nth(1).unwrap_or("").to_string());
        let rows: Vec<String> = table.lines().filter_map(row).collect();
        let head = rows.iter().find(|r| r.contains('#')).cloned().unwrap_or_default();
        let live = rows.iter().find(|r| r.contains('1')).cloned().unwrap_or_default();
        (head, live)
    };
    // As the vendor's tool shows them: of ten registers the title has two digits and the counts have one.
    assert_eq!(counts("UR8"), ("   #    ".into(), "   1    ".into()));
    assert_eq!(counts("UR9"), ("    #   ".into(), "   1    ".into()));
    assert_eq!(counts("UR10"), ("    #   ".into(), "    1   ".into()));
}
