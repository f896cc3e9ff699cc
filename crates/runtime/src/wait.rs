//! Wait events: what a parked fiber waits for, counted and timed per worker, always on.

/// Why a fiber is parked.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitEvent {
    /// Nothing to do.
    Idle,
    /// Bytes from a peer.
    NetRead,
    /// Room in a socket.
    NetWrite,
    /// A connection being made.
    NetConnect,
    /// A record or table lock of another transaction.
    RowLock,
    /// A lock on a table's definition.
    MetadataLock,
    /// A user lock (`GET_LOCK`).
    UserLock,
    /// A page being read.
    PageRead,
    /// A page or other data being written.
    DataWrite,
    /// A data file being made durable.
    DataSync,
    /// The log being made durable up to the caller's commit.
    LogFlush,
    /// The log being written, as its writer sees it.
    LogWrite,
    /// The log being read.
    LogRead,
    /// Room in the log.
    LogSpace,
    /// A free frame in the buffer pool.
    FreeFrame,
    /// A latch on a page or other memory.
    Latch,
    /// A parking mutex or lock of the server.
    Mutex,
    /// Work or room in a queue.
    Queue,
    /// An admission permit.
    Admission,
    /// A replica's answer.
    ReplicaAck,
    /// A primary's events.
    Replication,
    /// A temporary file.
    TempFile,
    /// Another file: create, rename, list.
    FileSystem,
    /// A call on the blocking pool.
    Blocking,
    /// Time to pass.
    Sleep,
    /// A checkpoint or flush of pages.
    Checkpoint,
    /// History to be purged.
    Purge,
    /// Anything else.
    Other,
}

impl WaitEvent {
    /// Number of kinds.
    pub const COUNT: usize = WaitEvent::Other as usize + 1;
    /// All kinds, in order.
    pub const ALL: [WaitEvent; Self::COUNT] = {
        use WaitEvent::*;
        [
            Idle,
            NetRead,
            NetWrite,
            NetConnect,
            RowLock,
            MetadataLock,
            UserLock,
            PageRead,
            DataWrite,
            DataSync,
            LogFlush,
            LogWrite,
            LogRead,
            LogSpace,
            FreeFrame,
            Latch,
            Mutex,
            Queue,
            Admission,
            ReplicaAck,
            Replication,
            TempFile,
            FileSystem,
            Blocking,
            Sleep,
            Checkpoint,
            Purge,
            Other,
        ]
    };

    /// The name status tables show.
    pub fn name(self) -> &'static str {
        use WaitEvent::*;
        match self {
            Idle => "idle",
            NetRead => "net_read",
            NetWrite => "net_write",
            NetConnect => "net_connect",
            RowLock => "row_lock",
            MetadataLock => "metadata_lock",
            UserLock => "user_lock",
            PageRead => "page_read",
            DataWrite => "data_write",
            DataSync => "data_sync",
            LogFlush => "log_flush",
            LogWrite => "log_write",
            LogRead => "log_read",
            LogSpace => "log_space",
            FreeFrame => "free_frame",
            Latch => "latch",
            Mutex => "mutex",
            Queue => "queue",
            Admission => "admission",
            ReplicaAck => "replica_ack",
            Replication => "replication",
            TempFile => "temp_file",
            FileSystem => "file_system",
            Blocking => "blocking",
            Sleep => "sleep",
            Checkpoint => "checkpoint",
            Purge => "purge",
            Other => "other",
        }
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
