//! Predicates that live for long are carried in general registers, where there are more of them at once than registers: put there where they are
//! made, and brought back before what reads them.

use super::super::Note;
use super::super::spill::Symbols;
use super::spans::Known;
use crate::cfg::{Cfg, NONE};
use crate::mir::{Func, Inst, Op, Term, Vreg};
use sass::form::{ModName as M, SlotName as S};
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use sass::{enums, forms as F};

/// So many predicates at once stay where they are: the other registers are for those that are brought back.
const MOST: usize = 4;

/// The values that are carried: of those that live at once the ones that live longest.
fn choose(f: &Func, values: &[Known]) -> Vec<Vreg> {
    let is = |v: &u32| f.vregs[*v as usize] == File::Pred && values[*v as usize].start > 0;
    let mut list: Vec<(u32, u32, u32)> =
        (0..f.vregs.len() as u32).filter(is).map(|v| (values[v as usize].start, values[v as usize].end, v)).collect();
    list.sort_unstable();
    let (mut alive, mut out): (Vec<(u32, u32)>, Vec<Vreg>) = (Vec::new(), Vec::new());
    for (start, end, v) in list {
        alive.retain(|a| a.0 > start);
        alive.push((end, v));
        if alive.len() > MOST
            && let Some(last) = (0..alive.len()).max_by_key(|&n| alive[n])
        {
            out.push(Vreg(alive.swap_remove(last).1));
        }
    }
    out
}

/// The rewriting of a block under way.
struct Block<'a> {
    f: &'a mut Func,
    symbols: &'a mut Symbols,
    /// By value: the general register that carries it.
    carrier: &'a [u32],
    /// What was brought back last, and its name here.
    back: Option<(Vreg, Vreg)>,
    out: Vec<Inst>,
    notes: Vec<Note>,
}

impl Block<'_> {
    fn carrier(&self, v: Vreg) -> Option<Reg> {
        let c = self.carrier.get(v.index()).copied().filter(|&c| c != NONE)?;
        Some(self.f.reg(Vreg(c)))
    }

    fn emit(&mut self, s: Sass, loc: u32, note: Note) {
        self.out.push(Inst::new(Op::Sass(s), loc));
        self.notes.push(note);
    }

    /// The name of a value here.
    fn name(&mut self, v: Vreg, loc: u32) -> Vreg {
        let Some(carrier) = self.carrier(v) else { return v };
        if let Some((_, name)) = self.back.filter(|b| b.0 == v) {
            return name;
        }
        let name = self.f.new_vreg(File::Pred);
        self.symbols.push(self.symbols.get(v));
        let s = Sass::new(F::ISETP_RR).with(S::Pu, self.f.reg(name)).with(S::Ra, carrier).with(S::Rb, Reg::RZ);
        self.emit(s.with_mod(M::Cmp, enums::icmp::NE).with_mod(M::Sign, enums::sign::U32), loc, Note::Decode);
        self.back = Some((v, name));
        name
    }

    /// Gives an operand the name that its value has here.
    fn rename(&mut self, o: &mut Operand, loc: u32) {
        if let Value::Reg(r) = o.value
            && r.is_virtual()
            && r.file() == File::Pred
        {
            let name = self.name(Vreg(r.index()), loc);
            o.value = Value::Reg(self.f.reg(name));
        }
    }

    /// A value has been made.
    fn made(&mut self, v: Vreg, loc: u32) {
        let Some(carrier) = self.carrier(v) else { return };
        let s = Sass::new(F::SEL_RI).with(S::Rd, carrier).with(S::Ra, Reg::RZ).with(S::Rb, Operand::imm(1));
        self.emit(s.with(S::Pp, Operand::reg(self.f.reg(v)).inverted()), loc, Note::Encode);
        self.back = Some((v, v));
    }

    fn inst(&mut self, inst: &mut Inst, note: Note) {
        let loc = inst.loc;
        let mut made: smallvec::SmallVec<[Vreg; 4]> = smallvec::SmallVec::new();
        match &mut inst.op {
            Op::Sass(s) => {
                let registers = s.registers();
                self.rename(&mut s.guard, loc);
                let mut slots = registers.reads;
                while slots != 0 {
                    let i = slots.trailing_zeros() as usize;
                    slots &= slots - 1;
                    self.rename(&mut s.operands[i], loc);
                }
                let mut slots = registers.writes;
                while slots != 0 {
                    let i = slots.trailing_zeros() as usize;
                    slots &= slots - 1;
                    let r = s.operands[i].as_reg().filter(|r| r.is_virtual() && r.file() == File::Pred);
                    made.extend(r.map(|r| Vreg(r.index())));
                }
            }
            Op::Copy(pairs) => {
                for (d, s) in pairs.iter_mut().filter(|p| p.0.file() == File::Pred) {
                    made.push(Vreg(d.index()));
                    if s.is_virtual() {
                        let name = self.name(Vreg(s.index()), loc);
                        *s = self.f.reg(name);
                    }
                }
            }
            Op::Call(_) | Op::LoadIncoming { .. } | Op::Hold { .. } => {}
        }
        inst.move_to(&mut self.out);
        self.notes.push(note);
        made.into_iter().for_each(|v| self.made(v, loc));
    }
}

/// Rewrites the function; `notes` has one for each instruction, and gets those of the new ones.
pub(in super::super) fn run(f: &mut Func, cfg: &Cfg, values: &[Known], symbols: &mut Symbols, notes: &mut [Vec<Note>]) {
    let mut carrier = vec![NONE; f.vregs.len()];
    for v in choose(f, values) {
        carrier[v.index()] = f.new_vreg(File::Gpr).0;
        symbols.push(symbols.get(v) | Symbols::ENCODED);
    }
    for &b in &cfg.rpo {
        let bi = b as usize;
        let mut insts = std::mem::take(&mut f.blocks[bi].insts);
        let mut term = std::mem::replace(&mut f.blocks[bi].term, Term::Unreachable);
        let (params, end) = (f.blocks[bi].params.clone(), f.blocks[bi].loc);
        let out = Vec::with_capacity(insts.len() + insts.len() / 8 + 2);
        let mut block = Block { f, symbols, carrier: &carrier, back: None, out, notes: Vec::new() };
        params.into_iter().for_each(|p| block.made(p, end));
        for (inst, note) in insts.iter_mut().zip(std::mem::take(&mut notes[bi])) {
            block.inst(inst, note);
        }
        if let Term::CondBr { cond, .. } = &mut term {
            block.rename(cond, end);
        }
        for e in term.edges_mut() {
            e.args.iter_mut().for_each(|a| *a = block.name(*a, end));
        }
        let Block { out, notes: new, .. } = block;
        (f.blocks[bi].insts, f.blocks[bi].term, notes[bi]) = (out, term, new);
    }
}
