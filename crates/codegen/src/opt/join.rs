//! Accesses of neighbouring places in shared and local memory become one wide access; what a block has loaded or stored is not
//! loaded again.
//!
//! Front ends join what their alignment of a variable allows. Where a variable lies in shared memory only the compiler knows, and so whether
//! addresses are multiples of 8 or 16: a row of a tile is read four words at once.

use super::{identity, substitute};
use crate::cfg::Cfg;
use crate::ir::{Effect, Func, Inst, InstId, MemSpace, Op, Sem, Ty, Value};
use smallvec::SmallVec;

/// Runs of neighbours that are open at once.
const MOST_OPEN: usize = 48;

/// Instructions between the first load of a run and the last that joins it.
const NEAR: usize = 256;

/// Places whose contents are remembered at once.
const MOST_HELD: usize = 64;

/// How often what is known of the values of loops may change.
const MOST_ROUNDS: usize = 16;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !worth_looking(f) {
        return;
    }
    let cfg = f.cfg();
    let known = remainders(f, &cfg);
    let mut replaced = identity(f);
    for b in 0..f.blocks.len() {
        block(f, b, &known, &mut replaced);
    }
    replaced.extend((replaced.len() as u32..f.values.len() as u32).map(Value));
    substitute(f, &mut replaced);
}

/// True if a block has two accesses from one base that could be joined.
fn worth_looking(f: &Func) -> bool {
    f.blocks.iter().any(|b| {
        let mut last: [Option<Value>; 8] = [None; 8];
        let mut next = 0;
        b.insts.iter().any(|&id| {
            let inst = f.inst(id);
            if !plain(f, inst) {
                return false;
            }
            let base = place(f, inst).0;
            let again = last.contains(&Some(base));
            last[next % 8] = Some(base);
            next += 1;
            again
        })
    })
}

/// An access that this pass understands: of whole words that no other thread waits for.
fn plain(f: &Func, inst: &Inst) -> bool {
    let mem = &inst.mem;
    let words = |v: &Value| f.ty(*v).bits() == 8 * u32::from(mem.bytes);
    matches!(inst.op, Op::Load | Op::Store)
        && matches!(mem.space, MemSpace::Shared | MemSpace::Local)
        && mem.sem == Sem::Weak
        && !mem.policy
        && matches!(mem.bytes, 4 | 8)
        && if inst.op == Op::Load { inst.results.iter().all(words) } else { inst.args[1..].iter().all(words) }
}

/// The value that an access counts its place from, and how many bytes on it lies.
fn place(f: &Func, inst: &Inst) -> (Value, i64) {
    let (mut v, mut at) = (inst.args[0], inst.imm as i32);
    while let Some(d) = f.def_inst(v)
        && d.op == Op::IAdd
        && let Some(c) = f.constant(d.args[1])
    {
        at = at.wrapping_add(c as i32);
        v = d.args[0];
    }
    (v, at.into())
}

/// What is known of a value's lowest four bits: how many of them, and what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Low {
    bits: u8,
    value: u8,
}

impl Low {
    /// Nothing was seen yet; what it meets says what it is.
    const ANY: Low = Low { bits: u8::MAX, value: 0 };
    const UNKNOWN: Low = Low { bits: 0, value: 0 };

    fn new(bits: u32, value: u64) -> Low {
        let bits = bits.min(4);
        Low { bits: bits as u8, value: (value & ((1 << bits) - 1)) as u8 }
    }

    /// What is true of both.
    fn meet(self, other: Low) -> Low {
        if self == Low::ANY {
            return other;
        }
        if other == Low::ANY {
            return self;
        }
        let differ = u32::from(self.value ^ other.value).trailing_zeros();
        Low::new(u32::from(self.bits.min(other.bits)).min(differ), self.value.into())
    }

    /// Of what is never reached nothing is known.
    fn settled(self) -> Low {
        if self == Low::ANY { Low::UNKNOWN } else { self }
    }

    /// How many of the lowest bits are known to be zero.
    fn zeros(self) -> u32 {
        u32::from(self.value).trailing_zeros().min(self.bits.into())
    }
}

/// What is known of the lowest bits of every value.
fn remainders(f: &Func, cfg: &Cfg) -> Vec<Low> {
    let mut known = vec![Low::ANY; f.values.len()];
    f.blocks[0].params.iter().for_each(|p| known[p.index()] = Low::UNKNOWN);
    for _ in 0..MOST_ROUNDS {
        let mut changed = false;
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            for &id in &block.insts {
                let inst = f.inst(id);
                let low = match inst.results.as_slice() {
                    [_] => low(f, inst, &known),
                    _ => Low::UNKNOWN,
                };
                for r in &inst.results {
                    let r = &mut known[r.index()];
                    changed |= *r != low;
                    *r = low;
                }
            }
            for e in block.term.edges() {
                for (p, a) in f.blocks[e.block.index()].params.iter().zip(&e.args) {
                    let met = known[p.index()].meet(known[a.index()]);
                    changed |= known[p.index()] != met;
                    known[p.index()] = met;
                }
            }
        }
        if !changed {
            return known;
        }
    }
    vec![Low::UNKNOWN; f.values.len()]
}

/// What an instruction with one result makes of what is known.
fn low(f: &Func, inst: &Inst, known: &[Low]) -> Low {
    let of = |n: usize| known[inst.args[n].index()];
    let both = |n: usize, m: usize| of(n) == Low::ANY || of(m) == Low::ANY;
    match inst.op {
        Op::Const => Low::new(4, inst.imm as u64),
        // Where variables lie is not known before they are linked.
        Op::SharedAddr if !f.linkable => Low::new(4, inst.imm as u64),
        Op::LocalAddr => Low::new(f.local_align.max(8).trailing_zeros(), inst.imm as u64),
        Op::IAdd | Op::ISub | Op::IMul | Op::And | Op::Or | Op::Xor if both(0, 1) => Low::ANY,
        Op::IMad if both(0, 1) || of(2) == Low::ANY => Low::ANY,
        Op::IAdd => sum(of(0), of(1)),
        Op::ISub => {
            let (a, b) = (of(0), of(1));
            Low::new(a.bits.min(b.bits).into(), u64::from(a.value).wrapping_sub(b.value.into()))
        }
        Op::IMul => product(of(0), of(1)),
        Op::IMad => sum(product(of(0), of(1)), of(2)),
        // Bits of which one side is known are known where that decides.
        Op::And | Op::Or | Op::Xor => {
            let (a, b) = (of(0), of(1));
            if inst.op == Op::And && a.bits != b.bits {
                let (short, long) = if a.bits < b.bits { (a, b) } else { (b, a) };
                let decided = (u32::from(long.value) >> short.bits).trailing_zeros().min(4);
                let bits = (u32::from(short.bits) + decided).min(long.bits.into());
                return Low::new(bits, (short.value & long.value).into());
            }
            let (x, y) = (u64::from(a.value), u64::from(b.value));
            let value = match inst.op {
                Op::And => x & y,
                Op::Or => x | y,
                _ => x ^ y,
            };
            Low::new(a.bits.min(b.bits).into(), value)
        }
        Op::Shl => match f.constant(inst.args[1]) {
            _ if of(0) == Low::ANY => Low::ANY,
            Some(n) => Low::new(u32::from(of(0).bits) + (n as u32).min(4), u64::from(of(0).value) << n.min(8)),
            None => Low::new(of(0).zeros(), 0),
        },
        Op::Select => of(0).meet(of(1)),
        Op::Zext | Op::Sext | Op::Trunc if f.ty(inst.args[0]) >= Ty::B16 => of(0),
        Op::IMulWide if both(0, 1) => Low::ANY,
        Op::IMulWide => product(of(0), of(1)),
        _ => Low::UNKNOWN,
    }
}

fn sum(a: Low, b: Low) -> Low {
    Low::new(a.bits.min(b.bits).into(), u64::from(a.value) + u64::from(b.value))
}

fn product(a: Low, b: Low) -> Low {
    // x = a + 2^i s, y = b + 2^j t: below the lowest unknown bit of the cross terms everything is known.
    let bits = (u32::from(a.bits) + b.zeros()).min(u32::from(b.bits) + a.zeros());
    Low::new(bits, u64::from(a.value) * u64::from(b.value))
}

/// Accesses that lie in one place as wide as the widest access, and that nothing comes between.
struct Run {
    load: bool,
    base: Value,
    /// Its first byte, counted from the base.
    at: i64,
    bytes: i64,
    /// Position of the first one in the block.
    since: usize,
    /// The accesses: position in the block, first byte from the base, bytes.
    members: SmallVec<[(usize, i64, i64); 4]>,
}

impl Run {
    /// True if `bytes` bytes at `at`, counted from the same base, are none of its.
    fn apart(&self, at: i64, bytes: i64) -> bool {
        let ahead = i64::from((at as i32).wrapping_sub(self.at as i32));
        ahead >= self.bytes || ahead <= -bytes
    }
}

/// What a place is known to hold.
struct Held {
    space: MemSpace,
    base: Value,
    at: i64,
    bytes: i64,
    value: Value,
}

/// What places are known to hold, the latest last.
#[derive(Default)]
struct Contents(Vec<Held>);

impl Contents {
    /// What a load would give, if all of it is known.
    fn load(&self, inst: &Inst, base: Value, at: i64) -> Option<SmallVec<[Value; 4]>> {
        let bytes = i64::from(inst.mem.bytes);
        let one = |n: i64| {
            let same = |h: &&Held| (h.space, h.base, h.at, h.bytes) == (inst.mem.space, base, at + n * bytes, bytes);
            self.0.iter().rev().find(same).map(|h| h.value)
        };
        (0..inst.results.len() as i64).map(one).collect()
    }

    /// A load gave these values, or a store put them there.
    fn note(&mut self, inst: &Inst, base: Value, at: i64) {
        let bytes = i64::from(inst.mem.bytes);
        let space = inst.mem.space;
        if inst.op == Op::Store {
            let all = size(inst);
            self.0.retain(|h| h.space != space || h.base == base && (h.at >= at + all || h.at + h.bytes <= at));
        }
        let values = if inst.op == Op::Load { &inst.results[..] } else { &inst.args[1..] };
        if self.0.len() + values.len() > MOST_HELD {
            self.0.clear();
        }
        for (n, &value) in values.iter().enumerate() {
            self.0.push(Held { space, base, at: at + n as i64 * bytes, bytes, value });
        }
    }
}

fn size(inst: &Inst) -> i64 {
    let n = if inst.op == Op::Load { inst.results.len() } else { inst.args.len() - 1 };
    n as i64 * i64::from(inst.mem.bytes)
}

/// Joins accesses of one block.
fn block(f: &mut Func, b: usize, known: &[Low], replaced: &mut [Value]) {
    let mut open: Vec<Run> = Vec::new();
    let mut done: Vec<Run> = Vec::new();
    let mut contents = Contents::default();
    let mut known_loads: Vec<usize> = Vec::new();
    for (n, &id) in f.blocks[b].insts.iter().enumerate() {
        let inst = f.inst(id);
        if inst.op.effect() == Effect::Pure {
            continue;
        }
        if !plain(f, inst) {
            close(inst, &mut open, &mut done, &mut contents);
            continue;
        }
        let (base, at) = place(f, inst);
        if inst.op == Op::Load
            && let Some(values) = contents.load(inst, base, at)
        {
            for (r, v) in inst.results.iter().zip(values) {
                replaced[r.index()] = v;
            }
            known_loads.push(n);
            continue;
        }
        contents.note(inst, base, at);
        let (load, bytes) = (inst.op == Op::Load, size(inst));
        let here = sum(known[base.index()].settled(), Low::new(4, at as u64));
        let width = 1i64 << here.bits.min(4);
        // What comes between the accesses of a run ends it, and so does one that is in its way.
        let mut k = 0;
        while k < open.len() {
            let r = &open[k];
            let other_space = f.inst(f.blocks[b].insts[r.since]).mem.space != inst.mem.space;
            let fits = n - r.since < NEAR
                && (other_space
                    || r.load && load
                    || r.base == base
                        && (r.apart(at, bytes) || r.load == load && r.members.iter().all(|m| disjoint(m, at, bytes))));
            if fits {
                k += 1;
            } else {
                done.push(open.swap_remove(k));
            }
        }
        if width <= bytes || i64::from(here.value) % bytes != 0 || open.len() >= MOST_OPEN {
            continue;
        }
        let first = at - i64::from(here.value);
        let mine = open.iter_mut().find(|r| {
            let like = f.inst(f.blocks[b].insts[r.since]);
            (r.load, r.base, r.at, r.bytes) == (load, base, first, width)
                && (like.mem, like.attr) == (inst.mem, inst.attr)
        });
        match mine {
            Some(r) if r.members.iter().all(|m| disjoint(m, at, bytes)) => r.members.push((n, at, bytes)),
            Some(_) => {}
            None => {
                let members = SmallVec::from_slice(&[(n, at, bytes)]);
                open.push(Run { load, base, at: first, bytes: width, since: n, members });
            }
        }
    }
    done.append(&mut open);
    done.retain(|r| r.members.len() > 1);
    if done.is_empty() && known_loads.is_empty() {
        return;
    }
    let mut list: Vec<Option<InstId>> = f.blocks[b].insts.iter().map(|&i| Some(i)).collect();
    known_loads.into_iter().for_each(|n| list[n] = None);
    for r in &mut done {
        r.members.sort_unstable_by_key(|m| m.1);
        let (from, to) = (r.at, r.at + r.bytes);
        join(f, r, from, to, &mut list, replaced);
    }
    f.blocks[b].insts = list.into_iter().flatten().collect();
}

fn disjoint(m: &(usize, i64, i64), at: i64, bytes: i64) -> bool {
    at >= m.1 + m.2 || m.1 >= at + bytes
}

/// Ends the runs that an instruction which is no access of this pass may not stand between.
fn close(inst: &Inst, open: &mut Vec<Run>, done: &mut Vec<Run>, contents: &mut Contents) {
    let mem = &inst.mem;
    let weak = matches!(inst.op, Op::Load | Op::Store) && mem.sem == Sem::Weak;
    // Other memory; reading it needs only stores of what might be the same to be done.
    if weak && matches!(mem.space, MemSpace::Global | MemSpace::Const | MemSpace::Param) || inst.op == Op::Mma {
        return;
    }
    let reads = weak && inst.op == Op::Load || inst.op == Op::Texture;
    if !reads {
        contents.0.clear();
    }
    let mut k = 0;
    while k < open.len() {
        if reads && open[k].load {
            k += 1;
        } else {
            done.push(open.swap_remove(k));
        }
    }
}

/// Joins the members of a run that fill the bytes from `from` to `to`, or those of its halves that do.
fn join(f: &mut Func, r: &Run, from: i64, to: i64, list: &mut [Option<InstId>], replaced: &mut [Value]) {
    let inside: SmallVec<[(usize, i64, i64); 4]> =
        r.members.iter().copied().filter(|m| m.1 >= from && m.1 + m.2 <= to).collect();
    if inside.len() < 2 {
        return;
    }
    if inside.iter().map(|m| m.2).sum::<i64>() < to - from {
        let half = from + (to - from) / 2;
        join(f, r, from, half, list, replaced);
        return join(f, r, half, to, list, replaced);
    }
    let place = if r.load { inside.iter().map(|m| m.0).min() } else { inside.iter().map(|m| m.0).max() };
    let Some((place, &(_, at, _))) = place.and_then(|p| Some((p, inside.iter().find(|m| m.0 == p)?))) else { return };
    let ids: SmallVec<[InstId; 4]> = inside.iter().filter_map(|m| list[m.0]).collect();
    if ids.len() != inside.len() {
        return;
    }
    let Some(here) = list[place] else { return };
    let mut new = f.inst(here).clone();
    new.imm += from - at;
    let types: SmallVec<[Ty; 4]> = ids.iter().flat_map(|&i| &f.inst(i).results).map(|&v| f.ty(v)).collect();
    if !r.load {
        new.args.truncate(1);
        new.args.extend(ids.iter().flat_map(|&i| f.inst(i).args[1..].iter().copied()));
    }
    let joined = f.new_inst(new, &types);
    let old: SmallVec<[Value; 4]> = ids.iter().flat_map(|&i| f.inst(i).results.iter().copied()).collect();
    for (o, n) in old.into_iter().zip(f.inst(joined).results.clone()) {
        replaced[o.index()] = n;
    }
    inside.iter().for_each(|m| list[m.0] = None);
    list[place] = Some(joined);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// The text with its values numbered in the order of their definitions.
    fn numbered(body: &str) -> String {
        let name = |w: &str| w.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
        let words: Vec<&str> = body.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        let defined: Vec<&str> = words.iter().filter_map(|w| w.strip_suffix(':')).filter(|w| name(w)).collect();
        let new = |w: &&str| {
            let (word, end) = match w.char_indices().last() {
                Some((at, c)) if !c.is_alphanumeric() => w.split_at(at),
                _ => (*w, ""),
            };
            let n = defined.iter().position(|d| *d == word);
            n.map_or(w.to_string(), |n| format!("v{n}{end}"))
        };
        words.iter().map(new).collect()
    }

    /// The accesses of a function after the pass: operation, results or values, offset.
    fn after(body: &str) -> Vec<(&'static str, usize, i64)> {
        let body = numbered(body);
        let mut f = text::parse(&format!("func k entry locals=64:16 returns() {{\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        let all = f.blocks.iter().flat_map(|b| &b.insts).map(|&i| f.inst(i));
        all.filter(|i| matches!(i.op, Op::Load | Op::Store))
            .map(|i| (i.op.name(), i.results.len().max(i.args.len() - 1), i.imm))
            .collect()
    }

    /// A row of 16 bytes for each thread, so many bytes from the start of shared memory.
    fn row(start: u32) -> String {
        format!(
            "blk0():\nv0:b32 = addr.shared {{imm={start}}}\nv1:b32 = sreg\nv2:b32 = const {{imm=4}}\nv3:b32 = shl v1, v2\nv4:b32 = iadd v0, v3\n"
        )
    }

    const LOADS: &str = "v10:b32 = load v4 {space=shared bytes=4}\nv11:b32 = load v4 {space=shared bytes=4 imm=8}\n\
                         v12:b32 = load v4 {space=shared bytes=4 imm=4}\nv13:b32 = load v4 {space=shared bytes=4 imm=12}\n";
    const READ: &str = "v20:b32 = iadd v10, v11\nv21:b32 = iadd v12, v13\nexit";

    #[test]
    fn loads_join_as_far_as_addresses_are_multiples() {
        assert_eq!(after(&format!("{}{LOADS}{READ}", row(32))), [("load", 4, 0)]);
        assert_eq!(after(&format!("{}{LOADS}{READ}", row(40))), [("load", 2, 0), ("load", 2, 8)]);
        // Here the second and the third lie in one place of 8 bytes.
        let odd = [("load", 1, 0), ("load", 2, 4), ("load", 1, 12)];
        assert_eq!(after(&format!("{}{LOADS}{READ}", row(36))), odd);
        let nothing = after(&format!("{}{LOADS}{READ}", row(32).replace("imm=4}", "imm=2}")));
        assert_eq!(nothing.len(), 4);
    }

    #[test]
    fn loads_stay_on_their_side_of_a_store() {
        let far = "store v1, v1 {space=shared bytes=4}\n";
        let cut = LOADS.replace("v12:", &format!("{far}v12:"));
        assert_eq!(after(&format!("{}{cut}{READ}", row(32))).len(), 5);
        let global = "v5:b64 = zext v1\nstore v5, v1 {space=global bytes=4}\n";
        let cut = LOADS.replace("v12:", &format!("{global}v12:"));
        assert_eq!(after(&format!("{}{cut}{READ}", row(32))), [("load", 4, 0), ("store", 1, 0)]);
        let barrier = "v6:b32 = const {imm=0}\nbar v6\n";
        let cut = LOADS.replace("v12:", &format!("{barrier}v12:"));
        assert_eq!(after(&format!("{}{cut}{READ}", row(32))).len(), 4);
    }

    #[test]
    fn stores_join_where_the_last_of_them_stands() {
        let store = |at: u32| format!("store v4, v1 {{space=shared bytes=4 imm={at}}}\n");
        let all = format!("{}{}{}{}", store(4), store(0), store(12), store(8));
        assert_eq!(after(&format!("{}{all}exit", row(32))), [("store", 4, 0)]);
        // A word that was stored before is stored again.
        let twice = format!("{}{}{}", store(0), store(0), store(4));
        assert_eq!(after(&format!("{}{twice}exit", row(32))), [("store", 1, 0), ("store", 2, 0)]);
        // Somebody may read the first of them.
        let read = format!("{}v9:b32 = load v3 {{space=shared bytes=4}}\n{}", store(0), store(4));
        assert_eq!(after(&format!("{}{read}exit", row(32))).len(), 3);
    }

    #[test]
    fn what_was_stored_is_not_loaded() {
        let store = |base: u32, at: u32| format!("store v{base}, v1 {{space=shared bytes=4 imm={at}}}\n");
        let load = "v9:b32 = load v4 {space=shared bytes=4 imm=4}\nstore v4, v9 {space=shared bytes=4 imm=32}\n";
        let stores = |between: &str| after(&format!("{}{}{between}{load}exit", row(32), store(4, 4)));
        assert_eq!(stores(""), [("store", 1, 4), ("store", 1, 32)]);
        assert_eq!(stores(&store(4, 8)).len(), 3);
        assert_eq!(stores(&store(3, 8)).len(), 4);
        assert_eq!(stores("v6:b32 = const {imm=0}\nbar v6\n").len(), 3);
    }

    #[test]
    fn a_counter_keeps_what_its_step_leaves() {
        let body = |step: u32| {
            let start = row(32);
            let next = format!("v7:b32 = const {{imm={step}}}\nv8:b32 = iadd v6, v7\nv9:p = icmp v8, v1\n");
            let loads = LOADS.replace(" v4 ", " v6 ");
            format!("{start}br blk1(v4)\nblk1(v6:b32):\n{loads}{next}brif v9, blk1(v8), blk2()\nblk2():\nexit")
        };
        assert_eq!(after(&body(48)), [("load", 4, 0)]);
        assert_eq!(after(&body(24)), [("load", 2, 0), ("load", 2, 8)]);
        assert_eq!(after(&body(20)).len(), 4);
    }
}
