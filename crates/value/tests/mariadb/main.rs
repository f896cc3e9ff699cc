//! What MariaDB 10.11 answered, frozen in `tests/data`, against what this crate answers.

mod assignment;
mod codecs;
mod expressions;
mod robust;
mod support;
