//! How the file descriptors of the process are divided: the engine's files, temporary files, connections.

/// Descriptors that connections leave to the reactors and to new tables: the log must never miss one.
const DESCRIPTORS_KEPT: u64 = 64;

/// Connections that are let in however few descriptors there are.
const CONNECTIONS_MIN: u64 = 8;

/// Connections for which there are descriptors beside the engine's files, and temporary ones.
pub fn room_for_connections(descriptors: u64, engine_files: u64) -> u64 {
    descriptors.saturating_sub(descriptors_kept(descriptors, engine_files)).max(CONNECTIONS_MIN)
}

/// Descriptors that are not for connections: `engine_files`, those of temporary files, and a fixed number.
pub fn descriptors_kept(descriptors: u64, engine_files: u64) -> u64 {
    DESCRIPTORS_KEPT + engine_files + keel_context::memory::temporary_tables_max(descriptors)
}

#[cfg(test)]
mod tests {
    use super::room_for_connections;

    #[test]
    fn connections_leave_descriptors_to_the_rest() {
        assert_eq!(room_for_connections(1024, 100), 732);
        assert_eq!(room_for_connections(1024, 5000), 8);
        assert!(room_for_connections(1 << 20, 200) > 1_000_000);
    }
}
