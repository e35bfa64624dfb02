//! The registers of asynchronous products: nothing touches them while the tensor cores are at work.
//!
//! Needs assigned registers, before the last scheduling; nothing is moved across these products afterwards. A product
//! reads and writes its sums, and reads A where it is in registers, some time after it was issued: until a wait for its
//! group. Whatever would read the sums or overwrite any of these registers before (a program that does not wait, a move
//! that register assignment made) gets a wait before it, as the vendor's compiler serialises such code. The next product
//! on the same sums needs none: the machine does them in order.
//!
//! A product sees what was written to its registers before the last `WARPGROUP.ARRIVE`: where there is none in between, one
//! is put.
//!
//! It is also here that the last product of a group ends it, where selection left a product of nothing.
//!
//! Where the program asked for no wait, the user is told why there is one ([`losses`]).

pub mod losses;

use self::losses::{Awaited, Cause, Loss};
use super::{reads, writes};
use crate::isel::warpgroup::{arrive, end_of_group, wait};
use crate::mir::operands::sass_defs;
use crate::mir::{Block, Call, CallTarget, Func, Inst, Op, Term};
use sass::form::{FormId, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Value};
use sass::latency::Class;
use sass::reg::{File, Reg};
use std::collections::BTreeSet;

/// Branches that may come at the end of a block.
const SPARE: usize = 2;

/// Not in flight.
const DONE: u8 = 255;

/// True for products of warpgroups and what orders them: nothing is moved across them.
pub fn stays(s: &Sass) -> bool {
    let form = s.form();
    form.class == Class::Gmma || !form.class.is_plain() && form.mnemonic.starts_with("WARPGROUP")
}

fn product(s: &Sass) -> bool {
    s.form().class == Class::Gmma && s.form().mnemonic.ends_with("GMMA")
}

/// The form that also ends the group.
fn closed(form: FormId) -> Option<FormId> {
    Some(match form {
        F::HGMMA_RUR_OPEN => F::HGMMA_RUR,
        F::HGMMA_RRUR_OPEN => F::HGMMA_RRUR,
        F::QGMMA_RUR_OPEN => F::QGMMA_RUR,
        F::QGMMA_XRRURP_OPEN => F::QGMMA_XRRURP,
        F::QGMMA_XRRURP_2_OPEN => F::QGMMA_XRRURP_2,
        F::IGMMA_RUR_OPEN => F::IGMMA_RUR,
        F::IGMMA_RRUR_OPEN => F::IGMMA_RRUR,
        F::BGMMA_RUR_OPEN => F::BGMMA_RUR,
        F::BGMMA_RRUR_OPEN => F::BGMMA_RRUR,
        F::HGMMA_RURRI_OPEN => F::HGMMA_RURRI,
        F::HGMMA_RRURRI_OPEN => F::HGMMA_RRURRI,
        F::QGMMA_RURR_OPEN => F::QGMMA_RURR,
        F::QGMMA_XRRURPR_OPEN => F::QGMMA_XRRURPR,
        F::QGMMA_XRRURPR_2_OPEN => F::QGMMA_XRRURPR_2,
        F::IGMMA_RURR_OPEN => F::IGMMA_RURR,
        F::IGMMA_XRRURPR_OPEN => F::IGMMA_XRRURPR,
        _ => return None,
    })
}

fn register(s: &Sass, slot: S) -> Option<(usize, usize)> {
    let at = s.slot(slot)?;
    match s.operands[at].value {
        Value::Reg(r) if !r.is_const() => Some((r.index() as usize, s.slot_width(at) as usize)),
        _ => None,
    }
}

/// What is in flight: for each register how many groups were ended since (0: its group goes on), as sums and as A, and
/// for sums where they begin.
#[derive(Clone, PartialEq)]
struct Flight {
    sums: [u8; 256],
    first: [u16; 256],
    left: [u8; 256],
    /// Written by something else since the last `WARPGROUP.ARRIVE`, which lets products see what registers hold.
    fresh: [bool; 256],
    /// The program waits behind some of these products, on some path.
    awaited: bool,
    /// Something is in flight.
    any: bool,
}

impl Flight {
    fn new() -> Flight {
        Flight {
            sums: [DONE; 256],
            first: [0; 256],
            left: [DONE; 256],
            fresh: [false; 256],
            awaited: false,
            any: false,
        }
    }

    /// Finds out whether anything is in flight.
    fn look(&mut self) {
        self.any = self.sums.iter().chain(&self.left).any(|&a| a != DONE);
    }

    /// Something in flight reads or writes this register.
    fn flies(&self, register: usize) -> bool {
        self.sums[register] != DONE || self.left[register] != DONE
    }

    fn open(&self) -> bool {
        self.sums.iter().chain(&self.left).any(|&a| a == 0)
    }

    fn join(&mut self, o: &Flight) {
        for r in 0..256 {
            self.first[r] = match (self.sums[r], o.sums[r]) {
                (_, DONE) => self.first[r],
                (DONE, _) => o.first[r],
                _ if self.first[r] == o.first[r] => self.first[r],
                _ => u16::MAX,
            };
            self.sums[r] = self.sums[r].min(o.sums[r]);
            self.left[r] = self.left[r].min(o.left[r]);
            self.fresh[r] |= o.fresh[r];
        }
        self.awaited |= o.awaited;
        self.any |= o.any;
    }

    fn ages(&mut self) -> impl Iterator<Item = &mut u8> {
        self.sums.iter_mut().chain(&mut self.left).filter(|a| **a != DONE)
    }

    /// Why the instruction must wait first, if it must.
    fn conflict(&self, inst: &Inst, linked: bool) -> Option<Cause> {
        if !self.any {
            return None;
        }
        let s = match &inst.op {
            Op::Sass(s) => s,
            Op::Call(c) if c.keeps.light() => return changed(c).any(|r| self.flies(r)).then_some(Cause::Registers),
            Op::Call(c) if !c.ends => {
                return Some(Cause::Call { linked: linked && matches!(c.target, CallTarget::Symbol(_)) });
            }
            _ => return Some(Cause::Registers),
        };
        if !s.form().class.is_plain() && s.form().mnemonic == "EXIT" {
            return Some(Cause::Unawaited);
        }
        let (d, c) = if product(s) { (register(s, S::Rd), register(s, S::Rc)) } else { (None, None) };
        let same = d.is_some() && (c.is_none() || c == d);
        let (mut read, mut written) = (false, false);
        // Its own sums, if they are exactly those of products before.
        let own = |u: usize| {
            same && d.is_some_and(|(base, n)| (base..base + n).contains(&u) && self.first[u] == key(base, n))
        };
        reads(s, |u, _| read |= u < 256 && self.sums[u] != DONE && !own(u));
        writes(s, |u, _| written |= u < 256 && (self.sums[u] != DONE && !own(u) || self.left[u] != DONE));
        match (read, written) {
            (false, false) => None,
            // A product whose registers lie across those of another, and what register assignment has put there.
            _ if product(s) || matches!(s.form().mnemonic, "MOV" | "STL" | "LDL") => Some(Cause::Registers),
            (false, true) => Some(Cause::Registers),
            _ if !self.awaited => Some(Cause::Unawaited),
            (true, _) => Some(Cause::Read),
        }
    }

    /// True for a product that needs `WARPGROUP.ARRIVE` before it.
    fn unseen(&self, op: &Op) -> bool {
        let Op::Sass(s) = op else { return false };
        if s.form().class != Class::Gmma {
            return false;
        }
        let any = |slot: S| register(s, slot).is_some_and(|(base, n)| self.fresh[base..base + n].contains(&true));
        product(s) && [S::Ra, S::Rc, S::Rd, S::RegAt40].into_iter().any(any)
    }

    /// After the instruction; a product behind which the program waits is `awaited`.
    fn step(&mut self, op: &Op, awaited: bool) {
        let s = match op {
            Op::Sass(s) => s,
            Op::Call(c) if c.keeps.light() => return changed(c).for_each(|r| self.fresh[r] = true),
            _ => {
                self.fresh = [true; 256];
                return;
            }
        };
        if s.form == F::WARPGROUP {
            self.fresh = [false; 256];
        }
        let product = product(s);
        if !product {
            written(s, &mut self.fresh);
        }
        if s.form == F::WARPGROUP_I
            && let Some(Value::Imm(left)) = s.get(S::ImmAt72).map(|o| o.value)
        {
            self.ages().filter(|a| **a as i64 > left.get()).for_each(|a| *a = DONE);
            self.look();
        }
        if !product {
            return;
        }
        self.awaited |= awaited;
        if let Some((base, n)) = register(s, S::Rd) {
            self.sums[base..base + n].fill(0);
            self.first[base..base + n].fill(key(base, n));
        }
        // What it adds to is read, too, where that is not what it writes.
        let added = register(s, S::Rc).filter(|c| register(s, S::Rd).is_some_and(|d| d != *c));
        for (base, n) in [S::Ra, S::RegAt40].into_iter().filter_map(|slot| register(s, slot)).chain(added) {
            self.left[base..base + n].fill(0);
        }
        self.look();
        if closed(s.form).is_none() {
            self.ages().for_each(|a| *a = (*a + 1).min(DONE - 1));
        }
    }

    /// After a block in which no product is, if nothing is in flight.
    fn passes(&mut self, calm: &Option<Written>) -> bool {
        let Some(written) = calm.as_ref().filter(|_| !self.any) else { return false };
        self.fresh.iter_mut().zip(written.iter()).for_each(|(f, w)| *f |= w);
        true
    }

    /// Puts a wait for everything.
    fn wait(&mut self, loc: u32, out: &mut Vec<Inst>) {
        if self.open() {
            out.push(Inst::new(Op::Sass(end_of_group()), loc));
        }
        out.push(Inst::new(Op::Sass(wait(0)), loc));
        self.clear();
    }

    /// After a wait for everything.
    fn clear(&mut self) {
        *self = Flight { fresh: self.fresh, ..Flight::new() };
    }
}

fn key(base: usize, n: usize) -> u16 {
    (base * 256 + n) as u16
}

/// By general register.
type Written = Box<[bool; 256]>;

/// What a block writes that has no products and nothing that orders them.
fn calm(insts: &[Inst]) -> Option<Written> {
    let mut written = Box::new([false; 256]);
    for inst in insts {
        match &inst.op {
            Op::Sass(s) if stays(s) => return None,
            Op::Sass(s) => self::written(s, &mut written),
            Op::Call(c) if c.keeps.light() => changed(c).for_each(|r| written[r] = true),
            _ => written.fill(true),
        }
    }
    Some(written)
}

/// The registers that a routine changes.
fn changed(c: &Call) -> impl Iterator<Item = usize> {
    (0..253).filter(|&r| !c.keeps.keeps(r)).map(|r| r as usize)
}

/// Notes the general registers that an instruction writes.
fn written(s: &Sass, to: &mut [bool; 256]) {
    sass_defs(s, |p| {
        if p.reg.file() == File::Gpr && !p.reg.is_const() {
            let first = p.reg.index() as usize;
            match p.width {
                1 => to[first] = true,
                n => to[first..first + n as usize].fill(true),
            }
        }
    });
}

/// Ends groups and puts waits where they are missing; gives why, in the order of the blocks.
pub fn run(f: &mut Func) -> Vec<Loss> {
    let any = f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Sass(s) if product(s)));
    if !any {
        return Vec::new();
    }
    f.blocks.iter_mut().for_each(|b| end_groups(&mut b.insts));
    let cfg = f.cfg();
    let awaited = Awaited::new(f, &cfg);
    let calm: Vec<Option<Written>> = f.blocks.iter().map(|b| calm(&b.insts)).collect();
    let mut losses = Vec::new();
    let mut entry: Vec<Option<Flight>> = vec![None; f.blocks.len()];
    entry[0] = Some(Flight::new());
    // By place in reverse postorder: a block waits for all ways into it but those back.
    let mut work = BTreeSet::from([0u32]);
    while let Some(at) = work.pop_first() {
        let b = cfg.rpo[at as usize];
        let Some(mut now) = entry[b as usize].clone() else { continue };
        let nothing = now.passes(&calm[b as usize]);
        for (at, inst) in f.blocks[b as usize].insts.iter().enumerate().filter(|_| !nothing) {
            if now.conflict(inst, f.linkable).is_some() {
                now.clear();
            }
            if now.unseen(&inst.op) {
                now.fresh = [false; 256];
            }
            now.step(&inst.op, awaited.behind(b as usize, at));
        }
        for &s in &cfg.succs[b as usize] {
            let joined = match &entry[s as usize] {
                None => now.clone(),
                Some(old) => {
                    let mut j = old.clone();
                    j.join(&now);
                    j
                }
            };
            if entry[s as usize].as_ref() != Some(&joined) {
                entry[s as usize] = Some(joined);
                work.insert(cfg.rpo_index[s as usize]);
            }
        }
    }
    for (b, start) in entry.into_iter().enumerate() {
        let Some(mut now) = start else { continue };
        if !now.any && calm[b].is_some() {
            continue;
        }
        // What is put in, and before which instructions.
        let (mut new, mut places) = (Vec::new(), Vec::new());
        let block = &f.blocks[b];
        for (at, inst) in block.insts.iter().enumerate() {
            if let Some(cause) = now.conflict(inst, f.linkable) {
                losses.push(Loss { cause, loc: place(block, at) });
                now.wait(inst.loc, &mut new);
            }
            if now.unseen(&inst.op) {
                new.push(Inst::new(Op::Sass(arrive()), inst.loc));
                now.fresh = [false; 256];
            }
            places.resize(new.len(), at);
            now.step(&inst.op, awaited.behind(b, at));
        }
        // What products write to may be another's when the thread or the function has ended.
        if now.any && matches!(block.term, Term::Exit | Term::Ret(_)) {
            let loc = place(block, block.insts.len());
            losses.push(Loss { cause: Cause::Unawaited, loc });
            now.wait(loc, &mut new);
            places.resize(new.len(), block.insts.len());
        }
        if !new.is_empty() {
            let insts = &mut f.blocks[b].insts;
            let mut out = Vec::with_capacity(insts.len() + new.len() + SPARE);
            let mut new = new.into_iter().zip(places).peekable();
            for (at, inst) in insts.drain(..).enumerate() {
                while let Some((put, _)) = new.next_if(|n| n.1 <= at) {
                    out.push(put);
                }
                out.push(inst);
            }
            out.extend(new.map(|n| n.0));
            *insts = out;
        }
        end_groups(&mut f.blocks[b].insts);
    }
    losses
}

/// Lets the last product of a group end it, instead of one of nothing.
fn end_groups(insts: &mut Vec<Inst>) {
    let mut last: Option<usize> = None;
    let mut drop = Vec::new();
    for i in 0..insts.len() {
        let Op::Sass(s) = &insts[i].op else { continue };
        let nothing = s.form == F::HGMMA_RUR && s.get(S::Rd).and_then(|o| o.as_reg()) == Some(Reg::RZ);
        if nothing {
            if let Some(p) = last.take()
                && let Op::Sass(before) = &mut insts[p].op
                && let Some(form) = closed(before.form)
            {
                before.form = form;
                drop.push(i);
            }
        } else if product(s) {
            last = Some(i);
        } else if stays(s) && s.form == F::WARPGROUP_I {
            last = None;
        }
    }
    if !drop.is_empty() {
        let mut n = 0;
        insts.retain(|_| {
            n += 1;
            drop.binary_search(&(n - 1)).is_err()
        });
    }
}

/// Where in the program instruction `at` of a block is, or what stands before it: what register assignment puts in is nowhere.
fn place(block: &Block, at: usize) -> u32 {
    let known = |i: &Inst| Some(i.loc).filter(|&l| l != u32::MAX);
    let (before, behind) = block.insts.split_at(at.min(block.insts.len()));
    let here = behind.first().and_then(known).or_else(|| before.iter().rev().find_map(known));
    here.or_else(|| behind.iter().find_map(known)).unwrap_or(block.loc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// A move that register assignment has put in is said to be where the product before it is, which by then ends its group itself.
    #[test]
    fn what_has_no_place_is_where_the_instruction_before_it_is() {
        let text = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    WARPGROUP.M79=1\n    \
                    HGMMA_RUR_OPEN.M53=7.M75=1 Rd=R24 URa=UR8 Rc=R24 Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    MOV_R Rd=R25 Rb=RZ\n    \
                    WARPGROUP_I\n    exit\n}\n";
        let mut f = text::parse(text).unwrap().remove(0);
        for (i, loc) in [(0, 10), (1, 20), (2, 30), (4, 50)] {
            f.blocks[0].insts[i].loc = loc;
        }
        let locs: Vec<u32> = [0, 3, 5].iter().map(|&at| place(&f.blocks[0], at)).collect();
        assert_eq!(locs, [10, 30, 50]);
        assert_eq!(run(&mut f).iter().map(|l| l.loc).collect::<Vec<_>>(), [20]);
    }

    /// A product of 32 sums, and something that writes a register before the program waits.
    fn losses(to: &str, from: &str, written: &str) -> usize {
        losses_of(to, from, &format!("MOV_R Rd={written} Rb=RZ"))
    }

    fn losses_of(to: &str, from: &str, beside: &str) -> usize {
        let text = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    WARPGROUP.M79=1\n    \
             HGMMA_RUR_OPEN.M53=7.M75=1 Rd={to} URa=UR8 Rc={from} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    {beside}\n    \
             WARPGROUP_I\n    exit\n}}\n"
        );
        let mut f = text::parse(&text).unwrap().remove(0);
        let found = run(&mut f).len();
        let waits =
            f.blocks[0].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == F::WARPGROUP_I)).count();
        assert_eq!(waits, 1 + found);
        found
    }

    #[test]
    fn what_a_product_adds_to_is_read_until_the_wait() {
        assert_eq!(losses("R24", "R64", "R65"), 1);
        assert_eq!(losses("R24", "R64", "R25"), 1);
        assert_eq!(losses("R24", "R64", "R9"), 0);
        assert_eq!(losses("R24", "R24", "R9"), 0);
    }

    /// A routine that changes no register of a product is called while that is under way.
    #[test]
    fn calls_of_routines_wait_for_what_they_change() {
        let call = |first: u32| losses_of("R24", "R24", &format!("call light={first}+12 f1 () -> ()"));
        assert_eq!((call(4), call(56), call(16), call(40)), (0, 0, 1, 1));
        assert_eq!(losses_of("R24", "R24", "call f1 () -> ()"), 1);
    }
}
