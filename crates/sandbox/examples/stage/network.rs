//! Probes for sockets of every kind.
#![allow(unsafe_code)]

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixDatagram, UnixStream};
use std::time::Duration;

use crate::probe::{Probe, call, tried};

const WAIT: Duration = Duration::from_secs(2);

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    let fd = call(libc::SYS_socket, [family as usize, kind as usize, protocol as usize, 0, 0])?;
    // SAFETY: the call has just made the descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn connects(address: &str) -> io::Result<()> {
    TcpStream::connect_timeout(&address.parse::<SocketAddr>().unwrap(), WAIT).map(drop)
}

/// Connects a fresh socket of some kind to the host's listener.
fn connects_with(protocol: i32, port: u16) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let fd = socket(libc::AF_INET, libc::SOCK_STREAM, protocol)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let len = size_of::<libc::sockaddr_in>();
    tried(libc::SYS_connect, [fd.as_raw_fd() as usize, (&raw const address) as usize, len, 0, 0])
}

pub(crate) const PROBES: &[Probe] = &[
    ("tcp-host", |g| connects(&format!("127.0.0.1:{}", g.tcp))),
    ("tcp6-host", |g| connects(&format!("[::1]:{}", g.tcp6))),
    ("tcp-internet", |_| connects("192.0.2.1:80")),
    ("tcp-metadata", |_| connects("169.254.169.254:80")),
    ("tcp-any-address", |g| connects(&format!("0.0.0.0:{}", g.tcp))),
    ("udp-host", |g| {
        let own = std::net::UdpSocket::bind("127.0.0.1:0")?;
        own.connect(("127.0.0.1", g.udp))?;
        own.send(b"x")?;
        // Nothing tells the sender that nobody is there but an error at the next call.
        own.set_read_timeout(Some(Duration::from_millis(200)))?;
        own.recv(&mut [0; 1]).map(drop)
    }),
    ("multipath-tcp-host", |g| connects_with(262, g.tcp)),
    ("smc-host", |g| connects_with(256, g.tcp)),
    ("sctp-socket", |_| socket(libc::AF_INET, libc::SOCK_STREAM, 132).map(drop)),
    ("raw-socket", |_| socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP).map(drop)),
    ("packet-socket", |_| socket(libc::AF_PACKET, libc::SOCK_RAW, 0).map(drop)),
    ("netlink-socket", |_| socket(libc::AF_NETLINK, libc::SOCK_RAW, 0).map(drop)),
    ("vsock-socket", |_| socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0).map(drop)),
    ("crypto-socket", |_| socket(libc::AF_ALG, libc::SOCK_SEQPACKET, 0).map(drop)),
    ("bluetooth-socket", |_| socket(libc::AF_BLUETOOTH, libc::SOCK_RAW, 0).map(drop)),
    ("unix-stream-outside", |g| UnixStream::connect(g.outside.join("stream")).map(drop)),
    ("unix-stream-inside", |g| UnixStream::connect(g.root.join("inside/stream")).map(drop)),
    ("unix-stream-abstract", |g| {
        UnixStream::connect_addr(&UnixAddr::from_abstract_name(&g.abstract_name)?).map(drop)
    }),
    ("unix-datagram-outside", |g| {
        UnixDatagram::unbound()?.send_to(b"x", g.outside.join("datagram")).map(drop)
    }),
    ("unix-datagram-pair", |g| {
        let (one, _other) = UnixDatagram::pair()?;
        one.connect(g.outside.join("datagram"))?;
        one.send(b"x").map(drop)
    }),
    ("unix-seqpacket-pair", |_| {
        let mut pair = [0i32; 2];
        let kind = libc::SOCK_SEQPACKET as usize;
        tried(libc::SYS_socketpair, [libc::AF_UNIX as usize, kind, 0, pair.as_mut_ptr() as usize, 0])
    }),
    ("inet-socket-high-bits", |_| {
        // The kernel looks at 32 bits of the family; a filter must not be fooled by the others.
        let family = libc::AF_UNIX as usize | 1 << 32;
        tried(libc::SYS_socket, [family, libc::SOCK_STREAM as usize, 0, 0, 0])
    }),
    ("works-stream-pair", |_| UnixStream::pair().map(drop)),
    ("works-own-loopback", |_| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        TcpStream::connect_timeout(&listener.local_addr()?, WAIT).map(drop)
    }),
];
