//! Reads of textures, accesses to surfaces.
//!
//! A handle is an operand of the whole warp, in a uniform register: [`expand::handles`](crate::expand::handles) has seen to it
//! that the threads that come here together have the same.

use super::operand::ZERO;
use super::{Regs, Sel};
use crate::chips;
use crate::ir::texel::{Access, Fetch, Image, Shape, Texel};
use crate::ir::{InstId, Op, Ty, Value};
use crate::link::{self, Symbol};
use crate::mir::Vreg;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::File;
use smallvec::SmallVec;

/// Most handles that a block shares: uniform registers are not spilled.
const MOST_HANDLES: usize = 6;

/// Where a handle stands: a reference to a variable, or a place among the parameters.
#[derive(Clone, Copy, PartialEq)]
enum Word {
    Variable(i64),
    Parameter(i32),
}

/// Handles that accesses of a block share.
pub(super) struct Shared {
    words: [Option<Word>; 2],
    pair: bool,
    regs: SmallVec<[Vreg; 2]>,
    register: Operand,
}

impl Sel<'_> {
    pub(super) fn textures(&mut self, id: InstId) -> Option<()> {
        match self.f.inst(id).op {
            Op::Texture => self.texture(id),
            Op::Surface => self.surface(id),
            Op::SameAsOne => {
                let o = self.lo(self.f.inst(id).args[0]);
                let o = self.gpr(o);
                let (u, p) = (self.m.new_vreg(File::Ugpr), self.m.new_vreg(File::Pred));
                let (u, other) = (self.m.reg(u), self.m.reg(p));
                self.push(Sass::new(F::R2UR).with(S::Pu, other).with(S::Rd, u).with(S::Ra, o));
                let same = self.not(Operand::reg(other));
                self.define(id, 0, Regs { lo: same, hi: None });
                Some(())
            }
            Op::Handle => {
                let at = self.handle_place(self.f.inst(id).imm);
                let d = self.m.new_vreg(File::Gpr);
                let to = self.m.reg(d);
                self.push(Sass::new(F::LDC).with(S::Rd, to).with(S::Const, at));
                self.define(id, 0, Regs { lo: d, hi: None });
                Some(())
            }
            Op::EntrySize => {
                let d = self.m.new_vreg(File::Gpr);
                let to = self.m.reg(d);
                let size = crate::emit::entry_size(self.f.inst(id).imm);
                self.push(Sass::new(F::MOV_I).with(S::Rd, to).with(S::Rb, size));
                self.define(id, 0, Regs { lo: d, hi: None });
                Some(())
            }
            _ => {
                let at = self.bank0.texture_table as i32 + 8 * self.f.inst(id).imm as i32;
                let r = self.load_const(0, at, true);
                self.define(id, 0, r);
                Some(())
            }
        }
    }

    /// The inverse of a predicate, in a register.
    fn not(&mut self, p: Operand) -> Vreg {
        let d = self.m.new_vreg(File::Pred);
        let to = self.m.reg(d);
        let (inverse, yes) = (p.inverted(), super::operand::TRUE);
        let m = Sass::new(F::PLOP3).with(S::Pu, to).with(S::Pp, inverse).with(S::Pq, yes).with(S::Pr, yes);
        self.push(m.with(S::Lut, Operand::imm(0x80)));
        d
    }

    /// The word of a reference, by the number of its variable.
    fn handle_place(&mut self, variable: i64) -> Operand {
        link::constant(0, self.m.refer(Symbol::Variable(variable as u32), link::CONST_FIELD, 0))
    }

    /// Where a handle stands in a constant bank, if it does.
    fn handle_word(&self, v: Value) -> Option<Word> {
        let mut from = v;
        while let Some(inst) = self.f.def_inst(from)
            && inst.op == Op::Trunc
        {
            from = inst.args[0];
        }
        let inst = self.f.def_inst(from)?;
        match inst.op {
            Op::Handle => Some(Word::Variable(inst.imm)),
            Op::Param if matches!(inst.mem.bytes, 4 | 8) && self.f.ty(v) == Ty::B32 => {
                Some(Word::Parameter(self.bank0.params as i32 + inst.imm as i32))
            }
            _ => None,
        }
    }

    /// Loads a handle from a constant bank; no handle is zero.
    fn load_handle(&mut self, word: Option<Word>, to: Vreg) {
        let d = self.m.reg(to);
        let m = match word {
            None => Sass::new(F::UMOV_I).with(S::Rd, d).with(S::Mask, Operand::imm(0)),
            Some(Word::Variable(variable)) => {
                let at = self.handle_place(variable);
                Sass::new(F::ULDC).with(S::Rd, d).with(S::Const, at)
            }
            Some(Word::Parameter(at)) => Sass::new(F::ULDC).with(S::Rd, d).with(S::Const, Operand::cbank(0, at)),
        };
        self.push(m);
    }

    /// The handle of a surface in a uniform register, or (`pair`) that of a texture and that of a sampler, or zero, in two. Those
    /// from constant banks are loaded once a block, where it begins.
    fn handle(&mut self, list: &[Value], pair: bool) -> Operand {
        let words = [0, 1].map(|i| list.get(i).and_then(|&v| self.handle_word(v)));
        let loaded = words.iter().flatten().count() == list.len();
        if let Some(known) = self.handles.iter().find(|x| loaded && x.words == words && x.pair == pair) {
            return known.register;
        }
        let shared = loaded && self.keeps_uniform && self.handles.len() < MOST_HANDLES;
        let regs: SmallVec<[Vreg; 2]> = (0..1 + pair as usize)
            .map(|i| match list.get(i) {
                Some(&v) if words[i].is_none() => {
                    let o = self.lo(v);
                    self.uniform_word(o)
                }
                _ => {
                    let d = self.m.new_vreg(File::Ugpr);
                    if !shared {
                        self.load_handle(words[i], d);
                    }
                    d
                }
            })
            .collect();
        let register = Operand::reg(self.m.vector(&regs));
        if shared {
            self.handles.push(Shared { words, pair, regs, register });
        }
        register
    }

    /// Loads the handles that the block shares.
    pub(super) fn begin_handles(&mut self) {
        for shared in std::mem::take(&mut self.handles) {
            for (word, &to) in shared.words.into_iter().zip(&shared.regs) {
                self.load_handle(word, to);
            }
        }
    }

    fn texture(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let t = Texel::unpack(inst.imm);
        let (args, results) = (inst.args.to_vec(), inst.results.to_vec());
        let (handles, words) = args.split_at_checked(t.handles())?;
        let (first, second) = words.split_at_checked(t.first as usize)?;
        let mut first: Vec<Operand> = first.iter().map(|&v| self.lo(v)).collect();
        let mut second: Vec<Operand> = second.iter().map(|&v| self.lo(v)).collect();
        // Before sm_90 one handle for both stands among the operands.
        let general = !chips::one_handle(self.layout.sm);
        let handle = if general {
            let o = self.lo(handles[0]);
            match t.fetch {
                Fetch::Gradients | Fetch::Size => first.insert(0, o),
                _ => second.insert(0, o),
            }
            None
        } else {
            Some(self.handle(handles, true))
        };
        // There up to four operands are dealt out to both groups, where two groups are of one kind.
        let dealt = general && second.len() + first.len() <= 4 && !matches!(t.fetch, Fetch::Gradients | Fetch::Size);
        if dealt {
            let mut all = std::mem::take(&mut first);
            all.append(&mut second);
            second = all.split_off(all.len().div_ceil(2));
            first = all;
        }
        let a = if first.iter().all(|&o| o == ZERO) { ZERO } else { self.vector_of(&first) };
        let b = match second.as_slice() {
            list if list.iter().all(|&o| o == ZERO) => None,
            list => Some(self.vector_of(list)),
        };
        // A group of zeros is the register that is always zero; whether it is there at all is said by modifiers.
        let (there, b) = (!second.is_empty(), b.unwrap_or(ZERO));
        let flag = |b: bool| b as u8;
        let layered = (t.shape as u8 & 1) | flag(t.shape.layered()) << 1;
        let m = match t.fetch {
            Fetch::Sample => {
                let level = if t.level { enums::tex_m87::LL } else { enums::tex_m87::LZ };
                let m = Sass::new(if general { F::TEX_RRRR_4 } else { F::TEX_RRRRUI_2 });
                let m = m.with_mod(M::M61, t.shape as u8).with_mod(M::M87, level);
                m.with_mod(M::Aoffi, flag(t.offset)).with_mod(M::Dc, flag(t.depth)).with(S::Rb, b)
            }
            Fetch::Texel if general => {
                let m = Sass::new(F::TLD_RRRR_2).with_mod(M::M61, t.shape as u8).with_mod(M::M88, flag(t.level));
                let m = m.with_mod(M::Cl, flag(t.level)).with_mod(M::Aoffi, flag(t.offset));
                m.with_mod(M::Ms, flag(t.sample)).with(S::Rb, b)
            }
            Fetch::Texel if !there => Sass::new(F::TLD_RRRUI).with_mod(M::M61, t.shape as u8),
            Fetch::Texel if t.shape == Shape::D3 => {
                let m = Sass::new(F::TLD_XPRRRRUII).with_mod(M::M88, flag(t.level)).with_mod(M::M77, flag(t.level));
                m.with_mod(M::M76, flag(t.offset)).with_mod(M::M78, flag(t.sample)).with(S::Rb, b)
            }
            Fetch::Texel => {
                let m = Sass::new(F::TLD_RRRRUI).with_mod(M::M61, layered);
                let m = m.with_mod(M::M88, flag(t.level)).with_mod(M::Cl, flag(t.level));
                m.with_mod(M::Aoffi, flag(t.offset)).with_mod(M::Ms, flag(t.sample)).with(S::Rb, b)
            }
            Fetch::Gradients => {
                let m = Sass::new(if general { F::TXD_RRRR } else { F::TXD_RRRRUI });
                m.with_mod(M::M61, layered).with_mod(M::Aoffi, flag(t.offset)).with(S::Rb, b)
            }
            Fetch::Gather => {
                let faces = flag(matches!(t.shape, Shape::Cube | Shape::ACube)) | flag(t.shape.layered()) << 1;
                let form = match (general, there) {
                    (true, _) => F::TLD4_RRRR,
                    (_, true) => F::TLD4_RRRRUI,
                    _ => F::TLD4_RRRUI,
                };
                let m = Sass::new(form).with_mod(M::M62, faces);
                let m = m.with_mod(M::M87, t.component).with_mod(M::M76, flag(t.offset)).with_mod(M::Dc, flag(t.depth));
                if there { m.with(S::Rb, b) } else { m }
            }
            Fetch::Size => {
                let dimension = enums::txq_m62::TEX_HEADER_DIMENSION;
                let m = Sass::new(if general { F::TXQ_RRRI } else { F::TXQ_RRRUII });
                let m = m.with_mod(M::M62, dimension).with(S::Ra, a);
                let d = self.result_words(id, 0);
                let d = self.m.vector(&d);
                let m = m.with(S::Rd, d).with(S::Rc, ZERO).with(S::ImmAt72, Operand::imm(t.component as i64));
                self.push(through(m, handle));
                return Some(());
            }
        };
        let m = m.with_mod(M::M84, enums::cache::DEF);
        // Components that nobody reads are not fetched.
        let mut mask = 0;
        let mut found: Vec<Vreg> = Vec::new();
        for (n, r) in results[..4].iter().enumerate() {
            if let Some(r) = self.regs[r.index()] {
                mask |= 1 << n;
                found.push(r.lo);
            }
        }
        if found.is_empty() {
            mask = 1;
            found.push(self.m.new_vreg(File::Gpr));
        }
        let (low, high) = found.split_at(found.len().min(2));
        let d = self.m.vector(low);
        let e = if high.is_empty() { ZERO } else { Operand::reg(self.m.vector(high)) };
        let m = m.with(S::Ra, a).with(S::Rd, d).with(S::Rc, e).with(S::ImmAt72, Operand::imm(mask));
        let mut m = if dealt { m.with_mod(M::Scr, 1) } else { through(m, handle) };
        if t.missing && results.get(4).is_some_and(|r| self.regs[r.index()].is_some()) {
            let r = self.regs_of(results[4]);
            m = m.with(S::Pu, self.m.reg(r.lo));
        }
        self.push(m);
        Some(())
    }

    fn surface(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let i = Image::unpack(inst.imm);
        let args = inst.args.to_vec();
        let (place, data) = args[1..].split_at_checked(i.place as usize)?;
        let general = !chips::one_handle(self.layout.sm);
        let handle = if general {
            let o = self.lo(args[0]);
            self.gpr(o)
        } else {
            self.handle(&args[..1], false)
        };
        let place: Vec<Operand> = place.iter().map(|&v| self.lo(v)).collect();
        let a = if place.iter().all(|&o| o == ZERO) { ZERO } else { self.vector_of(&place) };
        let data: Vec<Operand> = data.iter().flat_map(|&v| self.words(v)).collect();
        let data = match data.iter().all(|&o| o == ZERO) {
            true => ZERO,
            false => self.vector_of(&data),
        };
        let shape = match i.shape {
            Shape::D1 => enums::sured_m61::_1D,
            Shape::A1 => enums::sured_m61::_1D_ARRAY,
            Shape::D2 => enums::sured_m61::_2D,
            Shape::A2 => enums::sured_m61::_2D_ARRAY,
            _ => enums::sured_m61::_3D,
        };
        let size = match i.bytes {
            1 => enums::memsize::U8,
            2 => enums::memsize::U16,
            4 => enums::memsize::B32,
            8 => enums::memsize::B64,
            16 => enums::memsize::B128,
            _ => return None,
        };
        let cache = if i.cache == 1 { enums::cache::EF } else { enums::cache::DEF };
        let sem = match (i.access, i.cache) {
            (Access::Reduce, _) | (_, 2) => enums::storesem::STRONG_SYS,
            _ => enums::storesem::STRONG_SM,
        };
        let by_bytes = !i.formatted as u8;
        let m = match i.access {
            Access::Load => {
                let words: Vec<Vreg> = (0..inst.results.len()).flat_map(|n| self.result_words(id, n)).collect();
                let d = self.m.vector(&words);
                Sass::new(if general { F::SULD_RAR_2 } else { F::SULD_RAUI })
                    .with_mod(M::Ba, by_bytes)
                    .with_mod(M::M73, size)
                    .with(S::Rd, d)
            }
            Access::Store if i.formatted => {
                let components = match i.bytes {
                    4 => enums::sust_m73::R,
                    8 => enums::sust_m73::RG,
                    _ => enums::sust_m73::NONE,
                };
                let form = if general { F::SUST_ARR_3 } else { F::SUST_ARUI };
                Sass::new(form).with_mod(M::M73, components).with(S::Rb, data)
            }
            Access::Store => {
                let form = if general { F::SUST_ARR_4 } else { F::SUST_ARUI_2 };
                Sass::new(form).with_mod(M::Ba, by_bytes).with_mod(M::M73, size).with(S::Rb, data)
            }
            Access::Reduce => {
                let form = if general { F::SURED_ARR_2 } else { F::SURED_ARUI };
                let m = Sass::new(form).with_mod(M::Ba, by_bytes).with_mod(M::M73, i.ty);
                m.with_mod(M::M87, i.op).with(S::Rb, data)
            }
        };
        let m = m.with_mod(M::M59, i.beyond).with_mod(M::M61, shape).with_mod(M::M77, sem).with_mod(M::M84, cache);
        let m = m.with(S::Ra, a);
        self.push(match general {
            true => m.with(S::Rc, handle),
            false => m.with(S::UregAt40, handle).with(S::ImmAt46, Operand::imm(0)),
        });
        Some(())
    }
}

/// A fetch with the uniform registers that hold its handles, where they do.
fn through(m: Sass, handle: Option<Operand>) -> Sass {
    match handle {
        Some(h) => m.with(S::UregAt40, h).with(S::ImmAt46, Operand::imm(0)),
        None => m,
    }
}
