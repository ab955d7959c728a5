//! TCP addresses: loopback only, or for TLS, with errors that say which flag to change.

use std::io;
use std::net::{SocketAddr, TcpListener};

use domain::{Error, ErrorCode};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::{folder, limits};

/// Binds an address; for port 0 the system chooses one.
pub(super) fn bind(address: SocketAddr) -> Result<TcpListener, Error> {
    if !address.ip().is_loopback() {
        return Err(needs_tls(address));
    }
    bind_for_tls(address)
}

/// Says that an address is not served without TLS.
pub(super) fn needs_tls(address: SocketAddr) -> Error {
    let message = format!(
        "cannot listen on {address}: this address needs TLS, which is not configured; set cert and key under [tls] in \
         config.toml, or give --listen a loopback address such as 127.0.0.1:{}",
        address.port()
    );
    Error::new(ErrorCode::ListenFailed, message)
}

/// Binds any address, for a listener that speaks nothing but TLS.
pub(super) fn bind_for_tls(address: SocketAddr) -> Result<TcpListener, Error> {
    listen(address).map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::AddrInUse => "another process listens there".to_owned(),
            _ => folder::plain(&error),
        };
        Error::new(
            ErrorCode::ListenFailed,
            format!(
                "cannot listen on {address}: {problem}; choose another port with --listen {}:PORT (0 takes a free one)",
                if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() }
            ),
        )
    })
}

/// Binds an address, or the same address with the next free port.
pub(super) fn bind_or_next(address: SocketAddr) -> Result<TcpListener, Error> {
    let last = address.port().saturating_add(limits::PORT_STEPS_MAX);
    for port in address.port()..last {
        let here = SocketAddr::new(address.ip(), port);
        match listen(here) {
            Ok(listener) if here.ip().is_loopback() => return Ok(listener),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            // `bind` returns the error with its explanation.
            Ok(_) | Err(_) => return bind(here),
        }
    }
    bind(address)
}

/// Creates the listening socket.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Without this, a restarted daemon could not bind while old connections are in TIME_WAIT.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, limits::BACKLOG)?;
    Ok(TcpListener::from(socket))
}
