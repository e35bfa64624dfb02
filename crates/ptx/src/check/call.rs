//! Calls: the callee, and arguments against formal parameters.

use super::Checker;
use super::inst::{constant, exact};
use crate::module::*;
use crate::types::{ScalarType, Space};

impl Checker<'_> {
    pub(super) fn call(&mut self, f: &Function, inst: &Inst) {
        let [Operand::List(returns), target, Operand::List(arguments), rest @ ..] = inst.operands else {
            return self.error(inst.span, "Arguments mismatch for instruction 'call'");
        };
        let m = self.m;
        let (formal_returns, formal_params) = match target {
            Operand::Func(id) => {
                let callee = &m.funcs[id.index()];
                if callee.kind == FuncKind::Entry {
                    return self.error(inst.span, "Illegal call target, device function expected");
                }
                (&callee.returns, &callee.params)
            }
            Operand::Reg { reg, elem: None } => {
                let ty = f.regs.get(reg.index()).map_or(ScalarType::Pred, |r| r.ty);
                if ty.bits() != u32::from(m.address_size) || ty.is_float() {
                    return self.error(inst.span, "Arguments mismatch for instruction 'call'");
                }
                let table = match rest {
                    [Operand::Table(t)] => f.tables.get(t.index()),
                    _ => None,
                };
                match table {
                    Some(Table::Prototype { returns, params, directives, .. }) => {
                        self.prototype_directives(inst.span, directives);
                        (returns, params)
                    }
                    Some(Table::Call { targets, .. }) if !targets.is_empty() => {
                        // They are called the same way.
                        let shape = |f: &FuncId| {
                            let f = &m.funcs[f.index()];
                            (f.returns.len(), f.params.len())
                        };
                        if targets.iter().any(|t| shape(t) != shape(&targets[0])) {
                            return self.error(inst.span, "Call has wrong number of parameters");
                        }
                        let callee = &m.funcs[targets[0].index()];
                        (&callee.returns, &callee.params)
                    }
                    _ => return self.error(inst.span, "Indirect call requires a call prototype or call targets"),
                }
            }
            _ => return self.error(inst.span, "Arguments mismatch for instruction 'call'"),
        };
        for (given, formal, is_return) in [(returns, formal_returns, true), (arguments, formal_params, false)] {
            if given.len() != formal.len() {
                self.error(inst.span, "Call has wrong number of parameters");
                continue;
            }
            for (g, id) in given.iter().zip(formal) {
                let want = &m.vars[id.index()];
                if let Operand::Var { var, offset: 0 } = g
                    && let have = &m.vars[var.index()]
                    && have.space == Space::Param
                    && have.size() == want.size()
                    && exact(have.ty, want.ty)
                    && have.align != want.align
                {
                    let message = format!("Alignment of argument does not match formal parameter '{}'", want.name);
                    self.error(inst.span, message);
                    continue;
                }
                if let Operand::Var { var, .. } = g
                    && m.vars[var.index()].space != Space::Param
                {
                    let name = &m.vars[var.index()].name;
                    self.error(inst.span, format!("Call argument '{name}' has illegal state space"));
                    continue;
                }
                let ok = match g {
                    Operand::Var { var, offset: 0 } => {
                        let have = &m.vars[var.index()];
                        have.space == Space::Param
                            && (have.size() == want.size() || want.dims.contains(&None))
                            && have.dims.is_empty() == want.dims.is_empty()
                            && exact(have.ty, want.ty)
                    }
                    Operand::Reg { reg, elem: None } if f.elements_of(g).is_some() => {
                        let have = &f.regs[reg.index()];
                        want.dims.is_empty() && have.vector == want.vector && exact(have.ty, want.ty)
                    }
                    _ if want.vector > 1 => false,
                    Operand::Reg { reg, elem } => match self.reg(f, *reg, *elem) {
                        Ok(t) => want.dims.is_empty() && exact(t, want.ty),
                        Err(_) => false,
                    },
                    Operand::Sink => is_return,
                    Operand::Int(_) | Operand::F32(_) | Operand::F64(_) => {
                        !is_return && want.dims.is_empty() && constant(g, Some(want.ty)).is_ok()
                    }
                    _ => false,
                };
                if !ok {
                    let message = format!("Type of argument does not match formal parameter '{}'", want.name);
                    self.error(inst.span, message);
                }
            }
        }
    }
}
