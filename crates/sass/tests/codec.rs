//! Laws of codec and text that need no other tool.

mod common;

use common::random_words;
use sass::codec::{Decoded, decode, decode_into, encode};
use sass::text::{NoLabels, parse, parse_control, parse_on, print, print_control};
use testkit::Random;

#[test]
fn every_word_comes_back() {
    let mut random = Random(7);
    let mut place = Decoded::Unknown(0);
    for n in 0..400_000u32 {
        let mut word = random.word();
        if n % 2 == 0 {
            // With an opcode that exists, or nothing would be known.
            let form = &sass::tables::FORMS[random.bits() as usize % sass::tables::FORMS.len()];
            word = word & !form.need | form.fixed & form.need;
        }
        for sm in [75, 90, 120] {
            let decoded = decode(word, sm);
            assert_eq!(decoded.encode(sm), Ok(word), "{word:#034x} on sm_{sm}");
            // Nothing of the word before may be left.
            decode_into(word, sm, &mut place);
            assert_eq!(place, decoded, "{word:#034x} on sm_{sm}");
        }
    }
}

#[test]
fn random_instructions_come_back_from_their_text() {
    let (mut same, mut total) = (0, 0);
    for (id, word) in random_words(60, 11) {
        let decoded = decode(word, 90);
        let Decoded::Known(inst) = &decoded else { panic!("known before") };
        let text = print(inst, 0, &NoLabels);
        total += 1;
        let back = parse_on(&text, 0, &NoLabels, Some(90));
        // The text does not tell everything (a NaN's payload, which of two forms a narrow conversion is): then another
        // instruction must print the same.
        match back {
            Ok(mut back) => {
                assert_eq!(print(&back, 0, &NoLabels), text, "{}", id.get().name);
                back.take_unprinted(inst);
                same += usize::from(encode(&back, 90) == Ok(word));
            }
            Err(error) => assert!(text.contains("???"), "{}: `{text}`: {error:?}", id.get().name),
        }
    }
    assert!(same * 100 >= total * 94, "{same} of {total} words come back");
}

#[test]
fn control_fields_come_back() {
    let mut random = Random(5);
    for _ in 0..10_000 {
        let mut ctrl = sass::codec::decode_control(random.word());
        ctrl.reuse = 0;
        assert_eq!(parse_control(&print_control(&ctrl)), Some(ctrl));
    }
    assert_eq!(print_control(&Default::default()), "[B------:R-:W-:-:S01]");
}

#[test]
fn broken_text_never_panics() {
    let mut random = Random(3);
    for (_, word) in random_words(3, 13) {
        let Decoded::Known(inst) = decode(word, 90) else { continue };
        let text = format!("{} {} ;", print_control(&inst.ctrl), print(&inst, 0, &NoLabels));
        assert!(parse(&text).is_ok() || text.contains("???"), "{text}");
        for _ in 0..20 {
            let mut bytes = text.clone().into_bytes();
            for _ in 0..=random.bits() % 3 {
                let at = random.bits() as usize % bytes.len().max(1);
                if bytes.is_empty() {
                    break;
                }
                match random.bits() % 3 {
                    0 => bytes[at] = random.bits() as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            if let Err(error) = parse(&String::from_utf8_lossy(&bytes)) {
                assert!(error.span.is_some(), "{error:?}");
            }
        }
    }
}

#[test]
fn messages_name_the_place() {
    let place = |line: &str| {
        let error = parse(line).expect_err(line);
        let span = error.span.expect("a place");
        (error.message, span.start)
    };
    assert_eq!(place("FROB R0, R1"), ("unknown instruction `FROB`".into(), 0));
    assert_eq!(place("FADD R0, R1, Q"), ("cannot read this as an operand of `FADD`".into(), 13));
    assert_eq!(place("@P9 FADD R0, R1, R2"), ("not a guard: `@P9`".into(), 0));
    assert_eq!(place("[B------:R-:W-:-:S99] NOP"), ("not a control field: `[B------:R-:W-:-:S99]`".into(), 0));
    assert_eq!(place(""), ("unknown instruction ``".into(), 0));
}

#[test]
fn what_does_not_fit_is_an_error() {
    use sass::form::SlotName as S;
    use sass::inst::{Inst, Operand};
    use sass::reg::{File, Reg};
    let message = |inst: Inst| encode(&inst, 90).expect_err("does not fit").message;
    let ldg = || Inst::new(sass::forms::LDG);
    assert_eq!(message(ldg().with(S::Imm, Operand::imm(1 << 23))), "LDG: Imm 0x800000 does not fit");
    assert!(encode(&ldg().with(S::Imm, Operand::imm(-(1 << 23))), 90).is_ok());
    assert_eq!(message(ldg().with(S::Ra, Reg::virt(File::Gpr, 3))), "LDG: Ra is the virtual register %r3");
    assert_eq!(message(ldg().with(S::Ra, Reg::ur(3))), "LDG: Ra UR3 is of the wrong register file");
    assert_eq!(message(ldg().with(S::UR, Reg::ur(63))), "LDG: UR UR63 is out of range");
    assert_eq!(
        message(ldg().with(S::Ra, Operand::reg(Reg::r(2)).negated())),
        "LDG: Ra cannot have the source modifier -"
    );
    assert_eq!(message(ldg().with_mod(sass::form::ModName::Size, 7)), "LDG: Size has no value 7");
    let bra = Inst::new(sass::forms::BRA);
    let mut odd = bra.clone();
    odd.operands[1].value = sass::inst::Value::target(2);
    assert_eq!(message(odd), "BRA: Target the distance 0x2 does not fit");
    assert_eq!(
        encode(&Inst::new(sass::forms::VIADD_RR), 80).expect_err("new").message,
        "VIADD_RR: the form does not exist on sm_80"
    );
}
