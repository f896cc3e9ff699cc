//! ALGORITHM and LOCK of ALTER TABLE and CREATE INDEX: what MariaDB's InnoDB needs for a change, and the words that do not
//! allow it.
//!
//! With these words the author of a migration says what a change may cost, and wants an error, not a copy, where it costs more.
//! So they are held against what the change costs in MariaDB: the same script is taken or refused on both. How Keel itself
//! carries a change out is decided elsewhere ([`super::alter`]).

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::{ColumnDef, ColumnDefault, IndexKind, IndexRecord, KeyPart, TableRecord, names};
use keel_context::vars::{AlterAlgorithm, SessionVars};
use keel_sql::ast::{AlterAction, TableOption};
use keel_value::{SqlType, TypeKind};

use super::alter::Alteration;

/// What a change costs, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// The definition alone.
    Instant,
    /// Indexes are made or dropped, rows stay.
    NoCopy,
    /// The rows are written again by the engine, while others may write them.
    Rebuild,
    /// The rows are copied one by one.
    Copy,
}

/// LOCK=, what others may do meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lock {
    Default,
    None,
    Shared,
    Exclusive,
}

/// What a change needs.
#[derive(Debug)]
struct Need {
    way: Way,
    /// Why, where MariaDB tells.
    reason: Option<&'static str>,
    /// Why others may read only, though no copy is made.
    lock_reason: Option<&'static str>,
    /// Nobody else may use the table.
    exclusive: bool,
}

const COLUMN_TYPE: &str = "Cannot change column type";
const FOREIGN_KEYS: &str = "Adding foreign keys needs foreign_key_checks=OFF";
const OPTIONS: &str = "Changing table options requires the table to be rebuilt";
const VIRTUAL_ORDER: &str =
    "INPLACE ADD or DROP of virtual columns cannot be combined with other ALTER TABLE actions";
const NO_KEY: &str = "Dropping a primary key is not allowed without also adding a new primary key";
const COPY_LOCK: &str = "COPY algorithm requires a lock";

/// How MariaDB carries out a change that is allowed.
pub(super) struct Allowed {
    /// It copies the rows one by one, and counts them.
    pub copies: bool,
    /// Because the words say so.
    pub told: bool,
}

/// Refuses a change (1845, 1846) that costs more than the statement's words allow.
pub(super) fn allow(
    vars: &SessionVars,
    actions: &[AlterAction],
    online: bool,
    old: &TableRecord,
    alteration: &Alteration,
) -> SqlResult<Allowed> {
    let algorithm = algorithm_of(actions).unwrap_or(vars.alter_algorithm);
    let lock = lock_of(actions, online);
    let need = Need::of(vars, actions, old, alteration);
    let changes = |action: &AlterAction| !matches!(action, AlterAction::Algorithm(_) | AlterAction::Lock(_));
    if !actions.iter().any(changes) {
        return Ok(Allowed { copies: false, told: false });
    }
    if algorithm == AlterAlgorithm::Copy {
        return match lock {
            Lock::None => Err(refusal("LOCK=NONE", Some(COPY_LOCK), "LOCK=SHARED")),
            _ => Ok(Allowed { copies: true, told: true }),
        };
    }
    let most = match algorithm {
        AlterAlgorithm::Instant => Way::Instant,
        AlterAlgorithm::NoCopy => Way::NoCopy,
        AlterAlgorithm::Inplace => Way::Rebuild,
        AlterAlgorithm::Copy | AlterAlgorithm::Default => Way::Copy,
    };
    if need.way > most {
        let reason = need.lock_reason.filter(|_| lock == Lock::None).or(need.reason);
        return Err(refusal(algorithm.words(), reason, need.way.words()));
    }
    if need.exclusive && matches!(lock, Lock::None | Lock::Shared) {
        return Err(refusal("LOCK=NONE/SHARED", None, "LOCK=EXCLUSIVE"));
    }
    if lock == Lock::None && (need.way == Way::Copy || need.lock_reason.is_some()) {
        let reason = if need.way == Way::Copy { need.reason } else { need.lock_reason };
        return Err(refusal("LOCK=NONE", reason, "LOCK=SHARED"));
    }
    Ok(Allowed { copies: need.way == Way::Copy, told: false })
}

/// Refuses ALGORITHM=INPLACE (1845) for a change of a temporary table, which is always copied. Other words are taken.
pub(super) fn allow_temporary(actions: &[AlterAction]) -> SqlResult<()> {
    match algorithm_of(actions) {
        Some(AlterAlgorithm::Inplace) => {
            Err(refusal(AlterAlgorithm::Inplace.words(), None, Way::Copy.words()))
        }
        _ => Ok(()),
    }
}

fn refusal(what: &str, reason: Option<&str>, other: &str) -> SqlError {
    match reason {
        Some(reason) => errors::alter_operation_not_supported_reason(what, reason, other),
        None => errors::alter_operation_not_supported(what, other),
    }
}

/// ALGORITHM= of a statement, the last one.
fn algorithm_of(actions: &[AlterAction]) -> Option<AlterAlgorithm> {
    actions.iter().rev().find_map(|action| match action {
        AlterAction::Algorithm(word) => AlterAlgorithm::from_word(word),
        _ => None,
    })
}

/// LOCK= of a statement, the last one; ONLINE is LOCK=NONE.
pub(super) fn lock_of(actions: &[AlterAction], online: bool) -> Lock {
    let word = actions.iter().rev().find_map(|action| match action {
        AlterAction::Lock(word) => Some(word.to_ascii_uppercase()),
        _ => None,
    });
    match word.as_deref() {
        Some("NONE") => Lock::None,
        Some("SHARED") => Lock::Shared,
        Some("EXCLUSIVE") => Lock::Exclusive,
        None if online => Lock::None,
        _ => Lock::Default,
    }
}

impl Way {
    fn words(self) -> &'static str {
        match self {
            Way::Instant => "ALGORITHM=INSTANT",
            Way::NoCopy => "ALGORITHM=NOCOPY",
            Way::Rebuild => "ALGORITHM=INPLACE",
            Way::Copy => "ALGORITHM=COPY",
        }
    }
}

impl Need {
    fn of(vars: &SessionVars, actions: &[AlterAction], old: &TableRecord, alteration: &Alteration) -> Need {
        let mut need = Need { way: Way::Instant, reason: None, lock_reason: None, exclusive: false };
        need.columns(old, alteration);
        if moves_virtual(old, alteration) && !actions.iter().all(goes_with_virtual) {
            need.raise(Way::Copy, Some(VIRTUAL_ORDER));
        }
        if alteration.zero_date(vars).is_some() {
            need.raise(Way::Copy, None);
        }
        if vars.foreign_key_checks && !alteration.new_foreign_keys.is_empty() {
            need.raise(Way::Copy, Some(FOREIGN_KEYS));
        }
        need.indexes(old, alteration);
        actions.iter().for_each(|action| need.action(action));
        if need.way == Way::Rebuild && has_indexed_virtual(old) {
            need.lock_reason = Some("online rebuild with indexed virtual columns");
        }
        need
    }

    fn raise(&mut self, way: Way, reason: Option<&'static str>) {
        if way > self.way {
            (self.way, self.reason) = (way, reason);
        }
    }

    fn columns(&mut self, old: &TableRecord, alteration: &Alteration) {
        let columns = &alteration.record.columns;
        let moved = |(place, origin): (usize, &Option<usize>)| origin.is_some_and(|o| o != place);
        let dropped = old.columns.len() > alteration.column_origin.iter().flatten().count();
        let added = alteration.column_origin.contains(&None);
        let ordered = alteration.column_origin.iter().enumerate().any(moved);
        let is_virtual = |c: &ColumnDef| c.generated.as_ref().is_some_and(|g| !g.stored);
        // Where stored columns alone go and no index is concerned, those behind them may move up.
        let indexed = has_indexed_virtual(old);
        let moved_up = |o: usize| (0..o).filter(|p| alteration.place_of(*p).is_some()).count();
        let kept_virtual = |(place, origin): (usize, &Option<usize>)| {
            origin.is_some_and(|o| {
                o != place && is_virtual(&old.columns[o]) && (indexed || moved_up(o) != place)
            })
        };
        if alteration.column_origin.iter().enumerate().any(kept_virtual) {
            self.raise(Way::Copy, Some(VIRTUAL_ORDER));
        }
        for (column, origin) in columns.iter().zip(&alteration.column_origin) {
            match origin {
                Some(origin) => self.changed(old, *origin, alteration, column),
                None => self.added(column),
            }
        }
        if (added || dropped || ordered) && has_indexed_virtual(old) && !gains_virtual_alone(old, alteration)
        {
            self.raise(Way::Rebuild, None);
        }
        let gains_stored =
            columns.iter().zip(&alteration.column_origin).any(|(c, o)| o.is_none() && !is_virtual(c));
        let mut old_columns = old.columns.iter().enumerate();
        let loses_stored =
            old_columns.any(|(place, c)| !is_virtual(c) && alteration.place_of(place).is_none());
        if (gains_stored || loses_stored) && new_indexes(old, alteration).next().is_some() {
            self.raise(Way::Rebuild, None);
        }
    }

    fn added(&mut self, column: &ColumnDef) {
        let names_columns = matches!(&column.default, ColumnDefault::Expression(text)
            if text.contains('`') || text.contains("uuid("));
        if names_columns || column.generated.as_ref().is_some_and(|g| g.stored) {
            self.raise(Way::Copy, None);
        }
        if column.auto_increment {
            self.raise(Way::Rebuild, None);
            self.lock_reason = Some("Adding an auto-increment column requires a lock");
        }
    }

    fn changed(&mut self, old: &TableRecord, place: usize, alteration: &Alteration, column: &ColumnDef) {
        let before = &old.columns[place];
        // A column that is renamed has another name in expressions, which is no change of them.
        if before.generated != column.generated && alteration.new_expressions
            || column.generated.is_some() && before.ty.kind != column.ty.kind
        {
            return self.raise(Way::Copy, None);
        }
        let indexed = old.indexes.iter().flat_map(|index| &index.parts).any(|part| part.column == place);
        let gains_counter = column.auto_increment && !before.auto_increment;
        match change_of_type(&before.ty, &column.ty, indexed) {
            Some(way) if gains_counter || way == Way::Copy => self.raise(Way::Copy, Some(COLUMN_TYPE)),
            None if gains_counter => self.raise(Way::Copy, Some(COLUMN_TYPE)),
            Some(way) => self.raise(way, Some("ADD INDEX")),
            None => {}
        }
        if before.nullable != column.nullable {
            let quoted = format!("`{}`", before.name);
            let feeds = |c: &ColumnDef| c.generated.as_ref().is_some_and(|g| g.expression.contains(&quoted));
            self.raise(if old.columns.iter().any(feeds) { Way::Copy } else { Way::Rebuild }, None);
        }
    }

    fn indexes(&mut self, old: &TableRecord, alteration: &Alteration) {
        let hashed = |table: &TableRecord| table.indexes.iter().any(|index| index.hashed);
        let names = |table: &TableRecord| table.indexes.iter().map(|i| i.name.clone()).collect::<Vec<_>>();
        if (hashed(old) || hashed(&alteration.record)) && names(old) != names(&alteration.record) {
            self.raise(Way::Copy, None);
        }
        let dropped: Vec<&IndexRecord> =
            old.indexes.iter().filter(|index| is_gone(index, alteration)).collect();
        if new_indexes(old, alteration).any(|index| index.kind == IndexKind::Primary)
            || dropped.iter().any(|index| clusters(index, old))
        {
            self.raise(Way::Rebuild, None);
        }
        if dropped.iter().any(|index| clusters(index, old)) && !has_row_key(&alteration.record) {
            self.raise(Way::Copy, Some(NO_KEY));
        }
        if new_indexes(old, alteration).next().is_some() {
            self.raise(Way::NoCopy, Some("ADD INDEX"));
        }
        if !dropped.is_empty() {
            self.raise(Way::NoCopy, Some("DROP INDEX"));
        }
    }

    fn action(&mut self, action: &AlterAction) {
        match action {
            AlterAction::Force | AlterAction::Option(TableOption::Engine(_)) => {
                self.raise(Way::Rebuild, None)
            }
            AlterAction::Option(TableOption::Other(name, _)) if name == "KEY_BLOCK_SIZE" => {
                self.raise(Way::Rebuild, None);
            }
            AlterAction::Option(TableOption::RowFormat(_)) => self.raise(Way::Rebuild, Some(OPTIONS)),
            AlterAction::Option(TableOption::Named(name, _))
                if ["PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED", "ENCRYPTION_KEY_ID"]
                    .contains(&name.to_ascii_uppercase().as_str()) =>
            {
                self.raise(Way::Rebuild, Some(OPTIONS));
            }
            AlterAction::AddCheck(_) | AlterAction::OrderBy(_) => self.raise(Way::Copy, None),
            AlterAction::Rename(_) | AlterAction::EnableKeys(_) => self.exclusive = true,
            _ => {}
        }
    }
}

/// Whether InnoDB keeps the rows in an index: the primary key, else the first unique one without NULL.
fn clusters(index: &IndexRecord, table: &TableRecord) -> bool {
    let mut keys = table.indexes.iter().filter(|index| serves_rows(index, table));
    keys.next().is_some_and(|first| names::same(&first.name, &index.name))
}

fn has_row_key(table: &TableRecord) -> bool {
    table.indexes.iter().any(|index| serves_rows(index, table))
}

fn serves_rows(index: &IndexRecord, table: &TableRecord) -> bool {
    let whole = |part: &KeyPart| part.prefix.is_none() && !table.columns[part.column].nullable;
    index.kind == IndexKind::Primary || index.kind != IndexKind::Plain && index.parts.iter().all(whole)
}

/// Whether some VIRTUAL column is part of an index.
fn has_indexed_virtual(table: &TableRecord) -> bool {
    let mut parts = table.indexes.iter().flat_map(|index| &index.parts);
    parts.any(|part| table.columns[part.column].generated.as_ref().is_some_and(|g| !g.stored))
}

/// Whether columns only come, all of them VIRTUAL, or only VIRTUAL ones go.
fn gains_virtual_alone(old: &TableRecord, alteration: &Alteration) -> bool {
    let is_virtual = |c: &ColumnDef| c.generated.as_ref().is_some_and(|g| !g.stored);
    let mut added =
        alteration.record.columns.iter().zip(&alteration.column_origin).filter(|(_, o)| o.is_none());
    let mut gone = (0..old.columns.len()).filter(|place| alteration.place_of(*place).is_none());
    added.all(|(column, _)| is_virtual(column)) && gone.all(|place| is_virtual(&old.columns[place]))
}

/// Whether a VIRTUAL column comes or goes.
pub(super) fn moves_virtual(old: &TableRecord, alteration: &Alteration) -> bool {
    let is_virtual = |c: &ColumnDef| c.generated.as_ref().is_some_and(|g| !g.stored);
    let mut added =
        alteration.record.columns.iter().zip(&alteration.column_origin).filter(|(_, o)| o.is_none());
    let mut gone = (0..old.columns.len()).filter(|place| alteration.place_of(*place).is_none());
    added.any(|(column, _)| is_virtual(column)) || gone.any(|place| is_virtual(&old.columns[place]))
}

/// What InnoDB does together with that without a copy.
fn goes_with_virtual(action: &AlterAction) -> bool {
    match action {
        AlterAction::AddColumn { column, .. } => column.generated.as_ref().is_some_and(|g| !g.stored),
        AlterAction::DropColumn { .. }
        | AlterAction::AddKey(_)
        | AlterAction::DropKey { .. }
        | AlterAction::Algorithm(_)
        | AlterAction::Lock(_) => true,
        _ => false,
    }
}

/// The indexes that must be made: those that were not there, or not with these columns.
fn new_indexes<'a>(
    old: &'a TableRecord,
    alteration: &'a Alteration,
) -> impl Iterator<Item = &'a IndexRecord> {
    alteration
        .record
        .indexes
        .iter()
        .filter(|index| !old.indexes.iter().any(|before| is_same(before, index, alteration)))
}

/// Whether an old index is no longer there, nor one like it.
fn is_gone(before: &IndexRecord, alteration: &Alteration) -> bool {
    !alteration.record.indexes.iter().any(|index| is_same(before, index, alteration))
}

/// Whether an index has the kind and the columns of an old one: what is renamed, or dropped and made again, costs nothing.
fn is_same(before: &IndexRecord, index: &IndexRecord, alteration: &Alteration) -> bool {
    before.kind == index.kind
        && before.parts.len() == index.parts.len()
        && before.parts.iter().zip(&index.parts).all(|(a, b)| {
            alteration.column_origin.get(b.column).copied().flatten() == Some(a.column)
                && (a.prefix, a.descending) == (b.prefix, b.descending)
        })
        && (names::same(&before.name, &index.name) || alteration.kept_indexes.contains(&index.name))
}

/// Whether values of one type are in rows and indexes as they are, octet by octet, as values of another.
pub(super) fn keeps_octets(before: &SqlType, after: &SqlType) -> bool {
    use TypeKind::*;
    // Numbers may be shown otherwise.
    let kinds = matches!(before.kind, VarChar | VarBinary | Enum | Set | Decimal | Float | Double)
        || before.is_integer();
    kinds && before.collation == after.collation && change_of_type(before, after, true).is_none()
}

/// What a change of a column's type costs; none where values stay as they are.
fn change_of_type(before: &SqlType, after: &SqlType, indexed: bool) -> Option<Way> {
    if (before.kind, before.format) != (after.kind, after.format) || before.unsigned != after.unsigned {
        return Some(Way::Copy);
    }
    if matches!(before.kind, TypeKind::Enum | TypeKind::Set) {
        return change_of_members(before, after);
    }
    let same_size = match before.kind {
        TypeKind::VarChar | TypeKind::VarBinary => {
            // InnoDB writes lengths of up to 127 bytes as those of columns of any length.
            let (old, new) = (before.max_octets(), after.max_octets());
            before.length <= after.length && !((128..256).contains(&old) && new > 255)
        }
        TypeKind::Char | TypeKind::Binary | TypeKind::Bit => before.length == after.length,
        TypeKind::Decimal => (before.length, before.decimals) == (after.length, after.decimals),
        _ if before.is_temporal() => before.decimals == after.decimals,
        _ => true,
    };
    if !same_size {
        return Some(Way::Copy);
    }
    if !before.is_text() || before.collation == after.collation {
        return None;
    }
    change_of_collation(before, after, indexed)
}

fn change_of_members(before: &SqlType, after: &SqlType) -> Option<Way> {
    let (Some(old), Some(new)) = (&before.members, &after.members) else { return Some(Way::Copy) };
    let octets = |count: usize| match (before.kind, count.div_ceil(8)) {
        (TypeKind::Set, few @ ..=4) => few,
        (TypeKind::Set, _) => 8,
        _ => usize::from(count > 255),
    };
    let appended = new.len() >= old.len() && old.iter().zip(new.iter()).all(|(a, b)| a == b);
    let stays = appended && octets(old.len()) == octets(new.len()) && before.collation == after.collation;
    (!stays).then_some(Way::Copy)
}

/// utf8mb3 becomes utf8mb4 as it is, if lengths take no more bytes than before; texts in indexes are ordered again unless the
/// collations are of one name.
fn change_of_collation(before: &SqlType, after: &SqlType, indexed: bool) -> Option<Way> {
    let (old, new) = (before.collation.charset(), after.collation.charset());
    if old != new {
        let widens = (old.name(), new.name()) == ("utf8mb3", "utf8mb4");
        let octets = |ty: &SqlType, each: u32| ty.length.saturating_mul(each) > 255;
        let longer = before.kind == TypeKind::VarChar && octets(before, 3) != octets(after, 4);
        if !widens || longer {
            return Some(Way::Copy);
        }
    }
    let alike = |name: &str| name.split_once('_').map(|(_, rest)| rest.to_owned());
    let same_order = old != new && alike(before.collation.name()) == alike(after.collation.name());
    (indexed && !same_order).then_some(Way::NoCopy)
}

/// 1800 and 1801 for words that are none.
pub(super) fn check_words(actions: &[AlterAction]) -> SqlResult<()> {
    const LOCKS: [&str; 4] = ["DEFAULT", "NONE", "SHARED", "EXCLUSIVE"];
    actions.iter().try_for_each(|action| match action {
        AlterAction::Algorithm(word) if AlterAlgorithm::from_word(word).is_none() => {
            Err(errors::unknown_alter_algorithm(word))
        }
        AlterAction::Lock(word) if !LOCKS.contains(&word.to_ascii_uppercase().as_str()) => {
            Err(errors::unknown_alter_lock(word))
        }
        _ => Ok(()),
    })
}
