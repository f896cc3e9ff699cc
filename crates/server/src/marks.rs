//! Parameters that stand for DEFAULT or IGNORE: EXECUTE ... USING DEFAULT, and the marks of COM_STMT_BULK_EXECUTE.
//!
//! Such a parameter is no value: the statement is written with the word in the parameter's place, and bound again. It may
//! stand where a column is assigned. As an item of a list that nobody computes with (SELECT, RETURNING, DO, ORDER BY,
//! GROUP BY) it is NULL, as in MariaDB; anywhere else it is error 4032.

use keel_base::{SqlResult, errors};
use keel_sql::ast::{
    Assignment, ExplainTarget, Expr, Insert, InsertSource, Literal, LiteralValue, Query, QueryBody,
    SelectItem, Statement,
};
use keel_wire::bulk::Mark;

/// The statement with DEFAULT, IGNORE or NULL in place of the parameters that `marks` names by their numbers.
pub fn with_marks(statement: &Statement, marks: &[(usize, Mark)]) -> SqlResult<Statement> {
    let mut statement = statement.clone();
    let mut writer = Writer { marks, left: marks.len() };
    writer.statement(&mut statement);
    if writer.left == 0 { Ok(statement) } else { Err(errors::invalid_default_param()) }
}

struct Writer<'a> {
    marks: &'a [(usize, Mark)],
    /// Marks whose parameter has not been met where it may stand.
    left: usize,
}

impl Writer<'_> {
    fn statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.assignments(&mut update.assignments),
            Statement::Delete(delete) => self.items(&mut delete.returning),
            Statement::Query(query) => self.query(query),
            Statement::Explain(explain) => {
                if let ExplainTarget::Statement(explained) = &mut explain.what {
                    self.statement(explained);
                }
            }
            Statement::Do(items) => items.iter_mut().for_each(|item| self.unread(item)),
            _ => {}
        }
    }

    fn insert(&mut self, insert: &mut Insert) {
        if let InsertSource::Values(rows) = &mut insert.source {
            rows.iter_mut().flatten().for_each(|value| self.assigned(value));
        }
        self.assignments(&mut insert.on_duplicate);
        self.items(&mut insert.returning);
    }

    fn assignments(&mut self, assignments: &mut [Assignment]) {
        assignments.iter_mut().for_each(|assignment| self.assigned(&mut assignment.value));
    }

    fn query(&mut self, query: &mut Query) {
        let QueryBody::Select(select) = &mut query.body else { return };
        self.items(&mut select.items);
        select.group_by.iter_mut().for_each(|item| self.unread(&mut item.expr));
        query.order_by.iter_mut().for_each(|item| self.unread(&mut item.expr));
    }

    fn items(&mut self, items: &mut [SelectItem]) {
        for item in items {
            if let SelectItem::Expr { expr, .. } = item {
                self.unread(expr);
            }
        }
    }

    fn assigned(&mut self, value: &mut Expr) {
        match self.mark(value) {
            Some(Mark::Default) => *value = Expr::Default(None),
            Some(Mark::Ignore) => *value = Expr::Ignore,
            None => {}
        }
    }

    fn unread(&mut self, value: &mut Expr) {
        if self.mark(value).is_some() {
            *value = Expr::Literal(Literal { value: LiteralValue::Null, index: None });
        }
    }

    /// The mark of a parameter, which counts as met.
    fn mark(&mut self, value: &Expr) -> Option<Mark> {
        let Expr::Param(index) = value else { return None };
        let (_, mark) = self.marks.iter().find(|(place, _)| *place == *index as usize)?;
        self.left -= 1;
        Some(*mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Statement {
        let options = keel_sql::ParseOptions { prepare: true, ..keel_sql::ParseOptions::default() };
        keel_sql::parse(text.as_bytes(), &options).unwrap().statement
    }

    #[test]
    fn marks_stand_alone() {
        let update = parse("UPDATE t SET a = ?, b = ? + 1 WHERE c = ?");
        assert!(with_marks(&update, &[(0, Mark::Default)]).is_ok());
        assert_eq!(with_marks(&update, &[(1, Mark::Default)]).unwrap_err().code, 4032);
        assert_eq!(with_marks(&update, &[(0, Mark::Ignore), (2, Mark::Ignore)]).unwrap_err().code, 4032);
        assert!(with_marks(&parse("SELECT ?"), &[(0, Mark::Ignore)]).is_ok());
        assert_eq!(with_marks(&parse("SELECT ? + 1"), &[(0, Mark::Ignore)]).unwrap_err().code, 4032);
    }
}
