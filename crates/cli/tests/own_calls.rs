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

/// The vendor's compiler takes predicates only where functions do not keep to the ABI; here they are words that are 0 or 1.
#[test]
fn predicates_are_arguments_and_results() {
    let text = ".version 8.0\n.target sm_75\n.address_size 64\n\
        .func (.reg .b32 x, .reg .pred y) f(.reg .b32 i, .reg .pred q)\n{\nsetp.gt.u32 y, i, 40;\nselp.u32 x, 100, 200, q;\n@q ret;\n\
        setp.lt.u32 y, i, 9;\nret;\n}\n\
        .func (.reg .pred y) odd(.reg .b32 i)\n{\n.reg .b32 n;\nand.b32 n, i, 1;\nsetp.eq.u32 y, n, 1;\nret;\n}\n\
        .visible .entry k(.param .u64 p)\n{\n.reg .b64 a, n;\n.reg .b32 t, x, y;\n.reg .pred q, z;\nld.param.u64 a, [p];\nmov.u32 t, %tid.x;\n\
        mul.wide.u32 n, t, 4;\nadd.u64 a, a, n;\ncall (q), odd, (t);\ncall (x, z), f, (t, q);\nselp.u32 y, 1, 2, z;\nadd.u32 x, x, y;\n\
        st.global.u32 [a], x;\nret;\n}\n";
    let (m, d) = ptx::parse(text);
    assert!(d.is_empty(), "{d:?}");
    let args = vec![sim::Arg::Buffer { data: vec![0; 256], out: None }];
    let launch = sim::Launch { kernel: "k".into(), grid: [1; 3], block: [64, 1, 1], args, ..Default::default() };
    let want: Vec<u8> = (0..64u32)
        .map(|i| if i % 2 == 1 { 100 + if i > 40 { 1 } else { 2 } } else { 200 + if i < 9 { 1 } else { 2 } })
        .flat_map(u32::to_le_bytes)
        .collect();
    assert_eq!(sim::run_ptx(&m, &launch, &Config::default()).expect("it runs").buffers[0], want);
    for chip in ["sm_75", "sm_90a"] {
        let target = arch::Target::parse(chip).expect("a chip");
        for effort in 0..=codegen::opt::MOST_EFFORT {
            let options = codegen::Options { verify: true, threads: 1, target, effort, ..Default::default() };
            let code = codegen::compile(&m, &options).expect("it compiles").cubin;
            let done = sim::run_sass(&code, &launch, &Config::default()).expect("it runs");
            assert_eq!(done.buffers[0], want, "{chip} at effort {effort}");
        }
    }
}
