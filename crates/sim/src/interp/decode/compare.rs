//! Comparisons, selections by table, carries.

use super::*;

impl Decoder<'_> {
    pub(super) fn with(&mut self, inst: &Inst, at: usize) -> Result<Option<(PRef, Combine)>> {
        match (inst.bool_op(), inst.operands.get(at)) {
            (Some(op), Some(c)) => Ok(Some((self.psrc(c)?, combine(op)))),
            _ => Ok(None),
        }
    }

    pub(super) fn relation(&self, inst: &Inst, t: T, shift: u32) -> Result<CmpFn> {
        let op = inst.cmp().ok_or("no comparison")?;
        if let Some(f) = float::format(t) {
            return Ok(float::relation(f, op, inst.ftz(), shift));
        }
        if t.bits() > 64 || t == T::Pred {
            return gap("this type");
        }
        Ok(float::int_relation(op, t.bits(), t.is_signed()))
    }

    pub(super) fn setp(&mut self, inst: &Inst) -> Result<Exec> {
        let t = inst.ty();
        let ops = &inst.operands;
        if ops.len() < 3 {
            return gap("operands are missing");
        }
        let (p, q) = match &ops[0] {
            Operand::Pair(pair) => (self.pdst(&pair.0)?, self.pdst(&pair.1)?),
            one => (self.pdst(one)?, None),
        };
        let s = [self.src(&ops[1], t)?, self.src(&ops[2], t)?];
        let with = self.with(inst, 3)?;
        if matches!(t, T::F16x2 | T::BF16x2) {
            // p for the low, q for the high halves: two comparisons.
            if with.is_some_and(|(c, _)| Some(c.slot) == p) {
                return gap("a predicate that is both source and destination");
            }
            let guard = inst.guard.map_or(PRef::TRUE, |g| PRef { slot: self.regs[g.reg.index()].0, neg: g.negated });
            let low = Exec::Compare { p, q: None, s, f: self.relation(inst, t, 0)?, with };
            if p.is_some_and(|p| p == guard.slot) {
                return gap("a predicate that is both guard and destination");
            }
            self.p.code.push(Ins { guard, exec: low, span: inst.span, line: self.line });
            return Ok(Exec::Compare { p: q, q: None, s, f: self.relation(inst, t, 16)?, with });
        }
        Ok(Exec::Compare { p, q, s, f: self.relation(inst, t, 0)?, with })
    }

    pub(super) fn set(&mut self, inst: &Inst) -> Result<Exec> {
        let types = inst.types();
        let (Some(&dt), Some(&st)) = (types.first(), types.get(1)) else { return gap("types are missing") };
        let yes = match dt {
            T::U32 | T::S32 | T::B32 => 0xffff_ffff,
            T::U16 | T::S16 => 0xffff,
            T::F32 => 0x3f80_0000,
            T::F16 | T::F16x2 => 0x3c00,
            T::BF16 | T::BF16x2 => 0x3f80,
            _ => return gap("this type"),
        };
        let s = [self.src(inst.operands.get(1).ok_or("")?, st)?, self.src(inst.operands.get(2).ok_or("")?, st)?];
        let with = self.with(inst, 3)?;
        if matches!(st, T::F16x2 | T::BF16x2) {
            let f = [self.relation(inst, st, 0)?, self.relation(inst, st, 16)?];
            return Ok(Exec::ComparePair { d: self.dst(&inst.operands[0])?, s, f, with, yes: yes & 0xffff });
        }
        Ok(Exec::CompareTo { d: self.dst(&inst.operands[0])?, s, f: self.relation(inst, st, 0)?, with, yes })
    }

    pub(super) fn lop3(&mut self, inst: &Inst) -> Result<Exec> {
        let ops = &inst.operands;
        let Some(Operand::Int(lut)) = ops.get(4) else { return gap("the table is no immediate") };
        let lut = *lut as u8;
        let f = l3(move |a, b, c| {
            let mut r = 0;
            for i in 0..8 {
                if lut >> i & 1 != 0 {
                    let x = if i & 4 != 0 { a } else { !a };
                    let y = if i & 2 != 0 { b } else { !b };
                    let z = if i & 1 != 0 { c } else { !c };
                    r |= x & y & z;
                }
            }
            r & 0xffff_ffff
        });
        let s = self.sources(inst, 1, 3)?;
        let Some(op) = inst.bool_op() else {
            return Ok(Exec::Alu { d: self.dst(&ops[0])?, s, n: 3, f });
        };
        let (d, p) = match &ops[0] {
            Operand::Pair(pair) => (self.dst(&pair.0)?, self.pdst(&pair.1)?),
            _ => return gap("a destination without a predicate"),
        };
        let c = self.psrc(ops.get(5).ok_or("")?)?;
        Ok(Exec::LopPred { d, p, s, f, c, op: combine(op) })
    }

    pub(super) fn carry(&mut self, inst: &Inst) -> Result<Exec> {
        let t = inst.ty();
        let (bits, signed) = (t.bits(), t.is_signed());
        let m = mask(bits);
        let reads = matches!(inst.op, Op::Addc | Op::Subc | Op::Madc);
        let writes = inst.has(Mod::Cc);
        let d = self.dst(&inst.operands[0])?;
        let add = move |a: u64, b: u64, c: bool| {
            let sum = (a & m) as u128 + (b & m) as u128 + c as u128;
            (sum as u64 & m, sum >> bits != 0)
        };
        let (n, f): (usize, CarryFn) = match inst.op {
            Op::Add | Op::Addc => (
                2,
                Box::new(move |s, cin, d| {
                    let mut out = 0;
                    for i in 0..32 {
                        let (r, c) = add(s[0][i], s[1][i], reads && cin >> i & 1 != 0);
                        d[i] = r;
                        out |= (c as u32) << i;
                    }
                    out
                }),
            ),
            // The flag is the adder's carry: 1 where nothing is borrowed (docs/ptx-notes.md).
            Op::Sub | Op::Subc => (
                2,
                Box::new(move |s, cin, d| {
                    let mut out = 0;
                    for i in 0..32 {
                        let (r, c) = add(s[0][i], !s[1][i], !reads || cin >> i & 1 != 0);
                        d[i] = r;
                        out |= (c as u32) << i;
                    }
                    out
                }),
            ),
            _ => {
                let hi = match inst.mods.iter().find_map(|&m| MulMode::from_mod(m)) {
                    Some(MulMode::Hi) => true,
                    Some(MulMode::Lo) => false,
                    _ => return gap(""),
                };
                let product = move |a: u64, b: u64| match (hi, signed) {
                    (false, _) => a.wrapping_mul(b) & m,
                    (true, true) => ((sx(a, bits) as i128 * sx(b, bits) as i128) >> bits) as u64 & m,
                    (true, false) => (((a & m) as u128 * (b & m) as u128) >> bits) as u64,
                };
                (
                    3,
                    Box::new(move |s, cin, d| {
                        let mut out = 0;
                        for i in 0..32 {
                            let (r, c) = add(product(s[0][i], s[1][i]), s[2][i], reads && cin >> i & 1 != 0);
                            d[i] = r;
                            out |= (c as u32) << i;
                        }
                        out
                    }),
                )
            }
        };
        Ok(Exec::Carry { d, s: self.sources(inst, 1, n)?, n: n as u8, f, reads, writes })
    }
}
