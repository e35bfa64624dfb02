//! Loads, stores, atomics and reductions: what the table cannot say of their modifiers and addresses.

use super::Checker;
use super::forms;
use crate::isa::{Mod, Op, Since};
use crate::module::*;
use crate::types::Space;

impl Checker<'_> {
    pub(super) fn memory(&mut self, func: FuncId, f: &Function, inst: &Inst) {
        let name = forms::name(inst);
        let space = inst.space();
        if inst.mods.iter().filter(|&&m| Space::from_mod(m).is_some()).count() > 1 {
            return self
                .error(inst.span, format!("Unexpected number of state spaces specified in instruction '{name}'"));
        }
        let sem = [Mod::Relaxed, Mod::Acquire, Mod::Release].into_iter().find(|&m| inst.has(m));
        if let (Op::Ld | Op::St, Some(sem), None) = (inst.op, sem, inst.scope()) {
            self.error(inst.span, format!("Modifier '.{}' requires scope with '{name}' instruction", sem.name()));
        }
        if matches!(inst.op, Op::Ld | Op::St) {
            if sem.is_none()
                && let Some(scope) = inst.mods.iter().find(|&&m| crate::access::Scope::from_mod(m).is_some())
            {
                let message = format!("Modifier '.{}' requires memory order with '{name}' instruction", scope.name());
                self.error(inst.span, message);
            }
            if inst.has(Mod::Mmio) && !inst.has(Mod::Relaxed) {
                self.error(
                    inst.span,
                    format!("Modifier '.mmio' requires modifier '.relaxed' for instruction '{name}'"),
                );
            }
            if inst.has(Mod::Nc) && space != Space::Global {
                self.error(inst.span, "Modifier '.nc' requires .global space");
            }
        }
        if inst.has(Mod::L2CacheHint) && inst.has(Mod::Mmio) {
            self.error(inst.span, "Modifier '.L2::cache_hint' cannot be combined with modifier '.mmio'");
        }
        if inst.has(Mod::L2CacheHint) && !matches!(space, Space::Global | Space::Generic) {
            let space = inst.mods.iter().find(|&&m| Space::from_mod(m).is_some()).map_or("", |m| m.name());
            let message =
                format!("Modifier '.L2::cache_hint' cannot be applied to '.{space}' space for instruction '{name}'");
            self.error(inst.span, message);
        }
        let bits = inst.ty().bits() * u32::from(inst.vector());
        let cache = inst.mods.iter().find(|&&m| crate::access::CacheOp::from_mod(m).is_some());
        if let (Some(sem), Some(cache), Op::Ld | Op::St) = (sem, cache, inst.op) {
            let message = format!("Modifier '.{}' cannot be combined with modifier '.{}'", sem.name(), cache.name());
            self.error(inst.span, message);
        }
        if inst.op == Op::Ldu && bits > 128 {
            self.error(inst.span, "Vector type too large, exceeds 128 bit limit");
        }
        let evict = inst.mods.iter().find(|m| matches!(m, Mod::L2EvictFirst | Mod::L2EvictLast | Mod::L2EvictNormal));
        if let (Op::Ld | Op::St, Some(evict), true) = (inst.op, evict, bits != 256) {
            let message =
                format!("Instruction '{name}' requires '.v8.b32/.v4.b64' type with '.{}' modifier.", evict.name());
            self.error(inst.span, message);
        }
        if bits > 128 {
            if self.target.sm < 100 || self.version < (8, 8) || bits > 256 {
                let since = Since::new((8, 8), 100);
                if bits > 256 {
                    self.error(inst.span, "Vector operand is too large");
                } else {
                    self.since(inst.span, "256 bit wide load/store", since);
                }
            }
        } else if inst.vector() == 8
            && inst.ty().bits() < 32
            && self.target.sm < 100
            && matches!(inst.op, Op::Ld | Op::St)
        {
            self.error(inst.span, "Illegal vector size: 8");
        }
        let Some(address) = inst.operands.iter().find_map(|o| match o {
            Operand::Mem(a) => Some(*a),
            _ => None,
        }) else {
            return;
        };
        match address.base() {
            AddressBase::None => {
                if space != Space::Local {
                    self.error(inst.span, "Immediate addresses allowed only for .local state space");
                }
            }
            AddressBase::Reg(reg) => {
                if space == Space::ParamFunc {
                    let message = format!("Illegal state space for address operand '::func' with instruction '{name}'");
                    self.error(inst.span, message);
                }
                let narrow = f.regs.get(reg.index()).is_some_and(|r| r.ty.bits() == 32);
                if narrow && self.m.address_size == 64 && matches!(space, Space::Global | Space::Generic) {
                    self.narrow_address(inst.span);
                }
            }
            AddressBase::Var(v) => {
                let var = &self.m.vars[v.index()];
                if var.ty.is_opaque() {
                    return self.error(inst.span, format!("Illegal operand type to instruction '{name}'"));
                }
                let ok = match (space, var.space) {
                    (Space::Generic, s) => s != Space::Param && s != Space::Const,
                    (Space::Param | Space::ParamEntry | Space::ParamFunc, s) => s == Space::Param,
                    (Space::SharedCluster, s) => s == Space::Shared,
                    (a, b) => a == b,
                };
                if !ok {
                    let message =
                        format!("State space mismatch between instruction and address in instruction '{name}'");
                    return self.error(inst.span, message);
                }
                if inst.op == Op::St && var.space == Space::Param && f.params.contains(&v) && var.scope == Some(func) {
                    let message = format!("Illegal to write to function input parameter '{}'", var.name);
                    self.error(inst.span, message);
                }
            }
        }
    }

    /// An address of 32 bits in a module of 64: it makes the vendor's tool compile for 32 bits, which it has given up.
    pub(super) fn narrow_address(&mut self, span: diag::Span) {
        let message = if self.target.sm >= 90 {
            "32-Bit ABI (--machine 32 or 32-Bit addressing) is not supported on sm_90 or higher architectures."
        } else {
            "32-Bit compilation is no longer supported"
        };
        let help = "a 32-bit address is conflicting with .address_size 64";
        self.push(diag::Diagnostic::error(message).at(span).help(help));
    }
}
