//! Which scoreboard an instruction takes: there are six, and who waits for one waits for everything that is on it.

/// Cycles between two instructions, about.
pub const TICK: u32 = 2;
/// Cycles until the result of an instruction of fixed latency is there, about.
pub const FIXED: u32 = 5;
/// Cycles until an instruction of any unit has read its registers.
pub const OPERANDS: u32 = 15;
/// The same for copies from global into shared memory, which read them when the data are there.
pub const COPY: u32 = 300;

/// Cycles that the last idle scoreboard is worth; each one more halves it.
const WORTH: u32 = 8;

/// What is under way on a scoreboard. Times are cycles since the function began, estimated.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// Anything at all.
    pub busy: bool,
    /// Nothing but reads by copies into shared memory.
    pub late: bool,
    /// When it is done.
    pub ready: u32,
    /// The instruction that waits for it first, as the code lies; `u32::MAX` where there is none.
    pub due: u32,
}

impl Board {
    /// Nothing.
    pub const IDLE: Board = Board { busy: false, late: false, ready: 0, due: u32::MAX };

    /// Puts more on it.
    pub fn add(&mut self, o: &Board) {
        if o.busy {
            self.late = o.late && (self.late || !self.busy);
            self.busy = true;
            self.ready = self.ready.max(o.ready);
            self.due = self.due.min(o.due);
        }
    }
}

/// The scoreboard from `first` on that something new takes: where who waits first waits least for the other. One that
/// is idle is worth something, the more the fewer there are, as others come. `now` is instruction and time.
pub fn choose(set: &[Board; 6], new: &Board, first: u8, now: (u32, u32)) -> u8 {
    let wait = |ready: u32, due: u32| match due {
        u32::MAX => 0,
        _ => ready.saturating_sub(now.1 + due.saturating_sub(now.0) * TICK),
    };
    let idle = (first..6).filter(|&s| !set[s as usize].busy).count();
    let cost = |s: u8| {
        let old = &set[s as usize];
        if !old.busy {
            return (WORTH >> idle.min(6), s);
        }
        let early = if old.due <= new.due { old } else { new };
        // Cycles that who waits first comes later anyway.
        let others = set.iter().enumerate().filter(|(o, b)| *o != s as usize && b.busy && b.due <= early.due);
        let before = others.map(|(_, b)| wait(b.ready, b.due)).max().unwrap_or(0);
        let alone = before.max(wait(early.ready, early.due));
        (before.max(wait(old.ready.max(new.ready), early.due)) - alone, s)
    };
    (first..6).map(cost).min().map_or(5, |c| c.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(ready: u32, due: u32) -> Board {
        Board { busy: true, late: false, ready, due }
    }

    #[test]
    fn short_waits_are_not_for_long_loads() {
        let mut set = [Board::IDLE; 6];
        for s in &mut set {
            *s = load(300, 100);
        }
        // None is idle: with what is waited for first, or what takes no longer.
        set[4] = load(30, 4);
        assert_eq!(choose(&set, &load(28, 2), 0, (0, 0)), 4);
        set[2] = load(30, 50);
        assert_eq!(choose(&set, &load(28, 2), 0, (0, 0)), 2);
        // One is idle, and worth less than the wait for another.
        set[2] = load(300, 100);
        set[4] = load(60, 4);
        set[5] = Board::IDLE;
        assert_eq!(choose(&set, &load(28, 2), 0, (0, 0)), 5);
    }

    #[test]
    fn what_is_waited_for_together_shares() {
        let mut set = [Board::IDLE; 6];
        (set[1], set[3], set[5]) = (load(300, 40), load(40, 9), load(400, 80));
        assert_eq!(choose(&set, &load(300, 40), 1, (0, 0)), 1);
        // The first of them may not be used.
        assert_eq!(choose(&set, &load(42, 10), 4, (0, 0)), 4);
    }

    #[test]
    fn late_is_what_nothing_else_is_with() {
        let copy = Board { busy: true, late: true, ready: 300, due: u32::MAX };
        let mut b = Board::IDLE;
        b.add(&copy);
        assert!(b.late);
        b.add(&Board::IDLE);
        assert!(b.late && b.busy);
        b.add(&load(20, 7));
        assert_eq!((b.late, b.ready, b.due), (false, 300, 7));
        b.add(&copy);
        assert!(!b.late);
    }
}
