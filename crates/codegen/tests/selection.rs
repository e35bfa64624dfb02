//! What becomes of a few lines of PTX: instructions by their names.

use codegen::{Options, Output};

/// The instructions of a kernel with these lines, as text. `%a` is an address, `%r`, `%f`, `%h` are registers.
fn code(lines: &str) -> Vec<String> {
    let text = format!(
        ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {{\n.reg .b64 %a; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b16 %h<9>;\n\
         ld.param.u64 %a, [p];\n{lines}\nret;\n}}\n"
    );
    let (m, d) = ptx::parse(&text);
    assert!(d.is_empty(), "{d:?}\n{text}");
    let target = arch::Target::parse("sm_90").expect("a target");
    let output: Output = codegen::compile(&m, &Options { target, verify: true, ..Options::default() })
        .unwrap_or_else(|e| panic!("{e:?}"));
    let elf = cubin::elf::Elf::read(&output.cubin).expect("a cubin");
    let section = elf.sections.iter().find(|s| s.name == ".text.k").expect("code");
    let words = section.data.chunks_exact(16).map(|c| u128::from_le_bytes(c.try_into().expect("16 bytes")));
    let known = words
        .filter_map(|w| sass::codec::decode(w, 90).known().map(|i| sass::text::print(i, 0, &sass::text::NoLabels)));
    known.filter(|t| !t.contains("NOP")).collect()
}

/// Instructions that begin so.
fn count(code: &[String], name: &str) -> usize {
    code.iter().filter(|t| t.split_whitespace().any(|w| w.starts_with(name))).count()
}

#[test]
fn both_halves_of_a_word_become_floats_by_one_instruction() {
    let t = code(
        "ld.global.b32 %r1, [%a]; mov.b32 {%h1, %h2}, %r1; cvt.f32.bf16 %f1, %h1; cvt.f32.bf16 %f2, %h2;\n\
         st.global.f32 [%a], %f1; st.global.f32 [%a+4], %f2;",
    );
    assert_eq!((count(&t, "PRMT"), count(&t, "LOP3"), count(&t, "SHF") + count(&t, "IMAD")), (0, 1, 1), "{t:#?}");
}
