//! From where to where each value has its register, and where it should lie: one walk over the code.
//!
//! Positions are numbers in the order of the walk: even ones of block starts and instructions, odd ones of the ends of blocks.

use super::chains::{self, Chains};
use crate::abi::Keeps;
use crate::cfg::{Cfg, NONE};
use crate::mir::liveness::parts;
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
            self.apart |= divergent && is_uniform(r.file());
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
                        w.apart |= block.divergent && is_uniform(d.file());
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
        let parts = Parts::find(f, cfg, &starts);
        // What lives for longer may live in a loop, and what lives in a loop in another part.
        while parts.keep(&f.vregs, &mut values) {
            prolong(&mut values, &mut back);
        }
        if parts.begins_inside(&f.vregs, &values) {
            (0..values.len()).filter(|&v| is_uniform(f.vregs[v])).for_each(|v| values[v].end = FOREVER);
        }
    }
    let most = most(f, &values, bound);
    let chains = Chains::find(f, &mut values, &products);
    Some(Spans { fit, values, bound, most, chains, changed })
}

/// True for the files that all threads of a warp share.
pub(super) fn is_uniform(file: File) -> bool {
    matches!(file, File::Ugpr | File::Upred)
}

/// Parts of the graph in which a warp may be divided and uniform registers are written. What one side writes, the other finds there: uniform values from before
/// stay where they are until the last block of the part, as the walk goes. (What is made where a warp may be divided does not outlive its block.)
struct Parts {
    /// Where the first block of each begins and the last one ends, and where its blocks begin; in the order of the first.
    list: Vec<(u32, u32, Vec<u32>)>,
}

impl Parts {
    fn find(f: &Func, cfg: &Cfg, starts: &[u32]) -> Parts {
        let part = parts(f, cfg);
        let mut all = vec![(u32::MAX, 0, Vec::new()); f.blocks.len()];
        let mut writes = vec![false; f.blocks.len()];
        for (&b, &start) in cfg.rpo.iter().zip(starts).filter(|x| part[*x.0 as usize] != NONE) {
            let block = &f.blocks[b as usize];
            let n = part[b as usize] as usize;
            let (first, last, begins) = &mut all[n];
            *first = start.min(*first);
            *last = (start + 2 * block.insts.len() as u32 + 1).max(*last);
            begins.push(start);
            block.insts.iter().for_each(|i| f.defs(&i.op, |v| writes[n] |= is_uniform(f.vregs[v.index()])));
        }
        let mut list: Vec<_> = all.into_iter().zip(writes).filter(|x| x.1).map(|x| x.0).collect();
        list.sort_unstable();
        Parts { list }
    }

    /// What is alive where a part begins is so until it ends. True if anything has changed.
    fn keep(&self, files: &[File], values: &mut [Known]) -> bool {
        let mut changed = false;
        for (known, _) in values.iter_mut().zip(files).filter(|x| x.0.start != 0 && is_uniform(*x.1)) {
            let behind = self.list.partition_point(|p| p.0 <= known.start);
            for &(first, last, _) in &self.list[behind..] {
                if first > known.end {
                    break;
                }
                changed |= known.end < last;
                known.end = known.end.max(last);
            }
        }
        changed
    }

    /// True if a value that is made behind the beginning of a part is alive where another block of it begins: what the blocks before write is not kept apart from it.
    fn begins_inside(&self, files: &[File], values: &[Known]) -> bool {
        let mut uniform = values.iter().zip(files).filter(|x| x.0.start != 0 && is_uniform(*x.1)).map(|x| x.0);
        uniform.any(|known| {
            let before = self.list.iter().take_while(|p| p.0 <= known.start);
            before.filter(|p| known.start < p.1).any(|(_, _, begins)| {
                let next = begins.partition_point(|&b| b <= known.start);
                begins.get(next).is_some_and(|&b| b < known.end)
            })
        })
    }
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

#[cfg(test)]
mod tests {
    use crate::mir::{Func, Op, text};
    use crate::regalloc::run_quickly;
    use sass::form::SlotName as S;
    use sass::forms as F;
    use sass::inst::Operand;

    /// Assigns registers, which needs no other allocator.
    fn assign(body: &str) -> Func {
        let text = format!("func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\n{body}}}\n");
        let mut f = text::parse(&text).unwrap().remove(0);
        run_quickly(&mut f, true, |_| panic!("by another allocator")).unwrap();
        f
    }

    /// The uniform registers that special registers are read into, in order.
    fn written(f: &Func) -> Vec<u32> {
        let insts = f.blocks.iter().flat_map(|b| &b.insts);
        let to = insts.filter_map(|i| match &i.op {
            Op::Sass(s) if s.form == F::S2UR => s.get(S::Rd).and_then(Operand::as_reg),
            _ => None,
        });
        to.map(|r| r.index()).collect()
    }

    const HEAD: &str = "blk0(): depth=0\n    S2UR Rd=%ur900 Sr=0x25\n    S2R Rd=%r0 Sr=0x21\n    ISETP_RI.Cmp=1 Pu=%p801 Ra=%r0 Rb=0x3\n";

    /// Each of a hundred blocks that some threads go through has a uniform register of its own, and gives it back.
    #[test]
    fn blocks_of_a_divided_warp_share_registers() {
        let mut body = format!("{HEAD}    brif %p801, blk1(), blk101()\n");
        for b in 1..101 {
            let (u, r, next) = (b + 1000, b + 200, b + 1);
            body += &format!(
                "blk{b}(): depth=0 divergent\n    S2UR Rd=%ur{u} Sr=0x26\n    IADD3_RUR Rd=%r{r} Ra=%r0 Rb=%ur{u}\n    STS Ra=RZ Rb=%r{r}\n    br blk{next}()\n"
            );
        }
        body += "blk101(): depth=0\n    IADD3_RUR Rd=%r400 Ra=%r0 Rb=%ur900\n    STS Ra=RZ Rb=%r400\n    exit\n";
        let list = written(&assign(&body));
        assert!(list.len() == 101 && list[1..].iter().all(|r| *r != list[0]), "{list:?}");
    }

    /// Threads that leave a loop to exit do so while the others still need what was there before it, though their way ends behind the loop.
    #[test]
    fn ways_out_of_a_loop_leave_its_registers_alone() {
        let body = format!(
            "{HEAD}    ISETP_RI.Cmp=1 Pu=%p802 Ra=%r0 Rb=0x9\n    br blk1()\nblk1(): depth=1\n    IADD3_RUR Rd=%r1 Ra=%r0 Rb=%ur900\n    STS Ra=RZ Rb=%r1\n    \
             brif %p801, blk3(), blk2()\nblk2(): depth=1 divergent\n    S2UR Rd=%ur902 Sr=0x26\n    IADD3_RUR Rd=%r2 Ra=%r0 Rb=%ur902\n    STS Ra=RZ Rb=%r2\n    exit\n\
             blk3(): depth=1 divergent\n    br blk4()\nblk4(): depth=1\n    brif %p802, blk1(), blk5()\nblk5(): depth=0\n    exit\n"
        );
        let list = written(&assign(&body));
        assert!(list.len() == 2 && list[0] != list[1], "{list:?}");
    }

    /// What one side reads the other does not write, whichever comes first.
    #[test]
    fn sides_leave_alone_what_the_other_reads() {
        for (first, second) in [(1, 2), (2, 1)] {
            let body = format!(
                "{HEAD}    brif %p801, blk{first}(), blk{second}()\nblk1(): depth=0 divergent\n    IADD3_RUR Rd=%r1 Ra=%r0 Rb=%ur900\n    STS Ra=RZ Rb=%r1\n    br blk3()\n\
                 blk2(): depth=0 divergent\n    S2UR Rd=%ur902 Sr=0x26\n    IADD3_RUR Rd=%r2 Ra=%r0 Rb=%ur902\n    STS Ra=RZ Rb=%r2\n    br blk3()\nblk3(): depth=0\n    exit\n"
            );
            let list = written(&assign(&body));
            assert!(list.len() == 2 && list[0] != list[1], "{list:?}");
        }
    }
}
