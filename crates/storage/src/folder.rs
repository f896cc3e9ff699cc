//! Names and format of a data folder that concern its users: a server and the inspection of a stopped one.

/// The version of the contents of a data folder, all layers included. The file `FORMAT` holds it.
pub const FORMAT: u64 = 1;

/// The file that a server locks and in which it notes its state.
pub const LOCK: &str = "LOCK";

/// The files whose locks keep others from a folder. The empty name stands for the folder itself.
pub const LOCKED: [&str; 4] = ["", LOCK, "keel.lock", "redo.head"];
