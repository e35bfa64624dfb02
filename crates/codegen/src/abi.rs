//! How functions are called: which registers carry arguments, results and the return address, and which ones are kept.
//!
//! Observed of the vendor's compiler, whose relocatable files also say it in `.nv.prototype`. As a rule arguments travel in the
//! window R4..R15, in order, each parameter in the lowest free run of registers aligned to its alignment, whole on the stack if it
//! does not fit; results from R4 on. A function with `.abi_preserve N` keeps R16..R(15+N) and nothing above them; its return
//! address lies in the even pair at R(14+N); where arguments or results take more than twelve words, all of them travel in a
//! larger window above what is kept. `.abi_preserve_control N` lets it change the convergence barriers B0..B(N-1) and no others.

use crate::converge::KEPT;
use ptx::module::{Directive, Module, VarId};
use ptx::types::Space;

/// Which general registers a callee keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keeps {
    /// R2, R16..R31 and the upper four of each eight from R36 on.
    #[default]
    Usual,
    /// Functions of the system (printing, the heap, failed assertions; seen in the vendor's code): all from R16 on.
    System,
    /// R2 and so many from R16 on.
    First(u8),
    /// All but those from one on, so many, and with them the predicates and uniform registers: routines that arithmetic calls in seldom
    /// cases, and functions that only one kernel calls. Both numbers are even; the last two registers hold the return address. None at all: how
    /// many is not known yet.
    But(u8, u8),
}

impl Keeps {
    /// The first register of the pair that holds the return address.
    pub fn return_pair(self) -> u8 {
        match self {
            Keeps::First(n) => (14 + n) & !1,
            Keeps::But(first, n) => (first + n).saturating_sub(2),
            Keeps::Usual | Keeps::System => 20,
        }
    }

    /// Does a call leave everything but some general registers as it was?
    pub fn light(self) -> bool {
        matches!(self, Keeps::But(..))
    }

    /// Is it known before anything else how few registers a call changes, as of routines for seldom cases?
    pub fn seldom(self) -> bool {
        matches!(self, Keeps::But(_, 1..))
    }

    /// Where a function that keeps the predicates puts them: the upper word of a return address that is an offset, zero, is set anew at the end.
    pub fn predicates(self) -> Option<u8> {
        self.light().then(|| self.return_pair() + 1)
    }

    /// Is it one of the registers that hold the return address?
    pub fn returns_by(self, gpr: u32) -> bool {
        gpr & !1 == u32::from(self.return_pair())
    }

    /// Must a function leave the register as it was?
    pub fn preserves(self, gpr: u32) -> bool {
        let usual = gpr == 2 || (16..32).contains(&gpr) || (gpr >= 36 && gpr % 8 >= 4);
        !self.returns_by(gpr)
            && match self {
                Keeps::Usual => usual,
                Keeps::System => usual || gpr >= 16,
                Keeps::First(n) => gpr == 2 || (16..16 + u32::from(n)).contains(&gpr),
                Keeps::But(first, n) => !(u32::from(first)..u32::from(first) + u32::from(n)).contains(&gpr),
            }
    }

    /// May a caller rely on the register being as it was? Of functions of the system it is not known that they keep R2.
    pub fn keeps(self, gpr: u32) -> bool {
        self.preserves(gpr) && !(self == Keeps::System && gpr == 2)
    }
}

/// What a function promises its callers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convention {
    /// Of general registers.
    pub keeps: Keeps,
    /// The convergence barriers that it may change, from B0 on, where it says so.
    pub barriers: Option<u8>,
}

impl Convention {
    /// What the directives of a function or prototype ask for.
    pub fn of(directives: &[Directive]) -> Convention {
        let mut out = Convention::default();
        for d in directives {
            match d {
                Directive::Other(name, n) if name == "abi_preserve" => {
                    out.keeps = Keeps::First(n.first().map_or(0, |&n| n.min(238) as u8));
                }
                Directive::Other(name, n) if name == "abi_preserve_control" => {
                    out.barriers = Some(n.first().map_or(0, |&n| n.min(11) as u8));
                }
                _ => {}
            }
        }
        out
    }

    /// The first convergence barrier that it keeps.
    pub fn kept_barrier(self) -> usize {
        self.barriers.map_or(KEPT.start, usize::from)
    }

    /// What stands of it behind the types of a prototype, as linkers compare it; nothing where it is the usual one.
    pub fn suffix(self, params: &[Shape], returns: &[Shape]) -> String {
        let barriers = self.barriers.map_or(String::new(), |n| format!("sBx{:08x}", (1u32 << n) - 1));
        match self.keeps {
            Keeps::First(n) => {
                let (start, words) = window(n, params, returns);
                let (mut low, mut high) = (0u128, 0u128);
                for r in (0..255u32).filter(|r| !matches!(r, 1 | 2) && !(16..16 + u32::from(n)).contains(r)) {
                    *(if r < 128 { &mut low } else { &mut high }) |= 1 << (r % 128);
                }
                let pair = self.keeps.return_pair();
                format!("|{words}p{start}r{pair}{barriers}sRx{high:032x}{low:032x}")
            }
            _ if barriers.is_empty() => barriers,
            _ => format!("|{barriers}"),
        }
    }

    /// Places the parameters and results of a function.
    ///
    /// # Errors
    /// Says what `.abi_preserve` leaves no room for.
    pub fn place(self, params: &[Shape], returns: &[Shape], name: &str) -> Result<Placed, String> {
        let Keeps::First(n) = self.keeps else {
            let buffer = words(returns) > WINDOW;
            let (params, stack) = places(params, 4, WINDOW, buffer);
            let returns = if buffer { Vec::new() } else { places(returns, 4, WINDOW, false).0 };
            return Ok(Placed { params, returns, stack, buffer });
        };
        let (start, words) = window(n, params, returns);
        let pair = u32::from(self.keeps.return_pair());
        if pair + 1 >= MOST {
            return Err(format!("(C7002) Return Address ({pair}) should be less than {MOST}"));
        }
        if start + words >= MOST {
            return Err(format!("Parameter register {} is invalid for function '{name}'", (start + words).min(255)));
        }
        if words > 0 && start <= pair + 1 && pair < start + words {
            return Err(format!(
                "Parameter registers from R{start} to R{} overlap with return address register R{pair} to R{} for function '{name}'",
                start + words - 1,
                pair + 1
            ));
        }
        let (params, stack) = places(params, start, words, false);
        let returns = places(returns, start, words, false).0;
        Ok(Placed { params, returns, stack, buffer: false })
    }
}

/// Where the parameters and results of a function travel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// Each parameter.
    pub params: Vec<Place>,
    /// Each result, where registers take them.
    pub returns: Vec<Place>,
    /// Bytes of stack arguments.
    pub stack: u32,
    /// The result is written to memory of the caller, whose address the first register of the window holds.
    pub buffer: bool,
}

/// Where one parameter travels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// From this register on.
    Reg(u8),
    /// At this byte offset of the stack arguments.
    Stack(u32),
}

/// A parameter: how it is placed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Words that it takes.
    pub words: u32,
    /// Alignment in bytes.
    pub align: u32,
    /// It has no size of its own: what is passed stands on the stack.
    pub open: bool,
}

impl Shape {
    /// Those of variables.
    pub fn of(m: &Module, vars: &[VarId]) -> Vec<Shape> {
        let shape = |v: &VarId| {
            let v = &m.vars[v.index()];
            let register = v.space == Space::Reg;
            // A vector lies in registers as it would in memory, at a multiple of its size.
            let size = if register { v.size().max(1) } else { v.size() };
            Shape {
                words: size.div_ceil(4) as u32,
                align: v.align.max(if register { size as u32 } else { 1 }),
                open: v.dims.contains(&None),
            }
        };
        vars.iter().map(shape).collect()
    }
}

/// Words of the usual window, R4..R15; a larger result is written to memory of the caller.
const WINDOW: u32 = 12;

/// No register of a parameter or return address is as high as this.
const MOST: u32 = 253;

fn words(list: &[Shape]) -> u32 {
    list.iter().fold(0, |n, s| n.saturating_add(s.words))
}

/// Words from the start of the window to the end of a list, in order and without filling holes.
fn extent(list: &[Shape]) -> u32 {
    list.iter().fold(0u32, |n, s| {
        let n = n.next_multiple_of(s.align.clamp(4, 16) / 4);
        if s.open { n } else { n.saturating_add(s.words).min(1 << 20) }
    })
}

/// The window of a function that keeps `n` registers: its first register and how many words it has.
fn window(n: u8, params: &[Shape], returns: &[Shape]) -> (u32, u32) {
    let words = extent(params).max(extent(returns));
    if words <= WINDOW {
        return (4, words);
    }
    // It ends where one of the numbers of registers ends that threads are given.
    const GIVEN: [u32; 9] = [40, 48, 56, 64, 72, 80, 96, 128, 168];
    let fits = |given: &&u32| **given >= 4 + words.next_multiple_of(4) + 16 + u32::from(n);
    let given = GIVEN.iter().find(fits).copied().unwrap_or(256);
    (given.saturating_sub(2 + words) / 4 * 4, words)
}

/// Places parameters in `count` registers from `start` on, of which the first is taken where `buffer` says so; gives the bytes of
/// the stack, too.
fn places(params: &[Shape], start: u32, count: u32, buffer: bool) -> (Vec<Place>, u32) {
    let count = count as usize;
    let mut free = vec![true; count];
    if let (true, Some(first)) = (buffer, free.first_mut()) {
        *first = false;
    }
    let mut stack = 0u32;
    let mut out = Vec::new();
    for &Shape { words, align, open } in params {
        let step = (align.clamp(4, 16) / 4) as usize;
        let n = words as usize;
        let fit = (!open)
            .then_some(0..count)
            .into_iter()
            .flatten()
            .filter(|i| (i + start as usize).is_multiple_of(step))
            .find(|&i| i + n <= count && free[i..i + n].iter().all(|&f| f));
        match fit {
            Some(i) => {
                free[i..i + n].fill(false);
                out.push(Place::Reg((start as usize + i) as u8));
            }
            None => {
                let a = align.max(4);
                stack = stack.div_ceil(a) * a;
                out.push(Place::Stack(stack));
                stack += words * 4;
            }
        }
    }
    (out, stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(list: &[(u32, u32)]) -> Vec<Shape> {
        list.iter().map(|&(align, bytes)| Shape { words: bytes.div_ceil(4), align, open: false }).collect()
    }

    fn first(n: u8) -> Convention {
        Convention { keeps: Keeps::First(n), barriers: None }
    }

    /// What `.nv.prototype` says in files of ptxas 13.5.
    #[test]
    fn suffixes_are_the_vendors() {
        let one = bytes(&[(4, 4)]);
        let f = "f".repeat(58);
        assert_eq!(first(4).suffix(&one, &one), format!("|1p4r18sRx7{}0fff9", &f));
        assert_eq!(first(1).suffix(&one, &one), format!("|1p4r14sRx7{}efff9", &f));
        assert_eq!(first(8).suffix(&[], &[]), format!("|0p4r22sRx7{}00fff9", &f[1..]));
        let with = |keeps, n| Convention { keeps, barriers: Some(n) }.suffix(&one, &one);
        assert_eq!(with(Keeps::First(4), 11), format!("|1p4r18sBx000007ffsRx7{f}0fff9"));
        assert_eq!(with(Keeps::Usual, 3), "|sBx00000007");
        assert_eq!(Convention::default().suffix(&one, &one), "");
    }

    /// Windows that ptxas 13.5 was seen to choose: registers kept, words, first register.
    #[test]
    fn windows_are_the_vendors() {
        let seen = [
            (0, 13, 24),
            (4, 14, 24),
            (5, 14, 32),
            (12, 13, 32),
            (13, 16, 36),
            (0, 17, 20),
            (1, 18, 28),
            (8, 17, 28),
            (9, 18, 36),
            (0, 20, 16),
            (44, 20, 72),
            (132, 20, 232),
            (64, 14, 112),
            (96, 14, 152),
            (136, 16, 236),
            (40, 24, 68),
            (88, 24, 140),
            (0, 40, 20),
            (40, 40, 84),
            (112, 40, 212),
            (52, 60, 104),
            (92, 60, 192),
        ];
        for (n, words, start) in seen {
            let one = bytes(&vec![(4, 4); words]);
            assert_eq!(window(n, &one, &[]), (start, words as u32), "{n} kept, {words} words");
        }
        // Holes are counted, and filled.
        let list = bytes(&[(4, 4), (16, 32), (4, 4), (4, 4), (4, 4)]);
        assert_eq!(window(4, &list, &[]), (20, 15));
        let placed = first(4).place(&list, &[], "f").expect("fits");
        assert_eq!(placed.params, [20, 24, 21, 22, 23].map(Place::Reg));
        let big = first(4).place(&bytes(&[(4, 4)]), &bytes(&[(4, 80)]), "f").expect("fits");
        assert_eq!((big.params, big.returns, big.stack), (vec![Place::Reg(24)], vec![Place::Reg(24)], 0));
    }

    #[test]
    fn what_has_no_room_is_an_error() {
        let twelve = bytes(&[(4, 48)]);
        let overlap = first(1).place(&twelve, &[], "h").expect_err("R14 is taken twice");
        assert_eq!(
            overlap,
            "Parameter registers from R4 to R15 overlap with return address register R14 to R15 for function 'h'"
        );
        assert!(first(2).place(&twelve, &[], "h").is_ok());
        assert!(first(238).place(&[], &[], "h").expect_err("R252").contains("C7002"));
        assert!(first(136).place(&bytes(&[(4, 4); 14]), &[], "h").expect_err("R253").contains("254"));
        assert!(first(4).place(&bytes(&[(4, 1100)]), &[], "h").is_err());
    }

    #[test]
    fn holes_are_filled_from_behind() {
        // b32, b64, f32 -> R4, R6:7, R5
        let placed = Convention::default().place(&bytes(&[(4, 4), (8, 8), (4, 4)]), &[], "f").expect("always");
        assert_eq!((placed.params, placed.stack), ([4, 6, 5].map(Place::Reg).to_vec(), 0));
    }

    #[test]
    fn what_does_not_fit_goes_to_the_stack_whole() {
        let placed = Convention::default().place(&bytes(&[(4, 40), (4, 16), (8, 8)]), &[], "f").expect("always");
        assert_eq!((placed.params, placed.stack), (vec![Place::Reg(4), Place::Stack(0), Place::Reg(14)], 16));
        let over = Convention::default().place(&bytes(&[(4, 4)]), &bytes(&[(4, 52)]), "f").expect("always");
        assert_eq!((over.buffer, over.params), (true, vec![Place::Reg(5)]));
    }
}
