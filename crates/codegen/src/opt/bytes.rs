//! Bytes that are taken apart and put together are permuted at once.
//!
//! LLVM loads and stores four bytes as a vector, and in between writes each of them as a number of its own: fields are taken out, shifted, and inserted.
//! What a word is made of is followed from byte to byte, through shifts by whole bytes, masks of whole bytes, fields and permutations. A word that is
//! another one again is that one; one that comes from two words, or from one and zeros, is one `PRMT`, where it was more than one instruction.

use crate::ir::{Attr, Block, Builder, Def, Func, InstId, Op, Ty, Value};
use smallvec::SmallVec;

/// Where a byte comes from: nowhere, as it is zero, or a byte of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Zero,
    Byte(Value, u8),
}

/// The bytes of a word, the lowest first.
type Word = [From; 4];

/// What is known of a value: its bytes as far back as two words have them all, and as its operands have them.
#[derive(Clone, Copy)]
struct Known {
    deep: Word,
    shallow: Word,
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    if !f.insts.iter().any(|i| joins(i.op)) {
        return;
    }
    let mut state = State { uses: super::uses(f), known: vec![None; f.values.len()] };
    let mut replaced: Vec<Value> = Vec::new();
    let mut changed = false;
    let order = f.cfg().rpo;
    for b in order {
        let insts = std::mem::take(&mut f.blocks[b as usize].insts);
        for id in insts {
            let word = f.inst(id).results.first().is_some_and(|&r| f.ty(r) == Ty::B32);
            let Some(known) = word.then(|| state.word(f, id)).flatten() else {
                f.blocks[b as usize].insts.push(id);
                continue;
            };
            let result = f.inst(id).results[0];
            state.known[result.index()] = Some(known);
            match state.better(f, id, &known.deep) {
                Some(Better::Same(v)) => {
                    if replaced.is_empty() {
                        replaced = super::identity(f);
                    }
                    replaced[result.index()] = v;
                    // Whoever reads it reads that one.
                    state.uses[v.index()] += state.uses[result.index()];
                }
                Some(Better::Permuted(x, y, choice)) => {
                    let loc = f.inst(id).loc;
                    let mut at = Builder::new(f, Block(b));
                    at.loc = loc;
                    let y = y.unwrap_or_else(|| at.constant(Ty::B32, 0));
                    let choice = at.constant(Ty::B32, choice);
                    let inst = &mut f.insts[id.0 as usize];
                    (inst.op, inst.attr, inst.imm) = (Op::Prmt, Attr::default(), 0);
                    inst.args = [x, y, choice].into_iter().collect();
                    state.grow(f);
                    [x, y].iter().for_each(|v| state.uses[v.index()] += 1);
                    if !replaced.is_empty() {
                        replaced.extend((replaced.len() as u32..f.values.len() as u32).map(Value));
                    }
                    changed = true;
                }
                None => {}
            }
            f.blocks[b as usize].insts.push(id);
        }
    }
    if !replaced.is_empty() {
        super::substitute(f, &mut replaced);
    }
    if changed || !replaced.is_empty() {
        // What took the bytes apart is read no longer.
        super::dce::run(f);
    }
}

/// What a word becomes.
enum Better {
    /// Another one.
    Same(Value),
    /// Bytes of two words, or of one and zeros; which ones.
    Permuted(Value, Option<Value>, u64),
}

/// Does it put bytes beside each other, or take some of them?
fn joins(op: Op) -> bool {
    matches!(op, Op::Or | Op::And | Op::IAdd | Op::Xor | Op::Lop3 | Op::Shl | Op::Prmt)
}

struct State {
    uses: Vec<u32>,
    known: Vec<Option<Known>>,
}

impl State {
    fn grow(&mut self, f: &Func) {
        self.uses.resize(f.values.len(), 0);
        self.known.resize(f.values.len(), None);
    }

    fn deep(&self, v: Value) -> Word {
        self.known[v.index()].map_or_else(|| whole(v), |k| k.deep)
    }

    fn shallow(&self, v: Value) -> Word {
        self.known[v.index()].map_or_else(|| whole(v), |k| k.shallow)
    }

    /// The bytes of the word that an instruction makes; none where nothing is known of them but that they are its own.
    fn word(&self, f: &Func, id: InstId) -> Option<Known> {
        let inst = f.inst(id);
        let own = |n: usize| From::Byte(inst.results[0], n as u8);
        let constant = |n: usize| inst.args.get(n).and_then(|&a| f.constant(a));
        let one = |by: &dyn Fn(&Word) -> Word| Known {
            deep: by(&self.deep(inst.args[0])),
            shallow: by(&whole(inst.args[0])),
        };
        // How far a shift goes whose amount is known: whole bytes, and whether there is more.
        let far = |n: Option<u64>| n.map(|n| (n.min(32) as usize / 8, n.is_multiple_of(8)));
        Some(match inst.op {
            Op::Shl => {
                let (bytes, even) = far(constant(1))?;
                one(&|w| {
                    std::array::from_fn(|n| {
                        if n < bytes {
                            From::Zero
                        } else if even {
                            w[n - bytes]
                        } else {
                            own(n)
                        }
                    })
                })
            }
            Op::Shr if !inst.attr.signed => {
                let (bytes, even) = far(constant(1))?;
                one(&|w| {
                    std::array::from_fn(|n| {
                        if n + bytes > 3 {
                            From::Zero
                        } else if even {
                            w[n + bytes]
                        } else {
                            own(n)
                        }
                    })
                })
            }
            Op::Bfe if !inst.attr.signed => {
                // Where it begins and how long it is say the low bytes of these alone.
                let (at, bits) = (constant(1)? & 0xff, (constant(2)? & 0xff).min(32));
                let (first, even) = far(Some(at))?;
                let most = bits.div_ceil(8) as usize;
                one(&|w| {
                    std::array::from_fn(|n| match n {
                        _ if n >= most || n + first > 3 => From::Zero,
                        _ if even && (n as u64 + 1) * 8 <= bits => w[n + first],
                        _ => own(n),
                    })
                })
            }
            Op::Prmt if inst.attr.sub == 0 => {
                let choice = constant(2)?;
                let (a, b) = (inst.args[0], inst.args[1]);
                self.two(f, a, b, |x, y, n| match (choice >> (4 * n)) as usize & 15 {
                    k @ 0..4 => x[k],
                    k @ 4..8 => y[k - 4],
                    _ => own(n),
                })
            }
            Op::And | Op::Or | Op::Xor | Op::IAdd | Op::Lop3 => {
                let table = match inst.op {
                    Op::And => 0xc0,
                    Op::Or => 0xfc,
                    Op::Xor => 0x3c,
                    Op::Lop3 => inst.attr.sub,
                    // Without bits in common there is nothing to carry.
                    _ if inst.attr.sat => return None,
                    _ => 0xfc,
                };
                if inst.args.len() < 3 {
                    let (a, b) = (inst.args[0], inst.args[1]);
                    let carries = inst.op == Op::IAdd;
                    if carries {
                        let (x, y) = (self.deep(a), self.deep(b));
                        (0..4).all(|n| bits_of(f, x[n]) & bits_of(f, y[n]) == 0).then_some(())?;
                    }
                    return Some(
                        self.two(f, a, b, |x, y, n| logic(f, table, [x[n], y[n], From::Zero]).unwrap_or(own(n))),
                    );
                }
                let fixed = (0..3).find(|&k| constant(k).is_some())?;
                let others: SmallVec<[usize; 2]> = (0..3).filter(|&k| k != fixed).collect();
                let mask = whole(inst.args[fixed]);
                self.two(f, inst.args[others[0]], inst.args[others[1]], |x, y, n| {
                    let mut of = [From::Zero; 3];
                    (of[fixed], of[others[0]], of[others[1]]) = (mask[n], x[n], y[n]);
                    logic(f, table, of).unwrap_or(own(n))
                })
            }
            Op::Zext if f.ty(inst.args[0]) == Ty::B16 => {
                let w = std::array::from_fn(|n| if n < 2 { own(n) } else { From::Zero });
                Known { deep: w, shallow: w }
            }
            Op::Load if !inst.attr.signed && inst.results.len() == 1 && inst.mem.bytes < 4 => {
                let w = std::array::from_fn(|n| if n < inst.mem.bytes as usize { own(n) } else { From::Zero });
                Known { deep: w, shallow: w }
            }
            _ => return None,
        })
    }

    /// The bytes of what is made of two words: as deep as two words have them all, else with one of the two, or both, as they are.
    fn two(&self, f: &Func, a: Value, b: Value, by: impl Fn(&Word, &Word, usize) -> From) -> Known {
        let made = |x: &Word, y: &Word| -> Word { std::array::from_fn(|n| by(x, y, n)) };
        let ways = [
            (self.deep(a), self.deep(b)),
            (self.deep(a), self.shallow(b)),
            (self.shallow(a), self.deep(b)),
            (self.shallow(a), self.shallow(b)),
            (self.deep(a), known_whole(f, b)),
            (known_whole(f, a), self.deep(b)),
        ];
        let shallow = made(&known_whole(f, a), &known_whole(f, b));
        let deep = ways.iter().map(|(x, y)| made(x, y)).find(|w| inputs(f, w).is_some()).unwrap_or(shallow);
        Known { deep, shallow }
    }

    /// What an instruction becomes whose bytes are these, where that is less than what it takes now.
    fn better(&self, f: &Func, id: InstId, word: &Word) -> Option<Better> {
        let inst = f.inst(id);
        if !joins(inst.op) && inst.op != Op::Shr && inst.op != Op::Bfe {
            return None;
        }
        let words = inputs(f, word)?;
        let &[x, ..] = words.as_slice() else { return None };
        if words.contains(&inst.results[0]) {
            return None;
        }
        if (0..4).all(|n| word[n] == From::Byte(x, n as u8)) {
            return Some(Better::Same(x));
        }
        let y = words.get(1).copied();
        let mut spared = Spared::default();
        self.spared(f, id, &words, &mut spared);
        if !spared.enough() {
            return None;
        }
        let nibble = |from: From| match from {
            // The last byte of what follows the word, which is zero.
            From::Zero => 7,
            From::Byte(v, n) if v == x => u64::from(n),
            From::Byte(_, n) => 4 + u64::from(n),
        };
        Some(Better::Permuted(x, y, (0..4).map(|n| nibble(word[n]) << (4 * n)).sum()))
    }

    /// Counts the instruction and those that only it needs, down to `inputs`, until they are enough.
    fn spared(&self, f: &Func, id: InstId, inputs: &[Value], count: &mut Spared) {
        let inst = f.inst(id);
        match inst.op {
            Op::And | Op::Or | Op::Xor => count.logic += 1,
            Op::Shl | Op::Shr | Op::Bfe | Op::Prmt | Op::IAdd => count.others += 1,
            // One of its own has three inputs.
            Op::Lop3 => count.logic += 2,
            _ => return,
        }
        for &a in &inst.args {
            if !count.enough()
                && self.uses[a.index()] == 1
                && !inputs.contains(&a)
                && let Def::Inst(d, _) = f.def(a)
            {
                self.spared(f, d, inputs, count);
            }
        }
    }
}

/// Instructions that a permutation stands for: logic, two of which become one in the end, and others.
#[derive(Default)]
struct Spared {
    logic: usize,
    others: usize,
}

impl Spared {
    /// Are they more than the permutation?
    fn enough(&self) -> bool {
        self.others + self.logic.div_ceil(2) >= 2
    }
}

/// The value's own bytes.
fn whole(v: Value) -> Word {
    std::array::from_fn(|n| From::Byte(v, n as u8))
}

/// The same, where those of a constant that are zero are nothing.
fn known_whole(f: &Func, v: Value) -> Word {
    whole(v).map(|b| if bits_of(f, b) == 0 { From::Zero } else { b })
}

/// Bits that a byte may have.
fn bits_of(f: &Func, from: From) -> u8 {
    match from {
        From::Zero => 0,
        From::Byte(v, n) => f.constant(v).map_or(0xff, |c| (c >> (8 * n)) as u8),
    }
}

/// What a function of three bytes gives, by its truth table, where that is one of them or zero.
fn logic(f: &Func, table: u8, of: [From; 3]) -> Option<From> {
    // The values of each input that there may be, as those of a bit: all ones, all zeros, or either.
    let fixed = of.map(|b| match b {
        From::Zero => Some(false),
        From::Byte(v, n) => match f.constant(v).map(|c| (c >> (8 * n)) as u8) {
            Some(0) => Some(false),
            Some(0xff) => Some(true),
            _ => None,
        },
    });
    let rows = (0..8u8).filter(|row| (0..3).all(|k| fixed[k].is_none_or(|on| on == (row >> (2 - k) & 1 != 0))));
    let is = |want: &dyn Fn(u8) -> bool| rows.clone().all(|row| (table >> row & 1 != 0) == want(row));
    if is(&|_| false) {
        return Some(From::Zero);
    }
    (0..3).find(|&k| fixed[k].is_none() && is(&|row| row >> (2 - k) & 1 != 0)).map(|k| of[k])
}

/// The words of which one permutation makes these bytes: two, or one and zeros.
fn inputs(f: &Func, word: &Word) -> Option<SmallVec<[Value; 2]>> {
    let mut words: SmallVec<[Value; 2]> = SmallVec::new();
    let mut zero = false;
    for from in word {
        match from {
            From::Zero => zero = true,
            From::Byte(v, _) if f.ty(*v) != Ty::B32 => return None,
            From::Byte(v, _) if words.contains(v) => {}
            From::Byte(v, _) => words.push(*v),
        }
    }
    (words.len() + usize::from(zero) <= 2).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::eval;
    use rustc_hash::FxHashMap;
    use std::fmt::Write;
    use testkit::Random;

    /// A function of the words v1 to v3 that stores what `body` leaves in the values named last.
    fn function(body: &str, stored: &str) -> Func {
        let params: String = (1..4).map(|n| format!("v{n}:b32 = param {{bytes=4 imm={}}}\n", 8 * n)).collect();
        let source = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\n{params}{body}store v0, {stored} {{space=global bytes=4}}\nexit\n}}"
        );
        text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}")).remove(0)
    }

    /// What a function stores first, of these words.
    fn stored(f: &Func, words: [u32; 3]) -> u32 {
        let mut values: FxHashMap<Value, u64> = FxHashMap::default();
        for &i in &f.blocks[0].insts {
            let inst = f.inst(i);
            let args: Vec<u64> = inst.args.iter().map(|a| *values.get(a).unwrap_or(&0)).collect();
            let v = match inst.op {
                Op::Param => words.get((inst.imm as usize / 8).wrapping_sub(1)).map_or(0, |&w| u64::from(w)),
                Op::Store => return args[1] as u32,
                Op::Const => inst.imm as u64,
                Op::Prmt => {
                    let pair = args[0] & 0xffff_ffff | args[1] << 32;
                    let byte = |choice: u64| {
                        let byte = pair >> (8 * (choice & 7)) & 0xff;
                        if choice & 8 != 0 { 0xff * (byte >> 7) } else { byte }
                    };
                    (0..4).map(|n| byte(args[2] >> (4 * n) & 15) << (8 * n)).sum()
                }
                op => {
                    let types: Vec<Ty> = inst.args.iter().map(|&a| f.ty(a)).collect();
                    eval::eval(op, inst.attr, &types, &args, f.ty(inst.results[0])).unwrap()
                }
            };
            values.insert(inst.results[0], v);
        }
        unreachable!("it stores something")
    }

    /// The operations that are left, without constants.
    fn left(body: &str, last: &str) -> Vec<Op> {
        let mut f = function(body, last);
        run(&mut f);
        verify::verify(&f).unwrap();
        let ops = f.blocks[0].insts.iter().map(|&i| f.inst(i).op);
        ops.filter(|op| !matches!(op, Op::Param | Op::Const | Op::Store)).collect()
    }

    const SHIFTS: &str = "v4:b32 = const {imm=8}\nv5:b32 = const {imm=16}\nv6:b32 = const {imm=24}\nv7:b32 = const {imm=0}\nv8:b32 = const {imm=65280}\n\
        v9:b32 = const {imm=16711680}\nv10:b32 = const {imm=4278190080}\nv11:b32 = const {imm=255}\n";

    #[test]
    fn a_word_taken_apart_and_put_together_is_itself() {
        let body = format!(
            "{SHIFTS}v12:b32 = bfe v1, v7, v4\nv13:b32 = bfe v1, v4, v4\nv14:b32 = bfe v1, v5, v4\nv15:b32 = bfe v1, v6, v4\n\
             v16:b32 = shl v13, v4\nv17:b32 = lop3 v16, v8, v12 {{sub=226}}\nv18:b32 = shl v14, v5\nv19:b32 = lop3 v18, v9, v17 {{sub=226}}\n\
             v20:b32 = shl v15, v6\nv21:b32 = lop3 v20, v10, v19 {{sub=226}}\n"
        );
        assert_eq!(left(&body, "v21"), []);
    }

    #[test]
    fn bytes_of_two_words_are_permuted() {
        let body = format!("{SHIFTS}v12:b32 = shl v2, v4\nv13:b32 = lop3 v12, v8, v1 {{sub=226}}\n");
        assert_eq!(left(&body, "v13"), [Op::Prmt]);
        // Of four words each one is inserted by one permutation.
        let body = format!(
            "{body}v14:b32 = shl v3, v5\nv15:b32 = lop3 v14, v9, v13 {{sub=226}}\nv16:b32 = xor v1, v2\nv17:b32 = shl v16, v6\n\
             v18:b32 = lop3 v17, v10, v15 {{sub=226}}\n"
        );
        assert_eq!(left(&body, "v18"), [Op::Prmt, Op::Prmt, Op::Xor, Op::Prmt]);
        // A byte of a word, and the rest nothing.
        let body = format!(
            "{SHIFTS}v12:b32 = shr v1, v5\nv13:b32 = shl v12, v4\nv14:b32 = and v13, v8\nv15:b32 = and v1, v11\nv16:b32 = or v14, v15\n"
        );
        assert_eq!(left(&body, "v16"), [Op::Prmt]);
    }

    /// Places and lengths of fields are bytes: 256 is 0, 264 is 8.
    #[test]
    fn fields_begin_where_the_low_byte_says() {
        for (at, bits) in [(256, 8), (264, 264), (272, 8)] {
            let body = format!(
                "{SHIFTS}v12:b32 = const {{imm={at}}}\nv13:b32 = const {{imm={bits}}}\nv14:b32 = bfe v1, v12, v13\nv15:b32 = shl v14, v4\n\
                 v16:b32 = and v2, v11\nv17:b32 = or v15, v16\n"
            );
            let mut f = function(&body, "v17");
            run(&mut f);
            let words = [0x0123_4567, 0x89ab_cdef, 0];
            assert_eq!(stored(&f, words), (words[0] >> (at & 0xff) & 0xff) << 8 | 0xef, "{at}");
        }
    }

    #[test]
    fn what_is_one_instruction_stays() {
        let one = |op: &str| left(&format!("{SHIFTS}v12:b32 = {op}\n"), "v12").len();
        for op in ["shl v1, v4", "and v1, v8", "bfe v1, v4, v4", "lop3 v1, v8, v2 {sub=226}"] {
            assert_eq!(one(op), 1, "{op}");
            assert_ne!(left(&format!("{SHIFTS}v12:b32 = {op}\n"), "v12"), [Op::Prmt], "{op}");
        }
        // The shift is read elsewhere: it would stay.
        let body = format!(
            "{SHIFTS}v12:b32 = shl v2, v4\nv13:b32 = lop3 v12, v8, v1 {{sub=226}}\nstore v0, v13 {{space=global bytes=4}}\n"
        );
        assert_eq!(left(&body, "v12"), [Op::Shl, Op::Lop3]);
    }

    #[test]
    fn results_are_the_same() {
        let masks = [0xff, 0xff00, 0xffff, 0xff00_00ff, 0x00ff_ff00, 0xff_0000, 0xf0, u32::MAX, 0x1234_5678];
        let (mut fewer, mut random) = (0, Random(5));
        for _ in 0..4000 {
            let (mut body, mut last) = (String::new(), 3);
            let constant = |body: &mut String, last: &mut usize, k: u32| {
                *last += 1;
                writeln!(body, "v{last}:b32 = const {{imm={k}}}").unwrap();
                *last
            };
            let mut words = vec![1, 2, 3];
            for _ in 0..2 + random.index(8) {
                let mut any = || words[random.index(words.len()).max(random.index(words.len()))];
                let (a, b) = (any(), any());
                let amount = [8, 16, 24, 0, 4, 12, 32][random.index(7)];
                let mask = masks[random.index(masks.len())];
                let op = match random.index(9) {
                    0 => format!("shl v{a}, v{}", constant(&mut body, &mut last, amount)),
                    1 => format!("shr v{a}, v{}", constant(&mut body, &mut last, amount)),
                    2 => format!("and v{a}, v{}", constant(&mut body, &mut last, mask)),
                    3 => {
                        let (at, bits) = (constant(&mut body, &mut last, amount), constant(&mut body, &mut last, 8));
                        format!("bfe v{a}, v{at}, v{bits}")
                    }
                    4 => {
                        let choice = random.index(0x10000) as u32;
                        let choice = if random.index(4) > 0 { choice & 0x7777 } else { choice };
                        format!("prmt v{a}, v{b}, v{}", constant(&mut body, &mut last, choice))
                    }
                    5 => {
                        let table = [0xe2, 0xf8, 0xea, 0xca, 0xc0, 0x96][random.index(6)];
                        format!("lop3 v{a}, v{}, v{b} {{sub={table}}}", constant(&mut body, &mut last, mask))
                    }
                    6 => format!("iadd v{a}, v{b}"),
                    n => format!("{} v{a}, v{b}", ["or", "xor"][n - 7]),
                };
                last += 1;
                writeln!(body, "v{last}:b32 = {op}").unwrap();
                words.push(last);
            }
            let old = function(&body, &format!("v{last}"));
            let mut new = old.clone();
            run(&mut new);
            verify::verify(&new).unwrap();
            fewer += usize::from(new.blocks[0].insts.len() < old.blocks[0].insts.len());
            for words in [[0x0123_4567, 0x89ab_cdef, 0xfedc_ba98], [u32::MAX, 0x8040_2010, 0x7fff_0180]] {
                assert_eq!(stored(&new, words), stored(&old, words), "{body}");
            }
        }
        assert!(fewer > 1000, "{fewer}");
    }
}
