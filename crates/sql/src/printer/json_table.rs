//! JSON_TABLE as text.

use super::Printer;
use crate::ast::{ColumnDef, DataTypeKind, JsonColumn, JsonResponse, JsonTable};

impl Printer {
    pub(super) fn json_table(&mut self, table: &JsonTable) {
        self.word("JSON_TABLE");
        self.parens(|printer| {
            printer.expr(&table.document, 0);
            printer.word(", ");
            printer.text(&table.path);
            printer.json_columns(&table.columns);
        });
        self.out.push(' ');
        self.ident(&table.alias);
    }

    fn json_columns(&mut self, columns: &[JsonColumn]) {
        self.word(" COLUMNS ");
        self.parens(|printer| {
            for (place, column) in columns.iter().enumerate() {
                printer.flag(place > 0, ", ");
                printer.json_column(column);
            }
        });
    }

    fn json_column(&mut self, column: &JsonColumn) {
        match column {
            JsonColumn::Ordinality(name) => {
                self.ident(name);
                self.word(" FOR ORDINALITY");
            }
            JsonColumn::Value { column, path, on_empty, on_error } => {
                self.json_type(column);
                self.word(" PATH ");
                self.text(path);
                self.json_response(on_empty, " ON EMPTY");
                self.json_response(on_error, " ON ERROR");
            }
            JsonColumn::Exists { column, path } => {
                self.json_type(column);
                self.word(" EXISTS PATH ");
                self.text(path);
            }
            JsonColumn::Nested { path, columns } => {
                self.word("NESTED PATH ");
                self.text(path);
                self.json_columns(columns);
            }
        }
    }

    fn json_type(&mut self, column: &ColumnDef) {
        self.ident(&column.name);
        self.out.push(' ');
        let mut ty = column.data_type.clone();
        if ty.kind == DataTypeKind::Json {
            return self.word(" JSON ");
        }
        if !self.view {
            return self.data_type(&ty);
        }
        let (charset, collation) = (ty.charset.take(), ty.collation.take());
        ty.binary = false;
        self.data_type(&ty);
        for (word, name) in [(" CHARSET ", charset), (" COLLATE ", collation)] {
            if let Some(name) = name {
                self.word(word);
                self.word(&name);
            }
        }
    }

    fn json_response(&mut self, response: &Option<JsonResponse>, of: &str) {
        match response {
            None => return,
            Some(JsonResponse::Null) => self.word(" NULL"),
            Some(JsonResponse::Error) => self.word(" ERROR"),
            Some(JsonResponse::Default { text, number }) => {
                self.word(" DEFAULT ");
                if *number { self.word(&text.to_text()) } else { self.text(text) }
            }
        }
        self.word(of);
    }
}
