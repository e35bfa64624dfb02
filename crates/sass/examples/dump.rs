use sass::codec::decode;
fn main() {
    let mut seed = 1u64;
    let mut bits = || {
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = seed;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    for (n, f) in sass::tables::FORMS.iter().enumerate() {
        let key = f.fixed & 0xfff | (f.fixed >> 91 & 1) << 12;
        let s: Vec<String> = f.slots.iter().map(|s| format!("{}:{:?}", s.name.name(), s.bits)).collect();
        let m: Vec<String> = f.mods.iter().map(|s| format!("{}:{:?}", s.name.name(), s.bits)).collect();
        let mut words = Vec::new();
        for _ in 0..4000 {
            let w = (bits() as u128) << 64 | bits() as u128;
            let all = f.need | f.free | 0x1f_ffffu128 << 105 | 0xf << 12;
            let w = w & !all | f.fixed | 0x7f2u128 << 105 | 7 << 12;
            if let Some(i) = decode(w, if f.on(90) { 90 } else { f.sms.first().map_or(90, |s| s.0) }).known() {
                if i.form.0 == n as u16 {
                    words.push(format!("{w:x}"));
                    if words.len() == 4 { break }
                }
            }
        }
        println!("{};{key:x};{};{};{:x};{:x};{:?};{:?};{};{:x};{}", f.name, s.join("|"), m.join("|"), f.fixed, f.need, f.sms, f.class, f.mnemonic, f.free, words.join(","));
    }
}
