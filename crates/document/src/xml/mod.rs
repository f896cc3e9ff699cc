//! EXTRACTVALUE() and UPDATEXML(): XML texts, and the part of XPath that MariaDB knows.
//!
//! A text becomes a list of nodes that say where they stand in it ([`document`]), a path becomes a tree ([`path`]), and
//! [`eval`] leads from one to the other. Where the two functions are odd, they are so because MariaDB's are: tests of a
//! node's kind such as `text()` change nothing, `div` divides whole numbers, siblings are never found.

pub mod document;
pub mod eval;
pub mod path;
