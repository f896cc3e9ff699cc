//! INSERT, REPLACE, UPDATE, DELETE, LOAD DATA.

use super::Printer;
use crate::ast::{
    Assignment, Delete, Expr, FileFormat, Insert, InsertSource, LoadData, LoadPriority, LoadTarget,
    OnDuplicateRow, Priority, SelectItem, Update,
};

impl Printer {
    pub(super) fn insert(&mut self, insert: &Insert) {
        self.word(if insert.replace { "replace" } else { "insert" });
        self.word(match insert.priority {
            Some(Priority::Low) => " low_priority",
            Some(Priority::High) => " high_priority",
            Some(Priority::Delayed) => " delayed",
            None => "",
        });
        self.flag(insert.ignore, " ignore");
        self.word(" into ");
        self.object(&insert.table);
        if !insert.partitions.is_empty() {
            self.word(" partition ");
            self.parens(|printer| printer.idents(&insert.partitions));
        }
        if insert.has_column_list {
            self.parens(|printer| printer.list(&insert.columns, |printer, column| printer.column(column)));
        }
        self.out.push(' ');
        match &insert.source {
            InsertSource::Values(rows) => self.values(rows),
            InsertSource::Literals(rows) => {
                self.word("values ");
                self.word(&rows.text());
            }
            InsertSource::Query(query) => {
                self.values_in_parens = query.begins_with_values();
                self.query(query);
            }
        }
        if !insert.on_duplicate.is_empty() {
            self.word(" on duplicate key update ");
            self.assignments(&insert.on_duplicate);
        }
        self.returning(&insert.returning);
    }

    fn assignments(&mut self, assignments: &[Assignment]) {
        self.list(assignments, |printer, assignment| {
            printer.column(&assignment.column);
            printer.word(" = ");
            printer.expr(&assignment.value, 0);
        });
    }

    fn returning(&mut self, items: &[SelectItem]) {
        if !items.is_empty() {
            self.word(" returning ");
            self.items(items);
        }
    }

    fn filter(&mut self, filter: &Option<Expr>) {
        if let Some(filter) = filter {
            self.word(" where ");
            self.expr(filter, 0);
        }
    }

    pub(super) fn update(&mut self, update: &Update) {
        if let Some(with) = &update.with {
            self.with(with);
        }
        self.word("update ");
        self.flag(update.low_priority, "low_priority ");
        self.flag(update.ignore, "ignore ");
        self.tables(&update.tables);
        self.word(" set ");
        self.assignments(&update.assignments);
        self.filter(&update.filter);
        self.order_by(&update.order_by);
        if let Some(limit) = &update.limit {
            self.limit(limit);
        }
    }

    pub(super) fn load(&mut self, load: &LoadData) {
        self.word("load data ");
        self.word(match load.priority {
            Some(LoadPriority::Low) => "low_priority ",
            Some(LoadPriority::Concurrent) => "concurrent ",
            None => "",
        });
        self.flag(load.local, "local ");
        self.word("infile ");
        self.text(&load.file);
        self.word(match load.duplicates {
            Some(OnDuplicateRow::Replace) => " replace",
            Some(OnDuplicateRow::Ignore) => " ignore",
            None => "",
        });
        self.word(" into table ");
        self.object(&load.table);
        if !load.partitions.is_empty() {
            self.word(" partition ");
            self.parens(|printer| printer.idents(&load.partitions));
        }
        if let Some(charset) = &load.charset {
            self.word(" character set ");
            self.ident(charset);
        }
        self.file_format(&load.format);
        if load.skip > 0 {
            self.word(&format!(" ignore {} lines", load.skip));
        }
        if !load.targets.is_empty() {
            self.out.push(' ');
            self.parens(|printer| {
                printer.list(&load.targets, |printer, target| match target {
                    LoadTarget::Column(column) => printer.column(column),
                    LoadTarget::UserVar(name) => printer.user_var(name),
                });
            });
        }
        if !load.assignments.is_empty() {
            self.word(" set ");
            self.assignments(&load.assignments);
        }
    }

    pub(super) fn file_format(&mut self, format: &FileFormat) {
        let enclosed = if format.optionally { " optionally enclosed by " } else { " enclosed by " };
        let fields = [
            (" terminated by ", &format.terminated),
            (enclosed, &format.enclosed),
            (" escaped by ", &format.escaped),
        ];
        let lines = [(" starting by ", &format.line_start), (" terminated by ", &format.line_end)];
        for (head, clauses) in [(" fields", &fields[..]), (" lines", &lines[..])] {
            let said = clauses.iter().filter_map(|(words, text)| Some((words, text.as_ref()?)));
            for (place, (words, text)) in said.enumerate() {
                self.flag(place == 0, head);
                self.word(words);
                self.text(text);
            }
        }
    }

    pub(super) fn delete(&mut self, delete: &Delete) {
        if let Some(with) = &delete.with {
            self.with(with);
        }
        self.word("delete ");
        self.flag(delete.low_priority, "low_priority ");
        self.flag(delete.quick, "quick ");
        self.flag(delete.ignore, "ignore ");
        if !delete.targets.is_empty() {
            self.list(&delete.targets, |printer, target| printer.object(target));
            self.out.push(' ');
        }
        self.word("from ");
        self.tables(&delete.from);
        self.filter(&delete.filter);
        self.order_by(&delete.order_by);
        if let Some(limit) = &delete.limit {
            self.limit(limit);
        }
        self.returning(&delete.returning);
    }
}
