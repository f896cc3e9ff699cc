//! Randomness: the kernel's in the real world, the seed's in a simulated one.

use std::cell::RefCell;

thread_local! {
    /// Random bytes fetched ahead, so that one number does not cost a system call.
    static AHEAD: RefCell<Ahead> = const { RefCell::new(Ahead { bytes: [0; 512], used: 512 }) };
}
struct Ahead {
    bytes: [u8; 512],
    used: usize,
}

/// A random number.
pub fn u64() -> u64 {
    let mut b = [0u8; 8];
    fill(&mut b);
    u64::from_le_bytes(b)
}

/// Fills `bytes` with random bytes; fit for keys and challenges in the real world.
pub fn fill(bytes: &mut [u8]) {
    if crate::sim::fill_random(bytes) {
        return;
    }
    if bytes.len() > 64 {
        return from_kernel(bytes);
    }
    AHEAD.with_borrow_mut(|ahead| {
        if ahead.used + bytes.len() > ahead.bytes.len() {
            from_kernel(&mut ahead.bytes);
            ahead.used = 0;
        }
        let end = ahead.used + bytes.len();
        bytes.copy_from_slice(&ahead.bytes[ahead.used..end]);
        ahead.bytes[ahead.used..end].fill(0);
        ahead.used = end;
    });
}

fn from_kernel(mut bytes: &mut [u8]) {
    while !bytes.is_empty() {
        // SAFETY: writes at most the length given into a slice of ours.
        let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        match n {
            1.. => bytes = &mut bytes[n as usize..],
            _ => {
                let error = std::io::Error::last_os_error();
                assert!(error.kind() == std::io::ErrorKind::Interrupted, "getrandom: {error}");
            }
        }
    }
}
