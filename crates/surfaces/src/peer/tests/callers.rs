//! Agents are told from users on both kinds of listener.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use axum::response::{IntoResponse, Response};
use domain::{ErrorCode, SessionId};
use http::{Extensions, StatusCode};
use tonic::service::Routes;

use crate::peer::{self, Access, Agents, Caller, Calling, Clue, Peer, Via};
use crate::server::tests::running::Running;

/// Takes one process for the agent of a session.
struct One {
    pid: i32,
    asked: AtomicUsize,
    is_empty: AtomicBool,
}

impl One {
    fn new(pid: i32) -> Arc<Self> {
        Arc::new(Self { pid, asked: AtomicUsize::new(0), is_empty: AtomicBool::new(false) })
    }
}

impl Agents for One {
    fn session_of(&self, pid: i32) -> Option<SessionId> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        (pid == self.pid).then(|| SessionId::new("sess_one"))
    }

    fn is_empty(&self) -> bool {
        self.is_empty.load(Ordering::Relaxed)
    }
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

/// A service that only users may call, and that says who called.
fn routes() -> Routes {
    async fn approve(request: http::Request<axum::body::Body>) -> Response {
        let extensions: &Extensions = request.extensions();
        let peer = *extensions.get::<Peer>().unwrap();
        assert_eq!(peer.uid, Some(runtime::own_uid()));
        assert_eq!(peer.pid, (peer.via == Via::Unix).then(own_pid));
        match peer::require_user_of(extensions, "answer requests") {
            Ok(()) => format!("{:?}", peer.via).into_response(),
            Err(error) => (StatusCode::FORBIDDEN, error.to_string()).into_response(),
        }
    }
    Routes::from(Router::new().route("/approve", axum::routing::get(approve)))
}

const REQUEST: &str = "GET /approve HTTP/1.1\r\nhost: HOST\r\nconnection: close\r\n\r\n";

async fn answers(agents: Arc<dyn Agents>) -> [String; 2] {
    let running = Running::start_with(routes(), Access { token: None, agents });
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
            let expected =
                "OBEY-1002: agents may not answer requests; this call comes from an agent of sess_one";
            assert!(answer.ends_with(expected), "{answer}");
        }
    }
}

#[tokio::test]
async fn users_pass_beside_agents() {
    let [unix, tcp] = answers(One::new(i32::MAX)).await;
    assert!(unix.starts_with("HTTP/1.1 200") && unix.ends_with("Unix"), "{unix}");
    assert!(tcp.starts_with("HTTP/1.1 200") && tcp.ends_with("Tcp"), "{tcp}");
}

#[tokio::test]
async fn without_agents_nobody_is_examined() {
    let agents = One::new(own_pid());
    agents.is_empty.store(true, Ordering::Relaxed);
    for answer in answers(Arc::clone(&agents) as Arc<dyn Agents>).await {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert_eq!(agents.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn a_connection_is_examined_once() {
    let agents = One::new(i32::MAX);
    let calling = Calling::new(Arc::clone(&agents) as Arc<dyn Agents>, Clue::Process(own_pid()));
    assert_eq!(calling.caller(), Caller::User);
    let asked = agents.asked.load(Ordering::Relaxed);
    assert!(asked > 0);
    assert_eq!(calling.clone().caller(), Caller::User);
    assert_eq!(agents.asked.load(Ordering::Relaxed), asked);
}

#[test]
fn a_connection_older_than_the_first_agent_is_examined_when_it_matters() {
    let agents = One::new(own_pid());
    agents.is_empty.store(true, Ordering::Relaxed);
    let calling = Calling::new(Arc::clone(&agents) as Arc<dyn Agents>, Clue::Process(own_pid()));
    assert_eq!(calling.caller(), Caller::User);
    agents.is_empty.store(false, Ordering::Relaxed);
    assert_eq!(calling.caller(), Caller::Agent(SessionId::new("sess_one")));
}

#[test]
fn a_process_that_is_gone_or_hides_is_refused_while_agents_run() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let dead = child.id() as i32;
    child.wait().unwrap();
    for clue in [Clue::Process(dead), Clue::Socket(u64::MAX), Clue::Nothing] {
        let calling = Calling::new(One::new(i32::MAX), clue);
        assert_eq!(calling.caller(), Caller::Unknown, "{clue:?}");
        let mut request = tonic::Request::new(());
        request.extensions_mut().insert(calling);
        let error = peer::require_user(&request, "start sessions").unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAllowed);
        assert!(error.message.starts_with("agents may not start sessions, and it cannot be told"), "{error}");
    }
}

#[test]
fn a_child_of_an_agent_is_the_agents() {
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let caller = peer::classify(child.id() as i32, &*One::new(own_pid()));
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(caller, Caller::Agent(SessionId::new("sess_one")));
}

#[test]
fn calls_that_came_through_no_listener_must_say_who_they_are() {
    let mut request = tonic::Request::new(());
    assert!(peer::require_user(&request, "start sessions").is_err());
    request.extensions_mut().insert(Calling::user());
    peer::require_user(&request, "start sessions").unwrap();
}
