//! Integration tests: the fuzz targets on stored inputs.

mod corpora;
mod nesting;
