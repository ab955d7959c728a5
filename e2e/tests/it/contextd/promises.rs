//! What the workbench promises: sessions and their refs, secrets, policies, memories that stay, an audit that is whole,
//! documents that need nothing from elsewhere.

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use serde_json::{Value, json};

use super::bench::{Bench, token};

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_session_is_made_on_first_use_and_ends_for_good() -> Result<()> {
    let bench = Bench::start().await?;
    // Without a project: the folder the daemon was started in.
    let answer = bench.bash("sess_mine", "pwd").await?;
    ensure!(
        text(&answer, "stdout_preview").trim() == bench.world.project().display().to_string(),
        "{answer}"
    );
    // With an absolute working_dir: that folder.
    let folder = bench.folder("elsewhere")?;
    let request = json!({"session_id": "sess_other", "cmd": "pwd", "working_dir": folder});
    let answer = bench.post("/api/v1/safeexec/bash", request).await?;
    ensure!(text(&answer, "stdout_preview").trim() == folder.display().to_string(), "{answer}");
    // From then on it belongs to that project.
    let request = json!({"session_id": "sess_other", "cmd": "pwd", "working_dir": bench.world.project()});
    bench.refused("/api/v1/safeexec/bash", request, 403).await?;
    bench.post("/api/v1/session/end", json!({"session_id": "sess_mine"})).await?;
    let request = json!({"session_id": "sess_mine", "cmd": "true"});
    let error = bench.refused("/api/v1/safeexec/bash", request, 409).await?;
    ensure!(error["code"] == "OBEY-2011" && text(&error, "error").contains("has ended"), "{error}");
    for root in [bench.world.path("home"), "/".into()] {
        let request = json!({"session_id": "sess_new", "cmd": "true", "working_dir": root});
        bench.refused("/api/v1/safeexec/bash", request, 400).await?;
    }
    bench.end().await
}

#[tokio::test]
async fn refs_belong_to_their_session() -> Result<()> {
    let bench = Bench::start().await?;
    let folder = bench.folder("one")?;
    let (mine, other) = (bench.session(&folder).await?, bench.session(&folder).await?);
    let answer = bench.bash(&mine, "seq 1 5000").await?;
    let ref_id = text(&answer, "stdout_ref").to_owned();
    let content = bench.post("/api/v1/ref/content", json!({"ref_id": ref_id, "session_id": mine})).await?;
    ensure!(text(&content, "content").ends_with("\n4999\n5000\n") && content["content_type"] == "text");
    let error =
        bench.refused("/api/v1/ref/content", json!({"ref_id": ref_id, "session_id": other}), 404).await?;
    ensure!(error["code"] == "OBEY-1040", "{error}");
    bench.post("/api/v1/session/end", json!({"session_id": mine})).await?;
    bench.refused("/api/v1/ref/content", json!({"ref_id": ref_id}), 404).await?;
    bench.end().await
}

#[tokio::test]
async fn a_command_that_runs_out_of_time_is_an_answer_and_leaves_nothing() -> Result<()> {
    let bench = Bench::start().await?;
    let session = bench.session(&bench.folder("one")?).await?;
    let command = "(trap '' TERM INT; sleep 600) & (setsid sleep 600 &) ; sleep 600";
    let request = json!({"session_id": session, "cmd": command, "timeout": 1});
    let answer = bench.post("/api/v1/safeexec/bash", request).await?;
    ensure!(answer["exit_code"] == 124, "{answer}");
    ensure!(text(&answer, "summary").contains("timed out after 1 s"), "{answer}");
    bench.end().await
}

#[tokio::test]
async fn secrets_leave_by_no_way() -> Result<()> {
    let bench = Bench::start().await?;
    let session = bench.session(&bench.folder("one")?).await?;
    let secret = token();
    let answer = bench.bash(&session, &format!("echo {secret}; echo {secret} >&2; exit 3")).await?;
    ensure!(answer["exit_code"] == 3, "{answer}");
    let write = json!({"path": "a.txt", "content": format!("key={secret}\n"), "session_id": session});
    bench.post("/api/v1/safeexec/write", write).await?;
    let mut said = vec![answer.to_string()];
    for (path, body) in [
        ("/api/v1/safeexec/read", json!({"path": "a.txt"})),
        ("/api/v1/safeexec/bash", json!({"cmd": format!("true # {secret}")})),
        (
            "/api/v1/memory/store",
            json!({"title": format!("key {secret}"), "content": format!("use {secret}")}),
        ),
        ("/api/v1/memory/search", json!({"query": format!("key {secret}")})),
        ("/api/v1/checkpoint/save", json!({"summary": format!("used {secret}")})),
        ("/api/v1/checkpoint/list", json!({})),
        ("/api/v1/skill", json!({"name": "x", "description": secret})),
        ("/api/v1/skill/list", json!({})),
        ("/api/v1/remediation/record", json!({"title": secret, "problem": secret, "solution": secret})),
        ("/api/v1/remediation/search", json!({"error": secret})),
        ("/api/v1/policy/check", json!({"action": format!("sudo echo {secret}")})),
    ] {
        let mut body = body;
        body["session_id"] = json!(session);
        said.push(bench.post(path, body).await?.to_string());
    }
    for (path, body) in [
        ("/api/v1/safeexec/read", json!({"path": format!("/{secret}"), "session_id": session})),
        ("/api/v1/safeexec/bash", json!({"cmd": "ls", "session_id": session, secret.as_str(): 1})),
        ("/api/v1/safeexec/bash", json!({"cmd": 1, "session_id": secret})),
        ("/api/v1/ref/content", json!({"ref_id": secret, "session_id": session})),
    ] {
        said.push(bench.send("POST", path, Some(&body)).await?.body);
    }
    said.push(Cli::new(&bench.world).ok(&["audit", "tail", "-n", "0", "--json"]).await?.stdout);
    said.push(bench.daemon.log());
    for said in &said {
        ensure!(!said.contains(&secret[4..]), "{said}");
    }
    // Nothing that is kept holds it either, but the file that was asked for.
    let holders = e2e::files::holders(&bench.world.path("data"), &[&secret[4..]])?;
    ensure!(holders.is_empty(), "{holders:?} hold the secret");
    bench.end().await
}

#[tokio::test]
async fn policies_are_enforced_and_say_why() -> Result<()> {
    let bench = Bench::start().await?;
    let folder = bench.folder("one")?;
    std::fs::create_dir(folder.join(".obey"))?;
    let policy = r#"[[policies]]
id = "no-curl"
title = "No downloads"
category = "security"
severity = "critical"
requirement = "Nothing is downloaded"
suggestion = "Ask for the file."
commands = [{ programs = ["curl"] }]
"#;
    std::fs::write(folder.join(".obey/policies.toml"), policy)?;
    let session = bench.session(&folder).await?;
    for (command, id, instead) in [
        ("git push --force origin main", "repo-force-push", "--force-with-lease"),
        ("touch ran && curl example.invalid", "no-curl", "Ask for the file."),
        ("bash -c 'rm -rf /'", "sec-root-removal", "inside the project"),
    ] {
        let request = json!({"session_id": session, "cmd": command});
        let error = bench.refused("/api/v1/safeexec/bash", request, 403).await?;
        ensure!(error["code"] == "OBEY-1041", "{error}");
        ensure!(text(&error, "error").contains(id) && text(&error, "error").contains(instead), "{error}");
    }
    ensure!(!folder.join("ran").exists(), "a refused command ran");
    let key = format!("-----BEGIN {} KEY-----\nx", "PRIVATE");
    let write = json!({"session_id": session, "path": "key.pem", "content": key});
    bench.refused("/api/v1/safeexec/write", write, 403).await?;
    ensure!(!folder.join("key.pem").exists(), "a refused file was written");
    let warned = bench.bash(&session, "chmod 777 .; true").await?;
    ensure!(text(&warned, "summary").contains("[policy: No files that everybody may change]"), "{warned}");
    // Commands cannot change the policies that hold for them.
    let changed = bench.bash(&session, "echo > .obey/policies.toml || echo kept").await?;
    ensure!(text(&changed, "stdout_preview") == "kept\n", "{changed}");
    bench.end().await
}

#[tokio::test]
async fn what_was_learnt_survives_a_restart_and_is_told_to_new_sessions() -> Result<()> {
    let mut bench = Bench::start().await?;
    let folder = bench.folder("one")?;
    let task = json!({"project_path": folder, "task_description": "Repair the database pool"});
    let answer = bench.post("/api/v1/session/start", task.clone()).await?;
    let session = text(&answer, "session_id").to_owned();
    ensure!(!text(&answer, "injected_context").contains("Memories"), "{answer}");
    bench.bash(&session, "test -f pool.conf").await?;
    bench
        .post("/api/v1/safeexec/write", json!({"session_id": session, "path": "pool.conf", "content": "x"}))
        .await?;
    bench.bash(&session, "test -f pool.conf").await?;
    let store = json!({"session_id": session, "title": "Pool size", "content": "Raise max_connections to 50",
        "description": "The database pool runs empty", "outcome": "success"});
    let memory = bench.post("/api/v1/memory/store", store).await?;
    let ended = bench.post("/api/v1/session/end", json!({"session_id": session, "distill": true})).await?;
    ensure!(ended["memories_extracted"].as_i64().is_some_and(|count| count >= 2), "{ended}");
    bench.daemon.restart().await?;
    let answer = bench.post("/api/v1/session/start", task).await?;
    let context = text(&answer, "injected_context");
    ensure!(context.contains(text(&memory, "id")) && context.contains("max_connections"), "{context}");
    ensure!(answer["tokens_used"].as_i64().is_some_and(|tokens| tokens <= 800), "{answer}");
    let session = text(&answer, "session_id").to_owned();
    let search = json!({"session_id": session, "query": "what made the test of pool.conf work", "min_confidence": 0.5});
    let found = bench.post("/api/v1/memory/search", search).await?;
    ensure!(text(&found["memories"][0], "title").contains("test -f pool.conf"), "{found}");
    bench.end().await
}

#[tokio::test]
async fn checkpoints_have_three_levels_and_belong_to_their_project() -> Result<()> {
    let bench = Bench::start().await?;
    let folder = bench.folder("one")?;
    let session = bench.session(&folder).await?;
    bench.bash(&session, "echo step one").await?;
    let saved =
        bench.post("/api/v1/checkpoint/save", json!({"summary": "half way", "session_id": session})).await?;
    let id = text(&saved, "checkpoint_id").to_owned();
    // Another session of the same project goes on from it.
    let later = bench.session(&folder).await?;
    let resume = async |level: &str| {
        let request = json!({"checkpoint_id": id, "level": level, "session_id": later});
        bench.post("/api/v1/checkpoint/resume", request).await
    };
    let summary = resume("summary").await?;
    ensure!(text(&summary, "summary") == "half way" && text(&summary, "context").is_empty(), "{summary}");
    let context = resume("context").await?;
    ensure!(text(&context, "context").contains("echo step one") && text(&context, "context_ref").is_empty());
    let full = resume("full").await?;
    let request = json!({"ref_id": full["context_ref"], "session_id": later});
    let content = bench.post("/api/v1/ref/content", request).await?;
    ensure!(text(&content, "content").contains("SafeExec.Bash"), "{content}");
    let stranger = bench.session(&bench.folder("two")?).await?;
    let request = json!({"checkpoint_id": id, "session_id": stranger});
    bench.refused("/api/v1/checkpoint/resume", request, 404).await?;
    bench.end().await
}

#[tokio::test]
async fn the_audit_tells_every_call_and_notices_a_changed_row() -> Result<()> {
    let bench = Bench::start().await?;
    let session = bench.session(&bench.folder("one")?).await?;
    bench.bash(&session, "echo hello").await?;
    bench.refused("/api/v1/safeexec/bash", json!({"session_id": session, "cmd": "rm -rf /"}), 403).await?;
    let cli = Cli::new(&bench.world);
    let rows = cli.ok(&["audit", "tail", "--session", &session, "--json"]).await?.stdout;
    let rows: Vec<Value> = rows.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    ensure!(rows.len() == 2, "{rows:#?}");
    ensure!(
        rows[0]["operation"] == "SafeExec.Bash" && rows[0]["outcome"] == "ok" && rows[0]["caller"] == "user"
    );
    ensure!(
        rows[0]["input"]["cmd"] == "echo hello" && rows[0]["tier"].as_str().is_some_and(|it| !it.is_empty())
    );
    ensure!(rows[1]["outcome"] == "OBEY-1041", "{rows:#?}");
    let verdict = cli.json(&["audit", "verify"]).await?;
    ensure!(verdict["intact"] == true && verdict["head"] == rows[1]["hash"], "{verdict}");
    bench.end().await
}

#[tokio::test]
async fn the_documents_are_served_and_need_nothing_from_elsewhere() -> Result<()> {
    let bench = Bench::start().await?;
    let page = bench.send("GET", "/docs", None).await?;
    ensure!(page.status == 200 && page.head.contains("text/html"), "{}", page.head);
    for far in ["http://", "https://", "//cdn", "src="] {
        ensure!(!page.body.contains(far), "the page wants {far}");
    }
    let document = bench.send("GET", "/openapi.json", None).await?.json()?;
    ensure!(document["openapi"] == "3.1.0" && document["paths"]["/api/v1/safeexec/bash"]["post"].is_object());
    let tools = bench.send("GET", "/tools/TOOL.md", None).await?;
    ensure!(
        tools.body.contains("/tools/schema/{tool}.json") && tools.body.contains("safe_bash"),
        "{}",
        tools.body
    );
    let whole = bench.send("GET", "/tools/schema.json", None).await?.json()?;
    let one = bench.send("GET", "/tools/schema/safe_bash.json", None).await?.json()?;
    ensure!(one == whole["SafeExec.Bash"] && one["endpoint"] == "POST /api/v1/safeexec/bash", "{one}");
    let none = bench.send("GET", "/tools/schema/no_such.json", None).await?;
    ensure!(none.status == 404 && none.json()?["error"].is_string(), "{none:?}");
    let kept = std::fs::read_to_string(e2e::tools::repository().join("docs/tools/TOOL.md"))?;
    ensure!(tools.body == kept, "docs/tools/TOOL.md is not what is served");
    let health = bench.send("GET", "/health", None).await?.json()?;
    ensure!(health["status"] == "ok", "{health}");
    bench.end().await
}

#[tokio::test]
async fn wrong_paths_methods_and_bodies_are_json_errors() -> Result<()> {
    let bench = Bench::start().await?;
    for (method, path, status) in [("POST", "/api/v1/nothing", 404), ("GET", "/api/v1/safeexec/bash", 405)] {
        let answer = bench.send(method, path, Some(&json!({}))).await?;
        ensure!(answer.status == status && answer.json()?["error"].is_string(), "{answer:?}");
    }
    for body in ["", "[]", "{", "null", "{\"cmd\": 5}", "{\"cmd\": \"ls\", \"session_id\": {}}"] {
        let answer = e2e::http::send(bench.address()?, "POST", "/api/v1/safeexec/bash", Some(body)).await?;
        // Without a body there is no content type either.
        let expected = if body.is_empty() { 403 } else { 400 };
        ensure!(answer.status == expected, "{body}: {answer:?}");
        answer.json().context("no JSON")?;
    }
    bench.end().await
}
