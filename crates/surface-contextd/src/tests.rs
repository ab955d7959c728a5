//! Access rules, whatever protocol a call came by. No command runs here, so no sandbox is needed.

use std::sync::Arc;

use agent_port::Providers;
use domain::{ErrorCode, SessionId};
use runtime::Supervisor;
use runtime::settings::Settings;
use runtime::supervisor::SupervisorOptions;
use sandbox::Sandbox;
use serde_json::{Value, json};
use storage::Store;
use workbench::policy::UserPolicies;
use workbench::sessions::SessionTtl;
use workbench::{ProjectRules, Workbench, WorkbenchSetup, refs, scrub};

use super::operations::{OPERATIONS, operation};
use super::{Contextd, ContextdConfig, OpenWorkbench, WorkbenchFuture};
use surface::access;
use surface::asking::Asking;
use surface::peer::Caller;

/// A workbench that is already open.
struct Open(Arc<Workbench>);

impl OpenWorkbench for Open {
    fn workbench(&self) -> WorkbenchFuture<'_> {
        Box::pin(std::future::ready(Ok(Arc::clone(&self.0))))
    }
}

struct Desk {
    contextd: Contextd,
    folder: tempfile::TempDir,
}

impl Desk {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let store = Store::open(&folder.path().join("daemon.db")).unwrap();
        let supervisor = Supervisor::new(SupervisorOptions {
            store: store.clone(),
            providers: Providers::new(Vec::new()),
            agents_dir: folder.path().join("agents"),
            worktrees_dir: folder.path().join("worktrees"),
            offers_tools: false,
            scrubber: None,
            containment: runtime::containment::Policy::default(),
            scrub_events: false,
            shim_program: "/nonexistent".into(),
            socket: folder.path().join("sock"),
            spool_max_bytes: 1 << 20,
            active_sessions_max: 1,
            default_mode: domain::Mode::default(),
            settings: Settings::default(),
        })
        .await
        .unwrap();
        let workbench = Workbench::open(WorkbenchSetup {
            sandbox: Arc::new(Sandbox::probe(sandbox::Config::new(vec!["/nonexistent".into()])).await),
            scrubber: scrub::Scrubber::new(&scrub::Config::new()).unwrap(),
            refs_folder: folder.path().join("refs"),
            refs: refs::RefLimits::default(),
            store,
            ttl: SessionTtl::default(),
            policies: UserPolicies::new(None).unwrap(),
            embedder: workbench::embed::Embedder::Words,
            qdrant: None,
        })
        .await
        .unwrap();
        let about = ContextdConfig {
            default_project: Some(project),
            project_rules: ProjectRules::Ignored,
            checkpoints_folder: folder.path().join("checkpoints"),
        };
        Self { contextd: Contextd::new(Arc::new(Open(Arc::new(workbench))), supervisor, about, "1"), folder }
    }

    async fn call(&self, caller: &Caller, key: &str, input: Value) -> Result<Value, domain::Error> {
        let Value::Object(input) = input else { panic!("no object") };
        self.contextd.call(operation(key).unwrap(), caller.clone(), input, Asking::Unnamed).await
    }
}

#[tokio::test]
async fn agents_use_their_own_session_only() {
    let handler = Desk::new().await;
    let agent = Caller::Agent(SessionId::new("sess_own"));
    let list = |session: &str| json!({ "session_id": session });
    // Access to its own session is allowed; here that session does not exist.
    let error = handler.call(&agent, "Policy.List", list("sess_own")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SessionNotFound, "{error}");
    handler.call(&Caller::User, "Policy.List", list("sess_other")).await.unwrap();
    for (key, input) in [
        ("Policy.List", list("sess_other")),
        ("SafeExec.Bash", json!({"cmd": "ls", "session_id": "sess_other"})),
        ("Ref.GetContent", json!({"ref_id": "ref_x"})),
        ("Ref.GetContent", json!({"ref_id": "ref_x", "session_id": "sess_other"})),
        ("Session.Start", json!({"project_path": handler.folder.path()})),
        ("Agent.Create", json!({"name": "x", "system_prompt": "y", "session_id": "sess_own"})),
        ("Agent.Delete", json!({"id": "x", "session_id": "sess_own"})),
    ] {
        let error = handler.call(&agent, key, input.clone()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAllowed, "{key} {input}: {error}");
        let error = handler.call(&Caller::Unknown, key, input).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::NotAllowed, "{key}");
    }
    let rows = handler.contextd.handler().await.unwrap().workbench.audit().after(0, None).await.unwrap();
    assert!(
        rows.iter()
            .any(|row| row.entry.caller == "agent sess_own" && row.entry.outcome.to_string() == "OBEY-1002")
    );
}

#[tokio::test]
async fn an_answer_says_within_a_twentieth_what_it_costs() {
    let handler = Desk::new().await;
    let real = tiktoken_rs::o200k_base_singleton();
    for (number, text) in [
        "Plain English prose about a build that failed twice before anybody looked at it.",
        "fn main() { println!(\"{:?}\", std::env::args().collect::<Vec<_>>()); }",
        "error[E0382]: borrow of moved value: `x`\n  --> src/main.rs:12:5\n   |\n12 |     x.len();\n",
        "Größere Änderungen über mehrere Übersetzungen hinweg, ungefähr zwölf.",
        "接続が切れました。もう一度お試しください。 🚀🚀",
        "{\"id\":\"9f86d081884c7d659a2feaa0c55ad015\",\"n\":[1,22,333,4444,55555],\"ok\":true}",
    ]
    .into_iter()
    .enumerate()
    {
        let content = text.repeat(8);
        let stored = json!({"title": format!("t{number}"), "content": content, "session_id": "sess_a"});
        let id = handler.call(&Caller::User, "Memory.Store", stored).await.unwrap()["id"].clone();
        let asked = json!({"id": id, "session_id": "sess_a"});
        let answer = handler.call(&Caller::User, "Memory.Get", asked).await.unwrap();
        let told = answer["tokens_used"].as_f64().unwrap();
        let sent = real.encode_ordinary(&answer.to_string()).len() as f64;
        assert!((told / sent - 1.0).abs() < 0.05, "{told} told, {sent} sent: {answer}");
    }
}

#[tokio::test]
async fn a_new_session_without_a_project_is_refused_with_what_to_do() {
    let mut handler = Desk::new().await;
    let about = Arc::get_mut(&mut handler.contextd.about).unwrap();
    about.default_project = Some("/".into());
    let error =
        handler.call(&Caller::User, "Policy.List", json!({"session_id": "sess_a"})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::WrongState);
    assert!(error.message.contains("Session.Start") && error.message.contains("working_dir"), "{error}");
}

#[tokio::test]
async fn without_a_sandbox_commands_are_refused() {
    let handler = Desk::new().await;
    let input = json!({"cmd": "ls", "session_id": "sess_a"});
    let error = handler.call(&Caller::User, "SafeExec.Bash", input).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SandboxFailed, "{error}");
    let rows = handler.contextd.handler().await.unwrap().workbench.audit().after(0, None).await.unwrap();
    assert_eq!((rows[0].entry.tier.as_str(), &*rows[0].entry.outcome.to_string()), ("refused", "OBEY-2005"));
}

#[test]
fn names_and_routes_are_one_of_a_kind() {
    let mut seen = std::collections::BTreeSet::new();
    for operation in OPERATIONS {
        assert!(seen.insert(operation.tool.to_owned()), "{}", operation.tool);
        assert!(seen.insert(format!("{} {}", operation.verb.name(), operation.path)), "{}", operation.path);
    }
    assert_eq!(OPERATIONS.len(), 28);
}

#[test]
fn every_operation_has_one_row_for_each_way_in() {
    for operation in OPERATIONS {
        let method = format!("contextd.v1.{}Service/{}", operation.service, operation.method);
        let grpc = access::grpc(&method).unwrap();
        let rest = access::rest(operation.verb.name(), operation.path).unwrap();
        let tool = operation.access().unwrap();
        for row in [rest, tool] {
            assert_eq!((row.who, row.effect, row.needs), (grpc.who, grpc.effect, grpc.needs), "{method}");
            assert_eq!(row.offer, grpc.offer, "{method}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
    /// Every request gets a result, or an error that names the problem.
    #[test]
    fn any_request_is_answered(
        which in 0..OPERATIONS.len(),
        text in "\\PC{0,40}",
        number in proptest::prelude::any::<i64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let handler = Desk::new().await;
            let operation = &OPERATIONS[which];
            for value in [json!(text), json!(number), json!([text, number]), json!({ "a": text }), json!(null)] {
                let mut input = serde_json::Map::new();
                for field in operation.fields {
                    input.insert(field.name.to_owned(), value.clone());
                }
                input.insert("session_id".to_owned(), json!("sess_a"));
                let answer = handler.contextd.call(operation, Caller::User, input, Asking::Unnamed).await;
                if let Err(error) = answer {
                    assert!(!error.message.is_empty());
                }
            }
        });
    }
}
