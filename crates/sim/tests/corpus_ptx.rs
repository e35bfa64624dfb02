//! The PTX interpreter on the kernel corpus: every launch ends well, and leaves what the independent references say.

mod common;

#[test]
fn the_corpus_runs() {
    let cases = common::cases();
    assert!(!cases.is_empty(), "no launch files");
    let (mut bad, mut checked) = (Vec::new(), 0);
    for c in &cases {
        let (module, messages) = ptx::parse(&std::fs::read_to_string(&c.ptx).unwrap());
        assert!(!messages.iter().any(|m| m.is_error()), "{}: {messages:?}", c.name);
        match sim::run_ptx(&module, &c.launch, &sim::Config::default()) {
            Err(fault) => bad.push(format!("{}: {fault} {:?}", c.name, fault.place)),
            Ok(outcome) => {
                for (i, (got, want)) in outcome.buffers.iter().zip(&c.expected).enumerate() {
                    if let Some(want) = want {
                        checked += 1;
                        if let Some(d) = common::difference(got, want) {
                            bad.push(format!("{}: buffer {i} {d}", c.name));
                        }
                    }
                }
            }
        }
    }
    assert!(bad.is_empty(), "{} of {} launches:\n{}", bad.len(), cases.len(), bad.join("\n"));
    assert!(checked > 0 || std::env::var_os("SIM_ONLY").is_some());
}
