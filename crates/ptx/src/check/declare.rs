//! Directives and declarations: what the version, the target and each other allow. As the vendor's tool (13.5) answers.

use super::Checker;
use crate::isa::Since;
use crate::module::*;
use crate::types::{ScalarType, Space};

/// Directives of a function that came later: name, first version, first SM.
fn since(d: &Directive) -> Option<(&'static str, Since)> {
    Some(match d {
        Directive::ReqNctaPerCluster(_) => (".reqnctapercluster", Since::new((7, 8), 90)),
        Directive::MaxClusterRank(_) => (".maxclusterrank", Since::new((7, 8), 90)),
        Directive::ExplicitCluster => (".explicitcluster", Since::new((7, 8), 90)),
        Directive::BlocksAreClusters => (".blocksareclusters", Since::new((9, 0), 90)),
        _ => return None,
    })
}

/// Pragmas that speak of a place in a body.
const INNER: [&str; 3] = ["used_bytes_mask", "enable_smem_spilling", "frequency"];

impl Checker<'_> {
    /// The directives of a function.
    pub(super) fn directives(&mut self, f: &Function) {
        let span = f.span;
        let entry = f.kind == FuncKind::Entry;
        let has = |t: fn(&Directive) -> bool| f.directives.iter().any(t);
        for d in &f.directives {
            if let Some((name, since)) = since(d) {
                self.since(span, name, since);
            }
            match d {
                Directive::MaxNctaPerSm(_) if self.version >= (2, 1) => {
                    let message = "Deprecated feature: '.maxnctapersm directive' not supported as of PTX version 2.1";
                    self.error(span, message);
                }
                Directive::MaxNreg(0) => self.error(span, "Positive non-zero value expected for maxnreg"),
                Directive::MinNctaPerSm(0) => self.error(span, "Positive non-zero value expected for minnctapersm"),
                Directive::NoReturn if entry => self.error(span, "Parsing error near '.noreturn': syntax error"),
                Directive::Other(name, _) if entry && name.starts_with("abi_preserve") => {
                    self.error(span, format!("Parsing error near '.{name}': syntax error"));
                }
                Directive::Pragma(words) => {
                    for word in words {
                        if INNER.iter().any(|p| word.starts_with(p)) {
                            self.error(span, format!("Pragma '{word}' is allowed only within function scope"));
                        }
                    }
                }
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
        if f.regs.iter().any(|r| r.ty.is_opaque()) {
            self.error(span, "Texture/surface variable must be at module or entry parameter scope");
        }
        for t in &f.tables {
            if let Table::Prototype { returns, noreturn: true, .. } = t
                && !returns.is_empty()
            {
                let message = "Invalid directive '.noreturn' for function 'protoype with return parameters'";
                self.error(span, message);
            }
        }
    }

    /// One variable, of any scope.
    pub(super) fn variable(&mut self, v: &Variable) {
        let local = v.scope.is_some();
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
        let inner = local && matches!(v.space, Space::Shared | Space::Local | Space::Global | Space::Const);
        if open && v.linkage != Linkage::Extern && v.init.is_none() && (!local || inner) {
            self.error(v.span, format!("Non-external variable '{}' has incomplete type", v.name));
        }
    }
}
