//! What the functions of a cubin need (`-res-usage`), as the vendor's tool prints it.

use super::code::Choice;
use cubin::attr;
use cubin::elf::Elf;

/// Banks of constants, `.nv.constant<bank>` and `.nv.constant<bank>.<function>`.
const BANK: &str = ".nv.constant";
/// The bit of `st_other` of kernels.
const ENTRY: u8 = 0x10;

/// The figures of a cubin and of the functions that are chosen.
///
/// # Errors
/// Where the table of symbols or attributes are damaged.
pub fn text(elf: &Elf, choice: &Choice) -> Result<String, String> {
    let symbols = elf.symbols().map_err(|d| d.message)?;
    let size = |name: &str| elf.sections.iter().filter(|s| s.name == name).map(|s| s.size).sum::<u64>();
    // Of this function, or of all.
    let banks = |function: &str| -> String {
        let mut list: Vec<(u8, u64)> = Vec::new();
        for s in &elf.sections {
            let Some((bank, of)) = s.name.strip_prefix(BANK).map(|b| b.split_once('.').unwrap_or((b, ""))) else {
                continue;
            };
            if of == function
                && let Ok(bank) = bank.parse()
            {
                list.push((bank, s.size));
            }
        }
        list.sort_unstable();
        list.iter().map(|(bank, size)| format!(" CONSTANT[{bank}]:{size}")).collect()
    };
    let attributes = match elf.section(".nv.info") {
        Some((_, s)) => attr::read(&s.data).map_err(|d| d.message)?,
        None => Vec::new(),
    };
    let attribute = |code: u8, name: &str| {
        let words = attributes.iter().filter(|a| a.code == code).map(|a| a.to_words());
        let of = |w: &Vec<u32>| w.first().and_then(|&s| symbols.get(s as usize)).is_some_and(|s| s.name == name);
        words.into_iter().find(of).and_then(|w| w.get(1).copied())
    };
    let global = size(".nv.global") + size(".nv.global.init");
    let mut out = format!("\nResource usage:\n Common:\n  GLOBAL:{global}{}\n", banks(""));
    for (f, section) in choice.functions(elf) {
        let entry = symbols.iter().any(|s| s.name == f && s.kind == 2 && s.other & ENTRY != 0);
        // Before sm_90 the section itself says it, of functions, too.
        let registers = match section.info >> 24 {
            0 if entry => attribute(attr::REGCOUNT, f).unwrap_or(0),
            n => n,
        };
        let stack = match attribute(attr::MIN_STACK_SIZE, f) {
            Some(u32::MAX) => "UNKNOWN".to_string(),
            n => n.unwrap_or(0).to_string(),
        };
        let shared = size(&format!(".nv.shared.{f}"));
        out.push_str(&format!(
            " Function {f}:\n  REG:{registers} STACK:{stack} SHARED:{shared} LOCAL:0{} TEXTURE:0 SURFACE:0 SAMPLER:0\n",
            banks(f)
        ));
    }
    Ok(out)
}
