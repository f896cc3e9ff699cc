//! Locales as arguments and in results.

use keel_base::{SqlResult, errors};
use keel_context::locale::Locale;
use keel_value::collation::{self, Charset};
use keel_value::{SqlType, Value};

use crate::{EvalContext, Expr};

/// A name in the character set of a result.
pub(super) fn named(name: &str, ty: &SqlType) -> Value {
    let (text, _) = collation::convert(Charset::Utf8mb4, ty.collation.charset(), name.as_bytes());
    Value::Bytes(text.into_owned().into())
}

/// The locale that an argument names; English, with a warning, where there is none of that name.
pub(super) fn of_argument<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<&'static Locale> {
    let name = arg.text(cx)?;
    let name = name.as_deref().map_or("NULL".into(), String::from_utf8_lossy);
    match Locale::by_name(&name) {
        Some(locale) => Ok(locale),
        None => {
            cx.warn(errors::unknown_locale(name))?;
            Ok(Locale::english())
        }
    }
}
