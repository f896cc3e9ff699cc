//! Binding of aggregates.
