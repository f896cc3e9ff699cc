//! The catalog and the registry of trees, as far as they can be read.

use std::sync::Arc;

use keel_base::TreeId;
use keel_storage::inspect::{Folder, Leaf, Visitor};
use parking_lot::Mutex;

use super::Inspection;
use keel_catalog::account::{Account, record};
use keel_catalog::store::{CATALOG_NOTE, UNFINISHED, is_of_table, read_names, read_table, read_view};
use keel_catalog::{Schema, TableDef, View, codec};

const REGISTRY: TreeId = TreeId(1);
/// Rows of the catalog and the registry that are read at most.
const ROWS_MAX: usize = 4 << 20;

/// What there is.
#[derive(Default)]
pub struct Known {
    /// Databases, without their tables.
    pub schemas: Vec<Schema>,
    /// Tables in order of their names.
    pub tables: Vec<TableDef>,
    /// Accounts in order of their names.
    pub accounts: Vec<Account>,
    /// Views in order of their names.
    pub views: Vec<View>,
    /// Trees with their notes.
    pub registry: Vec<(TreeId, Vec<u8>)>,
    /// The registry, and the catalog's tree.
    pub system: Vec<TreeId>,
    /// Whether registry and catalog could be read whole.
    pub complete: bool,
}

/// Keeps all rows of a small tree.
#[derive(Default)]
struct Rows(Mutex<Vec<(Vec<u8>, Vec<u8>)>>);

impl Visitor for Rows {
    fn leaf(&self, leaf: &Leaf, count: i64) {
        let mut rows = self.0.lock();
        for entry in leaf.entries() {
            let Some(row) = entry.row.filter(|_| entry.live) else { continue };
            if count < 0 {
                rows.retain(|(key, _)| key != entry.key);
            } else if rows.len() < ROWS_MAX {
                rows.push((entry.key.to_vec(), row.to_vec()));
            }
        }
    }
}

/// A key and its row.
type Pair = (Vec<u8>, Vec<u8>);

/// The rows of a small tree, and whether that is all of them.
fn rows_of(inspection: &Inspection, tree: TreeId) -> (Vec<Pair>, bool) {
    let rows = Arc::new(Rows::default());
    let outcome = inspection.pass(tree, rows.clone());
    let mut rows = std::mem::take(&mut *rows.0.lock());
    rows.sort();
    (rows, !outcome.has_lost)
}

/// Reads registry and catalog; what of them cannot be read is reported. Waits.
pub fn read_catalog(inspection: &Inspection) -> Known {
    let (folder, report) = (&inspection.folder, &inspection.report);
    let mut known = Known { system: vec![REGISTRY], complete: true, ..Known::default() };
    report.name(&Folder::file_name(REGISTRY), "the registry of trees");
    if !folder.has(REGISTRY) {
        if folder.trees().iter().all(|tree| tree.0 == 0) {
            // A crash came before the first start was over.
            return known;
        }
        report.damage("missing", &Folder::file_name(REGISTRY), None, "the registry of trees has no file");
        known.complete = false;
    }
    let (rows, whole) = rows_of(inspection, REGISTRY);
    known.complete &= whole;
    for (key, note) in rows {
        match key.as_slice().try_into() {
            Ok(id) => known.registry.push((TreeId(u32::from_be_bytes(id)), note)),
            Err(_) => {
                let text = format!("a registry key of {} bytes", key.len());
                report.damage("registry", &Folder::file_name(REGISTRY), None, text);
            }
        }
    }
    let named = known.registry.iter().find(|(_, note)| note == CATALOG_NOTE).map(|(id, _)| *id);
    // The catalog is made right behind the registry.
    let Some(tree) = named.or_else(|| Some(TreeId(2)).filter(|id| !known.complete && folder.has(*id))) else {
        if !known.registry.is_empty() {
            report.damage("registry", &Folder::file_name(REGISTRY), None, "no tree is noted as the catalog");
            known.complete = false;
        }
        return known;
    };
    known.system.push(tree);
    report.name(&Folder::file_name(tree), "the catalog");
    let (rows, whole) = rows_of(inspection, tree);
    known.complete &= whole;
    for (key, row) in rows {
        if let Err(what) = take(&mut known, &key, &row) {
            let text = format!("{what}: key {}", key.escape_ascii());
            report.damage("catalog", &Folder::file_name(tree), None, text);
            known.complete = false;
        }
    }
    compare(inspection, &known, tree);
    known
}

fn take(known: &mut Known, key: &[u8], row: &[u8]) -> Result<(), &'static str> {
    match key.split_first() {
        Some((1, name)) => {
            let name = std::str::from_utf8(name).map_err(|_| "a database's name is not UTF-8")?;
            let (collation, comment) =
                codec::decode_schema(row).ok_or("a database's record cannot be read")?;
            known.schemas.push(Schema::new(name, collation, &comment));
        }
        Some((2, names)) => {
            let table = read_table(names, row).map_err(|_| "a table's record cannot be read")?;
            known.tables.push(table.offline());
        }
        Some((3, names)) => {
            let view = read_view(names, row).map_err(|_| "a view's record cannot be read")?;
            let view = View::offline(view);
            view.query().map_err(|_| "a view's query cannot be read")?;
            known.views.push(view);
        }
        Some((&record::KEY, [])) => {}
        Some((&record::KEY, names)) => {
            let account = record::decode(names, row).ok_or("an account's record cannot be read")?;
            known.accounts.push(account);
        }
        // Its key comes behind the table's. The next start drops the table.
        Some((&UNFINISHED, names)) => {
            let unfinished =
                read_names(names).map_err(|_| "the name of an unfinished table cannot be read")?;
            known.tables.retain(|table| {
                (&*table.schema, &*table.name) != unfinished || table.id.to_be_bytes() != *row
            });
        }
        _ => return Err("a record of unknown kind"),
    }
    Ok(())
}

/// Each tree of a table is registered, and is nobody else's.
fn compare(inspection: &Inspection, known: &Known, catalog: TreeId) {
    let file = Folder::file_name(catalog);
    for view in &known.views {
        let name = format!("{}.{}", view.schema, view.name);
        if !known.schemas.iter().any(|schema| schema.name == view.schema) && known.complete {
            inspection.report.damage("catalog", &file, None, format!("view {name} is in no database"));
        }
        if known.tables.iter().any(|table| table.schema == view.schema && table.name == view.name) {
            inspection.report.damage("catalog", &file, None, format!("{name} is a table and a view"));
        }
    }
    let mut owners = hashbrown::HashMap::new();
    for table in &known.tables {
        let name = format!("{}.{}", table.schema, table.name);
        if !known.schemas.iter().any(|schema| schema.name == table.schema) && known.complete {
            inspection.report.damage("catalog", &file, None, format!("table {name} is in no database"));
        }
        let mut trees = vec![table.tree_id];
        trees.extend(table.indexes.iter().map(|index| index.tree_id).filter(|id| *id != table.tree_id));
        for id in trees {
            if let Some(other) = owners.insert(id, name.clone()) {
                let text = format!("tree {id} belongs to table {name} and to table {other}");
                inspection.report.damage("catalog", &file, None, text);
            }
            let note = known.registry.iter().find(|(tree, _)| *tree == id);
            if known.complete && !note.is_some_and(|(_, note)| is_of_table(note)) {
                let text = format!("tree {id} of table {name} is not registered as a table's");
                inspection.report.damage("registry", &file, None, text);
            }
        }
    }
}
