//! Integration tests: the engine without SQL.

mod common;
mod counters;
mod crash;
mod damage;
mod faulty;
mod history;
mod isolation;
mod larger_than_pool;
mod locking;
mod lost_pages;
mod physical;
mod prepared;
mod serial;
mod temporary;
mod threads;
mod versions;
