//! Textures and surfaces: by their text, which is that of all chips.

use super::*;
use crate::machine::byname::{known, size, take};
use crate::texture::Beyond;

/// What a geometry among the operands says: dimensions, cube, layers.
const GEOMETRIES: [(&str, usize, bool, bool); 7] = [
    ("1D", 1, false, false),
    ("2D", 2, false, false),
    ("3D", 3, false, false),
    ("CUBE", 3, true, false),
    ("ARRAY_1D", 1, false, true),
    ("ARRAY_2D", 2, false, true),
    ("ARRAY_CUBE", 3, true, true),
];

/// The registers of the operands of a texture instruction, one after the other.
struct Operands {
    /// First registers of A and B, and how many of those of A are used.
    a: u8,
    b: u8,
    left: u32,
    taken: u32,
}

impl Operands {
    fn new(a: u8, b: u8, left: u32) -> Operands {
        Operands { a, b, left, taken: 0 }
    }

    /// That of the next one.
    fn next(&mut self) -> u8 {
        let n = self.taken;
        self.taken += 1;
        if n < self.left { self.a.saturating_add(n as u8) } else { self.b.saturating_add((n - self.left) as u8) }
    }
}

impl Decoder<'_> {
    /// The handle: a word of a constant bank, a pair of uniform registers, or what is in a register.
    fn handle_words(&mut self, inst: &Seen<'_>) -> Result<Option<[Src; 2]>> {
        if let (Some(bank), Some(word)) = (Self::imm(inst, S::ImmAt54), Self::imm(inst, S::ImmAt40)) {
            let at = 4 * word as u64;
            let w = self.image.banks.get(bank as usize).and_then(|b| b.load(at, 4, "constant").ok());
            let Some(w) = w else { return gap(format!("c[{bank:#x}][{at:#x}] lies outside of the bank")) };
            return Ok(Some([self.k(w as u32), self.k(0)]));
        }
        if inst.slot(S::UregAt40).is_some() {
            if Self::imm(inst, S::ImmAt46).unwrap_or(0) != 0 {
                return gap("a number behind the handle");
            }
            // Before sm_90 the second word repeats what the first says of the sampler.
            return Ok(Some([self.word(inst, S::UregAt40, 0)?, self.word(inst, S::UregAt40, 1)?]));
        }
        Ok(None)
    }

    /// `TEX.SCR.B.LL.AOFFI.DC P0, Rc, Rd, Ra, Rb, 2D, 0xf` and the like.
    pub(in crate::machine) fn texture(&mut self, inst: &Seen<'_>, w: &mut Vec<String>) -> Result<Exec> {
        let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
        let operands: Vec<&str> = text.split([' ', ',']).filter(|t| !t.is_empty()).collect();
        let packed = take(w, "SCR");
        // The component of TLD4 comes before the B that says where the handle is.
        let mut component = None;
        if inst.form().mnemonic == "TLD4" {
            let first = w.iter().find_map(|t| ["R", "G", "B", "A"].iter().position(|c| c == t));
            component = first;
            first.iter().for_each(|&c| {
                take(w, ["R", "G", "B", "A"][c]);
            });
        }
        let in_register = take(w, "B");
        take(w, "NODEP");
        let words = self.handle_words(inst)?;
        if in_register != words.is_none() {
            return gap("this handle");
        }
        let what = match inst.form().mnemonic {
            "TEX" => TextureWhat::Sample,
            "TLD" => TextureWhat::Load,
            "TXD" => TextureWhat::Gradients,
            "TXQ" => TextureWhat::Sizes,
            _ => TextureWhat::Gather(component.ok_or("no component")?),
        };
        if what == TextureWhat::Sizes && !operands.contains(&"TEX_HEADER_DIMENSION") {
            return gap("this query");
        }
        let geometry = GEOMETRIES.iter().find(|g| operands.contains(&g.0));
        let &(_, dims, cube, layered) = match (geometry, what) {
            (Some(g), _) => g,
            (None, TextureWhat::Sizes) => &GEOMETRIES[0],
            _ => return gap("no geometry"),
        };
        let (by_level, zero) = (take(w, "LL"), take(w, "LZ"));
        // All four lanes of a quad compute, or the lanes need no others.
        take(w, "NDV");
        // The level is cut to those that there are.
        take(w, "CL");
        let (offset, compare, sample) = (take(w, "AOFFI"), take(w, "DC"), take(w, "MS"));
        let half = take(w, "F16").then(|| if take(w, "RZ") { Round::Rz } else { Round::Rn });
        known(w)?;
        let (a, b) = (Self::gpr(inst, S::Ra), Self::gpr(inst, S::Rb));
        let mut x = TextureOp {
            what,
            dims,
            cube,
            handle: words.map_or(HandleFrom::Register(255), HandleFrom::Words),
            layer: None,
            coordinates: [255; 3],
            // From sm_120 on kernels have no level of their own: what says none is the first one, as `.LL` of -32 was before.
            level: if zero || what != TextureWhat::Sample || self.image.sm >= 120 {
                LevelFrom::Zero
            } else {
                LevelFrom::Quad
            },
            offset: None,
            sample: None,
            compare: None,
            slopes: [[255; 3]; 2],
            half,
            mask: Self::imm(inst, S::ImmAt72).unwrap_or(15) as u8,
            d: [Self::gpr(inst, S::Rd), Self::gpr(inst, S::Rc)],
            p: Self::p(inst, S::Pu),
        };
        inst.all();
        match what {
            // Handle, level.
            TextureWhat::Sizes => {
                let mut o = Operands::new(a, b, u32::MAX);
                if in_register {
                    x.handle = HandleFrom::Register(o.next());
                }
                x.level = LevelFrom::Register(o.next());
            }
            // Handle, coordinates, layer with offsets in its upper half; slopes by coordinate.
            TextureWhat::Gradients => {
                let mut o = Operands::new(a, b, u32::MAX);
                if in_register {
                    x.handle = HandleFrom::Register(o.next());
                }
                x.coordinates[..dims].iter_mut().for_each(|c| *c = o.next());
                if layered || offset {
                    let r = o.next();
                    (x.layer, x.offset) = (layered.then_some(r), offset.then_some(r));
                }
                for i in 0..dims {
                    for (k, slope) in x.slopes.iter_mut().enumerate() {
                        slope[i] = b.saturating_add((2 * i + k) as u8);
                    }
                }
            }
            // Layer, coordinates, handle, level, offset, sample, depth. Where they are packed, which at most four are, the
            // first half of them is in A, elsewhere layer and coordinates.
            _ => {
                let needed = layered as u32 + dims as u32;
                let more = [in_register, by_level, offset, sample, compare];
                let total = needed + more.iter().filter(|&&b| b).count() as u32;
                if packed && total > 4 {
                    return gap("these operands");
                }
                let mut o = Operands::new(a, b, if packed { total.div_ceil(2) } else { needed });
                x.layer = layered.then(|| o.next());
                x.coordinates[..dims].iter_mut().for_each(|c| *c = o.next());
                if in_register {
                    x.handle = HandleFrom::Register(o.next());
                }
                if by_level {
                    x.level = LevelFrom::Register(o.next());
                }
                x.offset = offset.then(|| o.next());
                x.sample = sample.then(|| o.next());
                x.compare = compare.then(|| o.next());
            }
        }
        Ok(Exec::Texture(Box::new(x)))
    }

    /// `SULD.D.BA.2D.64.STRONG.SM.TRAP Rd, [Ra], handle` and the like.
    pub(in crate::machine) fn surface(&mut self, inst: &Seen<'_>, w: &mut Vec<String>) -> Result<Exec> {
        let mnemonic = inst.form().mnemonic;
        if Self::p(inst, S::Pu) != Pred::TRUE {
            return gap("a predicate result");
        }
        let (direct, formatted) = (take(w, "D"), take(w, "P"));
        if direct == formatted {
            return gap("this kind of access");
        }
        let by_bytes = take(w, "BA");
        let shapes =
            [("1D_ARRAY", 1, true), ("2D_ARRAY", 2, true), ("1D", 1, false), ("2D", 2, false), ("3D", 3, false)];
        let Some((_, dims, layered)) = shapes.into_iter().find(|s| take(w, s.0)) else { return gap("this geometry") };
        let beyond = match () {
            () if take(w, "TRAP") => Beyond::Trap,
            () if take(w, "IGN") => Beyond::Zero,
            () => Beyond::Clamp,
        };
        let handle = match self.handle_words(inst)? {
            Some([low, _]) => low,
            None => self.src(inst, S::Rc)?,
        };
        let a = Self::gpr(inst, S::Ra);
        let (size, what) = match mnemonic {
            "SULD" => {
                let (size, sign) = size(w);
                (size, SurfaceWhat::Load { d: Self::gpr(inst, S::Rd), sign })
            }
            "SUST" => {
                let (size, count) = match formatted {
                    true => (
                        4,
                        if take(w, "RG") {
                            2
                        } else if take(w, "R") {
                            1
                        } else {
                            4
                        },
                    ),
                    false => {
                        let (size, _) = size(w);
                        (size, (size as u32).div_ceil(4))
                    }
                };
                let s = (0..count).map(|n| self.word(inst, S::Rb, n)).collect::<Result<_>>()?;
                (size, SurfaceWhat::Store { s })
            }
            _ => {
                let ops = ["ADD", "MIN", "MAX", "INC", "DEC", "AND", "OR", "XOR"];
                let Some(op) = ops.iter().position(|op| take(w, op)) else { return gap("this operation") };
                // SD32, SD64: signed or not as the surface is.
                let types = [
                    ("SD32", 32, None),
                    ("SD64", 64, None),
                    ("S32", 32, Some(true)),
                    ("S64", 64, Some(true)),
                    ("U64", 64, Some(false)),
                ];
                let (bits, signed) = types.into_iter().find(|t| take(w, t.0)).map_or((32, Some(false)), |t| (t.1, t.2));
                let of = |signed: bool| integer_atom(op as u8, bits, signed);
                let f = [of(signed.unwrap_or(false))?, of(signed.unwrap_or(true))?];
                let zero = self.k(0);
                let s = [self.word(inst, S::Rb, 0)?, if bits == 64 { self.word(inst, S::Rb, 1)? } else { zero }];
                (bits / 8, SurfaceWhat::Reduce { s, f })
            }
        };
        known(w)?;
        inst.all();
        Ok(Exec::Surface(Box::new(SurfaceOp { what, handle, dims, layered, a, by_bytes, formatted, size, beyond })))
    }
}
