//! Emission: a kernel and the device functions it reaches, laid out in one text, as words.
//!
//! Needs scheduled functions whose targets are still block and function numbers. The kernel comes first, then the
//! functions in order, then a branch to itself and NOPs. Constant bank 2 holds the table of functions that are called
//! through pointers, then the tables of indexed branches.

use crate::ir::texel::Table;
use crate::link::{self, Ref, Reloc, Symbol};
use crate::mir::operands::sass_operands;
use crate::mir::{CallTarget, Inst, Op};
use crate::regalloc::frame::descriptor_load;
use crate::sched::branches::LinearBlock;
use diag::Diagnostic;
use rustc_hash::FxHashMap;
use sass::control::Control;
use sass::form::{ModName, Piece, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value, Wide};
use sass::reg::{File, Reg};

/// Added to the number of a function where it stands as the target of a call.
const FUNCTION: i64 = 1 << 40;

/// The immediate that is the size of an entry of a table, by the number of the [`Table`]; the system puts it in.
pub fn entry_size(table: i64) -> Operand {
    Operand::imm(ENTRY_SIZE + table)
}

/// Added to the number of a table where it stands in an immediate.
const ENTRY_SIZE: i64 = 1 << 43;

/// The code of a kernel and what its container says about it. All offsets are bytes from the start of the text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Code {
    /// The text: words of 128 bits, padded as the vendor's tool pads it.
    pub words: Vec<u128>,
    /// Bytes up to the end of the code itself, self-branch included, padding left out.
    pub code_size: u32,
    /// Highest general register used, plus one, over all functions.
    pub gprs_used: u32,
    /// Stack frame of the kernel itself, in bytes.
    pub frame: u32,
    /// Stack frames along the deepest chain of calls, the kernel's included; `None` if calls recur.
    pub stack: Option<u32>,
    /// Every `EXIT`.
    pub exit_offsets: Vec<u32>,
    /// Every instruction that works across the lanes of a warp.
    pub coop_group_offsets: Vec<u32>,
    /// Every instruction that works across the lanes of a warp and stands for nothing in the program.
    pub warp_wide_offsets: Vec<u32>,
    /// Every instruction that asks a barrier in shared memory.
    pub mbarriers: Vec<crate::mbarriers::MBarrier>,
    /// Indexed branches: where they stand, where they may go.
    pub indirect_branches: Vec<(u32, Vec<u32>)>,
    /// Contents of constant bank 2.
    pub const2: Vec<u8>,
    /// The kernel and its functions: name, offset, size.
    pub functions: Vec<Function>,
    /// Number of CTA barriers used.
    pub num_barriers: u32,
    /// Where in the PTX text code comes from: offset, byte offset in the text; one entry a change.
    pub lines: Vec<(u32, u32)>,
    /// There is a BSSY or a CALL: threads may wait for each other on a stack.
    pub has_bssy_or_call: bool,
    /// Calls of functions of the system.
    pub syscall_offsets: Vec<u32>,
    /// There are calls through pointers.
    pub has_indirect_calls: bool,
    /// `%ctaid.z` is read.
    pub reads_ctaid_z: bool,
    /// As `cubin::image::Image::isa_class`; 0 for code that asks for nothing.
    pub isa_class: u8,
    /// What it does with tensor maps, as `.nv.compat` has it: 1 if it copies by them, 2 if it writes fields of them, 3 if both.
    pub tensor_maps: u8,
    /// As `cubin::image::Kernel::sparse_products`.
    pub sparse_products: u16,
    /// Immediates that the system replaces by the size of an entry of a table: offset, table.
    pub entry_sizes: Vec<(u32, Table)>,
    /// With [`BackendInput::registers`](crate::backend::BackendInput): where threads need more registers than they have.
    pub misfit: Option<crate::registers::Misfit>,
    /// Bytes of spill code: loads, stores.
    pub spill_bytes: (u32, u32),
    /// Shared memory that the kernel takes for them.
    pub shared_spills: Option<crate::regalloc::shared::Taken>,
    /// Where products of warpgroups wait for one another though the program does not say so.
    pub losses: Vec<crate::sched::warpgroup::losses::Loss>,
    /// Relocations of a function that is linked by name.
    pub relocs: Vec<Reloc>,
    /// Text forms asked for: pass and function, text.
    pub dumps: Vec<(String, String)>,
}

/// A function in the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// First byte.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Its own stack frame, in bytes.
    pub frame: u32,
    /// The first register of the pair that holds its return address.
    pub returns_by: u8,
}

/// A function ready for emission.
#[derive(Clone, Debug, Default)]
pub struct Ready {
    /// Its name.
    pub name: String,
    /// Its stack frame in bytes.
    pub frame: u32,
    /// What it takes of the stack beside it is not known.
    pub grows: bool,
    /// Blocks in their final order.
    pub blocks: Vec<LinearBlock>,
    /// Functions that it calls.
    pub calls: Vec<CallTarget>,
    /// The first register of its return address.
    pub returns_by: u8,
    /// It is linked by name.
    pub linkable: bool,
    /// What its operands refer to.
    pub refs: Vec<Ref>,
}

/// Replaces calls by instructions; offsets are filled in by [`run`].
pub fn expand_calls(
    blocks: &mut [LinearBlock],
    descriptor: Option<u16>,
    refs: &mut Vec<Ref>,
    sm: u16,
) -> Vec<CallTarget> {
    let mut calls = Vec::new();
    for b in blocks {
        if !b.insts.iter().any(|i| matches!(i.op, Op::Call(_))) {
            continue;
        }
        let mut out = Vec::with_capacity(b.insts.len() + 8);
        for inst in b.insts.drain(..) {
            let Op::Call(call) = &inst.op else {
                out.push(inst);
                continue;
            };
            let loc = inst.loc;
            let mut push = |s: Sass| out.push(Inst::new(Op::Sass(s), loc));
            if call.top.is_some() {
                push(Sass::new(F::MOV_R).with(S::Rd, Reg::r(1)).with(S::Rb, Reg::r(3)));
            }
            let back = call.top.map(|n| {
                Sass::new(F::LDL).with(S::Rd, Reg::r(1)).with(S::Ra, Reg::r(1)).with(S::Imm, Operand::imm(n.into()))
            });
            if let (true, CallTarget::Indirect(r)) = (call.far, call.target) {
                let pair = Reg::r(r.0 as u8);
                let address = Sass::new(F::LDC).with(S::Rd, pair).with(S::Const, Operand::cbank(4, 0));
                push(address.with(S::Ra, pair).with_mod(ModName::Size, sass::enums::constsize::B64));
                if F::LEPC.get().variant_on(sm).is_some() {
                    push(Sass::new(F::LEPC).with(S::Rd, Reg::r(20)));
                } else {
                    // The instruction's own address, and how far behind it the call returns.
                    let carry = Reg::p(0);
                    let low = Sass::new(F::IADD3_RIR).with(S::Rd, Reg::r(20)).with(S::Pu, carry);
                    let high = Sass::new(F::IADD3X_RRR).with(S::Rd, Reg::r(21)).with(S::Pp, carry);
                    push(Sass::new(F::LEPC_XR).with(S::Rd, Reg::r(20)));
                    push(low.with(S::Ra, Reg::r(20)).with(S::Rb, Operand::imm(0)));
                    push(high.with(S::Ra, Reg::RZ).with(S::Rb, Reg::r(21)));
                }
                push(Sass::new(F::CALL_ABS_R).with(S::Ra, pair));
                // It does not keep the uniform registers: the descriptor of memory is loaded again.
                if let Some(at) = descriptor {
                    push(descriptor_load(at));
                }
                back.into_iter().for_each(push);
                continue;
            }
            if let CallTarget::Symbol(_) | CallTarget::Address(..) = call.target {
                let pair = call.keeps.return_pair();
                for (r, n) in [pair, pair + 1].into_iter().zip(link::RETURN) {
                    push(Sass::new(F::MOV_I).with(S::Rd, Reg::r(r)).with(S::Rb, Operand::imm(n)));
                }
                push(match call.target {
                    CallTarget::Address(lo, _) => {
                        refs.push(Ref { symbol: Symbol::Unified, kind: link::CALL_REGISTER, addend: 0 });
                        let to = link::immediate(refs.len() - 1);
                        Sass::new(F::CALL_ABS_R).with(S::Ra, Reg::r(lo.0 as u8)).with(S::Offset, to)
                    }
                    CallTarget::Symbol(n) => Sass::new(F::CALL_ABS).with(S::Addr, link::immediate(n as usize)),
                    _ => continue,
                });
                back.into_iter().for_each(push);
                calls.push(call.target);
                continue;
            }
            let last = match call.target {
                CallTarget::Func(n) => {
                    let to = Operand { value: Value::target(FUNCTION + n as i64), ..Operand::imm(0) };
                    Sass::new(F::CALL_REL).with(S::Target, to)
                }
                CallTarget::Symbol(_) | CallTarget::Address(..) => continue,
                CallTarget::Indirect(r) => {
                    push(Sass::new(F::MOV_R).with(S::Rd, Reg::r(r.0 as u8 + 1)).with(S::Rb, Reg::RZ));
                    Sass::new(F::CALL_REL_R).with(S::Ra, Reg::r(r.0 as u8))
                }
            };
            let pair = call.keeps.return_pair();
            push(Sass::new(F::MOV_I).with(S::Rd, Reg::r(pair)).with(S::Rb, Operand::imm(0)));
            // Routines for seldom cases have something else there, and clear it themselves.
            if !call.keeps.light() {
                push(Sass::new(F::MOV_R).with(S::Rd, Reg::r(pair + 1)).with(S::Rb, Reg::RZ));
            }
            push(last);
            back.into_iter().for_each(push);
            calls.push(call.target);
        }
        b.insts = out;
    }
    calls
}

/// Bytes of constant bank 2.
const MOST_TABLES: usize = 1 << 16;

/// Fails where the tables so far, the last of them of the function `name`, are too much.
fn tables_fit(code: &Code, name: &str) -> Result<(), Diagnostic> {
    if code.const2.len() <= MOST_TABLES {
        return Ok(());
    }
    Err(Diagnostic::error(format!(
        "the tables of indexed branches and called functions of '{name}' take more than the {MOST_TABLES} bytes of constant bank 2; \
         make some of its branches depend on comparisons, or call fewer functions through pointers"
    )))
}

/// Lays out and encodes; `functions[0]` is the kernel; `table` lists the numbers of the
/// functions that may be called through pointers.
///
/// # Errors
/// Where tables do not fit into their constant bank, and for an instruction that has no encoding: a mistake of the compiler.
pub fn run(functions: Vec<Ready>, table: &[u32], sm: u16) -> Result<Code, Diagnostic> {
    let mut code = Code {
        stack: deepest(&functions, table).filter(|_| !functions.iter().any(|f| f.grows)),
        frame: functions[0].frame,
        ..Code::default()
    };
    code.has_indirect_calls = functions.iter().any(|f| f.calls.iter().any(|c| matches!(c, CallTarget::Indirect(_))));
    let mut at = 0u32;
    let mut block_at: Vec<Vec<u32>> = Vec::new();
    for f in &functions {
        let begin = at;
        let ids = f.blocks.iter().map(|b| b.id as usize + 1).max().unwrap_or(0);
        let mut offsets = vec![u32::MAX; ids];
        for b in &f.blocks {
            offsets[b.id as usize] = at;
            at += 16 * b.insts.len() as u32;
        }
        block_at.push(offsets);
        let (name, size) = (f.name.clone(), at - begin);
        code.functions.push(Function { name, offset: begin, size, frame: f.frame, returns_by: f.returns_by });
    }
    let end = at;
    code.words.reserve_exact(end as usize / 16 + 16);
    if !table.is_empty() || code.has_indirect_calls {
        code.const2.extend(1u64.to_le_bytes());
        for &n in table {
            let offset = code.functions.get(n as usize).map_or(0, |f| f.offset);
            code.const2.extend((offset as u64).to_le_bytes());
        }
        tables_fit(&code, &code.functions[0].name)?;
    }
    let pairs: Vec<u8> = functions.iter().map(|f| f.returns_by).collect();
    let mut tables: FxHashMap<Vec<u32>, i32> = FxHashMap::default();
    let mut last_loc = u32::MAX;
    let mut highest = 1;
    for (fi, mut f) in functions.into_iter().enumerate() {
        let refs = std::mem::take(&mut f.refs);
        let offsets = &block_at[fi];
        let after_sync = sync_points(&f, offsets);
        for mut b in f.blocks {
            let mut pc = offsets[b.id as usize];
            let table: Vec<u32> = b.table.iter().map(|&t| offsets[t as usize]).collect();
            // An interpreter that jumps behind each of its operations has one table.
            let table_base = match tables.get(&table) {
                Some(&at) => at,
                None => code.const2.len() as i32,
            };
            if table_base as usize == code.const2.len() && !table.is_empty() {
                table.iter().for_each(|t| code.const2.extend(t.to_le_bytes()));
                tables.insert(table.clone(), table_base);
                tables_fit(&code, &f.name)?;
            }
            // Return offsets stand before their calls; NOPs may have come between.
            for k in 0..b.insts.len() {
                let is_call = matches!(&b.insts[k].op, Op::Sass(s) if s.form == F::CALL_REL || s.form == F::CALL_REL_R);
                if f.linkable
                    && matches!(&b.insts[k].op, Op::Sass(s) if s.form == F::CALL_ABS || s.form == F::CALL_ABS_R)
                {
                    return_address(&mut code.relocs, &mut b.insts[..k], pc, pc + 16 * (k as u32 + 1));
                    continue;
                }
                if matches!(&b.insts[k].op, Op::Sass(s) if s.form == F::CALL_ABS_R) {
                    // The address behind the call, from the instruction that makes it.
                    let form = |j: usize| if let Op::Sass(s) = &b.insts[j].op { Some(s.form) } else { None };
                    let lepc = (0..k).rev().find(|&j| matches!(form(j), Some(F::LEPC | F::LEPC_XR)));
                    if let Some(j) = lepc.filter(|&j| form(j) == Some(F::LEPC_XR))
                        && let Some(add) = (j..k).find(|&n| form(n) == Some(F::IADD3_RIR))
                        && let Op::Sass(s) = &mut b.insts[add].op
                        && let Some(i) = s.slot(S::Rb)
                    {
                        s.operands[i] = Operand::imm(16 * (k - j + 1) as i64);
                    }
                    if let Some(j) = lepc
                        && let Op::Sass(s) = &mut b.insts[j].op
                        && let Some(i) = s.slot(S::Address)
                    {
                        s.operands[i] = Operand { value: Value::target(16 * (k - j) as i64), ..Operand::imm(0) };
                    }
                }
                if !is_call {
                    continue;
                }
                let callee = match &b.insts[k].op {
                    Op::Sass(s) => s.get(S::Target).and_then(|o| match o.value {
                        Value::Target(t) => pairs.get(t.get().checked_sub(FUNCTION)? as usize),
                        _ => None,
                    }),
                    _ => None,
                };
                let pair = Reg::r(callee.copied().unwrap_or(20));
                let sets = |s: &Sass| s.form == F::MOV_I && s.get(S::Rd).and_then(Operand::as_reg) == Some(pair);
                let set = (0..k).rev().find(|&j| matches!(&b.insts[j].op, Op::Sass(s) if sets(s)));
                match set.map(|j| &mut b.insts[j].op) {
                    Some(Op::Sass(s)) if let Some(i) = s.slot(S::Rb) => {
                        s.operands[i] = Operand::imm(pc as i64 + 16 * (k as i64 + 1));
                    }
                    _ => return Err(internal(&f.name, "a call has no return address")),
                }
            }
            for inst in &mut b.insts {
                let Op::Sass(s) = &mut inst.op else {
                    return Err(internal(&f.name, "an instruction was left for emission to expand"));
                };
                if inst.loc != last_loc && inst.loc != u32::MAX {
                    code.lines.push((pc, inst.loc));
                    last_loc = inst.loc;
                }
                if f.linkable {
                    relocate_table(&mut code.relocs, s, pc, table_base);
                }
                resolve(s, pc, table_base, &code.functions, |block, bar| match bar {
                    Some(r) => after_sync.iter().find(|x| x.0 == block && x.1 == r).map_or(offsets[block], |x| x.2),
                    None => offsets[block],
                });
                if f.linkable {
                    relocate(&mut code.relocs, s, pc, &refs);
                }
                note(&mut code, s, pc, &table, &mut highest, f.linkable);
                code.mbarriers.extend(crate::mbarriers::of(s, pc, inst.loc, sm));
                for o in &mut s.operands {
                    if let Value::Imm(n) = o.value
                        && let n @ ENTRY_SIZE.. = n.get()
                    {
                        let table = Table::ALL.get((n - ENTRY_SIZE) as usize).copied().unwrap_or(Table::Unified);
                        code.entry_sizes.push((pc, table));
                        o.value = Value::imm(0);
                    }
                }
                match sass::codec::encode(s, sm) {
                    Ok(word) => code.words.push(word),
                    Err(e) => return Err(internal(&f.name, &e.message)),
                }
                pc += 16;
            }
        }
    }
    code.gprs_used = highest + 1;
    let idle = Control { stall: 0, bit109: false, ..Control::default() };
    let pad = |mut s: Sass, code: &mut Code| {
        s.ctrl = idle;
        match sass::codec::encode(&s, sm) {
            Ok(word) => {
                code.words.push(word);
                Ok(())
            }
            Err(e) => Err(internal("padding", &e.message)),
        }
    };
    let itself = Operand { value: Value::target(-16), ..Operand::imm(0) };
    pad(Sass::new(F::BRA).with(S::Target, itself), &mut code)?;
    code.code_size = end + 16;
    let total = code.code_size.next_multiple_of(128) + if sm >= FIRST_WITH_TAIL { 128 } else { 0 };
    while (code.words.len() as u32) < total / 16 {
        pad(Sass::new(F::NOP), &mut code)?;
    }
    Ok(code)
}

/// Lists the relocations of the two instructions that set the return address of a call: `insts` are those of the block before it,
/// the first at `pc`, and the address is `back` bytes behind the start of the function.
fn return_address(relocs: &mut Vec<Reloc>, insts: &mut [Inst], pc: u32, back: u32) {
    for (n, kind) in link::RETURN.into_iter().zip([link::ABS32_LO, link::ABS32_HI]) {
        for (j, inst) in insts.iter_mut().enumerate().rev() {
            if let Op::Sass(s) = &mut inst.op
                && let Some(i) = s.operands.iter().position(|o| o.value == Value::imm(n))
            {
                s.operands[i] = Operand::imm(0);
                let to = Ref { symbol: Symbol::Own, kind, addend: back as i64 };
                relocs.push(Reloc { offset: pc + 16 * j as u32, to });
                break;
            }
        }
    }
}

/// Lists the relocation of a load from the function's tables.
fn relocate_table(relocs: &mut Vec<Reloc>, s: &mut Sass, pc: u32, base: i32) {
    for o in &mut s.operands {
        if let Value::Const { bank: 2, offset } = &mut o.value
            && *offset < 0
        {
            *offset = 0;
            let to = Ref { symbol: Symbol::Tables, kind: link::CONST_FIELD, addend: base as i64 };
            relocs.push(Reloc { offset: pc, to });
        }
    }
}

/// Lists the relocation of an instruction, and clears its field.
fn relocate(relocs: &mut Vec<Reloc>, s: &mut Sass, pc: u32, refs: &[Ref]) {
    for o in &mut s.operands {
        let Some((n, value)) = link::reference(o.value) else { continue };
        o.value = value;
        relocs.extend(refs.get(n).map(|&to| Reloc { offset: pc, to }));
    }
}

/// From this chip on the vendor's tool always leaves 128 bytes of NOPs behind the code (the fetcher runs ahead).
const FIRST_WITH_TAIL: u16 = 80;

fn internal(function: &str, message: &str) -> Diagnostic {
    Diagnostic::error(format!("internal error while emitting '{function}': {message}"))
}

/// Where BSYNCs stand: block, barrier, the offset behind.
fn sync_points(f: &Ready, offsets: &[u32]) -> Vec<(usize, Reg, u32)> {
    let mut out = Vec::new();
    for b in &f.blocks {
        for (k, inst) in b.insts.iter().enumerate() {
            if let Op::Sass(s) = &inst.op
                && s.form == F::BSYNC
                && let Some(bar) = s.get(S::Bb).and_then(Operand::as_reg)
            {
                out.push((b.id as usize, bar, offsets[b.id as usize] + 16 * (k as u32 + 1)));
            }
        }
    }
    out
}

/// Replaces block and function numbers by distances, and places of tables by their offsets.
fn resolve(s: &mut Sass, pc: u32, table: i32, functions: &[Function], block: impl Fn(usize, Option<Reg>) -> u32) {
    let next = pc as i64 + 16;
    let form = s.form;
    let bar = (form == F::BSSY).then(|| s.get(S::Bd).and_then(Operand::as_reg)).flatten();
    for o in &mut s.operands {
        match &mut o.value {
            // The register holds the offset from the start of the text.
            Value::Target(_) if form == F::LEPC => {}
            Value::Target(t) if form == F::RET_REL || form == F::CALL_REL_R => *t = Wide::new(-next),
            Value::Target(t) if t.get() >= FUNCTION => {
                let n = (t.get() - FUNCTION) as usize;
                *t = Wide::new(functions.get(n).map_or(0, |f| f.offset as i64) - next);
            }
            Value::Target(t) => *t = Wide::new(block(t.get() as usize, bar) as i64 - next),
            Value::Const { bank: 2, offset } if *offset < 0 => *offset = table,
            _ => {}
        }
    }
    if form == F::BRX
        && let Some(i) = s.slot(S::Offset)
    {
        s.operands[i] = Operand::imm(-next);
    }
}

/// What instructions ask of a machine, by how their mnemonics begin; of all others 1.
const ISA_CLASSES: [(&str, u8); 15] = [
    ("HGMMA", 4),
    ("IGMMA", 4),
    ("QGMMA", 4),
    ("BGMMA", 4),
    ("UTMALDG", 2),
    ("UTMASTG", 2),
    ("UTMAREDG", 2),
    ("UTMAPF", 2),
    ("UTMACCTL", 2),
    ("USETMAXREG", 2),
    ("TEX", 2),
    ("TLD", 2),
    ("TXQ", 2),
    ("TXD", 2),
    ("SU", 2),
];

/// Products of which the container wants to know whether they are of sparse matrices, in the order of its bits; those of tensor memory are
/// named by how they begin and end.
const SPARSE: [&str; 8] = ["QGMMA", "HGMMA", "IGMMA", "QMMA", "HMMA", "IMMA", "UTC", "OMMA"];

/// Collects what the container wants to know.
fn note(code: &mut Code, s: &Sass, pc: u32, table: &[u32], highest: &mut u32, linkable: bool) {
    sass_operands(s, |p| {
        if p.reg.file() == File::Gpr && !p.reg.is_const() {
            *highest = (*highest).max(p.reg.index() + p.width as u32 - 1);
        }
    });
    let form = s.form();
    if s.form == F::EXIT {
        code.exit_offsets.push(pc);
    }
    // Neither what is collective nor a product is anything else.
    let together = form.effects.cross_lane || !form.class.is_plain();
    if s.form == F::VOTEU {
        code.warp_wide_offsets.push(pc);
    } else if together && form.collective() {
        code.coop_group_offsets.push(pc);
    }
    let sparse = |p: &Piece| matches!(p, Piece::Text(t) if t.contains(".SP"));
    if together
        && let Some(n) = SPARSE.iter().position(|w| form.mnemonic.starts_with(w))
        && form.syntax.iter().any(sparse)
    {
        code.sparse_products |= 1 << n;
    }
    // Products of bits, which no later chip has.
    if together && form.mnemonic == "BMMA" {
        code.isa_class = 4;
    }
    // Any instruction that reads it names it by the same number.
    let z = Value::imm(sass::enums::sr::CTAID_Z as i64);
    code.reads_ctaid_z |= s.get(S::Sr).is_some_and(|o| o.value == z);
    if form.class.is_plain() {
        return;
    }
    match s.form {
        F::BRX | F::BRXU => code.indirect_branches.push((pc, table.to_vec())),
        F::CALL_ABS | F::CALL_ABS_R if linkable => {}
        F::CALL_ABS_R => {
            code.has_bssy_or_call = true;
            code.syscall_offsets.push(pc);
        }
        F::BSSY | F::CALL_REL | F::CALL_REL_R => code.has_bssy_or_call = true,
        _ => {}
    }
    for (word, class) in ISA_CLASSES {
        if form.mnemonic.starts_with(word) {
            code.isa_class = code.isa_class.max(class);
            // (The names of copies by maps; what has to do with maps otherwise copies nothing.)
            code.tensor_maps |= (word.starts_with("UTMA") && word != "UTMACCTL") as u8;
        }
    }
    // Copies into shared memory, which may be another CTA's.
    if form.mnemonic == "UBLKCP" && s.modifier(ModName::M73) == sass::enums::ublkcp_m73::S {
        code.isa_class = code.isa_class.max(2);
    }
    if form.mnemonic.starts_with("BAR") {
        let used = match s.get(S::Bar).map(|o| o.value) {
            Some(Value::Imm(n)) => n.get() as u32 + 1,
            _ => 16,
        };
        code.num_barriers = code.num_barriers.max(used);
    }
}

/// The frames along the deepest chain of calls from the kernel; `None` if some function can call itself.
fn deepest(functions: &[Ready], table: &[u32]) -> Option<u32> {
    // 0 unseen, 1 on the way, 2 done.
    fn depth(at: usize, f: &[Ready], table: &[u32], state: &mut [u8], memo: &mut [u32]) -> Option<u32> {
        match state[at] {
            1 => return None,
            2 => return Some(memo[at]),
            _ => {}
        }
        state[at] = 1;
        let mut below = 0;
        for c in &f[at].calls {
            let list: &[u32] = match c {
                CallTarget::Func(n) => std::slice::from_ref(n),
                CallTarget::Indirect(_) => table,
                // The linker adds these up.
                CallTarget::Symbol(_) | CallTarget::Address(..) => &[],
            };
            for &n in list {
                if (n as usize) < f.len() {
                    below = below.max(depth(n as usize, f, table, state, memo)?);
                }
            }
        }
        state[at] = 2;
        memo[at] = f[at].frame + below;
        Some(memo[at])
    }
    let n = functions.len();
    depth(0, functions, table, &mut vec![0; n], &mut vec![0; n])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(insts: Vec<Sass>) -> Vec<LinearBlock> {
        let insts = insts.into_iter().map(|s| Inst::new(Op::Sass(s), u32::MAX)).collect();
        vec![LinearBlock { id: 0, insts, succs: vec![], table: vec![] }]
    }

    fn set(r: u8, n: i64) -> Sass {
        Sass::new(F::MOV_I).with(S::Rd, Reg::r(r)).with(S::Rb, Operand::imm(n))
    }

    /// The immediate of the instruction at this place of the code.
    fn immediate(code: &Code, at: usize) -> i64 {
        let sass::codec::Decoded::Known(i) = sass::codec::decode(code.words[at], 90) else { panic!("unknown") };
        match i.get(S::Rb).map(|o| o.value) {
            Some(Value::Imm(n)) => n.get(),
            other => panic!("{other:?}"),
        }
    }

    /// What sets the return address is found though other instructions, and other settings of other registers, stand between.
    #[test]
    fn the_return_address_is_that_behind_the_call() {
        let to = Operand { value: Value::target(FUNCTION + 1), ..Operand::imm(0) };
        let call = Sass::new(F::CALL_REL).with(S::Target, to);
        let kernel = block(vec![set(20, 7), set(20, 0), Sass::new(F::NOP), set(4, 9), Sass::new(F::NOP), call]);
        let callee = block(vec![Sass::new(F::RET_REL).with(S::Ra, Reg::r(20)).with(S::Target, to)]);
        let ready = |name: &str, blocks| Ready { name: name.into(), blocks, returns_by: 20, ..Ready::default() };
        let code = run(vec![ready("k", kernel), ready("f", callee)], &[], 90).unwrap();
        assert_eq!([0, 1, 3].map(|at| immediate(&code, at)), [7, 0x60, 9]);
    }

    /// In a function that is linked by name both halves are relocated against the function, as is the callee.
    #[test]
    fn names_become_relocations() {
        let refs = vec![Ref { symbol: Symbol::Function(3), kind: link::CALL, addend: 0 }];
        let call = Sass::new(F::CALL_ABS).with(S::Addr, link::immediate(0));
        let [lo, hi] = link::RETURN;
        let blocks = block(vec![set(20, lo), Sass::new(F::NOP), set(21, hi), call]);
        let ready = Ready { name: "f".into(), blocks, linkable: true, refs, ..Ready::default() };
        let code = run(vec![ready], &[], 90).unwrap();
        let mut list: Vec<_> = code.relocs.iter().map(|r| (r.offset, r.to.kind, r.to.symbol, r.to.addend)).collect();
        list.sort_by_key(|r| r.0);
        let back = |offset, kind| (offset, kind, Symbol::Own, 0x40);
        let callee = (0x30, link::CALL, Symbol::Function(3), 0);
        assert_eq!(list, [back(0, link::ABS32_LO), back(0x20, link::ABS32_HI), callee]);
        assert_eq!([0, 2].map(|at| immediate(&code, at)), [0, 0]);
    }

    /// Of what is plain, only registers and special registers are looked at.
    #[test]
    fn plain_instructions_say_nothing_to_the_container() {
        for form in sass::tables::FORMS.iter().filter(|f| f.class.is_plain()) {
            let told = |word: &str| form.mnemonic.starts_with(word);
            assert!(!ISA_CLASSES.iter().any(|x| told(x.0)), "{}", form.name);
            assert!(
                !told("WARPSYNC") && !told("BAR") && !told("BRX") && !told("CALL") && !told("BSSY"),
                "{}",
                form.name
            );
            assert!(form.mnemonic != "EXIT" && !told("WARPGROUP") && !told("RET"), "{}", form.name);
        }
    }
}
