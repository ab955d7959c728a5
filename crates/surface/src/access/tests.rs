//! Checks the whole table for every kind of caller against a golden file, and the guard with real requests.

mod cost;
mod guard;

use std::path::Path;

use domain::SessionId;
use prost::Message as _;
use wire::access::{ApiScope, Effect, Needs, Offer, Row, SessionIn, Who};

use super::*;
use crate::peer::{ApiKey, Device, DeviceKind};

const OWN: &str = "sess_own";

/// Routes that only tests of this crate serve.
pub(super) static ROUTES: &[Row] = &[
    route("GET /approve", Who::User),
    route("GET /whoever", Who::Anyone),
    route("GET /touch", Who::Anyone),
    route("POST /touch", Who::Anyone),
    route("DELETE /touch", Who::Anyone),
    route("GET /resting", Who::Anyone),
    route("GET /slow", Who::Anyone),
    route("POST /take", Who::Anyone),
];

const fn route(method: &'static str, who: Who) -> Row {
    Row {
        protocol: Protocol::Rest,
        method,
        who,
        session: SessionIn::None,
        effect: Effect::Reads,
        needs: Needs::Nothing,
        offer: Offer::NoTool,
        tunnel: true,
        client_streams: false,
        scope: None,
    }
}

fn device(role: Role) -> Caller {
    let answers = MayAnswer::Yes;
    Caller::Device(Device { name: "phone".to_owned(), role, kind: DeviceKind::Machine, answers })
}

fn key(scopes: &[ApiScope]) -> Caller {
    Caller::ApiKey(ApiKey { name: "robot".to_owned(), scopes: scopes.to_vec() })
}

fn callers() -> [(&'static str, Caller, &'static str); 12] {
    use ApiScope::{ReadHosts, ReadStreams, ReadTasks, WriteHosts, WriteStreams, WriteTasks};
    let agent = || Caller::Agent(SessionId::new(OWN));
    [
        ("user", Caller::User, OWN),
        ("agent", agent(), OWN),
        ("other agent", agent(), "sess_other"),
        ("unknown", Caller::Unknown, OWN),
        ("token", Caller::Token, OWN),
        ("viewer", device(Role::Viewer), OWN),
        ("operator", device(Role::Operator), OWN),
        ("owner", device(Role::Owner), OWN),
        ("page", Caller::Page, OWN),
        ("reading key", key(&[ReadTasks, ReadHosts, ReadStreams]), OWN),
        ("writing key", key(&[WriteTasks, WriteHosts, WriteStreams]), OWN),
        ("admin key", key(&[ApiScope::Admin]), OWN),
    ]
}

/// Lists which callers may call each method. Another user of the machine without the token is rejected before
/// the table is consulted.
fn walk() -> String {
    let mut text = String::from("# method: who may call it; made with UPDATE_GOLDEN=1\n");
    for row in rows() {
        let may: Vec<&str> = callers()
            .iter()
            .filter(|(_, caller, session)| check(Some(row), caller, session).is_ok())
            .map(|(name, ..)| *name)
            .collect();
        let [(_, method), ..] = cells(row);
        text.push_str(&format!("{method}: {}\n", may.join(", ")));
    }
    text
}

fn golden(path: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(kept, text, "{} is old; run this test with UPDATE_GOLDEN=1", path.display());
}

#[test]
fn the_table_gives_every_caller_what_the_golden_file_says() {
    golden("src/access/golden.txt", &walk());
}

#[test]
fn the_page_in_docs_is_current() {
    golden("../../docs/access.md", &page());
}

#[test]
fn every_method_has_a_row() {
    let sets = [
        wire::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    ];
    for set in sets {
        let set = prost_types::FileDescriptorSet::decode(set).unwrap();
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let name = format!("{}.{}/{}", file.package(), service.name(), method.name());
                    assert!(grpc(&name).is_some(), "{name} has no row: see proto/obey/v1/access.proto");
                }
            }
        }
    }
}

#[test]
fn rows_are_found_by_name_and_what_has_none_is_refused() {
    for row in rows() {
        let found = match row.protocol {
            Protocol::Grpc => grpc(row.method),
            Protocol::Rest => row.method.split_once(' ').and_then(|(verb, path)| rest(verb, path)),
            Protocol::Tool => tool(row.method).or_else(client_tool),
            Protocol::Acp => acp(row.method),
        };
        assert_eq!(found, Some(row));
    }
    assert!(grpc("obey.v1.EventService/Nothing").is_none() && tool("*").is_none() && acp("x").is_none());
    let error = check(None, &Caller::User, OWN).unwrap_err();
    assert_eq!(error.code, ErrorCode::NotAllowed);
}

#[test]
fn a_route_with_a_gap_comes_after_those_without() {
    let found = |verb: &str, path: &str| rest(verb, path).map(|row| row.method);
    assert_eq!(found("GET", "/api/v1/memory/mem_1"), Some("GET /api/v1/memory/{id}"));
    assert_eq!(found("HEAD", "/health"), Some("GET /health"));
    assert_eq!(found("POST", "/api/v1/memory/search"), Some("POST /api/v1/memory/search"));
    for path in ["/api/v1/memory/", "/api/v1/memory/a/b", "/health/", "health", "/api/v1/memory"] {
        assert_eq!(found("GET", path), None, "{path}");
    }
    assert_eq!(found("POST", "/health"), None);
    assert!(has_path("/health") && !has_path("/nowhere"));
}

#[test]
fn rows_agree_with_themselves() {
    for row in rows() {
        let for_agents = matches!(row.who, Who::Agent | Who::Bridge);
        assert!(!for_agents || row.session != SessionIn::None, "{}: which session?", row.method);
        assert!(
            row.offer != Offer::Offered || for_agents,
            "{} is offered to agents, who may not",
            row.method
        );
        // A login is for whoever has a code; its handler refuses agents.
        let is_login = row.method == "obey.v1.PageService/Login";
        assert!(
            row.who != Who::Anyone || row.effect == Effect::Reads || is_login,
            "{} lets anyone act",
            row.method
        );
    }
}

#[test]
fn nothing_that_must_stay_at_home_comes_through_a_relay() {
    let row = grpc("obey.local.v1.LocalDaemonService/Shutdown").unwrap();
    assert_eq!(decide(row, &Caller::User, false), Verdict::Allowed);
    assert!(matches!(decide(row, &Caller::User, true), Verdict::Refused(_)));
    let row = grpc("obey.local.v1.LocalDaemonService/GetState").unwrap();
    assert_eq!(decide(row, &Caller::User, true), Verdict::Allowed);
}

#[test]
fn a_refusal_says_why_and_what_to_do() {
    let row: &Row = grpc("obey.local.v1.LocalDaemonService/Execute").unwrap();
    let said = |caller: &Caller| check(Some(row), caller, OWN).unwrap_err().message;
    assert!(said(&Caller::Agent(SessionId::new(OWN))).contains("this call comes from an agent of sess_own"));
    assert!(said(&Caller::Unknown).contains("connect again"));
    assert!(said(&Caller::Token).contains("only the daemon's own user"));
    assert!(
        said(&device(Role::Viewer)).contains("role viewer") && said(&device(Role::Viewer)).contains("owner")
    );
    let row = grpc("obey.v1.EventService/ReadEvents").unwrap();
    let error = check(Some(row), &Caller::Agent(SessionId::new(OWN)), "sess_other").unwrap_err();
    assert!(error.message.contains("set session_id to sess_own"), "{error}");
}
