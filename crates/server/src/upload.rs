//! A file that the client sends (LOAD DATA LOCAL INFILE).
//!
//! ```text
//! server: 0xfb name          client: bytes | bytes | ... | empty packet
//! ```
//! The bytes of packets are passed on as they arrive; packets are not assembled, and unread bytes stay in the kernel. A packet
//! of the maximum length continues in the next one, which may be empty without ending the file.

use keel_base::{SqlResult, errors};
use keel_runtime::net::Connection;
use keel_wire::packet::{HEADER_BYTES, PAYLOAD_MAX};

/// Octets given at once.
const PIECE_BYTES: usize = 32 << 10;

/// Where the file stands.
#[derive(Default)]
pub struct Upload {
    /// The client has been asked, and its file has not ended.
    is_open: bool,
    /// Bytes of the current packet that are still to come.
    left: usize,
    /// The next packet belongs to the one before it.
    goes_on: bool,
    /// Packets have numbers that count; within compressed packets they need not.
    is_numbered: bool,
    /// The client broke the protocol, or is gone.
    is_broken: bool,
}

impl Upload {
    /// The client has been asked for its file, whose packets have numbers that count, or not.
    pub fn begin(&mut self, is_numbered: bool) {
        *self = Upload { is_open: true, is_numbered, ..Upload::default() };
    }

    /// Appends the next bytes to `out`; false at the end, or if no file was requested. Waits.
    pub fn read(&mut self, conn: &mut Connection, sequence: &mut u8, out: &mut Vec<u8>) -> SqlResult<bool> {
        if self.is_broken {
            return Err(errors::query_interrupted());
        }
        while self.is_open && self.left == 0 {
            self.header(conn, sequence)?;
        }
        if !self.is_open {
            return Ok(false);
        }
        self.wait(conn, 1)?;
        let count = conn.input().len().min(self.left).min(PIECE_BYTES);
        out.extend_from_slice(&conn.input()[..count]);
        conn.consume(count);
        self.left -= count;
        Ok(true)
    }

    fn wait(&mut self, conn: &mut Connection, bytes: usize) -> SqlResult<()> {
        conn.fill(bytes).map_err(|_| {
            self.is_broken = true;
            errors::query_interrupted()
        })
    }

    fn header(&mut self, conn: &mut Connection, sequence: &mut u8) -> SqlResult<()> {
        self.wait(conn, HEADER_BYTES)?;
        let [a, b, c, number] = conn.input()[..HEADER_BYTES] else {
            return Err(errors::malformed_packet());
        };
        if self.is_numbered && number != *sequence {
            self.is_broken = true;
            return Err(errors::net_packets_out_of_order());
        }
        conn.consume(HEADER_BYTES);
        *sequence = number.wrapping_add(1);
        self.left = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        self.is_open = self.left > 0 || self.goes_on;
        self.goes_on = self.left == PAYLOAD_MAX;
        Ok(())
    }
}
