//! Asks the kernel for one TCP socket by its two addresses (`NETLINK_SOCK_DIAG`), to find which user is at
//! the other end of a loopback connection. The cost does not depend on the number of sockets. Linux only.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::Owner;

const HEADER_BYTES: usize = 16;
/// `struct inet_diag_sockid`: two ports, two addresses of 16 bytes, an interface, a cookie.
const SOCKET_ID_BYTES: usize = 48;
/// `struct inet_diag_msg`.
const MESSAGE_BYTES: usize = 4 + SOCKET_ID_BYTES + 20;
const REQUEST_BYTES: usize = HEADER_BYTES + 8 + SOCKET_ID_BYTES;

const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCP_LISTEN: u8 = 10;

/// One netlink socket shared by all callers. The answer is available as soon as the request has been sent.
static LINE: Mutex<Option<Line>> = Mutex::new(None);

struct Line {
    socket: OwnedFd,
    sequence: u32,
}

/// Returns the owner of the socket that is connected from `from` to `to`; `None` when its process has closed
/// it. Fails where the kernel does not answer such requests.
pub(super) fn owner_of(from: SocketAddr, to: SocketAddr) -> io::Result<Option<Owner>> {
    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut open = match line.take() {
        Some(open) => open,
        None => Line::open()?,
    };
    let answer = open.ask(from, to)?;
    // Only a socket without an outstanding request is reused.
    *line = Some(open);
    Ok(answer)
}

impl Line {
    fn open() -> io::Result<Self> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        Ok(Self { socket, sequence: 0 })
    }

    fn ask(&mut self, from: SocketAddr, to: SocketAddr) -> io::Result<Option<Owner>> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = request(self.sequence, from, to);
        rustix::net::send(&self.socket, &request, SendFlags::empty())?;
        let mut buffer = [0; 1024];
        let (count, _, sender) = rustix::net::recvfrom(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
        let is_kernels = sender
            .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
            .is_some_and(|sender| sender.pid() == 0);
        if !is_kernels {
            return Err(unexpected());
        }
        read(&buffer[..count], self.sequence, from, to)
    }
}

fn request(sequence: u32, from: SocketAddr, to: SocketAddr) -> [u8; REQUEST_BYTES] {
    let (from_ip, to_ip) = (from.ip().to_canonical(), to.ip().to_canonical());
    let family = if from_ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut out = [0; REQUEST_BYTES];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&(REQUEST_BYTES as u32).to_ne_bytes());
    put(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    put(&NLM_F_REQUEST.to_ne_bytes());
    put(&sequence.to_ne_bytes());
    put(&0u32.to_ne_bytes());
    put(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    put(&u32::MAX.to_ne_bytes());
    put(&from.port().to_be_bytes());
    put(&to.port().to_be_bytes());
    put(&wide(from_ip));
    put(&wide(to_ip));
    put(&0u32.to_ne_bytes());
    // No cookie: matches any socket with these addresses.
    put(&[0xff; 8]);
    out
}

/// Encodes an address in the 16 bytes that the kernel reserves for one.
fn wide(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&ip.octets());
            bytes
        }
        IpAddr::V6(ip) => ip.octets(),
    }
}

/// Parses the kernel's answer to the request with this sequence number.
fn read(answer: &[u8], sequence: u32, from: SocketAddr, to: SocketAddr) -> io::Result<Option<Owner>> {
    let kind = answer.get(4..6).map(two).ok_or_else(unexpected)?;
    if answer.get(8..12).map(four) != Some(sequence) {
        return Err(unexpected());
    }
    let body = &answer[HEADER_BYTES.min(answer.len())..];
    if kind == NLMSG_ERROR {
        let error = body.get(..4).map(|bytes| -(four(bytes) as i32)).ok_or_else(unexpected)?;
        return if error == libc::ENOENT { Ok(None) } else { Err(io::Error::from_raw_os_error(error)) };
    }
    if kind != SOCK_DIAG_BY_FAMILY || body.len() < MESSAGE_BYTES {
        return Err(unexpected());
    }
    let (family, state) = (i32::from(body[0]), body[1]);
    let id = &body[4..4 + SOCKET_ID_BYTES];
    let local = (narrow(family, &id[4..20]), u16::from_be_bytes([id[0], id[1]]));
    let remote = (narrow(family, &id[20..36]), u16::from_be_bytes([id[2], id[3]]));
    let rest = &body[4 + SOCKET_ID_BYTES + 12..];
    let owner = Owner { uid: four(&rest[..4]), inode: u64::from(four(&rest[4..8])) };
    // If the connection itself is missing, the kernel returns a listener of that port. A socket that its
    // process has closed is listed as root's, without an inode.
    let is_it = local == (Some(from.ip().to_canonical()), from.port())
        && remote == (Some(to.ip().to_canonical()), to.port())
        && state != TCP_LISTEN
        && owner.inode != 0;
    Ok(is_it.then_some(owner))
}

fn narrow(family: i32, bytes: &[u8]) -> Option<IpAddr> {
    if family == libc::AF_INET {
        let four: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
        return Some(IpAddr::from(Ipv4Addr::from(four)));
    }
    let all: [u8; 16] = bytes.try_into().ok()?;
    Some(IpAddr::from(Ipv6Addr::from(all)).to_canonical())
}

fn two(bytes: &[u8]) -> u16 {
    bytes.try_into().map_or(0, u16::from_ne_bytes)
}

fn four(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(0, u32::from_ne_bytes)
}

fn unexpected() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "an unexpected answer about a socket")
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_other_end_of_a_connection_is_ours_until_it_is_closed() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(host).unwrap();
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, from) = listener.accept().unwrap();
            let to = served.local_addr().unwrap();
            let owner = owner_of(from, to).unwrap().unwrap();
            assert_eq!(owner.uid, host::own_uid());
            assert_eq!(Some(owner), super::super::net_table::owner_of(from, to), "the table says the same");
            assert_eq!(owner_of(to, from).unwrap().unwrap().uid, owner.uid, "our own end is another socket");
            assert_ne!(owner_of(to, from).unwrap(), Some(owner));
            drop(client);
            assert_eq!(owner_of(from, to).unwrap(), None, "its process closed it");
            let listening = owner_of(to, "127.0.0.1:1".parse().unwrap()).unwrap();
            assert_eq!(listening, None, "a listener is nobody's connection");
        }
    }

    #[test]
    fn an_ipv4_connection_of_an_ipv6_socket_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(format!("[::ffff:127.0.0.1]:{port}")).unwrap();
        let (served, from) = listener.accept().unwrap();
        let owner = owner_of(from, served.local_addr().unwrap()).unwrap().unwrap();
        assert_eq!(owner.uid, host::own_uid());
        drop(client);
    }

    #[test]
    fn an_answer_to_another_question_is_refused() {
        let (from, to) = ("127.0.0.1:5".parse().unwrap(), "127.0.0.1:6".parse().unwrap());
        let mut answer = vec![0; HEADER_BYTES + MESSAGE_BYTES];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[8..12].copy_from_slice(&7u32.to_ne_bytes());
        assert!(read(&answer, 8, from, to).is_err());
        assert_eq!(read(&answer, 7, from, to).unwrap(), None, "other addresses");
        assert!(read(&answer[..20], 7, from, to).is_err());
        assert!(read(&[], 7, from, to).is_err());
    }
}
