//! Asynchronous copies, barriers in shared memory, proxies, clusters: sequences as observed on sm_90.

use super::operand::{TRUE, ZERO, immediate};
use super::{Regs, Sel};
use crate::ir::{InstId, MemSpace, Op};
use crate::lower::asynchronous::{Bulk, barrier, order};
use crate::lower::copies::OFFSETS;
use crate::mir::Vreg;
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value as V};
use sass::reg::{File, Reg};

/// URZ as an operand.
const NOTHING: Operand = Operand::reg(Reg::URZ);

impl Sel<'_> {
    pub(super) fn asynchronous(&mut self, id: InstId) -> Option<()> {
        match self.f.inst(id).op {
            Op::Leader => {
                let p = self.m.new_vreg(File::Pred);
                let d = self.m.reg(p);
                self.push(Sass::new(F::ELECT).with(S::Pu, d).with(S::Rd, Reg::URZ).with(S::Pp, TRUE));
                self.define(id, 0, Regs { lo: p, hi: None });
                Some(())
            }
            Op::MBarrier => self.barrier64(id),
            Op::CopyAsync => self.copy_async(id),
            Op::AsyncOrder => self.async_order(id),
            Op::Bulk => self.bulk(id),
            _ => self.remote_store(id),
        }
    }

    /// A word in a uniform register: that of the first thread that is here.
    pub(super) fn uniform_word(&mut self, o: Operand) -> Vreg {
        let d = self.m.new_vreg(File::Ugpr);
        let to = self.m.reg(d);
        let m = match o.value {
            V::Imm(bits) => Sass::new(F::UMOV_I).with(S::Rd, to).with(S::Mask, Operand::imm(bits.get() as u32 as i64)),
            V::Reg(r) if r == Reg::RZ => Sass::new(F::UMOV_I).with(S::Rd, to).with(S::Mask, Operand::imm(0)),
            V::Reg(r) if r.file() == File::Ugpr => Sass::new(F::UMOV_U).with(S::Rd, to).with(S::Rb, r),
            _ => Sass::new(F::R2UR).with(S::Rd, to).with(S::Ra, o),
        };
        self.push(m);
        d
    }

    /// Words in consecutive uniform registers.
    pub(super) fn uniform_words(&mut self, words: &[Operand]) -> Operand {
        let list: Vec<Vreg> = words.iter().map(|&w| self.uniform_word(w)).collect();
        Operand::reg(self.m.vector(&list))
    }

    fn barrier64(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (attr, args, results) = (inst.attr, inst.args.to_vec(), inst.results.to_vec());
        if attr.sub == barrier::INIT {
            let at = self.narrow_address(MemSpace::Shared, args[0], 0);
            let place = |m: Sass| m.with(S::Imm, Operand::imm(at.offset));
            // Counts are stored as what is missing to 2^20, at two places.
            const WHOLE: u32 = 1 << 20;
            if let Some(count) = self.constant(args[1]) {
                let left = WHOLE.wrapping_sub(count as u32);
                let word = self.uniform_words(&[immediate(left << 1), immediate(left << 11)]);
                let address = self.uniform_word(at.base);
                self.push(place(Sass::new(F::SYNCS_EXCH)).with(S::Ra, self.m.reg(address)).with(S::Rb, word));
                return Some(());
            }
            let count = self.lo(args[1]);
            let left = self.iadd3(immediate(WHOLE), count.negated(), ZERO);
            let shl =
                |s: &mut Self, n: i64| s.shf(false, false, enums::shftype::U32, false, left, Operand::imm(n), ZERO);
            let (lo, hi) = (shl(self, 1), shl(self, 11));
            let word = self.uniform_words(&[lo, hi]);
            let address = self.uniform_word(at.base);
            let address = self.m.reg(address);
            self.push(place(Sass::new(F::SYNCS_EXCH)).with(S::Ra, address).with(S::Rb, word));
            return Some(());
        }
        let at = self.narrow_address(MemSpace::Shared, args[0], 0);
        let place = |m: Sass| m.with(S::Ra, at.base).with(S::Imm, Operand::imm(at.offset));
        let m = match attr.sub {
            barrier::INVAL => place(Sass::new(F::SYNCS_CCTL_IV)),
            barrier::TEST | barrier::TRY => {
                let phase = self.lo(args[1]);
                let phase = self.gpr(phase);
                let p = self.m.new_vreg(File::Pred);
                let d = self.m.reg(p);
                let tries = (attr.sub == barrier::TRY) as u8;
                let asked = Sass::new(F::SYNCS_PHASECHK).with(S::Rb, phase).with(S::Pu, d).with_mod(M::Trywait, tries);
                // What threads share ([`converge::asked_together`]) is asked at one address.
                let together = !self.conv.divergent[self.block] && args.iter().all(|a| self.conv.uniform[a.index()]);
                let asked = match at.base.as_reg() {
                    Some(r) if together && r != Reg::RZ => {
                        let shared = self.uniform_word(at.base);
                        asked.with(S::URc, self.m.reg(shared)).with(S::Imm, Operand::imm(at.offset))
                    }
                    _ => place(asked),
                };
                self.push(asked);
                self.define(id, 0, Regs { lo: p, hi: None });
                return Some(());
            }
            barrier::COPIES | barrier::COPIES_NOINC => {
                let noinc = attr.sub == barrier::COPIES_NOINC;
                if !noinc {
                    let arrive =
                        place(Sass::new(F::SYNCS_ARRIVE)).with(S::Rb, Reg::RZ).with_mod(M::Op, enums::syncsop::RED);
                    self.push(arrive.with_mod(M::Arrive, enums::syncsarrive::A0T1));
                }
                let mode = if noinc { enums::arrives::ARVCNT } else { enums::arrives::TRANSCNT };
                place(Sass::new(F::ARRIVES_LDGSTSBAR)).with_mod(M::Mode, mode)
            }
            _ => {
                use enums::syncsarrive as a;
                let (how, red) = match attr.sub {
                    barrier::ARRIVE => (a::A1T0, attr.signed),
                    barrier::ARRIVE_COUNT => (a::ART0, attr.signed),
                    barrier::ARRIVE_BYTES => (a::NONE, attr.signed),
                    barrier::EXPECT => (a::A0TR, true),
                    _ => (a::A0TX, true),
                };
                let value = match args.get(1) {
                    Some(&v) => {
                        let o = self.lo(v);
                        self.gpr(o)
                    }
                    None => ZERO,
                };
                let op = if red { enums::syncsop::RED } else { enums::syncsop::NONE };
                let wanted = results.first().is_some_and(|r| self.regs[r.index()].is_some());
                let d = match wanted {
                    true => {
                        let words = self.result_words(id, 0);
                        Operand::reg(self.m.vector(&words))
                    }
                    false => ZERO,
                };
                let m = place(Sass::new(F::SYNCS_ARRIVE)).with(S::Rb, value).with(S::Rd, d);
                m.with_mod(M::Op, op).with_mod(M::Arrive, how).with_mod(M::Optout, attr.sat as u8)
            }
        };
        self.push(m);
        Some(())
    }

    fn copy_async(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (attr, mem, args) = (inst.attr, inst.mem, inst.operands().to_vec());
        let size = match mem.bytes {
            4 => enums::ldgsts::B32,
            8 => enums::ldgsts::B64,
            16 => enums::ldgsts::B128,
            _ => return None,
        };
        let keep = args.get(2).map(|&p| self.pred(p));
        let (shared, offset) = self.peel(args[0], 0);
        let (global, far) = self.peel_within(args[1], 0, OFFSETS);
        // The offsets have 20 and 12 bits, signed.
        let (d, offset) = if offset.abs() < 0x8_0000 { (self.lo(shared), offset) } else { (self.lo(args[0]), 0) };
        let a = self.pair(global);
        let d = self.gpr(d);
        let descriptor = self.descriptor(id);
        let bypass = if attr.sub & 1 != 0 { enums::bypass::BYPASS } else { enums::bypass::ACCESS };
        let m = Sass::new(F::LDGSTS)
            .with(S::Rd, d)
            .with(S::Imm, Operand::imm(offset))
            .with(S::Ra, a)
            .with(S::ImmB, Operand::imm(far))
            .with(S::URc, descriptor)
            .with_mod(M::Bypass, bypass)
            .with_mod(M::Size, size)
            .with_mod(M::Ltc, mem.prefetch)
            .with_mod(M::Zfill, attr.sat as u8);
        self.push(match keep {
            Some(p) => m.with(S::Pp, p),
            None => m,
        });
        Some(())
    }

    fn async_order(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let left = inst.imm;
        let wait = |s: &mut Self| {
            s.push(Sass::new(F::DEPBAR_LE).with(S::Sb, Operand::imm(0)).with(S::Pending, Operand::imm(left)));
        };
        let membar = |s: &mut Self, sem: u8, scope: u8| {
            s.push(Sass::new(F::MEMBAR).with_mod(M::Sem, sem).with_mod(M::Scope, scope));
        };
        let view = |s: &mut Self, v: u8| s.push(Sass::new(F::FENCE_VIEW).with_mod(M::View, v));
        use enums::{fenceview, memscope, memsem};
        match inst.attr.sub {
            order::COMMIT => self.push(Sass::new(F::LDGDEPBAR)),
            order::WAIT | order::BULK_WAIT_READ => wait(self),
            order::BULK_COMMIT => self.push(Sass::new(F::UTMACMDFLUSH)),
            order::BULK_WAIT => {
                wait(self);
                self.push(Sass::new(F::CCTL_IVALL));
            }
            order::FENCE_ASYNC => {
                membar(self, memsem::ALL, memscope::GPU);
                view(self, fenceview::S);
            }
            order::FENCE_ASYNC_GLOBAL => view(self, fenceview::G),
            order::FENCE_ASYNC_SHARED => {
                membar(self, memsem::ALL, memscope::CTA);
                view(self, fenceview::S);
            }
            order::FENCE_ALIAS => {
                membar(self, memsem::SC, memscope::SYS);
                self.push(Sass::new(F::ERRBAR));
                self.push(Sass::new(F::CGAERRBAR));
                self.push(Sass::new(F::CCTL_IVALL));
            }
            order::FENCE_MAP_RELEASE => {
                membar(self, memsem::ALL, if left == 1 { memscope::SYS } else { memscope::GPU });
                self.push(Sass::new(F::ERRBAR));
                self.push(Sass::new(F::CGAERRBAR));
            }
            order::FENCE_NONE => self.push(Sass::new(F::NOP)),
            kind @ (order::CLUSTER_ARRIVE | order::CLUSTER_WAIT) => {
                self.all_together();
                // Without a cluster there is nothing to arrive at, and the CTA waits for itself.
                let flag = Operand::cbank(0, self.bank0.is_explicit_cluster? as i32);
                let (u, up) = (self.m.new_vreg(File::Ugpr), self.m.new_vreg(File::Upred));
                let (u, up) = (self.m.reg(u), Operand::reg(self.m.reg(up)));
                self.push(Sass::new(F::ULDC).with(S::Rd, u).with(S::Const, flag));
                let test = Sass::new(F::UISETP_UI).with(S::Ra, u).with(S::Rb, Operand::imm(1)).with(S::Pu, up);
                self.push(test.with_mod(M::Cmp, enums::icmp::EQ));
                if kind == order::CLUSTER_ARRIVE {
                    self.push(Sass::new(F::UCGABAR_ARV).guarded(up));
                } else {
                    let r = self.load_const(0, self.bank0.is_explicit_cluster? as i32, false);
                    let r = Operand::reg(self.m.reg(r.lo));
                    let p = self.isetp(crate::ir::Cmp::Eq, false, enums::bop::AND, r, Operand::imm(1), TRUE);
                    self.push(Sass::new(F::UCGABAR_WAIT).guarded(up));
                    let bar = Sass::new(F::BAR_SYNC_I).with(S::Bar, Operand::imm(0)).with(S::Count, Operand::imm(0));
                    self.push(bar.guarded(p.inverted()));
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn bulk(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let b = Bulk::unpack(inst.imm);
        let args = inst.args.to_vec();
        let words: Vec<Operand> = args.iter().flat_map(|&v| self.words(v)).collect();
        let (first, rest) = words.split_at_checked(b.first as usize)?;
        let (second, rest) = rest.split_at_checked(b.second as usize)?;
        let (third, policy) = rest.split_at_checked(b.third as usize)?;
        let plain = !b.policy;
        let form = match (b.kind, plain) {
            (Bulk::LOAD | Bulk::STORE | Bulk::SEND, true) => F::UBLKCP_AAU,
            (Bulk::LOAD | Bulk::STORE | Bulk::SEND, false) => F::UBLKCP_AAUU,
            (Bulk::REDUCE, true) if b.multimem => F::UBLKRED_XUUU,
            (Bulk::REDUCE | Bulk::REDUCE_SEND, true) => F::UBLKRED_AAU,
            (Bulk::REDUCE | Bulk::REDUCE_SEND, false) => F::UBLKRED_AAUU,
            (Bulk::PREFETCH, true) => F::UBLKPF_AU,
            (Bulk::PREFETCH, false) => F::UBLKPF_AUU,
            (Bulk::TENSOR_LOAD, true) if b.third => F::UTMALDG_AAU,
            (Bulk::TENSOR_LOAD, false) if b.third => F::UTMALDG_AAUU,
            (Bulk::TENSOR_LOAD, true) => F::UTMALDG_AA,
            (Bulk::TENSOR_LOAD, false) => F::UTMALDG_AAU_2,
            (Bulk::TENSOR_STORE, true) => F::UTMASTG_AA,
            (Bulk::TENSOR_STORE, false) => F::UTMASTG_AAU,
            (Bulk::TENSOR_REDUCE, true) => F::UTMAREDG_AA,
            (Bulk::TENSOR_REDUCE, false) => F::UTMAREDG_AAU,
            (Bulk::TENSOR_PREFETCH, true) if b.third => F::UTMAPF_AAU,
            (Bulk::TENSOR_PREFETCH, false) if b.third => F::UTMAPF_AAUU,
            (Bulk::TENSOR_PREFETCH, true) => F::UTMAPF_AA,
            (Bulk::TENSOR_PREFETCH, false) => F::UTMAPF_AAU_2,
            (Bulk::MAP_PREFETCH | Bulk::MAP_FORGET, _) => F::UTMACCTL_A,
            _ => return None,
        };
        let mut m = Sass::new(form);
        let shared = [enums::ublkcp_m73::G, enums::ublkcp_m73::S];
        match b.kind {
            Bulk::LOAD | Bulk::STORE | Bulk::SEND => {
                let (to, from) = (shared[(b.kind != Bulk::STORE) as usize], shared[(b.kind != Bulk::LOAD) as usize]);
                m = m.with_mod(M::M73, to).with_mod(M::M74, from).with_mod(M::Multicast, b.multicast as u8);
            }
            Bulk::REDUCE | Bulk::REDUCE_SEND => {
                let to = shared[(b.kind == Bulk::REDUCE_SEND) as usize];
                m = m.with_mod(M::M73, to).with_mod(M::M81, b.ty).with_mod(M::M87, b.reduce);
                if b.multimem {
                    m = m.with_mod(M::M77, enums::ublkred_v77::STRONG_SYS);
                }
            }
            Bulk::TENSOR_LOAD => {
                m = m.with_mod(M::M79, b.dims);
                if b.third {
                    m = m.with_mod(M::Multicast, b.multicast as u8).with_mod(M::Im2col, b.im2col as u8);
                }
            }
            Bulk::TENSOR_STORE => m = m.with_mod(M::M79, b.dims).with_mod(M::Im2col, b.im2col as u8),
            Bulk::TENSOR_REDUCE => {
                m = m.with_mod(M::M79, b.dims).with_mod(M::Im2col, b.im2col as u8).with_mod(M::M87, b.reduce);
            }
            Bulk::TENSOR_PREFETCH => m = m.with_mod(M::M79, b.dims),
            Bulk::MAP_PREFETCH => m = m.with_mod(M::M82, enums::utmacctl_m82::PF),
            Bulk::MAP_FORGET => {
                self.push(Sass::new(F::DEPBAR).with(S::Waits, Operand::imm(0x3f)));
                m = m.with_mod(M::M82, enums::utmacctl_m82::IV);
            }
            _ => {}
        }
        if !first.is_empty() {
            m = m.with(S::UR, self.uniform_words(first));
        }
        if !second.is_empty() {
            m = m.with(S::URa, self.uniform_words(second));
        }
        if !third.is_empty() {
            m = m.with(S::URc, self.uniform_words(third));
        }
        if !policy.is_empty() {
            m = m.with(S::UregAt40, self.uniform_words(policy));
        }
        self.push(m);
        if b.kind == Bulk::MAP_FORGET {
            self.push(Sass::new(F::UTMACMDFLUSH));
        }
        Some(())
    }

    fn remote_store(&mut self, id: InstId) -> Option<()> {
        let inst = self.f.inst(id);
        let (attr, mem, args) = (inst.attr, inst.mem, inst.args.to_vec());
        let address = self.pair(args[0]);
        let words: Vec<Operand> = args[1..].iter().flat_map(|&v| self.words(v)).collect();
        let size = match words.len() {
            1 => 0,
            2 => 1,
            4 => 2,
            _ => return None,
        };
        let data = if words.iter().all(|&w| w == ZERO) { ZERO } else { self.vector_of(&words) };
        let m = if attr.sub == 0xff {
            Sass::new(F::STAS_AR).with_mod(M::M73, size).with_mod(M::M90, 1)
        } else {
            let ty = match (mem.bytes, attr.signed) {
                (8, _) => 2,
                (_, true) if attr.sub == 1 || attr.sub == 2 => 1,
                _ => 0,
            };
            Sass::new(F::REDAS_AR).with_mod(M::M73, ty).with_mod(M::M72, 1).with_mod(M::M87, attr.sub)
        };
        self.push(m.with(S::Ra, address).with(S::URc, NOTHING).with(S::Rb, data));
        Some(())
    }
}
