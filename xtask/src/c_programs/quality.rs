//! Our code beside the vendor's, of programs that are right.

use crate::bench::compile_any;
use crate::corpus::{self, Made};
use std::path::Path;

/// A program, and what the vendor's compiler and ours make of it.
pub type Row = (String, [Made; 2]);

/// Compiles with both, as either does by default; `None` where one refuses.
///
/// # Errors
/// A compiler cannot be run.
pub fn compare(vendor: &Path, ours: &Path, ptx: &Path, chip: &str, folder: &Path) -> Result<Option<[Made; 2]>, String> {
    let out = folder.join("quality.cubin");
    let mut made = [Made::default(); 2];
    for (slot, tool) in made.iter_mut().zip([vendor, ours]) {
        let (code, _, log) = compile_any(tool, ptx, chip, &["-fmad=false", "-O3"], &out)?;
        if code != 0 {
            return Ok(None);
        }
        *slot = corpus::measure(&out, &log)?;
    }
    Ok(Some(made))
}

/// Prints means, and the worst.
pub fn tell(rows: &[Row]) {
    println!("{} programs beside the vendor's ptxas:", rows.len());
    corpus::table(rows, &corpus::CODE);
}
