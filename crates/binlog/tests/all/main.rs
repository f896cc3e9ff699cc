//! Integration tests: the codec of the binary log.

mod events;
mod golden;
mod images;
