//! From where to where each value has its register, and where it should lie: one walk over the code.
//!
//! Positions are numbers in the order of the walk: even ones of block starts and instructions, odd ones of the ends of blocks.

use super::chains::{self, Chains};
use crate::abi::Keeps;
use crate::cfg::{Cfg, NONE};
use crate::mir::{Func, Op, Term, Vreg};
use sass::inst::{Inst as Sass, Value as Content};
use sass::latency::Class;
use sass::reg::{File, Reg};

/// No register yet.
pub(super) const NOWHERE: u8 = 255;
/// The end of what keeps its register to the end of the function.
pub(super) const FOREVER: u32 = u32::MAX;
/// Vectors of more registers are not for this allocator, if they are not sums of a warpgroup's products.
const WIDE: usize = 16;
/// No vector has more.
const WIDEST: usize = 256;

/// What is known of a value.
#[derive(Clone, Copy)]
pub(in super::super) struct Known {
    /// Where it is made; 0 of what is never made.
    pub(super) start: u32,
    /// Where its register is free again; odd where that is the end of a block.
    pub(super) end: u32,
    /// The first vector that it is read as part of, and the place there ([`Known::vector`]).
    hint: u32,
    /// The parameter that it is given to.
    pub(super) meet: u32,
    /// Of those whose register is free again where this one's is: the next.
    pub(super) next: u32,
    /// Its register.
    pub(super) loc: u8,
    /// Its first register: where the ends of edges put a parameter.
    pub(super) first: u8,
    /// The register that it should have: that of a value that it is given.
    pub(super) wish: u8,
}

impl Known {
    const NEW: Known =
        Known { start: 0, end: 0, hint: NONE, meet: NONE, next: NONE, loc: NOWHERE, first: NOWHERE, wish: NOWHERE };

    /// The first vector that the value is read as part of, and which of its scalars it is.
    pub(super) fn vector(&self) -> Option<(usize, usize)> {
        (self.hint != NONE).then_some((self.hint as usize / WIDEST, self.hint as usize % WIDEST))
    }

    /// The value's place shall be this one.
    pub(super) fn belong(&mut self, vec: u32, nth: usize) {
        self.hint = vec * WIDEST as u32 + nth as u32;
    }
}

/// What the walk found.
pub(in super::super) struct Spans {
    /// [`super::run`] can do it, if there are registers enough.
    pub(in super::super) fit: bool,
    /// By value.
    pub(in super::super) values: Vec<Known>,
    /// Behind the last position.
    pub(super) bound: u32,
    /// The most registers that are taken at once, by file.
    pub(in super::super) most: [u32; 4],
    /// Chains of sums.
    pub(in super::super) chains: Chains,
    /// General registers that routines for seldom cases change: they are not for values.
    pub(in super::super) changed: Vec<Keeps>,
}

/// The walk under way.
struct Walk<'a> {
    f: &'a Func,
    values: Vec<Known>,
    at: u32,
    /// A uniform register is written where a warp may be divided.
    apart: bool,
    changed: Vec<Keeps>,
    /// The vectors that products of warpgroups give and add to.
    products: Vec<(u32, u32)>,
    fit: bool,
}

impl Walk<'_> {
    fn read(&mut self, v: Vreg) {
        self.values[v.index()].end = self.at;
    }

    fn make(&mut self, v: Vreg) {
        let known = &mut self.values[v.index()];
        known.start = self.at;
        known.end = self.at;
    }

    fn sass(&mut self, s: &Sass, divergent: bool) {
        let form = s.form();
        let product = form.class == Class::Gmma;
        if product {
            self.products.extend(chains::sums(s));
        } else if crate::registers::after(s).is_some() {
            self.fit = false;
        }
        if let Content::Reg(r) = s.guard.value
            && r.is_virtual()
        {
            self.read(Vreg(r.index()));
        }
        let registers = s.registers();
        let mut slots = registers.reads;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Content::Reg(r) = s.operands[i].value else { continue };
            if !r.is_virtual() {
            } else if registers.single >> i & 1 != 0 || form.slots[i].width.of(s) == 1 {
                self.read(Vreg(r.index()));
            } else {
                self.read_vector(r, product);
            }
        }
        let mut slots = registers.writes;
        while slots != 0 {
            let i = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let Content::Reg(r) = s.operands[i].value else { continue };
            if !r.is_virtual() {
                continue;
            }
            self.apart |= divergent && matches!(r.file(), File::Ugpr | File::Upred);
            if registers.single >> i & 1 != 0 || form.slots[i].width.of(s) == 1 {
                self.make(Vreg(r.index()));
                continue;
            }
            let f = self.f;
            let list = &f.vecs[r.index() as usize];
            self.fit &= list.len() <= WIDE || product;
            list.iter().for_each(|&v| self.make(v));
        }
    }

    fn read_vector(&mut self, r: Reg, product: bool) {
        let f = self.f;
        let list = &f.vecs[r.index() as usize];
        self.fit &= list.len() <= WIDE || product;
        for (n, v) in list.iter().enumerate() {
            let known = &mut self.values[v.index()];
            known.end = self.at;
            if known.hint == NONE {
                known.hint = r.index() * WIDEST as u32 + n as u32;
            }
        }
    }
}

/// Finds the spans; none of a function with calls that this allocator does not know.
pub(in super::super) fn find(f: &Func, cfg: &Cfg) -> Option<Spans> {
    if !(f.entry && f.live_in.is_empty() || f.keeps.light()) || f.vecs.len() >= NONE as usize / WIDEST {
        return None;
    }
    let values = vec![Known::NEW; f.vregs.len()];
    let mut w = Walk { f, values, at: 0, apart: false, changed: Vec::new(), products: Vec::new(), fit: true };
    let mut starts = Vec::with_capacity(cfg.rpo.len());
    // Edges that lead back: from where, to where.
    let mut back: Vec<(u32, u32)> = Vec::new();
    for (n, &b) in cfg.rpo.iter().enumerate() {
        let block = &f.blocks[b as usize];
        w.at += 2;
        starts.push(w.at);
        block.params.iter().for_each(|&p| w.make(p));
        if b == 0 {
            f.live_in.iter().for_each(|&(v, _)| w.make(v));
        }
        for inst in &block.insts {
            w.at += 2;
            match &inst.op {
                Op::Sass(s) => w.sass(s, block.divergent),
                Op::Copy(pairs) => {
                    pairs.iter().filter(|p| p.1.is_virtual()).for_each(|p| w.read(Vreg(p.1.index())));
                    for &(d, _) in pairs {
                        w.make(Vreg(d.index()));
                        w.apart |= block.divergent && matches!(d.file(), File::Ugpr | File::Upred);
                    }
                }
                // A routine for a seldom case leaves everything but a few general registers as it was.
                Op::Call(c) if c.keeps.light() && c.target.values().is_empty() && f.entry => {
                    c.args.iter().for_each(|a| w.read(a.0));
                    c.rets.iter().for_each(|r| w.make(r.0));
                    if !w.changed.contains(&c.keeps) {
                        w.changed.push(c.keeps);
                    }
                }
                Op::Call(_) | Op::LoadIncoming { .. } | Op::Hold { .. } => return None,
            }
        }
        w.at += 1;
        f.term_uses(&block.term, |v| w.read(v));
        if let Term::Ret(values) = &block.term {
            values.iter().for_each(|&(v, r)| w.values[v.index()].wish = r.index() as u8);
        }
        for e in block.term.edges() {
            for (&p, &v) in f.blocks[e.block.0 as usize].params.iter().zip(&e.args) {
                w.read(v);
                w.values[v.index()].meet = p.0;
            }
        }
        for &s in &cfg.succs[b as usize] {
            let to = cfg.rpo_index[s as usize] as usize;
            if to <= n {
                back.push((starts[to], w.at));
            }
        }
        w.at += 1;
    }
    let bound = w.at + 2;
    let Walk { mut values, apart, changed, products, fit, .. } = w;
    prolong(&mut values, &mut back);
    if apart {
        // What one side of a divided warp writes, the other finds: no uniform register has two values then.
        let uniform = |v: usize| matches!(f.vregs[v], File::Ugpr | File::Upred);
        (0..values.len()).filter(|&v| uniform(v)).for_each(|v| values[v].end = FOREVER);
    }
    let most = most(f, &values, bound);
    let chains = Chains::find(f, &mut values, &products);
    Some(Spans { fit, values, bound, most, chains, changed })
}

/// What comes from before the target of an edge that leads back, and is there at the target, is there until that edge. Sound for any graph: where
/// a value is alive, it is so along a way to one of its readers; if all edges of that way lead on, its reader comes later in the walk, and where one
/// leads back, the value is alive at the target.
fn prolong(values: &mut [Known], back: &mut [(u32, u32)]) {
    if back.is_empty() {
        return;
    }
    back.sort_unstable();
    let first = back[0].0;
    for known in values {
        if known.end < first || known.start == 0 {
            continue;
        }
        let from = back.partition_point(|e| e.0 <= known.start);
        for &(to, at) in &back[from..] {
            if to > known.end {
                break;
            }
            known.end = known.end.max(at);
        }
    }
}

/// The most registers of each file that are taken at once, if values of chains take those of the whole chain.
pub(super) fn most_with(f: &Func, values: &[Known], chains: &Chains, bound: u32) -> [u32; 4] {
    let mut change = changes(f, values.iter().map(|k| if chains.home(k).is_some() { &Known::NEW } else { k }), bound);
    for c in &chains.list {
        change[c.start as usize / 2][0] += c.size as i32;
        change[c.end as usize / 2 + 1][0] -= c.size as i32;
    }
    highest(change)
}

/// The most registers of each file that are taken at once.
fn most(f: &Func, values: &[Known], bound: u32) -> [u32; 4] {
    highest(changes(f, values.iter(), bound))
}

/// How many more registers of each file are taken, by position (halved).
fn changes<'a>(f: &Func, values: impl Iterator<Item = &'a Known>, bound: u32) -> Vec<[i32; 4]> {
    let mut change = vec![[0i32; 4]; bound as usize / 2 + 2];
    for (known, &file) in values.zip(&f.vregs) {
        if known.start == 0 {
            continue;
        }
        // A register is free for what the last reader makes; one that nobody reads is not.
        let end = known.end.min(bound) as usize;
        let free = if known.end == known.start { end / 2 + 1 } else { end.div_ceil(2) };
        change[known.start as usize / 2][file as usize & 3] += 1;
        change[free][file as usize & 3] -= 1;
    }
    change
}

fn highest(change: Vec<[i32; 4]>) -> [u32; 4] {
    let (mut now, mut most) = ([0i32; 4], [0i32; 4]);
    for c in change {
        for k in 0..4 {
            now[k] += c[k];
            most[k] = most[k].max(now[k]);
        }
    }
    most.map(|n| n as u32)
}
