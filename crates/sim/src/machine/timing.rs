//! How long a launch takes, estimated: see [`Timing`] for the model.

use super::program::Program;
use sass::latency::Class;
use std::fmt::Write as _;

/// What is assumed of a GPU where its code does not tell. The defaults are round numbers within what published
/// microbenchmarks of these chips report, not measurements of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latencies {
    /// Cycles until a load from global memory gives its result.
    pub global: u32,
    /// The same for local memory, which is a thread's own and nearly always in the first cache.
    pub local: u32,
    /// The same for textures and surfaces.
    pub texture: u32,
    /// The same for shared memory without bank conflicts.
    pub shared: u32,
    /// The same for constant memory.
    pub constant: u32,
    /// Cycles until an instruction of any unit has read its registers, and its read scoreboard clears.
    pub operands: u32,
    /// Sectors of 32 bytes that an SM moves from or to memory in a cycle.
    pub sectors: f64,
    /// SMs of the GPU.
    pub sms: u32,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { global: 500, local: 40, texture: 600, shared: 30, constant: 40, operands: 15, sectors: 2.0, sms: 1 }
    }
}

/// Why an issue slot of a warp is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The stall count: a result of fixed latency is not there yet, or a unit is busy.
    Dependency,
    /// A scoreboard of an instruction other than a memory access.
    Scoreboard,
    /// A memory access.
    Memory,
    /// Other warps of the CTA have not arrived at a barrier.
    Barrier,
    /// The part of a memory access that bank conflicts add.
    BankConflict,
    /// The part of a memory access that sectors beyond the fewest possible add.
    Uncoalesced,
}

/// All reasons, with their headings.
pub const REASONS: [(Lost, &str); 6] = [
    (Lost::Dependency, "depend"),
    (Lost::Scoreboard, "scorebd"),
    (Lost::Memory, "memory"),
    (Lost::Barrier, "barrier"),
    (Lost::BankConflict, "banks"),
    (Lost::Uncoalesced, "uncoal"),
];

/// What was counted of one instruction, over all warps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Line {
    /// Times that a warp issued it.
    pub issued: u64,
    /// Lanes that executed it.
    pub threads: u64,
    /// Cycles lost before it (after it: dependencies), in the order of [`REASONS`].
    pub lost: [u64; 6],
    /// Accesses of a warp to global or shared memory.
    pub requests: u64,
    /// Sectors of 32 bytes of global memory, or passes through the banks of shared memory, that these took.
    pub units: u64,
    /// The fewest that so many bytes could take.
    pub least: u64,
    /// The units are passes through shared memory.
    pub shared: bool,
}

/// How many CTAs an SM holds at once, and why not more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Registers of a thread, bytes of shared memory of a CTA, as the kernel asks for them.
    pub registers: u32,
    /// See `registers`.
    pub shared: u32,
    /// Warps of a CTA, and those that an SM can hold.
    pub warps: u32,
    /// See `warps`.
    pub most: u32,
    /// CTAs that fit by each resource: what it is, and how many.
    pub limits: Vec<(&'static str, u32)>,
}

impl Occupancy {
    /// For a kernel with so many registers a thread, shared memory of a CTA in bytes (with what the system reserves), and threads.
    pub fn of(sm: u16, registers: u32, shared: u32, threads: u32) -> Option<Occupancy> {
        let l = arch::limits(sm)?;
        let warps = threads.div_ceil(32).max(1);
        let limits = vec![
            ("registers", l.ctas_by_registers(registers, warps)),
            ("shared memory", if shared == 0 { u32::MAX } else { l.shared_per_sm / shared.next_multiple_of(128) }),
            ("warps", l.warps_per_sm / warps),
            ("CTAs", l.ctas_per_sm),
        ];
        Some(Occupancy { registers, shared, warps, most: l.warps_per_sm, limits })
    }

    /// CTAs that an SM holds; at least one is assumed.
    pub fn ctas(&self) -> u32 {
        self.limits.iter().map(|l| l.1).min().unwrap_or(1).max(1)
    }

    /// What limits them.
    pub fn limit(&self) -> &'static str {
        self.limits.iter().min_by_key(|l| l.1).map_or("nothing", |l| l.0)
    }
}

/// The estimate of a launch, from what its warps did in the simulator.
///
/// **A warp.** Time passes as its code says: an instruction issues when the stall count before it has passed and the scoreboards
/// that it waits for are clear; the write scoreboard of an instruction clears when its latency has passed ([`Latencies`] for memory,
/// `sass::latency::expected` for others), the read scoreboard when it has read its registers. A request to shared memory takes a pass for each word that a bank must give
/// after another (32 banks of 4 bytes; 8 bytes a lane go in two halves of the warp, 16 in four), one to global memory a
/// sector for each 32 bytes touched: every pass beyond the first, and every four sectors beyond the fewest, add a cycle to its latency. Warps
/// of a CTA leave a barrier when the last has come. Waiting for barriers in shared memory is not modelled: warps that poll pass the
/// time that their instructions take.
///
/// **An SM.** It holds as many CTAs at once as [`Occupancy`] tells. Together they take the longest of: the mean time of a CTA
/// (of its longest warp); their instructions, four a cycle; their passes through shared memory, one a cycle; their
/// sectors at [`Latencies::sectors`] a cycle. So often as there are CTAs left. Caches, and what other SMs do, are not modelled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timing {
    /// The number of the chip.
    pub sm: u16,
    /// By instruction: its text, and what was counted.
    pub lines: Vec<(String, Line)>,
    /// CTAs, and warps.
    pub ctas: u64,
    /// See `ctas`.
    pub warps: u64,
    /// Cycles of the longest warp of all, and of all warps in sum.
    pub longest: u64,
    /// See `longest`.
    pub sum: u64,
    /// Sum over CTAs of the cycles of their longest warps.
    pub cta_cycles: u64,
    /// What an SM holds.
    pub occupancy: Occupancy,
    /// What was assumed.
    pub latencies: Latencies,
}

/// What an SM is busy with, see [`Timing`].
#[derive(Clone, Debug, PartialEq)]
pub struct SmEstimate {
    /// Cycles of the launch.
    pub cycles: u64,
    /// How often the SM is filled.
    pub waves: u64,
    /// What takes longest.
    pub bound: &'static str,
    /// The share of issue slots that are used.
    pub issue: f64,
}

impl Timing {
    /// For a program.
    pub(super) fn new(p: &Program, sm: u16, latencies: Latencies) -> Timing {
        let text = |(i, inst): (usize, &Option<sass::inst::Inst>)| match inst {
            Some(inst) => sass::text::print(inst, 16 * i as u64, &sass::text::NoLabels),
            None => "?".into(),
        };
        let lines = p.insts.iter().enumerate().map(|x| (text(x), Line::default())).collect();
        Timing { sm, lines, latencies, ..Timing::default() }
    }

    /// Cycles until an instruction of a class releases its scoreboard; `other` for those that are no memory accesses.
    pub(super) fn latency(&self, class: Class, other: u16) -> (u64, Lost) {
        match class {
            Class::Global => (self.latencies.global as u64, Lost::Memory),
            Class::Local => (self.latencies.local as u64, Lost::Memory),
            Class::Texture => (self.latencies.texture as u64, Lost::Memory),
            Class::Shared => (self.latencies.shared as u64, Lost::Memory),
            Class::Const => (self.latencies.constant as u64, Lost::Memory),
            _ => (other as u64, Lost::Scoreboard),
        }
    }

    fn total(&self, f: impl Fn(&Line) -> u64) -> u64 {
        self.lines.iter().map(|(_, l)| f(l)).sum()
    }

    /// Cycles lost for a reason, of all warps.
    pub fn lost(&self, reason: Lost) -> u64 {
        self.total(|l| l.lost[reason as usize])
    }

    /// Instructions issued by all warps.
    pub fn issued(&self) -> u64 {
        self.total(|l| l.issued)
    }

    /// Requests, units and fewest units of shared (else of global) memory.
    pub fn memory(&self, shared: bool) -> [u64; 3] {
        let of = |f: fn(&Line) -> u64| self.total(|l| if l.shared == shared { f(l) } else { 0 });
        [of(|l| l.requests), of(|l| l.units), of(|l| l.least)]
    }

    /// What an SM takes for its part of the launch.
    pub fn sm_estimate(&self) -> SmEstimate {
        let ctas = self.ctas.max(1) as f64;
        let held = (self.occupancy.ctas() as u64).min(self.ctas.div_ceil(self.latencies.sms.max(1) as u64)).max(1);
        let part = held as f64 / ctas;
        let bounds = [
            ("latency", self.cta_cycles as f64 / ctas),
            ("issue slots", self.issued() as f64 * part / 4.0),
            ("shared memory", self.memory(true)[1] as f64 * part),
            ("global memory", self.memory(false)[1] as f64 * part / self.latencies.sectors.max(1e-9)),
        ];
        let (bound, wave) = bounds.into_iter().fold(("latency", 0.0), |a, b| if b.1 > a.1 { b } else { a });
        let waves = self.ctas.div_ceil(held * self.latencies.sms.max(1) as u64);
        let issue = if wave > 0.0 { bounds[1].1 / wave } else { 0.0 };
        SmEstimate { cycles: (wave * waves as f64).ceil() as u64, waves, bound, issue }
    }

    /// The report beside the code: a summary, then each instruction with what was counted (cycles a time that it was issued).
    pub fn report(&self) -> String {
        let mut out = String::new();
        let o = &self.occupancy;
        let sm = self.sm_estimate();
        let held = o.ctas() * o.warps;
        let _ = writeln!(out, "sm_{}: {} CTAs of {} warps", self.sm, self.ctas, o.warps);
        let _ = writeln!(
            out,
            "occupancy: {held} of {} warps of an SM ({} CTAs), limited by {}; {} registers a thread, {} bytes of shared memory a CTA",
            o.most,
            o.ctas(),
            o.limit(),
            o.registers,
            o.shared
        );
        let limits: Vec<String> =
            o.limits.iter().filter(|l| l.1 != u32::MAX).map(|(what, n)| format!("{what} {n}")).collect();
        let _ = writeln!(out, "  CTAs that fit by {}", limits.join(", "));
        let mean = self.sum / self.warps.max(1);
        let _ = writeln!(out, "a warp: {mean} cycles on average, {} the longest", self.longest);
        let _ = writeln!(
            out,
            "an SM of {}: {} cycles, filled {} times, bound by {}; {:.0} % of the issue slots used",
            self.latencies.sms,
            sm.cycles,
            sm.waves,
            sm.bound,
            100.0 * sm.issue
        );
        let share = |n: u64| 100.0 * n as f64 / self.sum.max(1) as f64;
        let lost: Vec<String> =
            REASONS.iter().map(|(r, name)| format!("{name} {:.1} %", share(self.lost(*r)))).collect();
        let _ = writeln!(out, "time of the warps: issued {:.1} %, {}", share(self.issued()), lost.join(", "));
        for (shared, name, unit) in [(true, "shared", "passes"), (false, "global", "sectors")] {
            let [requests, units, least] = self.memory(shared);
            if requests > 0 {
                let each = |n: u64| n as f64 / requests as f64;
                let _ = writeln!(
                    out,
                    "{name} memory: {requests} requests, {:.2} {unit} each, {:.2} at best",
                    each(units),
                    each(least)
                );
            }
        }
        let l = &self.latencies;
        let _ = writeln!(
            out,
            "assumed: global memory {} cycles, shared {}, constant {}, {} sectors a cycle",
            l.global, l.shared, l.constant, l.sectors
        );
        let _ = write!(out, "{:>6} {:>9}", "offset", "issued");
        REASONS.iter().for_each(|(_, name)| {
            let _ = write!(out, " {name:>7}");
        });
        let _ = writeln!(out, " {:>7}", "units");
        for (n, (text, line)) in self.lines.iter().enumerate() {
            let _ = write!(out, "{:>6x} {:>9}", 16 * n, line.issued);
            let each = |x: u64| if x == 0 { "".into() } else { format!("{:.1}", x as f64 / line.issued.max(1) as f64) };
            line.lost.iter().for_each(|&x| {
                let _ = write!(out, " {:>7}", each(x));
            });
            let units = if line.requests == 0 {
                String::new()
            } else {
                format!("{:.1}", line.units as f64 / line.requests as f64)
            };
            let _ = writeln!(out, " {units:>7}  {text}");
        }
        out
    }
}

/// Sectors of 32 bytes that lanes touch, and the fewest that their bytes could take.
pub(super) fn sectors(addresses: impl Iterator<Item = u64> + Clone, size: u32) -> (u64, u64) {
    let mut all: Vec<u64> = Vec::new();
    let mut bytes: Vec<u64> = Vec::new();
    for a in addresses {
        all.extend((a / 32)..=((a + size as u64 - 1) / 32));
        bytes.push(a);
    }
    for list in [&mut all, &mut bytes] {
        list.sort_unstable();
        list.dedup();
    }
    (all.len() as u64, (bytes.len() as u64 * size as u64).div_ceil(32))
}

/// Passes through the banks of shared memory, and the fewest for such a request. `addresses` are those of the lanes, by lane.
pub(super) fn passes(addresses: &[(usize, u64)], size: u32) -> (u64, u64) {
    let parts = (size / 4).max(1).next_power_of_two().min(4) as usize;
    let (mut units, mut least) = (0, 0);
    for part in 0..parts {
        let lanes = 32 / parts;
        let mut words: Vec<u64> = addresses
            .iter()
            .filter(|(lane, _)| lane / lanes == part)
            .flat_map(|&(_, a)| (0..size.div_ceil(4) as u64).map(move |k| a / 4 + k))
            .collect();
        if words.is_empty() {
            continue;
        }
        words.sort_unstable();
        words.dedup();
        let mut banks = [0u64; 32];
        words.iter().for_each(|w| banks[(w % 32) as usize] += 1);
        units += banks.into_iter().max().unwrap_or(1);
        least += 1;
    }
    (units, least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bank_conflicts() {
        let lanes = |f: fn(u64) -> u64| (0..32).map(|i| (i, f(i as u64))).collect::<Vec<_>>();
        // Beside each other; one word for all; every second word; one column of 32 words a row; with a word more a row.
        assert_eq!(passes(&lanes(|i| 4 * i), 4), (1, 1));
        assert_eq!(passes(&lanes(|_| 64), 4), (1, 1));
        assert_eq!(passes(&lanes(|i| 8 * i), 4), (2, 1));
        assert_eq!(passes(&lanes(|i| 128 * i), 4), (32, 1));
        assert_eq!(passes(&lanes(|i| 132 * i), 4), (1, 1));
        // Wide ones go in parts.
        assert_eq!(passes(&lanes(|i| 8 * i), 8), (2, 2));
        assert_eq!(passes(&lanes(|i| 16 * i), 16), (4, 4));
        assert_eq!(passes(&lanes(|i| 32 * i), 16), (8, 4));
        assert_eq!(passes(&lanes(|i| i), 1), (1, 1));
    }

    #[test]
    fn sectors_of_a_request() {
        let of = |f: fn(u64) -> u64, size| sectors((0..32).map(f), size);
        assert_eq!(of(|i| 4 * i, 4), (4, 4));
        assert_eq!(of(|i| 4 * i + 4, 4), (5, 4));
        assert_eq!(of(|i| 128 * i, 4), (32, 4));
        assert_eq!(of(|_| 64, 4), (1, 1));
        assert_eq!(of(|i| 16 * i, 16), (16, 16));
    }

    #[test]
    fn occupancy() {
        // 65536 registers of sm_90: 64 a thread leave 32 warps, 8 CTAs of 4.
        let o = Occupancy::of(90, 64, 1024, 128).unwrap();
        assert_eq!((o.ctas(), o.limit()), (8, "registers"));
        // 233472 bytes of shared memory hold two CTAs of 100 KiB.
        let o = Occupancy::of(90, 32, 101 * 1024, 128).unwrap();
        assert_eq!((o.ctas(), o.limit()), (2, "shared memory"));
        let o = Occupancy::of(75, 16, 0, 1024).unwrap();
        assert_eq!((o.ctas(), o.limit()), (1, "warps"));
        let o = Occupancy::of(90, 16, 1024, 32).unwrap();
        assert_eq!((o.ctas(), o.limit()), (32, "CTAs"));
    }
}
