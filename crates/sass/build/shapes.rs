//! The operand shapes, and where each puts its sources.

use super::bad;

/// The operand shapes: suffix, opcode bits 11:9, bit 91, what B is (slot, field), what C is.
pub(crate) type Shape = (&'static str, u128, bool, Vec<(&'static str, char, char)>);

pub(crate) fn shapes(at: &str, kind: &str) -> Vec<Shape> {
    // (slot, kind letter, field letter): fields B (63:32) and C (71:64).
    match kind {
        "alu3" => vec![
            ("RRR", 1, false, vec![("Rb", 'R', 'B'), ("Rc", 'R', 'C')]),
            ("RRI", 2, false, vec![("Rb", 'R', 'C'), ("Rc", 'I', 'B')]),
            ("RRC", 3, false, vec![("Rb", 'R', 'C'), ("Rc", 'K', 'B')]),
            ("RIR", 4, false, vec![("Rb", 'I', 'B'), ("Rc", 'R', 'C')]),
            ("RCR", 5, false, vec![("Rb", 'K', 'B'), ("Rc", 'R', 'C')]),
            ("RUR", 6, true, vec![("Rb", 'U', 'B'), ("Rc", 'R', 'C')]),
            ("RRU", 7, true, vec![("Rb", 'R', 'C'), ("Rc", 'U', 'B')]),
        ],
        "alu2" => vec![
            ("RR", 1, false, vec![("Rb", 'R', 'B')]),
            ("RI", 4, false, vec![("Rb", 'I', 'B')]),
            ("RC", 5, false, vec![("Rb", 'K', 'B')]),
            ("RU", 6, true, vec![("Rb", 'U', 'B')]),
        ],
        "alu1" => vec![
            ("R", 1, false, vec![("Rb", 'R', 'B')]),
            ("I", 4, false, vec![("Rb", 'I', 'B')]),
            ("C", 5, false, vec![("Rb", 'K', 'B')]),
            ("U", 6, true, vec![("Rb", 'U', 'B')]),
        ],
        // The second source takes the port of C.
        "alu2c" => vec![
            ("RR", 1, false, vec![("Rb", 'R', 'B')]),
            ("RI", 2, false, vec![("Rb", 'I', 'B')]),
            ("RC", 3, false, vec![("Rb", 'K', 'B')]),
            ("RU", 7, true, vec![("Rb", 'U', 'B')]),
        ],
        "alu2cc" => vec![
            ("RR", 1, false, vec![("Rb", 'R', 'C')]),
            ("RI", 2, false, vec![("Rb", 'I', 'B')]),
            ("RC", 3, false, vec![("Rb", 'K', 'B')]),
            ("RU", 7, true, vec![("Rb", 'U', 'B')]),
        ],
        "ualu3" => vec![
            ("UUU", 1, true, vec![("Rb", 'U', 'B'), ("Rc", 'U', 'C')]),
            ("UUI", 2, true, vec![("Rb", 'U', 'C'), ("Rc", 'I', 'B')]),
            ("UIU", 4, true, vec![("Rb", 'I', 'B'), ("Rc", 'U', 'C')]),
        ],
        "ualu2" => vec![("UU", 1, true, vec![("Rb", 'U', 'B')]), ("UI", 4, true, vec![("Rb", 'I', 'B')])],
        "ualu1" => vec![("U", 1, true, vec![("Rb", 'U', 'B')]), ("I", 4, true, vec![("Rb", 'I', 'B')])],
        _ => bad(at, format!("unknown shapes {kind}")),
    }
}
