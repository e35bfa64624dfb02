//! A whole module: kernels in parallel, then one image.

use crate::abi::{Convention, Keeps};
use crate::backend::{self, BackendInput, BackendOptions};
use crate::bounds::Bounds;
use crate::chips;
use crate::debug::{self, Places};
use crate::emit::{Code, Function};
use crate::layout::{Layout, image_variables, independent_textures};
use crate::lines::Lines;
use crate::link;
use crate::lower::Program;
use crate::mbarriers;
use crate::object;
use crate::opt;
use crate::parallel;
use crate::pipeline::{self, Kind, Moving, Options, Watch};
use crate::room::room_for_spills;
use crate::sched::warpgroup::losses;
use crate::uses::Uses;
use arch::Target;
use cubin::attr::{self, Attr};
use cubin::elf::Elf;
use cubin::image::{self, Image, Kernel, Object, Tool};
use diag::{Diagnostic, Severity};
use ptx::SHARED_SPILLS;
use ptx::isa::Op;
use ptx::module::{Body, FuncId, FuncKind, Linkage, Module, Operand, Pointee, VarId};
use ptx::types::{ScalarType, Space};

/// What a compilation gives.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The file.
    pub cubin: Vec<u8>,
    /// What `-v` says of each kernel, in the order of the PTX.
    pub log: Vec<Log>,
    /// Texts that were asked for, each with the pass in its first line.
    pub dumps: Vec<String>,
    /// Warnings and notes.
    pub notes: Vec<Diagnostic>,
    /// Bytes of global variables.
    pub global_bytes: u64,
    /// Bytes of constant bank 3.
    pub constant_bytes: u64,
}

/// Figures of one kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Its name.
    pub name: String,
    /// It is no kernel.
    pub function: bool,
    /// Registers a thread, as the driver counts them.
    pub registers: u32,
    /// Bytes of its stack frame.
    pub stack_frame: u32,
    /// Bytes of spill stores in the code.
    pub spill_stores: u32,
    /// Bytes of spill loads in the code.
    pub spill_loads: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// Bytes of constant bank 0, parameters included.
    pub constant0: u32,
    /// Bytes of constant bank 2.
    pub constant2: u32,
    /// Instructions, padding left out.
    pub instructions: u32,
    /// The device functions in its code: name, own stack frame.
    pub functions: Vec<(String, u32)>,
    /// Stack of the deepest chain of calls; none where it recurs.
    pub stack: Option<u32>,
    /// What compiling it took.
    pub time: std::time::Duration,
}

/// Compiles a checked module for `options.target`.
///
/// # Errors
/// What is not supported, with its place; what does not fit the machine (registers, shared memory); with
/// `options.verify`, a broken rule of the compiler itself.
pub fn compile(m: &Module, options: &Options) -> Result<Output, Vec<Diagnostic>> {
    let (file, output) = in_parts(m, options)?;
    Ok(Output { cubin: file.into_elf().map_err(|e| vec![e])?.write(), ..output })
}

/// What a compilation puts into its file, in parts.
#[derive(Debug)]
pub enum File {
    /// An executable.
    Image(Box<Image>),
    /// A relocatable file.
    Object(Box<Object>),
}

impl File {
    /// The file.
    ///
    /// # Errors
    /// What does not fit into it.
    pub fn into_elf(self) -> Result<Elf, Diagnostic> {
        match self {
            File::Image(image) => image.into_elf(),
            File::Object(object) => object.emit(),
        }
    }
}

/// As [`compile`], with the file in parts: [`Output::cubin`] is empty. Whoever compiles a large module may give it back before
/// the file is made.
///
/// # Errors
/// As [`compile`].
pub fn in_parts(m: &Module, options: &Options) -> Result<(File, Output), Vec<Diagnostic>> {
    if !chips::supported(options.target.sm) {
        return Err(vec![Diagnostic::new(
            Severity::Fatal,
            format!(
                "code generation for {} is not supported yet; sm_75, sm_80, sm_86 to sm_90a, sm_100, sm_103, sm_120 and sm_121 are",
                options.target
            ),
        )]);
    }
    for name in &options.entries {
        if !m.funcs.iter().any(|f| f.kind == FuncKind::Entry && f.body.is_some() && f.name == *name) {
            return Err(vec![object::unknown(name)]);
        }
    }
    let linking = ptx::Linking {
        relocatable: options.kind == Kind::Relocatable,
        extensible: options.kind == Kind::Extensible,
        debug: false,
    };
    let mut steps = ptx::outside(m, linking).into_iter();
    if let Some(mut errors) = steps.find(|s| s.iter().any(Diagnostic::is_error)) {
        errors.retain(Diagnostic::is_error);
        return Err(errors);
    }
    if options.kind != Kind::Executable {
        return object::compile(m, options);
    }
    let mut notes = Vec::new();
    let layout = Layout::new(m, options.target.sm);
    let variables = image_variables(m, &layout).map_err(|e| vec![e])?;
    let entries: Vec<FuncId> = (0..m.funcs.len() as u32)
        .map(FuncId)
        .filter(|f| m.funcs[f.index()].kind == FuncKind::Entry && m.funcs[f.index()].body.is_some())
        .filter(|f| options.entries.is_empty() || options.entries.contains(&m.funcs[f.index()].name))
        .collect();
    let lines = options.line_info.as_deref().map(|text| Lines::new(m, text));
    let compiled: Vec<_> = parallel::map(m, &entries, options, |e| function(m, e, &layout, lines.as_ref(), options));
    let (mut kernels, mut places) = (Vec::new(), Vec::new());
    let (mut isa_class, mut tensor_maps) = (1, 0);
    let mut out = Vec::new();
    let mut errors = Vec::new();
    let mut dumps = Vec::new();
    for one in compiled {
        match one {
            Ok(c) => {
                kernels.push(c.kernel);
                if options.debug {
                    places.push(c.places);
                }
                isa_class = isa_class.max(c.isa_class);
                tensor_maps |= c.tensor_maps;
                out.push(c.log);
                dumps.extend(c.dumps);
                notes.extend(c.notes);
            }
            Err(e) => errors.extend(e),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let sum = |space: image::Space| variables.iter().filter(|v| v.space == space).map(|v| v.size).sum();
    let (global_bytes, constant_bytes) = (sum(image::Space::Global), layout.constant_size as u64);
    let mut image = Image {
        target: options.target,
        ptx_sm: ptx_sm(m, options.target),
        kernels,
        variables,
        externs: layout.externs.iter().map(|f| m.funcs[f.index()].name.clone()).chain(layout.fetches.clone()).collect(),
        references: references(m),
        independent: independent_textures(m),
        isa_class,
        tensor_maps,
        tool: options.tool.clone(),
        debug: lines.map(|l| l.debug),
    };
    if options.debug
        && let Some(debug) = &mut image.debug
    {
        let symbol = |name: &str| image.variables.iter().find(|v| v.name == name).map(|v| (v.name.clone(), 0));
        debug.sections = debug::of_executable(m, &places, &symbol);
    }
    let output = Output { cubin: Vec::new(), log: out, dumps, notes, global_bytes, constant_bytes };
    Ok((File::Image(Box::new(image)), output))
}

/// The SM number of the module's `.target`.
pub(crate) fn ptx_sm(m: &Module, target: Target) -> u16 {
    m.target.iter().find_map(|t| Target::parse(t)).map_or(target.sm, |t| t.sm)
}

/// Who made a file, where the caller does not say.
pub fn default_tool() -> Tool {
    Tool {
        name: "ptxas".into(),
        version: concat!("Sassafras ", env!("CARGO_PKG_VERSION")).into(),
        branch: "Sassafras".into(),
        options: "-arch sm_90 ".into(),
        toolkit: 135,
    }
}

/// One kernel, or one function of a relocatable module, compiled.
pub(crate) struct Compiled {
    pub kernel: Kernel,
    pub relocs: Vec<crate::link::Reloc>,
    pub isa_class: u8,
    pub tensor_maps: u8,
    pub log: Log,
    pub dumps: Vec<String>,
    pub notes: Vec<Diagnostic>,
    /// What its symbol is, and where in it is what debugging sections speak of.
    pub places: (String, Places),
}

/// Compiles a kernel with what it reaches, or, in a relocatable module, a kernel or function alone.
pub(crate) fn function(
    m: &Module,
    entry: FuncId,
    layout: &Layout,
    lines: Option<&Lines>,
    options: &Options,
) -> Result<Compiled, Vec<Diagnostic>> {
    let start = std::time::Instant::now();
    let f = &m.funcs[entry.index()];
    let mut bounds = Bounds::of(f, options).0;
    if let (FuncKind::Func, Some(n)) = (f.kind, options.max_function_registers) {
        bounds.max_registers = n.clamp(24, 255);
    }
    let back = BackendOptions {
        verify: options.verify,
        print_after: options.print_after.clone(),
        effort: options.effort,
        register_level: options.register_level,
        cancel: options.cancel.clone(),
    };
    let mut notes = Vec::new();
    let asked = f.body.as_ref().is_some_and(|b| b.pragmas().any(|p| p.0 == SHARED_SPILLS));
    let plans = plans(m, entry, &bounds, options.effort, &mut notes);
    let (mut done, mut why) = (None, None);
    for (n, plan) in plans.iter().enumerate() {
        let limit = plan.limit.min(255) - 2;
        let made = backend::attempts(|room| {
            let mut watch = Watch::new(options);
            let moving = Moving { kept: plan.moving, calls: plan.calls };
            let selected = pipeline::select(m, entry, layout, options, limit, moving, &mut watch)?;
            let (program, mut functions) = (selected.program, selected.funcs);
            check_shared(m, entry, &program, options)?;
            if asked && program.shared.dynamic {
                let text = format!("Pragma '{SHARED_SPILLS}' is not allowed for dynamic SMEM");
                return Err(vec![Diagnostic::new(Severity::Fatal, text)].into());
            }
            if let (Some(kernel), false) = (functions.first_mut(), plan.moving) {
                kernel.room = room_for_spills(f, asked, &program, &bounds, limit + 2, options);
            }
            let registers = plan.moving.then_some(bounds.max_registers);
            let input = BackendInput { functions, table: program.table.clone(), registers };
            Ok((program, backend::attempt(input, options.target, &back, room)?, watch.printed))
        });
        match made {
            Ok((_, Code { misfit: Some(m), .. }, _)) if plan.moving => {
                why = Some(format!("R{} is needed where there are {} registers", m.register, m.have));
            }
            // Routines that are called take registers, which products may be short of.
            Ok((program, code, _))
                if plan.calls && !code.losses.is_empty() && code.functions.len() > program.ids.len() => {}
            Ok((program, code, printed)) => {
                done = Some((program, code, printed, plan.moving));
                break;
            }
            // With more registers here and fewer there it may not fit; without it does.
            Err(e) if n + 1 < plans.len() => why = e.into_iter().next().map(|d| d.message),
            Err(e) => return Err(e),
        }
    }
    let Some((mut program, code, printed, moving)) = done else {
        return Err(vec![Diagnostic::error(format!("internal error: no plan for '{}'", f.name))]);
    };
    if !moving && plans.iter().any(|p| p.moving) {
        let text =
            "Potential Performance Loss: 'setmaxnreg' ignored; values do not fit into the registers that are left in";
        let why = why.map_or(String::new(), |w| format!(" ({w})"));
        notes.push(Diagnostic::new(Severity::Info, format!("{text} '{}'{why}.", f.name)));
    }
    let mut dumps = printed;
    dumps.extend(code.dumps.iter().map(|(pass, text)| format!("# after {pass}\n{text}")));
    if let Some(taken) = code.shared_spills {
        program.shared.size = taken.start + taken.size;
        program.shared.align = program.shared.align.max(16);
    }
    let mut kernel = image_kernel(m, entry, (&program, layout), &code, &bounds, options);
    if moving {
        // Threads begin with what the launch bounds say, whatever the code uses.
        kernel.regs = bounds.max_registers;
        kernel.reconfigures = true;
    }
    if let Some(taken) = code.shared_spills {
        // Where it begins and how long it is.
        kernel.others.push(Attr::words(attr::SHARED_SCRATCH, [taken.start, taken.size]));
    }
    let uses = Uses::of(m, entry);
    kernel.others.extend(uses.attributes());
    kernel.others.extend(mbarriers::attributes(m, &code.mbarriers));
    if options.annotate {
        let text = format!("instr/R-regs: {} instructions, {} R-regs", code.code_size / 16, kernel.regs);
        kernel.others.push(Attr::function_note(&text));
    }
    if let Some(lines) = lines {
        [kernel.lines, kernel.ptx_lines] = lines.of(&code.lines);
    }
    let constant0 = arch::bank0(options.target.sm).map_or(0, |b| b.params as u32) + program.param_bytes;
    let log = Log {
        name: f.name.clone(),
        function: false,
        registers: kernel.regs,
        stack_frame: code.frame,
        spill_loads: code.spill_bytes.0,
        spill_stores: code.spill_bytes.1,
        barriers: code.num_barriers,
        shared: program.shared.size,
        constant0,
        constant2: code.const2.len() as u32,
        instructions: code.code_size / 16,
        functions: code.functions[1..program.ids.len()].iter().map(|f| (f.name.clone(), f.frame)).collect(),
        stack: code.stack,
        time: start.elapsed(),
    };
    notes.extend(losses::notes(&code.losses, &f.name));
    if code.stack.is_none() {
        notes.push(Diagnostic::new(
            Severity::Warning,
            format!("Stack size for entry function '{}' cannot be statically determined", f.name),
        ));
    }
    let mut places = (kernel.name.clone(), Places::default());
    if options.debug {
        let params = arch::bank0(options.target.sm).map_or(0, |b| b.params as u32);
        let shared = arch::files(options.target.sm).reserved_shared;
        places.1 = Places::new(m, entry, &program, &code, (params, shared));
    }
    let relocs = code.relocs;
    let (isa_class, tensor_maps) = (code.isa_class.max(uses.isa_class), code.tensor_maps | uses.tensor_maps);
    Ok(Compiled { relocs, isa_class, tensor_maps, kernel, log, dumps, notes, places })
}

/// A way to compile a kernel.
struct Plan {
    /// Registers a thread may have, as the driver counts them.
    limit: u32,
    /// `setmaxnreg` is kept.
    moving: bool,
    /// Routines are called beside it, and beside products of warpgroups.
    calls: bool,
}

/// The ways to compile a function, best first. Where threads change the number of their registers, or a warpgroup has products under way, routines for
/// seldom cases are called if registers suffice; with little effort that is not tried. A kernel whose threads change the number of their registers may use the largest
/// number where it has it; if its values lie so that this does not work, those that it has at first; else `setmaxnreg` is left out,
/// as where nobody knows how many there are at first.
fn plans(m: &Module, entry: FuncId, bounds: &Bounds, effort: u8, notes: &mut Vec<Diagnostic>) -> Vec<Plan> {
    let f = &m.funcs[entry.index()];
    let body = f.body.as_ref().filter(|b| b.module_has(|op| op == Op::Setmaxnreg)).map(Body::unpacked);
    let numbers: Vec<u32> = body
        .iter()
        .flat_map(|b| b.insts())
        .filter(|x| x.op == Op::Setmaxnreg)
        .filter_map(|x| match x.operands.first() {
            Some(Operand::Int(n)) => Some(*n as u32),
            _ => None,
        })
        .collect();
    let all = bounds.max_registers;
    let products = f.body.as_ref().is_some_and(|b| b.module_has(|op| op == Op::Wgmma));
    let ways = |limit: u32, moving: bool| {
        let tried: &[bool] = match moving || products {
            true if effort >= opt::SOME_EFFORT => &[true, false],
            true => &[false],
            false => &[true],
        };
        tried.iter().map(move |&calls| Plan { limit, moving, calls })
    };
    let still = ways(all, false);
    if numbers.is_empty() {
        return still.collect();
    }
    if !bounds.known || f.kind != FuncKind::Entry {
        let text =
            "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.";
        notes.push(Diagnostic::new(Severity::Info, text));
        return still.collect();
    }
    let most = numbers.iter().copied().fold(all, u32::max);
    let before = (most > all).then(|| ways(all, true));
    ways(most, true).chain(before.into_iter().flatten()).chain(still).collect()
}

fn check_shared(m: &Module, entry: FuncId, program: &Program, options: &Options) -> Result<(), Vec<Diagnostic>> {
    let f = &m.funcs[entry.index()];
    if let Some(limits) = arch::limits(options.target.sm)
        && program.shared.size > limits.shared_static_per_cta
    {
        return Err(vec![
            Diagnostic::error(format!(
                "Entry function '{}' uses too much shared data (0x{:x} bytes, 0x{:x} max)",
                f.name, program.shared.size, limits.shared_static_per_cta
            ))
            .at(f.span),
        ]);
    }
    Ok(())
}

fn image_kernel(
    m: &Module,
    entry: FuncId,
    (program, layout): (&Program, &Layout),
    code: &Code,
    bounds: &Bounds,
    options: &Options,
) -> Kernel {
    let f = &m.funcs[entry.index()];
    let bytes: Vec<u8> = code.words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let by_name = |r: &crate::link::Reloc| matches!(r.to.kind, link::CALL | link::CALL_REGISTER);
    let called = f.kind == FuncKind::Func || code.relocs.iter().any(by_name);
    // Functions that call or are called by the ABI may use every register up to the return address.
    let by_abi = |f: &Function| f.returns_by == Keeps::Usual.return_pair();
    let mut own = code.functions.iter().take(program.ids.len()).skip(1);
    let calls = called || own.any(by_abi) || !code.syscall_offsets.is_empty();
    let keeps = match called && f.kind == FuncKind::Func {
        true => Convention::of(&f.directives).keeps,
        false => Keeps::Usual,
    };
    // Routines that are called in seldom cases come last and have no names.
    let last = code.functions.len() - 1;
    let functions = code
        .functions
        .iter()
        .enumerate()
        .take(program.ids.len())
        .skip(1)
        .map(|(n, part)| image::Function {
            symbol: image::function_symbol(&f.name, &part.name),
            offset: part.offset,
            size: if n == last { bytes.len() as u32 - part.offset } else { part.size },
            binding: match m.funcs[program.ids[n].index()].linkage {
                Linkage::Weak => image::Binding::Weak,
                Linkage::Visible => image::Binding::Global,
                _ => image::Binding::Local,
            },
            frame: 0,
            return_register: part.returns_by,
        })
        .collect();
    let used = program.shared.size > 0 || program.shared.dynamic;
    Kernel {
        name: f.name.clone(),
        weak: f.linkage == Linkage::Weak,
        code: bytes,
        functions,
        regs: (code.gprs_used + 2).max(if calls { u32::from(keeps.return_pair()) + 4 } else { 0 }),
        frame: code.frame,
        frame_offset: if code.frame > 0 { frame_offset(code, options.target.sm) } else { 0 },
        min_stack: code.stack,
        params: params(m, &f.params, &program.params),
        param_bytes: program.param_bytes,
        shared: (used || layout.dynamic).then_some(image::Shared {
            size: program.shared.size,
            align: program.shared.align,
            used,
        }),
        barriers: code.num_barriers as u8,
        const2: code.const2.clone(),
        const2_align: if program.table.is_empty() { 4 } else { 8 },
        exit_offsets: code.exit_offsets.clone(),
        coop_offsets: code.coop_group_offsets.iter().map(|&o| (o, u32::MAX)).collect(),
        warp_wide_offsets: code.warp_wide_offsets.clone(),
        sparse_products: code.sparse_products,
        reconfigures: false,
        indirect_branches: code.indirect_branches.clone(),
        externs: (0..layout.externs.len() as u32)
            .filter(|&n| program.externs.contains(&layout.externs[n as usize]))
            .chain(layout.externs.len() as u32..(layout.externs.len() + layout.fetches.len()) as u32)
            .collect(),
        handles: handles(m, &f.params, &program.handles),
        entry_sizes: code.entry_sizes.iter().map(|(at, table)| (*at, table.symbol().to_string())).collect(),
        syscall_offsets: code.syscall_offsets.clone(),
        maxreg: bounds.max_registers as u16,
        max_threads: bounds.max_threads,
        req_threads: bounds.req_threads,
        cluster: bounds.cluster,
        max_cluster_rank: bounds.max_cluster_rank,
        explicit_cluster: bounds.explicit_cluster,
        blocks_are_clusters: bounds.blocks_are_clusters,
        convergence: code.has_bssy_or_call,
        lines: Vec::new(),
        ptx_lines: Vec::new(),
        others: Vec::new(),
        reads_ctaid_z: code.reads_ctaid_z,
    }
}

/// The end of the first instruction that lowers the stack pointer.
fn frame_offset(code: &Code, sm: u16) -> u32 {
    let r1 = sass::reg::Reg::r(1);
    for (n, &word) in code.words.iter().enumerate() {
        if let sass::codec::Decoded::Known(i) = sass::codec::decode(word, sm) {
            let regs = i.regs();
            if regs.iter().any(|r| r.def && r.reg == r1) && regs.iter().any(|r| !r.def && r.reg == r1) {
                return (n as u32 + 1) * 16;
            }
        }
    }
    0
}

fn reference_kind(t: ScalarType) -> Option<image::ReferenceKind> {
    match t {
        ScalarType::TexRef => Some(image::ReferenceKind::Texture),
        ScalarType::SamplerRef => Some(image::ReferenceKind::Sampler),
        ScalarType::SurfRef => Some(image::ReferenceKind::Surface),
        _ => None,
    }
}

/// The references of a module to textures, samplers and surfaces.
pub(crate) fn references(m: &Module) -> Vec<image::Reference> {
    let mut out = Vec::new();
    for v in m.vars.iter().filter(|v| v.scope.is_none() && v.space == Space::Global) {
        let Some(kind) = reference_kind(v.ty) else { continue };
        let fields = v.fields.first().map_or(&[][..], |f| f.as_slice());
        let said = |name: &str| fields.iter().find(|f| f.0 == name).map(|f| f.1.as_str());
        let edge = |name: &str| match said(name) {
            Some("wrap") => 0,
            Some("mirror") => 1,
            Some("clamp_ogl") => 2,
            Some("clamp_to_edge") => 3,
            Some("clamp_to_border") => 4,
            _ => 0xff,
        };
        let filter = match said("filter_mode") {
            Some("nearest") => 0,
            Some("linear") => 1,
            _ => 0xff,
        };
        let sampler = kind == image::ReferenceKind::Sampler && !fields.is_empty();
        out.push(image::Reference {
            name: v.name.clone(),
            kind,
            sampler: sampler
                .then(|| u32::from_le_bytes([edge("addr_mode_0"), edge("addr_mode_1"), edge("addr_mode_2"), filter])),
            unnormalized: said("force_unnormalized_coords").filter(|_| sampler).map(|t| t != "0"),
        });
    }
    out
}

/// The references whose handles a kernel wants.
fn handles(m: &Module, params: &[VarId], list: &[VarId]) -> Vec<image::Handle> {
    let one = |v: &VarId| {
        let var = &m.vars[v.index()];
        let parameter = params.iter().position(|p| p == v).map(|n| n as u32);
        Some(image::Handle { name: var.name.clone(), kind: reference_kind(var.ty)?, parameter })
    };
    list.iter().filter_map(one).collect()
}

fn params(m: &Module, vars: &[VarId], offsets: &[u32]) -> Vec<image::Param> {
    vars.iter()
        .zip(offsets)
        .map(|(v, &offset)| {
            let var = &m.vars[v.index()];
            if let Some(kind) = reference_kind(var.ty) {
                return image::Param::reference(kind);
            }
            let (space, align) = match var.ptr {
                None => (0, 1),
                Some((space, align)) => {
                    let code = match space {
                        Some(Pointee::Memory(Space::Local)) => 1,
                        Some(Pointee::Memory(Space::Shared)) => 2,
                        Some(Pointee::Memory(Space::Const)) => 3,
                        Some(Pointee::Memory(Space::Global)) => 4,
                        Some(Pointee::Object(ty)) => reference_kind(ty).map_or(5, image::ReferenceKind::parameter),
                        _ => 5,
                    };
                    (code, align.max(1))
                }
            };
            image::Param {
                offset: offset as u16,
                size: var.size() as u16,
                space,
                log_align: if var.ptr.is_some() { align.trailing_zeros() as u8 } else { 0 },
            }
        })
        .collect()
}
