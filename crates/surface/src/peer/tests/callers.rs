//! Agents are distinguished from users on both kinds of listener.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::{IntoResponse, Response};
use domain::SessionId;
use http::Extensions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tonic::service::Routes;

use crate::peer::{self, Access, Agents, Caller, Calling, Connection, Peer, Via};
use crate::server::tests::private_home;
use crate::server::tests::running::{Running, soon};

/// Treats one process as the agent of a session.
struct One {
    pid: i32,
    asked: AtomicUsize,
}

impl One {
    fn new(pid: i32) -> Arc<Self> {
        Arc::new(Self { pid, asked: AtomicUsize::new(0) })
    }
}

impl Agents for One {
    fn session_of(&self, pid: i32) -> Option<SessionId> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (pid == self.pid).then(|| SessionId::new("sess_one"))
    }
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

/// A service that returns who called; the access table lets only users call it.
fn routes() -> Routes {
    async fn approve(request: http::Request<axum::body::Body>) -> Response {
        let extensions: &Extensions = request.extensions();
        let peer = *extensions.get::<Peer>().unwrap();
        assert_eq!(peer.uid, Some(host::own_uid()));
        assert_eq!(peer.pid, (peer.via == Via::Unix).then(own_pid));
        format!("{:?}", peer.via).into_response()
    }
    async fn whoever(request: http::Request<axum::body::Body>) -> String {
        format!("{:?}", peer::caller(request.extensions()))
    }
    let router = Router::new().route("/approve", axum::routing::get(approve));
    Routes::from(router.route("/whoever", axum::routing::get(whoever)))
}

const REQUEST: &str = "GET /approve HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n";

async fn answers(agents: Arc<dyn Agents>) -> [String; 2] {
    let running = Running::start_with(routes(), Access { agents, ..Access::default() });
    let answers = running.plain(REQUEST).await;
    running.stop().await;
    answers
}

#[tokio::test]
async fn agents_and_what_they_started_are_refused() {
    let parent = std::os::unix::process::parent_id() as i32;
    for agent in [own_pid(), parent] {
        for answer in answers(One::new(agent)).await {
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            let expected = "agents may not call GET /approve; this call comes from an agent of sess_one";
            assert!(answer.contains("OBEY-1002") && answer.contains(expected), "{answer}");
        }
    }
}

#[tokio::test]
async fn users_pass_beside_agents() {
    let [unix, tcp] = answers(One::new(i32::MAX)).await;
    assert!(unix.starts_with("HTTP/1.1 200") && unix.ends_with("Unix"), "{unix}");
    assert!(tcp.starts_with("HTTP/1.1 200") && tcp.ends_with("Tcp"), "{tcp}");
}

/// Two requests over one connection; before the second, the caller would be classified differently.
#[tokio::test]
async fn a_caller_is_identified_once_when_it_connects() {
    let agents = One::new(i32::MAX);
    let access = Access { agents: Arc::clone(&agents) as Arc<dyn Agents>, ..Access::default() };
    let running = Running::start_with(routes(), access);
    let mut stream = UnixStream::connect(&running.socket).await.unwrap();
    let request = "GET /approve HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for _ in 0..2 {
        let mut answer = [0; 4096];
        stream.write_all(request.as_bytes()).await.unwrap();
        let count = soon(stream.read(&mut answer)).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..count]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let asked = agents.asked.load(Ordering::Relaxed);
    assert!(asked > 0);
    stream.write_all(request.as_bytes()).await.unwrap();
    soon(stream.read(&mut [0; 4096])).await.unwrap();
    assert_eq!(agents.asked.load(Ordering::Relaxed), asked, "nobody is asked again");
    drop(stream);
    running.stop().await;
}

/// A former security finding: a process connects, hands its connection to another and ends; its process id
/// may soon belong to another process.
#[tokio::test]
async fn a_connection_whose_maker_has_ended_is_nobodys() {
    let agents: Arc<dyn Agents> = One::new(i32::MAX);
    let home = private_home();
    let listener = tokio::net::UnixListener::bind(home.path().join("s")).unwrap();
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])";
    let path = home.path().join("s");
    let status =
        tokio::process::Command::new("python3").args(["-c", script]).arg(&path).status().await.unwrap();
    assert!(status.success());
    let (stream, _) = soon(listener.accept()).await.unwrap();
    let access = Access { agents, ..Access::default() };
    let connection = Connection::unix(&stream, &access).unwrap();
    assert_eq!(connection.calling.caller(), Caller::Unknown);
}

/// A program below us that no known agent started.
#[tokio::test]
async fn a_child_of_the_daemon_is_not_the_user() {
    let running = Running::start_with(routes(), Access::default());
    let script = format!(
        "import socket\ns=socket.socket(socket.AF_UNIX)\ns.connect('{}')\n\
         s.sendall(b'GET /whoever HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n')\n\
         print(s.makefile().read())",
        running.socket.display()
    );
    let output = tokio::process::Command::new("python3").args(["-c", &script]).output().await.unwrap();
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(answer.ends_with("Unknown\n"), "{output:?}");
    running.stop().await;
}

#[test]
fn calls_that_came_through_no_listener_must_say_who_they_are() {
    let mut extensions = Extensions::new();
    assert_eq!(peer::caller(&extensions), Caller::Unknown);
    extensions.insert(Calling::user());
    assert_eq!(peer::caller(&extensions), Caller::User);
}
