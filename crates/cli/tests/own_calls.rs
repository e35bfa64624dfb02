//! Functions that one kernel alone knows, which need not keep to the ABI: random programs (`testkit::calls::own`) under the PTX interpreter, the
//! vendor's code and ours in the simulator, at every level of optimization and with few registers. All leave the same memory.

mod launched;

use launched::launch;
use sim::Config;
use testkit::calls;

/// Every code of a program: who made it, and the code. Ours passes all checks.
fn codes(m: &ptx::module::Module, text: &str, chip: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let target = arch::Target::parse(chip).ok_or("no such chip")?;
    let mut out = Vec::new();
    for effort in 0..=codegen::opt::MOST_EFFORT {
        // Without optimization 32 do not always do.
        for max_registers in [None, Some(48), Some(32)].into_iter().take(if effort == 0 { 2 } else { 3 }) {
            let options =
                codegen::Options { verify: true, threads: 1, target, effort, max_registers, ..Default::default() };
            let who = format!("ours at effort {effort} with {max_registers:?} registers");
            let code = codegen::compile(m, &options).map_err(|d| format!("{who}: {d:?}"))?.cubin;
            out.push((who, code));
        }
    }
    if let Some(tool) = testkit::oracle::ptxas() {
        let code = testkit::oracle::compile(&tool, text, &[&format!("-arch={chip}")]);
        out.push(("the vendor's".into(), code.map_err(|e| format!("vendor: {e}"))?));
    }
    Ok(out)
}

/// What is wrong with a program for a chip.
fn failure(seed: u64, chip: &str) -> Option<String> {
    let wrong = |what: String| Some(format!("program {seed} for {chip}: {what}"));
    let text = calls::own(seed).replace(".target sm_75", &format!(".target {chip}"));
    if let Some(dir) = std::env::var_os("SASSAFRAS_KEEP") {
        std::fs::write(std::path::Path::new(&dir).join(format!("{seed}.ptx")), &text).expect("writable");
    }
    let (m, mut d) = ptx::parse(&text);
    d.extend(ptx::check(&m, None));
    if !d.is_empty() {
        return wrong(format!("{d:?}"));
    }
    let launch = launch(11);
    let want = match sim::run_ptx(&m, &launch, &Config::default()) {
        Ok(o) => o.buffers[1].clone(),
        Err(f) => return wrong(format!("interpreter: {f}")),
    };
    let codes = match codes(&m, &text, chip) {
        Ok(list) => list,
        Err(e) => return wrong(e),
    };
    let said = codes.iter().filter_map(|(who, code)| match sim::run_sass(code, &launch, &Config::default()) {
        Ok(o) if o.buffers[1] == want => None,
        Ok(_) => Some(format!("{who}: other results")),
        Err(f) => Some(format!("{who}: {f}")),
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { None } else { wrong(said.join("; ")) }
}

/// Programs of these seeds, or of those that `SASSAFRAS_SEEDS` names (`7` or `201..300`), on all cores; `SASSAFRAS_CHIP` names another chip.
#[test]
fn functions_of_a_kernels_own_agree() {
    let chip = std::env::var("SASSAFRAS_CHIP").unwrap_or_else(|_| "sm_90".into());
    testkit::seeds(1..=60, |seed| failure(seed, &chip));
}

#[test]
fn functions_of_a_kernels_own_agree_on_other_chips() {
    for chip in ["sm_75", "sm_80", "sm_100", "sm_120"] {
        testkit::seeds(1..=12, |seed| failure(seed, chip));
    }
}
