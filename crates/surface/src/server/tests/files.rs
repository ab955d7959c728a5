//! The lock, the socket's file and folder, and the messages when an address cannot be used.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

use super::private_home;
use crate::peer::Access;
use crate::server::{Bound, DaemonLock, Listen, Server};
use domain::ErrorCode;

fn bind(lock: &DaemonLock, path: &Path) -> Result<Bound, domain::Error> {
    Server::bind(&[Listen::Unix(path.to_owned())], lock, Access::default())
}

fn message(result: Result<Bound, domain::Error>) -> String {
    let error = result.err().expect("must be refused");
    assert_eq!(error.code, ErrorCode::ListenFailed);
    error.message
}

#[test]
fn a_second_daemon_is_told_who_has_the_lock() {
    let home = private_home();
    let path = home.path().join("run/daemon.lock");
    let lock = DaemonLock::acquire(&path).unwrap();
    let error = DaemonLock::acquire(&path).unwrap_err();
    assert_eq!(error.code, ErrorCode::AlreadyRunning);
    assert!(error.message.contains(&format!("process {}", std::process::id())), "{}", error.message);
    assert_eq!(fs::metadata(home.path().join("run")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    drop(lock);
    DaemonLock::acquire(&path).unwrap();
}

#[test]
fn a_longer_number_of_a_dead_daemon_leaves_nothing_behind() {
    let home = private_home();
    let path = home.path().join("lock");
    fs::write(&path, "99999999999999\n").unwrap();
    let _lock = DaemonLock::acquire(&path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
}

#[test]
fn a_symbolic_link_is_no_lock() {
    let home = private_home();
    std::os::unix::fs::symlink(home.path().join("elsewhere"), home.path().join("lock")).unwrap();
    assert!(DaemonLock::acquire(&home.path().join("lock")).is_err());
    assert!(!home.path().join("elsewhere").exists());
}

#[test]
fn the_socket_is_private_and_goes_with_its_server() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let path = home.path().join("new/obey/daemon.sock");
    let bound = bind(&lock, &path).unwrap();
    assert_eq!(bound.addresses(), [Listen::Unix(path.clone())]);
    assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    drop(bound);
    assert!(!path.exists());
}

#[test]
fn a_dead_socket_is_replaced_and_a_living_one_is_not() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let path = home.path().join("daemon.sock");
    let living = UnixListener::bind(&path).unwrap();
    assert!(message(bind(&lock, &path)).contains("another process listens there"));
    drop(living);
    assert!(path.exists(), "closing leaves the file");
    bind(&lock, &path).unwrap();
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let path = home.path().join("daemon.sock");
    fs::write(&path, "precious").unwrap();
    assert!(message(bind(&lock, &path)).contains("not a socket"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn somebody_elses_socket_is_not_removed_at_the_end() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let path = home.path().join("daemon.sock");
    let bound = bind(&lock, &path).unwrap();
    // Moved, not removed: a new file may reuse the inode number of a removed one.
    fs::rename(&path, home.path().join("moved")).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(bound);
    assert!(path.exists());
}

#[tokio::test]
async fn a_socket_that_was_passed_is_served_with_those_who_waited_and_stays() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let path = home.path().join("daemon.sock");
    let managers = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    // Connects before the server runs.
    let early = tokio::net::UnixStream::connect(&path).await.unwrap();
    for _ in 0..2 {
        let given = managers.try_clone().unwrap().into();
        let listens = [Listen::Unix(path.clone())];
        let bound = Server::bind_given(&listens, Some(given), &lock, Access::default()).unwrap();
        assert_eq!(bound.addresses(), listens);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(bound);
        assert!(path.exists(), "the file belongs to whoever passed the socket");
    }
    let given = managers.try_clone().unwrap().into();
    let bound =
        Server::bind_given(&[Listen::Unix(path.clone())], Some(given), &lock, Access::default()).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(bound.serve(tonic::service::Routes::default(), async {
        let _ = stopped.await;
    }));
    let asked = "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = super::running::exchange(early, asked).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stop.send(()).unwrap();
    super::running::soon(serving).await.unwrap().unwrap();
    assert!(path.exists());
}

#[test]
fn only_the_listening_socket_of_the_path_is_taken_over() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let path = home.path().join("daemon.sock");
    let adopt = |given: std::os::fd::OwnedFd| {
        message(Server::bind_given(&[Listen::Unix(path.clone())], Some(given), &lock, Access::default()))
    };
    let other = home.path().join("other.sock");
    let refused = adopt(UnixListener::bind(&other).unwrap().into());
    assert!(refused.contains(&format!("is that of {}", other.display())), "{refused}");
    assert!(refused.contains("obey service install"), "{refused}");
    let (half, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(adopt(half.into()).contains("not one to accept connections on"));
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(adopt(tcp.into()).contains("is no Unix socket"));
    let file = fs::File::open(home.path().join("lock")).unwrap();
    assert!(adopt(file.into()).contains("not one to accept connections on"));
}

#[test]
fn folders_that_others_can_enter_or_that_lead_elsewhere_are_refused() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let open = home.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let refused = message(bind(&lock, &open.join("s")));
    assert!(refused.contains("chmod 700") && refused.contains("--socket"), "{refused}");

    let real = home.path().join("real");
    fs::create_dir(&real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&real, home.path().join("link")).unwrap();
    assert!(message(bind(&lock, &home.path().join("link/s"))).contains("symbolic link"));
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);

    fs::write(home.path().join("file"), "").unwrap();
    assert!(message(bind(&lock, &home.path().join("file/s"))).contains("--socket"));
}

#[test]
fn a_path_that_is_too_long_is_named_with_its_limit() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let refused = message(bind(&lock, &home.path().join("x".repeat(120))));
    assert!(refused.contains("the system allows 107") && refused.contains("--socket"), "{refused}");
    // The longest allowed path works.
    let room = 107 - home.path().as_os_str().len() - 1;
    bind(&lock, &home.path().join("y".repeat(room))).unwrap();
}

#[test]
fn a_busy_port_is_named_with_its_flag_and_nothing_stays_bound() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let path = home.path().join("daemon.sock");
    let listens = [Listen::Unix(path.clone()), Listen::Tcp(address)];
    let refused = message(Server::bind(&listens, &lock, Access::default()));
    assert!(refused.contains(&address.to_string()), "{refused}");
    assert!(refused.contains("--listen 127.0.0.1:PORT"), "{refused}");
    assert!(!path.exists());
}

#[test]
fn a_busy_port_that_nobody_insists_on_is_stepped_over() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let bound = Server::bind(&[Listen::TcpOrNext(address)], &lock, Access::default()).unwrap();
    let [Listen::Tcp(found)] = bound.addresses()[..] else { panic!("{:?}", bound.addresses()) };
    assert!(found.port() > address.port() && found.ip() == address.ip(), "{found}");
    drop(bound);
    drop(taken);
    let bound = Server::bind(&[Listen::TcpOrNext(address)], &lock, Access::default()).unwrap();
    assert_eq!(bound.addresses(), [Listen::Tcp(address)], "a free one is taken as it is");
}

#[test]
fn only_loopback_addresses_are_taken() {
    let home = private_home();
    let lock = DaemonLock::acquire(&home.path().join("lock")).unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "[::ffff:127.0.0.1]:0"] {
        let listens = [Listen::Tcp(address.parse().unwrap())];
        let refused = message(Server::bind(&listens, &lock, Access::default()));
        assert!(refused.contains("this address needs TLS, which is not configured"), "{refused}");
    }
    for address in ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"] {
        let listens = [Listen::Tcp(address.parse().unwrap())];
        let bound = Server::bind(&listens, &lock, Access::default()).unwrap();
        assert!(!format!("{}", bound.addresses()[0]).ends_with(":0"));
    }
}
