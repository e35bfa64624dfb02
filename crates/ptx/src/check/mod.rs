//! The validator: is a parsed module legal PTX for its `.target`, and for the GPU at hand?
//!
//! What passes here never makes a consumer fail on meaning. Forms come from the instruction table; what a table cannot say
//! (state spaces of addresses, calls, barrier numbers) stands in the other files. Messages are worded as the vendor's tool does.

mod call;
mod declare;
mod forms;
mod gates;
mod inst;
mod linkage;
mod memory;
mod pragma;
mod repeat;
mod shape;
mod texel;
mod vector;

pub use linkage::{Linking, SYSTEM, outside, unresolved, without_abi};
pub use pragma::{Compilation, SHARED_SPILLS, pragmas};

use crate::isa::Since;
use crate::module::*;
use crate::types::{ScalarType, Space};
use arch::Target;
use diag::{Diagnostic, Severity, Span};

/// Messages after which checking ends.
const MAX_ERRORS: usize = 100;

/// The state of checking one module.
pub(crate) struct Checker<'a> {
    m: &'a Module,
    version: (u16, u16),
    target: Target,
    diags: Vec<Diagnostic>,
    /// How many of them are warnings, and errors.
    count: [usize; 2],
    /// The function at hand.
    func: Option<FuncId>,
    /// A version or target that the instruction at hand needs has been reported.
    gated: bool,
    cache: forms::Cache,
}

/// Checks a module that parsed without an error; with a target also whether it may be compiled for it and fits its limits.
/// Gives every message found, errors and warnings, in the order of the text.
pub fn check(module: &Module, target: Option<&Target>) -> Vec<Diagnostic> {
    let ptx = module.target.iter().find_map(|w| Target::parse(&w.replacen("compute_", "sm_", 1)));
    let mut c = Checker {
        m: module,
        version: module.version,
        target: ptx.unwrap_or(Target { sm: 0, variant: arch::Variant::Plain }),
        diags: Vec::new(),
        count: [0; 2],
        func: None,
        gated: false,
        cache: forms::Cache::default(),
    };
    if let Some(ptx) = ptx {
        c.targets(ptx, target);
        if module.address_size == 32 {
            let message = if ptx.sm >= 90 {
                "32-Bit ABI (--machine 32 or 32-Bit addressing) is not supported on sm_90 or higher architectures."
            } else {
                "32-Bit compilation is no longer supported"
            };
            c.fatal(message);
        }
    }
    c.variables(target);
    c.aliases();
    for item in &module.items {
        if let Item::Pragma { words, span } = item {
            c.outer_pragma(words, *span);
        }
    }
    for (i, f) in module.funcs.iter().enumerate() {
        if c.full() {
            break;
        }
        c.function(FuncId(i as u32), f, target);
    }
    c.diags
}

impl Checker<'_> {
    /// Keeps a message; those behind the hundredth of its kind say nothing that helps.
    fn push(&mut self, d: Diagnostic) {
        let kind = usize::from(d.is_error());
        if self.count[kind] < MAX_ERRORS {
            self.count[kind] += 1;
            self.diags.push(d);
        }
    }

    fn full(&self) -> bool {
        self.count[1] >= MAX_ERRORS
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::error(message).at(span));
    }

    fn warning(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::new(Severity::Warning, message).at(span));
    }

    fn fatal(&mut self, message: impl Into<String>) {
        self.push(Diagnostic::new(Severity::Fatal, message));
    }

    fn targets(&mut self, ptx: Target, gpu: Option<&Target>) {
        let Some(gpu) = gpu else { return };
        if gpu.can_run(ptx) {
            return;
        }
        use arch::Variant::*;
        self.fatal(match ptx.variant {
            Plain => "SM version specified by .target is higher than default SM version assumed".to_string(),
            A if gpu.sm == ptx.sm => format!("PTX with .target '{ptx}' cannot be compiled for architecture '{gpu}'"),
            F if gpu.sm >= ptx.sm => {
                format!("Program with .target '{ptx}' cannot be compiled to different SM-family architecture")
            }
            A if gpu.sm > ptx.sm => format!("Program with .target '{ptx}' cannot be compiled to future architecture"),
            _ => "SM version specified by .target is higher than default SM version assumed".to_string(),
        });
    }

    fn variables(&mut self, gpu: Option<&Target>) {
        let mut constants = 0u64;
        let mut formals = vec![false; self.m.vars.len()];
        for id in self.m.funcs.iter().flat_map(|f| f.params.iter().chain(&f.returns)) {
            formals[id.index()] = true;
        }
        for (v, formal) in self.m.vars.iter().zip(formals) {
            let memory = v.space != Space::Reg;
            if v.ty == ScalarType::Pred && memory {
                self.error(v.span, format!("Predicate variable '{}' must be in register state space", v.name));
            }
            self.variable(v, formal);
            if v.scope.is_none() && v.space == Space::Const && v.linkage != Linkage::Extern {
                constants = constants.next_multiple_of(u64::from(v.align.max(1))).saturating_add(v.size());
            }
        }
        if let Some(l) = gpu.and_then(|g| arch::limits(g.sm))
            && constants > u64::from(l.const_bytes)
        {
            let message =
                format!("File uses too much global constant data (0x{constants:x} bytes, 0x{:x} max)", l.const_bytes);
            self.push(Diagnostic::error(message));
        }
    }

    fn function(&mut self, id: FuncId, f: &Function, gpu: Option<&Target>) {
        let mut max = false;
        let mut req = false;
        let mut min_ctas = false;
        for d in &f.directives {
            match d {
                Directive::MaxNtid(t) | Directive::ReqNtid(t) => {
                    let name = if matches!(d, Directive::MaxNtid(_)) { "maxntid" } else { "reqntid" };
                    max |= name == "maxntid";
                    req |= name == "reqntid";
                    if t.contains(&0) {
                        self.error(f.span, format!("Positive non-zero value expected for {name}"));
                    }
                }
                Directive::MinNctaPerSm(_) => min_ctas = true,
                _ => {}
            }
        }
        self.inner_pragmas(f);
        self.directives(f);
        for id in f.returns.iter().chain(&f.params) {
            self.formal(f, &self.m.vars[id.index()]);
        }
        if max && req {
            self.error(f.span, "Conflicting directives: .maxntid and .reqntid cannot both be specified");
        }
        if min_ctas && !max && !req {
            let message = ".minnctapersm is ignored when neither .maxntid nor .reqntid is specified.";
            self.push(Diagnostic::new(Severity::Warning, message).at(f.span));
        }
        if f.kind == FuncKind::Entry
            && let Some(l) = gpu.and_then(|g| arch::limits(g.sm))
        {
            let mut bytes = 0u64;
            for p in &f.params {
                let v = &self.m.vars[p.index()];
                bytes = bytes.next_multiple_of(u64::from(v.align.max(1))).saturating_add(v.size());
            }
            // Later versions allow more.
            let most = u64::from(l.param_bytes);
            if bytes > most || bytes > 4352 && self.late(Since::new((8, 1), 70)) {
                let most = if bytes > most { most } else { 4352 };
                let message = format!(
                    "Entry function '{}' uses too much parameter space (0x{bytes:x} bytes, 0x{most:x} max).",
                    f.name
                );
                self.error(f.span, message);
            }
        }
        self.func = Some(id);
        let Some(body) = f.body.as_ref().map(Body::unpacked) else { return };
        for (i, (head, operands)) in body.shapes().enumerate() {
            let shape = self.shape(f, || body.op(head), operands);
            if shape.is_some_and(|s| self.has_passed(head, s)) {
                continue;
            }
            if self.full() {
                return;
            }
            let inst = body.inst(InstId(i as u32));
            let before = self.diags.len();
            let fits = self.fits(&inst);
            self.inst(id, f, &inst, &fits);
            if let Some(shape) = shape.filter(|_| self.diags.len() == before) {
                self.pass(&inst, shape);
            }
        }
    }
}
