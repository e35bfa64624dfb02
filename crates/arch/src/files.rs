//! What files of code for an SM have that those of others have not: what a linker must know of a target.

/// Conventions of files of one range of SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// Bytes of shared memory in front of an entry's own that belong to the system: addresses and sizes count them.
    pub reserved_shared: u32,
    /// The header of a section of code has the function's number of registers in the upper byte of `sh_info`.
    pub registers_in_header: bool,
    /// The first release, times ten, whose relocatable files can be linked.
    pub first_toolkit: u32,
    /// Addresses of functions, and calls through them, have relocations of their own (there are unified functions).
    pub unified_functions: bool,
    /// What `-v` prints counts the bytes of constant banks.
    pub banks_in_figures: bool,
}

/// Read off files and messages of the vendor's 13.5: from which SM on, and what holds from there.
static LINES: [(u16, Files); 2] = [
    (
        0,
        Files {
            reserved_shared: 0,
            registers_in_header: true,
            first_toolkit: 0,
            unified_functions: false,
            banks_in_figures: true,
        },
    ),
    (
        90,
        Files {
            reserved_shared: 0x400,
            registers_in_header: false,
            first_toolkit: 120,
            unified_functions: true,
            banks_in_figures: false,
        },
    ),
];

/// The conventions of files for an SM.
pub fn files(sm: u16) -> Files {
    LINES.iter().rev().find(|l| l.0 <= sm).map_or(LINES[0].1, |l| l.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_sms() {
        for (sm, reserved) in [(75, 0), (80, 0), (89, 0), (90, 0x400), (100, 0x400), (121, 0x400)] {
            assert_eq!(files(sm).reserved_shared, reserved, "sm_{sm}");
            assert_eq!(files(sm).registers_in_header, reserved == 0, "sm_{sm}");
            assert_eq!(files(sm).banks_in_figures, reserved == 0, "sm_{sm}");
        }
    }
}
