//! Generated columns as those see them who read a table.
//!
//! A column that rows hold is a column like others. One that they do not hold (VIRTUAL, and in no index) stands for its
//! expression over the same row, wherever it is named: no reader of rows knows of it.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::TableDef;
use keel_expr::{Derivation, Expr, Node, func, walk};
use keel_sql::ast;
use keel_value::Value;

use super::{BindContext, Binder, Clause, ParamSource, ScopeTable};

impl Binder<'_> {
    /// A table for the scope, with what its columns stand for that rows do not hold.
    pub fn scope_table(
        &mut self,
        slot: u16,
        def: Arc<TableDef>,
        alias: Option<&str>,
    ) -> SqlResult<ScopeTable> {
        let mut table = ScopeTable::of(slot, def.clone(), alias);
        for (column, generated) in def.generated_columns().filter(|(column, _)| !def.is_kept(*column)) {
            let value = self.own_value(&table, &generated.expression)?;
            let meaning = table.meaning(column, value);
            table.worked_out.push((column, meaning));
        }
        Ok(table)
    }

    /// What a column's own expression is over the columns of its table, of which those before it are settled.
    pub(super) fn own_value(&mut self, table: &ScopeTable, expression: &str) -> SqlResult<Expr> {
        let mut inner = Binder::new(BindContext { params: ParamSource::default(), ..self.cx });
        inner.scope_mut().add_table(table.clone())?;
        let bound = inner.bind(&parse(expression)?, Clause::Fields);
        self.cacheable &= inner.cacheable;
        self.saw_volatile |= inner.saw_volatile;
        let mut bound = bound?;
        forget_cells(&mut bound);
        Ok(bound)
    }
}

impl ScopeTable {
    fn meaning(&self, column: usize, value: Expr) -> Expr {
        let plain = self.column(column);
        let Node::Column(place) = plain.node else { unreachable!("it has no other meaning yet") };
        let derivation = if plain.ty.is_string() || plain.ty.has_members() {
            Derivation::Implicit
        } else {
            Derivation::Numeric
        };
        Expr { node: Node::Generated(Box::new(value), place), ty: plain.ty, nullable: true, derivation }
    }
}

/// The tree of an expression that the catalog keeps.
pub fn parse(text: &str) -> SqlResult<ast::Expr> {
    let parsed = keel_sql::parse(format!("DO {text}").as_bytes(), &keel_sql::ParseOptions::default())?;
    match parsed.statement {
        ast::Statement::Do(list) if list.len() == 1 => Ok(list.into_iter().next().expect("it has one")),
        _ => Err(keel_base::errors::not_supported_yet("this generated column")),
    }
}

/// Leaves nothing to be kept for an execution: whoever names the column counts cells of his own.
fn forget_cells(expr: &mut Expr) {
    walk::visit_mut(expr, &mut |e| match &mut e.node {
        Node::In { sorted, .. } => *sorted = None,
        Node::OneOf(any, _) => *e = std::mem::replace(any, Expr::null()),
        Node::Call(function, args) if func::kept_by(function, args).is_some() => {
            if let Some(Node::Constant(cell)) = args.last_mut().map(|arg| &mut arg.node) {
                *cell = Value::Int(-1);
            }
        }
        _ => {}
    });
}
