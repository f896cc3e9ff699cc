//! LOAD DATA, and the formats of files of rows.

use super::Parser;
use crate::ast::{ColumnName, FileFormat, LoadData, LoadPriority, LoadTarget, OnDuplicateRow, Statement};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

impl Parser<'_> {
    /// At LOAD.
    pub(super) fn load(&mut self) -> SqlResult<Statement> {
        match self.peek_at(1).kw {
            Some(Kw::DATA) => {}
            Some(Kw::INDEX) => return Ok(self.unsupported_of_tables(Kw::LOAD)),
            Some(Kw::XML) => return Ok(self.unsupported(2)),
            _ => {
                self.advance();
                return Err(self.unexpected());
            }
        }
        self.advance();
        self.advance();
        let priority = self.accept_any(&[Kw::LOW_PRIORITY, Kw::CONCURRENT]).map(|kw| match kw {
            Kw::CONCURRENT => LoadPriority::Concurrent,
            _ => LoadPriority::Low,
        });
        let local = self.accept_kw(Kw::LOCAL);
        self.expect_kw(Kw::INFILE)?;
        let file = self.string()?;
        let duplicates = self.accept_any(&[Kw::REPLACE, Kw::IGNORE]).map(|kw| match kw {
            Kw::REPLACE => OnDuplicateRow::Replace,
            _ => OnDuplicateRow::Ignore,
        });
        self.expect_kw(Kw::INTO)?;
        self.expect_kw(Kw::TABLE)?;
        let table = self.object_name()?;
        let partitions = self.partitions()?;
        let charset = if self.accept_charset_words()? { Some(self.charset_or_collation()?) } else { None };
        let format = self.file_format()?;
        let skip = self.lines_to_skip()?;
        let targets = self.load_targets()?;
        let assignments = if self.accept_kw(Kw::SET) { self.assignments()? } else { Vec::new() };
        Ok(Statement::Load(Box::new(LoadData {
            priority,
            local,
            file,
            duplicates,
            table,
            partitions,
            charset,
            format,
            skip,
            targets,
            assignments,
        })))
    }

    /// IGNORE n LINES.
    fn lines_to_skip(&mut self) -> SqlResult<u64> {
        if !self.accept_kw(Kw::IGNORE) {
            return Ok(0);
        }
        let count = self.integer()?;
        self.expect_any(&[Kw::LINES, Kw::ROWS])?;
        Ok(count)
    }

    fn load_targets(&mut self) -> SqlResult<Vec<LoadTarget>> {
        if !self.accept(Tok::LParen) || self.accept(Tok::RParen) {
            return Ok(Vec::new());
        }
        let targets = self.list(|parser| {
            if parser.at(Tok::At) {
                return Ok(LoadTarget::UserVar(parser.user_var_name()?));
            }
            let column: ColumnName = parser.column_name()?;
            Ok(LoadTarget::Column(column))
        })?;
        self.expect(Tok::RParen)?;
        Ok(targets)
    }

    /// FIELDS and LINES, each with at least one of its clauses.
    pub(super) fn file_format(&mut self) -> SqlResult<FileFormat> {
        let mut format = FileFormat::default();
        if self.accept_any(&[Kw::FIELDS, Kw::COLUMNS]).is_some() {
            let mut said = false;
            while self.accept_field_clause(&mut format)? {
                said = true;
            }
            if !said {
                return Err(self.unexpected());
            }
        }
        if self.accept_kw(Kw::LINES) {
            let mut said = false;
            while let Some(kw) = self.accept_any(&[Kw::TERMINATED, Kw::STARTING]) {
                said = true;
                self.expect_kw(Kw::BY)?;
                let text = Some(self.string_or_bytes()?);
                match kw {
                    Kw::STARTING => format.line_start = text,
                    _ => format.line_end = text,
                }
            }
            if !said {
                return Err(self.unexpected());
            }
        }
        Ok(format)
    }

    fn accept_field_clause(&mut self, format: &mut FileFormat) -> SqlResult<bool> {
        let words = &[Kw::TERMINATED, Kw::OPTIONALLY, Kw::ENCLOSED, Kw::ESCAPED];
        let Some(kw) = self.accept_any(words) else { return Ok(false) };
        if kw == Kw::OPTIONALLY {
            self.expect_kw(Kw::ENCLOSED)?;
            format.optionally = true;
        }
        self.expect_kw(Kw::BY)?;
        let text = Some(self.string_or_bytes()?);
        match kw {
            Kw::TERMINATED => format.terminated = text,
            Kw::ESCAPED => format.escaped = text,
            _ => format.enclosed = text,
        }
        Ok(true)
    }
}
