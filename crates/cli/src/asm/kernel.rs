//! Kernels written by hand: `.kernel NAME .target sm_90 .params 8 8 4`, then instructions.
//!
//! Control fields that are left out are filled in as the compiler fills in its own, by the latency tables of the target;
//! where a line has one, it stays. Functions are called by label; an indexed branch names its targets in a `.table`.

use super::text::{Lines, Words, fail, shifted};
use codegen::mir::{Inst, Op};
use codegen::sched::branches::LinearBlock;
use codegen::sched::control;
use cubin::elf::Elf;
use cubin::image::{Image, Kernel, Param, Shared, padded_text_size};
use diag::{Diagnostic, Span};
use sass::codec::encode;
use sass::control::Control;
use sass::form::{SlotKind, SlotName};
use sass::inst::{Inst as Sass, Value};
use sass::latency::{Class, ready};
use sass::reg::File;
use sass::text::{Addresses, parse_on};
use std::borrow::Cow;
use std::collections::HashMap;

/// A file states so many registers more than the code names.
const KEPT_BY_MACHINE: u32 = 2;

struct Source {
    name: String,
    place: Span,
    target: arch::Target,
    params: Vec<u16>,
    shared: Option<u32>,
    max_threads: Option<[u32; 3]>,
    code: Vec<(Sass, Option<Control>, Span)>,
    /// Of indexed branches, by instruction: the instructions that they may go to.
    tables: Vec<(usize, Vec<usize>)>,
}

/// Labels as addresses: 16 bytes an instruction.
struct Labels(HashMap<String, i64>);

impl Addresses for Labels {
    fn address(&self, label: &str) -> Option<i64> {
        self.0.get(label).copied()
    }
}

/// Reads kernels and makes an executable cubin of them.
pub(super) fn read(text: &str) -> Result<Elf, Diagnostic> {
    let mut lines = Lines::new(text);
    let mut kernels: Vec<Source> = Vec::new();
    while lines.peek().is_some() {
        kernels.push(source(&mut lines)?);
    }
    let Some(first) = kernels.first() else { return fail(lines.place(), "there is no `.kernel`") };
    let target = first.target;
    if let Some(other) = kernels.iter().find(|k| k.target != target) {
        return fail(other.place, "all kernels of a file are for the same target");
    }
    let mut done = Vec::new();
    for k in kernels {
        if done.iter().any(|d: &Kernel| d.name == k.name) {
            return fail(k.place, format!("the kernel '{}' stands twice", k.name));
        }
        done.push(kernel(k)?);
    }
    let tool = codegen::compile::default_tool();
    let image = Image { kernels: done, ..Image::new(target, tool) };
    image.emit()
}

fn source(lines: &mut Lines) -> Result<Source, Diagnostic> {
    let Some(mut w) = lines.next_words() else { return fail(lines.place(), "there is no `.kernel`") };
    if w.word()? != ".kernel" {
        return fail(w.last(), "a kernel begins with `.kernel NAME .target sm_90`");
    }
    let name = w.word()?.to_string();
    let place = w.last();
    let mut k = Source {
        name,
        place,
        target: arch::Target::parse("sm_90").unwrap_or(arch::TARGETS[0]),
        params: Vec::new(),
        shared: None,
        max_threads: None,
        code: Vec::new(),
        tables: Vec::new(),
    };
    let mut tables: Vec<(usize, Vec<(String, Span)>)> = Vec::new();
    let mut targeted = false;
    let mut body: Vec<super::text::Line> = Vec::new();
    let mut labels = Labels(HashMap::new());
    loop {
        while !w.is_empty() {
            targeted |= directive(&mut w, &mut k)?;
        }
        // Directives may go on over lines; then come labels and instructions.
        match lines.peek() {
            Some(line) if line.text.starts_with('.') && !line.text.ends_with(':') => {
                if line.text.starts_with(".kernel") {
                    break;
                }
                lines.skip();
                w = Words::new(line);
                if line.text.split_whitespace().next() == Some(".table") {
                    w.word()?;
                    let Some(branch) = body.len().checked_sub(1) else {
                        return fail(line.span(), "`.table` stands behind the branch whose targets it names");
                    };
                    let mut list = Vec::new();
                    while !w.is_empty() {
                        let label = w.word()?.to_string();
                        list.push((label, w.last()));
                    }
                    tables.push((branch, list));
                }
            }
            Some(line) => {
                lines.skip();
                if let Some(label) = line.text.strip_suffix(':').filter(|l| !l.contains(char::is_whitespace)) {
                    if labels.0.insert(label.to_string(), body.len() as i64 * 16).is_some() {
                        return fail(line.span(), format!("the label `{label}` stands twice"));
                    }
                    continue;
                }
                body.push(line);
            }
            None => break,
        }
    }
    if !targeted {
        return fail(k.place, "`.target` is missing");
    }
    for (i, line) in body.iter().enumerate() {
        // `auto` may stand where a control field would.
        let text = line.text.strip_prefix("[auto]").unwrap_or(line.text);
        let at = line.at + (line.text.len() - text.len()) as u32;
        let text = with_offsets(text, &labels, line.span())?;
        let mut inst = parse_on(&text, i as u64 * 16, &labels, Some(k.target.sm)).map_err(|d| shifted(d, at))?;
        let given = text.trim_start().starts_with("[B").then_some(inst.ctrl);
        from_the_begin(&mut inst, i);
        k.code.push((inst, given, line.span()));
    }
    for (branch, list) in tables {
        if !indexed(&k.code[branch].0) {
            return fail(k.code[branch].2, "a `.table` belongs to BRX or BRXU");
        }
        let mut to = Vec::new();
        for (label, place) in list {
            match labels.0.get(&label).filter(|at| **at / 16 < body.len() as i64) {
                Some(at) => to.push((at / 16) as usize),
                None => return fail(place, format!("there is no label `{label}` before an instruction")),
            }
        }
        k.tables.push((branch, to));
    }
    if let Some((_, _, place)) = k
        .code
        .iter()
        .enumerate()
        .find(|(i, (inst, ..))| indexed(inst) && !k.tables.iter().any(|t| t.0 == *i))
        .map(|x| x.1)
    {
        return fail(*place, "an indexed branch needs its targets: `.table LABEL ..` behind it");
    }
    Ok(k)
}

fn indexed(inst: &Sass) -> bool {
    matches!(inst.form().mnemonic, "BRX" | "BRXU")
}

/// The register of an indexed branch holds an offset from the first instruction where no distance is written.
fn from_the_begin(inst: &mut Sass, at: usize) {
    if !indexed(inst) {
        return;
    }
    let distance = inst.form().slots.iter().position(|s| matches!(s.kind, SlotKind::Imm { .. } | SlotKind::Target));
    if let Some(o) = distance.map(|n| &mut inst.operands[n])
        && matches!(o.value, Value::Imm(n) | Value::Target(n) if n.get() == 0)
    {
        let distance = -(at as i64 + 1) * 16;
        o.value = if matches!(o.value, Value::Imm(_)) { Value::imm(distance) } else { Value::target(distance) };
    }
}

/// The text with `offset(LABEL)` as a number: what a register needs to hold a place in the code.
fn with_offsets<'a>(text: &'a str, labels: &Labels, place: Span) -> Result<Cow<'a, str>, Diagnostic> {
    let mut out = Cow::Borrowed(text);
    while let Some(from) = out.find("offset(") {
        let Some(to) = out[from..].find(')').map(|n| from + n) else { return fail(place, "`offset(` is not closed") };
        let label = out[from + "offset(".len()..to].trim().to_string();
        let Some(at) = labels.0.get(&label) else { return fail(place, format!("there is no label `{label}`")) };
        let with = format!("{}{at:#x}{}", &out[..from], &out[to + 1..]);
        out = Cow::Owned(with);
    }
    Ok(out)
}

/// One directive with its values; true for `.target`.
fn directive(w: &mut Words, k: &mut Source) -> Result<bool, Diagnostic> {
    match w.word()? {
        ".target" => {
            let name = w.word()?;
            match arch::Target::parse(name) {
                Some(target) => k.target = target,
                None => return fail(w.last(), format!("unknown target '{name}'")),
            }
            return Ok(true);
        }
        ".params" => {
            while !w.is_empty() && !w.at_directive() {
                k.params.push(w.plain_number()?);
            }
        }
        ".shared" => k.shared = Some(w.plain_number()?),
        ".maxntid" => k.max_threads = Some([w.plain_number()?, w.plain_number()?, w.plain_number()?]),
        other => {
            return fail(w.last(), format!("unknown directive `{other}`; there are .target .params .shared .maxntid"));
        }
    }
    Ok(false)
}

/// Where each parameter lies, and the bytes of all.
fn params(sizes: &[u16], place: Span) -> Result<(Vec<Param>, u32), Diagnostic> {
    let mut at = 0u32;
    let mut out = Vec::new();
    for &size in sizes {
        if !matches!(size, 1 | 2 | 4 | 8) && (size == 0 || size % 4 != 0) {
            return fail(place, format!("a parameter of {size} bytes: sizes are 1, 2, 4, 8 or a multiple of 4"));
        }
        let align = if size.is_power_of_two() { size.min(8) } else { 4 };
        at = at.next_multiple_of(align as u32);
        if at + size as u32 > 0x7ffc {
            return fail(place, "the parameters are too long");
        }
        out.push(Param { offset: at as u16, size, space: 0, log_align: 0 });
        at += size as u32;
    }
    Ok((out, at))
}

fn kernel(k: Source) -> Result<Kernel, Diagnostic> {
    let sm = k.target.sm;
    let last = k.code.last().map(|(inst, ..)| inst.form().mnemonic);
    if !last.is_some_and(|m| matches!(m, "EXIT" | "BRA" | "RET")) {
        return fail(k.place, format!("the kernel '{}' does not end with EXIT, BRA or RET", k.name));
    }
    let mut blocks = blocks(&k)?;
    control::run(&mut blocks, sm);
    blocks.iter_mut().for_each(|b| settle(b, sm));
    let placed = blocks.iter().flat_map(|b| &b.insts);
    let mut words = Vec::new();
    let mut out = Kernel::default();
    let mut highest = 0;
    for (i, (inst, (written, given, place))) in placed.zip(&k.code).enumerate() {
        let mut s = written.clone();
        // What was written stays.
        s.ctrl = match (&inst.op, given) {
            (_, Some(given)) => *given,
            (Op::Sass(scheduled), None) => scheduled.ctrl,
            _ => Control::default(),
        };
        words.push(encode(&s, sm).map_err(|e| Diagnostic::error(e.message).at(*place))?);
        note(&mut out, &s, i as u32 * 16, &mut highest);
    }
    for (branch, to) in &k.tables {
        let to: Vec<u32> = to.iter().map(|t| *t as u32 * 16).collect();
        out.const2.extend(to.iter().flat_map(|t| t.to_le_bytes()));
        out.indirect_branches.push((*branch as u32 * 16, to));
    }
    let idle = Control { stall: 0, bit109: false, ..Control::default() };
    // What forms are called differs from chip to chip; their text does not.
    let filler = |text: &str| {
        let mut s = parse_on(text, 0, &Labels(HashMap::new()), Some(sm)).map_err(|d| d.at(k.place))?;
        s.ctrl = idle;
        encode(&s, sm).map_err(|e| Diagnostic::error(e.message).at(k.place))
    };
    words.push(filler("BRA 0x0")?);
    let total = padded_text_size(sm, words.len() as u32 * 16) as usize / 16;
    words.resize(total, filler("NOP")?);
    let (params, param_bytes) = params(&k.params, k.place)?;
    Ok(Kernel {
        name: k.name,
        code: words.iter().flat_map(|w| w.to_le_bytes()).collect(),
        regs: highest + 1 + KEPT_BY_MACHINE,
        min_stack: Some(0),
        params,
        param_bytes,
        shared: k.shared.map(|size| Shared { size, align: 16, used: size > 0 }),
        const2_align: 4,
        maxreg: 255,
        max_threads: k.max_threads,
        ..out
    })
}

/// What the container wants to know of an instruction.
fn note(out: &mut Kernel, s: &Sass, at: u32, highest: &mut u32) {
    for r in s.regs().iter().filter(|r| r.reg.file() == File::Gpr && !r.reg.is_const()) {
        *highest = (*highest).max(r.reg.index() + r.width as u32 - 1);
    }
    let form = s.form();
    match form.mnemonic {
        "EXIT" => out.exit_offsets.push(at),
        "BSSY" | "CALL" => out.convergence = true,
        _ => {}
    }
    if form.collective() {
        out.coop_offsets.push((at, u32::MAX));
    }
    if form.class == Class::Barrier {
        let used = match s.get(SlotName::Bar).map(|o| o.value) {
            Some(Value::Imm(n)) => n.get() as u8 + 1,
            _ => 16,
        };
        out.barriers = out.barriers.max(used.min(16));
    }
}

/// A return goes to code that nobody knows: it lets the longest of its block's results get ready before anything else runs.
fn settle(block: &mut LinearBlock, sm: u16) {
    let mut longest = 0;
    for inst in &mut block.insts {
        let Op::Sass(s) = &mut inst.op else { continue };
        for n in 0..s.form().slots.len() as u8 {
            longest = longest.max(ready(s, n, 0, sm).map_or(0, |(_, most)| most));
        }
        if s.form().mnemonic == "RET" {
            s.ctrl.stall = s.ctrl.stall.max(longest.min(15));
            // Stalls of 12 and more have no other form.
            s.ctrl.bit109 &= s.ctrl.stall < 12;
        }
    }
}

/// Basic blocks; targets become block numbers, as the compiler's passes want them.
fn blocks(k: &Source) -> Result<Vec<LinearBlock>, Diagnostic> {
    let count = k.code.len();
    let mut begins = vec![false; count + 1];
    begins[0] = true;
    let target = |i: usize, o: &sass::inst::Operand| match o.value {
        Value::Target(d) => Some(i as i64 + 1 + d.get() / 16),
        _ => None,
    };
    for (i, (inst, _, place)) in k.code.iter().enumerate() {
        let mnemonic = inst.form().mnemonic;
        if mnemonic == "JMX" || mnemonic == "JMXU" {
            return fail(*place, format!("{mnemonic} is not supported in a kernel written by hand"));
        }
        for o in &inst.operands {
            // A return goes where its register says.
            let Some(to) = target(i, o).filter(|_| mnemonic != "RET") else { continue };
            match usize::try_from(to).ok().filter(|t| *t < count) {
                Some(to) => begins[to] = true,
                None => return fail(*place, "the target lies outside of the kernel"),
            }
        }
        if inst.form().effects.flow || mnemonic == "EXIT" {
            begins[i + 1] = true;
        }
        for (_, to) in k.tables.iter().filter(|t| t.0 == i) {
            to.iter().for_each(|&t| begins[t] = true);
        }
    }
    let number: Vec<u32> = begins
        .iter()
        .scan(0u32, |n, &b| {
            *n += b as u32;
            Some(*n - 1)
        })
        .collect();
    let total = number[count - 1] + 1;
    // A return may go behind every call: what it brings must be there in time.
    let calls = (0..count - 1).filter(|&i| k.code[i].0.form().mnemonic == "CALL");
    let returns: Vec<u32> = calls.map(|i| number[i + 1]).collect();
    let mut out: Vec<LinearBlock> = Vec::new();
    for (i, (inst, _, _)) in k.code.iter().enumerate() {
        if begins[i] {
            let id = out.len() as u32;
            out.push(LinearBlock { id, insts: Vec::new(), succs: Vec::new(), table: Vec::new() });
        }
        let block = number[i] as usize;
        let mut s = inst.clone();
        let mut goes = Vec::new();
        for (o, old) in s.operands.iter_mut().zip(&inst.operands) {
            if let Some(to) = target(i, old).filter(|_| inst.form().mnemonic != "RET") {
                let to = number[to as usize];
                o.value = Value::target(to as i64);
                goes.push(to);
            }
        }
        let ends = i + 1 == count || begins[i + 1];
        if ends {
            let mnemonic = inst.form().mnemonic;
            let branches = matches!(mnemonic, "BRA" | "CALL");
            goes.extend(k.tables.iter().filter(|t| t.0 == i).flat_map(|t| &t.1).map(|&t| number[t]));
            let always = inst.guard.as_reg().is_none_or(|r| r.is_const()) && !inst.guard.inv;
            let asked = inst.form().slots.iter().any(|s| s.name == SlotName::Pp)
                && inst.get(SlotName::Pp).is_some_and(|o| o.inv || o.as_reg().is_some_and(|r| !r.is_const()));
            if branches || indexed(inst) {
                out[block].succs.extend(&goes);
            }
            if mnemonic == "RET" {
                out[block].succs.extend(&returns);
            }
            let stops = matches!(mnemonic, "BRA" | "EXIT" | "RET" | "BRX" | "BRXU") && always && !asked;
            if !stops && (block as u32) + 1 < total {
                out[block].succs.push(block as u32 + 1);
            }
        }
        out[block].insts.push(Inst::new(Op::Sass(s), u32::MAX));
    }
    Ok(out)
}
