//! What several tests of the crate use.

use ptx::module::{Body, Item, Module};

/// The module without its places.
pub fn bare(mut m: Module) -> Module {
    m.vars.iter_mut().for_each(|v| v.span = Default::default());
    for item in &mut m.items {
        if let Item::Alias { span, .. } | Item::Pragma { span, .. } = item {
            *span = Default::default();
        }
    }
    for f in &mut m.funcs {
        f.span = Default::default();
        f.labels.iter_mut().for_each(|l| l.span = Default::default());
        f.body = f.body.take().map(Body::without_places);
    }
    m
}
