//! JSON_TABLE from the tree of a statement.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::names;
use keel_document::json::Path;
use keel_exec::json_table::{Column, JsonTable, Kind, NAME, Nest, Response};
use keel_expr::Expr;
use keel_sql::ast::{self, DataTypeKind, JsonResponse};
use keel_value::row::Layout;
use keel_value::{CollationId, SqlType};

/// Most columns, as of any table.
const COLUMNS_MAX: usize = 4096;
/// The argument that messages about paths name.
const PATH_ARGUMENT: usize = 2;

/// Binds a JSON_TABLE whose document is bound. Texts have the given collation unless they say another.
pub(crate) fn bind(tree: &ast::JsonTable, document: Expr, collation: CollationId) -> SqlResult<JsonTable> {
    let mut parts = Parts { nests: Vec::new(), columns: Vec::new(), collation };
    parts.nest(&tree.path, &tree.columns)?;
    let Parts { nests, columns, .. } = parts;
    let kept: Vec<(SqlType, bool)> = columns.iter().map(|column| (column.ty.clone(), true)).collect();
    let mut table = JsonTable {
        document: Expr::null(),
        nests,
        columns,
        layout: Arc::new(Layout::new(&kept)),
        alias: tree.alias.as_str().into(),
    };
    table.set_document(document);
    Ok(table)
}

/// What was bound so far.
struct Parts {
    nests: Vec<Nest>,
    columns: Vec<Column>,
    collation: CollationId,
}

impl Parts {
    fn nest(&mut self, path: &ast::ByteStr, columns: &[ast::JsonColumn]) -> SqlResult<usize> {
        let number = self.nests.len();
        self.nests.push(Nest { path: checked(path)?, children: Vec::new() });
        for column in columns {
            self.column(number, column)?;
        }
        Ok(number)
    }

    fn column(&mut self, nest: usize, tree: &ast::JsonColumn) -> SqlResult<()> {
        let (name, ty, kind) = match tree {
            ast::JsonColumn::Nested { path, columns } => {
                let child = self.nest(path, columns)?;
                self.nests[nest].children.push(child);
                return Ok(());
            }
            ast::JsonColumn::Ordinality(name) => (name, SqlType::int(), Kind::Ordinality),
            ast::JsonColumn::Exists { column, path } => {
                (&column.name, self.type_of(column)?, Kind::Exists(checked(path)?))
            }
            ast::JsonColumn::Value { column, path, on_empty, on_error } => {
                let kind = Kind::Value {
                    path: checked(path)?,
                    as_json: column.data_type.kind == DataTypeKind::Json,
                    on_empty: response(on_empty),
                    on_error: response(on_error),
                };
                (&column.name, self.type_of(column)?, kind)
            }
        };
        if self.columns.iter().any(|column| names::same(&column.name, name)) {
            return Err(errors::dup_fieldname(name));
        }
        if self.columns.len() >= COLUMNS_MAX {
            return Err(errors::too_many_fields());
        }
        self.columns.push(Column { name: name.as_str().into(), ty, nest, kind });
        Ok(())
    }

    fn type_of(&self, column: &ast::ColumnDef) -> SqlResult<SqlType> {
        keel_catalog::column_type::column_type(self.collation, column)
    }
}

/// A path that can be read.
fn checked(path: &ast::ByteStr) -> SqlResult<Box<[u8]>> {
    match Path::parse(&path.0) {
        Ok(_) => Ok(path.0.to_vec().into()),
        Err(fault) => Err(fault.of_path(PATH_ARGUMENT, NAME)),
    }
}

fn response(tree: &Option<JsonResponse>) -> Response {
    match tree {
        None | Some(JsonResponse::Null) => Response::Null,
        Some(JsonResponse::Error) => Response::Error,
        Some(JsonResponse::Default { text, .. }) => Response::Default(text.0.to_vec().into()),
    }
}
