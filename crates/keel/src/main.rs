//! The `keel` command.
fn main() {}
