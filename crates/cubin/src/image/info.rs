//! The attributes of a module and of its entries, in the vendor's order.

use super::group::Group;
use super::{Image, Kernel, Reference};
use crate::attr::{self, Attr};

/// The numbers of symbols that attributes name, by entry where there is a list of lists.
#[derive(Default)]
pub(super) struct Symbols {
    /// Entries.
    pub entries: Vec<u32>,
    /// Their inner functions.
    pub functions: Vec<Vec<u32>>,
    /// Functions of the system.
    pub externs: Vec<u32>,
    /// Their parameter banks.
    pub banks: Vec<u32>,
    /// Their handles.
    pub handles: Vec<Vec<u32>>,
    /// References of the module.
    pub references: Vec<Option<u32>>,
}

/// The attributes of `.nv.info` and of every entry's section: `put` gets each list, written, with the section's name.
pub(super) fn attributes(image: &Image, group: &Group, symbols: &Symbols, put: &mut dyn FnMut(&str, Vec<u8>)) {
    let Symbols { entries, functions, externs, .. } = symbols;
    let mut all = Vec::new();
    for (i, kernel) in image.kernels.iter().enumerate() {
        all.push(Attr::words(attr::REGCOUNT, [entries[i], kernel.regs]));
        if i == 0 {
            // The vendor's tool describes samplers behind the registers of the first entry.
            for (r, symbol) in image.references.iter().zip(&symbols.references).rev() {
                let Some(symbol) = *symbol else { continue };
                all.extend(r.attributes(symbol));
            }
        }
        for (f, &symbol) in kernel.functions.iter().zip(&functions[i]).rev() {
            all.push(Attr::words(attr::FRAME_SIZE, [symbol, f.frame]));
        }
        all.push(Attr::words(attr::FRAME_SIZE, [entries[i], kernel.frame]));
    }
    if image.independent && !image.kernels.is_empty() {
        all.push(Attr::none(attr::TEXMODE_INDEPENDENT));
    }
    for (i, kernel) in image.kernels.iter().enumerate().rev() {
        all.push(Attr::words(attr::MIN_STACK_SIZE, [entries[i], kernel.min_stack.unwrap_or(u32::MAX)]));
    }
    if image.kernels.is_empty() {
        all.push(Attr::half(attr::MERCURY_ISA_VERSION, 0x101));
    }
    put(".nv.info", attr::write(&all));
    for (i, kernel) in image.kernels.iter().enumerate().rev() {
        let mut more = Vec::new();
        if !kernel.externs.is_empty() {
            let called = kernel.externs.iter().filter_map(|&n| externs.get(n as usize).copied());
            more.push(Attr::words(attr::EXTERNS, called));
            more.push(Attr::words(attr::SYSCALL_OFFSETS, kernel.syscall_offsets.iter().copied()));
        }
        let list = kernel_attributes(kernel, more, image.tool.toolkit, group, symbols.banks[i], &symbols.handles[i]);
        put(&format!(".nv.info.{}", kernel.name), attr::write(&list));
    }
}

impl Reference {
    /// What `.nv.info` says of it, whose symbol has this number.
    pub(super) fn attributes(&self, symbol: u32) -> impl Iterator<Item = Attr> {
        let normal = self.unnormalized.map(|yes| Attr::words(attr::SAMPLER_FORCE_UNNORMALIZED, [symbol, yes as u32]));
        normal.into_iter().chain(self.sampler.map(|word| Attr::words(attr::SAMPLER_INIT, [symbol, word])))
    }
}

/// The order of attributes of an entry from sm_90 on.
const ORDER: [u8; 44] = [
    attr::GRID_ATTRIBUTES,
    attr::LANGUAGE,
    attr::BLOCKS_ARE_CLUSTERS,
    attr::CUDA_API_VERSION,
    attr::KPARAM_INFO,
    attr::KPARAM_INFO_V2,
    attr::CTA_PER_CLUSTER,
    attr::MAX_CLUSTER_RANK,
    attr::EXPLICIT_CLUSTER,
    attr::AT_ENTRY_FRAGMENTS,
    attr::RESERVED_SMEM_USED,
    attr::SPARSE_MMA_MASK,
    attr::TCGEN05_1CTA_USED,
    attr::TCGEN05_2CTA_USED,
    attr::CLUSTER_LAUNCH_CONTROL_USED,
    attr::WMMA_USED,
    attr::MAXREG_COUNT,
    attr::REG_RECONFIG,
    attr::NUM_BARRIERS,
    attr::EXTERNS,
    attr::ANNOTATIONS,
    attr::MERCURY_ISA_VERSION,
    attr::UNUSED_LOAD_BYTE_OFFSET,
    attr::INT_WARP_WIDE_INSTR_OFFSETS,
    attr::ATOM16_EMUL_INSTR_REG_MAP,
    attr::COOP_GROUP_MASK_REGIDS,
    attr::COOP_GROUP_INSTR_OFFSETS,
    attr::VRC_CTA_INIT_COUNT,
    attr::SYSCALL_OFFSETS,
    attr::MBARRIER_INSTR_OFFSETS,
    attr::NUM_MBARRIERS,
    attr::EXIT_INSTR_OFFSETS,
    attr::REQNTID,
    attr::MAX_THREADS,
    attr::INDIRECT_BRANCH_TARGETS,
    attr::CRS_STACK_SIZE,
    attr::CBANK_PARAM_SIZE,
    attr::PARAM_CBANK,
    attr::SW_WAR,
    attr::NVSAL_SW_WAR,
    attr::PREEXIT_USED,
    attr::BINDLESS_TEXTURE_BANK,
    attr::BINDLESS_SURFACE_BANK,
    attr::SANITIZE,
];

/// The order before sm_90, read off the vendor's files for the corpus.
const OLD_ORDER: [u8; 25] = [
    attr::LANGUAGE,
    attr::SW_WAR,
    attr::CUDA_API_VERSION,
    attr::SW2861232_WAR,
    attr::PARAM_CBANK,
    attr::CBANK_PARAM_SIZE,
    attr::KPARAM_INFO,
    attr::WMMA_USED,
    attr::MAXREG_COUNT,
    attr::EXTERNS,
    attr::BINDLESS_TEXTURE_BANK,
    attr::BINDLESS_SURFACE_BANK,
    attr::NUM_BARRIERS,
    attr::ANNOTATIONS,
    attr::MERCURY_ISA_VERSION,
    attr::INT_WARP_WIDE_INSTR_OFFSETS,
    attr::UNUSED_LOAD_BYTE_OFFSET,
    attr::COOP_GROUP_MASK_REGIDS,
    attr::COOP_GROUP_INSTR_OFFSETS,
    attr::SYSCALL_OFFSETS,
    attr::EXIT_INSTR_OFFSETS,
    attr::CTAIDZ_USED,
    attr::MAX_THREADS,
    attr::REQNTID,
    attr::INDIRECT_BRANCH_TARGETS,
];

/// Parameters of more bytes than this are described by the second form of their attribute.
const KPARAM_V1_LIMIT: u32 = 4352;

/// The attributes of an entry; `more` are some that only the image knows.
pub(super) fn kernel_attributes(
    kernel: &Kernel,
    more: Vec<Attr>,
    toolkit: u16,
    group: &Group,
    bank: u32,
    handles: &[u32],
) -> Vec<Attr> {
    let mut out = kernel.others.clone();
    out.extend(more);
    let mut push = |a: Attr| {
        if !out.iter().any(|o| o.code == a.code && !matches!(a.code, attr::KPARAM_INFO | attr::KPARAM_INFO_V2)) {
            out.push(a);
        }
    };
    if toolkit >= 135 {
        push(Attr::words(attr::LANGUAGE, [3]));
        push(Attr::half(attr::NVSAL_SW_WAR, 1));
        push(Attr::byte(attr::PREEXIT_USED, 0));
    }
    if kernel.blocks_are_clusters {
        push(Attr::none(attr::BLOCKS_ARE_CLUSTERS));
    }
    push(Attr::words(attr::CUDA_API_VERSION, [toolkit as u32]));
    for (ordinal, p) in kernel.params.iter().enumerate().rev() {
        let place = ordinal as u32 | (p.offset as u32) << 16;
        // The symbol of a reference.
        let own = kernel.handles.iter().position(|h| h.parameter == Some(ordinal as u32));
        let symbol = own.and_then(|n| handles.get(n).copied()).unwrap_or(0);
        if kernel.param_bytes > KPARAM_V1_LIMIT {
            let word = p.size as u32 | (p.log_align as u32) << 16 | (p.space as u32 & 15) << 24;
            push(Attr::words(attr::KPARAM_INFO_V2, [symbol, place, word]));
        } else {
            let word = (p.size as u32) << 18 | 0x1f << 12 | (p.space as u32 & 15) << 8 | p.log_align as u32;
            push(Attr::words(attr::KPARAM_INFO, [symbol, place, word]));
        }
    }
    if let Some(c) = kernel.cluster {
        push(Attr::words(attr::CTA_PER_CLUSTER, c));
    }
    if let Some(n) = kernel.max_cluster_rank {
        push(Attr::words(attr::MAX_CLUSTER_RANK, [n]));
    }
    if kernel.explicit_cluster {
        push(Attr::none(attr::EXPLICIT_CLUSTER));
    }
    push(Attr::half(attr::SPARSE_MMA_MASK, kernel.sparse_products));
    push(Attr::half(attr::MAXREG_COUNT, kernel.maxreg));
    if kernel.reconfigures {
        push(Attr::none(attr::REG_RECONFIG));
    }
    if kernel.barriers > 0 {
        push(Attr::byte(attr::NUM_BARRIERS, kernel.barriers));
    }
    push(Attr::half(attr::MERCURY_ISA_VERSION, 0x101));
    if !kernel.warp_wide_offsets.is_empty() {
        push(Attr::words(attr::INT_WARP_WIDE_INSTR_OFFSETS, kernel.warp_wide_offsets.iter().copied()));
    }
    if !kernel.coop_offsets.is_empty() {
        push(Attr::words(attr::COOP_GROUP_MASK_REGIDS, kernel.coop_offsets.iter().map(|c| c.1)));
        push(Attr::words(attr::COOP_GROUP_INSTR_OFFSETS, kernel.coop_offsets.iter().map(|c| c.0)));
    }
    push(Attr::words(attr::EXIT_INSTR_OFFSETS, kernel.exit_offsets.iter().copied()));
    if let Some(n) = kernel.req_threads {
        push(Attr::words(attr::REQNTID, n));
    }
    if let Some(n) = kernel.max_threads {
        push(Attr::words(attr::MAX_THREADS, n));
    }
    if kernel.convergence {
        let size = if kernel.min_stack.is_none() { u32::MAX } else { 0 };
        push(Attr::words(attr::CRS_STACK_SIZE, [size]));
    }
    if !kernel.indirect_branches.is_empty() {
        let list = kernel.indirect_branches.iter();
        let words = list.flat_map(|(at, to)| [*at, 0, to.len() as u32].into_iter().chain(to.iter().copied()));
        push(Attr::words(attr::INDIRECT_BRANCH_TARGETS, words));
    }
    if !kernel.params.is_empty() {
        push(Attr::half(attr::CBANK_PARAM_SIZE, kernel.param_bytes as u16));
        push(Attr::words(attr::PARAM_CBANK, [bank, group.param_base | kernel.param_bytes << 16]));
    }
    if let Some(n) = group.sw_war {
        push(Attr::words(attr::SW_WAR, [n]));
    }
    if !kernel.handles.is_empty() {
        push(Attr::byte(attr::BINDLESS_TEXTURE_BANK, 0));
        push(Attr::byte(attr::BINDLESS_SURFACE_BANK, 0));
    }
    if group.vrc {
        push(Attr::byte(attr::VRC_CTA_INIT_COUNT, 0));
    }
    if group.old {
        const NEWER: [u8; 4] =
            [attr::SPARSE_MMA_MASK, attr::NVSAL_SW_WAR, attr::PREEXIT_USED, attr::MERCURY_ISA_VERSION];
        out.retain(|a| !NEWER.contains(&a.code));
        out.push(Attr::half(attr::MERCURY_ISA_VERSION, 0));
        for &mark in group.marks.iter().filter(|&&m| !kernel.others.iter().any(|o| o.code == m)) {
            out.push(Attr::none(mark));
        }
        if kernel.reads_ctaid_z {
            out.push(Attr::none(attr::CTAIDZ_USED));
        }
    }
    let order: &[u8] = if group.old { &OLD_ORDER } else { &ORDER };
    out.sort_by_key(|a| order.iter().position(|&o| o == a.code).unwrap_or(order.len()));
    out
}
