//! Checks and chores of the repository: `cargo x tidy`.
fn main() {}
