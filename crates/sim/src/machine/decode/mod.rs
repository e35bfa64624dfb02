//! From instruction words to a [`Program`].

mod asynchronous;
mod atomics;
mod control;
mod loops;
mod memory;
mod operands;
#[cfg(test)]
mod tests;
mod texture;

use super::alu::{self, Fetch};
use super::hazard;
use super::image::Image;
use super::program::*;
use super::seen::Seen;
use crate::num::fp::{self, Half};
use crate::num::soft::Round;
use rustc_hash::FxHashMap;
use sass::codec::{Decoded, decode as decode_word};
use sass::form::{ImmPrint, ModName as M, Role, SlotKind, SlotName as S};
use sass::inst::{Inst, Operand, Value};
use sass::latency::{self, Class};
use sass::reg::{File, Reg};

pub(in crate::machine) use atomics::{float_atom, integer_atom};
use loops::{mark_loops, mark_polls};

type Gap = String;
/// What is decoded, or why it cannot be.
pub(in crate::machine) type Result<X> = std::result::Result<X, Gap>;

pub(in crate::machine) fn gap<X>(what: impl Into<String>) -> Result<X> {
    Err(what.into())
}

/// Decodes the whole section of code. Words and instructions that are not modelled become faults when they are reached.
pub fn decode(image: &Image) -> Program {
    let mut d = Decoder { image, p: Program::empty(), consts: FxHashMap::default(), pc: 0 };
    d.consts.insert(0, 0);
    for (pc, &word) in image.code.iter().enumerate() {
        d.pc = pc as u32;
        let (ins, inst) = match decode_word(word, image.sm) {
            Decoded::Known(inst) => (d.instruction(&inst), Some(inst)),
            Decoded::Unknown(w) => (Ins::unknown(w), None),
        };
        d.p.code.push(ins);
        d.p.insts.push(inst);
    }
    d.p.plain_barriers = d.p.code.iter().any(|i| matches!(&i.exec, Exec::Syncs(x) if x.what == SyncsOp::Plain));
    d.p.products = d.p.code.iter().any(|i| matches!(i.exec, Exec::Gmma(_)));
    mark_loops(&mut d.p);
    mark_polls(&mut d.p.code);
    d.p
}

/// What of some code for a chip (75 for sm_75) the machine does not model: the place in the code (an index), the
/// instruction, and why.
pub fn unmodelled(code: &[u128], sm: u16) -> Vec<(usize, String, String)> {
    let image = Image::of_code(code.to_vec(), sm);
    let p = decode(&image);
    let text = |i: usize| match &p.insts[i] {
        Some(inst) => sass::text::print(inst, 16 * i as u64, &sass::text::NoLabels),
        None => "?".into(),
    };
    let found = p.code.iter().enumerate().filter_map(|(i, ins)| match &ins.exec {
        Exec::Unsupported(why) => Some((i, text(i), why.clone())),
        _ => None,
    });
    found.collect()
}

/// What is read in this slot decides where control goes, which memory is touched, or what others see.
fn matters(inst: &Inst, slot: u8) -> bool {
    let form = inst.form();
    let name = form.name;
    let slot = form.slots[slot as usize].name;
    match form.class {
        Class::Global | Class::Shared | Class::Local => match slot {
            S::Ra | S::UR | S::URc => !matches!(name, "LDC" | "QSPC"),
            S::Rb | S::Rc => name.starts_with("STG") || name == "ST" || name.starts_with("REDG"),
            _ => false,
        },
        _ => matches!(slot, S::Pp | S::Pq) && (form.effects.flow || name.starts_with("BAR_")),
    }
}

/// Instructions whose result may be whole although a source is not.
fn selects(name: &str) -> bool {
    [
        "SHFL", "SEL", "FSEL", "USEL", "LOP3", "ULOP3", "PLOP3", "UPLOP3", "PRMT", "UPRMT", "SHF", "USHF", "LEA",
        "BFE", "SGXT", "P2R", "R2P",
    ]
    .iter()
    .any(|stem| name == *stem || name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('_')))
}

impl Ins {
    fn unknown(word: u128) -> Ins {
        Ins {
            guard: Pred::TRUE,
            always: false,
            exec: Exec::Unsupported(format!("the word {word:#034x} is no known instruction")),
            uses: Box::default(),
            late: false,
            selects: false,
            defs: Box::default(),
            stall: 1,
            wait: 0,
            named: 0,
            write_sb: 7,
            read_sb: 7,
            variable: false,
            tells_early: false,
            expected: 0,
            drains: false,
            queues: (39, 39),
        }
    }
}

/// The name of a form without its operand shape: `FFMA` of `FFMA_RRI`.
fn stem(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((stem, shape)) if shape.len() <= 3 && shape.bytes().all(|b| b"RICU".contains(&b)) => stem,
        _ => name,
    }
}

/// An instruction with a predicate source that is not always true.
fn pp_matters(inst: &Seen<'_>) -> bool {
    inst.get(S::Pp).is_some_and(|o| {
        let p = pred(o);
        p.index != 7 || p.neg
    })
}

/// Addresses have 64 bits: by the modifier, or where a form has no other ones by its text.
fn extended(inst: &Seen<'_>) -> bool {
    match inst.has(M::E) {
        true => inst.modifier(M::E) != 0,
        false => inst.literal().ends_with(".E") || inst.literal().contains(".E."),
    }
}

/// The bytes of a load of constants by the word for it, and whether it extends by the sign.
fn constant_size(word: &str) -> Result<(u8, bool)> {
    let mut words = vec![word.trim_start_matches('.').to_string()];
    let (size, sign) = super::byname::size(&mut words);
    if size == 4 && !matches!(word, "" | ".32") { gap(word) } else { Ok((size, sign)) }
}

/// Text beyond the mnemonic that says no more than the mnemonic does.
const PLAIN: [&str; 5] = ["", ".LUT", ".S32", ".S32.SAT", ".BF"];

/// Decodes the instructions of one section.
pub(in crate::machine) struct Decoder<'a> {
    pub(in crate::machine) image: &'a Image,
    p: Program,
    consts: FxHashMap<u32, u32>,
    pub(in crate::machine) pc: u32,
}

pub(in crate::machine) fn pred(o: &Operand) -> Pred {
    match o.as_reg() {
        Some(r) => Pred { uniform: r.file() == File::Upred, index: r.index().min(7) as u8, neg: o.inv },
        None => Pred::TRUE,
    }
}

impl Decoder<'_> {
    fn instruction(&mut self, inst: &Inst) -> Ins {
        let seen = Seen::new(inst);
        let exec = self.exec(&seen).and_then(|exec| match seen.missed() {
            Some(what) => gap(what),
            None => Ok(exec),
        });
        let exec = exec.or_else(|why| {
            // The forms of other chips are told by their text.
            let seen = Seen::new(inst);
            let named = self.by_name(&seen).and_then(|exec| match seen.missed() {
                Some(what) => gap(what),
                None => Ok(exec),
            });
            named.map_err(|other| if other.is_empty() { why } else { other })
        });
        let beyond = |r: &sass::inst::RegRef| {
            r.reg.file() == File::Ugpr && !r.reg.is_const() && r.reg.index() + r.width as u32 >= hazard::UNIFORM as u32
        };
        let exec = exec.and_then(|exec| match inst.regs().iter().any(beyond) {
            true => gap("this uniform register"),
            false => Ok(exec),
        });
        let exec = exec.unwrap_or_else(|why| {
            let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
            Exec::Unsupported(format!("'{}' is not modelled by the SASS simulator{why}", inst.form().name))
        });
        let (mut uses, mut defs) = (Vec::new(), Vec::new());
        for r in inst.regs() {
            // A pair of predicates hidden in one slot is not tracked bit by bit.
            for k in 0..r.width as u32 {
                let reg = r.reg.offset(k);
                if let Some(n) = hazard::number(reg) {
                    let late =
                        !r.def && latency::war(inst, r.slot, inst, 0, self.image.sm) == latency::Latency::Scoreboard;
                    let must = !r.def && r.slot.is_none_or(|slot| matters(inst, slot));
                    let access = Access { reg: n, slot: r.slot, late, must, site: self.p.sites };
                    self.p.sites += 1;
                    if r.def { defs.push(access) } else { uses.push(access) }
                }
            }
        }
        let sm = self.image.sm;
        let waits = if let Exec::WaitFor { scoreboards, .. } = &exec { *scoreboards } else { 0 };
        Ins {
            guard: pred(&inst.guard),
            always: matches!(exec, Exec::BraDiv { .. }),
            exec,
            late: uses.iter().any(|u: &Access| u.late),
            uses: uses.into(),
            // A product of a warpgroup may leave out what it would add to.
            selects: selects(inst.form().name) || inst.form().mnemonic.ends_with("GMMA"),
            defs: defs.into(),
            stall: inst.ctrl.stall,
            wait: inst.ctrl.wait,
            named: waits,
            write_sb: inst.ctrl.write_sb.unwrap_or(7),
            read_sb: inst.ctrl.read_sb.unwrap_or(7),
            variable: latency::needs_write_sb(inst, sm),
            tells_early: inst.form().mnemonic == "ATOM",
            expected: latency::expected(inst, sm),
            drains: latency::drains_reads(inst, sm),
            queues: hazard::queues(inst.form().class),
        }
    }

    fn size(inst: &Seen<'_>) -> Result<(u8, bool)> {
        Ok(match inst.modifier(M::Size) {
            0 => (1, false),
            1 => (1, true),
            2 => (2, false),
            3 => (2, true),
            4 => (4, false),
            5 => (8, false),
            6 => (16, false),
            _ => return gap("this size"),
        })
    }

    fn exec(&mut self, inst: &Seen<'_>) -> Result<Exec> {
        let name = inst.form().name;
        let pp = Self::p(inst, S::Pp);
        let wide = extended(inst);
        Ok(match name {
            "FENCE_VIEW" => {
                inst.all();
                Exec::ProxyFence
            }
            "MEMBAR" => {
                inst.all();
                Exec::Fence
            }
            "LDGDEPBAR" => Exec::CopyGroup,
            "NOP" | "ERRBAR" | "CGAERRBAR" | "CCTL_IVALL" | "CCTL" | "PMTRIG" | "PREEXIT" | "ACQBULK"
            | "ENDCOLLECTIVE" => {
                inst.all();
                Exec::Nop
            }
            "NANOSLEEP_I" | "NANOSLEEP_R" | "NANOSLEEP_U" | "NANOSLEEP_SYNCS_I" | "NANOSLEEP_SYNCS_R" | "YIELD" => {
                inst.all();
                Exec::Yield
            }
            "EXIT" => Exec::Exit { p: pp },
            "BRA" => Exec::Bra { p: pp, target: self.target(inst, S::Target)? },
            "BRA_U" => {
                if pp != Pred::TRUE {
                    return gap("two predicates");
                }
                Exec::Bra { p: Self::p(inst, S::Pq), target: self.target(inst, S::Target)? }
            }
            "BRA_U_ANY" => {
                if pp_matters(inst) {
                    return gap("two predicates");
                }
                if inst.modifier(M::Any) == 0 {
                    return gap("");
                }
                Exec::BraAny { target: self.target(inst, S::Target)? }
            }
            "RPCMOV_R" => Exec::Rpc { d: Dst::None, s: Some(self.src(inst, S::Rb)?), high: inst.modifier(M::M31) != 0 },
            "RPCMOV_R_2" => Exec::Rpc { d: Self::dst(inst, S::Rd), s: None, high: inst.modifier(M::M31) != 0 },
            "UTMACMDFLUSH" | "UBLKPF_AUU" | "UBLKPF_AU" => {
                inst.all();
                Exec::Nop
            }
            "SYNCS_EXCH" | "SYNCS_ARRIVE" | "SYNCS_PHASECHK" | "SYNCS_CCTL_IV" | "ARRIVES_LDGSTSBAR" => {
                self.syncs(inst, name)?
            }
            "UBLKCP_AAU" | "UBLKCP_AAU_2" | "UBLKCP_AAU_3" | "UBLKCP_AAUU" | "UBLKCP_AAUU_2" | "UBLKCP_AAUU_3"
            | "UBLKRED_AAU" | "UBLKRED_AAUU" => self.bulk(inst, name)?,
            "STAS_AR" | "STAS_AR_2" | "REDAS_AR" | "REDAS_AR_2" => self.async_store(inst, name)?,
            "BRA_DIV" | "BRA_CONV" => Exec::BraDiv {
                converged: name == "BRA_CONV",
                mask: self.word(inst, S::UR, 0)?,
                inv: inst.with_flags(S::UR).is_some_and(|o| o.inv),
                target: self.target(inst, S::Target)?,
            },
            "CALL_REL" => Exec::Bra { p: pp, target: self.target(inst, S::Target)? },
            "CALL_REL_R" | "RET_REL" => {
                let low = self.src(inst, S::Ra)?;
                Exec::Jump { p: pp, low, high: None, base: self.target(inst, S::Target)? as i64 * 16 }
            }
            "BRX" | "BRXU" => {
                let low = self.src(inst, if name == "BRX" { S::Ra } else { S::UR })?;
                let offset = Self::imm(inst, S::Offset).unwrap_or(0);
                let base = (self.pc as i64 + 1) * 16 + offset;
                Exec::Jump { p: pp, low, high: None, base }
            }
            "BSSY" => {
                // What `.RECONVERGENT` and `.RELIABLE` promise of how lanes meet again holds here for all.
                inst.modifier(M::M72);
                inst.slot(S::TargetFar);
                Exec::Bssy { b: Self::gpr(inst, S::Bd), p: pp }
            }
            "BSYNC" => {
                inst.modifier(M::M72);
                Exec::Bsync { b: Self::gpr(inst, S::Bb), p: pp }
            }
            "BREAK" => {
                inst.modifier(M::Reliable);
                Exec::Break { b: Self::gpr(inst, S::Bb), p: pp }
            }
            "BMOV_RB" => Exec::BarrierOut {
                d: Self::gpr(inst, S::Rd),
                b: Self::gpr(inst, S::Bb),
                clear: inst.modifier(M::Clear) != 0,
            },
            "BMOV_BR" => Exec::BarrierIn { b: Self::gpr(inst, S::Bd), s: self.src(inst, S::Rb)? },
            "WARPSYNC" | "WARPSYNC_EXCLUSIVE" | "WARPSYNC_COLLECTIVE" => {
                inst.slot(S::Target);
                Exec::WarpSync { p: pp, who: Meeting::Mask(self.src(inst, S::Ra)?) }
            }
            "WARPSYNC_ALL" | "WARPSYNC_COLLECTIVE_ALL" => {
                inst.slot(S::Target);
                Exec::WarpSync { p: pp, who: Meeting::All }
            }
            "BPT" => {
                inst.all();
                Exec::Trap
            }
            "UCGABAR_ARV" => Exec::ClusterArrive,
            "UCGABAR_WAIT" => Exec::ClusterWait,
            _ if name.starts_with("BAR_") => self.barrier(inst, name)?,
            "B2R_RESULT" => Exec::BarResult { d: Self::dst(inst, S::Rd), p: Self::p(inst, S::Pu) },
            "LDG" | "LDG_R" | "LD" | "LD_R" => {
                if Self::p(inst, S::Pu) != Pred::TRUE {
                    return gap("a predicate result");
                }
                let (size, sign) = Self::size(inst)?;
                let space = if name.starts_with("LDG") { Space::Global } else { Space::Generic };
                let addr = self.addr(inst, S::Ra, S::Imm, wide)?;
                Exec::Load(Load { space, addr, size, sign, d: Self::gpr(inst, S::Rd), strong: false, poll: false })
            }
            "LDG_RA_8" => {
                if Self::p(inst, S::Pu) != Pred::TRUE {
                    return gap("a predicate result");
                }
                let (size, sign) = Self::size(inst)?;
                let addr = self.uniform_addr(inst, S::UR, S::Imm)?;
                let d = Self::gpr(inst, S::Rd);
                Exec::Load(Load { space: Space::Global, addr, size, sign, d, strong: false, poll: false })
            }
            "STG_AR_4" => {
                let (size, _) = Self::size(inst)?;
                let addr = self.uniform_addr(inst, S::URc, S::Imm)?;
                let s = (0..(size as u32).div_ceil(4)).map(|n| self.word(inst, S::Rb, n)).collect::<Result<_>>()?;
                Exec::Store(Store { space: Space::Global, addr, size, s })
            }
            "LDL" | "LDS" | "LDS_U" => {
                let (size, sign) = Self::size(inst)?;
                let mut addr = self.addr(inst, S::Ra, S::Imm, false)?;
                if name == "LDS_U" {
                    addr.uniform = Some(self.src(inst, S::UR)?);
                }
                let space = if name == "LDL" { Space::Local } else { Space::Shared };
                Exec::Load(Load { space, addr, size, sign, d: Self::gpr(inst, S::Rd), strong: false, poll: false })
            }
            "STG" | "STG_R" | "ST" | "ST_R" | "STL" | "STS" | "STS_U" => {
                let (size, _) = Self::size(inst)?;
                let (space, wide) = match name {
                    "STG" | "STG_R" => (Space::Global, wide),
                    "ST" | "ST_R" => (Space::Generic, wide),
                    "STL" => (Space::Local, false),
                    _ => (Space::Shared, false),
                };
                let mut addr = self.addr(inst, S::Ra, S::Imm, wide)?;
                if name == "STS_U" {
                    addr.uniform = Some(self.src(inst, S::URc)?);
                }
                let s = (0..(size as u32).div_ceil(4)).map(|n| self.word(inst, S::Rb, n)).collect::<Result<_>>()?;
                Exec::Store(Store { space, addr, size, s })
            }
            "LDC" | "ULDC" | "ULDC_R" | "LDCU_UC" | "LDCU_UC_2" => {
                let uniform = name.starts_with("LDCU");
                let (size, sign) = match uniform {
                    true => constant_size(inst.text(M::M73).unwrap_or_default())?,
                    false => Self::size(inst)?,
                };
                let Some(Value::Const { bank, offset }) = inst.get(S::Const).map(|o| o.value) else {
                    return gap("no constant");
                };
                if inst.modifier(M::Mode) != 0 {
                    return gap("this mode");
                }
                let index = self.src(inst, if uniform { S::URa } else { S::Ra })?;
                Exec::LoadConst { bank, index, offset: offset as i64, size, sign, d: Self::dst(inst, S::Rd) }
            }
            "ATOMG" | "ATOM" | "REDG" | "ATOMS" | "ATOMS_U" => {
                let t = inst.modifier(M::Type);
                let (bits, signed) = match t {
                    0 => (32, false),
                    1 => (32, true),
                    2 => (64, false),
                    3 => (64, true),
                    _ => return gap("this type"),
                };
                self.atom(inst, name, bits / 8, integer_atom(inst.modifier(M::Op), bits, signed)?)?
            }
            "ATOMG_F" | "ATOM_F" | "REDG_F" => {
                let (op, t) = (inst.modifier(M::Op), inst.modifier(M::Type));
                let (size, f) = float_atom(op, t)?;
                let mut exec = self.atom(inst, name, size, f)?;
                use sass::enums::atomftype as ft;
                if let Exec::Atom(list) = &mut exec
                    && matches!(t, ft::F16X8_RN | ft::BF16X8_RN | ft::F32X4_RN | ft::F32X4_FTZ_RN)
                {
                    // The upper half is an operation of its own.
                    let (_, f) = float_atom(op, t)?;
                    let b = [self.word(inst, S::Rb, 2)?, self.word(inst, S::Rb, 3)?];
                    let x = &list[0];
                    let addr = Addr { offset: x.addr.offset + 8, ..x.addr };
                    let d = if x.d == 255 { 255 } else { x.d.wrapping_add(2) };
                    list.push(Atom { addr, b, d, f, p: Pred::TRUE, ..*x });
                }
                exec
            }
            "ATOMG_CAS" | "ATOM_CAS" | "ATOMS_CAS" | "ATOM_CAST" | "ATOMS_CAST" => {
                let size = match inst.modifier(M::Type) {
                    0 => 4,
                    2 => 8,
                    _ => return gap("this type"),
                };
                let mut exec = self.atom(inst, name, size, Box::new(|o, b, c| if o == b { c } else { o }))?;
                if let Exec::Atom(list) = &mut exec {
                    let x = &mut list[0];
                    x.c = [self.word(inst, S::Rc, 0)?, self.word(inst, S::Rc, 1)?];
                    if name.ends_with("CAST") {
                        x.result = AtomResult::Success;
                    }
                }
                exec
            }
            "ATOMS_POPC_INC" => {
                let mut exec = self.atom(inst, name, 4, Box::new(|o, _, _| (o as u32).wrapping_add(1) as u64))?;
                if let Exec::Atom(list) = &mut exec {
                    let x = &mut list[0];
                    x.addr.uniform = Some(self.src(inst, S::URc)?);
                }
                exec
            }
            "LDGSTS" => {
                let to = self.addr(inst, S::Rd, S::Imm, false)?;
                let from = self.addr(inst, S::Ra, S::ImmB, true)?;
                let size = [4, 8, 16][inst.modifier(M::Size).saturating_sub(4).min(2) as usize];
                let partial = inst.modifier(M::Zfill) != 0;
                Exec::Copy(AsyncCopy { to, from, size, partial, p: pp })
            }
            "LDSM" | "LDSM_U" | "STSM" | "STSM_U" => {
                let load = name.starts_with("LDSM");
                let mut addr = self.addr(inst, S::Ra, S::Imm, false)?;
                if name.ends_with("_U") {
                    addr.uniform = Some(self.src(inst, if load { S::UR } else { S::URc })?);
                }
                Exec::Matrix {
                    load,
                    trans: inst.modifier(M::Trans) == 1,
                    addr,
                    r: Self::gpr(inst, if load { S::Rd } else { S::Rb }),
                    count: 1 << inst.modifier(M::Count),
                }
            }
            "MOVM" if matches!(inst.text(M::M78), None | Some(".MT88")) => {
                Exec::Movm { d: Self::gpr(inst, S::Rd), a: self.src(inst, S::Ra)?, widens: false }
            }
            _ if matches!(inst.form().mnemonic, "HMMA" | "IMMA" | "BMMA" | "DMMA" | "QMMA") => self.matrix(inst)?,
            "QSPC" => Exec::Qspc {
                addr: self.addr(inst, S::Ra, S::Imm, wide)?,
                space: inst.modifier(M::Space),
                p: Self::p(inst, S::Pu),
                d: Self::dst(inst, S::Rd),
            },
            "QSPC_RA_3" => {
                let addr = self.uniform_addr(inst, S::UR, S::ImmAt40)?;
                let (p, d) = (Self::p(inst, S::Pu), Self::dst(inst, S::Rd));
                Exec::Qspc { addr, space: inst.modifier(M::M73), p, d }
            }
            "SHFL_RR" | "SHFL_RI" | "SHFL_IR" | "SHFL_II" => Exec::Shfl {
                mode: [Shuffle::Idx, Shuffle::Up, Shuffle::Down, Shuffle::Bfly][inst.modifier(M::Mode) as usize & 3],
                d: Self::gpr(inst, S::Rd),
                p: Self::p(inst, S::Pu),
                a: self.src(inst, S::Ra)?,
                b: self.src(inst, S::Rb)?,
                c: self.src(inst, S::Rc)?,
            },
            "VOTE" | "VOTEU" => {
                Exec::Vote { mode: inst.modifier(M::Mode), d: Self::dst(inst, S::Rd), p: Self::p(inst, S::Pu), a: pp }
            }
            "MATCH_ANY" | "MATCH_ALL" => {
                let low = self.src(inst, S::Ra)?;
                let high = if inst.modifier(M::U64) != 0 { self.word(inst, S::Ra, 1)? } else { self.k(0) };
                let all = name == "MATCH_ALL";
                Exec::Match { all, d: Self::gpr(inst, S::Rd), p: Self::p(inst, S::Pu), a: [low, high] }
            }
            "REDUX" => {
                let f: ReduceFn = match (inst.modifier(M::Op), inst.modifier(M::S32) != 0) {
                    (0, _) => Box::new(|a, b| a & b),
                    (1, _) => Box::new(|a, b| a | b),
                    (2, _) => Box::new(|a, b| a ^ b),
                    (3, _) => Box::new(u32::wrapping_add),
                    (4, true) => Box::new(|a, b| (a as i32).min(b as i32) as u32),
                    (5, true) => Box::new(|a, b| (a as i32).max(b as i32) as u32),
                    (4, false) => Box::new(u32::min),
                    (5, false) => Box::new(u32::max),
                    _ => return gap("this operation"),
                };
                Exec::Redux { d: Self::dst(inst, S::Rd), a: self.src(inst, S::Ra)?, each: None, f }
            }
            "ELECT" => Exec::Elect { d: Self::dst(inst, S::Rd), p: Self::p(inst, S::Pu), a: pp },
            "R2UR" | "R2UR_UR_3" | "R2UR_UR_4" => {
                let (d, or) = (self.first_dst(inst), inst.modifier(M::Or) != 0);
                Exec::ToUniform { d, p: Self::p(inst, S::Pu), a: self.src(inst, S::Ra)?, or }
            }
            "P2R" | "P2R_RRI" | "UP2UR" => Exec::PredsOut {
                d: Self::dst(inst, S::Rd),
                a: self.src(inst, S::Ra)?,
                shift: 8 * inst.modifier(M::Part) as u32,
                mask: Self::imm(inst, S::Mask).unwrap_or(0) as u32,
                uniform: name == "UP2UR",
            },
            "R2P" | "UR2UP" => Exec::PredsIn {
                a: self.src(inst, S::Ra)?,
                shift: 8 * inst.modifier(M::Part) as u32,
                mask: Self::imm(inst, S::Mask).unwrap_or(0) as u32,
                uniform: name == "UR2UP",
            },
            "S2R" | "S2UR" | "CS2R" | "CS2UR" => self.special(inst, name)?,
            _ => return self.lanewise(inst, name),
        })
    }

    fn lanewise(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let uuu = name.rsplit_once('_').is_some_and(|(_, s)| s.len() <= 3 && s.bytes().all(|b| b == b'U' || b == b'I'));
        let stem = if uuu { name.rsplit_once('_').map_or(name, |x| x.0) } else { stem(name) };
        // A form without a name of its own says in its text what it is beyond its mnemonic.
        let literal = inst.literal();
        let beyond = literal.strip_prefix(inst.form().mnemonic).unwrap_or(&literal);
        if stem.trim_start_matches('U') == inst.form().mnemonic.trim_start_matches('U') && !PLAIN.contains(&beyond) {
            return gap(literal);
        }
        let op = alu::op(stem, inst).ok_or("")?;
        self.operation(inst, op)
    }

    /// A lane-wise operation with its operands.
    pub(in crate::machine) fn operation(&mut self, inst: &Seen<'_>, op: alu::AluOp) -> Result<Exec> {
        let zero = self.k(0);
        let mut s = [zero; 6];
        let mut n = 0;
        for fetch in &op.fetch {
            match *fetch {
                Fetch::One(slot) => {
                    s[n] = self.word(inst, slot, 0)?;
                    n += 1;
                }
                Fetch::Two(slot) => {
                    s[n] = self.word(inst, slot, 0)?;
                    s[n + 1] = self.word(inst, slot, 1)?;
                    n += 2;
                }
            }
        }
        let mut pin = [Pred::TRUE; 3];
        for (to, &slot) in pin.iter_mut().zip(&op.pin) {
            *to = Self::p(inst, slot);
        }
        let mut pout = [Pred::TRUE; 2];
        for (to, &slot) in pout.iter_mut().zip(&op.pout) {
            *to = Self::p(inst, slot);
        }
        let d = if inst.inst().slot(S::Rd).is_some() { Self::dst(inst, S::Rd) } else { self.first_dst(inst) };
        let d = if op.nd == 0 { Dst::None } else { d };
        Ok(Exec::Alu { s, n: n as u8, pin, d, nd: op.nd, pout, f: op.f })
    }
}
