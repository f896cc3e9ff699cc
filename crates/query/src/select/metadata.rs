//! metadata.
