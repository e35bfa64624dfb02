//! Kernels written by hand: `.kernel NAME .target sm_90 .params 8 8 4`, then instructions.
//!
//! Control fields that are left out are filled in as the compiler fills in its own; where a line has one, it stays.

use super::text::{Lines, Words, fail, shifted};
use codegen::emit::{self, Ready};
use codegen::mir::{Inst, Op};
use codegen::sched::branches::LinearBlock;
use codegen::sched::control;
use cubin::elf::Elf;
use cubin::image::{Image, Kernel, Param, Shared};
use diag::{Diagnostic, Span};
use sass::control::Control;
use sass::form::SlotName;
use sass::inst::{Inst as Sass, Value};
use sass::text::{Addresses, parse_at};
use std::collections::HashMap;

/// Machines whose code the compiler's control fields are made for.
const SM: u16 = 90;

struct Source {
    name: String,
    place: Span,
    target: arch::Target,
    params: Vec<u16>,
    shared: Option<u32>,
    max_threads: Option<[u32; 3]>,
    code: Vec<(Sass, Option<Control>, Span)>,
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
    let image = Image { target, ptx_sm: target.sm, kernels: done, variables: Vec::new(), tool };
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
    };
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
    if k.target.sm != SM {
        return fail(k.place, format!("kernels written by hand are supported for sm_{SM} only, not for {}", k.target));
    }
    for (i, line) in body.iter().enumerate() {
        // `auto` may stand where a control field would.
        let text = line.text.strip_prefix("[auto]").unwrap_or(line.text);
        let at = line.at + (line.text.len() - text.len()) as u32;
        let inst = parse_at(text, i as u64 * 16, &labels).map_err(|d| shifted(d, at))?;
        let given = text.trim_start().starts_with("[B").then_some(inst.ctrl);
        k.code.push((inst, given, line.span()));
    }
    Ok(k)
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
    let last = k.code.last().map(|(inst, ..)| inst.form().mnemonic);
    if !last.is_some_and(|m| matches!(m, "EXIT" | "BRA")) {
        return fail(k.place, format!("the kernel '{}' does not end with EXIT or BRA", k.name));
    }
    let mut blocks = blocks(&k)?;
    control::run(&mut blocks, k.target.sm);
    // What was written stays.
    let placed = blocks.iter_mut().flat_map(|b| &mut b.insts);
    for (inst, (_, given, _)) in placed.zip(&k.code) {
        if let (Op::Sass(s), Some(given)) = (&mut inst.op, given) {
            s.ctrl = *given;
        }
    }
    let ready = Ready { name: k.name.clone(), frame: 0, blocks, calls: Vec::new() };
    let code = emit::run(vec![ready], &[], k.target.sm).map_err(|d| d.at(k.place))?;
    let (params, param_bytes) = params(&k.params, k.place)?;
    Ok(Kernel {
        name: k.name,
        code: code.words.iter().flat_map(|w| w.to_le_bytes()).collect(),
        regs: code.gprs_used + 2,
        min_stack: Some(0),
        params,
        param_bytes,
        shared: k.shared.map(|size| Shared { size, align: 16, used: size > 0 }),
        barriers: code.num_barriers.min(16) as u8,
        const2_align: 4,
        exit_offsets: code.exit_offsets,
        coop_offsets: code.coop_group_offsets.iter().map(|&o| (o, u32::MAX)).collect(),
        maxreg: 255,
        max_threads: k.max_threads,
        convergence: code.has_bssy_or_call,
        ..Kernel::default()
    })
}

/// Basic blocks; targets become block numbers, as the compiler's passes want them.
fn blocks(k: &Source) -> Result<Vec<LinearBlock>, Diagnostic> {
    let count = k.code.len();
    let mut begins = vec![false; count + 1];
    begins[0] = true;
    let target = |i: usize, o: &sass::inst::Operand| match o.value {
        Value::Target(d) => Some(i as i64 + 1 + d / 16),
        _ => None,
    };
    for (i, (inst, _, place)) in k.code.iter().enumerate() {
        let mnemonic = inst.form().mnemonic;
        if matches!(mnemonic, "CALL" | "RET" | "BRX" | "BRXU" | "JMX") {
            return fail(*place, format!("{mnemonic} is not supported in a kernel written by hand"));
        }
        for o in &inst.operands {
            let Some(to) = target(i, o) else { continue };
            match usize::try_from(to).ok().filter(|t| *t < count) {
                Some(to) => begins[to] = true,
                None => return fail(*place, "the target lies outside of the kernel"),
            }
        }
        if inst.form().effects.flow || mnemonic == "EXIT" {
            begins[i + 1] = true;
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
            if let Some(to) = target(i, old) {
                let to = number[to as usize];
                o.value = Value::Target(to as i64);
                goes.push(to);
            }
        }
        let ends = i + 1 == count || begins[i + 1];
        if ends {
            let mnemonic = inst.form().mnemonic;
            let branches = mnemonic == "BRA";
            let always = inst.guard.as_reg().is_none_or(|r| r.is_const()) && !inst.guard.inv;
            let asked = inst.form().slots.iter().any(|s| s.name == SlotName::Pp)
                && inst.get(SlotName::Pp).is_some_and(|o| o.inv || o.as_reg().is_some_and(|r| !r.is_const()));
            if branches {
                out[block].succs.extend(&goes);
            }
            let stops = matches!(mnemonic, "BRA" | "EXIT") && always && !asked;
            if !stops && (block as u32) + 1 < total {
                out[block].succs.push(block as u32 + 1);
            }
        }
        out[block].insts.push(Inst { op: Op::Sass(s), loc: u32::MAX });
    }
    Ok(out)
}
