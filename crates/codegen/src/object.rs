//! A relocatable module: every entry and function in a section of its own, with names for the linker.

use crate::abi::{Convention, Shape};
use crate::compile::{self, Compiled, File, Log, Output};
use crate::debug;
use crate::layout::{self, Layout};
use crate::lines::Lines;
use crate::link::{self, Symbol};
use crate::parallel;
use crate::pipeline::{Kind, Options};
use cubin::image::{self, Datum, Extern, ExternKind, Memory, Object, Text, TextReloc};
use diag::{Diagnostic, Severity};
use ptx::isa::Op;
use ptx::module::{
    Body, Directive, FuncId, FuncKind, InitValue, Item, Linkage, Module, Operand, Table, VarId, Variable,
};
use ptx::types::Space;
use rustc_hash::FxHashSet;

/// Compiles a checked module to a relocatable file.
///
/// # Errors
/// As [`crate::compile`]; what is declared and not defined is no error.
pub(crate) fn compile(m: &Module, options: &Options) -> Result<(File, Output), Vec<Diagnostic>> {
    let layout = Layout::relocatable(m, options.target.sm);
    let order = order(m, &options.entries, options.kind == Kind::Extensible);
    let lines = options.line_info.as_deref().map(|text| Lines::new(m, text));
    let compiled: Vec<_> =
        parallel::map(m, &order, options, |f| compile::function(m, f, &layout, lines.as_ref(), options));
    let mut errors = Vec::new();
    let mut out = Output::default();
    let mut object = Object {
        target: options.target,
        ptx_sm: compile::ptx_sm(m, options.target),
        texts: Vec::new(),
        variables: Vec::new(),
        externs: Vec::new(),
        aliases: Vec::new(),
        taken: Vec::new(),
        isa_class: 1,
        tensor_maps: 0,
        tool: options.tool.clone(),
        debug: None,
        extensible: options.kind == Kind::Extensible,
        references: compile::references(m),
        independent: layout::independent_textures(m),
    };
    let mut used = Used::default();
    let mut taken: Vec<FuncId> = Vec::new();
    let mut places = Vec::new();
    for (&f, one) in order.iter().zip(compiled) {
        match one {
            Ok(c) => {
                object.isa_class = object.isa_class.max(c.isa_class);
                object.tensor_maps |= c.tensor_maps;
                out.dumps.extend(c.dumps.iter().cloned());
                out.notes.extend(c.notes.iter().cloned());
                out.log.push(Log { function: m.funcs[f.index()].kind == FuncKind::Func, ..c.log.clone() });
                places.push(c.places.clone());
                object.texts.push(text(m, f, c, &layout, &mut used, &mut taken));
            }
            Err(e) => errors.extend(e),
        }
    }
    for v in (0..m.vars.len() as u32).map(VarId) {
        match datum(m, v) {
            Ok(Some(d)) => {
                initialiser(m, v, &mut used, &mut taken);
                object.variables.push(d);
            }
            Ok(None) => {}
            Err(e) => errors.push(e),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    for item in &m.items {
        if let Item::Alias { alias, target, .. } = item {
            let a = &m.funcs[alias.index()];
            let binding = if a.linkage == Linkage::Weak { image::Binding::Weak } else { image::Binding::Global };
            object.aliases.push((a.name.clone(), m.funcs[target.index()].name.clone(), binding));
        }
    }
    object.externs = externs(m, &used, &layout);
    taken.sort_unstable();
    taken.dedup();
    object.taken = taken.iter().map(|f| (m.funcs[f.index()].name.clone(), prototype_of(m, *f))).collect();
    object.debug = lines.map(|l| l.debug);
    if options.debug
        && let Some(debug) = &mut object.debug
    {
        let symbol = |name: &str| {
            let named = |v: VarId| m.vars[v.index()].name == name;
            let own = (0..m.vars.len() as u32).map(VarId).filter(|&v| named(v)).map(|v| variable_name(m, v));
            let find = |own: String| object.variables.iter().find(|d| d.variable.name == own);
            let v = own.filter_map(find).next()?;
            // Addresses in shared memory count what lies before the entry's own.
            let shared = matches!(v.memory, Memory::Shared | Memory::SharedOf(_));
            let first = if shared { arch::files(options.target.sm).reserved_shared.into() } else { 0 };
            Some((v.variable.name.clone(), first))
        };
        debug.sections = debug::of_object(m, &places, &symbol);
    }
    let sum = |memory: fn(&Datum) -> bool| object.variables.iter().filter(|v| memory(v)).map(|v| v.variable.size).sum();
    out.global_bytes = sum(|v| v.memory == Memory::Module && v.variable.space == image::Space::Global);
    out.constant_bytes = sum(|v| v.memory == Memory::Module && v.variable.space == image::Space::Constant);
    Ok((File::Object(Box::new(object)), out))
}

/// What is compiled, callees before their callers, from the last entry to the first, then what nobody calls; with `reached` only
/// what code and variables name.
fn order(m: &Module, wanted: &[String], reached: bool) -> Vec<FuncId> {
    let defined = |f: FuncId| m.funcs[f.index()].body.is_some();
    let mut out = Vec::new();
    let mut seen = vec![false; m.funcs.len()];
    let all = (0..m.funcs.len() as u32).map(FuncId).filter(|&f| defined(f));
    let entry = |f: &FuncId| m.funcs[f.index()].kind == FuncKind::Entry;
    let chosen = |f: &FuncId| wanted.is_empty() || wanted.contains(&m.funcs[f.index()].name);
    let entries: Vec<FuncId> = all.clone().filter(|f| entry(f) && chosen(f)).collect();
    let stored: FxHashSet<FuncId> =
        m.vars.iter().flat_map(|v| v.init.iter().flatten()).filter_map(InitValue::function).collect();
    let functions = all.filter(|f| !entry(f) && (!reached || stored.contains(f)));
    for root in entries.into_iter().rev().chain(functions) {
        // A walk of its own, not by calls: chains of functions may be long.
        let mut stack = vec![(root, callees(m, root), 0)];
        if std::mem::replace(&mut seen[root.index()], true) {
            continue;
        }
        while let Some((f, list, at)) = stack.last_mut() {
            match list.get(*at) {
                Some(&g) => {
                    *at += 1;
                    if defined(g) && !std::mem::replace(&mut seen[g.index()], true) {
                        stack.push((g, callees(m, g), 0));
                    }
                }
                None => {
                    out.push(*f);
                    stack.pop();
                }
            }
        }
    }
    out
}

/// The functions that a function names, static ones first.
fn callees(m: &Module, f: FuncId) -> Vec<FuncId> {
    let mut out: Vec<FuncId> = Vec::new();
    let body = m.funcs[f.index()].body.as_ref().filter(|b| b.may_name_functions()).map(Body::unpacked);
    for x in body.iter().flat_map(|b| b.insts()) {
        for o in x.operands {
            if let Operand::Func(g) = o
                && !out.contains(g)
            {
                out.push(*g);
            }
        }
    }
    out.sort_by_key(|g| m.funcs[g.index()].linkage != Linkage::Internal);
    out
}

/// What code and data refer to.
#[derive(Default)]
struct Used {
    functions: FxHashSet<u32>,
    variables: FxHashSet<u32>,
    /// Functions of the system that fetch texels, by number in [`Layout::fetches`].
    fetches: FxHashSet<u32>,
}

/// A compiled function as the file has it.
fn text(m: &Module, f: FuncId, c: Compiled, layout: &Layout, used: &mut Used, taken: &mut Vec<FuncId>) -> Text {
    let pf = &m.funcs[f.index()];
    let mut t = Text {
        entry: pf.kind == FuncKind::Entry,
        binding: match pf.linkage {
            Linkage::Weak => image::Binding::Weak,
            Linkage::Internal if pf.kind == FuncKind::Func => image::Binding::Local,
            _ => image::Binding::Global,
        },
        prototype: prototype_of(m, f),
        return_register: Some(Convention::of(&pf.directives).keeps.return_pair()).filter(|&r| r != 20),
        kernel: c.kernel,
        ..Text::default()
    };
    for r in &c.relocs {
        let symbol = match r.to.symbol {
            Symbol::Variable(n) if pf.params.contains(&VarId(n)) => {
                Some(image::parameter_name(&pf.name, &m.vars[n as usize].name))
            }
            Symbol::Fetch(n) => layout.fetches.get(n as usize).map(|name| {
                used.fetches.insert(n);
                if !t.calls.contains(name) {
                    t.calls.push(name.clone());
                }
                name.clone()
            }),
            Symbol::Variable(n) => {
                used.variables.insert(n);
                Some(variable_name(m, VarId(n)))
            }
            Symbol::Function(n) => {
                used.functions.insert(n);
                let name = m.funcs[n as usize].name.clone();
                let list = if r.to.kind == link::CALL { &mut t.calls } else { &mut t.takes };
                if !list.contains(&name) {
                    list.push(name.clone());
                }
                if r.to.kind != link::CALL {
                    taken.push(FuncId(n));
                }
                Some(name)
            }
            Symbol::Own => Some(pf.name.clone()),
            Symbol::Unified => Some("__UFT_OFFSET".into()),
            Symbol::Tables => None,
        };
        if let Some(kind) = link::on_chip(r.to.kind, layout.sm) {
            t.relocs.push(TextReloc { offset: r.offset, kind, symbol, addend: r.to.addend });
        }
    }
    // Functions in tables of the module that the function reads may be called there.
    let variables: Vec<u32> =
        c.relocs.iter().filter_map(|r| if let Symbol::Variable(n) = r.to.symbol { Some(n) } else { None }).collect();
    for v in variables {
        for i in m.vars[v as usize].init.iter().flatten() {
            if let Some(g) = i.function()
                && !t.takes.contains(&m.funcs[g.index()].name)
            {
                t.takes.push(m.funcs[g.index()].name.clone());
            }
        }
    }
    let body = pf.body.as_ref().filter(|b| b.may_name_functions()).map(Body::unpacked);
    for x in body.iter().flat_map(|b| b.insts()).filter(|x| x.op == Op::Call) {
        if let (Some(Operand::Reg { .. }), Some(Operand::Table(n))) = (x.operands.get(1), x.operands.get(3)) {
            let p = match &pf.tables[n.index()] {
                Table::Prototype { returns, params, directives, .. } => prototype(m, returns, params, directives),
                Table::Call { targets, .. } => targets.first().map_or(String::new(), |&f| prototype_of(m, f)),
                Table::Branch { .. } => continue,
            };
            if !t.indirect.contains(&p) {
                t.indirect.push(p);
            }
        }
    }
    t
}

/// Notes what the content of a variable refers to.
fn initialiser(m: &Module, v: VarId, used: &mut Used, taken: &mut Vec<FuncId>) {
    for i in m.vars[v.index()].init.iter().flatten() {
        match i {
            InitValue::Func(f) | InitValue::FuncByte(f, _) => {
                used.functions.insert(f.0);
                if m.funcs[f.index()].kind == FuncKind::Func {
                    taken.push(*f);
                }
            }
            InitValue::Var { var, .. } => {
                used.variables.insert(var.0);
            }
            InitValue::Bits(_) => {}
        }
    }
}

/// True if another module has the variable.
fn outside(v: &Variable) -> bool {
    v.linkage == Linkage::Extern || (v.space == Space::Shared && v.size() == 0)
}

/// The name of a variable in the file: those of functions get one that no other has.
fn variable_name(m: &Module, v: VarId) -> String {
    let var = &m.vars[v.index()];
    if var.scope.is_some() && !outside(var) { format!("$__{}__{}", var.name, v.0) } else { var.name.clone() }
}

/// A variable that is defined here.
fn datum(m: &Module, v: VarId) -> Result<Option<Datum>, Diagnostic> {
    let var = &m.vars[v.index()];
    if outside(var) || var.ty.is_opaque() {
        return Ok(None);
    }
    let memory = match var.space {
        Space::Global if var.linkage == Linkage::Common && var.init.is_none() => Memory::Common,
        Space::Global | Space::Const => Memory::Module,
        Space::Shared => match var.scope.map(|f| &m.funcs[f.index()]) {
            Some(f) if f.kind == FuncKind::Entry => Memory::SharedOf(f.name.clone()),
            _ => Memory::Shared,
        },
        _ => return Ok(None),
    };
    let mut variable = layout::content_by_name(m, v, &|v| variable_name(m, v))?;
    variable.name = variable_name(m, v);
    if var.linkage == Linkage::Common {
        variable.binding = image::Binding::Global;
    }
    Ok(Some(Datum { variable, memory }))
}

/// What the module refers to and others define.
fn externs(m: &Module, used: &Used, layout: &Layout) -> Vec<Extern> {
    let mut out = Vec::new();
    for (i, v) in m.vars.iter().enumerate() {
        if !used.variables.contains(&(i as u32)) || !outside(v) || out.iter().any(|e: &Extern| e.name == v.name) {
            continue;
        }
        // References are named as the module's own wherever they stand.
        if v.ty.is_opaque() {
            continue;
        }
        let managed = v.attributes.iter().any(|a| a.contains("managed"));
        let kind = match v.space {
            Space::Const => ExternKind::Constant(v.size()),
            Space::Shared => ExternKind::Shared(v.size(), v.align as u64),
            _ => ExternKind::Global(v.size(), managed),
        };
        out.push(Extern { name: v.name.clone(), kind, weak: false });
    }
    let aliases: Vec<FuncId> =
        m.items.iter().filter_map(|i| if let Item::Alias { alias, .. } = i { Some(*alias) } else { None }).collect();
    for (i, f) in m.funcs.iter().enumerate() {
        let here = f.body.is_some() || aliases.contains(&FuncId(i as u32));
        if used.functions.contains(&(i as u32)) && !here {
            out.push(Extern { name: f.name.clone(), kind: ExternKind::Function, weak: f.linkage == Linkage::Weak });
        }
    }
    for (n, name) in layout.fetches.iter().enumerate() {
        if used.fetches.contains(&(n as u32)) {
            out.push(Extern { name: name.clone(), kind: ExternKind::Function, weak: false });
        }
    }
    out
}

/// What a function takes and gives, as linkers compare it.
fn prototype_of(m: &Module, f: FuncId) -> String {
    let f = &m.funcs[f.index()];
    prototype(m, &f.returns, &f.params, &f.directives)
}

fn prototype(m: &Module, returns: &[VarId], params: &[VarId], directives: &[Directive]) -> String {
    let mut out = String::from("#");
    if returns.is_empty() {
        out.push('v');
    }
    for v in returns.iter().chain(params) {
        let v = &m.vars[v.index()];
        // A vector is a number of its size (ptxas 13.5, `-c`).
        let float = v.ty.is_float() && v.vector <= 1;
        out.push(match v.ty.bytes() * u32::from(v.vector.max(1)) {
            0 | 1 => 'b',
            2 => 'h',
            4 if float => 'f',
            4 => 'i',
            8 if float => 'd',
            8 => 'l',
            _ => 'x',
        });
        if !v.dims.is_empty() {
            let count: u64 = v.dims.iter().map(|d| d.unwrap_or(0)).product();
            out.push_str(&count.to_string());
        }
    }
    out.push_str(&Convention::of(directives).suffix(&Shape::of(m, params), &Shape::of(m, returns)));
    out
}

/// The message for an entry that is not there.
pub(crate) fn unknown(name: &str) -> Diagnostic {
    Diagnostic::new(Severity::Fatal, format!("Unknown function {name}"))
}
