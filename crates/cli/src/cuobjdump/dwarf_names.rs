//! The names of what debugging information is made of, as the vendor's tool prints them. (Read off what cuobjdump 13.5 says of
//! every number; what it has no name for is empty.)

use std::borrow::Cow;

/// Kinds of entries, from 1 on; `-` has no name.
const TAGS: &str = "\
    array_type class_type entry_point enumeration_type formal_parameter - - imported_declaration - label lexical_block \
    - member - pointer_type reference_type compile_unit string_type structure_type - subroutine_type typedef \
    union_type unspecified_parameters variant common_block common_inclusion inheritance inlined_subroutine module \
    ptr_to_member_type set_type subrange_type with_stmt access_declaration base_type catch_block const_type constant \
    enumerator file_type friend namelist namelist_item packed_type subprogram template_type_parameter \
    template_value_parameter thrown_type try_block variant_part variable volatile_type dwarf_procedure restrict_type \
    interface_type namespace imported_module unspecified_type partial_unit imported_unit mutable_type condition \
    shared_type type_unit rvalue_reference_type";

/// Attributes, from 1 on.
const ATTRIBUTES: &str = "\
    sibling location name - - - - - ordering subscr_data byte_size bit_offset bit_size - element_list stmt_list low_pc \
    high_pc language member discr discr_value visibility import string_length common_reference comp_dir const_value \
    containing_type default_value - inline is_optional lower_bound - - producer - prototyped - - return_addr - \
    start_scope - stride_size upper_bound - abstract_origin accessibility address_class artificial base_types \
    calling_convention count data_member_location decl_column decl_file decl_line declaration discr_list encoding \
    external frame_base friend identifier_case macro_info namelist_item priority segment specification static_link \
    type use_location variable_parameter virtuality vtable_elem_location allocated associated data_location stride \
    entry_pc use_UTF8 extension ranges trampoline call_column call_file call_line description";

/// Forms of values, from 1 on.
const FORMS: &str = "\
    addr - block2 block4 data2 data4 data8 string block block1 data1 flag sdata strp udata ref_addr ref1 ref2 ref4 \
    ref8 ref_udata indirect";

/// Attributes with numbers of their own.
const MORE: [(u64, &str); 8] = [
    (0x6a, "main_subprogram"),
    (0x2007, "MIPS_linkage_name"),
    (0x2134, "GNU_pubnames"),
    (0x2703, "NV_general_flags"),
    (0x3a00, "PGI_lbase"),
    (0x3a01, "PGI_soffset"),
    (0x3a02, "PGI_lstride"),
    (0x3fff, "hi_user"),
];

/// The word of a list with this number.
fn word(list: &str, number: u64) -> Option<&str> {
    let at = usize::try_from(number.checked_sub(1)?).ok()?;
    list.split(' ').nth(at).filter(|w| *w != "-")
}

/// A name of a kind, or nothing.
fn named(kind: &str, name: Option<&str>) -> String {
    name.map_or(String::new(), |n| format!("DW_{kind}_{n}"))
}

/// The name of a kind of entries.
pub(super) fn tag(number: u64) -> String {
    named("TAG", word(TAGS, number))
}

/// The name of an attribute.
pub(super) fn attribute(number: u64) -> String {
    let more = || MORE.iter().find(|m| m.0 == number).map(|m| m.1);
    named("AT", word(ATTRIBUTES, number).or_else(more))
}

/// The name of a form of values.
pub(super) fn form(number: u64) -> String {
    named("FORM", word(FORMS, number))
}

/// The name of an operation.
pub(super) fn operation(code: u8) -> Cow<'static, str> {
    let name = match code {
        0x03 => "addr",
        0x0c => "const4u",
        0x10 => "constu",
        0x18 => "xderef",
        0x22 => "plus",
        0x23 => "plus_uconst",
        0x30..=0x4f => return format!("DW_OP_lit{}  ", code - 0x30).into(),
        0x50..=0x6f => return format!("DW_OP_reg{}  ", code - 0x50).into(),
        0x70..=0x8f => return format!("DW_OP_breg{}", code - 0x70).into(),
        0x90 => "regx",
        0x91 => "fbreg",
        0x92 => "bregx",
        0x93 => "piece",
        0x94 => "deref_size",
        0x96 => "nop",
        0x9f => "stack_value",
        _ => return "".into(),
    };
    format!("DW_OP_{name}").into()
}

/// A register of the machine as debugging information numbers it: its class in the highest byte. None for other classes.
pub(super) fn register(number: u64) -> Option<String> {
    let n = number & 0xff_ffff;
    let class = match number >> 24 {
        1 => "C",
        2 => "P",
        5 => "R",
        6 => "M",
        8 => "I",
        9 => "UP",
        0xa | 0xb => "UR",
        0xc => return Some(format!("RPC.{}", ["LO", "HI"].get(n as usize).unwrap_or(&"INVALID"))),
        0xd => "PSR",
        _ => return None,
    };
    Some(format!("{class}{n}"))
}
