//! Directives and declarations: what the version, the target and each other allow. As the vendor's tool (13.5) answers.

use super::Checker;
use crate::isa::Since;
use crate::module::*;
use crate::types::{ScalarType, Space};
use diag::Span;

/// Directives of a function that came later: name, first version, first SM.
fn since(d: &Directive) -> Option<(&'static str, Since)> {
    Some(match d {
        Directive::ReqNctaPerCluster(_) => (".reqnctapercluster", Since::new((7, 8), 90)),
        Directive::MaxClusterRank(_) => (".maxclusterrank", Since::new((7, 8), 90)),
        Directive::ExplicitCluster => (".explicitcluster", Since::new((7, 8), 90)),
        Directive::NoReturn => (".noreturn", Since::new((6, 4), 0)),
        Directive::Other(name, _) if name == "abi_preserve" => (".abi_preserve", Since::new((9, 0), 80)),
        Directive::Other(name, _) if name == "abi_preserve_control" => {
            (".abi_preserve_control", Since::new((9, 0), 80))
        }
        Directive::BlocksAreClusters => (".blocksareclusters", Since::new((9, 0), 90)),
        _ => return None,
    })
}

impl Checker<'_> {
    /// The directives of a call's prototype.
    pub(super) fn prototype_directives(&mut self, span: Span, directives: &[Directive]) {
        for d in directives {
            self.directive_since(span, d);
            self.keeps(span, d);
        }
    }

    fn directive_since(&mut self, span: Span, d: &Directive) {
        if let Some((name, since)) = since(d) {
            self.since(span, name, since);
        }
    }

    /// Registers and barriers that the ABI lets a function keep.
    fn keeps(&mut self, span: Span, d: &Directive) {
        let Directive::Other(name, values) = d else { return };
        let most = if name == "abi_preserve" { 238 } else { 11 };
        if let (Some(&n), "abi_preserve" | "abi_preserve_control") = (values.first(), name.as_str())
            && n > most
        {
            self.error(span, format!(".{name} {n} is invalid for {}", self.target));
        }
    }

    /// The directives of a function.
    pub(super) fn directives(&mut self, f: &Function) {
        let span = f.span;
        let entry = f.kind == FuncKind::Entry;
        let has = |t: fn(&Directive) -> bool| f.directives.iter().any(t);
        for d in &f.directives {
            self.directive_since(span, d);
            match d {
                Directive::MaxNctaPerSm(_) if self.version >= (2, 1) => {
                    let message = "Deprecated feature: '.maxnctapersm directive' not supported as of PTX version 2.1";
                    self.error(span, message);
                }
                Directive::MaxNreg(0) => self.error(span, "Positive non-zero value expected for maxnreg"),
                Directive::MinNctaPerSm(0) => self.error(span, "Positive non-zero value expected for minnctapersm"),
                Directive::NoReturn if !entry && !f.returns.is_empty() => {
                    self.error(span, format!("Invalid directive '.noreturn' for function '{}'", f.name));
                }
                Directive::Other(..) if !entry => self.keeps(span, d),
                Directive::Pragma(words) => self.outer_pragma(words, span),
                _ => {}
            }
        }
        let rank = has(|d| matches!(d, Directive::MaxClusterRank(_)));
        let shape = has(|d| matches!(d, Directive::ReqNctaPerCluster(_)));
        if rank && shape {
            let message = "Conflicting directives: .reqnctapercluster and .maxclusterrank cannot both be specified";
            self.error(span, message);
        }
        let threads = has(|d| matches!(d, Directive::ReqNtid(_)));
        if has(|d| matches!(d, Directive::BlocksAreClusters)) && !(threads && shape) {
            let message = ".reqntid and .reqnctapercluster directive(s) required for directive '.blocksareclusters'";
            self.error(span, message);
        }
        if entry {
            for p in &f.params {
                let v = &self.m.vars[p.index()];
                if v.space == Space::Reg {
                    let message = format!("Entry parameter '{}' must have .param state space", v.name);
                    self.error(v.span, message);
                }
            }
        }
    }

    /// One parameter of a function or entry.
    pub(super) fn formal(&mut self, f: &Function, v: &Variable) {
        let entry = f.kind == FuncKind::Entry;
        if v.space == Space::Param && (v.vector > 1 || v.ty == ScalarType::F16x2) {
            self.error(v.span, format!("Variable '{}' cannot be allocated in .param state space", v.name));
        }
        if !entry && v.ptr.is_some() {
            self.error(v.span, "Illegal placement of kernel parameter attribute");
        }
    }

    /// Aliases: of a function that is defined here, by one that is declared only and is called the same way.
    pub(super) fn aliases(&mut self) {
        let m = self.m;
        for item in &m.items {
            let Item::Alias { alias, target, span } = item else { continue };
            let (a, f) = (&m.funcs[alias.index()], &m.funcs[target.index()]);
            let span = *span;
            let since = Since::new((6, 3), 30);
            if self.late(since) {
                self.since(span, ".alias", since);
            }
            let entries: Vec<&Function> = [a, f].into_iter().filter(|f| f.kind == FuncKind::Entry).collect();
            if !entries.is_empty() {
                for f in entries {
                    self.error(span, format!("Cannot define alias to entry function '{}'", f.name));
                }
                continue;
            }
            if a.body.is_some() {
                self.error(span, format!("Illegal redefinition of function '{}' as alias", a.name));
            }
            if alias == target {
                self.error(span, "Cannot alias a function to itself");
                continue;
            }
            let linkage = match f.linkage {
                Linkage::Extern => "extern",
                Linkage::Weak => "weak",
                _ => "",
            };
            if !linkage.is_empty() {
                self.error(span, format!("Function '{}' with .{linkage} scope cannot be aliased", f.name));
            }
            let differ = |what: &str| {
                format!("Mismatch in prototype of alias '{}' and aliasee '{}'. {what} differ(s)", a.name, f.name)
            };
            let pairs = [(&a.returns, &f.returns), (&a.params, &f.params)];
            let all = || {
                let pair =
                    |p: &(&Vec<VarId>, &Vec<VarId>)| p.0.iter().copied().zip(p.1.iter().copied()).collect::<Vec<_>>();
                pairs.iter().flat_map(pair).map(|(x, y)| (&m.vars[x.index()], &m.vars[y.index()])).collect::<Vec<_>>()
            };
            if pairs.iter().any(|p| p.0.len() != p.1.len()) {
                self.error(span, differ("number of parameters"));
            } else if all().iter().any(|(x, y)| (x.ty, x.vector, &x.dims) != (y.ty, y.vector, &y.dims)) {
                self.error(span, differ("parameter types"));
            } else if all().iter().any(|(x, y)| x.align != y.align) {
                self.error(span, differ("parameter alignment"));
            }
        }
    }

    /// One variable, of any scope, or a formal parameter.
    pub(super) fn variable(&mut self, v: &Variable, formal: bool) {
        let local = v.scope.is_some();
        if v.vector > 1 && u32::from(v.vector) * v.ty.bits() > 128 {
            self.error(v.span, "Vector type too large, exceeds 128 bit limit");
        }
        if v.vector > 1 && v.ty == ScalarType::Pred {
            self.error(v.span, "Predicate type can only be used to define scalar register variables");
        }
        if v.ty == ScalarType::B128 && self.late(Since::new((8, 3), 70)) {
            self.since(v.span, "Type .b128", Since::new((8, 3), 70));
        }
        if v.ty.is_opaque() && !formal {
            if local {
                self.error(v.span, "Texture/surface variable must be at module or entry parameter scope");
            } else if v.space != Space::Global {
                self.error(v.span, "Texture and surface variables must be declared in .global space");
            }
        }
        for a in &v.attributes {
            if a.starts_with(".managed") && v.space != Space::Global {
                self.error(v.span, format!("Illegal attribute '.managed' for symbol '{}'", v.name));
            }
            if a.starts_with(".unified") && self.late(Since::new((8, 0), 90)) {
                self.since(v.span, ".unified", Since::new((8, 0), 90));
            }
        }
        if v.init.iter().flatten().any(|i| matches!(i, InitValue::Var { mask: Some(_), .. } | InitValue::FuncByte(..)))
        {
            let since = Since::new((7, 1), 0);
            if self.late(since) {
                self.since(v.span, "mask operator in initializer", since);
            }
        }
        let independent = self.m.target.iter().any(|w| w == "texmode_independent");
        if v.ty == ScalarType::SamplerRef && !independent {
            self.error(v.span, "Instruction or declaration violates .target texmode_unified setting");
        }
        if v.space == Space::Tex {
            self.error(
                v.span,
                if local {
                    "Texture variables must be declared at module scope"
                } else {
                    "Deprecated feature: '.tex' not supported as of PTX version 1.5"
                },
            );
        }
        if v.linkage == Linkage::Common && v.space != Space::Global {
            self.error(v.span, ".common variables must be declared in .global space");
        }
        if v.space == Space::Local && !local {
            self.error(v.span, "Module-scoped variables in .local state space are not allowed with ABI");
        }
        let open = v.dims.iter().any(|d| d.is_none_or(|n| n == 0));
        // The formals of a prototype have no name.
        let inner = local
            && !formal
            && v.name != "_"
            && matches!(v.space, Space::Shared | Space::Local | Space::Global | Space::Const | Space::Param);
        if open && v.linkage != Linkage::Extern && v.init.is_none() && (!local || inner) {
            self.error(v.span, format!("Non-external variable '{}' has incomplete type", v.name));
        }
    }
}
