//! Text of bound expressions.
