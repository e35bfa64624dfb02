//! Asynchronous products hold registers until they are waited for: values that they read live so long.
//!
//! A product of a warpgroup reads A some time after it was issued. What is put into one of its registers before a wait
//! for its group waits itself ([`super::warpgroup`]), and with it everything behind. So behind each wait of the program stands what lives up to there
//! ([`Op::Hold`]): scheduling and register assignment then know how many registers there are meanwhile.
//!
//! Where a loop waits for the product of the iteration before, or ways meet of which some have a product under way, a parameter of the block
//! stands for what that product reads. And where the loop makes
//! A anew before that wait, A is copied when the product is issued, behind the wait: both need registers, and moves cost less than waiting.
//!
//! Runs on SSA form, before instructions are scheduled; needs nothing, and adds no wait.

use crate::cfg::{Cfg, DomTree};
use crate::isel::warpgroup::{end_of_group, left_by};
use crate::mir::{Func, Inst, Op, Vreg};
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Value};
use sass::latency::Class;
use sass::reg::File;
use smallvec::SmallVec;

/// No function has more values under way at once: a wait is missing then, and nothing is done.
const MOST: usize = 512;

/// Values of products under way, in ascending order, with how many groups were ended since: 0, its group goes on. Here those that products read.
pub type Flight = Vec<(Vreg, u8)>;

/// True if a product reads registers besides its sums.
pub fn wanted(f: &Func) -> bool {
    let reads = |s: &Sass| {
        let mut any = false;
        each_read(f, s, |_| any = true);
        any
    };
    f.blocks.iter().flat_map(|b| &b.insts).any(|i| matches!(&i.op, Op::Sass(s) if product(s) && reads(s)))
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !wanted(f) {
        return;
    }
    let cfg = f.cfg();
    let Some(mut analysis) = Analysis::new(f, &cfg).filter(Analysis::any) else { return };
    if part(f, &cfg, &analysis) {
        let Some(parted) = Analysis::new(f, &cfg) else { return };
        analysis = parted;
    }
    hold(f, &cfg, &analysis);
}

fn product(s: &Sass) -> bool {
    s.form().class == Class::Gmma && s.form().mnemonic.ends_with("GMMA")
}

/// Calls `to` with each general register that a product reads besides its sums.
fn each_read(f: &Func, s: &Sass, mut to: impl FnMut(Vreg)) {
    for at in [S::Ra, S::RegAt40].into_iter().filter_map(|slot| s.slot(slot)) {
        if let Value::Reg(r) = s.operands[at].value
            && r.is_virtual()
            && r.file() == File::Gpr
        {
            f.each_scalar(r, &mut to);
        }
    }
}

/// Adds a value to those under way.
pub fn note(now: &mut Flight, v: Vreg, age: u8) {
    match now.binary_search_by_key(&v, |x| x.0) {
        Ok(at) => now[at].1 = now[at].1.min(age),
        Err(at) => now.insert(at, (v, age)),
    }
}

/// True if a value is under way.
pub fn flies(now: &Flight, v: Vreg) -> bool {
    now.binary_search_by_key(&v, |x| x.0).is_ok()
}

/// What is under way where.
struct Analysis {
    dom: DomTree,
    /// Where each value is made: block and place in it, from 1; 0 for parameters.
    made: Vec<(u32, u32)>,
    entry: Vec<Flight>,
    exit: Vec<Flight>,
    /// Values that are made again while a product still reads what they were.
    anew: Vec<bool>,
    /// Anything is ever under way.
    flew: bool,
}

impl Analysis {
    /// Nothing where too much is under way.
    fn new(f: &Func, cfg: &Cfg) -> Option<Analysis> {
        let n = f.vregs.len();
        let mut made = vec![(0, 0); n];
        for (b, block) in (0..).zip(&f.blocks) {
            block.params.iter().for_each(|p| made[p.index()] = (b, 0));
            for (at, inst) in (1..).zip(&block.insts) {
                f.defs(&inst.op, |v| made[v.index()] = (b, at));
            }
        }
        let blocks = f.blocks.len();
        let mut a = Analysis {
            dom: cfg.dominators(),
            made,
            entry: vec![Flight::new(); blocks],
            exit: vec![Flight::new(); blocks],
            anew: vec![false; n],
            flew: false,
        };
        // What is under way only grows from round to round.
        let mut again = true;
        while again {
            again = false;
            for &b in &cfg.rpo {
                let mut now = Flight::new();
                for &p in &cfg.preds[b as usize] {
                    a.exit[p as usize].iter().for_each(|&(v, age)| note(&mut now, v, age));
                }
                a.entry[b as usize].clone_from(&now);
                for inst in &f.blocks[b as usize].insts {
                    a.step(f, inst, &mut now);
                    a.flew |= !now.is_empty();
                    if now.len() > MOST {
                        return None;
                    }
                }
                again |= now != a.exit[b as usize];
                a.exit[b as usize] = now;
            }
        }
        for &b in &cfg.rpo {
            let mut now = a.entry[b as usize].clone();
            for p in &f.blocks[b as usize].params {
                a.anew[p.index()] |= flies(&now, *p);
            }
            for inst in &f.blocks[b as usize].insts {
                f.defs(&inst.op, |v| a.anew[v.index()] |= flies(&now, v));
                a.step(f, inst, &mut now);
            }
        }
        Some(a)
    }

    /// True if anything is ever under way.
    fn any(&self) -> bool {
        self.flew
    }

    /// Follows an instruction; gives what its wait was for.
    fn step(&self, f: &Func, inst: &Inst, now: &mut Flight) -> Flight {
        let Op::Sass(s) = &inst.op else { return Flight::new() };
        if let Some(left) = left_by(s) {
            let (done, stay) = now.drain(..).partition(|x| i64::from(x.1) > left);
            *now = stay;
            return done;
        }
        if s.form == F::HGMMA_RUR && *s == end_of_group() {
            now.iter_mut().for_each(|x| x.1 = x.1.saturating_add(1));
        } else if product(s) {
            each_read(f, s, |v| note(now, v, 0));
        }
        Flight::new()
    }

    /// True if a value is there at a place: instruction `at` of block `b`, from 1.
    fn there(&self, v: Vreg, b: u32, at: u32) -> bool {
        let (block, made) = self.made[v.index()];
        if block == b { made < at } else { self.dom.dominates(block, b) }
    }
}

/// Copies what products read and is made again before these are done, where that is after a wait for them. True if there is such.
fn part(f: &mut Func, cfg: &Cfg, a: &Analysis) -> bool {
    if !a.anew.contains(&true) {
        return false;
    }
    let mut any = false;
    for &b in &cfg.rpo {
        let mut now = a.entry[b as usize].clone();
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        let mut out: Vec<Inst> = Vec::with_capacity(insts.len());
        // Where products last began to see registers, and what was under way there.
        let mut arrived: Option<(usize, u32, Flight)> = None;
        let mut copies: FxHashMap<Vreg, Vreg> = FxHashMap::default();
        for (at, mut inst) in (1..).zip(insts) {
            if let Op::Sass(s) = &mut inst.op {
                if s.form == F::WARPGROUP {
                    arrived = Some((out.len(), at, now.clone()));
                } else if left_by(s).is_some() {
                    arrived = None;
                    copies.clear();
                } else if product(s) {
                    let (place, number, before) = match &arrived {
                        Some((place, number, before)) => (*place, *number, before),
                        None => (out.len(), at, &now),
                    };
                    let mut wanted: SmallVec<[Vreg; 8]> = SmallVec::new();
                    each_read(f, s, |v| {
                        let parts = a.anew[v.index()] && !flies(before, v) && a.there(v, b, number);
                        if parts && !copies.contains_key(&v) && !wanted.contains(&v) {
                            wanted.push(v);
                        }
                    });
                    if !wanted.is_empty() {
                        any = true;
                        let new: SmallVec<[Vreg; 8]> = wanted.iter().map(|_| f.new_vreg(File::Gpr)).collect();
                        let pairs = new.iter().zip(&wanted).map(|(&d, &s)| (f.reg(d), f.reg(s))).collect();
                        copies.extend(wanted.into_iter().zip(new));
                        out.insert(place, Inst::new(Op::Copy(pairs), inst.loc));
                        arrived.iter_mut().for_each(|x| x.0 += 1);
                    }
                    if !copies.is_empty() {
                        let mut slots: SmallVec<[usize; 2]> = SmallVec::new();
                        slots.extend([S::Ra, S::RegAt40].into_iter().filter_map(|slot| s.slot(slot)));
                        for slot in slots {
                            let Value::Reg(r) = s.operands[slot].value else { continue };
                            if !r.is_virtual() || r.file() != File::Gpr {
                                continue;
                            }
                            let list = f.scalars(r);
                            let new: SmallVec<[Vreg; 4]> =
                                list.iter().map(|v| copies.get(v).copied().unwrap_or(*v)).collect();
                            if new != list {
                                s.operands[slot].value = Value::Reg(f.vector(&new));
                            }
                        }
                    }
                }
            }
            // As before: what is copied has the number of the original as long as the block goes on.
            a.step(f, &inst, &mut now);
            out.push(inst);
        }
        f.blocks[b as usize].insts = out;
    }
    any
}

/// Puts what lives up to a wait behind it, with parameters of blocks where what is under way depends on where control comes from.
fn hold(f: &mut Func, cfg: &Cfg, a: &Analysis) {
    let mut names = Names { cfg, a, of: FxHashMap::default(), params: Vec::new() };
    for &b in &cfg.rpo {
        let mut now = a.entry[b as usize].clone();
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        let mut out: Vec<Inst> = Vec::with_capacity(insts.len());
        for (at, inst) in (1..).zip(insts) {
            let done = a.step(f, &inst, &mut now);
            let loc = inst.loc;
            out.push(inst);
            let name = |(v, _): (Vreg, u8)| if a.there(v, b, at) { Some(v) } else { names.at_entry(f, b, v) };
            let ends: Vec<Vreg> = done.into_iter().filter_map(name).collect();
            if !ends.is_empty() {
                out.push(Inst::new(Op::Hold { ends, begins: Vec::new() }, loc));
            }
        }
        f.blocks[b as usize].insts = out;
    }
    let mut n = 0;
    while let Some(&(b, v, param)) = names.params.get(n) {
        n += 1;
        f.blocks[b as usize].params.push(param);
        for &p in &cfg.preds[b as usize] {
            let arg = names.at_exit(f, p, v).unwrap_or_else(|| begin(f, p));
            let edges = f.blocks[p as usize].term.edges_mut().into_iter();
            edges.filter(|e| e.block.0 == b).for_each(|e| e.args.push(arg));
        }
    }
}

/// A value that begins at the end of a block.
fn begin(f: &mut Func, b: u32) -> Vreg {
    let v = f.new_vreg(File::Gpr);
    let insts = &mut f.blocks[b as usize].insts;
    if let Some(Inst { op: Op::Hold { begins, .. }, .. }) = insts.last_mut() {
        begins.push(v);
    } else {
        insts.push(Inst::new(Op::Hold { ends: Vec::new(), begins: vec![v] }, u32::MAX));
    }
    v
}

/// By which name what is under way is known where.
struct Names<'a> {
    cfg: &'a Cfg,
    a: &'a Analysis,
    /// By block and value: the parameter, or what stands for it; nothing where it has no name.
    of: FxHashMap<(u32, Vreg), Option<Vreg>>,
    /// Parameters in the order in which they were made, with their blocks and what they stand for.
    params: Vec<(u32, Vreg, Vreg)>,
}

impl Names<'_> {
    /// The name at the beginning of a block where the value is not there itself.
    fn at_entry(&mut self, f: &mut Func, b: u32, v: Vreg) -> Option<Vreg> {
        // Up to where ways meet.
        let mut b = b;
        loop {
            if self.a.anew[v.index()] || !flies(&self.a.entry[b as usize], v) {
                return None;
            }
            match self.cfg.preds[b as usize][..] {
                [p] if self.a.there(v, p, u32::MAX) => return Some(v),
                [p] => b = p,
                _ => break,
            }
        }
        if let Some(&known) = self.of.get(&(b, v)) {
            return known;
        }
        let edges = |p: &u32| f.blocks[*p as usize].term.edges().iter().any(|e| e.block.0 == b);
        let may = b != 0 && self.params.len() < MOST && self.cfg.preds[b as usize].iter().all(edges);
        let name = may.then(|| f.new_vreg(File::Gpr));
        self.of.insert((b, v), name);
        self.params.extend(name.map(|param| (b, v, param)));
        name
    }

    /// The name at the end of a block.
    fn at_exit(&mut self, f: &mut Func, b: u32, v: Vreg) -> Option<Vreg> {
        if !flies(&self.a.exit[b as usize], v) {
            None
        } else if self.a.there(v, b, u32::MAX) {
            Some(v)
        } else {
            self.at_entry(f, b, v)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> String {
        let uniform: String = (110..114).map(|k| format!("    UMOV_I Rd=%ur{k} Mask=0\n")).collect();
        let head = format!("func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{uniform}");
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        verify::ssa(&f).unwrap();
        run(&mut f);
        verify::ssa(&f).unwrap();
        // As text that can be read again.
        let printed = text::print(&f);
        assert_eq!(text::print(&text::parse(&printed).unwrap()[0]), printed);
        printed
    }

    /// A product of four registers from `a` on, into four from `to` on.
    fn product(a: u32, to: u32) -> String {
        let list = |from: u32| (from..from + 4).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(",");
        format!(
            "    WARPGROUP\n    HGMMA_RRUR_OPEN.M75=1 Rd={{{}}} Ra={{{}}} UR={{%ur110,%ur111,%ur112,%ur113}} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n",
            list(to),
            list(a)
        )
    }

    fn made(from: u32) -> String {
        (from..from + 4).map(|k| format!("    MOV_I Rd=%r{k} Rb={k}\n")).collect()
    }

    /// Lines that begin with a word.
    fn lines<'a>(t: &'a str, word: &str) -> Vec<&'a str> {
        t.lines().map(str::trim).filter(|l| l.starts_with(word)).collect()
    }

    #[test]
    fn what_is_read_lives_until_its_group_is_waited_for() {
        let t = after(&format!(
            "{}{}{}{}    WARPGROUP_I ImmAt72=0x1\n    WARPGROUP_I\n    exit\n",
            made(10),
            product(10, 20),
            made(30),
            product(30, 40)
        ));
        assert_eq!(lines(&t, "hold"), ["hold %r10,%r11,%r12,%r13 ->", "hold %r30,%r31,%r32,%r33 ->"]);
        let t = after(&format!("{}{}    exit\n", made(10), product(10, 20)));
        assert!(lines(&t, "hold").is_empty());
    }

    /// A loop ends with a product and waits for it in its next iteration, where it makes A anew behind (or before) that wait.
    fn around(before: bool) -> String {
        let (first, second) = if before { (made(10), String::new()) } else { (String::new(), made(10)) };
        after(&format!(
            "    MOV_R Rd=%r1\n    br blk1(%r1)\nblk1(%r2): depth=1\n{first}    WARPGROUP_I\n{second}{}    IADD3_RIR Rd=%r3 Ra=%r2 Rb=1\n\
             \x20   ISETP_RI.Cmp=1 Pu=%p4 Ra=%r3 Rb=9\n    brif %p4, blk2(), blk3()\nblk2(): depth=1\n    br blk1(%r3)\n\
             blk3(): depth=0\n    WARPGROUP_I\n    exit\n",
            product(10, 20)
        ))
    }

    #[test]
    fn a_parameter_stands_for_what_the_iteration_before_reads() {
        let t = around(false);
        let holds = lines(&t, "hold");
        assert_eq!(holds.len(), 3, "{t}");
        assert!(holds[0].starts_with("hold  -> "), "{t}");
        assert_eq!(holds[2], "hold %r10,%r11,%r12,%r13 ->");
        assert!(t.contains("br blk1(%r3, %r10, %r11, %r12, %r13)"), "{t}");
        assert!(lines(&t, "copy").is_empty());
    }

    #[test]
    fn what_is_made_anew_before_the_wait_is_copied_behind_it() {
        let t = around(true);
        let at = |what: &str| t.find(what).unwrap_or_else(|| panic!("{what}: {t}"));
        assert_eq!(lines(&t, "copy").len(), 1, "{t}");
        assert!(at("WARPGROUP_I") < at("copy") && at("copy") < at("WARPGROUP\n"), "{t}");
        assert!(!t.contains("Ra={%r10"), "{t}");
    }

    #[test]
    fn where_ways_meet_only_some_may_have_something_under_way() {
        let t = after(&format!(
            "    ISETP_RI.Cmp=1 Pu=%p4 Ra=RZ Rb=9\n    brif %p4, blk1(), blk2()\nblk1(): depth=0\n{}{}    br blk3()\nblk2(): depth=0\n    br blk3()\n\
             blk3(): depth=0\n    WARPGROUP_I\n    exit\n",
            made(10),
            product(10, 20)
        ));
        assert!(t.contains("br blk3(%r10, %r11, %r12, %r13)"), "{t}");
        assert_eq!(lines(&t, "hold").len(), 2, "{t}");
    }

    #[test]
    fn products_of_shared_memory_alone_hold_nothing() {
        let body = "    WARPGROUP\n    HGMMA_RUR_OPEN.M75=1 Rd={%r20,%r21,%r22,%r23} URa={%ur110,%ur111,%ur112,%ur113} Pp=!UPT\n    HGMMA_RUR Pp=!UPT\n    WARPGROUP_I\n    exit\n";
        assert!(!after(body).contains("hold"));
    }
}
