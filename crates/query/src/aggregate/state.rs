//! State of an aggregate.
/// State of an aggregate.
#[derive(Debug)]
pub struct State;
