//! `information_schema.USER_VARIABLES`: what the session itself has set.

use keel_value::types::Class;
use keel_value::{SqlType, Value, convert};

use super::{RowMaker, View, text};

/// Makes its rows.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let mut all: Vec<_> = view.session.user_variables.iter().collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    for (name, variable) in all {
        let mut shown = Vec::new();
        if !variable.value.is_null() {
            convert::to_text(variable.value.as_ref(), &variable.ty, &mut shown);
        }
        let value = if variable.value.is_null() { Value::Null } else { Value::Bytes(shown.into()) };
        let charset = if variable.ty.is_string() { variable.ty.collation.charset().name() } else { "latin1" };
        let charset = if variable.value.is_null() { "binary" } else { charset };
        rows.row([
            ("VARIABLE_NAME", text(name)),
            ("VARIABLE_VALUE", value),
            ("VARIABLE_TYPE", text(type_name(&variable.ty))),
            ("CHARACTER_SET_NAME", text(charset)),
        ]);
    }
}

/// The word for a variable's type.
fn type_name(ty: &SqlType) -> &'static str {
    match ty.class() {
        Class::Int if ty.unsigned => "INT UNSIGNED",
        Class::Int => "INT",
        Class::Decimal => "DECIMAL",
        Class::Real => "DOUBLE",
        _ => "VARCHAR",
    }
}
