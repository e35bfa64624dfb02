use super::*;
use crate::ir::{text, verify};

fn after(body: &str) -> String {
    let mut f = text::parse(&format!("func k returns(b32) {{\n{body}\n}}")).unwrap().remove(0);
    run(&mut f);
    verify::verify(&f).unwrap();
    text::print(&f)
}

/// A loop that adds what a pointer leads to, over a counter that is compared so; `bound` is v3.
fn sum(start: i64, bound: &str, step: i64, cmp: &str) -> String {
    format!(
        "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = const {{imm={start}}}\nv3:b32 = {bound}\nv4:b32 = const {{imm={step}}}\n\
         v5:b64 = const {{imm=4}}\nbr blk1(v0, v1, v2)\nblk1(v6:b64, v7:b32, v8:b32):\nv9:b32 = load v6 {{space=global bytes=4}}\nv10:b32 = iadd v7, v9\n\
         v11:b64 = iadd v6, v5\nv12:b32 = iadd v8, v4\nv13:p = icmp v12, v3 {{cmp={cmp} signed}}\nbrif v13, blk1(v11, v10, v12), blk2()\n\
         blk2():\nv14:b32 = iadd v10, v12\nret v14"
    )
}

#[test]
fn a_known_number_of_iterations_stands_in_a_row() {
    let t = after(&sum(0, "const {imm=3}", 1, "lt"));
    assert_eq!(t.matches("load v0").count(), 1, "{t}");
    assert_eq!((t.matches("load").count(), t.matches("blk").count()), (3, 1), "{t}");
    // What is read behind the loop: the sum of the last iteration, and the counter.
    assert!(t.contains("const {imm=3}") && t.contains("const {imm=8}"), "{t}");
    // It runs once whatever the counter begins with.
    assert_eq!(after(&sum(9, "const {imm=3}", 1, "lt")).matches("load").count(), 1);
    assert_eq!(after(&sum(6, "const {imm=0}", -2, "gt")).matches("load").count(), 3);
}

/// From a value that every thread has its own of to a few more than that.
#[test]
fn a_known_number_of_iterations_from_where_a_thread_begins() {
    let from = |first: &str, last: i64, cmp: &str| {
        let body = format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = {first}\nv2:b32 = const {{imm=4}}\nv3:b32 = shl v1, v2\nv4:b32 = const {{imm={last}}}\n\
             v5:b32 = iadd v3, v4\nv6:b32 = const {{imm=1}}\nv7:b64 = const {{imm=4}}\nbr blk1(v0, v4, v3)\nblk1(v8:b64, v9:b32, v10:b32):\n\
             v11:b32 = load v8 {{space=global bytes=4}}\nv12:b32 = iadd v9, v11\nv13:b64 = iadd v8, v7\nv14:b32 = iadd v10, v6\n\
             v15:p = icmp v14, v5 {{cmp={cmp} signed}}\nbrif v15, blk1(v13, v12, v14), blk2()\nblk2():\nret v12"
        );
        after(&body).matches("load").count()
    };
    // Numbers of threads (special register 0) are small.
    assert_eq!(from("sreg", 5, "lt"), 5);
    assert_eq!(from("sreg", 3, "le"), 4);
    // It runs once, however far behind it is.
    assert_eq!(from("sreg", 0, "lt"), 1);
    // Any other number may wrap on the way, but not before the next one that is as round.
    assert_eq!(from("param {bytes=4 imm=8}", 17, "lt"), 7);
    assert_eq!(from("param {bytes=4 imm=8}", 5, "lt"), 5);
    assert_eq!(from("param {bytes=4 imm=8}", 15, "lt"), 15);
    // At the next one the last of all may have wrapped, unless there is one iteration.
    assert_eq!(from("param {bytes=4 imm=8}", 16, "lt"), 7);
    assert_eq!(from("param {bytes=4 imm=8}", 1, "lt"), 1);
    // So may the bound lie before the value.
    assert_eq!(from("sreg", -5, "lt"), 7);
}

#[test]
fn four_iterations_at_once_then_two_then_the_rest() {
    for (cmp, step) in [("lt", 2), ("ne", 2), ("ge", -1)] {
        let t = after(&sum(0, "param {bytes=4 imm=8}", step, cmp));
        assert_eq!(t.matches("load").count(), 7, "{t}");
        assert_eq!(t.matches("brif").count(), 6, "{t}");
    }
}

#[test]
fn the_rest_is_no_loop_where_one_is_left() {
    let asks = |start: i64, bound: &str, step: i64, cmp: &str| {
        let t = after(&sum(start, bound, step, cmp));
        assert_eq!(t.matches("load").count(), 7, "{t}");
        t.matches("brif").count()
    };
    let any = "param {bytes=4 imm=8}";
    // Every number is a multiple of one. The last number but one comes to the last one; behind that the first one follows.
    assert_eq!(asks(0, any, 1, "lt"), 5);
    assert_eq!(asks(0, any, 1, "ne"), 5);
    assert_eq!(asks(0, any, -1, "gt"), 5);
    assert_eq!(asks(0x7fff_fffe, any, 1, "lt"), 5);
    assert_eq!(asks(0x7fff_ffff, any, 1, "lt"), 6);
    assert_eq!(asks(0x8000_0000, any, -1, "gt"), 6);
    // Multiples of four come to a multiple of four, but two more than one may pass by it.
    let fours = "param {bytes=4 imm=8}\nv15:b32 = const {imm=-4}\nv16:b32 = and v3, v15";
    let asks_fours = |start: i64, cmp: &str| {
        let body = sum(start, fours, 4, cmp).replace("icmp v12, v3", "icmp v12, v16");
        after(&body).matches("brif").count()
    };
    assert_eq!((asks_fours(0, "ne"), asks_fours(8, "lt"), asks_fours(2, "ne"), asks_fours(2, "lt")), (5, 5, 6, 6));
    // The greatest bound of all is never passed.
    assert_eq!(asks(0, any, 1, "le"), 6);
}

#[test]
fn threads_with_numbers_of_their_own_meet_before_each_stage() {
    // A bound that is loaded may differ from thread to thread: the two and the rest each begin with a block that says what is left.
    let stages = |t: &str| {
        let heads = t.lines().filter(|l| l.starts_with("blk"));
        heads.filter(|l| l.contains(":p,") || l.contains(":p)")).count()
    };
    let t = after(&sum(0, "load v0 {space=global bytes=4 imm=8}", 1, "lt"));
    assert_eq!(stages(&t), 2, "{t}");
    let t = after(&sum(0, "param {bytes=4 imm=8}", 1, "lt"));
    assert_eq!(stages(&t), 0, "{t}");
}

#[test]
fn nothing_is_left_of_a_known_number_that_divides() {
    // 1,000 iterations are 250 times four, or 200 times five; 999 are 333 times three: one loop, which asks at its end.
    for (n, loads) in [(1000, 4), (999, 3), (998, 2)] {
        let t = after(&sum(0, &format!("const {{imm={n}}}"), 1, "lt"));
        assert_eq!((t.matches("load").count(), t.matches("brif").count()), (loads, 1), "{t}");
    }
    // A prime number of them leaves something.
    let t = after(&sum(0, "const {imm=997}", 1, "lt"));
    assert!(t.matches("brif").count() > 1, "{t}");
}

#[test]
fn branches_on_a_side_of_another_one_keep_iterations_apart() {
    let body = |kind: &str, deeper: &str| {
        let side = "blk2():\nv12:b32 = load v5 {space=global bytes=4 imm=64 KIND}\nv13:p = icmp v12, v1 {cmp=ne}\n"
            .replace("KIND", kind);
        format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = param {{bytes=4 imm=8}}\nv3:b32 = const {{imm=1}}\n\
             v4:b64 = const {{imm=4}}\nbr blk1(v0, v1)\nblk1(v5:b64, v6:b32):\nv7:b32 = load v5 {{space=global bytes=4 {kind}}}\n\
             v8:p = icmp v7, v1 {{cmp=ne}}\nv9:b64 = iadd v5, v4\nv10:b32 = iadd v6, v3\nv11:p = icmp v10, v2 {{cmp=lt signed}}\n\
             brif v8, blk2(), blk4()\n{side}{deeper}\nblk3():\nstore v5, v3 {{space=global bytes=4}}\nbr blk4()\n\
             blk4():\nbrif v11, blk1(v9, v10), blk5()\nblk5():\nret v1"
        )
    };
    let stores = |kind: &str, deeper: &str| after(&body(kind, deeper)).matches("store").count();
    assert_eq!(stores("nc", "br blk3()"), 7);
    assert_eq!(stores("nc", "brif v13, blk3(), blk4()"), 1);
    // What waits for the stores on a side before it does not go on either.
    assert_eq!(stores("", "br blk3()"), 1);
}

/// Loads that wait for the stores of the iteration before are not under way together, so that a long iteration stays one.
#[test]
fn what_stores_hold_back_is_no_reason_to_go_on() {
    let body = |space: &str, kind: &str, products: usize| {
        let product = |k: usize| format!("v{}:b32 = imul v{}, v1\n", 9 + k, 8 + k);
        let products: String = (0..products).map(product).collect();
        let last = 8 + products.lines().count();
        let (address, counter, again) = (last + 1, last + 2, last + 3);
        format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=3}}\nv2:b32 = const {{imm=0}}\nv3:b32 = param {{bytes=4 imm=8}}\nv4:b32 = const {{imm=1}}\n\
             v5:b64 = const {{imm=4}}\nbr blk1(v0, v2)\nblk1(v6:b64, v7:b32):\nv8:b32 = load v6 {{space=global bytes=4 {kind}}}\n{products}\
             store v6, v{last} {{space={space} bytes=4}}\nv{address}:b64 = iadd v6, v5\nv{counter}:b32 = iadd v7, v4\nv{again}:p = icmp v{counter}, v3 {{cmp=lt signed}}\n\
             brif v{again}, blk1(v{address}, v{counter}), blk2()\nblk2():\nret v{counter}"
        )
    };
    let loads = |space: &str, kind: &str, adds: usize| after(&body(space, kind, adds)).matches("load").count();
    assert_eq!((loads("global", "", 20), loads("generic", "", 20)), (1, 1));
    assert_eq!(loads("global", "nc", 20), 7);
    // Of a short one counting is much.
    assert_eq!(loads("global", "", 3), 7);
}

/// Constants are at hand: a long iteration that reads some of them stays one.
#[test]
fn loads_of_constants_are_no_reason_to_go_on() {
    let loads = |space: &str, address: &str, products: u32| {
        let row: String = (0..products)
            .map(|k| format!("v{}:b32 = imul v{}, v3\n", 15 + k, if k == 0 { 9 } else { 14 + k }))
            .collect();
        let body = sum(0, "param {bytes=4 imm=8}", 1, "lt")
            .replace("load v6 {space=global", &format!("load {address} {{space={space}"));
        let sum_of = format!("{row}v10:b32 = iadd v7, v{}", 14 + products);
        after(&body.replace("v10:b32 = iadd v7, v9", &sum_of)).matches("load").count()
    };
    assert_eq!((loads("global", "v6", 20), loads("const", "v8", 20), loads("const", "v8", 3)), (7, 1, 7));
}

/// Two loops of 100 iterations, one behind the other, of which the second is the longer one.
#[test]
fn the_longest_stay_where_all_of_them_are_too_many() {
    let mut f = text::parse(&format!(
        "func k returns(b32) {{\n{}\n}}",
        sum(0, "const {imm=100}", 1, "lt").replace("ret v14", "br blk3(v0, v14, v2)\nblk3(v15:b64, v16:b32, v17:b32):\n\
         v18:b32 = load v15 {space=global bytes=4 sem=volatile}\nv19:b32 = iadd v16, v18\nv20:b64 = iadd v15, v5\nv21:b32 = iadd v17, v4\n\
         v22:b32 = imul v19, v21\nv23:p = icmp v21, v3 {cmp=lt signed}\nbrif v23, blk3(v20, v22, v21), blk4()\nblk4():\nret v22")
    ))
    .unwrap()
    .remove(0);
    let mut left = 1000;
    assert!(round(&mut f, &mut left));
    verify::verify(&f).unwrap();
    let t = text::print(&f);
    assert_eq!((t.matches("load").count(), left), (101, 500), "{t}");
}

/// A loop with a branch in which a warp does something together, once in each iteration or behind the branch.
#[test]
fn what_whole_warps_do_may_stand_in_a_row() {
    let shuffles = |what: &str, aside: bool, trips: &str| {
        let (main, side) = if aside { ("", what) } else { (what, "") };
        let body = format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = {trips}\nv3:b32 = const {{imm=1}}\nv4:b32 = const {{imm=4294967295}}\n\
             v5:b32 = sreg\nv6:p = icmp v5, v3 {{cmp=ne}}\nbr blk1(v1)\nblk1(v7:b32):\nbrif v6, blk2(), blk3()\n\
             blk2():\n{side}store v0, v5 {{space=global bytes=4}}\nbr blk3()\n\
             blk3():\n{main}v8:b32 = iadd v7, v3\nv9:p = icmp v8, v2 {{cmp=lt signed}}\nbrif v9, blk1(v8), blk4()\nblk4():\nret v8"
        );
        after(&body).matches("store").count()
    };
    let shuffle = "v10:b32, v11:p = shfl v5, v3, v4, v4 {sub=3}\nstore v5, v10 {space=shared bytes=4}\n";
    let some = shuffle.replace("v4, v4", "v4, v5");
    let three = "const {imm=3}";
    assert_eq!(shuffles(shuffle, false, three), 6);
    assert_eq!(shuffles("bar v1 {imm=1}\nstore v5, v5 {space=shared bytes=4}\n", false, three), 6);
    // Others could meet those of another iteration.
    assert_eq!(shuffles(&some, false, three), 2);
    assert_eq!(shuffles(shuffle, true, three), 2);
    assert_eq!(shuffles(shuffle, false, "param {bytes=4 imm=8}"), 2);
}

/// A loop from a round number to the next one, which is entered under a condition.
#[test]
fn a_known_number_of_iterations_behind_a_question() {
    let behind = |round: u32, question: &str, signed: &str| {
        let body = format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = param {{bytes=4 imm=8}}\nv2:b32 = const {{imm={round}}}\nv3:b32 = shl v1, v2\nv4:b32 = const {{imm=16}}\n\
             v5:b32 = iadd v3, v4\nv6:b32 = const {{imm=4}}\nv7:b32 = const {{imm=2147483632}}\nv8:b32 = const {{imm=4294967280}}\nv9:p = icmp {question}\n\
             brif v9, blk1(), blk3(v4)\nblk1():\nbr blk2(v4, v3)\nblk2(v10:b32, v11:b32):\n\
             v12:b32 = load v0 {{space=global bytes=4 sem=volatile}}\nv13:b32 = iadd v10, v12\nv14:b32 = iadd v11, v6\n\
             v15:p = icmp v14, v5 {{cmp=lt{signed}}}\nbrif v15, blk2(v13, v14), blk3(v13)\nblk3(v16:b32):\nret v16"
        );
        let left = after(&body);
        (left.matches("load").count(), left.contains("brif v15"))
    };
    // LLVM asks so whether there is anything from a round number to the next one.
    assert_eq!(behind(4, "v3, v7 {cmp=ne}", " signed"), (4, false));
    assert_eq!(behind(4, "v8, v3 {cmp=ne}", ""), (4, false));
    assert_eq!(behind(5, "v3, v8 {cmp=eq}", " signed"), (4, false));
    // Another number, or the last one of other comparisons.
    assert_ne!(behind(4, "v3, v8 {cmp=ne}", " signed"), (4, false));
    assert_ne!(behind(4, "v3, v7 {cmp=eq}", " signed"), (4, false));
    assert_ne!(behind(3, "v3, v7 {cmp=ne}", " signed"), (4, false));
    // Or it is asked as it stands.
    assert_eq!(behind(0, "v3, v5 {cmp=lt signed}", " signed"), (4, false));
    assert_eq!(behind(0, "v5, v3 {cmp=gt}", ""), (4, false));
    assert_ne!(behind(0, "v3, v5 {cmp=lt}", " signed"), (4, false));
    assert_ne!(behind(0, "v3, v5 {cmp=ge signed}", " signed"), (4, false));
}

/// A loop that waits for something in a loop of its own, from a round number to the next one or beyond.
#[test]
fn a_loop_around_another_that_runs_once_is_none() {
    let goes_back = |last: u32| {
        let body = format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = param {{bytes=4 imm=8}}\nv2:b32 = const {{imm=6}}\nv3:b32 = shl v1, v2\nv4:b32 = const {{imm=64}}\n\
             v5:b32 = const {{imm={last}}}\nv6:b32 = iadd v3, v5\nbr blk1(v3, v1)\n\
             blk1(v7:b32, v8:b32):\nbr blk2()\nblk2():\nv9:b32 = load v0 {{space=global bytes=4 sem=volatile}}\nv10:p = icmp v9, v1 {{cmp=ne}}\n\
             brif v10, blk2(), blk3()\nblk3():\nv11:b32 = iadd v7, v4\nv12:b32 = imul v8, v9\nv13:p = icmp v11, v6 {{cmp=lt signed}}\n\
             brif v13, blk1(v11, v12), blk4()\nblk4():\nret v12"
        );
        after(&body).contains("brif v13")
    };
    assert_eq!((goes_back(64), goes_back(65), goes_back(128)), (false, true, true));
}

/// A quotient in each iteration, whose seldom case is a routine beside it.
#[test]
fn iterations_with_a_routine_aside_are_repeated_where_all_are_known() {
    let checks = |trips: &str, aside: &str| {
        let body = format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = {trips}\nv3:b32 = const {{imm=1}}\nv4:b32 = sreg\nbr blk1(v1, v4)\n\
             blk1(v5:b32, v6:b32):\nv7:p = fcheck v6, v5 {{fmt=f32}}\nbrif v7, blk2(), blk3(v6)\n\
             blk2():\nv8:b32 = {aside}\nbr blk3(v8)\n\
             blk3(v9:b32):\nv10:b32 = iadd v5, v3\nv11:p = icmp v10, v2 {{cmp=lt signed}}\nbrif v11, blk1(v10, v9), blk4()\nblk4():\nret v9"
        );
        after(&body).matches("fcheck").count()
    };
    let routine = "routine v6, v5";
    assert_eq!(checks("const {imm=5}", routine), 5);
    assert_eq!((checks("const {imm=300}", routine), checks("param {bytes=4 imm=8}", routine)), (1, 1));
    assert_eq!(checks("const {imm=300}", "iadd v6, v5"), 4);
}

#[test]
fn atomics_in_a_row_are_few() {
    let body = |n: usize, trips: usize| {
        let red = "red v0, v1 {space=global bytes=4}\n".repeat(n);
        format!(
            "blk0():\nv0:b64 = param {{bytes=8}}\nv1:b32 = const {{imm=0}}\nv2:b32 = const {{imm={trips}}}\nv3:b32 = const {{imm=1}}\nbr blk1(v1)\n\
             blk1(v4:b32):\n{red}v5:b32 = iadd v4, v3\nv6:p = icmp v5, v2 {{cmp=lt signed}}\nbrif v6, blk1(v5), blk2()\nblk2():\nret v1"
        )
    };
    let reds = |n: usize, trips: usize| after(&body(n, trips)).matches("red v0").count();
    assert_eq!((reds(4, 4), reds(4, 100), reds(4, 97), reds(1, 100)), (16, 16, 4, 100));
}

#[test]
fn many_loads_are_not_repeated_where_something_is_left() {
    let loads = |n: usize, bound: &str| {
        let (mut more, mut sum_of) = (String::new(), 10);
        for i in 0..n - 1 {
            let (load, to) = (15 + 2 * i, 16 + 2 * i);
            more += &format!(
                "v{load}:b32 = load v6 {{space=global bytes=4 imm={}}}\nv{to}:b32 = iadd v{sum_of}, v{load}\n",
                64 * (i + 1)
            );
            sum_of = to;
        }
        let body = sum(0, bound, 1, "lt").replace("v11:b64", &format!("{more}v11:b64"));
        let body = body
            .replace("(v11, v10", &format!("(v11, v{sum_of}"))
            .replace("iadd v10, v12", &format!("iadd v{sum_of}, v12"));
        after(&body).matches("load").count()
    };
    let asked = "param {bytes=4 imm=8}";
    assert_eq!((loads(7, asked), loads(8, asked)), (21, 8));
    assert_eq!(loads(8, "const {imm=4}"), 32);
}

#[test]
fn what_cannot_be_counted_or_shall_not_stays() {
    let known = sum(0, "const {imm=3}", 1, "lt");
    let rolled = known.replace("v8:b32):", "v8:b32) rolled:");
    assert_eq!(after(&rolled).matches("load").count(), 1);
    // It never comes to its bound in time, or goes away from it.
    assert_eq!(after(&sum(0, "const {imm=100000000}", 1, "eq")).matches("load").count(), 1);
    assert_eq!(after(&sum(0, "param {bytes=4 imm=8}", -1, "lt")).matches("load").count(), 1);
    // Threads with other numbers of iterations may not part where they do something together.
    let vote = known.replace("const {imm=3}", "sreg").replace("v10:b32 = iadd v7, v9", "v10:b32 = shfl.x v7, v9");
    let vote = vote.replace("v10:b32 = shfl.x v7, v9", "v15:b32 = activemask\nv10:b32 = iadd v15, v9");
    assert_eq!(after(&vote).matches("load").count(), 1);
}
