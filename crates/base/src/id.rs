//! Identifiers as newtypes, so that a page number is never passed for a tree.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A page within one tree's file; page 0 is the file's header.
    PageNo(u32)
);
id!(
    /// A tree of the engine; every tree lives in a file of its own.
    TreeId(u32)
);
impl TreeId {
    /// Set in the ids of temporary trees.
    pub const TEMPORARY: u32 = 1 << 31;

    /// Whether the tree is a session's own: it is not logged, and nothing of it is there after a start.
    #[inline]
    pub fn is_temporary(self) -> bool {
        self.0 & Self::TEMPORARY != 0
    }
}

id!(
    /// A read-write transaction, in order of their first write; 0 is none.
    TrxId(u64)
);
id!(
    /// A position in the redo log, in bytes since the server was created.
    Lsn(u64)
);
