//! What the units of an SM do that code must know of, where its instructions do not tell.

/// Abilities of one range of SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Bulk copies go to the shared memory of any CTA of a cluster; else only to that of their own, and for another one the vendor's code
    /// calls a routine of the system.
    pub copies_to_clusters: bool,
    /// The copying engine alone holds tensor maps that a fence must make it forget; else the uniform loads of constants hold them, too.
    pub maps_in_engine_alone: bool,
    /// All threads that read a texture together have the same handle, in uniform registers; else each has its own, in a register. (The
    /// words for that decode on later chips, too; the vendor's compiler emits none there.)
    pub one_handle: bool,
    /// A product of bits counts those that differ; sm_90 counts only those that both have. (Later chips have no such products.)
    pub counts_differences: bool,
    /// Products of bytes take 16 rows of A at once; else 8.
    pub sixteen_rows_of_bytes: bool,
    /// Sums of pairs of bf16; else only products with a sum.
    pub adds_bf16: bool,
}

/// What holds for the first of them.
const FIRST: Units = Units {
    copies_to_clusters: true,
    maps_in_engine_alone: true,
    one_handle: false,
    counts_differences: true,
    sixteen_rows_of_bytes: false,
    adds_bf16: false,
};

/// What sm_80 brought.
const SM_80: Units = Units { sixteen_rows_of_bytes: true, ..FIRST };

/// What sm_90 brought and all later ones have.
const SM_90: Units = Units { one_handle: true, adds_bf16: true, ..SM_80 };

/// Read off the code of the vendor's 13.5: from which SM on, and what holds from there.
static LINES: [(u16, Units); 5] = [
    (0, FIRST),
    (80, SM_80),
    (90, Units { counts_differences: false, ..SM_90 }),
    (100, Units { maps_in_engine_alone: false, ..SM_90 }),
    (120, Units { copies_to_clusters: false, maps_in_engine_alone: false, ..SM_90 }),
];

/// The abilities of an SM.
pub fn units(sm: u16) -> Units {
    LINES.iter().rev().find(|l| l.0 <= sm).map_or(LINES[0].1, |l| l.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_sms() {
        for (sm, clusters, alone, one) in
            [(89, true, true, false), (90, true, true, true), (100, true, false, true), (120, false, false, true)]
        {
            let u = units(sm);
            assert_eq!((u.copies_to_clusters, u.maps_in_engine_alone, u.one_handle), (clusters, alone, one), "sm_{sm}");
            assert_eq!(u.counts_differences, sm != 90, "sm_{sm}");
            assert_eq!(u.adds_bf16, sm >= 90, "sm_{sm}");
        }
        assert_eq!([75, 80, 90, 121].map(|sm| units(sm).sixteen_rows_of_bytes), [false, true, true, true]);
    }
}
