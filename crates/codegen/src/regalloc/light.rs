//! Where the registers lie that routines for seldom cases may change ([`Keeps::But`]): behind what lives across their calls, so that nothing has to
//! make room for them. Where registers are short, routines save some themselves: they are called seldom, and what lives across calls would be stored always.

use crate::abi::Keeps;
use crate::mir::liveness::Liveness;
use crate::mir::{Call, CallTarget, Func, Op, Term, Vreg};
use crate::regalloc::Tightness;
use sass::reg::{File, Reg};

/// The registers that a kernel leaves to these routines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first one.
    first: u8,
    /// So many, at most.
    size: u8,
}

impl Place {
    /// Where a routine has its registers that had so many from `old` on.
    fn of(self, n: u8) -> Keeps {
        Keeps::But(self.first, n.min(self.size))
    }
}

/// A call of such a routine.
struct Site {
    /// So many values live across it, and so many of them take no stack as they are constants.
    across: u32,
    constants: u32,
    /// Which routine, and how many registers it takes.
    routine: u32,
    takes: u8,
    /// How many it takes at least: those of arguments, of results and of the return address.
    least: u8,
}

impl Site {
    fn of(c: &Call, [across, constants]: [u32; 2]) -> Option<Site> {
        let Keeps::But(old, takes) = c.keeps else { return None };
        let routine = if let CallTarget::Func(n) = c.target { n } else { u32::MAX };
        let words = c.args.iter().chain(&c.rets).map(|a| a.1.index() as u8 + 1 - old).max().unwrap_or(0);
        Some(Site { across, constants, routine, takes, least: (words.next_multiple_of(2) + 2).min(takes) })
    }
}

/// Chooses the place for a kernel before its registers are assigned, and changes its calls. Where more values live across calls than there are
/// registers besides, the routines get fewer and save what they take beyond these, if that is less to store and load than the values.
pub fn choose(f: &mut Func) -> Option<Place> {
    let sites = sites(f);
    let most = sites.iter().map(|s| s.across).max()?;
    let count = sites.iter().map(|s| s.takes).max()?;
    let least = sites.iter().map(|s| s.least).max()?;
    // R1 is one more.
    let room = |size: u8| f.max_gprs.saturating_sub(u32::from(size)) & !1;
    let first = |size: u8| (most + 1).next_multiple_of(2).min(room(size)).max(4) as u8;
    // Threads that change how many registers they have may have none there, and what products of warpgroups read and write is not to be saved.
    let least = if f.at_entry > 0 || super::assign::has_products(f) { count } else { least };
    let size =
        (least..=count).step_by(2).min_by_key(|&size| words(&sites, size, u32::from(first(size)))).unwrap_or(count);
    let place = Place { first: first(size), size };
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let Op::Call(c) = &mut inst.op
            && let Keeps::But(old, n) = c.keeps
        {
            c.keeps = place.of(n);
            c.args.iter_mut().chain(&mut c.rets).for_each(|a| a.1 = moved(a.1, old, place.first));
        }
    }
    Some(place)
}

/// Finds out how many registers a function takes that is called so and whose number is open: as many as values are alive at once, and what assignment
/// may need beside. No more than a caller can have.
pub fn fit(f: &mut Func, tight: Tightness) {
    let Keeps::But(first, 0) = f.keeps else { return };
    let cfg = f.cfg();
    let live = Liveness::new(f, &cfg);
    let alive = super::pressure(f, &cfg, &live).max[File::Gpr as usize];
    let words = f.live_in.iter().map(|a| a.1.index()).max().map_or(0, |r| (r + 1).saturating_sub(u32::from(first)));
    let n = (alive + tight.slack(alive)).max(words + 2).next_multiple_of(2);
    let n = n.min(f.max_gprs.saturating_sub(u32::from(first)) & !1) as u8;
    let open = u32::from(f.keeps.return_pair());
    f.keeps = Keeps::But(first, n);
    let pair = f.keeps.return_pair();
    let close = |r: &mut Reg| {
        if (open..open + 2).contains(&r.index()) {
            *r = Reg::r(pair + (r.index() - open) as u8);
        }
    };
    f.live_in.iter_mut().for_each(|a| close(&mut a.1));
    for b in &mut f.blocks {
        if let Term::Ret(list) = &mut b.term {
            list.iter_mut().for_each(|a| close(&mut a.1));
        }
    }
}

/// Tells the calls of a kernel what its functions have been found to take, by the functions' numbers.
pub fn tell(f: &mut Func, keeps: &[Keeps]) {
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let Op::Call(c) = &mut inst.op
            && c.keeps.light()
            && let CallTarget::Func(n) = c.target
        {
            c.keeps = keeps.get(n as usize).copied().unwrap_or(c.keeps);
        }
    }
}

/// How many words are stored and loaded where routines have so many registers from `first` on: by the routines, and around their calls.
fn words(sites: &[Site], size: u8, first: u32) -> u32 {
    let mut routines: Vec<(u32, u8)> = sites.iter().map(|s| (s.routine, s.takes)).collect();
    routines.sort_unstable();
    routines.dedup();
    let saved = routines.iter().map(|r| 2 * u32::from(r.1.saturating_sub(size))).sum::<u32>();
    let over = |s: &Site| (s.across + 1).saturating_sub(first + s.constants);
    saved + sites.iter().map(over).max().unwrap_or(0) + sites.iter().map(over).sum::<u32>()
}

/// The calls of such routines, and how many values live across each.
fn sites(f: &Func) -> Vec<Site> {
    let light = |op: &Op| matches!(op, Op::Call(c) if c.keeps.light());
    let with: Vec<usize> = (0..f.blocks.len()).filter(|&b| f.blocks[b].insts.iter().any(|i| light(&i.op))).collect();
    let mut out = Vec::new();
    if with.is_empty() {
        return out;
    }
    let cfg = f.cfg();
    let live = Liveness::new(f, &cfg);
    let mut alive = vec![u32::MAX; f.vregs.len()];
    let mut constants = vec![false; f.vregs.len()];
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if matches!(&inst.op, Op::Sass(s) if super::spill::constant(s)) {
            f.defs(&inst.op, |v| constants[v.index()] = true);
        }
    }
    for b in with {
        let mark = b as u32;
        let block = &f.blocks[b];
        let mut now = [0; 2];
        let enter = |v: Vreg, now: &mut [u32; 2], alive: &mut Vec<u32>| {
            if f.vregs[v.index()] == File::Gpr && alive[v.index()] != mark {
                alive[v.index()] = mark;
                now[0] += 1;
                now[1] += u32::from(constants[v.index()]);
            }
        };
        live.live_out[b].iter().for_each(|&v| enter(v, &mut now, &mut alive));
        f.term_uses(&block.term, |v| enter(v, &mut now, &mut alive));
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|&v| enter(v, &mut now, &mut alive));
        for inst in block.insts.iter().rev() {
            f.defs(&inst.op, |v| {
                if f.vregs[v.index()] == File::Gpr && alive[v.index()] == mark {
                    alive[v.index()] = u32::MAX;
                    now[0] -= 1;
                    now[1] -= u32::from(constants[v.index()]);
                }
            });
            if let Op::Call(c) = &inst.op {
                out.extend(Site::of(c, now));
            }
            f.uses(&inst.op, |v| enter(v, &mut now, &mut alive));
        }
    }
    out
}

/// Puts the registers of a routine where its callers have them. What it takes beyond these lies below.
pub fn place(f: &mut Func, place: Place) {
    let Keeps::But(old, n) = f.keeps else { return };
    // Who gets fewer registers than its arguments, results and return address take is called by nobody: callers say how many these are.
    let mut words = f.live_in.len() as u8;
    for b in &f.blocks {
        if let Term::Ret(list) = &b.term {
            words = words.max(list.len() as u8);
        }
    }
    if words > place.size {
        return;
    }
    f.keeps = place.of(n);
    f.borrows = n - n.min(place.size);
    f.live_in.iter_mut().for_each(|a| a.1 = moved_within(a.1, old, n, place));
    for b in &mut f.blocks {
        if let Term::Ret(list) = &mut b.term {
            list.iter_mut().for_each(|a| a.1 = moved_within(a.1, old, n, place));
        }
    }
}

/// A register of a routine: the return address lies at the end.
fn moved_within(r: Reg, old: u8, n: u8, place: Place) -> Reg {
    let at = r.index() as u8 - old;
    let at = if at + 2 >= n { at - (n - n.min(place.size)) } else { at };
    Reg::r(at + place.first)
}

fn moved(r: Reg, old: u8, first: u8) -> Reg {
    Reg::r((r.index() as u8 - old) + first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;
    use crate::regalloc::{self, Stats};
    use std::fmt::Write;

    /// A kernel with so many registers and `across` values that live across `calls` calls of a routine.
    fn kernel(max: u32, across: usize, calls: usize) -> Func {
        let mut t = format!("func k entry max={max} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n");
        (0..=across).for_each(|i| writeln!(t, "    LDS Rd=%r{i} Ra=RZ Imm={:#x}", 4 * i).unwrap());
        for c in 0..calls {
            let (arg, result) = (if c == 0 { across } else { 100 + c }, 101 + c);
            writeln!(t, "    call light=4+12 f1 (%r{arg}=R4) -> (%r{result}=R4)").unwrap();
        }
        (0..across).for_each(|i| writeln!(t, "    STS Ra=RZ Rb=%r{i} Imm={:#x}", 4 * i).unwrap());
        writeln!(t, "    STS Ra=RZ Rb=%r{}", 100 + calls).unwrap();
        text::parse(&(t + "    exit\n}\n")).unwrap().remove(0)
    }

    /// A routine that has ten values alive at once.
    fn routine(max: u32) -> Func {
        let mut t = format!("func $seldom0 device max={max} outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n");
        (1..9).for_each(|i| writeln!(t, "    LDS Rd=%r{i} Ra=%r0 Imm={:#x}", 4 * i).unwrap());
        (1..9).for_each(|i| writeln!(t, "    STS Ra=%r0 Rb=%r{i} Imm={:#x}", 64 + 4 * i).unwrap());
        let mut f = text::parse(&(t + "    exit\n}\n")).unwrap().remove(0);
        let address = f.new_vreg(File::Gpr);
        f.keeps = Keeps::But(4, 12);
        f.live_in = vec![(Vreg(0), Reg::r(4)), (address, Reg::r(14))];
        f.blocks[0].term = Term::Ret(vec![(Vreg(0), Reg::r(4)), (address, Reg::r(14))]);
        f
    }

    fn allocated(mut f: Func) -> (Func, Stats) {
        let stats = regalloc::run(&mut f, true, Tightness::Free).unwrap();
        (f, stats)
    }

    #[test]
    fn where_registers_do_nothing_is_saved() {
        let mut f = kernel(64, 20, 3);
        let place = choose(&mut f).unwrap();
        assert_eq!(place, Place { first: 22, size: 12 });
        let mut r = routine(64);
        super::place(&mut r, place);
        assert_eq!((r.keeps, r.borrows), (Keeps::But(22, 12), 0));
        assert_eq!((allocated(f).1.spilled, allocated(r).1), (0, Stats::default()));
    }

    /// Of 32 registers 26 live across four calls: the routine saves what it takes of them, and no call puts anything away.
    #[test]
    fn routines_save_what_callers_would_put_away() {
        let mut f = kernel(32, 26, 4);
        let place = choose(&mut f).unwrap();
        assert_eq!(place, Place { first: 28, size: 4 });
        let mut r = routine(32);
        super::place(&mut r, place);
        assert_eq!((r.keeps, r.borrows), (Keeps::But(28, 4), 8));
        assert_eq!(r.live_in[1].1, Reg::r(30));
        assert_eq!(allocated(f).1.spilled, 0);
        let (r, stats) = allocated(r);
        assert!(stats.spill_stores > 0 && stats.spill_stores <= 32, "{stats:?}");
        assert_eq!((stats.spill_stores, stats.spilled), (stats.spill_loads, 0));
        assert_eq!(r.frame.size, stats.spill_stores.next_multiple_of(8));
    }

    /// Ten values with their return address: two registers hold that, the last ones, and there is one to spare.
    #[test]
    fn functions_take_what_is_alive_in_them() {
        let mut r = routine(64);
        r.keeps = Keeps::But(4, 0);
        r.live_in[1].1 = Reg::r(r.keeps.return_pair());
        r.blocks[0].term = Term::Ret(vec![(Vreg(0), Reg::r(4)), (r.live_in[1].0, r.live_in[1].1)]);
        fit(&mut r, Tightness::Tight);
        assert_eq!((r.keeps, r.live_in[1].1), (Keeps::But(4, 12), Reg::r(14)));
        let mut f = kernel(64, 20, 3);
        for inst in &mut f.blocks[0].insts {
            if let Op::Call(c) = &mut inst.op {
                c.keeps = Keeps::But(4, 0);
            }
        }
        tell(&mut f, &[Keeps::Usual, r.keeps]);
        assert_eq!(choose(&mut f), Some(Place { first: 22, size: 12 }));
        assert_eq!(allocated(r).1, Stats::default());
    }

    /// A routine that nobody calls stays as it is where others leave it no room.
    #[test]
    fn who_is_not_called_is_not_placed() {
        let mut r = routine(64);
        r.live_in.insert(1, (Vreg(1), Reg::r(5)));
        place(&mut r, Place { first: 26, size: 2 });
        assert_eq!((r.keeps, r.borrows), (Keeps::But(4, 12), 0));
        place(&mut r, Place { first: 26, size: 4 });
        assert_eq!((r.keeps, r.borrows), (Keeps::But(26, 4), 8));
    }

    /// One value too many at one call is less than what the routine would save.
    #[test]
    fn few_values_at_few_calls_are_put_away() {
        let mut f = kernel(32, 20, 1);
        assert_eq!(choose(&mut f), Some(Place { first: 20, size: 12 }));
        assert_eq!(allocated(f).1.spilled, 1);
    }
}
