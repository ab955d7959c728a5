//! What is wrong is answered with the right code, and everything else goes on.

use anyhow::{Result, ensure};
use e2e::world::World;
use serde_json::{Value, json};

use super::{SCRIPTED, editor, refused};
use crate::stage::{script, stage};

const NULL: Value = Value::Null;

#[tokio::test]
async fn every_kind_of_nonsense_has_its_code_and_the_connection_stays() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let busy =
        editor.prompt(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}, {"hang": true}]))).await?;
    editor.chunk().await?;
    let cases: [(&str, i64, Value); 17] = [
        ("{broken", -32700, NULL),
        ("\u{0}\u{1}", -32700, NULL),
        ("[]", -32600, NULL),
        ("\"text\"", -32600, NULL),
        (r#"{"jsonrpc":"2.0","id":900}"#, -32600, json!(900)),
        (r#"{"jsonrpc":"1.0","id":901,"method":"initialize"}"#, -32600, json!(901)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#, -32600, NULL),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"initialize"}"#, -32600, NULL),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"initialize"}"#, -32600, json!(1.5)),
        (r#"{"jsonrpc":"2.0","id":905,"method":"session/list","params":{"cwdd":"/"}}"#, -32602, json!(905)),
        (
            r#"{"jsonrpc":"2.0","id":906,"method":"session/prompt","params":{"sessionId":"s","prompt":[],"message":1}}"#,
            -32602,
            json!(906),
        ),
        (
            r#"{"jsonrpc":"2.0","id":907,"method":"session/new","params":{"cwd":"/tmp","systemPrompt":{}}}"#,
            -32602,
            json!(907),
        ),
        (r#"{"jsonrpc":"2.0","id":902,"method":"session/fly"}"#, -32601, json!(902)),
        (r#"{"jsonrpc":"2.0","id":"text","method":"authenticate","params":{}}"#, -32601, json!("text")),
        (r#"{"jsonrpc":"2.0","id":903,"method":"initialize","params":{}}"#, -32602, json!(903)),
        (r#"{"jsonrpc":"2.0","id":904,"method":"session/prompt","params":[]}"#, -32602, json!(904)),
        (r#"{"jsonrpc":"2.0","method":"session/prompt","params":{}}"#, -32600, NULL),
    ];
    for (line, code, id) in cases {
        editor.line(line).await?;
        let answer = editor.next().await?;
        ensure!(answer["error"]["code"] == code && answer["id"] == id, "{line}: {answer}");
        ensure!(answer["error"]["message"].as_str().is_some_and(|message| message.len() > 5), "{answer}");
    }
    // Nobody waits for these; they are passed over.
    editor.line(r#"{"jsonrpc":"2.0","id":77,"result":{}}"#).await?;
    editor.line(r#"{"jsonrpc":"2.0","method":"$/unheard_of","params":{}}"#).await?;
    editor.tell("session/cancel", json!({"sessionId": "sess_nobody"})).await?;
    editor.tell("session/cancel", json!({})).await?;
    // A session that is at work says so, and goes on.
    let error = editor
        .refusal("session/prompt", json!({"sessionId": session, "prompt": [{"type": "text", "text": "y"}]}))
        .await?;
    refused(&error, -32600, "busy")?;
    let unknown = "sess_00000000000000000000000000";
    let error = editor
        .refusal("session/prompt", json!({"sessionId": unknown, "prompt": [{"type": "text", "text": "y"}]}))
        .await?;
    refused(&error, -32602, "not open here")?;
    let error = editor.refusal("session/prompt", json!({"sessionId": "../etc", "prompt": []})).await?;
    refused(&error, -32602, "there is no session")?;
    editor.tell("session/cancel", json!({"sessionId": session})).await?;
    ensure!(editor.answer(busy).await?["result"]["stopReason"] == "cancelled");
    let error = editor.refusal("session/prompt", json!({"sessionId": session, "prompt": []})).await?;
    refused(&error, -32602, "is empty")?;
    let error = editor.refusal("session/prompt", json!({"prompt": []})).await?;
    refused(&error, -32602, "sessionId")?;
    let audio = json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]);
    let error = editor.refusal("session/prompt", json!({"sessionId": session, "prompt": audio})).await?;
    refused(&error, -32602, "audio")?;
    ensure!(editor.turn(&session, &script(SCRIPTED, "z", &json!([{"text": "fine"}]))).await? == "end_turn");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_line_of_64_mebibytes_is_refused_and_the_next_one_is_heard() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let piece = vec![b'x'; 1024 * 1024];
    editor.write(br#"{"jsonrpc":"2.0","id":55,"method":"session/prompt","params":{"id":1,"text":""#).await?;
    for _ in 0..64 {
        editor.write(&piece).await?;
    }
    editor.write(b"\"}}\n").await?;
    let answer = editor.next().await?;
    refused(&answer["error"], -32600, "at most")?;
    ensure!(answer["id"] == 55, "whoever asked hears of it: {}", answer["id"]);
    // An id that the protocol does not allow is still the one whose caller waits.
    editor.write(br#"{"jsonrpc":"2.0","id":5.5,"method":"session/prompt","params":{"text":""#).await?;
    for _ in 0..33 {
        editor.write(&piece).await?;
    }
    editor.write(b"\"}}\n").await?;
    let answer = editor.next().await?;
    ensure!(answer["id"] == 5.5 && answer["error"]["code"] == -32600, "{answer}");
    let session = editor.open(&stage.world.project()).await?;
    ensure!(editor.turn(&session, &script(SCRIPTED, "z", &json!([{"text": "fine"}]))).await? == "end_turn");
    let pid = stage.daemon.pid().unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap_or(u64::MAX);
    ensure!(peak < 200 * 1024, "the line was kept: {peak} kB");
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_request_before_the_introduction_is_answered_all_the_same() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = super::start(&stage, &[]).await?;
    // Both at once, as some clients do.
    let first = editor.ask("initialize", json!({"protocolVersion": 99})).await?;
    let second = editor.ask("session/new", json!({"cwd": stage.world.project(), "mcpServers": []})).await?;
    ensure!(editor.answer(first).await?["result"]["protocolVersion"] == json!(1));
    ensure!(editor.answer(second).await?["result"]["sessionId"].is_string());
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn an_agent_that_dies_is_an_error_of_its_prompt_alone() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let session = editor.open(&stage.world.project()).await?;
    let other = editor.open(&stage.world.project()).await?;
    let id = editor.prompt(&session, &script(SCRIPTED, "x", &json!([{"text": "a"}, {"crash": 3}]))).await?;
    let answer = editor.answer(id).await?;
    refused(&answer["error"], -32603, "exited with code 3")?;
    ensure!(editor.turn(&other, &script(SCRIPTED, "y", &json!([{"text": "b"}]))).await? == "end_turn");
    // The next prompt brings another agent.
    ensure!(editor.turn(&session, &script(SCRIPTED, "z", &json!([{"text": "c"}]))).await? == "end_turn");
    let id =
        editor.prompt(&session, &script(SCRIPTED, "e", &json!([{"error": "the model is tired"}]))).await?;
    refused(&editor.answer(id).await?["error"], -32603, "the model is tired")?;
    // Details go to standard error.
    let told = || editor.errors().contains("the model is tired").then_some(());
    e2e::deadline::poll("the error in the log", told).await?;
    editor.close().await?;
    stage.close().await
}

#[tokio::test]
async fn a_missing_program_is_an_error_and_the_connection_stays() -> Result<()> {
    let world = World::new()?;
    let mut editor = e2e::acp::Editor::start(&world, &["--provider", "codex", "--standalone"]).await?;
    editor.initialize().await?;
    let session = editor.open(&world.project()).await?;
    let id = editor.prompt(&session, "hello").await?;
    refused(&editor.answer(id).await?["error"], -32603, "codex is not on the agent's PATH")?;
    editor.result("session/list", json!({})).await?;
    editor.close().await?;
    world.assert_no_process_left().await
}

#[tokio::test]
async fn requests_read_before_the_input_ends_are_answered() -> Result<()> {
    let stage = stage!(SCRIPTED);
    for mode in [&[][..], &["--standalone"]] {
        let mut editor = super::start(&stage, mode).await?;
        let (first, initialize) = editor.request("initialize", json!({"protocolVersion": 1}));
        let new =
            json!({"cwd": stage.world.project(), "mcpServers": null, "config": {"startup_delay_ms": 1}});
        let (second, new) = editor.request("session/new", new);
        let (third, list) = editor.request("session/list", json!({}));
        // In one piece, and nothing after it.
        editor.write(format!("{initialize}\n{new}\n{list}\n").as_bytes()).await?;
        editor.hang_up();
        ensure!(editor.ended().await?.success(), "{}", editor.errors());
        let result = |id: u64| {
            let answer = editor.seen.iter().find(|line| line["id"] == id);
            answer.map(|answer| answer["result"].clone()).unwrap_or_default()
        };
        ensure!(result(first)["protocolVersion"] == 1, "{mode:?}: {:?}", editor.seen);
        ensure!(result(second)["sessionId"].is_string(), "{mode:?}: {:?}", editor.seen);
        ensure!(result(third)["sessions"].is_array(), "{mode:?}: {:?}", editor.seen);
    }
    stage.close().await
}

#[tokio::test]
async fn titles_are_titles_and_fields_are_used_or_refused() -> Result<()> {
    let stage = stage!(SCRIPTED);
    let mut editor = editor(&stage, &[]).await?;
    let project = stage.world.project();
    let wrong = json!({"cwd": project, "mcpServers": [], "config": {"no_such_setting": "x"}});
    refused(&editor.refusal("session/new", wrong).await?, -32602, "no_such_setting")?;
    let session = editor.open(&project).await?;
    let with = json!({"sessionId": session, "prompt": [{"type": "text", "text": "x"}], "metadata": {"a": 1}});
    refused(&editor.refusal("session/prompt", with).await?, -32602, "metadata")?;
    let steps = json!([{"text": "There are 0 entries\nin this folder"}]);
    ensure!(
        editor.turn(&session, &format!("Look around\n{}", script(SCRIPTED, "t", &steps))).await?
            == "end_turn"
    );
    let title = |listed: &Value| {
        let sessions = listed["sessions"].as_array().cloned().unwrap_or_default();
        let found = sessions.into_iter().find(|entry| entry["sessionId"] == session.as_str());
        found.map(|entry| entry["title"].as_str().unwrap_or_default().to_owned())
    };
    let listed = editor.result("session/list", json!({})).await?;
    ensure!(title(&listed).as_deref() == Some("Look around"), "{listed}");
    let told = |editor: &e2e::acp::Editor, title: &str| {
        editor.seen.iter().any(|line| line["params"]["update"]["title"] == title)
    };
    ensure!(told(&editor, "Look around"), "the editor is told the title it will list");
    stage.cli().ok(&["rename", &session, "Tidy up"]).await?;
    ensure!(editor.turn(&session, &script(SCRIPTED, "u", &json!([{"text": "done"}]))).await? == "end_turn");
    let listed = editor.result("session/list", json!({})).await?;
    ensure!(title(&listed).as_deref() == Some("Tidy up"), "a name that was given stays: {listed}");
    ensure!(told(&editor, "Tidy up"));
    editor.close().await?;
    stage.close().await
}
