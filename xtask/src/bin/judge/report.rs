//! What came of it: a table, and a JSON file.

use crate::list::Item;
use std::collections::HashMap;
use std::fmt::Write;

/// What one item gave.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Why it did not run to its end.
    pub failed: Option<String>,
    /// How its memory differs from the simulator's, by more than is allowed.
    pub differs: Option<String>,
    /// Figures by name, as the worker prints them.
    pub figures: HashMap<String, f64>,
}

impl Done {
    /// Good, or the first thing wrong.
    pub fn verdict(&self) -> String {
        match (&self.failed, &self.differs) {
            (Some(why), _) => format!("FAILED {why}"),
            (None, Some(how)) => format!("DIFFERS {how}"),
            (None, None) if self.figure("changed") > 0.0 => {
                format!("CHANGES in {} repetitions", self.figure("changed"))
            }
            (None, None) => "ok".into(),
        }
    }

    fn figure(&self, name: &str) -> f64 {
        self.figures.get(name).copied().unwrap_or(0.0)
    }
}

/// Where it ran.
pub struct Machine {
    /// Name of the GPU.
    pub gpu: String,
    /// SM number.
    pub sm: i32,
    /// Version of the driver.
    pub driver: String,
    /// Seconds since 1970.
    pub time: u64,
}

fn text(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 32 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

fn number(x: f64) -> String {
    if x.is_finite() { x.to_string() } else { "null".into() }
}

/// The whole as JSON.
pub fn json(machine: &Machine, items: &[Item], done: &[Done]) -> String {
    let mut out = format!(
        "{{\n  \"gpu\": {}, \"sm\": {}, \"driver\": {}, \"time\": {},\n  \"runs\": [\n",
        text(&machine.gpu),
        machine.sm,
        text(&machine.driver),
        machine.time
    );
    for (n, (item, d)) in items.iter().zip(done).enumerate() {
        let mut figures: Vec<_> = d.figures.iter().collect();
        figures.sort_by(|a, b| a.0.cmp(b.0));
        let figures: Vec<String> = figures.iter().map(|(k, v)| format!("{}: {}", text(k), number(**v))).collect();
        let _ = writeln!(
            out,
            "    {{\"launch\": {}, \"code\": {}, \"verdict\": {}, \"figures\": {{{}}}}}{}",
            text(&item.name),
            text(item.who),
            text(&d.verdict()),
            figures.join(", "),
            if n + 1 == items.len() { "" } else { "," }
        );
    }
    out + "  ]\n}\n"
}

/// The table for people: a line a launch, the vendor's code and ours beside each other. True if nothing is wrong.
pub fn table(items: &[Item], done: &[Done]) -> (String, bool) {
    let mut out =
        String::from("launch                           vendor's us   ours us  ratio  registers      verdict\n");
    let (mut ratios, mut bad) = (Vec::new(), [0; 2]);
    let (mut n, mut count, mut alone) = (0, 0, 0);
    while let (Some(item), Some(v)) = (items.get(n), done.get(n)) {
        let second = items.get(n + 1).filter(|next| next.name == item.name).and(done.get(n + 1));
        (n, count) = (n + 1 + second.is_some() as usize, count + 1);
        let Some(o) = second else {
            alone += 1;
            bad[0] += (v.verdict() != "ok") as u32;
            let (time, registers, verdict) = (v.figure("median"), v.figure("registers"), v.verdict());
            let name = &item.name;
            let _ = writeln!(
                out,
                "{name:<32} {time:>11.2} {:>9} {:>6} {registers:>5} {:>4}      vendor's alone: {verdict}",
                "", "", ""
            );
            continue;
        };
        let (tv, to) = (v.figure("median"), o.figure("median"));
        let both = v.failed.is_none() && o.failed.is_none() && tv > 0.0;
        let ratio = if both { to / tv } else { f64::NAN };
        if both {
            ratios.push(ratio);
        }
        for (n, d) in [v, o].into_iter().enumerate() {
            bad[n] += (d.verdict() != "ok") as u32;
        }
        let verdict = match (v.verdict().as_str(), o.verdict().as_str()) {
            ("ok", "ok") => "ok".to_string(),
            (a, b) if a == b => format!("both: {a}"),
            (a, "ok") => format!("vendor's: {a}"),
            ("ok", b) => format!("ours: {b}"),
            (a, b) => format!("vendor's: {a}; ours: {b}"),
        };
        let _ = writeln!(
            out,
            "{:<32} {tv:>11.2} {to:>9.2} {ratio:>6.2} {:>5} {:>4}      {verdict}",
            item.name,
            v.figure("registers"),
            o.figure("registers"),
        );
    }
    let mean = (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
    let _ = writeln!(
        out,
        "{count} launches ({alone} without our code); not ok: {} of the vendor's code, {} of ours; our time by the vendor's: {mean:.3} (geometric mean)",
        bad[0], bad[1]
    );
    (out, bad[1] == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(who: &'static str) -> Item {
        Item { name: "k\"1".into(), who, launch: String::new(), cubin: String::new() }
    }

    #[test]
    fn reports_say_what_is_wrong() {
        let items = [item("vendor"), item("ours")];
        let time = |t: f64| HashMap::from([("median".to_string(), t), ("changed".to_string(), 0.0)]);
        let good = Done { figures: time(2.0), ..Done::default() };
        let bad = Done { figures: time(3.0), differs: Some("buffer 0".into()), ..Done::default() };
        let (text, fine) = table(&items, &[good.clone(), bad.clone()]);
        assert!(text.contains("1.50") && text.contains("ours: DIFFERS buffer 0") && !fine, "{text}");
        assert!(table(&items, &[bad.clone(), good.clone()]).1, "the vendor's code is not ours to fail for");
        let third = Item { name: "only".into(), ..item("vendor") };
        let (text, _) =
            table(&[items[0].clone(), items[1].clone(), third], &[good.clone(), good.clone(), good.clone()]);
        assert!(text.contains("2 launches (1 without our code); not ok: 0 of"), "{text}");
        let m = Machine { gpu: "G".into(), sm: 90, driver: "13.0".into(), time: 7 };
        let json = json(&m, &items, &[good, Done { failed: Some("a\tb".into()), ..Done::default() }]);
        assert!(
            json.contains(r#""launch": "k\"1", "code": "ours", "verdict": "FAILED a\u0009b", "figures": {}"#),
            "{json}"
        );
        assert!(json.contains(r#""figures": {"changed": 0, "median": 2}"#), "{json}");
    }
}
