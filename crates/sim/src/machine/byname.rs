//! Memory accesses and branches by what their text says: the forms of the chips differ in where the fields lie and how
//! they are called, not in what the names mean. Every word of a name must be known.

use super::decode::{Decoder, Result, float_atom, gap, integer_atom, pred};
use super::program::*;
use super::seen::Seen;
use crate::num::fp::min_max;
use crate::num::soft::F32;
use sass::form::{Piece, SlotKind, SlotName as S, Suffix};
use sass::reg::File;

/// Words that say where something is cached or how an access is ordered.
const HINTS: [&str; 25] = [
    "E",
    "SYS",
    "CONSTANT",
    "STRONG",
    "WEAK",
    "GPU",
    "CTA",
    "SM",
    "VC",
    "PRIVATE",
    "MMIO",
    "EF",
    "EL",
    "LU",
    "EU",
    "NA",
    "LTC64B",
    "LTC128B",
    "LTC256B",
    "DEFER_BLOCKING",
    "BYPASS",
    "ACCESS",
    "NOINC",
    "NODEC",
    "RN",
];

/// Words of a name, without the mnemonic and without hints.
fn words(inst: &Seen<'_>) -> Vec<String> {
    let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
    let name = text.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or_default();
    name.split('.').skip(1).filter(|w| !HINTS.contains(w)).map(str::to_string).collect()
}

pub(super) fn known(left: &[String]) -> Result<()> {
    if left.is_empty() { Ok(()) } else { gap(left.join(".")) }
}

/// Takes a word out of a list.
pub(super) fn take(words: &mut Vec<String>, word: &str) -> bool {
    let at = words.iter().position(|w| w == word);
    at.map(|at| words.remove(at)).is_some()
}

pub(super) fn size(words: &mut Vec<String>) -> (u8, bool) {
    for (word, size, sign) in
        [("U8", 1, false), ("S8", 1, true), ("U16", 2, false), ("S16", 2, true), ("64", 8, false), ("128", 16, false)]
    {
        if take(words, word) {
            return (size, sign);
        }
    }
    (4, false)
}

impl Decoder<'_> {
    /// The n-th address of an instruction, as its text shows it. `wide`: one without a suffix has 64 bits.
    fn shown_address(&mut self, inst: &Seen<'_>, n: usize, wide: bool) -> Result<Addr> {
        let form = inst.form();
        let mut all = form.syntax.iter().filter_map(|p| match p {
            Piece::Address(slots, suffix, _) => Some((slots, suffix)),
            _ => None,
        });
        let Some((slots, suffix)) = all.nth(n) else {
            // `[UR4+0x8]`: a uniform pair alone.
            if n > 0
                || !wide
                || !form.slots.iter().any(|s| s.name == S::URc)
                || form.slots.iter().any(|s| s.name == S::Ra)
            {
                return gap("no address");
            }
            let pair = [self.src(inst, S::URc)?, self.word(inst, S::URc, 1)?];
            let offset = Self::imm(inst, S::Imm).unwrap_or(0);
            return Ok(Addr { low: self.k(0), high: None, uniform: None, wide: Some(pair), scale: 1, offset });
        };
        let suffix = match suffix {
            Suffix::Text(t) => t,
            Suffix::Mod(m) => {
                let field = &form.mods[*m as usize];
                field.values.get(inst.modifier(field.name) as usize).copied().flatten().unwrap_or_default()
            }
        };
        let zero = self.k(0);
        let mut addr = Addr { low: zero, high: None, uniform: None, wide: None, scale: 1, offset: 0 };
        let mut scale = 1;
        let wide = match suffix.trim_start_matches('.') {
            "" => wide,
            "64" => true,
            "U32" | "32" => false,
            "X4" | "X8" | "X16" => {
                scale = suffix.trim_start_matches('.')[1..].parse().unwrap_or(1);
                false
            }
            other => return gap(format!("the address {other}")),
        };
        for &slot in slots.iter() {
            let name = form.slots[slot as usize].name;
            match form.slots[slot as usize].kind {
                SlotKind::Reg(File::Gpr) => {
                    addr.low = self.src(inst, name)?;
                    addr.high = if wide { Some(self.word(inst, name, 1)?) } else { None };
                }
                SlotKind::Reg(File::Ugpr) => {
                    let u = self.src(inst, name)?;
                    if u != zero && (wide || suffix.contains("U32")) {
                        addr.wide = Some([u, self.word(inst, name, 1)?]);
                    } else if u != zero {
                        addr.uniform = Some(u);
                    }
                }
                SlotKind::Imm { .. } => addr.offset = Self::imm(inst, name).unwrap_or(0),
                _ => return gap("this address"),
            }
        }
        addr.scale = scale;
        Ok(addr)
    }

    /// What an instruction does, by its text; the reason why not, if it is not known.
    pub(super) fn by_name(&mut self, inst: &Seen<'_>) -> Result<Exec> {
        let form = inst.form();
        let mut words = words(inst);
        let w = &mut words;
        let mnemonic = form.mnemonic;
        let space = match mnemonic {
            "LDG" | "STG" | "ATOMG" | "RED" | "REDG" => Space::Global,
            "LDS" | "STS" | "ATOMS" => Space::Shared,
            "LDL" | "STL" => Space::Local,
            _ => Space::Generic,
        };
        let wide = matches!(space, Space::Global | Space::Generic);
        let exec = match mnemonic {
            "WARPSYNC" => {
                let mask = match Self::imm(inst, S::Mask) {
                    Some(mask) => self.k(mask as u32),
                    None if inst.slot(S::Rb).is_some() => self.src(inst, S::Rb)?,
                    None => return gap("this form"),
                };
                take(w, "EXCLUSIVE");
                Exec::WarpSync { p: Self::p(inst, S::Pp), who: Meeting::Mask(mask) }
            }
            "CALL" | "RET" if take(w, "ABS") => {
                if inst.slot(S::Ra).is_none() {
                    let Some(&to) = self.image.calls.get(&self.pc) else { return gap("a target that nothing tells") };
                    let (low, high) = (self.k(to as u32), self.k((to >> 32) as u32));
                    let p = Self::p(inst, S::Pp);
                    inst.all();
                    return Ok(Exec::Jump { p, low, high: Some(high), base: 0 });
                }
                let base = Self::imm(inst, S::Offset).unwrap_or(0);
                let (low, high) = (self.src(inst, S::Ra)?, self.word(inst, S::Ra, 1)?);
                Exec::Jump { p: Self::p(inst, S::Pp), low, high: Some(high), base }
            }
            "CALL" | "RET" if !take(w, "REL") => return gap("this form"),
            "LEPC" => {
                let slot = form.slots.iter().find(|s| s.kind == SlotKind::Target).map(|s| s.name);
                let here = match slot {
                    Some(slot) => self.target(inst, slot)?,
                    None => self.pc,
                };
                let (low, zero) = (self.k(16 * here), self.k(0));
                return self.pair_of_words(inst, [low, zero]);
            }
            "DEPBAR" => {
                let waits = Self::imm(inst, S::Waits).unwrap_or(0);
                let counted = Self::imm(inst, S::Sb).unwrap_or(0);
                let pending = Self::imm(inst, S::Pending);
                take(w, "LE");
                let also = if pending == Some(0) || counted != 0 && pending.is_none() { 1 << counted } else { 0 };
                let (groups, all_but) = match pending {
                    // Groups of copies count on the first scoreboard.
                    Some(n) if counted == 0 => (Some(n as u32), None),
                    Some(n) if n > 0 => (None, Some((counted as u8, n as u32))),
                    _ => (None, None),
                };
                Exec::WaitFor { scoreboards: (waits | also) as u8, groups, all_but }
            }
            "BMOV" => {
                let bar = form.slots.iter().find(|s| s.kind == SlotKind::Reg(File::Bar)).map(|s| s.name);
                let Some(b) = bar.map(|b| Self::gpr(inst, b)) else { return gap("this form") };
                take(w, "32");
                let quad = take(w, "PQUAD");
                let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
                match text.split_whitespace().collect::<Vec<_>>()[..] {
                    [.., "MACTIVE"] => Exec::ActiveOut { b },
                    [.., "MACTIVE,", _] => Exec::ActiveIn { b, quad },
                    _ => return gap("this state"),
                }
            }
            "NANOSLEEP" => {
                inst.all();
                return Ok(Exec::Yield);
            }
            "QSPC" => {
                let Some(space) = [("G", 0), ("L", 1), ("S", 2)].into_iter().find(|s| take(w, s.0)) else {
                    return gap("this space");
                };
                let addr = self.shown_address(inst, 0, true)?;
                let (p, d) = (Self::p(inst, S::Pu), Self::dst(inst, S::Rd));
                Exec::Qspc { addr, space: space.1, p, d }
            }
            "CCTL" | "CCTLL" => {
                inst.all();
                return Ok(Exec::Nop);
            }
            "HGMMA" | "IGMMA" | "QGMMA" | "BGMMA" => return self.gmma(inst),
            "TEX" | "TLD" | "TLD4" | "TXD" | "TXQ" => return self.texture(inst, w),
            "SULD" | "SUST" | "SURED" => return self.surface(inst, w),
            "WARPGROUP" => {
                if take(w, "ARRIVE") {
                    Exec::GroupArrive
                } else if take(w, "DEPBAR") && take(w, "LE") {
                    let n = form.slots.iter().find(|s| matches!(s.kind, SlotKind::Imm { .. })).map(|s| s.name);
                    let Some(n) = n.and_then(|n| Self::imm(inst, n)) else { return gap("no count") };
                    Exec::GroupWait(n as u32)
                } else {
                    return gap("this form");
                }
            }
            "CREDUX" => {
                let ops =
                    [("MAX", true, false), ("MAXABS", true, true), ("MIN", false, false), ("MINABS", false, true)];
                let Some((_, max, abs)) = ops.into_iter().find(|op| take(w, op.0)) else {
                    return gap("this operation");
                };
                let (signed, float, nan) = (take(w, "S32"), take(w, "F32"), take(w, "NAN"));
                if abs && !float {
                    return gap("this operation");
                }
                let least = move |a: u32, b: u32| min_max(&F32, max, nan, a as u64, b as u64) as u32;
                let f: ReduceFn = match (float, signed, max) {
                    (true, ..) => Box::new(least),
                    (_, true, true) => Box::new(|a, b| (a as i32).max(b as i32) as u32),
                    (_, true, false) => Box::new(|a, b| (a as i32).min(b as i32) as u32),
                    (_, _, true) => Box::new(u32::max),
                    (_, _, false) => Box::new(u32::min),
                };
                let each: Option<fn(u32) -> u32> = match (float, abs) {
                    (true, true) => {
                        Some(|x| min_max(&F32, true, false, x as u64 & 0x7fff_ffff, x as u64 & 0x7fff_ffff) as u32)
                    }
                    (true, false) => Some(|x| min_max(&F32, true, false, x as u64, x as u64) as u32),
                    _ => None,
                };
                Exec::Redux { d: Self::dst(inst, S::Rd), a: self.src(inst, S::Ra)?, each, f }
            }
            "MOVM" => {
                let widens = take(w, "U4TO8") && take(w, "M832");
                let turns = !widens && take(w, "16") && take(w, "MT88");
                if !widens && !turns {
                    return gap("this shape");
                }
                Exec::Movm { d: Self::gpr(inst, S::Rd), a: self.src(inst, S::Ra)?, widens }
            }
            "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UTMAPF" => self.tensor_copy(inst, w)?,
            "UTMACCTL" => {
                inst.all();
                return Ok(Exec::Fence);
            }
            "UBLKRED" => return self.bulk_reduction(inst, w),
            "LDGMC" => {
                // One device: what is combined is one value.
                if !["ADD", "F32ADD", "HPADD", "MIN", "MAX", "AND", "OR", "XOR"].into_iter().any(|op| take(w, op)) {
                    return gap("this operation");
                }
                let sizes: [(&str, u8); 21] = [
                    ("32", 4),
                    ("U32", 4),
                    ("S32", 4),
                    ("64", 8),
                    ("U64", 8),
                    ("S64", 8),
                    ("F16", 4),
                    ("BF16", 4),
                    ("F16x2", 4),
                    ("BF16x2", 4),
                    ("F16x4", 8),
                    ("BF16x4", 8),
                    ("F16x8", 16),
                    ("BF16x8", 16),
                    ("F32", 4),
                    ("F32x2", 8),
                    ("F32x4", 16),
                    ("F64", 8),
                    ("BF16_V2", 4),
                    ("BF16x4_V2", 8),
                    ("BF16x8_V2", 16),
                ];
                let Some((_, size)) = sizes.into_iter().find(|s| take(w, s.0)) else { return gap("this type") };
                let addr = self.shown_address(inst, 0, true)?;
                let d = Self::gpr(inst, S::Rd);
                Exec::Load(Load { space: Space::Global, addr, size, sign: false, d, strong: true, poll: false })
            }
            "USETMAXREG" if take(w, "CTAPOOL") => {
                // There are always enough: who asks for what it may not have is told by the interpreter of PTX.
                let granted = Self::p(inst, S::Pu);
                if take(w, "DEALLOC") {
                    inst.all();
                    return Ok(Exec::Nop);
                }
                if !take(w, "TRY_ALLOC") {
                    return gap("this form");
                }
                inst.all();
                let (zero, f): (_, AluFn) = (self.k(0), Box::new(|_, o| o.p = [u32::MAX; 2]));
                let pout = [granted, Pred::TRUE];
                return Ok(Exec::Alu { s: [zero; 6], n: 0, pin: [Pred::TRUE; 3], d: Dst::None, nd: 0, pout, f });
            }
            "BRA" | "CALL" | "RET" => {
                let target = form.slots.iter().find(|s| s.kind == SlotKind::Target).map(|s| s.name);
                let Some(target) = target else { return gap("no target") };
                let (p, target) = (Self::p(inst, S::Pp), self.target(inst, target)?);
                // Of a uniform predicate: where Pp is true as ever, the plain branch.
                if take(w, "U") && p != Pred::TRUE {
                    return gap("two predicates");
                }
                let (diverged, converged) = (take(w, "DIV"), take(w, "CONV"));
                if diverged || converged {
                    if p != Pred::TRUE {
                        return gap("two predicates");
                    }
                    let inv = inst.with_flags(S::UR).is_some_and(|o| o.inv);
                    let mask = self.word(inst, S::UR, 0)?;
                    Exec::BraDiv { converged, mask, inv, target }
                } else if inst.slot(S::Ra).is_some() {
                    Exec::Jump { p, low: self.src(inst, S::Ra)?, high: None, base: target as i64 * 16 }
                } else {
                    Exec::Bra { p, target }
                }
            }
            "BAR" => {
                let kind = w.first().cloned().unwrap_or_default();
                let (wait, red) = match kind.as_str() {
                    "SYNC" => (true, None),
                    "ARV" => (false, None),
                    _ => return gap(kind),
                };
                w.remove(0);
                let Some(id) = Self::imm(inst, S::Bar) else { return gap("a barrier in a register") };
                let id = self.k(id as u32);
                let count = match Self::imm(inst, S::Count) {
                    None | Some(0) => None,
                    Some(n) => Some(self.k(n as u32)),
                };
                Exec::Bar { id, packed: false, count, wait, red }
            }
            "P2R" | "R2P" => return gap("this form"),
            "LD" | "LDG" | "LDS" | "LDL" => {
                if Self::p(inst, S::Pu) != Pred::TRUE {
                    return gap("a predicate result");
                }
                // Without effect on what is loaded.
                take(w, "U");
                let (size, sign) = size(w);
                let addr = self.shown_address(inst, 0, wide)?;
                Exec::Load(Load { space, addr, size, sign, d: Self::gpr(inst, S::Rd), strong: false, poll: false })
            }
            "ST" | "STG" | "STS" | "STL" => {
                let (size, _) = size(w);
                let addr = self.shown_address(inst, 0, wide)?;
                let s = (0..(size as u32).div_ceil(4)).map(|n| self.word(inst, S::Rb, n)).collect::<Result<_>>()?;
                Exec::Store(Store { space, addr, size, s })
            }
            "ATOM" | "ATOMG" | "ATOMS" | "RED" | "REDG" => self.atom_by_name(inst, space, w)?,
            "LDGSTS" => {
                let (size, _) = size(w);
                let partial = take(w, "ZFILL");
                let to = self.shown_address(inst, 0, false)?;
                let from = match self.shown_address(inst, 1, true) {
                    Ok(found) => found,
                    Err(_) => {
                        let low = self.src(inst, S::Ra)?;
                        let high = Some(self.word(inst, S::Ra, 1)?);
                        let offset = Self::imm(inst, S::ImmB).or(Self::imm(inst, S::ImmAt32)).unwrap_or(0);
                        Addr { low, high, uniform: None, wide: None, scale: 1, offset }
                    }
                };
                Exec::Copy(AsyncCopy { to, from, size, partial, p: Self::p(inst, S::Pp) })
            }
            "LDSM" | "STSM" => {
                if !take(w, "16") {
                    return gap("this width");
                }
                let trans = take(w, "MT88");
                if !trans && !take(w, "M88") {
                    return gap("this shape");
                }
                let count = [("4", 4), ("2", 2)].into_iter().find(|c| take(w, c.0)).map_or(1, |c| c.1);
                let addr = self.shown_address(inst, 0, false)?;
                let load = mnemonic == "LDSM";
                let r = Self::gpr(inst, if load { S::Rd } else { S::Rb });
                Exec::Matrix { load, trans, addr, r, count }
            }
            _ => {
                let op = super::named::op(inst, w)?;
                return self.operation(inst, op);
            }
        };
        known(w)?;
        form.mods.iter().for_each(|m| {
            inst.modifier(m.name);
        });
        Ok(exec)
    }

    fn tensor_copy(&mut self, inst: &Seen<'_>, w: &mut Vec<String>) -> Result<Exec> {
        let mnemonic = inst.form().mnemonic;
        take(w, "L2");
        let Some(dims) = (1..=5u8).find(|n| take(w, &format!("{n}D"))) else { return gap("this rank") };
        let (im2col, multicast) = (take(w, "IM2COL"), take(w, "MULTICAST"));
        let ops = ["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"];
        let reduce = ops.iter().position(|op| take(w, op)).map(|n| n as u8);
        let map = [self.word(inst, S::URa, 0)?, self.word(inst, S::URa, 1)?];
        let more = if inst.slot(S::URc).is_some() { Some(self.src(inst, S::URc)?) } else { None };
        if mnemonic == "UTMAPF" {
            known(w)?;
            inst.all();
            return Ok(Exec::Nop);
        }
        if (mnemonic == "UTMAREDG") != reduce.is_some() {
            return gap("this operation");
        }
        let load = mnemonic == "UTMALDG";
        let words = 1 + load as u32 + dims as u32;
        let words = (0..words).map(|n| self.word(inst, S::UR, n)).collect::<Result<_>>()?;
        inst.slot(S::UregAt40);
        Ok(Exec::Tensor(Box::new(Tensor { load, dims, im2col, multicast, reduce, words, map, more })))
    }

    /// A product of a warpgroup: `HGMMA.64x8x16.F32 R24, -R28, gdesc[UR4].tnspB, R24, UP0, gsb0`.
    fn gmma(&mut self, inst: &Seen<'_>) -> Result<Exec> {
        let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
        let name = text.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or_default().to_string();
        let Some(op) = super::gmma::parse(&name, self.image.sm) else { return gap(name) };
        let operands: Vec<&str> = text.split(", ").map(str::trim).collect();
        let Some(descriptor) = operands.iter().find(|o| o.contains("gdesc[")) else { return gap("no descriptor") };
        let mut flags: Vec<String> =
            descriptor.rsplit(']').next().unwrap_or_default().split('.').skip(1).map(str::to_string).collect();
        let f = &mut flags;
        let transposed = (take(f, "tnspA"), take(f, "tnspB"));
        let (mut negate_a, negate_b) = (take(f, "negA"), take(f, "negB"));
        known(f)?;
        let in_registers = inst.inst().slot(S::Ra).is_some();
        let a = if in_registers {
            negate_a ^= inst.with_flags(S::Ra).is_some_and(|o| o.neg);
            Some(Self::gpr(inst, S::Ra))
        } else {
            None
        };
        let slot = if in_registers { S::UR } else { S::URa };
        let descriptors = [0, 1, 2, 3].map(|n| self.word(inst, slot, n));
        let [Ok(d0), Ok(d1), Ok(d2), Ok(d3)] = descriptors else { return gap("no descriptor") };
        let c = Some(Self::gpr(inst, S::Rc)).filter(|&c| c != 255);
        let meta = match op.sparse {
            true => Some((self.src(inst, S::RegAt40)?, Self::imm(inst, S::ImmAt48).unwrap_or(0) as u8)),
            false => None,
        };
        inst.modifiers();
        Ok(Exec::Gmma(Box::new(super::gmma::Gmma {
            op,
            d: Self::gpr(inst, S::Rd),
            c,
            scale: Self::p(inst, S::Pp),
            a,
            descriptors: [d0, d1, d2, d3],
            meta,
            negated: (negate_a, negate_b),
            transposed,
            commits: operands.iter().any(|o| o.starts_with("gsb")),
        })))
    }

    /// Two words into a pair of registers.
    fn pair_of_words(&mut self, inst: &Seen<'_>, [low, high]: [Src; 2]) -> Result<Exec> {
        let f: AluFn = Box::new(|i, o| (o.r[0], o.r[1]) = (*i.s[0], *i.s[1]));
        let d = Self::dst(inst, S::Rd);
        let s = [low, high, low, low, low, low];
        Ok(Exec::Alu { s, n: 2, pin: [Pred::TRUE; 3], d, nd: 2, pout: [Pred::TRUE; 2], f })
    }

    /// `UBLKRED.G.S.ADD.F16.RN`
    fn bulk_reduction(&mut self, inst: &Seen<'_>, w: &mut Vec<String>) -> Result<Exec> {
        let to_shared = match w.first().map(String::as_str) {
            Some("G") => false,
            Some("S") => true,
            _ => return gap("this target"),
        };
        w.remove(0);
        if !take(w, "S") && !to_shared {
            return gap("this source");
        }
        let ops = ["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"];
        let Some(op) = ops.iter().position(|op| take(w, op)) else { return gap("this operation") };
        let reduce = reduction(op as u8, w)?;
        known(w)?;
        inst.modifiers();
        let pair = |d: &mut Self, slot| -> Result<[Src; 2]> { Ok([d.word(inst, slot, 0)?, d.word(inst, slot, 1)?]) };
        let (to, from) = (pair(self, S::UR)?, pair(self, S::URa)?);
        let size = self.src(inst, S::URc)?;
        let (from_shared, multicast, reduce) = (true, false, Some(reduce));
        Ok(Exec::Bulk(Box::new(BulkCopy { to, from, size, to_shared, from_shared, multicast, reduce })))
    }

    fn atom_by_name(&mut self, inst: &Seen<'_>, space: Space, w: &mut Vec<String>) -> Result<Exec> {
        use sass::enums::atomftype as ft;
        let addr = match self.shown_address(inst, 0, space != Space::Shared) {
            Ok(found) => found,
            Err(_) => self.addr(inst, S::Ra, S::Imm, true)?,
        };
        if take(w, "ARRIVE") {
            if !take(w, "64") {
                return gap("this type");
            }
            let d = Self::gpr(inst, S::Rd);
            let d = if d == 255 { Dst::None } else { Dst::R(d) };
            let (what, b) = (SyncsOp::Plain, [self.k(0); 2]);
            let p = Pred::TRUE;
            return Ok(Exec::Syncs(Box::new(Syncs { what, addr, d, p, b, mask: false, once: false })));
        }
        if take(w, "128") {
            let four = |d: &mut Self, slot| -> Result<[Src; 4]> {
                Ok([d.word(inst, slot, 0)?, d.word(inst, slot, 1)?, d.word(inst, slot, 2)?, d.word(inst, slot, 3)?])
            };
            let b = four(self, S::Rb)?;
            let c = match (take(w, "CAS"), take(w, "EXCH")) {
                (true, _) => Some(four(self, S::Rc)?),
                (_, true) => None,
                _ => return gap("this operation"),
            };
            if inst.get(S::Pu).is_some_and(|p| pred(p) != Pred::TRUE) {
                return gap("a predicate result");
            }
            return Ok(Exec::Exchange128 { space, addr, d: Self::gpr(inst, S::Rd), b, c });
        }
        if take(w, "POPC") {
            // It counts the lanes that add one.
            if !take(w, "INC") || !take(w, "32") {
                return gap("this operation");
            }
            let f: AtomFn = Box::new(|o, _, _| (o as u32).wrapping_add(1) as u64);
            let (zero, d) = (self.k(0), Self::gpr(inst, S::Rd));
            let (b, c, p) = ([zero; 2], [zero; 2], Pred::TRUE);
            return Ok(Exec::Atom(vec![Atom { space, addr, size: 4, d, p, b, c, f, result: AtomResult::Old }]));
        }
        // CAST tells whether it has swapped, and is repeated in a loop.
        let cast = take(w, "CAST");
        take(w, "SPIN");
        let swap = take(w, "CAS") || cast;
        let op = ["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR", "EXCH"].iter().position(|op| take(w, op));
        let ftz = take(w, "FTZ");
        let float = [
            ("F16x2", ft::F16X2_RN),
            ("F16x4", ft::F16X4_RN),
            ("F16x8", ft::F16X8_RN),
            ("BF16x2", ft::BF16X2_RN),
            ("BF16x4", ft::BF16X4_RN),
            ("BF16x8", ft::BF16X8_RN),
            ("F32", if ftz { ft::F32_FTZ_RN } else { ft::F32_RN }),
            ("F32x2", if ftz { ft::F32X2_FTZ_RN } else { ft::F32X2_RN }),
            ("F32x4", if ftz { ft::F32X4_FTZ_RN } else { ft::F32X4_RN }),
            ("F64", ft::F64_RN),
        ];
        let float = float.into_iter().find(|f| take(w, f.0)).map(|f| f.1);
        let signed = take(w, "S32") || take(w, "S64");
        let long = take(w, "64") || take(w, "U64") || inst.inst().slot_width(inst.slot(S::Rb).unwrap_or(0)) == 2;
        let (size, f): (u8, AtomFn) = match (float, op) {
            (Some(t), Some(op)) => float_atom(op as u8, t)?,
            (None, Some(op)) => {
                let bits = if long { 64 } else { 32 };
                (bits / 8, integer_atom(op as u8, bits, signed)?)
            }
            (None, None) if swap => (if long { 8 } else { 4 }, Box::new(|o, b, c| if o == b { c } else { o })),
            _ => return gap("this operation"),
        };
        let zero = self.k(0);
        let mut pair = |slot: S| -> Result<[Src; 2]> {
            Ok([self.word(inst, slot, 0)?, if size == 8 { self.word(inst, slot, 1)? } else { zero }])
        };
        let b = pair(S::Rb)?;
        let c = if swap { pair(S::Rc)? } else { [zero; 2] };
        let p = inst.get(S::Pu).map_or(Pred::TRUE, pred);
        let d = Self::gpr(inst, S::Rd);
        let result = if cast { AtomResult::Success } else { AtomResult::Old };
        let mut list = vec![Atom { space, addr, size, d, p, b, c, f, result }];
        if let (Some(t @ (ft::F16X8_RN | ft::BF16X8_RN | ft::F32X4_RN | ft::F32X4_FTZ_RN)), Some(op)) = (float, op) {
            // The upper half is an operation of its own.
            let (_, f) = float_atom(op as u8, t)?;
            let b = [self.word(inst, S::Rb, 2)?, self.word(inst, S::Rb, 3)?];
            let addr = Addr { offset: addr.offset + 8, ..addr };
            let d = if d == 255 { 255 } else { d.wrapping_add(2) };
            list.push(Atom { space, addr, size, d, p: Pred::TRUE, b, c, f, result });
        }
        Ok(Exec::Atom(list))
    }
}

/// The operation of a reduction on memory by the words for its type, and the bytes of an element.
pub(super) fn reduction(op: u8, w: &mut Vec<String>) -> Result<(AtomFn, u8)> {
    use sass::enums::atomftype as ft;
    let ftz = take(w, "FTZ");
    for (word, t, bytes) in [
        ("F16", ft::F16X2_RN, 2),
        ("BF16", ft::BF16X2_RN, 2),
        ("BF16_V2", ft::BF16X2_RN, 2),
        ("F16x2", ft::F16X2_RN, 4),
        ("BF16x2", ft::BF16X2_RN, 4),
        ("F32", if ftz { ft::F32_FTZ_RN } else { ft::F32_RN }, 4),
        ("F64", ft::F64_RN, 8),
    ] {
        if take(w, word) {
            return Ok((float_atom(op, t)?.1, bytes));
        }
    }
    let (bits, signed) =
        [("S32", 32, true), ("U64", 64, false), ("S64", 64, true), ("64", 64, false), ("U32", 32, false)]
            .into_iter()
            .find(|t| take(w, t.0))
            .map_or((32, false), |t| (t.1, t.2));
    Ok((integer_atom(op, bits, signed)?, bits / 8))
}
