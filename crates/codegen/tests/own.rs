//! How functions of a kernel's own are called: with registers behind what lives across the calls, or by the ABI.

use codegen::Options;

/// Calls with registers of their own among those of a kernel, and calls by the ABI.
fn calls(kernel: &str, options: Options) -> (usize, usize) {
    let path = format!("{}/../../tests/kernels/features/{kernel}.ptx", env!("CARGO_MANIFEST_DIR"));
    let (m, d) = ptx::parse(&std::fs::read_to_string(path).unwrap());
    assert!(d.is_empty(), "{d:?}");
    let target = arch::Target::parse("sm_90").unwrap();
    let options = Options { target, verify: true, print_after: Some("isel".into()), ..options };
    let dumps = codegen::compile(&m, &options).unwrap_or_else(|e| panic!("{e:?}")).dumps.concat();
    let all = dumps.lines().filter(|l| l.trim_start().starts_with("call ")).count();
    let light = dumps.lines().filter(|l| l.trim_start().starts_with("call light=")).count();
    (light, all - light)
}

#[test]
fn functions_that_call_nothing_have_registers_of_their_own() {
    assert_eq!(calls("own_functions", Options::default()), (5, 0));
}

/// Arguments for which the ABI has no registers lie behind the others.
#[test]
fn arguments_that_the_abi_has_no_room_for_have_registers() {
    assert_eq!(calls("own_many", Options::default()), (4, 0));
    assert_eq!(calls("own_many", Options { check_stack: true, ..Options::default() }), (0, 4));
}

/// They take R0, R3 and P0 before they save anything.
#[test]
fn functions_that_look_after_the_stack_keep_to_the_abi() {
    assert_eq!(calls("own_aligned", Options::default()), (0, 2));
    assert_eq!(calls("own_functions", Options { check_stack: true, ..Options::default() }), (0, 5));
    assert_eq!(calls("own_functions", Options { protect_stack: true, ..Options::default() }), (0, 5));
}
