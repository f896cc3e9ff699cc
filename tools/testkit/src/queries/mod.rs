//! Random queries of a seed, put to MariaDB and to Keel.
//!
//! A [`world::World`] is a few tables with random keys and rows; a query over it is a [`tree::Node`], which knows how to become
//! smaller. [`run::Runner`] compares the answers as sets of rows, in order where the query has a total one, or checks that the
//! rows for which a predicate is true, false and NULL are together the rows without it, on Keel alone (ternary logic
//! partitioning, Rigger and Su, 2020). Equal seeds make equal worlds and queries.

pub mod expressions;
pub mod judge;
pub mod run;
pub mod selects;
pub mod tree;
pub mod world;
