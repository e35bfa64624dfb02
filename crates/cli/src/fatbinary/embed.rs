//! The C file that makes a fatbin part of a program: its bytes as assembly text, and the record by which the runtime finds it.

/// The C file for the bytes of a fatbin. `relocatable`: its code is for the linker, in a section of its own; `linked`: it is what
/// linking gave, and the record also names the fatbins that went into it.
/// `numbers`: the bytes as numbers of C, not as assembly text.
pub fn source(bytes: &[u8], relocatable: bool, linked: bool, numbers: bool) -> String {
    let section = if relocatable { "__nv_relfatbin" } else { ".nv_fatbin" };
    let words: Vec<String> = bytes
        .chunks(8)
        .map(|c| {
            let mut word = [0; 8];
            word[..c.len()].copy_from_slice(c);
            format!("0x{:016x}", u64::from_le_bytes(word))
        })
        .collect();
    let whole = words.len() / 4 * 4;
    let mut quads: String = words[..whole].chunks(4).map(|w| format!("\".quad {}\\n\"\n", w.join(","))).collect();
    if whole < words.len() {
        quads.push_str(&format!("\".quad {}\\n\"\n", words[whole..].join(", ")));
    }
    let place = "__attribute__ ((aligned (8))) __attribute__ ((section (__CUDAFATBINSECTION)))= ";
    let (names, record) = match relocatable {
        true => (
            "#undef __FATIDNAME_CORE\n#undef __FATIDNAME\n#define __FATIDNAME_CORE(x) __fatbinwrap##x\n#define __FATIDNAME(x) __FATIDNAME_CORE(x)\n",
            "extern const __fatBinC_Wrapper_t __FATIDNAME(__NV_MODULE_ID)",
        ),
        false => ("", "static const __fatBinC_Wrapper_t __fatDeviceText"),
    };
    let (version, parts) = if linked { (2, "(void**)__cudaPrelinkedFatbins") } else { (1, "0") };
    let c =
        |inside: &str| format!("#ifdef __cplusplus\nextern \"C\" {{\n#endif\n{inside}#ifdef __cplusplus\n}}\n#endif\n");
    let data = match numbers {
        true => {
            let rows: String = words[..whole].chunks(4).map(|w| format!("{}ull,\n", w.join("ull,"))).collect();
            let end = if whole < words.len() { words[whole..].join("ull,") + "ull" } else { String::new() };
            let head =
                "static const unsigned long long fatbinData[] __attribute__ ((section (__CUDAFATBINDATASECTION)))= ";
            c(&format!("\n{head}{{{rows}{end}\n}};\n\n")) + "\n"
        }
        false => c(&format!("extern const unsigned long long fatbinData[{}];\n", words.len())),
    };
    let text = match numbers {
        true => String::new(),
        false => format!(
            "asm(\n\".section {section}, \\\"a\\\"\\n\"\n\".align 8\\n\"\n\"fatbinData:\\n\"\n{quads}\".text\\n\");\n"
        ),
    };
    let wrapper = c(&format!(
        "{names}{record} {place}\n\t{{ 0x466243b1, {version}, fatbinData, {parts} }};\n#undef __CUDAFATBINDATASECTION\n#undef __CUDAFATBINSECTION\n"
    ));
    format!(
        "#ifndef __SKIP_INTERNAL_FATBINARY_HEADERS\n#include \"fatbinary_section.h\"\n#endif\n#define __CUDAFATBINSECTION  \".nvFatBinSegment\"\n#define __CUDAFATBINDATASECTION  \"{section}\"\n{text}{data}{wrapper}"
    )
}
