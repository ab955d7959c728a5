//! The Unix socket: a file of mode 0600 in a folder of mode 0700, replaced only when it is stale, and removed
//! only while it is ours; or a socket that a service manager created and passed to us. Does not know what is
//! sent through it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use super::lock::DaemonLock;
use super::{folder, limits};

const REMEDY: &str = "choose another path with --socket";

/// The file of a socket. Removed on drop if it is still the one that was bound.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file we created; `None` if another process created it and keeps it.
    own: Option<(u64, u64)>,
}

impl SocketFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file if it is still the one we created. Returns whether we created one; later calls return
    /// false.
    pub(super) fn remove(&mut self) -> bool {
        let Some(own) = self.own.take() else { return false };
        if fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == own) {
            // A file that stays behind is merely stale: the next daemon replaces it.
            let _ = fs::remove_file(&self.path);
        }
        true
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Binds a socket. An existing file is removed only if it is a socket without a listener; the lock proves
/// that no other daemon of this user is about to listen on it.
pub(super) fn bind(path: &Path, _lock: &DaemonLock) -> Result<(UnixListener, SocketFile), Error> {
    let length = path.as_os_str().len();
    if length > limits::SOCKET_PATH_MAX_BYTES {
        let message = format!(
            "the socket path {} is {length} bytes long and the system allows {}; choose a shorter one with --socket",
            path.display(),
            limits::SOCKET_PATH_MAX_BYTES
        );
        return Err(Error::new(ErrorCode::ListenFailed, message));
    }
    folder::private(folder::of(path), REMEDY)?;
    clear(path)?;
    let listener = listen(path).map_err(|error| failed(path, &folder::plain(&error)))?;
    let found = fs::symlink_metadata(path).map_err(|error| failed(path, &folder::plain(&error)))?;
    let file = SocketFile { path: path.to_owned(), own: Some((found.dev(), found.ino())) };
    Ok((listener, file))
}

/// Takes over a socket that another process listens on and passed to us. Anything but the listening socket of
/// this path is rejected, because it shows a configuration error.
pub(super) fn adopt(given: OwnedFd, path: &Path) -> Result<(UnixListener, SocketFile), Error> {
    let unusable = |problem: &str| {
        let message = format!(
            "the socket passed by the service manager {problem}; it must be the one of {}: let ListenStream= in \
             obey.socket and --socket in obey.service agree, or write both anew with `obey service install`",
            path.display()
        );
        Error::new(ErrorCode::ListenFailed, message)
    };
    let failed = |error: rustix::io::Errno| unusable(&format!("cannot be used ({error})"));
    let is_stream = sockopt::socket_type(&given).is_ok_and(|kind| kind == SocketType::STREAM);
    if !is_stream || !sockopt::socket_acceptconn(&given).map_err(failed)? {
        return Err(unusable("is not one to accept connections on"));
    }
    let name = rustix::net::getsockname(&given).map_err(failed)?;
    let Ok(name) = SocketAddrUnix::try_from(name) else { return Err(unusable("is no Unix socket")) };
    let found = name.path_bytes().map(|bytes| PathBuf::from(OsStr::from_bytes(bytes)));
    match found {
        Some(found) if is_same(&found, path) => {}
        Some(found) => return Err(unusable(&format!("is that of {}", found.display()))),
        None => return Err(unusable("has no path")),
    }
    folder::private(folder::of(path), REMEDY)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .map_err(|error| unusable(&format!("cannot be closed to others ({})", folder::plain(&error))))?;
    // Agents must not inherit it.
    rustix::io::fcntl_setfd(&given, rustix::io::FdFlags::CLOEXEC).map_err(failed)?;
    let listener = UnixListener::from(given);
    listener.set_nonblocking(true).map_err(|error| unusable(&folder::plain(&error)))?;
    Ok((listener, SocketFile { path: path.to_owned(), own: None }))
}

/// Whether two paths refer to the same file, however they are written.
fn is_same(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    match (place(one), place(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Creates the listening socket. No other user can enter the folder, so the moment between bind and chmod is
/// harmless; the umask, which is process-wide, is not changed.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let ready = fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        .and_then(|()| Ok(rustix::net::listen(&socket, limits::BACKLOG)?));
    if let Err(error) = ready {
        // We created it a moment ago, in a folder that no other user can write to.
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(UnixListener::from(socket))
}

/// Removes a stale socket, and nothing else.
fn clear(path: &Path) -> Result<(), Error> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(path, &folder::plain(&error))),
    };
    if !found.file_type().is_socket() {
        return Err(failed(path, "something that is not a socket is there, and is left alone"));
    }
    if found.uid() != host::own_uid() {
        return Err(failed(path, &format!("a socket of user {} is there", found.uid())));
    }
    if is_listening(path).map_err(|error| failed(path, &folder::plain(&error)))? {
        return Err(failed(path, "another process listens there"));
    }
    fs::remove_file(path).map_err(|error| failed(path, &folder::plain(&error)))
}

/// Whether a process listens on the socket. Never blocks: a full queue counts as listening.
fn is_listening(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => Ok(false),
        Err(_) => Ok(true),
    }
}

fn failed(path: &Path, problem: &str) -> Error {
    Error::new(
        ErrorCode::ListenFailed,
        format!("cannot listen on the socket {}: {problem}; {REMEDY}", path.display()),
    )
}
