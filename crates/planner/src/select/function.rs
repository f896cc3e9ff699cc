//! JSON_TABLE in FROM: its document may read the tables that stand before it.

use std::ops::Range;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_exec::json_table;
use keel_expr::{Derivation, Expr, Node, walk};
use keel_sql::ast::{self, TableRef};

use crate::bind::{Binder, Clause, ScopeColumn, ScopeTable, ViewPart};
use crate::join::order::{FromTree, Leaf, LeafKind};
use crate::select::from::From;

/// Adds a JSON_TABLE to FROM. On the left side of a RIGHT JOIN its document is bound later, by [`bind_left`].
pub(super) fn add(binder: &mut Binder<'_>, from: &mut From, tree: &ast::JsonTable) -> SqlResult<FromTree> {
    let slot = from.leaves.len() as u16;
    binder.met_function = true;
    let document = match from.right_joins {
        0 => document(binder, tree, from.hidden)?,
        _ => {
            from.pending.push(slot);
            Expr::null()
        }
    };
    let collation = binder.cx.session.vars.database_collation;
    let table = crate::json_table::bind(tree, document, collation)?;
    let columns = table.columns.iter().map(|column| ScopeColumn {
        name: column.name.clone(),
        ty: column.ty.clone(),
        nullable: true,
        invisible: false,
        derivation: Derivation::Implicit,
    });
    let alias: Arc<str> = tree.alias.as_str().into();
    binder.scope_mut().add_table(ScopeTable {
        slot,
        schema: "".into(),
        name: json_table::TABLE.into(),
        alias: alias.clone(),
        columns: columns.collect(),
        def: None,
        outer_joined: false,
        view: ViewPart::Function,
        worked_out: Vec::new(),
    })?;
    let needed = vec![false; table.columns.len()];
    from.leaves.push(Leaf { slot, alias, needed, merged: false, kind: LeafKind::Function(Arc::new(table)) });
    Ok(FromTree::Leaf(slot))
}

/// Binds the documents of a RIGHT JOIN's left side, which is read behind its right side.
pub(super) fn bind_left<'t>(
    binder: &mut Binder<'_>,
    from: &mut From,
    left: &'t TableRef,
    slots: Range<usize>,
) -> SqlResult<()> {
    let mut trees: Vec<&'t ast::JsonTable> = Vec::new();
    functions(left, &mut trees);
    let pending: Vec<u16> = std::mem::take(&mut from.pending);
    for (slot, tree) in pending.into_iter().zip(trees) {
        let bound = document(binder, tree, from.hidden | bits(usize::from(slot)..slots.end))?;
        if let LeafKind::Function(table) = &mut from.leaves[usize::from(slot)].kind
            && let Some(table) = Arc::get_mut(table)
        {
            table.set_document(bound);
        }
    }
    Ok(())
}

/// The table functions of a part of FROM, in the order of their slots.
fn functions<'t>(part: &'t TableRef, out: &mut Vec<&'t ast::JsonTable>) {
    match part {
        TableRef::JsonTable(table) => out.push(table),
        TableRef::Join { left, right, .. } => {
            functions(left, out);
            functions(right, out);
        }
        TableRef::Table { .. } | TableRef::Derived { .. } => {}
    }
}

/// Bits of slots.
pub(super) fn bits(slots: Range<usize>) -> u64 {
    slots.filter(|slot| *slot < 64).fold(0, |bits, slot| bits | 1 << slot)
}

/// Binds a document that may read all tables so far but those at hidden slots.
fn document(binder: &mut Binder<'_>, tree: &ast::JsonTable, hidden: u64) -> SqlResult<Expr> {
    let clause = binder.clause;
    let bound = binder.bind(&tree.document, Clause::TableFunction);
    binder.clause = clause;
    let mut bound = bound?;
    if walk::slots_read(&bound) & hidden != 0 {
        let mut name = String::new();
        walk::visit(&bound, &mut |expr| {
            if let Node::Column(column) = &expr.node
                && hidden & bits(usize::from(column.slot)..usize::from(column.slot) + 1) != 0
                && name.is_empty()
            {
                // Without the database, as it is written as a rule.
                let parts: Vec<&str> = column.name.split('.').collect();
                name = parts[parts.len().saturating_sub(2)..].join(".").replace('`', "");
            }
        });
        return Err(errors::bad_field(name, Clause::TableFunction.words()));
    }
    binder.hoist(&mut bound);
    Ok(bound)
}
