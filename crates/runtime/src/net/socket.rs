//! System calls on sockets.

use super::{Address, Peer};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A socket address as the kernel wants it.
struct RawAddress {
    storage: libc::sockaddr_storage,
    len: libc::socklen_t,
    family: i32,
}

impl RawAddress {
    fn new(address: &Address) -> io::Result<RawAddress> {
        // SAFETY: all zeros is a valid sockaddr_storage.
        let mut raw = RawAddress { storage: unsafe { zeroed() }, len: 0, family: 0 };
        match address {
            Address::Tcp(SocketAddr::V4(a)) => raw.set(
                libc::AF_INET,
                libc::sockaddr_in {
                    sin_family: libc::AF_INET as u16,
                    sin_port: a.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(a.ip().octets()) },
                    sin_zero: [0; 8],
                },
            ),
            Address::Tcp(SocketAddr::V6(a)) => raw.set(
                libc::AF_INET6,
                libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as u16,
                    sin6_port: a.port().to_be(),
                    sin6_flowinfo: a.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: a.ip().octets() },
                    sin6_scope_id: a.scope_id(),
                },
            ),
            Address::Unix(path) => raw.set(libc::AF_UNIX, unix_address(path)?),
        }
        Ok(raw)
    }
    fn set<T: Copy>(&mut self, family: i32, value: T) {
        const { assert!(size_of::<T>() <= size_of::<libc::sockaddr_storage>()) };
        // SAFETY: the storage is large enough for every kind of address and suitably aligned.
        unsafe { (&raw mut self.storage).cast::<T>().write(value) };
        self.len = size_of::<T>() as libc::socklen_t;
        self.family = family;
    }
}

fn unix_address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: all zeros is a valid sockaddr_un.
    let mut un: libc::sockaddr_un = unsafe { zeroed() };
    un.sun_family = libc::AF_UNIX as u16;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= un.sun_path.len() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "socket path too long"));
    }
    for (to, from) in un.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(un)
}

/// Binds and listens.
pub(super) fn listen(address: &Address, backlog: u32) -> io::Result<(OwnedFd, Address)> {
    if let Address::Unix(path) = address {
        remove_stale(path);
    }
    let raw = RawAddress::new(address)?;
    // SAFETY: plain system call; the result is checked.
    let fd = checked(unsafe {
        libc::socket(raw.family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    })?;
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(fd.as_raw_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    // SAFETY: the address is valid for the length given.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const raw.storage).cast(), raw.len) })?;
    if let Address::Unix(path) = address {
        // Connecting needs the permission to write; who may log in is decided by accounts.
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    }
    // SAFETY: plain system call.
    checked(unsafe { libc::listen(fd.as_raw_fd(), backlog.min(i32::MAX as u32) as i32) })?;
    let bound = match address {
        Address::Tcp(_) => {
            Address::Tcp(name_of(fd.as_raw_fd(), libc::getsockname).ok_or_else(io::Error::last_os_error)?)
        }
        unix => unix.clone(),
    };
    Ok((fd, bound))
}

/// Removes a unix socket that nobody listens on.
fn remove_stale(path: &Path) {
    let refused = UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
    if refused {
        let _ = std::fs::remove_file(path);
    }
}

pub(super) fn set_option(fd: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is a four-byte integer that lives through the call.
    let result = unsafe {
        libc::setsockopt(fd, level, option, (&raw const value).cast(), size_of::<i32>() as libc::socklen_t)
    };
    checked(result).map(drop)
}

type NameCall = unsafe extern "C" fn(i32, *mut libc::sockaddr, *mut libc::socklen_t) -> i32;

/// The TCP name of one end, if it is a TCP socket.
fn name_of(fd: RawFd, call: NameCall) -> Option<SocketAddr> {
    // SAFETY: all zeros is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: writes at most `len` bytes into the storage.
    if unsafe { call(fd, (&raw mut storage).cast(), &mut len) } < 0 {
        return None;
    }
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says which kind it is.
            let a = unsafe { *(&raw const storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(a.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(a.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says which kind it is.
            let a = unsafe { *(&raw const storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(a.sin6_addr.s6_addr);
            let port = u16::from_be(a.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, a.sin6_flowinfo, a.sin6_scope_id)))
        }
        _ => None,
    }
}

/// Who is at the other end.
pub(crate) fn peer(fd: RawFd) -> Peer {
    name_of(fd, libc::getpeername).map_or(Peer::Unix, Peer::Tcp)
}

/// The user of the process at the other end of a unix socket, as the kernel knows it.
pub(crate) fn peer_uid(fd: RawFd) -> Option<u32> {
    let mut credentials = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` octets into a structure of that size.
    let result = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut credentials).cast(), &mut len)
    };
    (result == 0 && credentials.uid != u32::MAX).then_some(credentials.uid)
}

/// Options of a fresh connection. Refusals matter to nobody: the peer may be gone already, or the socket a unix one.
pub(super) fn prepare(fd: RawFd, nonblocking: bool) {
    let _ = set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
    // SAFETY: plain system calls on a descriptor of ours.
    unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        let wanted = if nonblocking { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        if flags >= 0 && flags != wanted {
            libc::fcntl(fd, libc::F_SETFL, wanted);
        }
    }
}

/// One connection from a listener, or `WouldBlock`.
pub(crate) fn accept(listener: RawFd) -> io::Result<OwnedFd> {
    let null = std::ptr::null_mut();
    // SAFETY: no address is asked for.
    let fd = checked(unsafe { libc::accept4(listener, null, null.cast(), libc::SOCK_CLOEXEC) })?;
    // SAFETY: just made, owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Is this accept error one that only time cures?
pub(crate) fn is_exhaustion(errno: i32) -> bool {
    matches!(errno, libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
}

/// Ends both directions.
pub(crate) fn shutdown(fd: RawFd) {
    // SAFETY: plain system call; an error says that the peer was faster.
    unsafe { libc::shutdown(fd, libc::SHUT_RDWR) };
}

/// Connects, blocking.
pub(super) fn connect(address: &Address) -> io::Result<OwnedFd> {
    match address {
        Address::Tcp(a) => TcpStream::connect_timeout(a, CONNECT_PATIENCE).map(OwnedFd::from),
        Address::Unix(path) => UnixStream::connect(path).map(OwnedFd::from),
    }
}
