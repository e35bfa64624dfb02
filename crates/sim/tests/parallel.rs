//! Clusters beside each other leave what they leave one after the other, whatever they do to one another's memory.

use sim::{Config, Fault, Launch, Outcome};

/// Runs `body` in 40 CTAs of 64 threads, each thread with its own word (`%rd1`) and its neighbour's of the CTA before (`%rd2`),
/// on one thread of this machine and on three.
fn both(body: &str, limit: u64) -> [Result<Outcome, Box<Fault>>; 2] {
    let text = format!(
        ".version 9.0\n.target sm_90\n.address_size 64
.extern .func (.param .b64 r) malloc (.param .b64 n);
.visible .entry k(.param .u64 p) {{
  .reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [p];
  mov.u64 %rd0, %rd1;
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
  mad.lo.u32 %r2, %r1, 64, %r0;
  mul.wide.u32 %rd3, %r2, 4;
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd1, %rd1, 256;
  sub.u64 %rd2, %rd1, 256;
  mov.u32 %r10, 0;
BUSY: add.u32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 800; @%p0 bra BUSY;
{body}
  ret;
}}
"
    );
    let (m, errors) = ptx::parse(&text);
    assert!(errors.is_empty(), "{errors:?}");
    let words: Vec<String> = (0..64 * 41).map(|n: u32| format!("{:08x}", n.swap_bytes())).collect();
    let launch = format!(
        "kernel = \"k\"\ngrid = [40]\nblock = [64]\n[[arg]]\nbuffer = {{ hex = \"{}\" }}\nout = \"o\"\n",
        words.concat()
    );
    let launch = Launch::parse(&launch, &mut |_| Err("none".into())).unwrap();
    [1, 3].map(|threads| sim::run_ptx(&m, &launch, &Config { threads, max_instructions: limit, ..Config::default() }))
}

fn words(o: &Outcome) -> Vec<u32> {
    o.buffers[0].chunks(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

const PLENTY: u64 = 100_000_000;

#[test]
fn independent_clusters() {
    let [one, three] = both("ld.global.u32 %r3, [%rd1]; mul.lo.u32 %r3, %r3, 3; st.global.u32 [%rd1], %r3;", PLENTY);
    let one = one.unwrap();
    assert_eq!(words(&one)[64..], (64..64 * 41).map(|n| 3 * n).collect::<Vec<u32>>());
    assert_eq!(three.unwrap(), one);
}

#[test]
fn each_reads_what_the_one_before_wrote() {
    let [one, three] = both("ld.global.u32 %r3, [%rd2]; add.u32 %r3, %r3, 1000; st.global.u32 [%rd1], %r3;", PLENTY);
    let one = one.unwrap();
    assert_eq!(words(&one)[64 * 40], 40_000);
    assert_eq!(three.unwrap(), one);
}

#[test]
fn now_and_then_one_reads_what_another_wrote() {
    // Every 16th CTA reads its neighbour's word; the others only their own.
    let body = "and.b32 %r4, %r1, 15; setp.eq.u32 %p1, %r4, 15; selp.b64 %rd4, %rd2, %rd1, %p1;
        ld.global.u32 %r3, [%rd4]; add.u32 %r3, %r3, 1000; st.global.u32 [%rd1], %r3;";
    let [one, three] = both(body, PLENTY);
    let one = one.unwrap();
    let w = words(&one);
    assert_eq!((w[64 * 16], w[64 * 15]), (64 * 15 + 2000, 64 * 15 + 1000));
    assert_eq!(three.unwrap(), one);
}

#[test]
fn all_count_at_one_place() {
    let [one, three] = both("atom.global.add.u32 %r3, [%rd0], 1; st.global.u32 [%rd1], %r3;", PLENTY);
    let one = one.unwrap();
    assert_eq!(words(&one), std::iter::once(64 * 40).chain(1..64).chain(0..64 * 40).collect::<Vec<u32>>());
    assert_eq!(three.unwrap(), one);
}

#[test]
fn memory_is_allocated() {
    let body = "{ .param .b64 a; .param .b64 r; st.param.b64 [a], 16; call (r), malloc, (a); ld.param.b64 %rd5, [r]; }
        st.u32 [%rd5], %r2; ld.u32 %r3, [%rd5]; st.global.u32 [%rd1], %r3;";
    let [one, three] = both(body, PLENTY);
    let one = one.unwrap();
    assert_eq!(words(&one)[64..], (0..64 * 40).collect::<Vec<u32>>());
    assert_eq!(three.unwrap(), one);
}

#[test]
fn the_first_fault_is_the_same() {
    let body = "setp.ge.u32 %p1, %r1, 17; @%p1 add.u64 %rd1, %rd1, 2; st.global.u32 [%rd1], %r2;";
    let [one, three] = both(body, PLENTY).map(Result::unwrap_err);
    assert_eq!((one.kind, one.cta), (sim::FaultKind::Misaligned, Some([17, 0, 0])));
    assert_eq!(three, one);
}

#[test]
fn the_watchdog_bites_at_the_same_instruction() {
    // A CTA issues a little less than 5000 instructions.
    let [one, three] = both("st.global.u32 [%rd1], %r2;", 100_000).map(Result::unwrap_err);
    assert_eq!(one.kind, sim::FaultKind::Watchdog);
    assert!(one.cta.is_some_and(|[x, ..]| x > 15 && x < 30), "{one}");
    assert_eq!(three, one);
}
