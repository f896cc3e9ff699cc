//! crypt functions.
