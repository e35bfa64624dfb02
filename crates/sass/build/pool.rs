//! Tables of what forms share, each a static with a name.
//!
//! A program that needs some forms finds what they are made of in few pages of memory: what is frequent stands together, and what has a name
//! lies apart from what has none (`crates/cli/build/fill.ld`), which is how all forms are printed and read.

use super::Isa;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{Debug, Display, Write as _};
use std::hash::Hash;

/// What many forms have alike, once: a table in which the most frequent come first, and a static for each list of references into it.
pub(crate) struct Pool {
    /// Of the table; of a list, with its number.
    name: &'static str,
    /// What the table holds.
    of: &'static str,
    places: HashMap<String, usize>,
    lists: HashMap<Vec<usize>, usize>,
}

impl Pool {
    /// The table of what these lists hold, each as often as it is there.
    pub(crate) fn new(name: &'static str, of: &'static str, lists: impl Iterator<Item = Vec<String>>) -> Pool {
        let lists: Vec<Vec<String>> = lists.collect();
        let places = by_frequency(lists.iter().flatten().cloned());
        let by_place = lists.iter().map(|list| list.iter().map(|source| places[source]).collect());
        Pool { name, of, lists: by_frequency(by_place), places }
    }

    /// A list of references to these.
    pub(crate) fn refer(&self, sources: impl Iterator<Item = String>) -> String {
        let list: Vec<usize> = sources.map(|source| self.places[&source]).collect();
        if list.is_empty() { "&[]".into() } else { format!("&{}_{}", self.name, self.lists[&list]) }
    }

    /// The tables as source.
    pub(crate) fn write(&self, doc: &str, out: &mut String) {
        let (name, of) = (self.name, self.of);
        let _ =
            writeln!(out, "/// {doc}, the most frequent first.\npub static {name}: [{of}; {}] = [", self.places.len());
        for source in by_place(&self.places) {
            let _ = writeln!(out, "    {source},");
        }
        out.push_str("];\n");
        for (n, list) in by_place(&self.lists).into_iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            let all: Vec<String> = list.iter().map(|place| format!("&{name}[{place}]")).collect();
            let _ = writeln!(out, "static {name}_{n}: [&{of}; {}] = [{}];", list.len(), all.join(", "));
        }
    }
}

/// Numbers for all of these, the smallest for the most frequent.
pub(crate) fn by_frequency<T: Ord + Hash>(all: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut uses: BTreeMap<T, usize> = BTreeMap::new();
    all.for_each(|one| *uses.entry(one).or_default() += 1);
    let mut list: Vec<(T, usize)> = uses.into_iter().collect();
    list.sort_by_key(|&(_, uses)| Reverse(uses));
    list.into_iter().enumerate().map(|(n, (one, _))| (one, n)).collect()
}

/// What has these numbers, in their order.
pub(crate) fn by_place<T>(places: &HashMap<T, usize>) -> Vec<&T> {
    let mut list: Vec<(&usize, &T)> = places.iter().map(|(one, n)| (n, one)).collect();
    list.sort_by_key(|(n, _)| *n);
    list.into_iter().map(|(_, one)| one).collect()
}

/// The source of a static for a list.
fn list(name: &str, of: &str, list: &[impl Debug]) -> String {
    format!("static {name}: [{of}; {}] = {list:?};", list.len())
}

/// The name of the static of a list of pairs, made of the pairs; places of bits, or ranges of chips.
fn pairs_name<T: Display>(prefix: &str, pairs: &[(T, T)]) -> String {
    pairs.iter().fold(prefix.into(), |name, (a, b)| format!("{name}_{a}_{b}"))
}

/// A reference to such a list.
pub(crate) fn pairs<T: Display>(prefix: &str, pairs: &[(T, T)]) -> String {
    if pairs.is_empty() { "&[]".into() } else { format!("&{}", pairs_name(prefix, pairs)) }
}

/// A reference to a table of widths.
pub(crate) fn counts(isa: &Isa, table: &str) -> Option<String> {
    isa.widths.contains_key(table).then(|| format!("&WIDTHS_{}", table.to_uppercase()))
}

/// What [`pairs`] and [`counts`] refer to.
pub(crate) fn write_lists(isa: &Isa, out: &mut String) {
    let all = || isa.forms.iter().flat_map(|f| std::iter::once(f).chain(&f.variants));
    let slots = all().flat_map(|f| &f.slots).map(|s| &s.bits);
    let bits = slots.chain(all().flat_map(|f| &f.mods).map(|m| &m.bits));
    let bits = bits.map(|bits| list(&pairs_name("BITS", bits), "(u8, u8)", bits));
    let chips = all().map(|f| list(&pairs_name("CHIPS", &f.sms), "(u16, u16)", &f.sms));
    let widths = isa.widths.iter().map(|(name, counts)| list(&format!("WIDTHS_{}", name.to_uppercase()), "u8", counts));
    let lists: BTreeSet<String> = bits.chain(chips).chain(widths).filter(|list| !list.contains("; 0]")).collect();
    for list in lists {
        let _ = writeln!(out, "{list}");
    }
}
