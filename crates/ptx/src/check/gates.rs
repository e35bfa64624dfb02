//! What the PTX version and the target have: gates of forms and of modifiers, named as the vendor's tool names them.

use super::Checker;
use super::forms::{self, Fit};
use crate::isa::{Form, Mod, Op, Since};
use crate::module::Inst;
use arch::Target;
use diag::{Diagnostic, Span};

/// What messages call something that came later: where the version, the target's number and the target's family are told.
struct Subject {
    version: String,
    target: String,
    family: String,
}

impl Subject {
    fn all(text: String) -> Self {
        Subject { version: text.clone(), target: text.clone(), family: text }
    }
}

fn feature(what: &str) -> String {
    format!("Feature '{what}'")
}

/// How a form with its modifiers is called.
fn form_subject(inst: &Inst, form: &Form, able: bool) -> Subject {
    let name = forms::name(inst);
    let has = |m: Mod| inst.has(m);
    let modifier = |m: Mod| format!("Modifier '.{}'", m.name());
    let types = inst.types();
    let types: Vec<&str> = types.iter().map(|t| t.name()).collect();
    let plain = || Subject { version: feature(&name), target: feature(&name), family: format!("Instruction '{name}'") };
    let first = |list: &[Mod]| list.iter().copied().find(|&m| inst.has(m));
    let shape = || inst.mods.iter().copied().find(|m| super::repeat::is_shape(m.name()));
    match inst.op {
        Op::Cvt => {
            let pair = types.join(".");
            let special = types.iter().any(|t| matches!(*t, "s2f6x2" | "ue8m0x2"));
            if has(Mod::Rs) {
                Subject::all(feature(".rs"))
            } else if special {
                let special = types.iter().find(|t| matches!(**t, "s2f6x2" | "ue8m0x2")).unwrap_or(&"");
                let text = format!("cvt with .{special}");
                Subject { version: feature(&text), target: feature(&text), family: format!("Instruction '{text}'") }
            } else if has(Mod::Satfinite) && matches!(types[..], ["f16" | "bf16" | "f16x2" | "tf32", "f32"]) {
                let rounding = match types[0] {
                    "tf32" => inst.mods.iter().find(|m| matches!(m, Mod::Rn | Mod::Rz | Mod::Rna)),
                    _ => None,
                };
                let rounding = rounding.map_or(String::new(), |m| format!(".{}", m.name()));
                Subject::all(format!("Modifier '.satfinite' on 'cvt.{pair}{rounding}'"))
            } else {
                Subject::all(feature(&format!("cvt.{pair}")))
            }
        }
        Op::Multimem if types.iter().any(|t| t.starts_with("e4m3") || t.starts_with("e5m2")) => {
            Subject::all(feature(&format!(".{}", types.last().unwrap_or(&""))))
        }
        Op::Tcgen05 if has(Mod::Red) && !able => Subject {
            family: shape().map_or_else(|| format!("Instruction '{name}'"), |s| feature(&format!(".{}", s.name()))),
            ..plain()
        },
        Op::Ldmatrix | Op::Stmatrix => match shape() {
            Some(s @ Mod::M8n16) => Subject {
                version: format!("{} on '{name}'", modifier(s)),
                target: feature(&name),
                family: feature(".m8n16"),
            },
            Some(s @ (Mod::M16n16 | Mod::M16n8)) => {
                Subject { version: modifier(s), target: feature(&name), family: feature(&format!(".{}", s.name())) }
            }
            _ => plain(),
        },
        Op::Mma => {
            let kind = inst.mods.iter().find(|m| m.name().starts_with("kind::"));
            let small = types.iter().any(|t| matches!(*t, "e2m1" | "e2m3" | "e3m2"));
            match kind {
                _ if has(Mod::BlockScale) => Subject {
                    family: "Instruction 'mma with block scale'".to_string(),
                    ..Subject::all(feature("mma with block scale"))
                },
                _ if small => Subject {
                    family: "Instruction 'mma with with FP6/FP4 floating point type'".to_string(),
                    ..Subject::all(feature("mma with with FP6/FP4 floating point type"))
                },
                _ if types.first() == Some(&"f16") => Subject {
                    family: "Instruction 'mma with with F16 accumulator and F8 floating point type'".to_string(),
                    ..Subject::all(feature("mma with with F16 accumulator and F8 floating point type"))
                },
                Some(k) => Subject { family: feature(&format!(".{}", k.name())), ..plain() },
                None => plain(),
            }
        }
        Op::Wmma if !form.since.only.is_empty() || form.since.sm == 80 => match shape() {
            Some(s @ (Mod::M16n16k8 | Mod::M8n8k4)) => Subject { target: modifier(s), ..plain() },
            _ => plain(),
        },
        Op::Cp => {
            let place = if has(Mod::Prefetch) {
                " with cp.async.bulk.prefetch.tensor"
            } else if has(Mod::SharedCluster) {
                " with destination state space as .shared::cluster"
            } else if inst.mods.iter().find(|m| matches!(m, Mod::SharedCta | Mod::Global)) == Some(&Mod::SharedCta) {
                " with destination state space as .shared::cta"
            } else {
                ""
            };
            match first(&[Mod::TileGather4, Mod::TileScatter4, Mod::Im2colW, Mod::Im2colW128]) {
                Some(m) => {
                    let text = feature(&format!(".{}{place}", m.name()));
                    Subject { version: feature(&format!(".{}", m.name())), target: text.clone(), family: text }
                }
                None => plain(),
            }
        }
        Op::Fence | Op::Membar => match first(&[Mod::Async, Mod::Alias]) {
            Some(m) => Subject::all(modifier(m)),
            None if has(Mod::TensormapGeneric) || has(Mod::AsyncGeneric) => {
                let text = "fence.proxy with unidirection proxy fence";
                let target = format!("Instruction '{text}'");
                Subject { version: feature(text), target: target.clone(), family: target }
            }
            None if has(Mod::MbarrierInit) => Subject::all(modifier(Mod::MbarrierInit)),
            None => plain(),
        },
        Op::Prefetch => match has(Mod::Tensormap) {
            true => Subject::all(modifier(Mod::Tensormap)),
            false if inst.mods.iter().any(|m| m.name().contains("evict")) => {
                Subject::all("Modifier 'cache eviction priority' on 'prefetch'".to_string())
            }
            false => plain(),
        },
        Op::Griddepcontrol => match inst.mods.first() {
            Some(&m) => Subject::all(modifier(m)),
            None => plain(),
        },
        Op::Add | Op::Sub | Op::Min | Op::Max | Op::Neg if form.since.ptx == (9, 2) => match types[..] {
            [t] if t.ends_with("8x4") => Subject::all(feature(&format!("{name}.{t}"))),
            _ => Subject::all(feature(&format!("{name}.sat"))),
        },
        Op::Tensormap if has(Mod::Elemtype) && form.since.ptx == (8, 7) => {
            Subject::all("Instruction 'tensormap.replace.elemtype with input value >= 13'".to_string())
        }
        _ => plain(),
    }
}

/// How a modifier is called.
fn word_subject(inst: &Inst, word: Mod) -> Subject {
    let name = forms::name(inst);
    let plain = || feature(&format!(".{}", word.name()));
    let modifier = || format!("Modifier '.{}'", word.name());
    let on = || format!("Modifier '.{}' on '{name}'", word.name());
    match word {
        Mod::L2CacheHint | Mod::AccF16 | Mod::AccF32 | Mod::MulticastCluster | Mod::Read | Mod::MbarrierInit => {
            Subject::all(modifier())
        }
        Mod::Relu | Mod::NaN | Mod::Xorsign | Mod::Oob => {
            Subject { version: plain(), target: modifier(), family: modifier() }
        }
        Mod::L2256B | Mod::L2128B | Mod::L264B => {
            Subject { version: feature("cache prefetching"), target: modifier(), family: modifier() }
        }
        Mod::Acquire | Mod::Release | Mod::Relaxed | Mod::And | Mod::Xor
            if matches!(inst.op, Op::Mbarrier | Op::Barrier | Op::Fence | Op::Mma | Op::Wmma) =>
        {
            Subject::all(on())
        }
        Mod::CtaGroup1 | Mod::CtaGroup2 if inst.op == Op::Cp => Subject { version: on(), ..Subject::all(plain()) },
        Mod::Satfinite if inst.op == Op::Cvt => {
            let pair: String = inst.types().iter().map(|t| format!(".{}", t.name())).collect();
            Subject::all(format!("Modifier '.satfinite' on 'cvt{pair}'"))
        }
        Mod::SwizzleAtomicity => {
            let what = "tensormap.replace.swizzle_atomicity";
            Subject { family: format!("Instruction '{what}'"), ..Subject::all(feature(what)) }
        }
        _ if word.name().starts_with("L1::") => {
            let short = word.name().trim_start_matches("L1::");
            Subject::all(format!("Modifier '.{short}' on '{name}'"))
        }
        _ if word.name().starts_with("L2::evict") && inst.op == Op::Createpolicy => Subject::all(on()),
        _ => Subject::all(plain()),
    }
}

/// How much of a form is of a later version or another target: modifiers, and the form itself.
type Late = (usize, Vec<(Mod, Since)>, Option<&'static Form>);

impl Checker<'_> {
    /// Reports what the PTX version or the target does not have; true if anything was reported.
    pub(super) fn gates(&mut self, inst: &Inst, fits: &[Fit]) -> bool {
        // The most generous form counts: another one may be of a later version.
        let mut best: Option<Late> = None;
        for f in fits {
            let mut bad = Vec::new();
            let late = self.late(f.form.since).then_some(f.form);
            let mut used = 0u32;
            for &m in inst.mods {
                let found = f.form.groups.iter().enumerate().find_map(|(i, g)| {
                    let w = g.words.iter().find(|w| w.word == m)?;
                    (used & 1 << i == 0).then_some((i, w))
                });
                if let Some((i, w)) = found {
                    used |= 1 << i;
                    // What these want otherwise is told elsewhere.
                    let wide = m.name().starts_with("L2::evict") && matches!(inst.op, Op::Ld | Op::St);
                    if self.late(w.since) && !(wide && inst.ty().bits() * u32::from(inst.vector()) != 256) {
                        bad.push((m, w.since));
                    }
                }
            }
            let size = bad.len() + usize::from(late.is_some());
            if best.as_ref().is_none_or(|b| size < b.0) {
                best = Some((size, bad, late));
            }
        }
        let Some((_, words, form)) = best else { return false };
        if let Some(form) = form {
            self.form_gate(inst, form);
        }
        for &(word, since) in &words {
            let subject = word_subject(inst, word);
            self.gate(inst.span, &subject, &format!(".{}", word.name()), since);
        }
        form.is_some() || !words.is_empty()
    }

    /// A form that the version or the target does not have; what none of the instruction's forms is for is told first.
    pub(super) fn form_gate(&mut self, inst: &Inst, form: &Form) {
        let name = forms::name(inst);
        let named = |f: &&Form| f.name == form.name;
        let first = inst.op.forms().iter().filter(named).map(|f| f.since).filter(|s| s.only.is_empty());
        let first = first.min_by_key(|s| (s.ptx, s.sm));
        if let Some(first) = first
            && first != form.since
            && self.late(first)
            && !matches!(inst.op, Op::Cvt | Op::Fence)
        {
            let subject = Subject::all(feature(&name));
            return self.gate(inst.span, &subject, &name, first);
        }
        let able = inst.op.forms().iter().any(|f| f.since.has(self.target));
        let subject = form_subject(inst, form, able);
        self.gate(inst.span, &subject, &name, form.since);
    }

    /// Is something of a later version, or of another target?
    pub(super) fn late(&self, since: Since) -> bool {
        since.ptx > self.version || !since.has(self.target)
    }

    /// Reports that something came later than the version or target at hand.
    pub(super) fn since(&mut self, span: Span, what: &str, since: Since) {
        let family = if what.starts_with('.') || what.starts_with('%') { "Feature" } else { "Instruction" };
        let subject = Subject { family: format!("{family} '{what}'"), ..Subject::all(feature(what)) };
        self.gate(span, &subject, what, since);
    }

    fn gate(&mut self, span: Span, subject: &Subject, what: &str, since: Since) {
        if since.ptx > self.version {
            let (a, b) = since.ptx;
            let message = format!("{} requires PTX ISA .version {a}.{b} or later", subject.version);
            let (c, d) = self.version;
            let help = format!("`{what}` needs PTX {a}.{b}; this module is of version {c}.{d}");
            self.push(Diagnostic::error(message).at(span).help(help));
        }
        if since.has(self.target) {
            return;
        }
        let message = if since.only.is_empty() && !subject.target.contains("unidirection") {
            format!("{} requires .target sm_{} or higher", subject.target, since.sm)
        } else {
            format!("{} not supported on .target '{}'", subject.family, self.target)
        };
        let mut needs: Vec<String> = since.only.iter().map(Target::to_string).collect();
        if since.sm != 0 {
            needs.push(format!("sm_{}", since.sm));
        }
        let help = format!("`{what}` needs {}; this module targets {}", needs.join(" or "), self.target);
        self.push(Diagnostic::error(message).at(span).help(help));
    }
}
