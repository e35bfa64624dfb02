//! `wmma`: matrices that a warp loads, multiplies and stores.
//!
//! PTX does not say which thread holds what; here it is what the vendor's compiler does, so that fragments may cross
//! calls between code of both: those of `mma`, with as many tiles of 8 columns (16 rows) as the shape has. `m8n32k16` is
//! the product of the transposed matrices: B lies as A would, and the sums are transposed; but not bytes where the machine takes 8 rows of
//! them.

use super::matrix::{Plan, Shape, rounding, shape};
use super::{Lower, Res};
use crate::ir::{Attr, Mem, MemSpace, Op, Sreg, Ty, Value};
use ptx::isa::Mod;
use ptx::module::Inst;
use ptx::types::ScalarType as T;

/// Which matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    A,
    B,
    Sum,
}

/// Where the elements of one register lie: `major` counts from lane / 4, `minor` from `each` times lane % 4; `pack`
/// elements that follow each other along `minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    major: u32,
    minor: u32,
}

/// A fragment: the pieces in the order of the registers.
struct Fragment {
    pieces: Vec<Piece>,
    /// Elements in a register.
    pack: u32,
    /// Distance along `minor` from one thread of a group of four to the next.
    each: u32,
    /// Bits of an element.
    bits: u32,
    /// `minor` runs along the rows of the matrix as it is stored `.row`: elements that follow each other in memory.
    along_rows: bool,
}

/// True if the product is that of the transposed matrices; `tall`: the machine takes 16 rows of bytes.
fn turned(s: Shape, t: T, tall: bool) -> bool {
    s.m == 8 && s.n == 32 && (tall || !t.is_int())
}

fn fragment(s: Shape, t: T, part: Part, tall: bool) -> Fragment {
    let bits = t.bits();
    let transposed = turned(s, t, tall);
    if part == Part::Sum {
        let (majors, minors) = if transposed { (s.n, s.m) } else { (s.m, s.n) };
        let pack = if t == T::F16 { 2 } else { 1 };
        let mut pieces = Vec::new();
        // Tiles of up to 16 by 8: pairs of elements of a row, then the row eight further down.
        for tile in 0..(majors.div_ceil(16)) * (minors / 8) {
            let (row, column) = if majors > 16 { (16 * tile, 0) } else { (0, 8 * tile) };
            for half in 0..majors.min(16) / 8 {
                for i in (0..2).step_by(pack as usize) {
                    pieces.push(Piece { major: row + 8 * half, minor: column + i });
                }
            }
        }
        return Fragment { pieces, pack, each: 2, bits, along_rows: !transposed };
    }
    let pack = 32 / bits.min(32);
    let majors = if part == Part::A { s.m } else { s.n };
    // The operand of 16 rows has halves of rows within steps of k; that of 8 columns has its steps of k in order.
    let left = (part == Part::A) != transposed;
    let steps = s.k / (4 * pack);
    let mut pieces = Vec::new();
    let tall = if left { 16.min(majors) } else { 8 };
    for tile in 0..majors / tall {
        for step in 0..steps {
            for half in 0..tall / 8 {
                pieces.push(Piece { major: tall * tile + 8 * half, minor: 4 * pack * step });
            }
        }
    }
    Fragment { pieces, pack, each: pack, bits, along_rows: part == Part::A }
}

impl Lower<'_, '_> {
    pub(super) fn wmma(&mut self, x: &Inst) -> Res {
        if x.has(Mod::Load) {
            self.wmma_load(x)
        } else if x.has(Mod::Store) {
            self.wmma_store(x)
        } else {
            self.wmma_mma(x)
        }
    }

    /// Bytes from one row (column) in memory to the next, behind the address that is operand `at`; `width` elements where none is given.
    fn stride(&mut self, x: &Inst, at: usize, bits: u32, width: u32, ty: Ty) -> Res<Value> {
        let stride = match x.operands.get(at + 1 + (at == 0) as usize) {
            Some(o) => {
                let o = o.clone();
                self.src(&o, Ty::B32, x.span)?
            }
            None => self.konst(Ty::B32, width as u64),
        };
        let stride = self.b().resize(stride, ty, false);
        let scale = |s: &mut Self, v: Value, up: bool, by: u32| {
            if by == 0 {
                return v;
            }
            let n = s.konst(Ty::B32, by as u64);
            s.op(if up { Op::Shl } else { Op::Shr }, &[v, n], ty)
        };
        let shift = bits.trailing_zeros();
        let stride =
            if shift >= 3 { scale(self, stride, true, shift - 3) } else { scale(self, stride, false, 3 - shift) };
        Ok(stride)
    }

    /// The lane's share of an address: where element (lane / 4, each * (lane % 4)) lies, and the bytes of a step along
    /// `major` and `minor`.
    fn fragment_base(&mut self, x: &Inst, at: usize, f: &Fragment, by_rows: bool, width: u32) -> Res<Place> {
        let a = self.mem_operand(x, at)?;
        let (space, base, offset) = self.address(x, a, x.space())?;
        let ty = self.f.ty(base);
        let stride = self.stride(x, at, f.bits, width, ty)?;
        let sub = Sreg::Laneid as u8;
        let lane = self.one(Op::Sreg, Attr { sub, ..Attr::default() }, &[], Ty::B32);
        let (two, three) = (self.konst(Ty::B32, 2), self.konst(Ty::B32, 3));
        let group = self.same(Op::Shr, &[lane, two]);
        let thread = self.same(Op::And, &[lane, three]);
        let (group, thread) = (self.b().resize(group, ty, false), self.b().resize(thread, ty, false));
        let minor_first = f.along_rows == by_rows;
        let small = (f.each * f.bits / 8).max(1);
        let (slow, fast, fast_bytes) = if minor_first { (group, thread, small) } else { (thread, group, f.bits / 8) };
        let slow = if minor_first || f.each == 1 {
            slow
        } else {
            let each = self.konst(ty, f.each as u64);
            self.same(Op::IMul, &[slow, each])
        };
        let slow = self.op(Op::IMul, &[slow, stride], ty);
        let fast_bytes = self.konst(ty, fast_bytes as u64);
        let fast = self.same(Op::IMul, &[fast, fast_bytes]);
        let sum = self.same(Op::IAdd, &[base, slow]);
        let base = self.same(Op::IAdd, &[sum, fast]);
        Ok(Place { space, base, offset, stride, minor_first, rows: Vec::new() })
    }

    /// The address of element `plus` of a piece: a value and a constant offset.
    fn element_at(&mut self, p: &mut Place, piece: Piece, plus: u32, bits: u32) -> (Value, i64) {
        let minor = piece.minor + plus;
        let (slow, fast) = if p.minor_first { (piece.major, minor) } else { (minor, piece.major) };
        let base = match p.rows.iter().find(|r| r.0 == slow) {
            _ if slow == 0 => p.base,
            Some(r) => r.1,
            None => {
                let ty = self.f.ty(p.base);
                let n = self.konst(ty, slow as u64);
                let d = self.same(Op::IMul, &[p.stride, n]);
                let v = self.same(Op::IAdd, &[p.base, d]);
                p.rows.push((slow, v));
                v
            }
        };
        (base, p.offset + (fast * bits / 8) as i64)
    }

    /// The machine takes 16 rows of bytes at once.
    fn tall(&self) -> bool {
        arch::units(self.cx.layout.sm).sixteen_rows_of_bytes
    }

    fn wmma_load(&mut self, x: &Inst) -> Res {
        let (Some(s), Some(part)) = (shape(x), part(x)) else { return self.unsupported(x) };
        let f = fragment(s, x.ty(), part, self.tall());
        let by_rows = x.has(Mod::Row);
        let width = leading(s, part, by_rows);
        if let Some(blocks) = blocks(&f, part, by_rows)
            && let Some(values) = self.load_blocks(x, &f, &blocks, width)?
        {
            return self.write_fragment(x, &values);
        }
        let mut p = self.fragment_base(x, 1, &f, by_rows, width)?;
        let mut values = Vec::new();
        let pairs = in_pairs(&f, part, &p);
        for (n, &piece) in f.pieces.iter().enumerate() {
            if pairs {
                if n % 2 == 0 {
                    let (base, offset) = self.element_at(&mut p, piece, 0, f.bits);
                    let mem = Mem { space: p.space, bytes: 8, ..Mem::default() };
                    let id = self.b().push(Op::Load, Attr::default(), mem, offset, &[base], &[Ty::B64]);
                    let v = self.f.inst(id).results[0];
                    let (lo, hi) = self.b().halves(v);
                    values.extend([lo, hi]);
                }
                continue;
            }
            let whole = p.minor_first || f.pack == 1;
            let bytes = if whole { f.pack * f.bits / 8 } else { f.bits / 8 };
            let ty = if bytes == 8 { Ty::B64 } else { Ty::B32 };
            let mem = Mem { space: p.space, bytes: bytes as u8, ..Mem::default() };
            let mut word: Option<Value> = None;
            for j in 0..if whole { 1 } else { f.pack } {
                let (base, offset) = self.element_at(&mut p, piece, j, f.bits);
                let id = self.b().push(Op::Load, Attr::default(), mem, offset, &[base], &[ty]);
                let v = self.f.inst(id).results[0];
                word = Some(match word {
                    None => v,
                    Some(w) => {
                        let n = self.konst(Ty::B32, (j * f.bits) as u64);
                        let v = self.op(Op::Shl, &[v, n], Ty::B32);
                        self.same(Op::Or, &[w, v])
                    }
                });
            }
            values.extend(word);
        }
        self.write_fragment(x, &values)
    }

    /// Writes what was loaded. Fragments of f16 have registers beyond what there is to hold: they repeat it.
    fn write_fragment(&mut self, x: &Inst, values: &[Value]) -> Res {
        let count = x.operands.first().map_or(0, |o| self.vector_operands(o).len());
        let held = values.len().max(1);
        let values: Vec<Value> = (0..count).filter_map(|i| values.get(i % held).copied()).collect();
        self.write_all(x, 0, &values)
    }

    /// The registers of a fragment in shared memory, by `ldmatrix`: lanes 8n to 8n + 7 give the addresses of the rows of block n. `None` for
    /// other memory.
    fn load_blocks(&mut self, x: &Inst, f: &Fragment, blocks: &Blocks, width: u32) -> Res<Option<Vec<Value>>> {
        let a = self.mem_operand(x, 1)?;
        let (space, base, offset) = self.address(x, a, x.space())?;
        if space != MemSpace::Shared {
            return Ok(None);
        }
        let stride = self.stride(x, 1, f.bits, width, Ty::B32)?;
        let base = self.b().resize(base, Ty::B32, false);
        let sub = Sreg::Laneid as u8;
        let lane = self.one(Op::Sreg, Attr { sub, ..Attr::default() }, &[], Ty::B32);
        let part = |s: &mut Self, mask: u32| {
            let mask = s.konst(Ty::B32, mask as u64);
            s.same(Op::And, &[lane, mask])
        };
        // The number of a block in its group is bits 3 and 4 of the lane's.
        let mut row = part(self, 7);
        let mut column = None;
        for (bit, &(rows, bytes)) in blocks.steps.iter().enumerate() {
            let mut here = part(self, 8 << bit);
            let (step, have) = (rows + bytes, 8 << bit);
            if step != have {
                here = self.shifted(here, 1, step > have);
            }
            if bytes > 0 {
                column = Some(column.map_or(here, |old| self.same(Op::IAdd, &[old, here])));
            } else {
                row = self.same(Op::Or, &[row, here]);
            }
        }
        let rows = self.same(Op::IMul, &[row, stride]);
        let mut base = self.same(Op::IAdd, &[base, rows]);
        if let Some(column) = column {
            base = self.same(Op::IAdd, &[base, column]);
        }
        let attr = Attr { sub: blocks.turned as u8, ..Attr::default() };
        let mem = Mem { space: MemSpace::Shared, bytes: 16, ..Mem::default() };
        let mut values = Vec::new();
        for &(row, column) in &blocks.groups {
            let at = match row {
                0 => base,
                _ => {
                    let n = self.konst(Ty::B32, row as u64);
                    let down = self.same(Op::IMul, &[stride, n]);
                    self.same(Op::IAdd, &[base, down])
                }
            };
            let types = vec![Ty::B32; 1 << blocks.steps.len()];
            let id = self.b().push(Op::LdMatrix, attr, mem, offset + column as i64, &[at], &types);
            values.extend(self.f.inst(id).results.iter().copied());
        }
        Ok(Some(values))
    }

    fn wmma_store(&mut self, x: &Inst) -> Res {
        let Some(s) = shape(x) else { return self.unsupported(x) };
        let f = fragment(s, x.ty(), Part::Sum, self.tall());
        let by_rows = x.has(Mod::Row);
        let mut p = self.fragment_base(x, 0, &f, by_rows, leading(s, Part::Sum, by_rows))?;
        let values = self.values(x, 1)?;
        let pairs = in_pairs(&f, Part::Sum, &p);
        for (n, (&piece, &v)) in f.pieces.iter().zip(&values).enumerate() {
            if pairs {
                if let (0, Some(&next)) = (n % 2, values.get(n + 1)) {
                    let both = self.op(Op::Pack, &[v, next], Ty::B64);
                    let (base, offset) = self.element_at(&mut p, piece, 0, f.bits);
                    let mem = Mem { space: p.space, bytes: 8, ..Mem::default() };
                    self.b().push(Op::Store, Attr::default(), mem, offset, &[base, both], &[]);
                }
                continue;
            }
            let whole = p.minor_first || f.pack == 1;
            let bytes = if whole { f.pack * f.bits / 8 } else { f.bits / 8 };
            let mem = Mem { space: p.space, bytes: bytes as u8, ..Mem::default() };
            for j in 0..if whole { 1 } else { f.pack } {
                let (base, offset) = self.element_at(&mut p, piece, j, f.bits);
                let v = match j {
                    0 => v,
                    _ => {
                        let n = self.konst(Ty::B32, (j * f.bits) as u64);
                        self.op(Op::Shr, &[v, n], Ty::B32)
                    }
                };
                self.b().push(Op::Store, Attr::default(), mem, offset, &[base, v], &[]);
            }
        }
        Ok(())
    }

    fn wmma_mma(&mut self, x: &Inst) -> Res {
        let t = x.types();
        let Some(s) = shape(x) else { return self.unsupported(x) };
        // With halves the types are those of D and C alone.
        let (d, a, b, c) = match t[..] {
            [d, c] => (d, T::F16, T::F16, c),
            [d, a, b, c] => (d, a, b, c),
            _ => return self.unsupported(x),
        };
        let (va, vb, vc) = (self.values(x, 1)?, self.values(x, 2)?, self.values(x, 3)?);
        let transposed = turned(s, a, self.tall());
        let (left, right, tl, tr) = if transposed { (vb, va, b, a) } else { (va, vb, a, b) };
        let (rows, columns) = if transposed { (s.n, s.m) } else { (s.m, s.n) };
        let tile = Shape { m: rows.min(16), n: 8, k: s.k };
        let words = |t: T, e: u32| (e * t.bits() / 32 / 32).max(1) as usize;
        let (na, nb) = if a == T::F64 { (1, 1) } else { (words(tl, tile.m * s.k), words(tr, 8 * s.k)) };
        let sums = |t: T| (tile.m * 8 / 32) as usize / if t == T::F16 { 2 } else { 1 };
        // The machine has sums of one type: wider ones, if C or D is wide.
        let wide = if d == T::F16 && c == T::F16 { T::F16 } else { if d == T::F16 { c } else { d } };
        let plan = Plan {
            shape: tile,
            a: tl,
            b: tr,
            d: wide,
            sat: x.has(Mod::Satfinite),
            xor: x.has(Mod::Xor),
            rnd: rounding(x),
            sparse: None,
        };
        let mut out = Vec::new();
        for n in 0..(rows / tile.m) * (columns / 8) {
            let (i, j) = if rows > 16 { (n as usize, 0) } else { (0, n as usize) };
            let (Some(a), Some(b)) = (left.get(i * na..(i + 1) * na), right.get(j * nb..(j + 1) * nb)) else {
                return self.unsupported(x);
            };
            let per = sums(c);
            let Some(c_part) = vc.get(n as usize * per..(n as usize + 1) * per) else { return self.unsupported(x) };
            let c_part = if wide != c { self.widened(c_part) } else { c_part.to_vec() };
            let Some(done) = self.product(&plan, a, b, &c_part, None) else { return self.unsupported(x) };
            out.extend(if wide != d { self.narrowed(&done) } else { done });
        }
        self.write_all(x, 0, &out)
    }

    /// Pairs of halves as single floats.
    fn widened(&mut self, pairs: &[Value]) -> Vec<Value> {
        use crate::ir::Fmt;
        let attr = Attr { fmt: Fmt::F32, fmt2: Fmt::F16, ..Attr::default() };
        let mut out = Vec::new();
        for &v in pairs {
            let (lo, hi) = self.b().halves(v);
            out.push(self.one(Op::F2F, attr, &[lo], Ty::B32));
            out.push(self.one(Op::F2F, attr, &[hi], Ty::B32));
        }
        out
    }

    /// Single floats as pairs of halves.
    fn narrowed(&mut self, words: &[Value]) -> Vec<Value> {
        use crate::ir::Fmt;
        let attr = Attr { fmt: Fmt::F16x2, fmt2: Fmt::F32, ..Attr::default() };
        words.chunks_exact(2).map(|w| self.one(Op::F2FPack, attr, &[w[1], w[0]], Ty::B32)).collect()
    }
}

/// A fragment as blocks of eight rows of 16 bytes, a register each, in groups of one, two or four that are read at once.
struct Blocks {
    /// For each bit of the number of a block in its group, where it leads: rows further down (8 or 16), or bytes along the rows (16).
    steps: Vec<(u32, u32)>,
    /// Where groups begin: row, byte of the row.
    groups: Vec<(u32, u32)>,
    /// The elements of a register are one below the other in memory, not beside each other.
    turned: bool,
}

/// The blocks of a fragment, if they can be read at once: elements of 16 bits, or of 8 that are beside each other. The vendor's compiler
/// reads these so; of others it does not take rows to begin at 16 bytes.
fn blocks(f: &Fragment, part: Part, by_rows: bool) -> Option<Blocks> {
    let turned = f.along_rows != by_rows;
    if part == Part::Sum || !matches!((f.bits, turned), (16, _) | (8, false)) {
        return None;
    }
    // Row and byte of each piece in memory.
    let place = |p: &Piece| match turned {
        false => (p.major, p.minor * f.bits / 8),
        true => (p.minor, p.major * f.bits / 8),
    };
    let places: Vec<(u32, u32)> = f.pieces.iter().map(place).collect();
    let size = [4, 2, 1].into_iter().find(|&n| places.len().is_multiple_of(n))?;
    let step = |n: usize| {
        let step = (places[n].0.checked_sub(places[0].0)?, places[n].1.checked_sub(places[0].1)?);
        matches!(step, (8 | 16, 0) | (0, 16)).then_some(step)
    };
    let steps: Vec<(u32, u32)> = [1, 2].into_iter().filter(|&n| n < size).map(step).collect::<Option<_>>()?;
    let at = |n: usize, from: (u32, u32)| {
        let taken = steps.iter().enumerate().filter(|(bit, _)| n >> bit & 1 != 0);
        taken.fold(from, |at, (_, step)| (at.0 + step.0, at.1 + step.1))
    };
    let regular = places.chunks(size).all(|g| (0..size).all(|n| g[n] == at(n, g[0])));
    regular.then(|| Blocks { steps, groups: places.chunks(size).map(|g| g[0]).collect(), turned })
}

/// Where a fragment lies in memory.
struct Place {
    space: MemSpace,
    base: Value,
    offset: i64,
    /// Bytes from one row (column) to the next.
    stride: Value,
    minor_first: bool,
    /// Addresses of rows (columns) that were needed before.
    rows: Vec<(u32, Value)>,
}

/// Sums of 32 bits that lie beside each other in pairs: the matrix begins at 32 bytes, and its rows at 16 (the vendor's compiler takes it so).
fn in_pairs(f: &Fragment, part: Part, p: &Place) -> bool {
    part == Part::Sum && f.pack == 1 && f.bits == 32 && p.minor_first
}

fn part(x: &Inst) -> Option<Part> {
    if x.has(Mod::A) {
        Some(Part::A)
    } else if x.has(Mod::B) {
        Some(Part::B)
    } else if x.has(Mod::C) {
        Some(Part::Sum)
    } else {
        None
    }
}

/// Elements from one row (column) to the next, where the instruction does not say.
fn leading(s: Shape, part: Part, by_rows: bool) -> u32 {
    let (rows, columns) = match part {
        Part::A => (s.m, s.k),
        Part::B => (s.k, s.n),
        Part::Sum => (s.m, s.n),
    };
    if by_rows { columns } else { rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of a matrix is held once (f64 and packed ones too).
    #[test]
    fn fragments_cover_the_matrix() {
        let shapes = [(16, 16, 16), (8, 32, 16), (32, 8, 16)];
        let mut cases = Vec::new();
        for (m, n, k) in shapes {
            for t in [T::F16, T::BF16, T::U8] {
                cases.push((Shape { m, n, k }, t, if t == T::U8 { T::S32 } else { T::F32 }));
            }
            cases.push((Shape { m, n, k }, T::F16, T::F16));
        }
        cases.push((Shape { m: 16, n: 16, k: 8 }, T::TF32, T::F32));
        cases.push((Shape { m: 8, n: 8, k: 4 }, T::F64, T::F64));
        cases.push((Shape { m: 8, n: 8, k: 32 }, T::U4, T::S32));
        cases.push((Shape { m: 8, n: 8, k: 128 }, T::B1, T::S32));
        for ((s, t, sum), tall) in cases.iter().flat_map(|&c| [(c, true), (c, false)]) {
            for part in [Part::A, Part::B, Part::Sum] {
                let f = fragment(s, if part == Part::Sum { sum } else { t }, part, tall);
                let (majors, minors) = match (part, turned(s, t, tall)) {
                    (Part::A, _) => (s.m, s.k),
                    (Part::B, _) => (s.n, s.k),
                    (Part::Sum, false) => (s.m, s.n),
                    (Part::Sum, true) => (s.n, s.m),
                };
                let mut seen = vec![0; (majors * minors) as usize];
                for lane in 0..32 {
                    for p in &f.pieces {
                        for j in 0..f.pack {
                            let (a, b) = (p.major + lane / 4, p.minor + f.each * (lane % 4) + j);
                            seen[(a * minors + b) as usize] += 1;
                        }
                    }
                }
                assert!(seen.iter().all(|&n| n == 1), "{s:?} {t:?} {part:?}: {seen:?}");
            }
        }
    }
}
