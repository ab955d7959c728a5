//! API keys and REST: what a key may do is what its scopes say, whoever sends it, and an agent with one stays an agent.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use e2e::clients::{collect, refused};
use e2e::deadline::within;
use e2e::http::{self, Answer};
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use wire::obey::local::v1 as local;
use wire::obey::local::v1::local_daemon_service_client::LocalDaemonServiceClient;
use wire::obey::v1 as own;
use wire::obey::v1::api_key_service_client::ApiKeyServiceClient;
use wire::roz::v1 as pb;
use wire::roz::v1::task_service_client::TaskServiceClient;

use super::talk::environment;
use crate::boundary::{hostile_session, hostile_stage, run_as_agent};
use crate::stage::{Agent, Stage, script, stage};

/// A program with a key.
pub(super) struct Program<'a> {
    pub(super) to: SocketAddr,
    pub(super) key: &'a str,
}

impl Program<'_> {
    pub(super) async fn ask(&self, method: &str, path: &str, body: Value) -> Result<Answer> {
        let body = if body.is_null() { None } else { Some(body.to_string()) };
        http::send_with(self.to, self.key, method, path, body.as_deref()).await
    }

    /// Asks for what must be answered with this status; returns its data.
    pub(super) async fn data(&self, status: u16, method: &str, path: &str, body: Value) -> Result<Value> {
        let answer = self.ask(method, path, body).await?;
        ensure!(answer.status == status, "{method} {path}: {answer:?}");
        Ok(if answer.body.is_empty() { Value::Null } else { answer.json()?["data"].clone() })
    }

    async fn channel(&self) -> Result<Channel> {
        Ok(Endpoint::from_shared(format!("http://{}", self.to))?.connect().await?)
    }

    fn signed<T>(&self, message: T) -> Result<Request<T>> {
        let mut request = Request::new(message);
        let bearer = MetadataValue::try_from(format!("Bearer {}", self.key))?;
        request.metadata_mut().insert("authorization", bearer);
        Ok(request)
    }
}

pub(super) async fn key(stage: &Stage, name: &str, scopes: &str) -> Result<String> {
    let made = stage.cli().json(&["key", "create", name, "--scope", scopes]).await?;
    Ok(made["full_key"].as_str().context("no key was printed")?.to_owned())
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_and_nothing_else() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let environment = environment(&stage).await?;
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let read = key(&stage, "dashboard", "ReadTasks").await?;
    let reader = Program { to, key: &read };
    assert!(read.starts_with("roz_sk_") && read.len() == 50, "{read}");
    assert_eq!(reader.data(200, "GET", "/v1/tasks", Value::Null).await?, json!([]));
    assert_eq!(reader.data(200, "GET", "/api/v1/tasks", Value::Null).await?, json!([]));
    let none = json!({"total": 0, "by_status": {}});
    assert_eq!(reader.data(200, "GET", "/v1/metrics/tasks", Value::Null).await?, none);
    assert_eq!(reader.ask("GET", "/v1/metrics/hosts", Value::Null).await?.status, 403);
    // Its user may do all of this; with the key they may not.
    let task = json!({"prompt": "x", "environment_id": environment});
    for (method, path, body) in [
        ("POST", "/v1/tasks", task.clone()),
        ("GET", "/v1/hosts", Value::Null),
        ("GET", "/v1/auth/keys", Value::Null),
        ("POST", "/v1/auth/keys", json!({"name": "more", "scopes": ["Admin"]})),
        ("DELETE", &format!("/v1/environments/{environment}"), Value::Null),
        ("POST", "/api/v1/session/start", json!({"working_dir": "/tmp"})),
        ("GET", "/metrics", Value::Null),
        ("POST", "/obey.v1.EnvironmentService/ListEnvironments", json!({})),
    ] {
        let answer = reader.ask(method, path, body).await?;
        assert!(answer.status == 403 && answer.body.contains("OBEY-1002"), "{method} {path}: {answer:?}");
    }
    let channel = reader.channel().await?;
    TaskServiceClient::new(channel.clone())
        .list_tasks(reader.signed(pb::ListTasksRequest::default())?)
        .await?;
    let create =
        pb::CreateTaskRequest { prompt: "x".into(), environment_id: environment, ..Default::default() };
    let created = TaskServiceClient::new(channel.clone()).create_task(reader.signed(create)?).await;
    refused(created, Code::PermissionDenied, "OBEY-1002")?;
    let sessions = reader.signed(local::ListSessionsRequest::default())?;
    let sessions = LocalDaemonServiceClient::new(channel.clone()).list_sessions(sessions).await;
    refused(sessions, Code::PermissionDenied, "OBEY-1002")?;
    let keys =
        ApiKeyServiceClient::new(channel).list_api_keys(reader.signed(own::ListApiKeysRequest {})?).await;
    refused(keys, Code::PermissionDenied, "OBEY-1002")?;
    // One that is wrong is nobody, though its user needs none.
    for wrong in ["roz_sk_", "roz_sk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &format!("{read}x")] {
        let answer = Program { to, key: wrong }.ask("GET", "/v1/tasks", Value::Null).await?;
        assert!(answer.status == 401 && answer.body.contains("invalid or revoked API key"), "{answer:?}");
    }
    assert_eq!(http::send(to, "GET", "/v1/tasks", None).await?.status, 200);
    assert_eq!(http::send(to, "GET", "/healthz", None).await?.status, 200);
    for args in [&["key", "create", "x", "--scope", "Everything"][..], &["key", "revoke", "nobody"]] {
        assert_ne!(stage.cli().run(args).await?.code, Some(0), "{args:?}");
    }
    let listed = stage.cli().json(&["key", "list"]).await?;
    assert_eq!(listed["keys"][0]["scopes"], json!(["ReadTasks"]), "{listed}");
    assert!(listed["keys"][0]["seen_at"].is_string() && !listed.to_string().contains(&read), "{listed}");
    assert!(stage.cli().json(&["device", "list"]).await?["devices"] == json!([]), "a key is no device");
    stage.cli().ok(&["key", "revoke", "dashboard"]).await?;
    assert_eq!(reader.ask("GET", "/v1/tasks", Value::Null).await?.status, 401);
    stage.close().await
}

#[tokio::test]
async fn a_program_makes_its_environment_host_and_tasks_over_rest() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let admin = key(&stage, "setup", "Admin").await?;
    let program = Program { to, key: &admin };
    let config = json!({"directory": stage.world.project().display().to_string(), "provider": "scripted"});
    let new = json!({"name": "lab", "kind": "hardware", "config": config});
    let lab = program.data(201, "POST", "/v1/environments", new.clone()).await?;
    let id = lab["id"].as_str().context("no id")?;
    assert_eq!((&lab["kind"], &lab["config"]["provider"]), (&json!("hardware"), &json!("scripted")));
    let renamed =
        program.data(200, "PUT", &format!("/v1/environments/{id}"), json!({"name": "yard"})).await?;
    assert_eq!((&renamed["name"], &renamed["config"]), (&json!("yard"), &lab["config"]));
    assert_eq!(program.data(200, "GET", "/v1/environments", Value::Null).await?, json!([renamed]));
    for (path, body, what) in [
        ("/v1/environments", json!({"name": "x"}), "config.directory: "),
        ("/v1/environments", json!({"name": "x", "kind": "dream", "config": config}), "kind: "),
        ("/v1/environments", json!({"name": "x", "config": {"directory": "/", "robot": 1}}), "robot"),
        ("/v1/hosts", json!({"name": "arm", "host_type": "moon"}), "host_type: "),
        ("/v1/tasks", json!({"prompt": "x", "environment_id": "lab"}), "environment_id: "),
        ("/v1/tasks", json!({"environment_id": id}), "prompt"),
        ("/v1/auth/keys", json!({"name": "x", "scopes": ["Root"]}), "scopes: "),
        ("/v1/tasks", json!([1]), "the body is not a JSON object"),
    ] {
        let answer = program.ask("POST", path, body).await?;
        assert!(answer.status == 400 && answer.body.contains(what), "{path}: {answer:?}");
    }
    let host = json!({"name": "arm", "host_type": "edge", "capabilities": ["grip"], "labels": {"room": "1"}});
    let host = program.data(201, "POST", "/v1/hosts", host).await?;
    let path = format!("/v1/hosts/{}", host["id"].as_str().context("no id")?);
    assert_eq!((&host["status"], &host["last_heartbeat"]), (&json!("online"), &Value::Null));
    let beat = program.data(200, "PATCH", &format!("{path}/status"), json!({"status": "degraded"})).await?;
    assert!(beat["status"] == "degraded" && beat["last_heartbeat"].is_string(), "{beat}");
    assert_eq!(program.data(200, "GET", &path, Value::Null).await?["capabilities"], json!(["grip"]));
    let hosts = program.data(200, "GET", "/v1/metrics/hosts", Value::Null).await?;
    assert_eq!(hosts, json!({"total": 1, "by_status": {"degraded": 1}}));
    program.data(204, "DELETE", &path, Value::Null).await?;
    assert_eq!(program.ask("GET", &path, Value::Null).await?.status, 404);

    let prompt = script(Agent::Scripted, "go", &json!([{"text": "went"}]));
    let done =
        program.data(201, "POST", "/v1/tasks", json!({"prompt": prompt, "environment_id": id})).await?;
    status_of(&program, &done, "succeeded").await?;
    let prompt =
        script(Agent::Scripted, "ask", &json!([Agent::Scripted.asking("touch x"), {"text": "asked"}]));
    let asks =
        program.data(201, "POST", "/api/v1/tasks", json!({"prompt": prompt, "environment_id": id})).await?;
    let path = format!("/v1/tasks/{}", asks["id"].as_str().context("no id")?);
    status_of(&program, &asks, "running").await?;
    let sessions = stage.cli().json(&["session", "list"]).await?;
    let sessions = sessions["sessions"].as_array().context("no sessions")?;
    let session = sessions.iter().find(|session| session["task_id"] == asks["id"]).context("no session")?;
    let session = session["id"].as_str().context("no id")?.to_owned();
    let request = stage.wait_for_request(&session).await?;
    let approve = json!({"tool_call_id": request.tool_call_id, "approved": true});
    program.data(202, "POST", &format!("{path}/approve"), approve).await?;
    status_of(&program, &asks, "succeeded").await?;
    let tasks = program.data(200, "GET", "/api/v1/metrics/tasks", Value::Null).await?;
    assert_eq!(tasks, json!({"total": 2, "by_status": {"succeeded": 2}}));
    let settled = stage.wait_for(&session, "request_settled", |_| true).await?;
    assert_eq!(settled["by"], "key setup (roz)", "the journal says who answered");
    keys_over_rest(&program, id).await?;
    program.data(204, "DELETE", &format!("/v1/environments/{id}"), Value::Null).await?;
    stage.close().await
}

pub(super) async fn status_of(program: &Program<'_>, task: &Value, wanted: &str) -> Result<()> {
    let path = format!("/v1/tasks/{}", task["id"].as_str().context("no id")?);
    within("the status of a task", async {
        while program.data(200, "GET", &path, Value::Null).await?["status"] != wanted {}
        Ok(())
    })
    .await?
}

/// Keys are made, exchanged and revoked by a program; what an old one still does ends.
async fn keys_over_rest(program: &Program<'_>, environment: &str) -> Result<()> {
    let new = json!({"name": "robot", "scopes": ["ReadTasks", "WriteTasks"]});
    let made = program.data(201, "POST", "/v1/auth/keys", new).await?;
    let (id, first) = (made["id"].as_str().context("no id")?, made["full_key"].as_str().context("no key")?);
    assert!(first.starts_with(made["key_prefix"].as_str().context("no prefix")?), "{made}");
    let robot = Program { to: program.to, key: first };
    let prompt = script(Agent::Scripted, "hang", &json!([{"hang": true}]));
    let task = robot
        .data(201, "POST", "/v1/tasks", json!({"prompt": prompt, "environment_id": environment}))
        .await?;
    let task_id = task["id"].as_str().context("no id")?.to_owned();
    let request = robot.signed(pb::StreamTaskStatusRequest { task_id: task_id.clone() })?;
    let mut tasks = TaskServiceClient::new(robot.channel().await?);
    let mut open = tasks.stream_task_status(request).await?.into_inner();
    within("the first status", open.next()).await?.context("no status")??;
    let rotated = program.data(200, "POST", &format!("/v1/auth/keys/{id}/rotate"), json!({})).await?;
    assert_eq!(robot.ask("GET", "/v1/tasks", Value::Null).await?.status, 401, "the old one is nobody's");
    // The stream that it opened ends with an error, or at least ends.
    let _ended = within("the end of its stream", collect(open)).await?;
    let second = rotated["full_key"].as_str().context("no key")?;
    let robot = Program { to: program.to, key: second };
    robot.data(204, "DELETE", &format!("/v1/tasks/{task_id}"), Value::Null).await?;
    status_of(program, &task, "cancelled").await?;
    let listed = program.data(200, "GET", "/v1/auth/keys", Value::Null).await?;
    assert!(
        !listed.to_string().contains("full_key") && listed.as_array().map(Vec::len) == Some(2),
        "{listed}"
    );
    let path = format!("/v1/auth/keys/{}", rotated["id"].as_str().context("no id")?);
    program.data(204, "DELETE", &path, Value::Null).await?;
    assert_eq!(robot.ask("GET", "/v1/tasks", Value::Null).await?.status, 401);
    Ok(())
}

#[tokio::test]
async fn an_agent_that_has_found_a_key_stays_an_agent() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let admin = key(&stage, "setup", "Admin").await?;
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let socket = stage.daemon.socket().display();
    for way in [format!("http://{to}"), format!("--unix-socket {socket} http://localhost")] {
        let command = format!("curl -s -m 20 -H 'authorization: Bearer {admin}' {way}/v1/auth/keys");
        let said = run_as_agent(&stage, &session, &command).await?;
        ensure!(said.contains("OBEY-1002") && !said.contains("key_prefix"), "{way}: {said}");
    }
    stage.close().await
}
