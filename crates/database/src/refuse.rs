//! Statements that `read_only` refuses by the names that they write.

use keel_base::SqlResult;
use keel_dml::single_table;
use keel_exec::session::Session;
use keel_sql::ast::{self, MaintainOp, Statement, TableRef};

use crate::Database;
use crate::plan::{Plan, StatementKind};

impl Database {
    /// 1290 for a statement that writes tables by their names, before it is bound. What several tables of an UPDATE or
    /// DELETE are is known only afterwards.
    pub fn refuse_by_names(&self, session: &Session, statement: &Statement) -> SqlResult<()> {
        if self.refuses_writes(session) && self.names_lasting(session, statement) {
            return self.refuse_writes(session);
        }
        Ok(())
    }

    /// The same for a plan, by what it was bound to.
    #[inline]
    pub(crate) fn refuse_early(&self, session: &Session, plan: &Plan) -> SqlResult<()> {
        let by_names = plan.kind.changes_rows() && session.temporary.is_empty();
        match by_names && plan.kind != StatementKind::UpdateMulti && plan.needs_writes() {
            true => self.refuse_writes(session),
            false => Ok(()),
        }
    }

    /// Whether a statement writes a table that is none of the session's temporary ones.
    fn names_lasting(&self, session: &Session, statement: &Statement) -> bool {
        let written: &ast::ObjectName = match statement {
            Statement::Insert(insert) => &insert.table,
            Statement::Load(load) => &load.table,
            Statement::Update(update) => match single_table(&update.tables) {
                Some((name, ..)) => name,
                None => return false,
            },
            Statement::Delete(delete) if delete.targets.is_empty() => match single_table(&delete.from) {
                Some((name, ..)) => name,
                None => return false,
            },
            Statement::Delete(delete) => return self.deletes_lasting(session, delete),
            Statement::CreateTable(create) => return !create.temporary || create.sequence.is_some(),
            Statement::DropTable(drop) if drop.temporary => return drop.sequence,
            Statement::DropTable(_)
            | Statement::AlterTable(_)
            | Statement::AlterSequence(_)
            | Statement::Truncate { .. }
            | Statement::CreateIndex(_)
            | Statement::DropIndex(_) => return !self.definer().concerns_temporary(session, statement),
            Statement::Maintain(what) if what.op == MaintainOp::Optimize => {
                return what.tables.iter().any(|name| !self.is_own(session, name));
            }
            Statement::CreateDatabase(_)
            | Statement::AlterDatabase { .. }
            | Statement::DropDatabase { .. }
            | Statement::RenameTable { .. }
            | Statement::CreateView(_) => return true,
            Statement::DropView { names, .. } => {
                return names.iter().any(|name| !self.is_own(session, name));
            }
            _ => return false,
        };
        self.writes_lasting(session, written)
    }

    /// Whether a DELETE of several tables has a target that is none of the session's temporary tables. False if FROM lacks
    /// a target, which is another error.
    fn deletes_lasting(&self, session: &Session, delete: &ast::Delete) -> bool {
        let mut stack: Vec<&TableRef> = delete.from.iter().collect();
        let mut from = Vec::new();
        while let Some(part) = stack.pop() {
            match part {
                TableRef::Join { left, right, .. } => stack.extend([&**left, &**right]),
                TableRef::Table { name, alias, .. } => {
                    from.push((alias.as_deref().unwrap_or(&name.name), name));
                }
                TableRef::Derived { .. } | TableRef::JsonTable(_) => {}
            }
        }
        let means = |target: &ast::ObjectName, (alias, name): (&str, &ast::ObjectName)| {
            let is_there =
                |db: &str| keel_expr::env::schema_of(session, name).is_ok_and(|schema| *schema == *db);
            alias == target.name && target.db.as_deref().is_none_or(is_there)
        };
        let mut is_lasting = false;
        for target in &delete.targets {
            let Some((_, name)) = from.iter().find(|part| means(target, **part)) else { return false };
            is_lasting |= self.writes_lasting(session, name);
        }
        is_lasting
    }

    /// Whether a name is neither that of a temporary table nor in a database of the server's own tables.
    fn writes_lasting(&self, session: &Session, name: &ast::ObjectName) -> bool {
        let is_virtual = |schema: &str| {
            self.host().virtual_schemas().iter().any(|known| known.eq_ignore_ascii_case(schema))
        };
        keel_expr::env::schema_of(session, name)
            .is_ok_and(|schema| !is_virtual(schema) && !self.is_own(session, name))
    }

    /// Whether a name is that of a temporary table.
    fn is_own(&self, session: &Session, name: &ast::ObjectName) -> bool {
        keel_expr::env::schema_of(session, name)
            .is_ok_and(|schema| session.temporary.get(schema, &name.name).is_some())
    }
}
