//! Types of expressions.
