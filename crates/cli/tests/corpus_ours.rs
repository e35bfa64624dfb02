//! The PTX interpreter and our machine code in the simulator leave the same memory on every launch of the corpus, with
//! every verifier of the compiler and the hazard check of the simulator on.

mod common;

#[test]
fn ptx_and_our_code_agree() {
    let options = codegen::Options { fmad: false, verify: true, ..codegen::Options::default() };
    let (mut bad, mut good) = (Vec::new(), 0);
    let mut cubins = std::collections::BTreeMap::new();
    for c in common::cases() {
        if option_env!("ONLY").is_some_and(|o| !c.name.starts_with(o)) {
            continue;
        }
        let text = std::fs::read_to_string(&c.ptx).unwrap();
        let (module, _) = ptx::parse(&text);
        let want =
            sim::run_ptx(&module, &c.launch, &sim::Config::default()).unwrap_or_else(|f| panic!("{}: {f}", c.name));
        let cubin = cubins.entry(c.ptx.clone()).or_insert_with(|| {
            codegen::compile(&module, &options).unwrap_or_else(|d| panic!("{}: {d:?}", c.name)).cubin
        });
        match sim::run_sass(cubin, &c.launch, &sim::Config::default()) {
            Err(f) => bad.push(format!("{}: {f}", c.name)),
            Ok(got) => {
                let diff = got.buffers.iter().zip(&want.buffers).position(|(a, b)| a != b);
                match diff {
                    Some(n) => bad.push(format!(
                        "{}: buffer {n}: {:?}",
                        c.name,
                        common::difference(&got.buffers[n], &want.buffers[n])
                    )),
                    None => good += 1,
                }
            }
        }
    }
    assert!(bad.is_empty(), "{good} agree, {} do not:\n{}", bad.len(), bad.join("\n"));
}
