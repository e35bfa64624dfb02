//! The control field: bits 125:105 of the instruction word.

/// Scheduling control of one instruction. Bit positions were read off words that the vendor's assembler emits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Control {
    /// Cycles until the next instruction of the warp may issue, 0..15 (bits 108:105). 0 waits until all that was issued
    /// is done: the vendor's release 13.5 relies on it in unoptimized code, which sets no scoreboards.
    pub stall: u8,
    /// Bit 109 as it stands in the word: set lets the warp keep issuing, clear invites a switch of warps. The printed
    /// form shows `Y` where it is clear.
    pub bit109: bool,
    /// Scoreboard set when the result is written (bits 112:110), None = 7.
    pub write_sb: Option<u8>,
    /// Scoreboard set when the sources have been read (bits 115:113), None = 7.
    pub read_sb: Option<u8>,
    /// Scoreboards 0..5 that must be clear before issue, a bit each (bits 121:116).
    pub wait: u8,
    /// Operand reuse cache flags for slots A, B, C (bits 124:122; bit 125 is the fourth).
    pub reuse: u8,
}

impl Control {
    /// True if the instruction neither stalls nor waits nor sets a scoreboard; in listings no space stands before its semicolon.
    pub fn is_idle(&self) -> bool {
        self.stall == 0 && self.wait == 0 && self.write_sb.is_none() && self.read_sb.is_none()
    }
}

impl Default for Control {
    fn default() -> Self {
        Control { stall: 1, bit109: true, write_sb: None, read_sb: None, wait: 0, reuse: 0 }
    }
}
