//! `cuobjdump -elf` of files for debuggers: the vendor's text, byte for byte; what is damaged is said.

use std::path::Path;
use testkit::Scratch;
use testkit::tool::{must, run, said};

const CUOBJDUMP: &str = env!("CARGO_BIN_EXE_cuobjdump");

/// What both tools print of a file; they must agree.
fn compared(bin: &Path, dir: &Path, file: &str) -> String {
    let [ours, theirs] = [Path::new(CUOBJDUMP), &bin.join("cuobjdump")].map(|tool| run(tool, dir, &["-elf", file]));
    let (mine, other) = (String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
    if let Some((n, (a, b))) = mine.lines().zip(other.lines()).enumerate().find(|(_, (a, b))| a != b) {
        panic!("{file}, line {}: ours\n{a}\nand theirs\n{b}", n + 1);
    }
    assert!(mine == other, "{file}: one text is longer: {} and {}, {}", mine.len(), other.len(), said(&theirs));
    assert!(ours.status.success() && ours.stderr.is_empty(), "{file}: {}", said(&ours));
    mine.into_owned()
}

#[test]
fn files_for_debuggers_are_shown_as_the_vendor_shows_them() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let dir = Scratch::new("dwarf");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let compile = |source: &str, args: &[&str]| {
        let source = root.join(source).display().to_string();
        let all = [&["-w", "-std=c++17", "-cubin", &source], args].concat();
        must(bin.join("nvcc"), &dir, &all);
    };
    for (n, (sm, mode)) in
        [("75", &["-G"][..]), ("90", &["-G", "-dopt=on"]), ("100", &["-lineinfo"]), ("120", &["-G", "-rdc=true"])]
            .into_iter()
            .enumerate()
    {
        let out = format!("s{n}.cubin");
        compile("debug/shapes.cu", &[mode, &[&format!("-arch=sm_{sm}"), "-o", &out]].concat());
        let text = compared(&bin, &dir, &out);
        if mode[0] == "-G" && mode.get(1) != Some(&"-dopt=on") {
            for part in ["DW_TAG_structure_type", "DW_AT_byte_size", "DW_OP_fbreg: ", "(reg: %rd", "DW_CFA_def_cfa"] {
                assert!(text.contains(part), "{out}: no {part}");
            }
        }
    }
    // Several files, linked and joined.
    for sm in ["80", "120"] {
        let arch = format!("-arch=sm_{sm}");
        for part in ["a", "b"] {
            let source = format!("link/pointers/{part}.cu");
            compile(&source, &["-G", "-rdc=true", &arch, "-o", &format!("{part}.cubin")]);
        }
        for (mode, out) in [(&["-g"][..], "linked.cubin"), (&["-g", "-r"], "joined.cubin")] {
            must(bin.join("nvlink"), &dir, &[mode, &[&arch, "a.cubin", "b.cubin", "-o", out]].concat());
            let text = compared(&bin, &dir, out);
            let units = text.matches("Compilation Unit @").count();
            assert_eq!(units, 2, "{out}");
        }
    }
}

/// Puts other bytes into sections of a cubin, at the end of the file, and takes their relocations away.
fn replace(cubin: &[u8], sections: &[(&str, &[u8])]) -> Vec<u8> {
    let elf = cubin::elf::Elf::read(cubin).expect("a cubin");
    let mut bytes = cubin.to_vec();
    let headers = u64::from_le_bytes(cubin[40..48].try_into().expect("eight bytes")) as usize;
    for (i, s) in elf.sections.iter().enumerate() {
        let header = headers + 64 * i;
        if let Some((_, data)) = sections.iter().find(|(name, _)| *name == s.name) {
            bytes.resize(bytes.len().next_multiple_of(16), 0);
            let place = bytes.len() as u64;
            bytes[header + 24..header + 32].copy_from_slice(&place.to_le_bytes());
            bytes[header + 32..header + 40].copy_from_slice(&(data.len() as u64).to_le_bytes());
            bytes.extend(*data);
        } else if sections.iter().any(|(name, _)| s.name.strip_prefix(".rela") == Some(*name)) {
            bytes[header + 32..header + 40].fill(0);
        }
    }
    bytes
}

fn leb(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

/// A form of entries; those of units have children.
fn form(number: u64, tag: u64, attributes: &[(u64, u64)]) -> Vec<u8> {
    let mut out = [leb(number), leb(tag), vec![(tag == 0x11) as u8]].concat();
    attributes.iter().for_each(|(a, f)| out.extend([leb(*a), leb(*f)].concat()));
    out.extend([0, 0]);
    out
}

/// A unit with entries.
fn unit(entries: &[u8]) -> Vec<u8> {
    let rest = [&[2, 0, 0, 0, 0, 0, 8][..], entries].concat();
    [&(rest.len() as u32).to_le_bytes()[..], &rest].concat()
}

/// Some cubin with debugging sections.
fn base(bin: &Path, dir: &Path) -> Vec<u8> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/debug/shapes.cu").display().to_string();
    must(bin.join("nvcc"), dir, &["-w", "-std=c++17", "-cubin", "-G", "-arch=sm_90", &source, "-o", "base.cubin"]);
    std::fs::read(dir.join("base.cubin")).expect("a file")
}

/// Names of everything that a number stands for, and values of every form, asked of the vendor's tool.
#[test]
fn names_and_values_are_the_vendors() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let bin = oracle.join("bin");
    let dir = Scratch::new("dwarf-names");
    let base = base(&bin, &dir);
    // Every kind of entries, every attribute.
    let mut forms = Vec::new();
    (1..=0x42).for_each(|tag| forms.extend(form(tag, tag, &[])));
    let attributes =
        (1..0x180).chain(0x2000..0x2010).chain(0x2700..0x2708).chain(0x3a00..0x3a04).chain([0x2134, 0x3fff]);
    let attributes: Vec<(u64, u64)> = attributes.map(|a| (a, 0x0b)).collect();
    let mut entry = Vec::new();
    // The vendor's tool wants no more than 255 in one.
    for (number, part) in (0x43..).zip(attributes.chunks(200)) {
        forms.extend(form(number, 0x11, part));
        entry.push(number as u8);
        entry.resize(entry.len() + part.len(), 7);
    }
    forms.push(0);
    entry.extend([0; 8]);
    let names = replace(&base, &[(".debug_abbrev", &forms), (".debug_info", &unit(&entry))]);
    std::fs::write(dir.join("names.cubin"), names).expect("written");
    compared(&bin, &dir, "names.cubin");
    // Values of every form that the vendor's tool reads right.
    let values: [(u64, &[u8]); 14] = [
        (0x01, &[0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12]),
        (0x04, &[2, 0, 0, 0, 0x23, 5]),
        (0x05, &[0xfe, 0xff]),
        (0x06, &[0xf0, 0xff, 0xff, 0xff]),
        (0x07, &[0xf0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        (0x08, b"text\0"),
        (0x09, &[2, 0x23, 9]),
        (0x0a, &[2, 0x23, 5]),
        (0x0c, &[2]),
        (0x0d, &[0x7b]),
        (0x0f, &[0xac, 2]),
        (0x10, &[0x33, 0, 0, 0, 0, 0, 0, 0]),
        (0x13, &[0x0b, 0, 0, 1]),
        (0x15, &[0xac, 2]),
    ];
    let mut forms = Vec::new();
    let mut entry = vec![1];
    let list: Vec<(u64, u64)> = values.iter().flat_map(|v| [0x02, 0x03, 0x49].map(|a| (a, v.0))).collect();
    values.iter().for_each(|v| entry.extend([v.1; 3].concat()));
    forms.extend(form(1, 0x11, &list));
    forms.push(0);
    entry.extend([0; 8]);
    let file = replace(&base, &[(".debug_abbrev", &forms), (".debug_info", &unit(&entry))]);
    std::fs::write(dir.join("values.cubin"), file).expect("written");
    compared(&bin, &dir, "values.cubin");
    // Every operation, with operands that fit it, in an expression of its own.
    let mut entry = vec![1];
    let operands = |code: u8| match code {
        0x03 => vec![1, 2, 3, 4, 5, 6, 7, 8],
        0x0c => vec![0xff, 0xff, 0xff, 0xff],
        0x94 => vec![0xff],
        0x10 | 0x23 | 0x93 => leb(300),
        0x70..=0x8f | 0x91 => vec![0xc8, 0x7e],
        0x90 => leb(0x257231),
        0x92 => [leb(0x257231), leb(6)].concat(),
        _ => Vec::new(),
    };
    for code in 0..=255u8 {
        if code == 128 {
            entry.push(2);
        }
        let operation = [vec![code], operands(code)].concat();
        entry.push(operation.len() as u8);
        entry.extend(operation);
    }
    entry.extend([0; 8]);
    let forms = [form(1, 0x11, &[(0x02, 0x0a); 128]), form(2, 0x11, &[(0x02, 0x0a); 128]), vec![0]].concat();
    let file = replace(&base, &[(".debug_abbrev", &forms), (".debug_info", &unit(&entry))]);
    std::fs::write(dir.join("operations.cubin"), file).expect("written");
    compared(&bin, &dir, "operations.cubin");
    // Every instruction of frames, and registers of every class.
    let register = |class: u64| leb(class << 24 | 7);
    let mut frame = vec![3, 0, 4, 0x7c];
    frame.extend(leb(0x5000014));
    for class in (0..20).chain([0xff]) {
        frame.push(8);
        frame.extend(register(class));
    }
    for code in [0u8, 0x0a, 0x0b, 0x41, 0xc1] {
        frame.push(code);
    }
    frame.extend([1, 1, 2, 3, 4, 5, 6, 7, 8, 2, 9, 3, 9, 8, 4, 1, 2, 3, 4, 0x83]);
    frame.extend(leb(300));
    for (code, more) in [(0x05, &[0x2c][..]), (0x06, &[]), (0x07, &[]), (0x0c, &[5]), (0x0d, &[]), (0x11, &[0x7f])] {
        frame.push(code);
        frame.extend(register(5));
        frame.extend(more);
    }
    frame.push(9);
    frame.extend([register(0xb), register(2)].concat());
    frame.extend([0x0e, 5, 0x0f, 2, 0x23, 5]);
    for code in [0x10, 0x16] {
        frame.push(code);
        frame.extend([register(5), vec![2, 0x23, 5]].concat());
    }
    frame.resize((frame.len() + 20).next_multiple_of(8) - 20, 0);
    let long = |kind: u64, rest: &[u8]| {
        let length = rest.len() as u64 + 8;
        [&[0xff; 4][..], &length.to_le_bytes(), &kind.to_le_bytes(), rest].concat()
    };
    let mut described = [0x40u64.to_le_bytes(), 0x123u64.to_le_bytes()].concat();
    described.extend([0x04, 1, 0, 0, 0, 0, 0, 0]);
    let both = [long(u64::MAX, &frame), long(0, &described)].concat();
    std::fs::write(dir.join("frame.cubin"), replace(&base, &[(".debug_frame", &both)])).expect("written");
    compared(&bin, &dir, "frame.cubin");
    // Types of registers.
    let codes: Vec<u8> = (0..3).flat_map(|v| (0..19).map(move |t| 64 * v + t)).collect();
    let types = [&b"f\0"[..], &(codes.len() as u32).to_le_bytes(), &codes].concat();
    std::fs::write(dir.join("types.cubin"), replace(&base, &[(".nv_debug_info_reg_type", &types)])).expect("written");
    compared(&bin, &dir, "types.cubin");
}

/// What can be read of a damaged section is shown, and so is all that stands behind it; the error says what is wrong where.
#[test]
fn damage_is_said_and_the_rest_is_shown() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let dir = Scratch::new("dwarf-damage");
    let base = base(&oracle.join("bin"), &dir);
    let elf = cubin::elf::Elf::read(&base).expect("a cubin");
    let data = |name: &str| elf.section(name).expect("the section").1.data.clone();
    let forms = [form(1, 0x11, &[(0x03, 0x2a)]), vec![0]].concat();
    let half = |name: &str| data(name)[..data(name).len() / 2].to_vec();
    let cut = |name: &str| data(name)[..data(name).len() - 3].to_vec();
    for (name, bytes, more, what) in [
        (".debug_info", half(".debug_info"), None, "a unit is longer than the section at offset 0x0"),
        (".debug_info", unit(&[99]), None, "no form 99 of an entry at offset 0xb"),
        (".debug_info", unit(&[1, 1]), Some(forms), "a value of the unknown form 0x2a at offset 0xc"),
        (".debug_info", unit(&[1]), Some(Vec::new()), "its forms lie behind the end of .debug_abbrev at offset 0x0"),
        (".debug_abbrev", vec![1, 17, 1, 3], None, "the data ends too soon at offset 0x4"),
        (".debug_loc", cut(".debug_loc"), None, "the data ends too soon"),
        (".debug_frame", cut(".debug_frame"), None, "an entry that is longer than the section"),
        (".debug_frame", vec![1, 2, 3, 4], None, "an entry without a length of eight bytes at offset 0x0"),
        (".nv_debug_info_reg_sass", half(".nv_debug_info_reg_sass"), None, "at offset 0x"),
        (".nv_debug_info_reg_type", b"f\0\x01\0\0\0\x3f".to_vec(), None, "the unknown type 0x3f at offset 0x6"),
    ] {
        let mut changed = vec![(name, &bytes[..])];
        changed.extend(more.as_ref().map(|m| (".debug_abbrev", &m[..])));
        std::fs::write(dir.join("damaged.cubin"), replace(&base, &changed)).expect("written");
        let done = run(CUOBJDUMP, &dir, &["-elf", "damaged.cubin"]);
        assert_eq!(done.status.code(), Some(1), "{name}");
        let (text, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert_eq!(errors.lines().count(), 1, "{errors}");
        assert!(errors.contains(&format!("damaged debugging information: '{name}': ")), "{errors}");
        assert!(errors.contains(what), "{name}: {errors}");
        assert!(text.contains("\n.section .debug_frame\n") && text.contains("\n.section .debug_line\n"), "{name}");
    }
}
