//! From instruction words to a [`Program`].

use super::alu::{self, Fetch};
use super::hazard;
use super::image::Image;
use super::program::*;
use super::seen::Seen;
use crate::memory::Window;
use crate::num::fp::{self, Half};
use crate::num::soft::Round;
use rustc_hash::FxHashMap;
use sass::codec::{Decoded, decode as decode_word};
use sass::form::{ImmPrint, ModName as M, Role, SlotKind, SlotName as S};
use sass::inst::{Inst, Operand, Value};
use sass::latency::{self, Class};
use sass::reg::{File, Reg};

type Gap = String;
/// What is decoded, or why it cannot be.
pub(super) type Result<X> = std::result::Result<X, Gap>;

pub(super) fn gap<X>(what: impl Into<String>) -> Result<X> {
    Err(what.into())
}

/// Decodes the whole section of code. Words and instructions that are not modelled become faults when they are reached.
pub fn decode(image: &Image) -> Program {
    let mut d = Decoder {
        image,
        p: Program {
            code: Vec::new(),
            insts: Vec::new(),
            sites: 0,
            products: false,
            plain_barriers: false,
            consts: vec![[0; 32]],
            specials: Vec::new(),
        },
        consts: FxHashMap::default(),
        pc: 0,
    };
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
    let bank = || Window { start: 0, data: vec![0; 1 << 16] };
    let image = Image {
        code: code.to_vec(),
        banks: (0..8).map(|_| bank()).collect(),
        param: bank(),
        constant: bank(),
        shared: 0,
        reserved: 0,
        world: crate::world::World::default(),
        sm,
        registers: 0,
    };
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

/// Machine code does not tell volatile loads of shared memory from others. A load that is repeated from an unchanged
/// address in a short loop that stores nothing can only wait for another thread.
fn mark_polls(code: &mut [Ins]) {
    for at in 0..code.len() {
        let Exec::Bra { target, .. } = code[at].exec else { continue };
        let start = target as usize;
        if start > at || at - start > 8 {
            continue;
        }
        let quiet =
            |i: &Ins| !matches!(i.exec, Exec::Store(_) | Exec::Atom(_) | Exec::Bar { .. } | Exec::Matrix { .. });
        if !code[start..at].iter().all(quiet) {
            continue;
        }
        for k in start..at {
            let Exec::Load(l) = &code[k].exec else { continue };
            let base: Vec<u16> = code[k].uses.iter().filter(|u| u.slot.is_some()).map(|u| u.reg).collect();
            let moves = code[start..at].iter().any(|i| i.defs.iter().any(|d| base.contains(&d.reg)));
            if l.space == Space::Shared
                && !moves
                && let Exec::Load(l) = &mut code[k].exec
            {
                l.poll = true;
            }
        }
    }
}

/// Instructions between the load of a loop that ends in a compare-and-swap, and that swap.
const LOOP: usize = 24;

/// An atomic operation that the machine lacks is a loop: a load, the operation, a compare-and-swap with
/// what was loaded.
/// Its load is part of the atomic operation.
fn mark_loops(p: &mut Program) {
    let (code, insts) = (&mut p.code, &p.insts);
    for at in 0..code.len() {
        let Exec::Atom(list) = &code[at].exec else { continue };
        let x = &list[0];
        let swaps = insts[at].as_ref().is_some_and(|i| i.form().name.contains("_CAS"));
        let (addr, old) = (x.addr, x.b[0]);
        for ins in code[at.saturating_sub(LOOP)..at].iter_mut().filter(|_| swaps) {
            if let Exec::Load(l) = &mut ins.exec {
                l.strong |= l.addr == addr || Src::R(l.d) == old;
            }
        }
    }
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

/// Text beyond the mnemonic that says no more than the mnemonic does.
const PLAIN: [&str; 5] = ["", ".LUT", ".S32", ".S32.SAT", ".BF"];

/// Decodes the instructions of one section.
pub(super) struct Decoder<'a> {
    pub(super) image: &'a Image,
    p: Program,
    consts: FxHashMap<u32, u32>,
    pub(super) pc: u32,
}

pub(super) fn pred(o: &Operand) -> Pred {
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
            expected: latency::expected(inst, sm),
            drains: latency::drains_reads(inst, sm),
            queues: hazard::queues(inst.form().class),
        }
    }

    pub(super) fn k(&mut self, value: u32) -> Src {
        let consts = &mut self.p.consts;
        Src::K(*self.consts.entry(value).or_insert_with(|| {
            consts.push([value; 32]);
            consts.len() as u32 - 1
        }))
    }

    /// The word `n` of a register operand.
    fn reg(&mut self, r: Reg, n: u32) -> Result<Src> {
        if r.is_const() {
            return Ok(self.k(0));
        }
        match r.file() {
            File::Gpr => Ok(Src::R((r.index() + n).min(255) as u8)),
            File::Ugpr => Ok(Src::U((r.index() + n).min(255) as u8)),
            _ => gap("a predicate where a register is wanted"),
        }
    }

    /// Word `n` of the operand in a slot.
    pub(super) fn word(&mut self, inst: &Seen<'_>, slot: S, n: u32) -> Result<Src> {
        let Some(i) = inst.slot(slot) else { return Ok(self.k(0)) };
        match inst.inst().operands[i].value {
            Value::Reg(r) => self.reg(r, n),
            Value::Imm(v) => {
                let kind = inst.form().slots[i].kind;
                let high = matches!(kind, SlotKind::Imm { print: ImmPrint::F64High, .. });
                Ok(match (high, n) {
                    (true, 0) => self.k(0),
                    (true, _) => self.k(v as u32),
                    (false, 0) => self.k(v as u32),
                    // A 32-bit immediate as the addend of a 64-bit sum.
                    (false, _) => self.k(if v as i32 >= 0 || v >= 0 { 0 } else { u32::MAX }),
                })
            }
            Value::Const { bank, offset } => {
                let at = offset as u64 + 4 * n as u64;
                let w = self.image.banks.get(bank as usize).and_then(|b| b.load(at, 4, "constant").ok());
                match w {
                    Some(w) => Ok(self.k(w as u32)),
                    None => gap(format!("c[{bank:#x}][{at:#x}] lies outside of the bank")),
                }
            }
            Value::Target(_) => gap("a target where a value is wanted"),
        }
    }

    pub(super) fn src(&mut self, inst: &Seen<'_>, slot: S) -> Result<Src> {
        self.word(inst, slot, 0)
    }

    pub(super) fn dst(inst: &Seen<'_>, slot: S) -> Dst {
        match inst.get(slot).and_then(|o| o.as_reg()) {
            Some(r) if r.is_const() => Dst::None,
            Some(r) if r.file() == File::Ugpr => Dst::U(r.index() as u8),
            Some(r) => Dst::R(r.index() as u8),
            None => Dst::None,
        }
    }

    /// The register that is written, however its slot is called.
    fn first_dst(&self, inst: &Seen<'_>) -> Dst {
        let form = inst.form();
        let slot =
            form.slots.iter().find(|s| s.role == Role::Def && matches!(s.kind, SlotKind::Reg(File::Gpr | File::Ugpr)));
        slot.map_or(Dst::None, |s| Self::dst(inst, s.name))
    }

    /// A GPR destination or source by number; 255 is RZ.
    pub(super) fn gpr(inst: &Seen<'_>, slot: S) -> u8 {
        match inst.get(slot).and_then(|o| o.as_reg()) {
            Some(r) => r.index().min(255) as u8,
            None => 255,
        }
    }

    pub(super) fn p(inst: &Seen<'_>, slot: S) -> Pred {
        inst.get(slot).map_or(Pred::TRUE, pred)
    }

    pub(super) fn imm(inst: &Seen<'_>, slot: S) -> Option<i64> {
        match inst.get(slot)?.value {
            Value::Imm(v) => Some(v),
            _ => None,
        }
    }

    /// The instruction index that a target names.
    pub(super) fn target(&self, inst: &Seen<'_>, slot: S) -> Result<u32> {
        match inst.get(slot).map(|o| o.value) {
            Some(Value::Target(t)) => {
                let byte = (self.pc as i64 + 1) * 16 + t;
                if byte < 0 || byte % 16 != 0 || byte / 16 > self.image.code.len() as i64 {
                    return gap("a branch target outside of the code");
                }
                Ok((byte / 16) as u32)
            }
            _ => gap("no target"),
        }
    }

    pub(super) fn addr(&mut self, inst: &Seen<'_>, base: S, offset: S, wide: bool) -> Result<Addr> {
        let low = self.word(inst, base, 0)?;
        let high = if wide { Some(self.word(inst, base, 1)?) } else { None };
        Ok(Addr { low, high, uniform: None, wide: None, scale: 1, offset: Self::imm(inst, offset).unwrap_or(0) })
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
        let wide = inst.modifier(M::E) != 0;
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
            "UBLKCP_AAU" | "UBLKCP_AAUU" | "UBLKRED_AAU" | "UBLKRED_AAUU" => self.bulk(inst, name)?,
            "STAS_AR" | "REDAS_AR" => self.async_store(inst, name)?,
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
                let offset = Self::imm(inst, S::Offset).or(Self::imm(inst, S::OffsetHigh)).unwrap_or(0);
                let base = (self.pc as i64 + 1) * 16 + offset;
                Exec::Jump { p: pp, low, high: None, base }
            }
            "BSSY" => {
                inst.slot(S::TargetFar);
                Exec::Bssy { b: Self::gpr(inst, S::Bd), p: pp }
            }
            "BSYNC" => Exec::Bsync { b: Self::gpr(inst, S::Bb), p: pp },
            "BREAK" => Exec::Break { b: Self::gpr(inst, S::Bb), p: pp },
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
            "LDC" | "ULDC" | "ULDC_R" => {
                let (size, sign) = Self::size(inst)?;
                let Some(Value::Const { bank, offset }) = inst.get(S::Const).map(|o| o.value) else {
                    return gap("no constant");
                };
                if inst.modifier(M::Mode) != 0 {
                    return gap("this mode");
                }
                let index = self.src(inst, S::Ra)?;
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
                Exec::Movm { d: Self::gpr(inst, S::Rd), a: self.src(inst, S::Ra)? }
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
                let f: fn(u32, u32) -> u32 = match (inst.modifier(M::Op), inst.modifier(M::S32) != 0) {
                    (0, _) => |a, b| a & b,
                    (1, _) => |a, b| a | b,
                    (2, _) => |a, b| a ^ b,
                    (3, _) => |a, b| a.wrapping_add(b),
                    (4, true) => |a, b| (a as i32).min(b as i32) as u32,
                    (5, true) => |a, b| (a as i32).max(b as i32) as u32,
                    (4, false) => |a, b| a.min(b),
                    (5, false) => |a, b| a.max(b),
                    _ => return gap("this operation"),
                };
                Exec::Redux { d: Self::dst(inst, S::Rd), a: self.src(inst, S::Ra)?, f }
            }
            "ELECT" => Exec::Elect { d: Self::dst(inst, S::Rd), p: Self::p(inst, S::Pu), a: pp },
            "R2UR" | "R2UR_UR_3" => {
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
            "S2R" | "S2UR" | "CS2R" => self.special(inst, name)?,
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
    pub(super) fn operation(&mut self, inst: &Seen<'_>, op: alu::AluOp) -> Result<Exec> {
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
        Ok(Exec::Alu { s, n: n as u8, pin, d: Self::dst(inst, S::Rd), nd: op.nd, pout, f: op.f })
    }

    fn atom(&mut self, inst: &Seen<'_>, name: &str, size: u8, f: AtomFn) -> Result<Exec> {
        let shared = name.starts_with("ATOMS");
        let space = if shared {
            Space::Shared
        } else if name.starts_with("ATOM_") || name == "ATOM" {
            Space::Generic
        } else {
            Space::Global
        };
        let mut addr = self.addr(inst, S::Ra, S::Imm, !shared && inst.modifier(M::E) != 0)?;
        if name == "ATOMS_U" {
            addr.uniform = Some(self.src(inst, S::URc)?);
        }
        let zero = self.k(0);
        let b = [self.word(inst, S::Rb, 0)?, if size == 8 { self.word(inst, S::Rb, 1)? } else { zero }];
        Ok(Exec::Atom(vec![Atom {
            space,
            addr,
            size,
            d: Self::gpr(inst, S::Rd),
            p: Self::p(inst, S::Pu),
            b,
            c: [zero; 2],
            f,
            result: AtomResult::Old,
        }]))
    }

    fn matrix(&mut self, inst: &Seen<'_>) -> Result<Exec> {
        if pp_matters(inst) {
            return gap("its predicate");
        }
        for slot in [S::Ra, S::Rb, S::Rc] {
            self.src(inst, slot)?;
        }
        let text = sass::text::print(inst.inst(), 0, &sass::text::NoLabels);
        let name = text.split_whitespace().find(|w| !w.starts_with('@')).unwrap_or_default();
        inst.form().mods.iter().for_each(|m| {
            inst.modifier(m.name);
        });
        let r = [S::Rd, S::Ra, S::Rb, S::Rc].map(|slot| Self::gpr(inst, slot));
        if name.starts_with("HMMA.884.") {
            let sides = (inst.suffix(S::Ra), inst.suffix(S::Rb));
            let Some(op) = super::quadpair::parse(name, sides, self.image.sm) else { return gap(name) };
            return Ok(Exec::Mma884 { op: Box::new(op), r });
        }
        let Some(op) = super::tensor::parse(name, self.image.sm) else { return gap(name) };
        let mut meta = None;
        if op.sparse {
            // Metadata and selector are the operands behind C.
            let mut slots = inst.form().slots.iter().filter(|s| s.role == Role::Use);
            let known = [S::Ra, S::Rb, S::Rc];
            let register = slots.find(|s| matches!(s.kind, SlotKind::Reg(File::Gpr)) && !known.contains(&s.name));
            let selector = inst.form().slots.iter().find(|s| matches!(s.kind, SlotKind::Imm { .. }));
            let (Some(register), Some(selector)) = (register, selector) else { return gap("no metadata") };
            let selector = Self::imm(inst, selector.name).unwrap_or(0) as u8;
            meta = Some((self.src(inst, register.name)?, selector));
        }
        Ok(Exec::Mma { op: Box::new(op), r, meta })
    }

    /// A 64-bit address: a pair of uniform registers, a register without sign, a distance.
    fn uniform_addr(&mut self, inst: &Seen<'_>, uniform: S, offset: S) -> Result<Addr> {
        if inst.modifier(M::E) == 0 {
            return gap("an address of 32 bits");
        }
        let mut addr = self.addr(inst, S::Ra, offset, false)?;
        addr.wide = Some([self.word(inst, uniform, 0)?, self.word(inst, uniform, 1)?]);
        Ok(addr)
    }

    /// An address of shared memory: a register, a uniform register, a distance.
    fn shared_addr(&mut self, inst: &Seen<'_>) -> Result<Addr> {
        let mut addr = self.addr(inst, S::Ra, S::Imm, false)?;
        if inst.slot(S::URc).is_some() {
            addr.uniform = Some(self.src(inst, S::URc)?);
        }
        Ok(addr)
    }

    fn syncs(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let (one, none, register) = (Count::One, Count::None, Count::Register);
        // Without operation there is neither mask nor "no result".
        let op = if name == "SYNCS_ARRIVE" { inst.modifier(M::Op) } else { 0 };
        let what = match name {
            "SYNCS_EXCH" => SyncsOp::Exchange,
            "SYNCS_CCTL_IV" => SyncsOp::Invalidate,
            "SYNCS_PHASECHK" => {
                inst.modifier(M::Trywait);
                SyncsOp::Check
            }
            "ARRIVES_LDGSTSBAR" => match inst.modifier(M::Mode) {
                1 => SyncsOp::Copies { arrives: true },
                0 if self.image.sm < 90 => SyncsOp::PlainCopies,
                2 => SyncsOp::Copies { arrives: false },
                _ => return gap("this mode"),
            },
            _ => {
                let (count, bytes) = match inst.modifier(M::Arrive) {
                    0 => (one, register),
                    1 => (one, none),
                    2 => (none, one),
                    3 => (none, register),
                    4 => (none, Count::Negative),
                    5 => (register, none),
                    _ => return gap("this kind of arrival"),
                };
                SyncsOp::Arrive { count, bytes, drop: inst.modifier(M::Optout) != 0 }
            }
        };
        let d = Self::dst(inst, S::Rd);
        let b = match name {
            "SYNCS_EXCH" => [self.word(inst, S::Rb, 0)?, self.word(inst, S::Rb, 1)?],
            _ => [self.word(inst, S::Rb, 0)?, self.k(0)],
        };
        let addr = if name == "SYNCS_EXCH" { self.addr(inst, S::Ra, S::Imm, false)? } else { self.shared_addr(inst)? };
        let p = Self::p(inst, S::Pu);
        Ok(Exec::Syncs(Box::new(Syncs { what, addr, d, p, b, mask: op == 1, once: name == "SYNCS_CCTL_IV" })))
    }

    fn bulk(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let reduces = name.starts_with("UBLKRED");
        let pair = |d: &mut Self, slot| -> Result<[Src; 2]> { Ok([d.word(inst, slot, 0)?, d.word(inst, slot, 1)?]) };
        let (to, from) = (pair(self, S::UR)?, pair(self, S::URa)?);
        let to_shared = inst.modifier(M::M73) == 1;
        let from_shared = reduces || inst.modifier(M::M74) == 1;
        let reduce = if !reduces {
            None
        } else {
            let (t, op) = (inst.modifier(M::M81), inst.modifier(M::M87));
            Some(match t {
                0..=3 => {
                    let bits = if t > 1 { 64 } else { 32 };
                    (integer_atom(op, bits, t % 2 == 1)?, bits / 8)
                }
                _ => return gap("this type"),
            })
        };
        let multicast = inst.modifier(M::Multicast) != 0;
        let size = self.src(inst, S::URc)?;
        Ok(Exec::Bulk(Box::new(BulkCopy { to, from, size, to_shared, from_shared, multicast, reduce })))
    }

    fn async_store(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let reduces = name == "REDAS_AR";
        let to = [self.word(inst, S::Ra, 0)?, self.word(inst, S::Ra, 1)?];
        if self.src(inst, S::URc)? != self.k(0) {
            return gap("a uniform register in the address");
        }
        // The address is marked as the pair that it is.
        if inst.modifier(if reduces { M::M72 } else { M::M90 }) == 0 {
            return gap("an address without a barrier");
        }
        let (size, reduce) = if reduces {
            let t = inst.modifier(M::M73);
            let bits = if t > 1 { 64 } else { 32 };
            (bits / 8, Some(integer_atom(inst.modifier(M::M87), bits, t % 2 == 1)?))
        } else {
            (4 << inst.modifier(M::M73), None)
        };
        let s = (0..size as u32 / 4).map(|n| self.word(inst, S::Rb, n)).collect::<Result<_>>()?;
        let offset = Self::imm(inst, S::ImmAt40).unwrap_or(0);
        Ok(Exec::AsyncStore(Box::new(AsyncStore { to, offset, size, s, reduce })))
    }

    fn barrier(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        // The vendor's code packs number and count into one register where both are variable.
        let packed = name.ends_with("_RR");
        let (id, in_register) = match Self::imm(inst, S::Bar) {
            Some(n) => (self.k(n as u32), false),
            None => (self.src(inst, S::Rb)?, true),
        };
        let count = match Self::imm(inst, S::Count) {
            Some(0) => None,
            Some(n) => Some(self.k(n as u32)),
            None if !in_register && inst.slot(S::Rb).is_some() => Some(self.src(inst, S::Rb)?),
            None => None,
        };
        let red = name.starts_with("BAR_RED").then(|| (inst.modifier(M::Op), Self::p(inst, S::Pp)));
        Ok(Exec::Bar { id, packed, count, wait: !name.starts_with("BAR_ARV"), red })
    }

    fn special(&mut self, inst: &Seen<'_>, name: &str) -> Result<Exec> {
        let d = Self::dst(inst, S::Rd);
        let wide = name == "CS2R" && inst.modifier(M::W) == 1;
        let sr = Self::imm(inst, S::Sr).ok_or("no special register")? as u8;
        use sass::enums::sr;
        match sr {
            sr::CLOCKLO | sr::GLOBALTIMERLO => return Ok(Exec::Clock { d, high: false, wide }),
            sr::CLOCKHI | sr::GLOBALTIMERHI => return Ok(Exec::Clock { d, high: true, wide }),
            _ => {}
        }
        let index = self.p.specials.iter().position(|&x| x == sr).unwrap_or_else(|| {
            self.p.specials.push(sr);
            self.p.specials.len() - 1
        });
        Ok(Exec::Special { d, index, wide })
    }
}

pub(super) fn integer_atom(op: u8, bits: u8, signed: bool) -> Result<AtomFn> {
    let m = if bits == 64 { u64::MAX } else { u32::MAX as u64 };
    let sx = move |x: u64| if bits == 64 { x as i64 } else { x as u32 as i32 as i64 };
    Ok(match op {
        0 => Box::new(move |o, b, _| o.wrapping_add(b) & m),
        1 if signed => Box::new(move |o, b, _| if sx(b) < sx(o) { b } else { o }),
        2 if signed => Box::new(move |o, b, _| if sx(b) > sx(o) { b } else { o }),
        1 => Box::new(|o, b, _| o.min(b)),
        2 => Box::new(|o, b, _| o.max(b)),
        3 => Box::new(|o, b, _| if o >= b { 0 } else { o + 1 }),
        4 => Box::new(|o, b, _| if o == 0 || o > b { b } else { o - 1 }),
        5 => Box::new(|o, b, _| o & b),
        6 => Box::new(|o, b, _| o | b),
        7 => Box::new(|o, b, _| o ^ b),
        8 => Box::new(|_, b, _| b),
        _ => return gap("this operation"),
    })
}

/// Addition (0), minimum (1) and maximum (2; those of halves only).
pub(super) fn float_atom(op: u8, t: u8) -> Result<(u8, AtomFn)> {
    use sass::enums::atomftype as ft;
    let halves = [ft::F16X2_RN, ft::F16X4_RN, ft::F16X8_RN, ft::BF16X2_RN, ft::BF16X4_RN, ft::BF16X8_RN];
    if op > 2 || op > 0 && !halves.contains(&t) {
        return gap("this operation");
    }
    let half = |bf16: bool| -> AtomFn {
        let h = Half { bf16, ..Half::default() };
        Box::new(move |o, b, _| {
            let one = |o: u16, b: u16| match op {
                0 => h.add(o, b) as u64,
                _ => fp::min_max(h.format(), op == 2, false, o as u64, b as u64),
            };
            (0..4).fold(0, |r, k| r | one((o >> (16 * k)) as u16, (b >> (16 * k)) as u16) << (16 * k))
        })
    };
    let single = |ftz: bool| -> AtomFn {
        Box::new(move |o, b, _| {
            let one = |k: u32| fp::add32((o >> k) as u32, (b >> k) as u32, Round::Rn, ftz) as u64;
            one(0) | one(32) << 32
        })
    };
    // Of the last types, which have 16 bytes, this is one half.
    Ok(match t {
        ft::F16X2_RN => (4, half(false)),
        ft::BF16X2_RN => (4, half(true)),
        ft::F16X4_RN | ft::F16X8_RN => (8, half(false)),
        ft::BF16X4_RN | ft::BF16X8_RN => (8, half(true)),
        ft::F32_FTZ_RN => (4, Box::new(|o, b, _| fp::add32(o as u32, b as u32, Round::Rn, true) as u64)),
        ft::F32_RN => (4, Box::new(|o, b, _| fp::add32(o as u32, b as u32, Round::Rn, false) as u64)),
        ft::F32X2_RN | ft::F32X4_RN => (8, single(false)),
        ft::F32X2_FTZ_RN | ft::F32X4_FTZ_RN => (8, single(true)),
        ft::F64_RN => (8, Box::new(|o, b, _| fp::add64(o, b, Round::Rn))),
        _ => return gap("this type"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::form::FormId;
    use sass::tables::FORMS;

    /// Forms that the simulator does not model yet. A form that is added to the tables fails this test until it is
    /// modelled or named here.
    const GAPS: [&str; 16] = [
        // Code of another section.
        "CALL_ABS",
        // Without .SAT (the forms' default), and packed conversions of two numbers.
        "I2IP_RRR",
        "I2IP_RIR",
        "I2IP_RCR",
        "I2IP_RUR",
        "I2IP_RRRR_4",
        "F2IP_RRR",
        "F2IP_RUR",
        // Barriers in shared memory.
        "ARRIVES_LDGSTSBAR",
        // Addresses, sources and modifiers that the compiler for sm_90 has not needed yet.
        "B2R_RI_2",
        "BMOV_BB",
        "FMNMX_RRR",
        "NANOSLEEP",
        "UIADD3_UUUU",
        "UIMAD_UUUU",
        "UIMAD_UUUU_2",
    ];

    /// Mnemonics of which some forms, or all, are not modelled yet.
    const FAMILIES: [&str; 14] =
        ["CLMAD", "LDL", "QSPC", "REDAS", "STAS", "STL", "SULD", "SURED", "SUST", "TEX", "TLD", "TLD4", "TXD", "TXQ"];

    #[test]
    fn every_form_is_modelled_or_known_not_to_be() {
        let image = Image {
            code: vec![0; 64],
            banks: vec![Window { start: 0, data: vec![0; 64] }; 8],
            param: Window::default(),
            constant: Window::default(),
            shared: 0x400,
            reserved: 0x400,
            world: Default::default(),
            sm: 90,
            registers: 0,
        };
        let mut gaps = Vec::new();
        let mut families = std::collections::BTreeSet::new();
        for (i, form) in FORMS.iter().enumerate() {
            if !form.on(90) {
                continue;
            }
            let p = Program {
                code: Vec::new(),
                insts: Vec::new(),
                sites: 0,
                products: false,
                plain_barriers: false,
                consts: vec![[0; 32]],
                specials: Vec::new(),
            };
            let mut d = Decoder { image: &image, p, consts: FxHashMap::default(), pc: 4 };
            if let Exec::Unsupported(_) = d.instruction(&Inst::new(FormId(i as u16))).exec {
                if FAMILIES.contains(&form.mnemonic) {
                    families.insert(form.mnemonic);
                } else if !form.name.contains("_X") {
                    // `_X`: forms of `*.more.isa`, beyond what ptxas was seen to emit.
                    gaps.push(form.name);
                }
            }
        }
        gaps.sort();
        let mut known = GAPS.to_vec();
        known.sort();
        assert_eq!(gaps, known);
        assert_eq!(families.into_iter().collect::<Vec<_>>(), FAMILIES, "a family that is modelled whole");
    }
}
