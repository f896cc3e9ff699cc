//! JSON_TABLE in FROM.

use super::Parser;
use crate::ast::{ByteStr, ColumnDef, DataTypeKind, JsonColumn, JsonResponse, JsonTable, TableRef};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

impl Parser<'_> {
    /// `JSON_TABLE(document, path COLUMNS (...)) [AS] alias`.
    #[inline(never)]
    pub(super) fn json_table(&mut self) -> SqlResult<TableRef> {
        self.advance();
        self.expect(Tok::LParen)?;
        let document = self.expr()?;
        self.expect(Tok::Comma)?;
        let path = self.json_text()?;
        let columns = self.nested(Self::json_columns)?;
        self.expect(Tok::RParen)?;
        let alias = self.table_alias()?.ok_or_else(errors::json_table_alias_required)?;
        Ok(TableRef::JsonTable(Box::new(JsonTable { document, path, columns, alias })))
    }

    /// `COLUMNS (column, ...)`.
    fn json_columns(&mut self) -> SqlResult<Vec<JsonColumn>> {
        self.expect_kw(Kw::COLUMNS)?;
        self.parens(Self::json_column)
    }

    fn json_column(&mut self) -> SqlResult<JsonColumn> {
        if self.at_kws(&[Kw::NESTED, Kw::PATH]) {
            self.advance();
            self.advance();
            let path = self.json_text()?;
            return Ok(JsonColumn::Nested { path, columns: self.nested(Self::json_columns)? });
        }
        let name = self.ident()?;
        if self.accept_kw(Kw::FOR) {
            self.expect_kw(Kw::ORDINALITY)?;
            return Ok(JsonColumn::Ordinality(name));
        }
        let column = Box::new(self.json_type(name)?);
        if self.accept_kw(Kw::EXISTS) {
            self.expect_kw(Kw::PATH)?;
            return Ok(JsonColumn::Exists { column, path: self.json_text()? });
        }
        self.expect_kw(Kw::PATH)?;
        let path = self.json_text()?;
        let (mut on_empty, mut on_error) = (None, None);
        while let Some(response) = self.json_response()? {
            self.expect_kw(Kw::ON)?;
            let of_error = self.at_kw(Kw::ERROR);
            let said = if of_error { &mut on_error } else { &mut on_empty };
            if said.is_some() || !(of_error || self.at_kw(Kw::EMPTY)) {
                return Err(self.unexpected());
            }
            *said = Some(response);
            self.advance();
        }
        Ok(JsonColumn::Value { column, path, on_empty, on_error })
    }

    /// A type that a column of JSON_TABLE may have.
    fn json_type(&mut self, name: String) -> SqlResult<ColumnDef> {
        use DataTypeKind::*;
        let first = self.pos;
        let data_type = self.data_type();
        let takes = |kind| {
            !matches!(
                kind,
                Enum | Set
                    | Uuid
                    | Inet4
                    | Inet6
                    | Geometry
                    | Point
                    | LineString
                    | Polygon
                    | MultiPoint
                    | MultiLineString
                    | MultiPolygon
                    | GeometryCollection
            )
        };
        match data_type {
            Ok(data_type) if takes(data_type.kind) => Ok(ColumnDef::of(name, data_type)),
            Err(error) if error.code != keel_base::code::UNKNOWN_DATA_TYPE => Err(error),
            _ => {
                self.pos = first;
                Err(self.unexpected())
            }
        }
    }

    /// NULL, ERROR or DEFAULT.
    fn json_response(&mut self) -> SqlResult<Option<JsonResponse>> {
        if self.accept_kw(Kw::NULL) {
            return Ok(Some(JsonResponse::Null));
        }
        if self.accept_kw(Kw::ERROR) {
            return Ok(Some(JsonResponse::Error));
        }
        if !self.accept_kw(Kw::DEFAULT) {
            return Ok(None);
        }
        if matches!(self.peek().tok, Tok::Int | Tok::Decimal | Tok::Float) {
            let token = self.advance();
            let text = ByteStr(self.text_of(token).into());
            return Ok(Some(JsonResponse::Default { text, number: true }));
        }
        Ok(Some(JsonResponse::Default { text: self.json_text()?, number: false }))
    }

    /// A text, perhaps behind the name of a character set.
    fn json_text(&mut self) -> SqlResult<ByteStr> {
        let token = self.peek();
        if self.is_introducer_token(token) {
            self.advance();
        }
        self.string()
    }
}
