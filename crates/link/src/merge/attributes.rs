//! Attributes of an input: what they say of its functions, and `.nv.compat`.

use super::KERNEL;
use crate::fatal;
use crate::object::{Role, role};
use crate::world::{NONE, World};
use cubin::attr::{self, Value};
use diag::Diagnostic;

/// For each section of code of an input, the section of its attributes (0 for none), in the output's order: entries first.
pub(super) fn info_sections(world: &World, object: u32) -> Vec<(usize, usize)> {
    let o = &world.objects[object as usize];
    let map = &world.maps[object as usize];
    let mut found = Vec::new();
    for (i, s) in o.view.sections.iter().enumerate() {
        let text = s.info as usize;
        if role(s.kind, s.name) == Role::Info && text < o.view.sections.len() && map.sections[text].0 != NONE {
            found.push((text, i));
        }
    }
    let entry = |text: usize| o.symbols.get(o.heads[text] as usize).is_some_and(|s| s.other & KERNEL != 0);
    found.sort_by_key(|&(text, _)| !entry(text));
    found
}

/// The needs of all inputs: of each number the larger one. The target of the first stays.
pub(super) fn merge_compat(world: &mut World, data: &[u8]) -> Result<(), Diagnostic> {
    const CLASS_AND_COPIES: [u8; 2] = [2, 3];
    let Some(old) = &world.compat else {
        attr::read(data)?;
        world.compat = Some(data.to_vec());
        return Ok(());
    };
    if old == data {
        return Ok(());
    }
    let mut list = attr::read(old)?;
    for a in attr::read(data)? {
        match list.iter_mut().find(|o| o.code == a.code) {
            None => list.push(a),
            Some(o) if CLASS_AND_COPIES.contains(&a.code) && a.to_words() > o.to_words() => *o = a,
            Some(_) => {}
        }
    }
    world.compat = Some(attr::write(&list));
    Ok(())
}

/// What the attributes say of functions.
pub(super) fn read(world: &mut World, object: u32, sections: &[(usize, usize)]) -> Result<(), Vec<Diagnostic>> {
    let o = &world.objects[object as usize];
    let wrong = |d: Diagnostic| fatal(format!("Input file '{}' is damaged: {}", o.name, d.message));
    let mut of_function = Vec::new();
    for &(text, info) in sections {
        let section = world.maps[object as usize].sections[text].0;
        let f = world.sections[section as usize].function;
        if f == NONE || world.functions[f as usize].object != object {
            continue;
        }
        let data = o.view.sections[info].data;
        let (mut barriers, mut limit, mut externs) = (0, 0, Vec::new());
        let mut patch = false;
        for a in attr::read(data).map_err(wrong)? {
            match (a.code, &a.value) {
                (attr::NUM_BARRIERS, Value::Byte(n, _)) => barriers = *n as u32,
                (attr::TOOLS_PATCH_FUNC, _) => patch = true,
                (attr::MAXREG_COUNT, Value::Half(n)) => limit = *n as u32,
                (attr::EXTERNS, _) => {
                    let map = &world.maps[object as usize].symbols;
                    let known = a.to_words().into_iter().filter_map(|s| map.get(s as usize).copied());
                    externs.extend(known.filter(|&s| s != NONE));
                }
                _ => {}
            }
        }
        if world.options.tools_patch && !patch {
            let m = "is missing EIATTR_TOOLS_PATCH_FUNC attribute required by -astoolspatch option";
            return Err(fatal(format!("Function '{}' in '{}' {m}", world.name_of(f), o.name)));
        }
        of_function.push((f, data, barriers, limit, externs));
    }
    let mut counts = Vec::new();
    if let Some(s) = o.view.sections.iter().find(|s| role(s.kind, s.name) == Role::ModuleInfo) {
        for a in attr::read(s.data).map_err(wrong)? {
            let words = a.to_words();
            const NAMED: [u8; 4] = [attr::REGCOUNT, attr::FRAME_SIZE, attr::MAX_STACK_SIZE, attr::MIN_STACK_SIZE];
            if let ([symbol, n, ..], true) = (words.as_slice(), NAMED.contains(&a.code)) {
                if *symbol as usize >= o.symbols.len() {
                    let m = format!("an attribute names symbol {symbol}, which is not there");
                    return Err(wrong(Diagnostic::error(m)));
                }
                if matches!(a.code, attr::REGCOUNT | attr::FRAME_SIZE) {
                    counts.push((a.code, *symbol, *n));
                }
            }
        }
        let data = s.data;
        world.module_info.push((object, data));
    }
    for (f, data, barriers, limit, externs) in of_function {
        let function = &mut world.functions[f as usize];
        (function.info, function.has_info, function.barriers, function.max_registers) = (data, true, barriers, limit);
        function.externs = externs;
        world.info_order.push(f);
    }
    for (code, symbol, n) in counts {
        let id = world.maps[object as usize].symbols[symbol as usize];
        if id == NONE || world.symbol(id).object != object {
            continue;
        }
        if let Some(f) = world.called(id) {
            let function = &mut world.functions[f as usize];
            match code {
                attr::REGCOUNT => function.registers = n,
                _ => function.frame = n,
            }
        }
    }
    Ok(())
}
