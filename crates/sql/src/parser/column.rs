//! Types, column definitions, CAST's types, names of character sets.

use super::{Parser, TypeFamily};
use crate::ast::{
    ByteStr, CastType, ColumnDef, ColumnKey, DataType, DataTypeKind, Expr, Generated, ReferenceAction,
    References,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

/// CAST's and DECIMAL's digits where none are said.
const DECIMAL_DIGITS: u32 = 10;

fn data_type(kind: DataTypeKind) -> DataType {
    DataType {
        kind,
        length: None,
        decimals: None,
        unsigned: false,
        zerofill: false,
        charset: None,
        collation: None,
        binary: false,
        members: Vec::new(),
    }
}

impl Parser<'_> {
    /// CHARACTER SET, CHAR SET, CHARSET.
    pub(super) fn accept_charset_words(&mut self) -> SqlResult<bool> {
        if self.accept_any(&[Kw::CHARACTER, Kw::CHAR]).is_some() {
            self.expect_kw(Kw::SET)?;
            return Ok(true);
        }
        if self.at_kw(Kw::CHARSET) && !matches!(self.peek_at(1).tok, Tok::LParen | Tok::Dot) {
            self.advance();
            return Ok(true);
        }
        Ok(false)
    }

    /// The name of a character set, or of a collation where `binary` is one too.
    pub(super) fn charset_or_collation(&mut self) -> SqlResult<String> {
        if self.accept_kw(Kw::BINARY) { Ok("binary".to_owned()) } else { self.name_or_text() }
    }

    /// `(n)`.
    fn width(&mut self) -> SqlResult<Option<u64>> {
        if !self.at(Tok::LParen) {
            return Ok(None);
        }
        self.advance();
        let width = self.integer()?;
        self.expect(Tok::RParen)?;
        Ok(Some(width))
    }

    /// `(n)` that must be there.
    fn required_width(&mut self) -> SqlResult<Option<u64>> {
        if self.at(Tok::LParen) { self.width() } else { Err(self.unexpected()) }
    }

    /// `(m)`, `(m,d)`.
    fn precision(&mut self) -> SqlResult<(Option<u64>, Option<u32>)> {
        if !self.accept(Tok::LParen) {
            return Ok((None, None));
        }
        let digits = self.integer()?;
        let scale = match self.accept(Tok::Comma) {
            // Beside a scale, the grammar takes integers of 31 bits alone.
            true if digits > i32::MAX as u64 => return Err(self.unexpected()),
            true => Some(self.scale()?),
            false => None,
        };
        self.expect(Tok::RParen)?;
        Ok((Some(digits), scale))
    }

    /// An integer of 31 bits.
    fn scale(&mut self) -> SqlResult<u32> {
        let first = self.pos;
        let scale = self.small_integer()?;
        if scale > i32::MAX as u32 {
            self.pos = first;
            return Err(self.unexpected());
        }
        Ok(scale)
    }

    fn small_integer(&mut self) -> SqlResult<u32> {
        Ok(u32::try_from(self.integer()?).unwrap_or(u32::MAX))
    }

    /// What CAST makes.
    pub(super) fn cast_type(&mut self) -> SqlResult<CastType> {
        let Some(kw) = self.peek().kw else { return self.other_cast_type() };
        let first = self.pos;
        self.advance();
        Ok(match kw {
            Kw::BINARY => CastType::Binary(self.width()?),
            Kw::CHAR | Kw::CHARACTER | Kw::VARCHAR => self.cast_char(None)?,
            Kw::NCHAR => self.cast_char(Some("utf8mb3".to_owned()))?,
            Kw::NATIONAL => {
                self.expect_any(&[Kw::CHAR, Kw::CHARACTER])?;
                self.cast_char(Some("utf8mb3".to_owned()))?
            }
            Kw::DATE => CastType::Date,
            Kw::TIME => CastType::Time(self.fraction_digits()?),
            Kw::DATETIME => CastType::DateTime(self.fraction_digits()?),
            Kw::DECIMAL | Kw::DEC | Kw::NUMERIC | Kw::FIXED => {
                let (digits, scale) = self.precision()?;
                let precision =
                    digits.map_or(DECIMAL_DIGITS, |digits| u32::try_from(digits).unwrap_or(u32::MAX));
                CastType::Decimal { precision, scale: scale.unwrap_or(0) }
            }
            Kw::DOUBLE => CastType::Double(self.double_digits()?),
            Kw::FLOAT => CastType::Float,
            Kw::SIGNED => {
                self.accept_any(&[Kw::INT, Kw::INTEGER]);
                CastType::Signed
            }
            Kw::INT | Kw::INTEGER => CastType::Signed,
            Kw::UNSIGNED => {
                self.accept_any(&[Kw::INT, Kw::INTEGER]);
                CastType::Unsigned
            }
            Kw::INTERVAL => {
                self.expect_kw(Kw::DAY_SECOND)?;
                CastType::IntervalDaySecond(self.fraction_digits()?)
            }
            _ => {
                self.pos = first;
                self.other_cast_type()?
            }
        })
    }

    /// `(m,d)` behind DOUBLE, which takes both or neither here.
    fn double_digits(&mut self) -> SqlResult<Option<(u32, u32)>> {
        if !self.accept(Tok::LParen) {
            return Ok(None);
        }
        let digits = self.scale()?;
        self.expect(Tok::Comma)?;
        let scale = self.scale()?;
        self.expect(Tok::RParen)?;
        Ok(Some((digits, scale)))
    }

    fn other_cast_type(&mut self) -> SqlResult<CastType> {
        const TYPES: &[&str] = &["inet4", "inet6", "uuid"];
        if self.at_kw(Kw::JSON) {
            return Err(self.unexpected());
        }
        self.refuse_dual()?;
        let name = self.ident()?.to_ascii_lowercase();
        if TYPES.contains(&name.as_str()) {
            Ok(CastType::Other(name))
        } else {
            Err(errors::unknown_data_type(name))
        }
    }

    /// DUAL is a reserved word, but may stand where the name of a type does.
    fn refuse_dual(&self) -> SqlResult<()> {
        match self.at_kw(Kw::DUAL) {
            true => Err(errors::unknown_data_type(String::from_utf8_lossy(self.text_of(self.peek())))),
            false => Ok(()),
        }
    }

    fn cast_char(&mut self, national: Option<String>) -> SqlResult<CastType> {
        let length = self.width()?;
        let mut attributes = data_type(DataTypeKind::Char);
        attributes.charset = national;
        self.charset_attributes(&mut attributes)?;
        let collation = attributes.collation.or(attributes.binary.then(|| "binary".to_owned()));
        Ok(CastType::Char { length, charset: attributes.charset, collation })
    }

    fn fraction_digits(&mut self) -> SqlResult<u32> {
        Ok(self.width()?.map_or(0, |digits| u32::try_from(digits).unwrap_or(u32::MAX)))
    }

    /// A column's name, type and attributes.
    pub(super) fn column_def(&mut self) -> SqlResult<ColumnDef> {
        let name = self.defined_column()?;
        self.column_after(name)
    }

    /// A column's name in a definition, perhaps behind the names of its table and database.
    pub(super) fn defined_column(&mut self) -> SqlResult<String> {
        if self.accept(Tok::Dot) {
            return self.ident();
        }
        let name = self.column_name()?;
        let Some(defined) = &self.defined else { return Ok(name.column) };
        if let (Some(db), Some(own)) = (&name.db, &defined.db)
            && !db.eq_ignore_ascii_case(own)
        {
            return Err(errors::wrong_db_name(db));
        }
        if let Some(table) = &name.table
            && !table.eq_ignore_ascii_case(&defined.name)
        {
            return Err(errors::wrong_table_name(table));
        }
        Ok(name.column)
    }

    /// Behind a column's name.
    pub(super) fn column_after(&mut self, name: String) -> SqlResult<ColumnDef> {
        let mut column = ColumnDef::of(name, data_type(DataTypeKind::BigInt));
        if self.accept_kw(Kw::SERIAL) {
            column.data_type.unsigned = true;
            serial(&mut column);
        } else {
            column.data_type = self.data_type()?;
        }
        while self.column_attribute(&mut column)? {}
        Ok(column)
    }

    /// One attribute; false where none follows.
    fn column_attribute(&mut self, column: &mut ColumnDef) -> SqlResult<bool> {
        let Some(kw) = self.peek().kw else { return self.engine_attribute() };
        if column.generated.is_some() && is_of_base_columns(kw) {
            return Err(self.unexpected());
        }
        match kw {
            Kw::NULL => {
                self.advance();
                column.nullable = Some(true);
            }
            Kw::NOT => {
                self.advance();
                self.expect_kw(Kw::NULL)?;
                column.nullable = Some(false);
            }
            Kw::DEFAULT => {
                self.advance();
                column.default = Some(self.default_value()?);
            }
            Kw::ON => {
                self.advance();
                self.expect_kw(Kw::UPDATE)?;
                column.on_update = Some(self.now()?);
            }
            Kw::AUTO_INCREMENT => {
                self.advance();
                column.auto_increment = true;
                // As in MariaDB, only a NULL behind it changes this.
                column.nullable = Some(false);
            }
            Kw::SERIAL => {
                self.advance();
                self.expect_kw(Kw::DEFAULT)?;
                self.expect_kw(Kw::VALUE)?;
                serial(column);
            }
            Kw::PRIMARY | Kw::KEY => {
                self.accept_kw(Kw::PRIMARY);
                self.expect_kw(Kw::KEY)?;
                column.key = Some(ColumnKey::Primary);
            }
            Kw::UNIQUE => {
                self.advance();
                self.accept_kw(Kw::KEY);
                column.key.get_or_insert(ColumnKey::Unique);
            }
            Kw::COMMENT => {
                self.advance();
                column.comment = Some(self.string()?);
            }
            Kw::COLLATE => {
                self.advance();
                column.collation = Some(self.charset_or_default()?);
            }
            Kw::INVISIBLE => {
                self.advance();
                column.invisible = true;
            }
            Kw::REFERENCES if self.no_references => return Err(self.unexpected()),
            Kw::REFERENCES => column.references = Some(Box::new(self.references()?)),
            Kw::CONSTRAINT | Kw::CHECK => {
                if self.accept_kw(Kw::CONSTRAINT) && !self.at_kw(Kw::CHECK) {
                    self.ident()?;
                }
                self.expect_kw(Kw::CHECK)?;
                column.check = Some(Box::new(self.parenthesized_expr()?));
            }
            Kw::GENERATED | Kw::AS if has_attributes(column) => return Err(self.unexpected()),
            Kw::GENERATED | Kw::AS => column.generated = Some(self.generated()?),
            Kw::WITH | Kw::WITHOUT if self.peek_at(1).kw == Some(Kw::SYSTEM) => {
                return Err(errors::not_supported_yet("SYSTEM VERSIONING"));
            }
            Kw::COMPRESSED => return Err(errors::not_supported_yet("COMPRESSED columns")),
            Kw::FIRST | Kw::AFTER => return Ok(false),
            _ => return self.engine_attribute(),
        }
        Ok(true)
    }

    /// `name = value`, which some engines know and Keel's does not: error 1911.
    fn engine_attribute(&mut self) -> SqlResult<bool> {
        if !self.at_unknown_word() {
            return Ok(false);
        }
        let name = self.ident()?;
        self.expect(Tok::Eq)?;
        self.option_value()?;
        Err(errors::unknown_option(name))
    }

    /// DEFAULT's value: one operand, or an expression in parentheses.
    pub(super) fn default_value(&mut self) -> SqlResult<Expr> {
        let first = self.pos;
        if self.at(Tok::Minus) || self.at(Tok::Plus) {
            // A sign belongs to a number.
            let number = self.peek_at(1).tok;
            if !matches!(number, Tok::Int | Tok::Decimal | Tok::Float) {
                self.advance();
                return Err(self.unexpected());
            }
        }
        if self.at(Tok::Tilde) || self.at(Tok::Bang) || self.at_any(&[Kw::NOT, Kw::BINARY]) {
            return Err(self.unexpected());
        }
        let value = self.operand()?;
        self.fix_literals(first);
        Ok(value)
    }

    fn parenthesized_expr(&mut self) -> SqlResult<Expr> {
        self.expect(Tok::LParen)?;
        let expr = self.expr()?;
        self.expect(Tok::RParen)?;
        Ok(expr)
    }

    /// CURRENT_TIMESTAMP and its synonyms.
    fn now(&mut self) -> SqlResult<Expr> {
        if !self.at_any(&[Kw::CURRENT_TIMESTAMP, Kw::LOCALTIME, Kw::LOCALTIMESTAMP, Kw::NOW]) {
            return Err(self.unexpected());
        }
        let first = self.pos;
        if self.at_kw(Kw::NOW) && !(self.at_adjacent() && self.peek_at(1).tok == Tok::LParen) {
            return Err(self.unexpected());
        }
        let now = self.operand()?;
        self.fix_literals(first);
        Ok(now)
    }

    fn generated(&mut self) -> SqlResult<Generated> {
        if self.accept_kw(Kw::GENERATED) {
            self.expect_kw(Kw::ALWAYS)?;
        }
        self.expect_kw(Kw::AS)?;
        if self.at_kw(Kw::ROW) {
            return Err(errors::not_supported_yet("SYSTEM VERSIONING"));
        }
        let expr = Box::new(self.parenthesized_expr()?);
        let stored =
            self.accept_any(&[Kw::VIRTUAL, Kw::PERSISTENT, Kw::STORED]).is_some_and(|kw| kw != Kw::VIRTUAL);
        Ok(Generated { expr, stored })
    }

    /// At REFERENCES.
    pub(super) fn references(&mut self) -> SqlResult<References> {
        self.expect_kw(Kw::REFERENCES)?;
        let table = self.object_name()?;
        let columns = if self.at(Tok::LParen) { self.parens(Self::key_part)? } else { Vec::new() };
        let mut references = References { table, columns, on_delete: None, on_update: None };
        if self.accept_kw(Kw::MATCH) {
            let words = [Kw::FULL, Kw::PARTIAL, Kw::SIMPLE];
            self.expect_any(&words)?;
        }
        while self.accept_kw(Kw::ON) {
            let on_delete = self.expect_any(&[Kw::DELETE, Kw::UPDATE])? == Kw::DELETE;
            let action = Some(self.reference_action()?);
            if on_delete {
                references.on_delete = action;
            } else {
                references.on_update = action;
            }
        }
        Ok(references)
    }

    fn reference_action(&mut self) -> SqlResult<ReferenceAction> {
        Ok(match self.expect_any(&[Kw::RESTRICT, Kw::CASCADE, Kw::SET, Kw::NO])? {
            Kw::RESTRICT => ReferenceAction::Restrict,
            Kw::CASCADE => ReferenceAction::Cascade,
            Kw::NO => {
                self.expect_kw(Kw::ACTION)?;
                ReferenceAction::NoAction
            }
            _ => match self.expect_any(&[Kw::NULL, Kw::DEFAULT])? {
                Kw::NULL => ReferenceAction::SetNull,
                _ => ReferenceAction::SetDefault,
            },
        })
    }

    /// A column's type with its attributes.
    pub(super) fn data_type(&mut self) -> SqlResult<DataType> {
        let family = self.type_family()?;
        let first = self.pos;
        let mut token = self.advance();
        // Behind a point any word may be a name.
        if token.tok == Tok::PlainWord {
            token.kw = Kw::lookup(self.text_of(token));
        }
        if let Some(found) = token.kw.map(|kw| self.foreign_type(family, kw)).transpose()?.flatten() {
            return Ok(found);
        }
        let found = match token.kw {
            Some(kw) => match self.numeric_type(kw)? {
                Some(found) => Some(found),
                None => match self.string_type(kw)? {
                    Some(found) => Some(found),
                    None => self.other_type(kw)?,
                },
            },
            None => None,
        };
        match found {
            Some(found) => Ok(found),
            None => {
                self.pos = first;
                self.refuse_dual()?;
                Err(errors::unknown_data_type(self.ident()?))
            }
        }
    }

    /// Whose types are meant: those of the family named before a point, else those of `sql_mode`.
    fn type_family(&mut self) -> SqlResult<TypeFamily> {
        if !self.at_ident() || self.peek_at(1).tok != Tok::Dot {
            return Ok(self.options.types);
        }
        let name = self.ident()?;
        self.expect(Tok::Dot)?;
        match name.as_str() {
            "mariadb_schema" => Ok(TypeFamily::MariaDb),
            "oracle_schema" => Ok(TypeFamily::Oracle),
            "maxdb_schema" => Ok(TypeFamily::MaxDb),
            _ => {
                let word = String::from_utf8_lossy(self.text_of(self.peek()));
                Err(errors::unknown_data_type(format!("{name}.{word}")))
            }
        }
    }

    /// What a word means in another family's types only. A family that is named concerns dates, the mode all of them.
    fn foreign_type(&mut self, family: TypeFamily, kw: Kw) -> SqlResult<Option<DataType>> {
        use DataTypeKind::*;
        let mut found = match (family, kw) {
            (TypeFamily::Oracle, Kw::DATE) => return Ok(Some(data_type(DateTime))),
            (TypeFamily::MaxDb, Kw::TIMESTAMP) => {
                return Ok(Some(DataType { length: self.width()?, ..data_type(DateTime) }));
            }
            (_, Kw::CLOB | Kw::RAW | Kw::VARCHAR2 | Kw::NUMBER) => data_type(LongText),
            (_, Kw::BLOB) if self.options.types == TypeFamily::Oracle && !self.at(Tok::LParen) => {
                return Ok(Some(data_type(LongBlob)));
            }
            _ => return Ok(None),
        };
        if self.options.types != TypeFamily::Oracle {
            return Err(self.unexpected());
        }
        match kw {
            Kw::RAW => (found.kind, found.length) = (VarBinary, self.required_width()?),
            Kw::NUMBER => {
                (found.length, found.decimals) = self.precision()?;
                found.kind = if found.length.is_some() { Decimal } else { Double };
                self.numeric_attributes(&mut found);
            }
            _ => {
                if kw == Kw::VARCHAR2 {
                    (found.kind, found.length) = (VarChar, self.required_width()?);
                }
                self.charset_attributes(&mut found)?;
            }
        }
        Ok(Some(found))
    }

    fn numeric_type(&mut self, kw: Kw) -> SqlResult<Option<DataType>> {
        use DataTypeKind::*;
        let kind = match kw {
            Kw::TINYINT | Kw::INT1 | Kw::BOOL | Kw::BOOLEAN => TinyInt,
            Kw::SMALLINT | Kw::INT2 => SmallInt,
            Kw::MEDIUMINT | Kw::INT3 | Kw::MIDDLEINT => MediumInt,
            Kw::INT | Kw::INTEGER | Kw::INT4 => Int,
            Kw::BIGINT | Kw::INT8 => BigInt,
            Kw::DECIMAL | Kw::DEC | Kw::NUMERIC | Kw::FIXED => Decimal,
            Kw::FLOAT | Kw::FLOAT4 => Float,
            Kw::REAL if self.options.real_as_float => Float,
            Kw::DOUBLE | Kw::REAL | Kw::FLOAT8 => Double,
            Kw::BIT => Bit,
            _ => return Ok(None),
        };
        let mut found = data_type(kind);
        match kind {
            TinyInt if matches!(kw, Kw::BOOL | Kw::BOOLEAN) => {
                found.length = Some(1);
                return Ok(Some(found));
            }
            Bit => {
                found.length = self.width()?;
                return Ok(Some(found));
            }
            Decimal | Float => (found.length, found.decimals) = self.precision()?,
            Double => {
                if kw == Kw::DOUBLE {
                    self.accept_kw(Kw::PRECISION);
                }
                let digits = self.double_digits()?;
                found.length = digits.map(|(length, _)| u64::from(length));
                found.decimals = digits.map(|(_, decimals)| decimals);
            }
            _ => found.length = self.width()?,
        }
        self.numeric_attributes(&mut found);
        Ok(Some(found))
    }

    /// UNSIGNED and ZEROFILL in either order, or SIGNED.
    fn numeric_attributes(&mut self, found: &mut DataType) {
        let other = match self.accept_any(&[Kw::UNSIGNED, Kw::SIGNED, Kw::ZEROFILL]) {
            Some(Kw::UNSIGNED) => Kw::ZEROFILL,
            Some(Kw::ZEROFILL) => {
                found.zerofill = true;
                Kw::UNSIGNED
            }
            _ => return,
        };
        found.unsigned = true;
        found.zerofill |= self.accept_kw(other) && other == Kw::ZEROFILL;
    }

    fn string_type(&mut self, kw: Kw) -> SqlResult<Option<DataType>> {
        use DataTypeKind::*;
        let mut found = data_type(Char);
        match kw {
            Kw::CHAR | Kw::CHARACTER => {
                if self.accept_any(&[Kw::VARYING]).is_some() {
                    found.kind = VarChar;
                    found.length = self.required_width()?;
                } else {
                    found.length = self.width()?;
                }
            }
            Kw::NCHAR | Kw::NVARCHAR | Kw::NATIONAL => self.national_type(kw, &mut found)?,
            Kw::VARCHAR | Kw::VARCHARACTER => {
                found.kind = VarChar;
                found.length = self.required_width()?;
            }
            Kw::BINARY => {
                found.kind = Binary;
                found.length = self.width()?;
                return Ok(Some(found));
            }
            Kw::VARBINARY => {
                found.kind = VarBinary;
                found.length = self.required_width()?;
                return Ok(Some(found));
            }
            Kw::TINYTEXT => found.kind = TinyText,
            Kw::TEXT => {
                found.kind = Text;
                found.length = self.width()?;
            }
            Kw::MEDIUMTEXT => found.kind = MediumText,
            Kw::LONGTEXT => found.kind = LongText,
            Kw::LONG if self.accept_kw(Kw::VARBINARY) => return Ok(Some(data_type(MediumBlob))),
            Kw::LONG => {
                if self.accept_any(&[Kw::CHAR, Kw::CHARACTER]).is_some() {
                    self.expect_kw(Kw::VARYING)?;
                } else {
                    self.accept_any(&[Kw::VARCHAR, Kw::VARCHARACTER]);
                }
                found.kind = MediumText;
            }
            Kw::TINYBLOB => return Ok(Some(data_type(TinyBlob))),
            Kw::BLOB => {
                found.kind = Blob;
                found.length = self.width()?;
                return Ok(Some(found));
            }
            Kw::MEDIUMBLOB => return Ok(Some(data_type(MediumBlob))),
            Kw::LONGBLOB => return Ok(Some(data_type(LongBlob))),
            Kw::JSON => found.kind = Json,
            Kw::ENUM | Kw::SET => {
                found.kind = if kw == Kw::ENUM { Enum } else { Set };
                found.members = self.parens(Self::member)?;
            }
            _ => return Ok(None),
        }
        self.charset_attributes(&mut found)?;
        Ok(Some(found))
    }

    /// `NCHAR, NVARCHAR, NATIONAL CHAR [VARYING], NCHAR VARCHAR`.
    fn national_type(&mut self, kw: Kw, found: &mut DataType) -> SqlResult<()> {
        found.charset = Some("utf8mb3".to_owned());
        let varying = match kw {
            Kw::NVARCHAR => true,
            Kw::NCHAR => self.accept_any(&[Kw::VARCHAR, Kw::VARCHARACTER, Kw::VARYING]).is_some(),
            _ => match self.expect_any(&[Kw::CHAR, Kw::CHARACTER, Kw::VARCHAR, Kw::VARCHARACTER])? {
                Kw::CHAR | Kw::CHARACTER => self.accept_kw(Kw::VARYING),
                _ => true,
            },
        };
        if varying {
            found.kind = DataTypeKind::VarChar;
            found.length = self.required_width()?;
        } else {
            found.length = self.width()?;
        }
        Ok(())
    }

    fn member(&mut self) -> SqlResult<ByteStr> {
        match self.peek().tok {
            Tok::Hex | Tok::QuotedHex => {
                let first = self.pos;
                let value = self.literal()?;
                self.fix_literals(first);
                match value {
                    Expr::Literal(crate::ast::Literal {
                        value: crate::ast::LiteralValue::Hex { bytes, .. },
                        ..
                    }) => Ok(bytes),
                    _ => Err(self.unexpected()),
                }
            }
            _ => self.string(),
        }
    }

    /// CHARACTER SET, COLLATE and BINARY behind a string type.
    fn charset_attributes(&mut self, found: &mut DataType) -> SqlResult<()> {
        loop {
            if found.charset.is_none() && self.accept_charset_words()? {
                found.charset = Some(self.charset_or_collation()?);
            } else if !found.binary && self.accept_kw(Kw::BINARY) {
                found.binary = true;
            } else if found.charset.is_none() && self.accept_kw(Kw::ASCII) {
                found.charset = Some("latin1".to_owned());
            } else if found.charset.is_none() && self.accept_kw(Kw::UNICODE) {
                found.charset = Some("ucs2".to_owned());
            } else if found.charset.is_none() && self.accept_kw(Kw::BYTE) {
                found.charset = Some("binary".to_owned());
            } else if found.collation.is_none() && self.accept_kw(Kw::COLLATE) {
                found.collation = Some(self.charset_or_default()?);
            } else {
                return Ok(());
            }
        }
    }

    fn other_type(&mut self, kw: Kw) -> SqlResult<Option<DataType>> {
        use DataTypeKind::*;
        let kind = match kw {
            Kw::DATE => Date,
            Kw::TIME => Time,
            Kw::DATETIME => DateTime,
            Kw::TIMESTAMP => Timestamp,
            Kw::YEAR => Year,
            Kw::UUID => Uuid,
            Kw::INET4 => Inet4,
            Kw::INET6 => Inet6,
            Kw::GEOMETRY => Geometry,
            Kw::POINT => Point,
            Kw::LINESTRING => LineString,
            Kw::POLYGON => Polygon,
            Kw::MULTIPOINT => MultiPoint,
            Kw::MULTILINESTRING => MultiLineString,
            Kw::MULTIPOLYGON => MultiPolygon,
            Kw::GEOMETRYCOLLECTION => GeometryCollection,
            _ => return Ok(None),
        };
        let mut found = data_type(kind);
        if matches!(kind, Time | DateTime | Timestamp | Year) {
            found.length = self.width()?;
        } else if matches!(kind, Uuid | Inet4 | Inet6) {
            // A length is read, and means nothing.
            self.precision()?;
        }
        if kind == Year {
            while self.accept_any(&[Kw::UNSIGNED, Kw::SIGNED, Kw::ZEROFILL]).is_some() {}
        }
        Ok(Some(found))
    }
}

/// AUTO_INCREMENT, NOT NULL, UNIQUE.
fn serial(column: &mut ColumnDef) {
    column.nullable = Some(false);
    column.auto_increment = true;
    column.key.get_or_insert(ColumnKey::Unique);
}

/// Attributes that a generated column cannot have.
fn is_of_base_columns(kw: Kw) -> bool {
    matches!(
        kw,
        Kw::NULL
            | Kw::NOT
            | Kw::DEFAULT
            | Kw::ON
            | Kw::AUTO_INCREMENT
            | Kw::SERIAL
            | Kw::PRIMARY
            | Kw::KEY
            | Kw::COLLATE
            | Kw::GENERATED
            | Kw::AS
    )
}

/// Whether anything but a collation stands behind a column's type.
fn has_attributes(column: &ColumnDef) -> bool {
    column.nullable.is_some()
        || column.default.is_some()
        || column.on_update.is_some()
        || column.auto_increment
        || column.key.is_some()
        || column.comment.is_some()
        || column.invisible
        || column.check.is_some()
        || column.references.is_some()
}
