//! Wait events: what a parked fiber waits for, counted and timed per worker, always on.

/// Makes the enum, its list and its names from one table.
macro_rules! wait_events {
    ($($(#[$doc:meta])* $event:ident = $name:literal,)*) => {
        /// Why a fiber is parked.
        #[repr(u8)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum WaitEvent {
            $($(#[$doc])* $event,)*
        }

        impl WaitEvent {
            /// All kinds, in order.
            pub const ALL: [WaitEvent; Self::COUNT] = [$(WaitEvent::$event,)*];

            /// The name status tables show.
            pub fn name(self) -> &'static str {
                match self {
                    $(WaitEvent::$event => $name,)*
                }
            }
        }
    };
}

wait_events! {
    /// Nothing to do.
    Idle = "idle",
    /// Bytes from a peer.
    NetRead = "net_read",
    /// Room in a socket.
    NetWrite = "net_write",
    /// A connection being made.
    NetConnect = "net_connect",
    /// A record or table lock of another transaction.
    RowLock = "row_lock",
    /// A lock on a table's definition.
    MetadataLock = "metadata_lock",
    /// FLUSH TABLES WITH READ LOCK, or who it keeps out.
    BackupLock = "backup_lock",
    /// A user lock (`GET_LOCK`).
    UserLock = "user_lock",
    /// A page being read.
    PageRead = "page_read",
    /// A page or other data being written.
    DataWrite = "data_write",
    /// A data file being made durable.
    DataSync = "data_sync",
    /// The log being made durable up to the caller's commit.
    LogFlush = "log_flush",
    /// The log being written, as its writer sees it.
    LogWrite = "log_write",
    /// The log being read.
    LogRead = "log_read",
    /// Room in the log.
    LogSpace = "log_space",
    /// A free frame in the buffer pool.
    FreeFrame = "free_frame",
    /// A latch on a page or other memory.
    Latch = "latch",
    /// A parking mutex or lock of the server.
    Mutex = "mutex",
    /// Work or room in a queue.
    Queue = "queue",
    /// An admission permit.
    Admission = "admission",
    /// A replica's answer.
    ReplicaAck = "replica_ack",
    /// A primary's events.
    Replication = "replication",
    /// A temporary file.
    TempFile = "temp_file",
    /// Another file: create, rename, list.
    FileSystem = "file_system",
    /// A call on the blocking pool.
    Blocking = "blocking",
    /// Time to pass.
    Sleep = "sleep",
    /// A checkpoint or flush of pages.
    Checkpoint = "checkpoint",
    /// History to be purged.
    Purge = "purge",
    /// Anything else.
    Other = "other",
}

impl WaitEvent {
    /// Number of kinds.
    pub const COUNT: usize = WaitEvent::Other as usize + 1;

    /// Whether it is a lock on rows or tables that others have.
    pub fn is_lock(self) -> bool {
        matches!(self, WaitEvent::RowLock | WaitEvent::MetadataLock | WaitEvent::BackupLock)
    }
}

/// Waits of one kind over the process's life.
#[derive(Clone, Copy, Debug)]
pub struct Total {
    /// The kind.
    pub event: WaitEvent,
    /// How often a fiber waited for it.
    pub count: u64,
    /// How long in sum.
    pub nanos: u64,
}

/// Waits by kind, summed over workers; in a simulated world, those of the world.
pub fn totals() -> Vec<Total> {
    let mut totals: Vec<Total> =
        WaitEvent::ALL.iter().map(|&event| Total { event, count: 0, nanos: 0 }).collect();
    crate::worker::for_each_counters(|counters| {
        for total in &mut totals {
            let (count, nanos) = counters.waits(total.event);
            total.count += count;
            total.nanos += nanos;
        }
    });
    totals
}
/// Nanoseconds the current fiber has been parked since its job began.
pub fn of_current_fiber() -> u64 {
    crate::fiber::current_core().map_or(0, |core| core.waited_nanos.get())
}

/// The part of it that was spent on locks of rows and tables.
pub fn on_locks_of_current_fiber() -> u64 {
    crate::fiber::current_core().map_or(0, |core| core.locked_nanos.get())
}
