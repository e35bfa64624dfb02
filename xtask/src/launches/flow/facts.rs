//! What is known of a value.

use ptx::module::VarId;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes behind the beginning of something, where they are always the same.
pub type Shift = Option<i64>;
/// Most slots that one value may come from.
const MOST: usize = 12;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The value of a slot, moved.
    pub value: BTreeMap<usize, Shift>,
    /// The address of a parameter, moved.
    pub param: BTreeMap<VarId, Shift>,
    /// Loaded through the address in a slot.
    pub loaded: BTreeSet<usize>,
    /// Computed of something that was.
    pub derived: BTreeSet<usize>,
}

impl Facts {
    pub fn merge(&mut self, other: &Facts) -> bool {
        fn moved<K: Ord + Copy>(to: &mut BTreeMap<K, Shift>, from: &BTreeMap<K, Shift>) -> bool {
            let mut changed = false;
            for (&k, &v) in from {
                match to.get(&k).copied() {
                    None if to.len() < MOST => changed |= to.insert(k, v).is_none(),
                    Some(Some(old)) if v != Some(old) => changed |= to.insert(k, None).is_some(),
                    _ => {}
                }
            }
            changed
        }
        let sets = |to: &mut BTreeSet<usize>, from: &BTreeSet<usize>| {
            from.iter().fold(false, |c, &x| (to.len() < MOST && to.insert(x)) | c)
        };
        moved(&mut self.value, &other.value)
            | moved(&mut self.param, &other.param)
            | sets(&mut self.loaded, &other.loaded)
            | sets(&mut self.derived, &other.derived)
    }

    /// The same value with something added.
    pub fn moved(&self, by: Shift) -> Facts {
        let add = |s: &Shift| Some(s.as_ref()?.wrapping_add(by?));
        Facts {
            value: self.value.iter().map(|(&k, s)| (k, add(s))).collect(),
            param: self.param.iter().map(|(&k, s)| (k, add(s))).collect(),
            ..Facts::default()
        }
    }

    /// What is computed of it.
    pub fn computed(&self) -> Facts {
        Facts { derived: &self.derived | &self.loaded, ..Facts::default() }
    }
}
