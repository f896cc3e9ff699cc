//! Tables, columns, keys.

use super::Printer;
use crate::ast::{
    AlterAction, CheckDef, ColumnDef, ColumnKey, CreateIndex, CreateTable, DataType, DataTypeKind,
    IndexAlgorithm, KeyDef, KeyKind, KeyOptions, KeyPart, LockWait, OnDuplicate, ReferenceAction, References,
    SequenceOptions, TableOption,
};

fn type_name(kind: DataTypeKind) -> &'static str {
    match kind {
        DataTypeKind::TinyInt => "tinyint",
        DataTypeKind::SmallInt => "smallint",
        DataTypeKind::MediumInt => "mediumint",
        DataTypeKind::Int => "int",
        DataTypeKind::BigInt => "bigint",
        DataTypeKind::Decimal => "decimal",
        DataTypeKind::Float => "float",
        DataTypeKind::Double => "double",
        DataTypeKind::Bit => "bit",
        DataTypeKind::Char => "char",
        DataTypeKind::VarChar => "varchar",
        DataTypeKind::Binary => "binary",
        DataTypeKind::VarBinary => "varbinary",
        DataTypeKind::TinyText => "tinytext",
        DataTypeKind::Text => "text",
        DataTypeKind::MediumText => "mediumtext",
        DataTypeKind::LongText => "longtext",
        DataTypeKind::TinyBlob => "tinyblob",
        DataTypeKind::Blob => "blob",
        DataTypeKind::MediumBlob => "mediumblob",
        DataTypeKind::LongBlob => "longblob",
        DataTypeKind::Json => "json",
        DataTypeKind::Date => "date",
        DataTypeKind::Time => "time",
        DataTypeKind::DateTime => "datetime",
        DataTypeKind::Timestamp => "timestamp",
        DataTypeKind::Year => "year",
        DataTypeKind::Enum => "enum",
        DataTypeKind::Set => "set",
        DataTypeKind::Uuid => "uuid",
        DataTypeKind::Inet4 => "inet4",
        DataTypeKind::Inet6 => "inet6",
        DataTypeKind::Geometry => "geometry",
        DataTypeKind::Point => "point",
        DataTypeKind::LineString => "linestring",
        DataTypeKind::Polygon => "polygon",
        DataTypeKind::MultiPoint => "multipoint",
        DataTypeKind::MultiLineString => "multilinestring",
        DataTypeKind::MultiPolygon => "multipolygon",
        DataTypeKind::GeometryCollection => "geometrycollection",
    }
}

impl Printer {
    fn sequence_options(&mut self, options: &SequenceOptions) {
        let number = |name: &str, value: Option<i64>| value.map(|value| format!(" {name} {value}"));
        let bound = |name: &str, value: Option<Option<i64>>| match value {
            Some(None) => Some(format!(" no {name}")),
            value => number(name, value.flatten()),
        };
        let all = [
            number("start with", options.start),
            bound("minvalue", options.minimum),
            bound("maxvalue", options.maximum),
            number("increment by", options.increment),
            number("cache", options.cache),
            options.cycle.map(|cycle| if cycle { " cycle" } else { " nocycle" }.to_string()),
        ];
        all.iter().flatten().for_each(|option| self.word(option));
    }

    pub(super) fn create_table(&mut self, table: &CreateTable) {
        self.word("create ");
        self.flag(table.or_replace, "or replace ");
        self.flag(table.temporary, "temporary ");
        self.word(if table.sequence.is_some() { "sequence " } else { "table " });
        self.flag(table.if_not_exists, "if not exists ");
        self.object(&table.name);
        if let Some(options) = &table.sequence {
            self.sequence_options(options);
        }
        if let Some(like) = &table.like {
            self.word(" like ");
            self.object(like);
            return;
        }
        if !table.columns.is_empty() || !table.keys.is_empty() || !table.checks.is_empty() {
            self.word(" (");
            self.elements(table);
            self.word(")");
        }
        for option in &table.options {
            self.out.push(' ');
            self.option(option);
        }
        if let Some(select) = &table.select {
            self.word(match select.duplicates {
                Some(OnDuplicate::Ignore) => " ignore",
                Some(OnDuplicate::Replace) => " replace",
                None => "",
            });
            self.word(" as ");
            self.query(&select.query);
        }
    }

    fn elements(&mut self, table: &CreateTable) {
        self.list(&table.columns, |printer, column| printer.column_def(column));
        self.flag(!table.columns.is_empty() && !table.keys.is_empty(), ",");
        self.list(&table.keys, |printer, key| printer.key(key));
        let follows = !table.columns.is_empty() || !table.keys.is_empty();
        self.flag(follows && !table.checks.is_empty(), ",");
        self.list(&table.checks, |printer, check| printer.check(check));
    }

    pub(super) fn column_def(&mut self, column: &ColumnDef) {
        self.ident(&column.name);
        self.out.push(' ');
        self.data_type(&column.data_type);
        let collation = |printer: &mut Self| {
            if let Some(collation) = &column.collation {
                printer.word(" collate ");
                printer.ident(collation);
            }
        };
        if let Some(generated) = &column.generated {
            // Behind the expression there may be none.
            collation(self);
            self.word(" generated always as (");
            self.expr(&generated.expr, 0);
            self.word(if generated.stored { ") stored" } else { ") virtual" });
        }
        match column.nullable {
            Some(true) => self.word(" null"),
            Some(false) => self.word(" not null"),
            None => {}
        }
        if let Some(default) = &column.default {
            self.word(" default ");
            // One operand; more stands in parentheses.
            self.parens(|printer| printer.expr(default, 0));
        }
        if let Some(now) = &column.on_update {
            self.word(" on update ");
            self.expr(now, 0);
        }
        self.flag(column.auto_increment, " auto_increment");
        self.word(match column.key {
            Some(ColumnKey::Primary) => " primary key",
            Some(ColumnKey::Unique) => " unique",
            None => "",
        });
        if let Some(comment) = &column.comment {
            self.word(" comment ");
            self.text(comment);
        }
        if column.generated.is_none() {
            collation(self);
        }
        self.flag(column.invisible, " invisible");
        if let Some(check) = &column.check {
            self.word(" check ");
            self.parens(|printer| printer.expr(check, 0));
        }
        if let Some(references) = &column.references {
            self.references(references);
        }
    }

    pub(super) fn data_type(&mut self, data_type: &DataType) {
        self.word(type_name(data_type.kind));
        match (data_type.length, data_type.decimals) {
            (Some(length), Some(decimals)) => self.word(&format!("({length},{decimals})")),
            (length, _) => self.sized("", length),
        }
        if !data_type.members.is_empty() {
            self.parens(|printer| printer.list(&data_type.members, |printer, member| printer.text(member)));
        }
        self.flag(data_type.unsigned, " unsigned");
        self.flag(data_type.zerofill, " zerofill");
        if let Some(charset) = &data_type.charset {
            self.word(" character set ");
            self.ident(charset);
        }
        self.flag(data_type.binary, " binary");
        if let Some(collation) = &data_type.collation {
            self.word(" collate ");
            self.ident(collation);
        }
    }

    fn key(&mut self, key: &KeyDef) {
        if let Some(constraint) = &key.constraint {
            self.word("constraint ");
            self.ident(constraint);
            self.out.push(' ');
        }
        self.word(match key.kind {
            KeyKind::Primary => "primary key",
            KeyKind::Unique => "unique key",
            KeyKind::Index => "key",
            KeyKind::FullText => "fulltext key",
            KeyKind::Spatial => "spatial key",
            KeyKind::Foreign => "foreign key",
        });
        self.flag(key.if_not_exists, " if not exists");
        if let Some(name) = &key.name {
            self.out.push(' ');
            self.ident(name);
        }
        self.out.push(' ');
        self.key_parts(&key.columns);
        if let Some(references) = &key.references {
            self.references(references);
        }
        self.key_options(&key.options);
    }

    fn key_parts(&mut self, parts: &[KeyPart]) {
        self.parens(|printer| {
            printer.list(parts, |printer, part| {
                printer.ident(&part.column);
                printer.sized("", part.length);
                printer.flag(part.desc, " desc");
            });
        });
    }

    fn key_options(&mut self, options: &KeyOptions) {
        if let Some(algorithm) = options.algorithm {
            self.word(match algorithm {
                IndexAlgorithm::BTree => " using btree",
                IndexAlgorithm::Hash => " using hash",
                IndexAlgorithm::RTree => " using rtree",
            });
        }
        if let Some(size) = options.block_size {
            self.word(&format!(" key_block_size={size}"));
        }
        if let Some(comment) = &options.comment {
            self.word(" comment ");
            self.text(comment);
        }
        self.flag(options.ignored, " ignored");
        if let Some(parser) = &options.parser {
            self.word(" with parser ");
            self.ident(parser);
        }
        for (name, value) in &options.other {
            self.out.push(' ');
            self.ident(name);
            self.out.push('=');
            self.text(value);
        }
    }

    fn references(&mut self, references: &References) {
        self.word(" references ");
        self.object(&references.table);
        if !references.columns.is_empty() {
            self.out.push(' ');
            self.key_parts(&references.columns);
        }
        for (word, action) in [(" on delete ", references.on_delete), (" on update ", references.on_update)] {
            let Some(action) = action else { continue };
            self.word(word);
            self.word(match action {
                ReferenceAction::Restrict => "restrict",
                ReferenceAction::Cascade => "cascade",
                ReferenceAction::SetNull => "set null",
                ReferenceAction::NoAction => "no action",
                ReferenceAction::SetDefault => "set default",
            });
        }
    }

    fn check(&mut self, check: &CheckDef) {
        if let Some(name) = &check.name {
            self.word("constraint ");
            self.flag(check.if_not_exists, "if not exists ");
            self.ident(name);
            self.out.push(' ');
        }
        self.word("check ");
        self.parens(|printer| printer.expr(&check.expr, 0));
    }

    fn option(&mut self, option: &TableOption) {
        match option {
            TableOption::Engine(name) => {
                self.word("engine=");
                self.ident(name);
            }
            TableOption::AutoIncrement(value) => self.word(&format!("auto_increment={value}")),
            TableOption::Charset(name) => self.named("charset=", name),
            TableOption::Collate(name) => self.named("collate=", name),
            TableOption::Comment(comment) => {
                self.word("comment=");
                self.text(comment);
            }
            TableOption::RowFormat(format) => {
                self.word("row_format=");
                self.word(format);
            }
            TableOption::SystemVersioning => self.word("with system versioning"),
            TableOption::Other(name, _) if name == "UNION" => self.word("union=()"),
            TableOption::Named(name, value) => {
                self.ident(name);
                self.word("=");
                self.text(value);
            }
            TableOption::Other(name, value) => {
                self.word(name);
                self.word("=");
                let bare = value.iter().all(u8::is_ascii_digit) || matches!(&**value, b"DEFAULT" | b"ON");
                if bare && !value.is_empty() {
                    self.word(&value.to_text());
                } else {
                    self.text(value);
                }
            }
        }
    }

    fn named(&mut self, word: &str, name: &str) {
        self.word(word);
        if name == "default" {
            self.word("default");
        } else {
            self.ident(name);
        }
    }

    pub(super) fn create_index(&mut self, index: &CreateIndex) {
        self.word("create ");
        self.flag(index.or_replace, "or replace ");
        self.word(match index.key.kind {
            KeyKind::Unique => "unique index ",
            KeyKind::FullText => "fulltext index ",
            KeyKind::Spatial => "spatial index ",
            _ => "index ",
        });
        self.flag(index.key.if_not_exists, "if not exists ");
        if let Some(name) = &index.key.name {
            self.ident(name);
        }
        self.word(" on ");
        self.object(&index.table);
        self.key_parts(&index.key.columns);
        match index.wait {
            Some(LockWait::Wait(seconds)) => self.word(&format!(" wait {seconds}")),
            Some(_) => self.word(" nowait"),
            None => {}
        }
        self.key_options(&index.key.options);
        for option in &index.options {
            match option {
                AlterAction::Algorithm(value) => self.word(&format!(" algorithm={value}")),
                AlterAction::Lock(value) => self.word(&format!(" lock={value}")),
                _ => {}
            }
        }
    }
}
