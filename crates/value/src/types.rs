//! Column and expression types: what MariaDB's `CREATE TABLE` can say about one column, less its name and nullability.
//!
//! `length` is what stands in parentheses: characters of CHAR/VARCHAR, octets of BINARY/VARBINARY and the BLOB family,
//! precision of DECIMAL, display width of integers, bits of BIT. `decimals` is the scale of DECIMAL, the second number of
//! FLOAT(M,D), the fraction digits of temporals, or [`NOT_FIXED`] for floating types without one.

use std::fmt::Write;
use std::sync::Arc;

use crate::collation::{self, CollationId};
use crate::fixed::FixedKind;

/// `decimals` of a FLOAT or DOUBLE that was declared without any.
pub const NOT_FIXED: u8 = 31;

/// `decimals` of a text expression, which MariaDB shows on the wire; columns have 0.
pub const NOT_SPECIFIED: u8 = 39;

/// The kinds of SQL types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum TypeKind {
    Null,
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    Decimal,
    Float,
    Double,
    Bit,
    Year,
    Date,
    Time,
    DateTime,
    Timestamp,
    Char,
    VarChar,
    Binary,
    VarBinary,
    TinyText,
    Text,
    MediumText,
    LongText,
    TinyBlob,
    Blob,
    MediumBlob,
    LongBlob,
    Enum,
    Set,
    Inet4,
    Inet6,
    Uuid,
}

/// How two values of different types meet, after MariaDB's result types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Always NULL.
    Null,
    /// Integers, YEAR and BIT.
    Int,
    /// DECIMAL.
    Decimal,
    /// FLOAT and DOUBLE.
    Real,
    /// Text and octets, ENUM and SET.
    String,
    /// DATE.
    Date,
    /// TIME.
    Time,
    /// DATETIME and TIMESTAMP.
    DateTime,
    /// INET4, INET6 and UUID: they meet text, but no numbers and dates, and not each other.
    Fixed(FixedKind),
}

/// What values of an expression's type are beside what its kind says. Storage and clients know nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Nothing more.
    #[default]
    Plain,
    /// Text that is JSON: results of JSON functions, columns of type JSON.
    Json,
    /// Integers that are truth values to JSON functions.
    Boolean,
    /// Bits that are no longer a column's: their text is a number's, not their octets.
    Digits,
    /// DATETIME values that were TIMESTAMP ones: they are compared as instants.
    Instant,
}

/// A SQL type; cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SqlType {
    /// Which kind.
    pub kind: TypeKind,
    /// UNSIGNED.
    pub unsigned: bool,
    /// ZEROFILL; implies unsigned.
    pub zerofill: bool,
    /// See the module's header.
    pub length: u32,
    /// See the module's header.
    pub decimals: u8,
    /// Collation of text; `binary` for everything else.
    pub collation: CollationId,
    /// Members of ENUM and SET.
    pub members: Option<Arc<[String]>>,
    /// What its values are besides.
    pub format: Format,
}

/// Bits of a column definition's flags on the wire.
pub mod flags {
    #![allow(missing_docs)]
    pub const NOT_NULL: u16 = 1;
    pub const PRI_KEY: u16 = 2;
    pub const UNIQUE_KEY: u16 = 4;
    pub const MULTIPLE_KEY: u16 = 8;
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    pub const ZEROFILL: u16 = 64;
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const TIMESTAMP: u16 = 1024;
    pub const SET: u16 = 2048;
    pub const NO_DEFAULT_VALUE: u16 = 4096;
    pub const ON_UPDATE_NOW: u16 = 8192;
    pub const PART_KEY: u16 = 16384;
    pub const NUM: u16 = 32768;
}

impl SqlType {
    /// A type with MariaDB's default length, decimals and, for text, the default collation of utf8mb4.
    pub fn new(kind: TypeKind) -> SqlType {
        use TypeKind::*;
        let (length, decimals) = match kind {
            Null => (0, 0),
            TinyInt => (4, 0),
            SmallInt => (6, 0),
            MediumInt => (9, 0),
            Int => (11, 0),
            BigInt => (20, 0),
            Decimal => (10, 0),
            Float => (12, NOT_FIXED),
            Double => (22, NOT_FIXED),
            Bit => (1, 0),
            Year => (4, 0),
            Date => (10, 0),
            Time => (10, 0),
            DateTime | Timestamp => (19, 0),
            Char | VarChar | Binary | VarBinary => (1, 0),
            TinyText | TinyBlob => (255, 0),
            Text | Blob => (65_535, 0),
            MediumText | MediumBlob => (16_777_215, 0),
            LongText | LongBlob => (u32::MAX, 0),
            Enum | Set => (0, 0),
            Inet4 => (15, 0),
            Inet6 => (39, 0),
            Uuid => (36, 0),
        };
        let collation = match kind {
            Char | VarChar | TinyText | Text | MediumText | LongText | Enum | Set => {
                CollationId::UTF8MB4_GENERAL_CI
            }
            _ => CollationId::BINARY,
        };
        SqlType {
            kind,
            unsigned: matches!(kind, Year | Inet4 | Inet6 | Uuid),
            zerofill: kind == Year,
            length,
            decimals,
            collation,
            members: None,
            format: Format::Plain,
        }
    }

    /// BIGINT, as expressions over integers have.
    pub fn bigint() -> SqlType {
        SqlType::new(TypeKind::BigInt)
    }

    /// BIGINT UNSIGNED.
    pub fn bigint_unsigned() -> SqlType {
        SqlType::new(TypeKind::BigInt).with_unsigned()
    }

    /// INT.
    pub fn int() -> SqlType {
        SqlType::new(TypeKind::Int)
    }

    /// DOUBLE without fixed decimals.
    pub fn double() -> SqlType {
        SqlType::new(TypeKind::Double)
    }

    /// The type of the literal NULL.
    pub fn null() -> SqlType {
        SqlType::new(TypeKind::Null)
    }

    /// DECIMAL(precision, scale).
    pub fn decimal(precision: u32, scale: u8) -> SqlType {
        SqlType { length: precision, decimals: scale, ..SqlType::new(TypeKind::Decimal) }
    }

    /// VARCHAR(length) of a collation.
    pub fn varchar(length: u32, collation: CollationId) -> SqlType {
        SqlType { length, collation, ..SqlType::new(TypeKind::VarChar) }
    }

    /// CHAR(length) of a collation.
    pub fn char(length: u32, collation: CollationId) -> SqlType {
        SqlType { length, collation, ..SqlType::new(TypeKind::Char) }
    }

    /// VARBINARY(length).
    pub fn varbinary(length: u32) -> SqlType {
        SqlType { length, ..SqlType::new(TypeKind::VarBinary) }
    }

    /// DATE, TIME, DATETIME or TIMESTAMP with fraction digits.
    pub fn temporal(kind: TypeKind, fraction_digits: u8) -> SqlType {
        SqlType { decimals: fraction_digits, ..SqlType::new(kind) }
    }

    /// ENUM or SET over members.
    pub fn members_of(kind: TypeKind, members: Vec<String>, collation: CollationId) -> SqlType {
        SqlType { members: Some(members.into()), collation, ..SqlType::new(kind) }
    }

    /// The same, UNSIGNED; default display widths become MariaDB's unsigned ones.
    pub fn with_unsigned(mut self) -> SqlType {
        use TypeKind::*;
        if !self.unsigned && self.length == SqlType::new(self.kind).length {
            match self.kind {
                TinyInt | SmallInt | Int => self.length -= 1,
                MediumInt => self.length = 8,
                _ => {}
            }
        }
        self.unsigned = true;
        self
    }

    /// The same, ZEROFILL (and so UNSIGNED).
    pub fn with_zerofill(self) -> SqlType {
        SqlType { zerofill: true, ..self.with_unsigned() }
    }

    /// The same with another length.
    pub fn with_length(self, length: u32) -> SqlType {
        SqlType { length, ..self }
    }

    /// The same with other decimals.
    pub fn with_decimals(self, decimals: u8) -> SqlType {
        SqlType { decimals, ..self }
    }

    /// The same with another collation.
    pub fn with_collation(self, collation: CollationId) -> SqlType {
        SqlType { collation, ..self }
    }

    /// The same as JSON functions are to take it.
    pub fn with_format(self, format: Format) -> SqlType {
        SqlType { format, ..self }
    }

    /// Whether the text of its values is the octets of a BIT.
    pub fn is_octets_of_bits(&self) -> bool {
        self.kind == TypeKind::Bit && self.format != Format::Digits
    }

    /// How values of this type meet others.
    pub fn class(&self) -> Class {
        use TypeKind::*;
        match self.kind {
            Null => Class::Null,
            TinyInt | SmallInt | MediumInt | Int | BigInt | Bit | Year => Class::Int,
            Decimal => Class::Decimal,
            Float | Double => Class::Real,
            Date => Class::Date,
            Time => Class::Time,
            DateTime | Timestamp => Class::DateTime,
            Inet4 => Class::Fixed(FixedKind::Inet4),
            Inet6 => Class::Fixed(FixedKind::Inet6),
            Uuid => Class::Fixed(FixedKind::Uuid),
            _ => Class::String,
        }
    }

    /// TINYINT to BIGINT.
    pub fn is_integer(&self) -> bool {
        (TypeKind::TinyInt..=TypeKind::BigInt).contains(&self.kind)
    }

    /// Integers, DECIMAL, FLOAT and DOUBLE, BIT and YEAR.
    pub fn is_numeric(&self) -> bool {
        (TypeKind::TinyInt..=TypeKind::Year).contains(&self.kind)
    }

    /// Whether values are instants, of which the session's clock may show two alike.
    pub fn is_instant(&self) -> bool {
        self.kind == TypeKind::Timestamp || self.format == Format::Instant
    }

    /// DATE, TIME, DATETIME or TIMESTAMP.
    pub fn is_temporal(&self) -> bool {
        (TypeKind::Date..=TypeKind::Timestamp).contains(&self.kind)
    }

    /// Every kind whose values are `Bytes`.
    pub fn is_string(&self) -> bool {
        (TypeKind::Char..=TypeKind::LongBlob).contains(&self.kind)
    }

    /// INET4, INET6 or UUID.
    pub fn is_fixed(&self) -> bool {
        FixedKind::of(self.kind).is_some()
    }

    /// The BLOB and TEXT families.
    pub fn is_blob(&self) -> bool {
        (TypeKind::TinyText..=TypeKind::LongBlob).contains(&self.kind)
    }

    /// Text of a character set, ENUM and SET included.
    pub fn is_text(&self) -> bool {
        use TypeKind::*;
        matches!(self.kind, Char | VarChar | TinyText | Text | MediumText | LongText | Enum | Set)
    }

    /// ENUM or SET.
    pub fn has_members(&self) -> bool {
        matches!(self.kind, TypeKind::Enum | TypeKind::Set)
    }

    /// The members of ENUM and SET, empty for others.
    pub fn members(&self) -> &[String] {
        self.members.as_deref().unwrap_or(&[])
    }

    /// Octets of an integer, 0 for other kinds.
    pub const fn integer_bytes(&self) -> usize {
        match self.kind {
            TypeKind::TinyInt => 1,
            TypeKind::SmallInt => 2,
            TypeKind::MediumInt => 3,
            TypeKind::Int => 4,
            TypeKind::BigInt => 8,
            _ => 0,
        }
    }

    /// The smallest and largest value of an integer type; a signed minimum of 0 and `u64` maximum for unsigned types.
    pub fn integer_range(&self) -> (i64, u64) {
        let bits = self.integer_bytes() as u32 * 8;
        match (bits, self.unsigned) {
            (0, _) => (0, 0),
            (64, true) => (0, u64::MAX),
            (64, false) => (i64::MIN, i64::MAX as u64),
            (_, true) => (0, (1 << bits) - 1),
            (_, false) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        }
    }

    /// The most octets that a value takes in its own character set.
    pub fn max_octets(&self) -> u64 {
        use TypeKind::*;
        match self.kind {
            Char | VarChar => u64::from(self.length) * u64::from(self.collation.charset().max_bytes()),
            Enum => self.member_chars() * u64::from(self.collation.charset().max_bytes()),
            Set => self.member_chars() * u64::from(self.collation.charset().max_bytes()),
            _ if self.is_string() => u64::from(self.length),
            _ => u64::from(self.display_length()),
        }
    }

    /// Characters of the longest ENUM member, or of all SET members with commas.
    fn member_chars(&self) -> u64 {
        let lengths = self.members().iter().map(|m| m.chars().count() as u64);
        match self.kind {
            TypeKind::Set => lengths.map(|n| n + 1).sum::<u64>().saturating_sub(1),
            _ => lengths.max().unwrap_or(0),
        }
    }

    /// Characters of the longest printed form.
    pub fn display_length(&self) -> u32 {
        use TypeKind::*;
        let fraction = if self.decimals > 0 { 1 + u32::from(self.decimals) } else { 0 };
        match self.kind {
            Decimal => {
                let sign = u32::from(!self.unsigned);
                let point = u32::from(self.decimals > 0);
                self.length + sign + point
            }
            Time | DateTime | Timestamp => self.length + fraction,
            Enum | Set => self.member_chars() as u32,
            _ => self.length,
        }
    }

    /// The length of a column definition on the wire when results are sent in `results`' character set.
    pub fn wire_length(&self, results: CollationId) -> u32 {
        use TypeKind::*;
        let to_octets = |chars: u64| {
            let per_char = if results == CollationId::BINARY {
                self.collation.charset().max_bytes()
            } else {
                results.charset().max_bytes()
            };
            (chars * u64::from(per_char)).min(u64::from(u32::MAX)) as u32
        };
        match self.kind {
            Char | VarChar | Enum | Set | Inet4 | Inet6 | Uuid => to_octets(u64::from(self.display_length())),
            // Counted in octets already: as many where nothing is converted.
            TinyText | Text | MediumText | LongText if results == CollationId::BINARY => self.length,
            TinyText | Text | MediumText | LongText => to_octets(u64::from(self.length)),
            _ => self.display_length(),
        }
    }

    /// The decimals of a column definition on the wire: those of the type, which for text are 0 in a column and
    /// [`NOT_SPECIFIED`] in an expression.
    pub fn wire_decimals(&self) -> u8 {
        self.decimals
    }

    /// MYSQL_TYPE_x of a column definition: the BLOB family is one type there, ENUM and SET are strings.
    pub const fn wire_type(&self) -> u8 {
        use TypeKind::*;
        match self.kind {
            TinyInt => 1,
            SmallInt => 2,
            Int => 3,
            Float => 4,
            Double => 5,
            Null => 6,
            Timestamp => 7,
            BigInt => 8,
            MediumInt => 9,
            Date => 10,
            Time => 11,
            DateTime => 12,
            Year => 13,
            Bit => 16,
            Decimal => 246,
            TinyText | Text | MediumText | LongText | TinyBlob | Blob | MediumBlob | LongBlob => 252,
            VarChar | VarBinary => 253,
            Char | Binary | Enum | Set | Inet4 | Inet6 | Uuid => 254,
        }
    }

    /// The flags of a column definition that follow from the type alone.
    pub fn wire_flags(&self) -> u16 {
        let mut bits = 0;
        if self.unsigned || self.kind == TypeKind::Bit || self.kind == TypeKind::Timestamp {
            bits |= flags::UNSIGNED;
        }
        if self.zerofill {
            bits |= flags::ZEROFILL;
        }
        if self.is_blob() {
            bits |= flags::BLOB;
        }
        let has_collation = self.is_string() || self.has_members();
        if self.is_temporal() || has_collation && collation::is_binary(self.collation) {
            bits |= flags::BINARY;
        }
        match self.kind {
            TypeKind::Enum => bits |= flags::ENUM,
            TypeKind::Set => bits |= flags::SET,
            _ => {}
        }
        bits
    }

    /// The character set number of a column definition: the results' collation for text, `binary` for the rest.
    pub fn wire_charset(&self, results: CollationId) -> u16 {
        if !self.is_text() && !self.is_fixed() {
            CollationId::BINARY.0
        } else if results == CollationId::BINARY {
            self.collation.0
        } else {
            results.0
        }
    }

    /// The type as SHOW CREATE TABLE prints it, without character set.
    pub fn sql_name(&self) -> String {
        use TypeKind::*;
        let mut out = String::new();
        let name = match self.kind {
            Null => "null",
            TinyInt => "tinyint",
            SmallInt => "smallint",
            MediumInt => "mediumint",
            Int => "int",
            BigInt => "bigint",
            Decimal => "decimal",
            Float => "float",
            Double => "double",
            Bit => "bit",
            Year => "year",
            Date => "date",
            Time => "time",
            DateTime => "datetime",
            Timestamp => "timestamp",
            Char => "char",
            VarChar => "varchar",
            Binary => "binary",
            VarBinary => "varbinary",
            TinyText => "tinytext",
            Text => "text",
            MediumText => "mediumtext",
            LongText => "longtext",
            TinyBlob => "tinyblob",
            Blob => "blob",
            MediumBlob => "mediumblob",
            LongBlob => "longblob",
            Enum => "enum",
            Set => "set",
            Inet4 => "inet4",
            Inet6 => "inet6",
            Uuid => "uuid",
        };
        out.push_str(name);
        match self.kind {
            Decimal => write!(out, "({},{})", self.length, self.decimals),
            Float | Double if self.decimals != NOT_FIXED => {
                write!(out, "({},{})", self.length, self.decimals)
            }
            Time | DateTime | Timestamp if self.decimals > 0 => write!(out, "({})", self.decimals),
            TinyInt | SmallInt | MediumInt | Int | BigInt | Bit | Year | Char | VarChar | Binary
            | VarBinary => {
                write!(out, "({})", self.length)
            }
            _ => Ok(()),
        }
        .expect("a String takes all text");
        if self.has_members() {
            self.push_members(&mut out);
        }
        if self.kind != Year && !self.is_fixed() {
            if self.unsigned {
                out.push_str(" unsigned");
            }
            if self.zerofill {
                out.push_str(" zerofill");
            }
        }
        out
    }

    fn push_members(&self, out: &mut String) {
        out.push('(');
        for (i, member) in self.members().iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push('\'');
            out.push_str(&member.replace('\'', "''"));
            out.push('\'');
        }
        out.push(')');
    }
}
