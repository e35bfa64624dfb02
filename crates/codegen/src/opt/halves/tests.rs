use crate::ir::{text, verify};

/// A function whose values are named as they please, with numbers without gaps.
fn numbered(t: &str) -> String {
    let mut numbers: Vec<&str> = Vec::new();
    let mut out = String::new();
    for word in t.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let name = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        if name.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok()) {
            let n = numbers.iter().rposition(|&x| x == name).unwrap_or_else(|| {
                numbers.push(name);
                numbers.len() - 1
            });
            out += &format!("v{n}{}", &word[name.len()..]);
        } else {
            out += word;
        }
    }
    out
}

/// The text of a function after the pass and what tidies up behind it.
fn after(t: &str) -> (bool, String) {
    let mut f = text::parse(&numbered(t)).unwrap().remove(0);
    let changed = super::run(&mut f);
    verify::verify(&f).unwrap();
    super::super::params::run(&mut f);
    super::super::dce::run(&mut f);
    super::super::gvn::run(&mut f);
    super::super::dce::run(&mut f);
    verify::verify(&f).unwrap();
    (changed, text::print(&f))
}

/// Three words, the first two taken apart, and an address; `body` has values from v10 on.
fn straight(body: &str) -> (bool, String) {
    after(&format!(
        "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = param {{bytes=4 imm=8}}\nv2:b32 = param {{bytes=4 imm=12}}\n\
         v3:b16 = trunc v1\nv4:b16 = hi v1\nv5:b16 = trunc v2\nv6:b16 = hi v2\nv7:b16 = const {{imm=32768}}\nv8:b16 = const {{imm=15360}}\n{body}exit\n}}"
    ))
}

/// A block that stores two halves one by one.
fn stored(lo: u32, hi: u32) -> String {
    format!("store v0, v{lo} {{space=global bytes=2}}\nstore v0, v{hi} {{space=global bytes=2 imm=2}}\n")
}

#[test]
fn a_chain_of_operations_becomes_one_on_words() {
    let body = format!(
        "v10:b16 = fmul v3, v5 {{fmt=f16}}\nv11:b16 = fadd v10, v5 {{fmt=f16 ftz}}\nv12:b16 = fmul v4, v6 {{fmt=f16}}\nv13:b16 = fadd v12, v6 {{fmt=f16 ftz}}\n{}",
        stored(11, 13)
    );
    let (changed, t) = straight(&body);
    assert!(changed && t.contains("fmul v1, v2 {fmt=f16x2}") && t.contains("{fmt=f16x2 ftz}"), "{t}");
    assert!(t.matches("fadd").count() == 1 && t.matches("= hi").count() == 1, "{t}");
}

#[test]
fn a_half_for_both_and_constants() {
    // A product and a sum, as they are written where there is only the product with a sum.
    let body = format!(
        "v10:b16 = ffma v3, v5, v7 {{fmt=bf16}}\nv11:b16 = ffma v10, v8, v3 {{fmt=bf16}}\nv12:b16 = ffma v4, v5, v7 {{fmt=bf16}}\nv13:b16 = ffma v12, v8, v4 {{fmt=bf16}}\n{}",
        stored(11, 13)
    );
    let (changed, t) = straight(&body);
    assert!(changed && t.matches("ffma").count() == 2 && t.matches("fmt=bf16x2").count() == 2, "{t}");
    assert!(t.contains("imm=2147516416") && t.contains("imm=1006648320") && t.matches("pack").count() == 1, "{t}");
}

#[test]
fn one_operation_is_not_worth_taking_a_half_out() {
    let body = format!("v10:b16 = fmul v3, v5 {{fmt=f16}}\nv11:b16 = fmul v4, v6 {{fmt=f16}}\n{}", stored(10, 11));
    assert!(!straight(&body).0);
    // Unless nothing has to be.
    let (changed, t) = straight(
        "v10:b16 = fmul v3, v5 {fmt=f16}\nv11:b16 = fmul v4, v6 {fmt=f16}\nv12:b32 = pack v10, v11\nstore v0, v12 {space=global bytes=4}\nstore v0, v10 {space=global bytes=2 imm=8}\n",
    );
    assert!(changed && !t.contains("pack") && !t.contains("= hi"), "{t}");
}

#[test]
fn what_differs_stays_apart() {
    let stays = |x: &str, y: &str| {
        let body = format!(
            "v10:b16 = {x}\nv11:b16 = {y}\nv12:b16 = fadd v10, v10 {{fmt=f16}}\nv13:b16 = fadd v11, v11 {{fmt=f16}}\n{}",
            stored(12, 13)
        );
        let (changed, t) = straight(&body);
        assert!(!changed && !t.contains("x2"), "{t}");
    };
    stays("fadd v3, v5 {fmt=f16}", "fadd v4, v6 {fmt=f16 ftz}");
    stays("fadd v3, v5 {fmt=f16 sat}", "fadd v4, v6 {fmt=f16}");
    stays("fadd v3, v5 {fmt=f16}", "fadd v4, v6 {fmt=bf16}");
    stays("fadd v3, v5 {fmt=f16}", "fmul v4, v6 {fmt=f16}");
    stays("fmin v3, v5 {fmt=f16}", "fmin v4, v6 {fmt=f16 sub=1}");
    // Of halves that are not at the same places.
    stays("fadd v3, v6 {fmt=f16}", "fadd v4, v5 {fmt=f16}");
    stays("fadd v3, v7 {fmt=f16}", "fadd v4, v6 {fmt=f16}");
}

/// A loop over words that adds up products of their halves; `last` is what is done with the sums v20 to v23 behind it.
fn looped(body: &str, last: &str) -> (bool, String) {
    after(&format!(
        "func k entry returns() {{\nblk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = param {{bytes=4 imm=8}}\nv2:b16 = const {{imm=0}}\nv3:b32 = const {{imm=1}}\nbr blk1(v1, v2, v2, v2, v2)\n\
         blk1(v4:b32, v5:b16, v6:b16, v7:b16, v8:b16):\nv9:b32 = load v0 {{space=global bytes=4}}\nv10:b32 = load v0 {{space=global bytes=4 imm=4}}\n\
         v11:b16 = trunc v9\nv12:b16 = hi v9\nv13:b16 = trunc v10\nv14:b16 = hi v10\n{body}\
         v15:b32 = isub v4, v3\nv16:p = icmp v15, v3 {{cmp=gt}}\nbrif v16, blk1(v15, v20, v21, v22, v23), blk2(v20, v21, v22, v23)\nblk2(v24:b16, v25:b16, v26:b16, v27:b16):\n{last}exit\n}}"
    ))
}

const STORES: &str = "store v0, v24 {space=global bytes=2}\nstore v0, v25 {space=global bytes=2 imm=2}\n\
     store v0, v26 {space=global bytes=2 imm=4}\nstore v0, v27 {space=global bytes=2 imm=6}\n";

#[test]
fn sums_that_a_loop_carries_are_words() {
    let (changed, t) = looped(
        "v20:b16 = ffma v11, v13, v5 {fmt=f16}\nv21:b16 = ffma v12, v13, v6 {fmt=f16}\n\
         v22:b16 = ffma v11, v14, v7 {fmt=f16}\nv23:b16 = ffma v12, v14, v8 {fmt=f16}\n",
        STORES,
    );
    assert!(changed && t.matches("ffma").count() == 2 && t.matches("f16x2").count() == 2, "{t}");
    let (inside, behind) = t.split_at(t.find("\nblk2(").unwrap());
    let inside = &inside[inside.find("\nblk1(").unwrap() + 1..];
    assert!(!inside.lines().next().unwrap().contains("b16"), "{t}");
    assert!(inside.matches("= hi").count() == 1 && behind.matches("= hi").count() == 2, "{t}");
}

/// Products that go with two others are taken as the sums that they are added to say.
#[test]
fn products_go_with_sums() {
    let (changed, t) = looped(
        "v30:b16 = fmul v11, v13 {fmt=f16}\nv31:b16 = fmul v11, v14 {fmt=f16}\nv32:b16 = fmul v12, v13 {fmt=f16}\nv33:b16 = fmul v12, v14 {fmt=f16}\n\
         v20:b16 = fadd v30, v5 {fmt=f16}\nv21:b16 = fadd v32, v6 {fmt=f16}\nv22:b16 = fadd v31, v7 {fmt=f16}\nv23:b16 = fadd v33, v8 {fmt=f16}\n",
        STORES,
    );
    assert!(changed && t.matches("fadd").count() == 2 && t.matches("fmul").count() == 2, "{t}");
}

/// What a loop does with both halves each time is not worth a word.
#[test]
fn halves_that_are_read_in_the_loop_stay() {
    let (changed, t) = looped(
        "v20:b16 = ffma v11, v13, v5 {fmt=f16}\nv21:b16 = ffma v12, v13, v6 {fmt=f16}\nv30:b32 = zext v20\nv31:b32 = zext v21\nstore v0, v30 {space=global bytes=4}\nstore v0, v31 {space=global bytes=4}\n\
         v22:b16 = ffma v11, v14, v7 {fmt=f16}\nv23:b16 = ffma v12, v14, v8 {fmt=f16}\n",
        STORES,
    );
    assert!(changed && t.matches("ffma").count() == 3, "{t}");
}

#[test]
fn a_result_that_is_read_before_the_other_is_there() {
    // The second product moves in front of the store of the first.
    let (changed, t) = straight(
        "v10:b16 = fmul v3, v5 {fmt=f16}\nv11:b16 = fadd v10, v3 {fmt=f16}\nstore v0, v11 {space=global bytes=2}\n\
         v12:b16 = fmul v4, v6 {fmt=f16}\nv13:b16 = fadd v12, v4 {fmt=f16}\nstore v0, v13 {space=global bytes=2 imm=2}\n",
    );
    assert!(changed && t.matches("fmul").count() == 1 && t.find("fadd") < t.find("store"), "{t}");
    // One word is loaded behind that store.
    let (changed, t) = straight(
        "v10:b16 = fmul v3, v5 {fmt=f16}\nv11:b16 = fadd v10, v3 {fmt=f16}\nstore v0, v11 {space=global bytes=2}\nv14:b16 = load v0 {space=global bytes=2 imm=8}\n\
         v12:b16 = fmul v4, v6 {fmt=f16}\nv13:b16 = fadd v12, v4 {fmt=f16}\nv15:b16 = fadd v13, v14 {fmt=f16}\nstore v0, v15 {space=global bytes=2 imm=2}\n",
    );
    assert!(changed && t.matches("fmul").count() == 1, "{t}");
}

/// The upper operation reads what comes of the lower one.
#[test]
fn what_waits_for_its_mate_stays() {
    let (changed, t) = straight(&format!(
        "v10:b16 = fmul v3, v5 {{fmt=f16}}\nv11:b32 = zext v10\nv12:b32 = load v11 {{space=shared bytes=4}}\nv13:b16 = trunc v12\nv14:b16 = hi v12\n\
         v15:b16 = fmul v4, v6 {{fmt=f16}}\nv16:b16 = fadd v13, v10 {{fmt=f16}}\nv17:b16 = fadd v14, v15 {{fmt=f16}}\n{}",
        stored(16, 17)
    ));
    assert!(changed && t.matches("fmul").count() == 1, "{t}");
    // The upper operand is converted from what comes of the lower sum.
    let (changed, t) = straight(&format!(
        "v9:b32 = param {{bytes=4 imm=16}}\nv10:b16 = f2f v9 {{fmt=f16 fmt2=f32}}\nv11:b16 = fadd v3, v10 {{fmt=f16}}\nv12:b16 = fmul v11, v3 {{fmt=f16}}\nv13:b16 = fmul v11, v4 {{fmt=f16}}\n\
         v14:b16 = fmul v12, v5 {{fmt=f16}}\nv15:b16 = fmul v13, v6 {{fmt=f16}}\nv16:b32 = f2f v14 {{fmt=f32 fmt2=f16}}\nv17:b16 = f2f v16 {{fmt=f16 fmt2=f32}}\nv18:b16 = fadd v4, v17 {{fmt=f16}}\n\
         v19:b16 = fadd v11, v3 {{fmt=f16}}\nv20:b16 = fadd v18, v4 {{fmt=f16}}\n{}{}",
        stored(19, 20),
        stored(15, 15)
    ));
    assert!(!changed || t.matches("fadd").count() == 4, "{t}");
}

/// Of many readers few are looked at.
#[test]
fn many_readers_of_a_half() {
    let mut body = String::new();
    let mut last = (3, 4);
    for n in 0..2000 {
        let (lo, hi) = (20 + 2 * n, 21 + 2 * n);
        body += &format!("v{lo}:b16 = ffma v3, v5, v{} {{fmt=f16}}\n", last.0);
        body += &format!("v{hi}:b16 = ffma v4, v6, v{} {{fmt=f16}}\n", last.1);
        last = (lo, hi);
    }
    let (changed, t) = straight(&(body + &stored(last.0, last.1)));
    assert!(changed && t.matches("ffma").count() == 2000 && !t.contains("fmt=f16}"), "{}", t.len());
}
