//! Statements about stored programs and foreign servers.

use super::{Account, ObjectName};

/// DROP, ALTER or CALL of a stored program, or DROP or ALTER of a foreign server.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramStatement {
    /// The operation.
    pub action: ProgramAction,
    /// The kind of the object.
    pub kind: ProgramKind,
    /// The object.
    pub name: ObjectName,
}

/// An operation on a stored program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramAction {
    /// DROP.
    Drop {
        /// IF EXISTS.
        if_exists: bool,
    },
    /// ALTER.
    Alter,
    /// CALL.
    Call,
}

/// A kind of stored program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// PROCEDURE.
    Procedure,
    /// FUNCTION.
    Function,
    /// TRIGGER.
    Trigger,
    /// EVENT.
    Event,
    /// PACKAGE of `sql_mode` ORACLE.
    Package,
    /// PACKAGE BODY of `sql_mode` ORACLE.
    PackageBody,
    /// SERVER.
    Server,
}

/// What a statement that is not supported asks privileges for.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// DEFINER of a program.
    pub definer: Option<Account>,
    /// The objects.
    pub of: WantedOf,
}

/// The objects of a statement that is not supported.
#[derive(Debug, Clone, PartialEq)]
pub enum WantedOf {
    /// CREATE PROCEDURE, FUNCTION or PACKAGE.
    Routine(ObjectName),
    /// CREATE FUNCTION of a library.
    Library,
    /// CREATE EVENT.
    Event(ObjectName),
    /// CREATE TRIGGER: the trigger and its table.
    Trigger(ObjectName, ObjectName),
    /// HANDLER OPEN.
    Rows(ObjectName),
    /// CACHE INDEX and LOAD INDEX INTO CACHE, by their words.
    Indexes(&'static str, Vec<ObjectName>),
}
