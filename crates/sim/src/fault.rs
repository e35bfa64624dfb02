//! What can go wrong in a launch, and where it did.

use crate::shadow::Who;
use diag::{Diagnostic, Span};
use std::fmt;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The launch does not fit the kernel: no such entry, wrong arguments, too many threads.
    Launch,
    /// An instruction or feature that the engine does not model yet; the message names it.
    Unsupported,
    /// An access outside every allocation.
    OutOfBounds,
    /// An address that is no multiple of the access size.
    Misaligned,
    /// A store to memory that cannot be written.
    ReadOnly,
    /// A register was read that was never written.
    Uninitialized,
    /// A result was read before its latency had passed, or overwritten while still being read.
    Hazard,
    /// Two threads access the same byte, at least one writes, and nothing orders them.
    Race,
    /// No thread can go on.
    Deadlock,
    /// A barrier or warp-wide instruction was used against its rules.
    BarrierMisuse,
    /// The instruction budget is used up.
    Watchdog,
    /// The per-thread stack is exhausted.
    StackOverflow,
    /// `trap`, or a failed assertion.
    Trap,
}

impl FaultKind {
    /// A short name: `out of bounds`, `misaligned`, ...
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Launch => "launch",
            FaultKind::Unsupported => "unsupported",
            FaultKind::OutOfBounds => "out of bounds",
            FaultKind::Misaligned => "misaligned",
            FaultKind::ReadOnly => "read-only",
            FaultKind::Uninitialized => "uninitialized",
            FaultKind::Hazard => "hazard",
            FaultKind::Race => "race",
            FaultKind::Deadlock => "deadlock",
            FaultKind::BarrierMisuse => "barrier misuse",
            FaultKind::Watchdog => "watchdog",
            FaultKind::StackOverflow => "stack overflow",
            FaultKind::Trap => "trap",
        }
    }
}

/// Where in the program.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Place {
    /// No place in the program.
    #[default]
    None,
    /// A statement of the PTX text.
    Ptx(Span),
    /// An instruction of a SASS function: its byte offset in the section and its text.
    Sass {
        /// Byte offset from the start of the kernel's section.
        offset: u32,
        /// The instruction as the disassembler prints it.
        text: String,
    },
}

/// A line of the source that the program was made from, as `.loc` or the line table tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// File name.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
}

/// What another thread did that is part of the fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Other {
    /// Its CTA (x, y, z).
    pub cta: [u32; 3],
    /// The thread of it (x, y, z).
    pub thread: [u32; 3],
    /// Where in the program.
    pub place: Place,
    /// The line of the source.
    pub source: Option<SourceLine>,
}

/// A launch that did not end well.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What kind.
    pub kind: FaultKind,
    /// Name of the kernel.
    pub kernel: String,
    /// Which CTA (x, y, z), where one is to blame.
    pub cta: Option<[u32; 3]>,
    /// Which thread of it (x, y, z), where one is to blame.
    pub thread: Option<[u32; 3]>,
    /// Where in the program.
    pub place: Place,
    /// The line of the source that the place was made from, where the program tells.
    pub source: Option<SourceLine>,
    /// The other thread of a race.
    pub other: Option<Box<Other>>,
    /// What happened, one sentence without a full stop.
    pub message: String,
}

impl Fault {
    /// A fault that is not yet tied to a thread or place.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault {
            kind,
            kernel: String::new(),
            cta: None,
            thread: None,
            place: Place::None,
            source: None,
            other: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)?;
        if !self.kernel.is_empty() {
            write!(f, " [kernel {}", self.kernel)?;
            if let Some([x, y, z]) = self.cta {
                write!(f, ", CTA ({x},{y},{z})")?;
            }
            if let Some([x, y, z]) = self.thread {
                write!(f, ", thread ({x},{y},{z})")?;
            }
            write!(f, "]")?;
        }
        if let Place::Sass { offset, text } = &self.place {
            write!(f, " at {offset:#06x}: {text}")?;
        }
        if let Some(s) = &self.source {
            write!(f, " ({}:{})", s.file, s.line)?;
        }
        if let Some(o) = &self.other {
            let ([a, b, c], [x, y, z]) = (o.cta, o.thread);
            write!(f, "; the other is CTA ({a},{b},{c}), thread ({x},{y},{z})")?;
            if let Place::Sass { offset, text } = &o.place {
                write!(f, " at {offset:#06x}: {text}")?;
            }
            if let Some(s) = &o.source {
                write!(f, " ({}:{})", s.file, s.line)?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Diagnostic {
    fn from(f: Fault) -> Diagnostic {
        let mut d = Diagnostic::error(f.to_string());
        if let Place::Ptx(span) = f.place {
            d = d.at(span);
        }
        if let Some(Place::Ptx(span)) = f.other.map(|o| o.place) {
            d = d.label(span, "the other access");
        }
        d
    }
}

/// What memory says about an access; the engine adds thread and place.
#[derive(Clone, Debug, PartialEq)]
pub struct MemFault {
    /// What kind.
    pub kind: FaultKind,
    /// What happened.
    pub message: String,
    /// Who else is part of it.
    pub earlier: Option<Who>,
}

impl MemFault {
    /// A fault of one access.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> MemFault {
        MemFault { kind, message: message.into(), earlier: None }
    }
}
