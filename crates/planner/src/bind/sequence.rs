//! Calls that name a sequence.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::TableDef;
use keel_catalog::account::Privileges;
use keel_exec::sequence::Call;
use keel_expr::{Derivation, Expr, Node};
use keel_sql::ast::{ObjectName, SequenceCall, SequenceOp};

use super::Binder;
use crate::check::{self, Need};

/// A sequence that a statement asks something of.
#[derive(Clone)]
pub struct NamedSequence {
    pub table: Arc<TableDef>,
    /// It may move on.
    pub writes: bool,
    /// Named by a view, not by the statement.
    pub in_view: bool,
}

impl Binder<'_> {
    pub(super) fn sequence(&mut self, tree: &SequenceCall) -> SqlResult<Expr> {
        let session = self.cx.session;
        let name = &tree.name;
        if name.db.is_none() && self.common.iter().any(|common| common.name == name.name) {
            return Err(errors::not_sequence2(&name.name));
        }
        let schema = keel_expr::env::schema_of(session, name)?;
        if session.host.virtual_schemas().iter().any(|own| own.eq_ignore_ascii_case(schema)) {
            return Err(errors::dbaccess_denied(&session.access.user, &session.access.host, schema));
        }
        if let Some(names) = &mut self.whole_names {
            names.note_database(tree, schema);
        }
        let wanted = match tree.op {
            SequenceOp::Last => Privileges::SELECT,
            SequenceOp::Next => Privileges::SELECT.and(Privileges::INSERT),
            SequenceOp::Set { .. } => Privileges::INSERT,
        };
        let temporary = self.within_views.is_empty() && session.temporary.get(schema, &name.name).is_some();
        if self.within_views.is_empty() && !temporary {
            check::table(session, &self.cx.catalog.accounts, (schema, &name.name), wanted)?;
        }
        let found = match self.within_views.is_empty() {
            true => self.cx.catalog.table(schema, &name.name),
            false => self.cx.catalog.lasting_table(schema, &name.name),
        };
        let table = found.cloned().ok_or_else(|| self.no_sequence(schema, name))?;
        if !table.is_sequence() {
            return Err(errors::not_sequence(schema, &name.name));
        }
        if !temporary {
            let need = Need { asked: self.asked(), ..Need::of(&table.schema, &table.name, wanted) };
            check::add(&mut self.needs, need);
        }
        let call = Call { table: table.clone(), op: tree.op };
        self.saw_volatile = true;
        self.sequences.push(NamedSequence {
            table,
            writes: call.writes(),
            in_view: !self.within_views.is_empty(),
        });
        let node = Node::Routine(Box::new(call));
        Ok(Expr { node, ty: Call::ty(), nullable: true, derivation: Derivation::Numeric })
    }

    fn no_sequence(&self, schema: &str, name: &ObjectName) -> SqlError {
        let catalog = self.cx.catalog;
        let others = || keel_catalog::series::parse(&name.name).is_some() && catalog.schema(schema).is_some();
        if catalog.view(schema, &name.name).is_some() || others() {
            return errors::not_sequence(schema, &name.name);
        }
        let unknown = match self.of_default || !self.within_views.is_empty() {
            true => errors::no_such_table(schema, &name.name),
            false => errors::unknown_sequences(&name.name),
        };
        self.cx.session.named_locks.unknown(&name.name, unknown)
    }

    /// Takes over what another binder met, which has bound a part of the same statement.
    pub fn take_sequences(&mut self, other: &Binder<'_>) {
        self.sequences.extend_from_slice(&other.sequences);
        other.needs.iter().for_each(|need| check::add(&mut self.needs, need.clone()));
        self.saw_volatile |= other.saw_volatile;
    }
}
