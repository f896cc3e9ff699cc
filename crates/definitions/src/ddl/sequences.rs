//! ALTER SEQUENCE.

use keel_base::{SqlResult, errors};
use keel_context::result::Completion;
use keel_exec::sequence;
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_sql::ast;

use crate::ddl::Definer;

impl Definer<'_> {
    /// Changes how a sequence goes on, with nobody using it meanwhile.
    pub(super) fn alter_sequence(
        &self,
        session: &mut Session,
        alter: &ast::AlterSequence,
    ) -> SqlResult<Completion> {
        let schema = schema_of(session, &alter.name)?.to_string();
        let catalog = self.catalog_of(session);
        let name = &alter.name.name;
        if catalog.view(&schema, name).is_some() {
            return Err(errors::not_sequence(schema, name));
        }
        if catalog.table(&schema, name).is_none() {
            if !alter.if_exists {
                return Err(errors::unknown_sequences(name));
            }
            session.note(errors::unknown_sequences(format!("{schema}.{name}")));
            return Ok(Completion::default());
        }
        let (table, _owned) = self.own_table(session, &alter.name, None)?;
        if !table.is_sequence() {
            return Err(errors::not_sequence(schema, name));
        }
        sequence::alter(session, &table, &alter.options)?;
        Ok(Completion::default())
    }
}
