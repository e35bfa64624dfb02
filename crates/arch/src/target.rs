//! Targets and which of them can run PTX of which.
//!
//! Source: `ptxas --help` of 13.5 (names), its answers to every pair of `.target` and `-arch` (rules), and its answers to
//! every PTX version with every target (first versions).

use std::fmt;

/// The suffix of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// `sm_90`: forward compatible.
    Plain,
    /// `sm_90a`: features of this very chip; runs nowhere else.
    A,
    /// `sm_100f`: features of its family; runs on later members of the family.
    F,
}

/// `sm_90a` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The number: 90.
    pub sm: u16,
    /// The suffix.
    pub variant: Variant,
}

/// What a `-arch` name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GpuKind {
    /// `sm_90`: machine code.
    Sm,
    /// `compute_90`: parse and check only.
    Compute,
    /// `lto_90`: an intermediate form for link-time optimization.
    Lto,
}

/// A name as `-arch` takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GpuName {
    /// Its prefix.
    pub kind: GpuKind,
    /// The target it names.
    pub target: Target,
}

const A: u8 = 1;
const F: u8 = 2;

/// One line an SM: number, suffixes, family, first PTX version plain, `a`, `f`, and whether code can be made for it.
struct Line {
    sm: u16,
    suffixes: u8,
    family: u16,
    since: [(u16, u16); 3],
    current: bool,
}

const fn line(sm: u16, suffixes: u8, family: u16, since: [(u16, u16); 3]) -> Line {
    Line { sm, suffixes, family, since, current: true }
}

const fn old(sm: u16, since: (u16, u16)) -> Line {
    Line { sm, suffixes: 0, family: sm, since: [since; 3], current: false }
}

static LINES: [Line; 33] = [
    old(10, (1, 0)),
    old(11, (1, 0)),
    old(12, (1, 2)),
    old(13, (1, 2)),
    old(20, (2, 0)),
    old(21, (2, 0)),
    old(30, (3, 0)),
    old(32, (4, 0)),
    old(35, (3, 1)),
    old(37, (4, 1)),
    old(50, (4, 0)),
    old(52, (4, 1)),
    old(53, (4, 2)),
    old(60, (5, 0)),
    old(61, (5, 0)),
    old(62, (5, 0)),
    old(70, (6, 0)),
    old(72, (6, 1)),
    line(75, 0, 75, [(6, 3); 3]),
    line(80, 0, 80, [(7, 0); 3]),
    old(82, (7, 1)),
    line(86, 0, 86, [(7, 1); 3]),
    line(87, 0, 87, [(7, 4); 3]),
    line(88, 0, 88, [(9, 0); 3]),
    line(89, 0, 89, [(7, 8); 3]),
    line(90, A, 90, [(7, 8), (8, 0), (8, 0)]),
    line(100, A | F, 100, [(8, 6), (8, 6), (8, 8)]),
    // The first name of sm_110: its `a` and `f` code runs there, its plain number still counts as 101.
    Line { sm: 101, suffixes: A | F, family: 110, since: [(8, 6), (8, 6), (8, 8)], current: false },
    line(103, A | F, 100, [(8, 8); 3]),
    line(107, A | F, 100, [(9, 4); 3]),
    line(110, A | F, 110, [(9, 0); 3]),
    line(120, A | F, 120, [(8, 7), (8, 7), (8, 8)]),
    line(121, A | F, 120, [(8, 8); 3]),
];

/// Every target that code can be made for, oldest first.
pub const TARGETS: [Target; 26] = {
    const fn t(sm: u16, variant: Variant) -> Target {
        Target { sm, variant }
    }
    use Variant::{A, F, Plain};
    [
        t(75, Plain),
        t(80, Plain),
        t(86, Plain),
        t(87, Plain),
        t(88, Plain),
        t(89, Plain),
        t(90, Plain),
        t(90, A),
        t(100, Plain),
        t(100, A),
        t(100, F),
        t(103, Plain),
        t(103, A),
        t(103, F),
        t(107, Plain),
        t(107, A),
        t(107, F),
        t(110, Plain),
        t(110, A),
        t(110, F),
        t(120, Plain),
        t(120, A),
        t(120, F),
        t(121, Plain),
        t(121, A),
        t(121, F),
    ]
};

/// Every PTX version, oldest first.
#[rustfmt::skip]
pub const PTX_VERSIONS: [(u16, u16); 50] = [
    (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5),
    (2, 0), (2, 1), (2, 2), (2, 3),
    (3, 0), (3, 1), (3, 2),
    (4, 0), (4, 1), (4, 2), (4, 3),
    (5, 0), (5, 1), (5, 2),
    (6, 0), (6, 1), (6, 2), (6, 3), (6, 4), (6, 5),
    (7, 0), (7, 1), (7, 2), (7, 3), (7, 4), (7, 5), (7, 6), (7, 7), (7, 8),
    (8, 0), (8, 1), (8, 2), (8, 3), (8, 4), (8, 5), (8, 6), (8, 7), (8, 8),
    (9, 0), (9, 1), (9, 2), (9, 3), (9, 4), (9, 5),
];

/// True for a version that exists and is not newer than the newest understood one.
pub fn is_ptx_version(version: (u16, u16)) -> bool {
    PTX_VERSIONS.contains(&version)
}

impl Target {
    fn line(self) -> Option<&'static Line> {
        LINES.iter().find(|l| l.sm == self.sm)
    }

    /// `sm_90a` -> the target; none for a name that no tool knows. Old targets (`sm_50`) parse: PTX may name them.
    pub fn parse(name: &str) -> Option<Target> {
        Self::parse_number(name.strip_prefix("sm_")?)
    }

    fn parse_number(text: &str) -> Option<Target> {
        let (digits, variant) = match text.as_bytes().last()? {
            b'a' => (&text[..text.len() - 1], Variant::A),
            b'f' => (&text[..text.len() - 1], Variant::F),
            _ => (text, Variant::Plain),
        };
        if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let target = Target { sm: digits.parse().ok()?, variant };
        let suffixes = target.line()?.suffixes;
        let known = match variant {
            Variant::Plain => true,
            Variant::A => suffixes & A != 0,
            Variant::F => suffixes & F != 0,
        };
        known.then_some(target)
    }

    /// True for machines that can be told not to check fabric operations (`--gno-fabric-access-check`); ptxas 13.5.37 says of all
    /// others that it ignores the option.
    pub fn has_fabric_checks(self) -> bool {
        self.sm >= 100
    }

    /// True where machine code can be made for it (`sm_75` and later).
    pub fn is_current(self) -> bool {
        self.line().is_some_and(|l| l.current)
    }

    /// The number that names its family: 100 for `sm_100`, `sm_103`, `sm_107`.
    pub fn family(self) -> u16 {
        self.line().map_or(self.sm, |l| l.family)
    }

    /// The first PTX version that knows it.
    pub fn since(self) -> (u16, u16) {
        self.line().map_or((u16::MAX, 0), |l| l.since[self.variant as usize])
    }

    /// True if PTX with `.target ptx` may be compiled for this GPU: plain PTX for every later SM, `f` PTX for the same and
    /// later members of its family, `a` PTX for the very same target.
    pub fn can_run(self, ptx: Target) -> bool {
        // `sm_101a` and `sm_101f` are the first names of `sm_110a` and `sm_110f`.
        let sm = if ptx.sm == 101 && ptx.variant != Variant::Plain { 110 } else { ptx.sm };
        match ptx.variant {
            Variant::Plain => self.sm >= sm,
            Variant::F => self.family() == ptx.family() && self.sm >= sm,
            Variant::A => self.variant == Variant::A && self.sm == sm,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.variant {
            Variant::Plain => "",
            Variant::A => "a",
            Variant::F => "f",
        };
        write!(f, "sm_{}{suffix}", self.sm)
    }
}

impl GpuName {
    /// `sm_90`, `compute_90a`, `lto_100f`; none for a name that code cannot be made for.
    pub fn parse(name: &str) -> Option<GpuName> {
        let (kind, number) = if let Some(n) = name.strip_prefix("sm_") {
            (GpuKind::Sm, n)
        } else if let Some(n) = name.strip_prefix("compute_") {
            (GpuKind::Compute, n)
        } else {
            (GpuKind::Lto, name.strip_prefix("lto_")?)
        };
        let target = Target::parse_number(number)?;
        target.is_current().then_some(GpuName { kind, target })
    }
}

impl fmt::Display for GpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.target.to_string();
        let prefix = match self.kind {
            GpuKind::Sm => "sm",
            GpuKind::Compute => "compute",
            GpuKind::Lto => "lto",
        };
        write!(f, "{prefix}{}", &name[2..])
    }
}

/// Every name that `-arch` takes, in the order of the names.
pub fn gpu_names() -> Vec<String> {
    let kinds = [GpuKind::Compute, GpuKind::Lto, GpuKind::Sm];
    let mut names: Vec<String> =
        kinds.iter().flat_map(|&kind| TARGETS.map(|target| GpuName { kind, target }.to_string())).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(name: &str) -> Target {
        Target::parse(name).expect(name)
    }

    #[test]
    fn names() {
        for target in TARGETS {
            assert_eq!(t(&target.to_string()), target);
            assert!(target.is_current());
        }
        assert_eq!(GpuName::parse("lto_100f").map(|n| n.to_string()).as_deref(), Some("lto_100f"));
        assert_eq!(gpu_names().len(), 78);
        for bad in ["sm_99", "sm_90b", "sm_90f", "sm_", "sm_090", "sm_9", "sm90", "sm_75a", "compute_90"] {
            assert_eq!(Target::parse(bad), None, "{bad}");
        }
        assert_eq!(GpuName::parse("sm_50"), None);
        assert!(!t("sm_50").is_current());
    }

    #[test]
    fn families() {
        assert!(t("sm_103").can_run(t("sm_100f")) && t("sm_103a").can_run(t("sm_100f")));
        assert!(!t("sm_110").can_run(t("sm_100f")) && !t("sm_100").can_run(t("sm_103f")));
        assert!(t("sm_121").can_run(t("sm_90")) && !t("sm_90").can_run(t("sm_90a")));
        assert!(t("sm_90a").can_run(t("sm_90")) && !t("sm_100a").can_run(t("sm_90a")));
        assert!(t("sm_110a").can_run(t("sm_101a")) && !t("sm_100").can_run(t("sm_101")));
    }

    #[test]
    fn versions() {
        assert_eq!((t("sm_90").since(), t("sm_90a").since(), t("sm_100f").since()), ((7, 8), (8, 0), (8, 8)));
        assert!(is_ptx_version((9, 5)) && !is_ptx_version((7, 9)) && !is_ptx_version((9, 6)));
    }
}
