//! Memory accesses and branches by what their text says: the forms of the chips differ in where the fields lie and how
//! they are called, not in what the names mean. Every word of a name must be known.

use super::decode::{Decoder, Result, float_atom, gap, integer_atom, pred};
use super::program::*;
use super::seen::Seen;
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

fn known(left: &[String]) -> Result<()> {
    if left.is_empty() { Ok(()) } else { gap(left.join(".")) }
}

/// Takes a word out of a list.
fn take(words: &mut Vec<String>, word: &str) -> bool {
    let at = words.iter().position(|w| w == word);
    at.map(|at| words.remove(at)).is_some()
}

fn size(words: &mut Vec<String>) -> (u8, bool) {
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
            "CALL" | "RET" if !take(w, "REL") => return gap("this form"),
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
                    Exec::Jump { p, low: self.src(inst, S::Ra)?, base: target as i64 * 16 }
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
            _ => return gap(""),
        };
        known(w)?;
        form.mods.iter().for_each(|m| {
            inst.modifier(m.name);
        });
        Ok(exec)
    }

    fn atom_by_name(&mut self, inst: &Seen<'_>, space: Space, w: &mut Vec<String>) -> Result<Exec> {
        use sass::enums::atomftype as ft;
        let addr = self.shown_address(inst, 0, space != Space::Shared)?;
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
            ("BF16x2", ft::BF16X2_RN),
            ("F32", if ftz { ft::F32_FTZ_RN } else { ft::F32_RN }),
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
        Ok(Exec::Atom(vec![Atom { space, addr, size, d, p, b, c, f, result }]))
    }
}
