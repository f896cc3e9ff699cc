//! The server's own tables in a database that has real ones too: those of `mysql`. They cannot be defined or written; what
//! a dump says of them is passed over, so that it can be restored whole.

use keel_base::errors;
use keel_exec::session::Session;
use keel_sql::ast::{ObjectName, Statement};

use crate::ddl::Definer;

impl Definer<'_> {
    /// Whether a definition concerns nothing but the server's own tables; then nothing is done, and a note says so.
    pub fn passes_over(&self, session: &mut Session, statement: &Statement) -> bool {
        let names: Vec<&ObjectName> = match statement {
            Statement::CreateTable(create) if !create.temporary => vec![&create.name],
            Statement::CreateView(create) => vec![&create.name],
            Statement::AlterTable(alter) => vec![&alter.table],
            Statement::DropTable(drop) if !drop.temporary => drop.tables.iter().collect(),
            Statement::DropView { names, .. } => names.iter().collect(),
            _ => return false,
        };
        let passed = !names.is_empty() && names.iter().all(|name| self.is_system_table(session, name));
        if passed {
            session.note(errors::unknown_error(format_args!(
                "Table '{}' is the server's own and stays as it is",
                names[0].name
            )));
        }
        passed
    }
}
