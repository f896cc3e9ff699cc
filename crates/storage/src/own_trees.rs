//! The trees that the engine keeps for itself.

use keel_base::TreeId;

/// The registry's own tree.
pub(crate) const REGISTRY: TreeId = TreeId(1);
/// The tree of undo pages.
pub(crate) const UNDO: TreeId = TreeId(0);
