//! Launch bounds and limits of registers: what directives and options say of a kernel, and which of it does not fit the machine.

use crate::pipeline::Options;
use diag::{Diagnostic, Severity};
use ptx::module::{Directive, FuncKind, Function, Module};

/// Registers that a calling convention needs: a smaller limit is raised to this.
const LEAST: u32 = 24;
/// Registers a thread can have.
const MOST: u32 = 255;

/// Launch bounds and register limits of a kernel.
pub(crate) struct Bounds {
    pub max_threads: Option<[u32; 3]>,
    pub req_threads: Option<[u32; 3]>,
    pub cluster: Option<[u32; 3]>,
    pub max_cluster_rank: Option<u32>,
    pub explicit_cluster: bool,
    pub blocks_are_clusters: bool,
    /// Registers a thread may have, as the driver counts them: 255 without a limit.
    pub max_registers: u32,
    /// So many registers a thread has at launch: a limit was given, or threads and blocks.
    pub known: bool,
}

impl Bounds {
    /// From the directives and the command line, with warnings of what is too much for an SM and does not count, worded and ordered as
    /// the vendor's. The limit that launch bounds leave is what its compiler was seen to choose: the registers of the machine
    /// over the threads, rounded down to 8. A limit for all kernels is none for those whose own directives say how many threads or
    /// registers they have, as with its compiler, where options do not go before directives.
    pub fn of(f: &Function, options: &Options) -> (Bounds, Vec<Diagnostic>) {
        let mut b = Bounds {
            max_threads: None,
            req_threads: None,
            cluster: None,
            max_cluster_rank: None,
            explicit_cluster: false,
            blocks_are_clusters: false,
            max_registers: MOST,
            known: false,
        };
        let (mut ctas, mut written) = (None, None);
        for d in &f.directives {
            match d {
                Directive::MaxNtid(n) => b.max_threads = Some(*n),
                Directive::ReqNtid(n) => b.req_threads = Some(*n),
                Directive::MinNctaPerSm(n) => ctas = Some(*n),
                Directive::MaxNreg(n) => written = Some(*n),
                Directive::ReqNctaPerCluster(n) => b.cluster = Some(*n),
                Directive::MaxClusterRank(n) => b.max_cluster_rank = Some(*n),
                Directive::ExplicitCluster => b.explicit_cluster = true,
                Directive::BlocksAreClusters => b.blocks_are_clusters = true,
                _ => {}
            }
        }
        let first = options.override_directives;
        let forced = options.max_threads.filter(|_| first);
        let unsaid = b.req_threads.is_none() && b.max_threads.is_none();
        b.max_threads = forced.or(b.max_threads).or(options.max_threads.filter(|_| unsaid));
        // What the kernel says itself.
        let mut own = written.is_some();
        let mut said = Vec::new();
        let mut say = |text: String| said.push(Diagnostic::new(Severity::Warning, text));
        let name = &f.name;
        match written {
            Some(n) if n > MOST => {
                say(format!("Too many maxnreg specified for entry {name}, will be ignored"));
                written = None;
            }
            Some(n) if n < LEAST => {
                let bound = format!("lower bound of {LEAST}");
                say(format!("For entry {name} adjusting per thread register count of {n} to {bound}"));
            }
            _ => {}
        }
        let mut ctas = if first { options.min_ctas.or(ctas) } else { ctas.or(options.min_ctas) };
        let product = |[x, y, z]: [u32; 3]| x.max(1).saturating_mul(y.max(1)).saturating_mul(z.max(1));
        let threads = forced.or(b.req_threads).or(b.max_threads).map(product);
        if let (Some(t), Some(limits)) = (threads, arch::limits(options.target.sm)) {
            let most = limits.warps_per_sm * 32;
            let out = format!("for entry {name} is out of range.");
            if ctas.is_some_and(|n| n > limits.ctas_per_sm) {
                say(format!("Value of minnctapersm {out} minnctapersm will be ignored"));
                ctas = None;
            }
            if t > most {
                let what = if ctas.is_some() { "maxntid," } else { "threads per SM" };
                say(format!("Value of {what} {out} .minnctapersm and .maxntid will be ignored"));
            } else {
                if ctas.is_some_and(|n| t.saturating_mul(n) > most) {
                    say(format!("Value of threads per SM {out} .minnctapersm will be ignored"));
                    ctas = None;
                }
                b.max_registers = (limits.regs_per_sm / (t * ctas.unwrap_or(1).max(1)) / 8 * 8).clamp(LEAST, MOST);
                b.known = ctas.is_some();
                own |= !unsaid;
            }
        }
        let all = options.max_registers;
        if let Some(n) = if first { all.or(written) } else { written.or(all.filter(|_| !own)) } {
            b.max_registers = n.clamp(LEAST, MOST);
            b.known = true;
        }
        (b, said)
    }
}

/// Warnings of bounds that do not fit an SM, of all entries that `options` want, in the order in which the vendor's tool compiles them:
/// from the last to the first, but not for a debugger.
pub fn warnings(m: &Module, options: &Options) -> Vec<Diagnostic> {
    let wanted = |f: &&Function| options.entries.is_empty() || options.entries.contains(&f.name);
    let entries = m.funcs.iter().filter(|f| f.kind == FuncKind::Entry && f.body.is_some()).filter(wanted);
    let of = |f: &Function| Bounds::of(f, options).1.into_iter().map(|d| d.label(f.span, "")).collect::<Vec<_>>();
    let mut out: Vec<_> = entries.map(of).collect();
    if !options.debug {
        out.reverse();
    }
    out.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers that a kernel with these directives may have where 40 are asked for.
    fn registers(directives: &str, override_directives: bool) -> u32 {
        let text = format!(".version 8.4\n.target sm_90\n.address_size 64\n.entry k() {directives} {{ ret; }}");
        let (module, said) = ptx::parse(&text);
        assert!(said.is_empty(), "{said:?}");
        let options = Options { max_registers: Some(40), override_directives, ..Options::default() };
        Bounds::of(&module.funcs[0], &options).0.max_registers
    }

    /// As ptxas 13.5 does with `--maxrregcount 40` on sm_90, by what it says with `-v`.
    #[test]
    fn what_a_kernel_says_itself_goes_before_a_limit_for_all() {
        for (directives, alone, overridden) in [
            ("", 40, 40),
            (".maxntid 128", 255, 40),
            (".reqntid 1024", 64, 40),
            (".maxntid 128 .minnctapersm 4", 128, 40),
            (".maxntid 4096", 40, 40),
            (".minnctapersm 4", 40, 40),
            (".maxnreg 64", 64, 40),
            (".maxnreg 300", 255, 40),
        ] {
            assert_eq!(registers(directives, false), alone, "{directives}");
            assert_eq!(registers(directives, true), overridden, "{directives}");
        }
    }
}
