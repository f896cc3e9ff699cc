//! The types and collations of a definition that MariaDB's parser refuses, so that PREPARE refuses them and no table has to
//! be there.

use keel_base::{SqlResult, code};
use keel_catalog::column_type::{choose_collation, column_type};
use keel_exec::session::Session;
use keel_sql::ast::{AlterAction, ColumnDef, DataTypeKind, Statement, TableOption};
use keel_value::CollationId;
use keel_value::collation::Charset;

use super::columns::check_unused_collation;
use super::create::declared;
use super::database::schema_collation;

/// Refuses types and collations that no column or table can have, whatever else is there.
pub fn check_types(session: &Session, statement: &Statement) -> SqlResult<()> {
    // Names that stand for a collation of each Unicode character set fit some table.
    let default = Charset::Utf8mb4.default_collation();
    match statement {
        Statement::CreateDatabase(create) => schema_collation(session, &create.options, default).map(|_| ()),
        Statement::AlterDatabase { options, .. } => schema_collation(session, options, default).map(|_| ()),
        Statement::CreateTable(create) => {
            create.columns.iter().try_for_each(|column| check_column(default, column))?;
            check_options(default, &create.options)
        }
        Statement::AlterTable(alter) => {
            alter.actions.iter().try_for_each(|action| match action {
                AlterAction::AddColumn { column, .. } | AlterAction::ChangeColumn { column, .. } => {
                    check_column(default, column)
                }
                AlterAction::ConvertTo { charset, collation } => {
                    choose_collation(Some(charset), collation.as_deref(), default, default).map(|_| ())
                }
                _ => Ok(()),
            })?;
            check_options(default, alter.actions.iter().filter_map(super::alter::option_of))
        }
        _ => Ok(()),
    }
}

fn check_options<'a>(
    default: CollationId,
    options: impl IntoIterator<Item = &'a TableOption>,
) -> SqlResult<()> {
    let (charset, collate) = declared(options)?;
    choose_collation(charset, collate, default, default).map(|_| ())
}

fn check_column(default: CollationId, column: &ColumnDef) -> SqlResult<()> {
    check_unused_collation(column)?;
    match column_type(default, column) {
        Err(error) if is_of_parser(column.data_type.kind, error.code) => Err(error),
        _ => Ok(()),
    }
}

/// Whether an error is the parser's. The length of a VARCHAR and members are examined later.
fn is_of_parser(kind: DataTypeKind, error: u16) -> bool {
    match error {
        code::TOO_BIG_FIELDLENGTH => matches!(kind, DataTypeKind::Char | DataTypeKind::Binary),
        code::TOO_BIG_DISPLAYWIDTH
        | code::TOO_BIG_PRECISION
        | code::TOO_BIG_SCALE
        | code::M_BIGGER_THAN_D
        | code::WRONG_FIELD_SPEC
        | code::UNKNOWN_CHARACTER_SET
        | code::UNKNOWN_COLLATION
        | code::COLLATION_CHARSET_MISMATCH
        | code::CONFLICTING_DECLARATIONS => true,
        _ => false,
    }
}
