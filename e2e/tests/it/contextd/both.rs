//! Every operation over REST and over gRPC: the examples of schema.json are carried out both ways, each on a project of
//! its own, and must come out the same; so must requests that are wrong.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tonic::transport::Channel;
use wire::contextd::v1 as pb;

use super::bench::Bench;
use super::examples::EXAMPLES;

/// Calls an operation over gRPC with JSON in and out.
async fn grpc(channel: &Channel, key: &str, input: Value) -> Result<Value, tonic::Status> {
    macro_rules! dispatch {
        ($($key:literal $module:ident $client:ident $method:ident $input:ident;)*) => {
            match key {
                $($key => {
                    let request: pb::$input = serde_json::from_value(input)
                        .map_err(|error| tonic::Status::invalid_argument(error.to_string()))?;
                    let mut client = pb::$module::$client::new(channel.clone())
                        .max_decoding_message_size(16 << 20);
                    let answer = client.$method(request).await?.into_inner();
                    // As text, in which a number has the digits that its own width needs.
                    let text = serde_json::to_string(&answer).unwrap_or_default();
                    Ok(serde_json::from_str(&text).unwrap_or_default())
                })*
                other => Err(tonic::Status::unimplemented(other.to_owned())),
            }
        };
    }
    dispatch! {
        "SafeExec.Bash" safe_exec_service_client SafeExecServiceClient bash BashRequest;
        "SafeExec.Read" safe_exec_service_client SafeExecServiceClient read ReadRequest;
        "SafeExec.Write" safe_exec_service_client SafeExecServiceClient write WriteRequest;
        "Session.Start" session_service_client SessionServiceClient start SessionStartRequest;
        "Session.End" session_service_client SessionServiceClient end SessionEndRequest;
        "Ref.GetContent" ref_service_client RefServiceClient get_content RefGetContentRequest;
        "Memory.Search" memory_service_client MemoryServiceClient search MemorySearchRequest;
        "Memory.Store" memory_service_client MemoryServiceClient store MemoryStoreRequest;
        "Memory.Feedback" memory_service_client MemoryServiceClient feedback MemoryFeedbackRequest;
        "Memory.Get" memory_service_client MemoryServiceClient get MemoryGetRequest;
        "Checkpoint.Save" checkpoint_service_client CheckpointServiceClient save CheckpointSaveRequest;
        "Checkpoint.List" checkpoint_service_client CheckpointServiceClient list CheckpointListRequest;
        "Checkpoint.Resume" checkpoint_service_client CheckpointServiceClient resume CheckpointResumeRequest;
        "Policy.Check" policy_service_client PolicyServiceClient check PolicyCheckRequest;
        "Policy.List" policy_service_client PolicyServiceClient list PolicyListRequest;
        "Policy.Get" policy_service_client PolicyServiceClient get PolicyGetRequest;
        "Skill.List" skill_service_client SkillServiceClient list SkillListRequest;
        "Skill.Get" skill_service_client SkillServiceClient get SkillGetRequest;
        "Skill.Create" skill_service_client SkillServiceClient create SkillCreateRequest;
        "Skill.Update" skill_service_client SkillServiceClient update SkillUpdateRequest;
        "Skill.Delete" skill_service_client SkillServiceClient delete SkillDeleteRequest;
        "Agent.List" agent_service_client AgentServiceClient list AgentListRequest;
        "Agent.Get" agent_service_client AgentServiceClient get AgentGetRequest;
        "Agent.Create" agent_service_client AgentServiceClient create AgentCreateRequest;
        "Agent.Update" agent_service_client AgentServiceClient update AgentUpdateRequest;
        "Agent.Delete" agent_service_client AgentServiceClient delete AgentDeleteRequest;
        "Remediation.Search" remediation_service_client RemediationServiceClient search RemediationSearchRequest;
        "Remediation.Record" remediation_service_client RemediationServiceClient record RemediationRecordRequest;
    }
}

/// Calls an operation over REST, by the endpoint that schema.json names.
async fn rest(bench: &Bench, endpoint: &str, input: &Value) -> Result<e2e::http::Answer> {
    let (verb, path) = endpoint.split_once(' ').context("an endpoint is a verb and a path")?;
    let text = |name: &str| input[name].as_str().unwrap_or_default();
    let path = path.replace("{id}", text("id"));
    match verb {
        "GET" | "DELETE" => {
            bench.send(verb, &format!("{path}?session_id={}", text("session_id")), None).await
        }
        _ => bench.send(verb, &path, Some(input)).await,
    }
}

/// Ids of the examples and the real ones they stand for.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

const PREFIXES: &[&str] = &["sess_", "ref_", "mem_", "ckpt_", "skill_", "agent_", "rem_"];

impl Names {
    fn real(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (example, real)| text.replace(example, real))
    }

    /// Compares an answer with an example's and learns what its ids stand for.
    fn compare(&mut self, expected: &Value, actual: &Value, at: &str) -> Result<()> {
        match (expected, actual) {
            (Value::Object(fields), Value::Object(_)) => {
                for (name, value) in fields {
                    self.compare(value, &actual[name], &format!("{at}.{name}"))?;
                }
            }
            (Value::Array(list), Value::Array(found)) => {
                ensure!(list.len() == found.len(), "{at}: {expected} {actual}");
                for (one, other) in list.iter().zip(found) {
                    self.compare(one, other, at)?;
                }
            }
            (Value::String(text), Value::String(found)) if PREFIXES.iter().any(|it| text.starts_with(it)) => {
                let known = self.0.entry(text.clone()).or_insert_with(|| found.clone());
                ensure!(known == found, "{at}: {text} was {known} and is {found}");
            }
            (Value::Number(one), Value::Number(other)) => {
                let close = (one.as_f64().unwrap_or(0.0) - other.as_f64().unwrap_or(1.0)).abs() < 1e-4;
                ensure!(close, "{at}: {expected} {actual}");
            }
            _ => ensure!(expected == actual, "{at}: expected {expected}, got {actual}"),
        }
        Ok(())
    }
}

/// Takes out what differs between two runs: ids, times, and what they cost.
fn without_ids(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            let mut out = String::new();
            for word in text.split_inclusive(|letter: char| !letter.is_alphanumeric() && letter != '_') {
                let id = PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && word.len() > 12;
                out.push_str(if id { "<id>" } else { word });
            }
            Value::String(out)
        }
        Value::Array(list) => list.iter().map(without_ids).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "tokens_used" | "created_at"))
            .map(|(name, value)| (name.clone(), without_ids(value)))
            .collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn every_example_works_and_both_protocols_agree() -> Result<()> {
    let bench = Bench::start().await?;
    let schema = bench.send("GET", "/tools/schema.json", None).await?.json()?;
    let channel = bench.daemon.clients().await?.channel;
    // Of the same length, so that answers that hold the path cost the same.
    let folders = [bench.folder("one")?, bench.folder("two")?];
    let mut names = [Names::default(), Names::default()];
    for (folder, names) in folders.iter().zip(&mut names) {
        names.0.insert("/path/to/project".to_owned(), folder.display().to_string());
    }
    let tier = {
        let session = bench.session(&bench.folder("three")?).await?;
        let summary = bench.bash(&session, "true").await?["summary"].as_str().unwrap_or_default().to_owned();
        let tier = summary.rsplit("[sandbox: ").next().and_then(|rest| rest.strip_suffix(']'));
        tier.context("the summary names no tier")?.to_owned()
    };
    println!("sandbox tier: {tier}");
    for example in EXAMPLES {
        let endpoint = schema[example.key]["endpoint"].as_str().context("no endpoint")?.to_owned();
        let expected = example.output.replace("[sandbox: namespaces]", &format!("[sandbox: {tier}]"));
        let expected: Value = serde_json::from_str(&expected)?;
        let inputs: Vec<Value> = names
            .iter()
            .map(|names| serde_json::from_str(&names.real(example.input)))
            .collect::<Result<_, _>>()?;
        let answer = rest(&bench, &endpoint, &inputs[0]).await?;
        ensure!(answer.status == 200, "{} {}: {} {}", example.key, inputs[0], answer.status, answer.body);
        let by_rest = answer.json()?;
        let by_grpc = match grpc(&channel, example.key, inputs[1].clone()).await {
            Ok(answer) => answer,
            Err(status) => bail!("{} {}: {status}", example.key, inputs[1]),
        };
        names[0].compare(&expected, &by_rest, example.key)?;
        names[1].compare(&expected, &by_grpc, example.key)?;
        let folder = |index: usize| folders[index].display().to_string();
        let one = without_ids(&by_rest).to_string().replace(&folder(0), "<project>");
        let other = without_ids(&by_grpc).to_string().replace(&folder(1), "<project>");
        ensure!(one == other, "{}:\nREST {one}\ngRPC {other}", example.key);
        ensure!(
            by_rest["tokens_used"].as_i64().is_some_and(|tokens| (1..2000).contains(&tokens)),
            "{by_rest}"
        );
    }
    for key in schema.as_object().context("no object")?.keys() {
        ensure!(EXAMPLES.iter().any(|example| example.key == key), "{key} was not tried");
    }
    bench.end().await
}

#[tokio::test]
async fn wrong_requests_are_refused_alike_over_both_protocols() -> Result<()> {
    let bench = Bench::start().await?;
    let schema = bench.send("GET", "/tools/schema.json", None).await?.json()?;
    let channel = bench.daemon.clients().await?.channel;
    let session = bench.session(&bench.folder("one")?).await?;
    let long = "x".repeat(30_000);
    let cases = [
        ("SafeExec.Bash", json!({"cmd": "ls"})),
        ("SafeExec.Bash", json!({"session_id": session})),
        ("SafeExec.Bash", json!({"cmd": "ls", "session_id": "abc"})),
        ("SafeExec.Bash", json!({"cmd": "ls", "session_id": session, "timeout": 301})),
        ("SafeExec.Bash", json!({"cmd": long, "session_id": session})),
        ("SafeExec.Bash", json!({"cmd": "ls", "session_id": session, "working_dir": "/etc"})),
        ("SafeExec.Bash", json!({"cmd": "rm -rf /", "session_id": session})),
        ("SafeExec.Read", json!({"path": "../../etc/passwd", "session_id": session})),
        ("SafeExec.Read", json!({"path": "/etc/passwd", "session_id": session})),
        ("SafeExec.Read", json!({"path": "absent", "session_id": session})),
        ("SafeExec.Write", json!({"path": ".git/hooks/x", "content": "x", "session_id": session})),
        ("Session.Start", json!({"project_path": "relative"})),
        ("Session.Start", json!({"project_path": "/"})),
        ("Session.Start", json!({"project_path": "/absent"})),
        ("Session.End", json!({"session_id": "sess_unknown"})),
        ("Ref.GetContent", json!({"ref_id": "ref_x", "session_id": session})),
        ("Memory.Search", json!({"query": "x", "scope": "galaxy", "session_id": session})),
        ("Memory.Store", json!({"title": long, "content": "x", "session_id": session})),
        ("Memory.Get", json!({"id": "mem_x", "session_id": session})),
        ("Memory.Feedback", json!({"memory_id": "mem_x", "session_id": session})),
        ("Checkpoint.Resume", json!({"checkpoint_id": "ckpt_x", "session_id": session})),
        ("Policy.Get", json!({"id": "x", "session_id": session})),
        ("Skill.Get", json!({"id": "x", "session_id": session})),
        ("Skill.Delete", json!({"id": "x", "session_id": session})),
        ("Agent.Update", json!({"id": "x", "session_id": session})),
        (
            "Agent.Create",
            json!({"name": "x", "system_prompt": "y", "temperature": 3.0, "session_id": session}),
        ),
    ];
    for (key, input) in cases {
        let endpoint = schema[key]["endpoint"].as_str().context("no endpoint")?.to_owned();
        let by_rest = rest(&bench, &endpoint, &input).await?;
        ensure!(by_rest.status >= 400, "{key} {input}: {} {}", by_rest.status, by_rest.body);
        let error = by_rest.json()?;
        let Err(status) = grpc(&channel, key, input.clone()).await else { bail!("{key} {input} passed") };
        let code = status.metadata().get("obey-code").and_then(|code| code.to_str().ok());
        ensure!(error["code"].as_str() == code, "{key} {input}: {error} {status}");
        let message =
            format!("{}: {}", code.unwrap_or_default(), error["error"].as_str().unwrap_or_default());
        ensure!(message == status.message(), "{key} {input}: {error} {status}");
    }
    bench.end().await
}
