//! What the units of an SM do that code must know of, where its instructions do not tell.

/// Abilities of one range of SMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Units {
    /// Bulk copies go to the shared memory of any CTA of a cluster; else only to that of their own, and for another one the vendor's code
    /// calls a routine of the system.
    pub copies_to_clusters: bool,
    /// The copying engine alone holds tensor maps that a fence must make it forget; else the uniform loads of constants hold them, too.
    pub maps_in_engine_alone: bool,
}

/// Read off the code of the vendor's 13.5: from which SM on, and what holds from there.
static LINES: [(u16, Units); 3] = [
    (0, Units { copies_to_clusters: true, maps_in_engine_alone: true }),
    (100, Units { copies_to_clusters: true, maps_in_engine_alone: false }),
    (120, Units { copies_to_clusters: false, maps_in_engine_alone: false }),
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
        for (sm, clusters, alone) in [(90, true, true), (100, true, false), (103, true, false), (120, false, false)] {
            assert_eq!(units(sm), Units { copies_to_clusters: clusters, maps_in_engine_alone: alone }, "sm_{sm}");
        }
    }
}
