//! Video instructions: scalar ones of bytes and halves, and those of two and four lanes. Section 9.7.18 of the PTX ISA.

use super::*;
use ptx::access::CmpOp;
use ptx::module::Select;

/// What is computed of two numbers.
type Binary = Box<dyn Fn(i64, i64) -> i64 + Send + Sync>;

/// An operand: its register, negation, and selection.
struct Picked {
    slot: Slot,
    negated: bool,
    select: Option<Select>,
}

/// The bits of a word's part as a number.
fn number(x: u64, bits: u32, signed: bool) -> i64 {
    if signed { sx(x, bits) } else { (x & mask(bits)) as i64 }
}

/// The number within a type of so many bits.
fn clamp(x: i64, bits: u32, signed: bool) -> i64 {
    match signed {
        true => x.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        false => x.clamp(0, (1 << bits) - 1),
    }
}

/// Bits of a selected part.
fn width(s: Option<Select>) -> u32 {
    s.map_or(32, |s| if s.halves { 16 } else { 8 })
}

/// The part that a scalar instruction selects.
fn part(x: u64, s: Option<Select>, signed: bool) -> i64 {
    let bits = width(s);
    number(x >> s.map_or(0, |s| bits * s.lanes[0] as u32), bits, signed)
}

fn relation(op: CmpOp) -> Option<fn(i64, i64) -> bool> {
    Some(match op {
        CmpOp::Eq => |a, b| a == b,
        CmpOp::Ne => |a, b| a != b,
        CmpOp::Lt => |a, b| a < b,
        CmpOp::Le => |a, b| a <= b,
        CmpOp::Gt => |a, b| a > b,
        CmpOp::Ge => |a, b| a >= b,
        _ => return None,
    })
}

/// `op2`: a second operation with c.
fn second(inst: &Inst) -> Option<fn(i64, i64) -> i64> {
    if inst.has(Mod::Add) {
        Some(|a, b| a.wrapping_add(b))
    } else if inst.has(Mod::Min) {
        Some(|a, b| a.min(b))
    } else if inst.has(Mod::Max) {
        Some(|a, b| a.max(b))
    } else {
        None
    }
}

impl Decoder<'_> {
    fn picked(&mut self, op: &Operand) -> Result<Picked> {
        Ok(match op {
            Operand::Part { reg, negated, select } if self.is_value(*reg, None) => {
                Picked { slot: self.reg(*reg, None), negated: *negated, select: Some(*select) }
            }
            Operand::NegReg(reg) if self.is_value(*reg, None) => {
                Picked { slot: self.reg(*reg, None), negated: true, select: None }
            }
            other => Picked { slot: self.src(other, T::B32)?, negated: false, select: None },
        })
    }

    pub(super) fn video(&mut self, inst: &Inst) -> Result<Exec> {
        use Op::*;
        let ops = inst.operands;
        if ops.len() < 3 {
            return gap("operands are missing");
        }
        let to = match &ops[0] {
            Operand::Part { reg, select, .. } => (self.reg(*reg, None), Some(*select)),
            other => (self.dst(other)?, None),
        };
        let (a, b) = (self.picked(&ops[1])?, self.picked(&ops[2])?);
        let c = ops.get(3).map(|c| self.picked(c)).transpose()?;
        let zero = self.constant(0);
        let s = [a.slot, b.slot, c.as_ref().map_or(zero, |c| c.slot), zero];
        let types = inst.types();
        let set = matches!(inst.op, Vset | Vset2 | Vset4);
        let (dt, at, bt) = match types.as_slice() {
            [a, b] if set => (T::U32, *a, *b),
            [d, a, b] => (*d, *a, *b),
            _ => return gap("these types"),
        };
        let signs = (dt.is_signed(), at.is_signed(), bt.is_signed());
        let sat = inst.has(Mod::Sat);
        let wrap = inst.has(Mod::Wrap);
        let amount = move |b: i64| if wrap { b & 31 } else { (b as u32).min(32) as i64 };
        let op: Binary = match inst.op {
            Vadd | Vadd2 | Vadd4 => Box::new(|a, b| a + b),
            Vsub | Vsub2 | Vsub4 => Box::new(|a, b| a - b),
            Vabsdiff | Vabsdiff2 | Vabsdiff4 => Box::new(|a, b| (a - b).abs()),
            Vmin | Vmin2 | Vmin4 => Box::new(|a, b| a.min(b)),
            Vmax | Vmax2 | Vmax4 => Box::new(|a, b| a.max(b)),
            Vavrg2 | Vavrg4 => Box::new(|a, b| (a + b + (a + b >= 0) as i64) >> 1),
            Vshl => Box::new(move |a, b| a << amount(b)),
            Vshr => Box::new(move |a, b| a >> amount(b)),
            Vset | Vset2 | Vset4 => {
                let holds = inst.cmp().and_then(relation).ok_or("no comparison")?;
                Box::new(move |a, b| holds(a, b) as i64)
            }
            Vmad => return self.vmad(inst, to.0, s, [&a, &b, c.as_ref().ok_or("an operand is missing")?], (at, bt)),
            _ => return gap(""),
        };
        let lanes = match inst.op {
            Vadd2 | Vsub2 | Vabsdiff2 | Vmin2 | Vmax2 | Vavrg2 | Vset2 => 2,
            Vadd4 | Vsub4 | Vabsdiff4 | Vmin4 | Vmax4 | Vavrg4 | Vset4 => 4,
            _ => 1,
        };
        let f: AluFn = if lanes == 1 {
            let op2 = second(inst);
            if to.1.is_some() && c.is_none() {
                return gap("a part of a destination without a source for the rest");
            }
            let (sa, sb, sd) = (a.select, b.select, to.1);
            l3(move |a, b, c| {
                let mut t = op(part(a, sa, signs.1), part(b, sb, signs.2));
                if sat {
                    t = clamp(t, width(sd), signs.0);
                }
                let r = match (op2, sd) {
                    (Some(f), _) => f(number(t as u64, 32, signs.0), number(c, 32, signs.0)) as u64,
                    (None, Some(s)) => {
                        let (bits, at) = (width(sd), width(sd) * s.lanes[0] as u32);
                        (c & !(mask(bits) << at)) | (t as u64 & mask(bits)) << at
                    }
                    (None, None) => t as u64,
                };
                r & 0xffff_ffff
            })
        } else {
            let bits = 32 / lanes;
            // Lane i of an operand comes from this part of the pair (a, b).
            let order = |s: Option<Select>, first: u32| -> [u32; 4] {
                std::array::from_fn(|i| match s {
                    Some(s) if (i as u32) < lanes => s.lanes[lanes as usize - 1 - i] as u32,
                    _ => first + i as u32,
                })
            };
            let (pa, pb) = (order(a.select, 0), order(b.select, lanes));
            let written = match to.1 {
                Some(s) => s.lanes[..s.count as usize].iter().fold(0u32, |m, &l| m | 1 << l),
                None => (1 << lanes) - 1,
            };
            let add = inst.has(Mod::Add);
            l3(move |a, b, c| {
                let pair = (a & 0xffff_ffff) | b << 32;
                let (mut merged, mut sum) = (c, c);
                for i in (0..lanes).filter(|i| written >> i & 1 != 0) {
                    let x = number(pair >> (bits * pa[i as usize]), bits, signs.1);
                    let y = number(pair >> (bits * pb[i as usize]), bits, signs.2);
                    let mut t = op(x, y);
                    if sat {
                        t = clamp(t, bits, signs.0);
                    }
                    let at = bits * i;
                    merged = (merged & !(mask(bits) << at)) | (t as u64 & mask(bits)) << at;
                    sum = sum.wrapping_add(t as u64);
                }
                (if add { sum } else { merged }) & 0xffff_ffff
            })
        };
        Ok(Exec::Alu { d: to.0, s, n: 3, f })
    }

    fn vmad(&mut self, inst: &Inst, d: Slot, s: [Slot; 4], [a, b, c]: [&Picked; 3], (at, bt): (T, T)) -> Result<Exec> {
        let signed = at.is_signed() || bt.is_signed() || a.negated != b.negated || c.negated;
        let (minus, minus_c) = (a.negated != b.negated, c.negated);
        let (po, sat) = (inst.has(Mod::Po), inst.has(Mod::Sat));
        let shift = if inst.has(Mod::Shr7) { 7 } else { 15 * inst.has(Mod::Shr15) as u32 };
        let (sa, sb) = (a.select, b.select);
        let f = l3(move |a, b, c| {
            let mut t = part(a, sa, at.is_signed()) as i128 * part(b, sb, bt.is_signed()) as i128;
            let mut c = number(c, 32, signed) as i128;
            let mut one = 0;
            if po {
                one = 1;
            } else if minus {
                (t, one) = (!t, 1);
            } else if minus_c {
                (c, one) = (!c, 1);
            }
            t = (t + c + one) >> shift;
            if sat {
                t = match signed {
                    true => t.clamp(i32::MIN as i128, i32::MAX as i128),
                    false => t.clamp(0, u32::MAX as i128),
                };
            }
            t as u32 as u64
        });
        Ok(Exec::Alu { d, s, n: 3, f })
    }
}
