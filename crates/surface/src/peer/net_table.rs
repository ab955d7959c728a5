//! Reads the kernel's table of TCP sockets to find which user is at the other end of a loopback connection,
//! where `sock_diag` does not answer. Reading takes longer the more connections there are. Linux only;
//! elsewhere no owner is found and every caller needs the token.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Owner;

/// Returns the owner of the socket that is connected from `from` to `to`.
pub(super) fn owner_of(from: SocketAddr, to: SocketAddr) -> Option<Owner> {
    // An IPv4 connection made with an IPv6 socket is in the second table.
    let tables: &[&str] =
        if from.is_ipv4() { &["/proc/net/tcp", "/proc/net/tcp6"] } else { &["/proc/net/tcp6"] };
    tables.iter().find_map(|table| search(BufReader::new(File::open(table).ok()?), from, to))
}

fn search(table: impl BufRead, from: SocketAddr, to: SocketAddr) -> Option<Owner> {
    let (from, to) = (plain(from), plain(to));
    // The first line names the columns; like every line that is not a socket, it parses to `None`.
    table.lines().map_while(Result::ok).find_map(|line| {
        let row = row(&line)?;
        (row.local == from && row.remote == to).then_some(row.owner)
    })
}

struct Row {
    local: (IpAddr, u16),
    remote: (IpAddr, u16),
    owner: Owner,
}

/// Parses `sl: local remote state queues timer retransmits uid timeout inode …`.
fn row(line: &str) -> Option<Row> {
    let mut columns = line.split_ascii_whitespace().skip(1);
    let local = address(columns.next()?)?;
    let remote = address(columns.next()?)?;
    let uid = columns.nth(4)?.parse().ok()?;
    let inode = columns.nth(1)?.parse().ok()?;
    // A socket that its process has closed is listed as root's, without an inode.
    (inode != 0).then_some(Row { local, remote, owner: Owner { uid, inode } })
}

/// Parses `0100007F:1F90` or its long form. Each group of eight digits is a word in native byte order.
fn address(text: &str) -> Option<(IpAddr, u16)> {
    let (host, port) = text.split_once(':')?;
    let word = |at: usize| {
        let digits = host.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let host = match host.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((host, u16::from_str_radix(port, 16).ok()?))
}

fn plain(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 20 4 30 10 -1
   2: 0100007F:D431 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 333 1 0 20 4 30 10 -1
   3: 0100007F:D432 0100007F:1F90 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0 20 4 30 10 -1
   4: broken
   5: 0100007F:D433 0100007F:1F90 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0
";

    const TABLE6: &str = "\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:9C41 01 00000000:00000000 00:00000000 00000000     0        0 444 1 0 20 4 30 10 -1
   1: 00000000000000000000000001000000:9C41 00000000000000000000000001000000:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 555 1 0 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:D440 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 00:00000000 00000000  1002        0 666 1 0 20 4 30 10 -1
";

    fn find(table: &str, from: &str, to: &str) -> Option<(u32, u64)> {
        let owner = search(table.as_bytes(), from.parse().unwrap(), to.parse().unwrap())?;
        Some((owner.uid, owner.inode))
    }

    #[test]
    fn the_other_ends_row_is_found_and_not_our_own() {
        assert_eq!(find(TABLE, "127.0.0.1:54321", "127.0.0.1:8080"), Some((1000, 333)));
        assert_eq!(find(TABLE6, "[::1]:40001", "[::1]:8080"), Some((1001, 555)));
    }

    #[test]
    fn an_ipv4_connection_of_an_ipv6_socket_is_found() {
        assert_eq!(find(TABLE6, "127.0.0.1:54336", "127.0.0.1:8080"), Some((1002, 666)));
    }

    #[test]
    fn a_closed_socket_is_nobodys_and_not_roots() {
        assert_eq!(find(TABLE, "127.0.0.1:54322", "127.0.0.1:8080"), None);
        assert_eq!(find(TABLE, "127.0.0.1:54323", "127.0.0.1:8080"), None);
    }

    #[test]
    fn strangers_are_not_found() {
        assert_eq!(find(TABLE, "127.0.0.1:54321", "127.0.0.1:8081"), None);
        assert_eq!(find(TABLE, "127.0.0.2:54321", "127.0.0.1:8080"), None);
        assert_eq!(find("", "127.0.0.1:54321", "127.0.0.1:8080"), None);
    }

    #[test]
    fn a_real_connection_is_ours() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let listener = std::net::TcpListener::bind(host).unwrap();
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, from) = listener.accept().unwrap();
            let owner = owner_of(from, served.local_addr().unwrap()).unwrap();
            assert_eq!(owner.uid, host::own_uid());
            drop(client);
            let gone = owner_of(from, served.local_addr().unwrap());
            assert_eq!(gone, None, "its process closed it");
        }
    }
}
