//! What only agents of the Agent Client Protocol do, through the daemon: how they are named, what can be wrong with
//! them, and what they ask of their client. What they share with other agents is in `sessions`.

use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result};
use e2e::clients::mentions;
use serde_json::json;
use tonic::Status;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use crate::stage::{Agent, Stage, contents, of_type, script, stage};

fn session(stage: &Stage, config: &[(&str, &str)]) -> pb::CreateSessionRequest {
    let mut request = stage.new_session();
    request.provider = pb::SessionProvider::Acp.into();
    request.provider_config.remove("agent");
    let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    request.provider_config.extend(config);
    request
}

async fn refusal(stage: &Stage, request: pb::CreateSessionRequest) -> Result<Status> {
    let result = stage.clients.local.clone().create_session(request).await;
    result.err().context("the session was created")
}

/// A stage whose agent is a shell script.
async fn with_program(script: &str) -> Result<(Stage, String)> {
    let mut path = String::new();
    let stage = Stage::open_with(Agent::Scripted, |world| {
        let program = world.path("agent.sh");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n"))?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        path = program.display().to_string();
        Ok(())
    });
    Ok((stage.await?.context("the scripted agent is part of the daemon")?, path))
}

#[tokio::test]
async fn a_key_of_provider_config_that_is_wrong_is_named() -> Result<()> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    for (key, config) in [
        ("agent", &[][..]),
        ("agent", &[("agent", "gose")]),
        ("command", &[("command", "./agent")]),
        ("mcp_servers", &[("agent", "goose"), ("mcp_servers", "[]")]),
        ("client_tools", &[("agent", "goose"), ("client_tools", "maybe")]),
    ] {
        let status = refusal(&stage, session(&stage, config)).await?;
        let named = format!("provider_config.{key}");
        assert!(mentions(&status, "OBEY-1001") && mentions(&status, &named), "{key}: {status:?}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_missing_agent_is_answered_with_what_to_install() -> Result<()> {
    let stage = Stage::open(Agent::Scripted).await?.context("the scripted agent is part of the daemon")?;
    let status = refusal(&stage, session(&stage, &[("agent", "goose")])).await?;
    assert!(mentions(&status, "OBEY-2004") && mentions(&status, "npm install -g @aaif/goose"), "{status:?}");
    stage.close().await
}

#[tokio::test]
async fn a_program_that_speaks_something_else_is_found_out() -> Result<()> {
    let (stage, path) = with_program("while :; do echo garbage; done").await?;
    let status = refusal(&stage, session(&stage, &[("command", &path)])).await?;
    assert!(mentions(&status, "OBEY-2004"), "{status:?}");
    assert!(mentions(&status, "does not speak the Agent Client Protocol"), "{status:?}");
    stage.close().await?;
    let (stage, path) = with_program("echo no such luck >&2; exit 3").await?;
    let status = refusal(&stage, session(&stage, &[("command", &path)])).await?;
    assert!(mentions(&status, "OBEY-2004") && mentions(&status, "no such luck"), "{status:?}");
    stage.close().await
}

#[tokio::test]
async fn an_agent_of_another_protocol_version_is_warned_about() -> Result<()> {
    // Answers every request with the same words.
    let (stage, path) = with_program(
        r#"while read -r line; do
             id=$(echo "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
             echo "{\"jsonrpc\":\"2.0\",\"id\":\"$id\",\"result\":{\"protocolVersion\":7,\"sessionId\":\"s1\",\"stopReason\":\"end_turn\"}}"
           done"#,
    )
    .await?;
    let id = stage.create_as(session(&stage, &[("command", &path)])).await?.id;
    let notice = stage.wait_for(&id, "notice", |_| true).await?;
    let message = notice["message"].as_str().unwrap_or_default();
    assert!(message.contains("protocol 7") && message.contains("version 1"), "{message}");
    stage.turn(&id, "anything").await?;
    stage.close().await
}

/// A stage whose agent asks its client for these things when it is prompted, and says what it was answered.
async fn with_errands(errands: &str) -> Result<(Stage, String)> {
    let script = r#"answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":\"$1\",\"result\":$2}"; }
        say() { echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}}}"; }
        ask() {
          number=$((number + 1))
          echo "{\"jsonrpc\":\"2.0\",\"id\":$number,\"method\":\"$1\",\"params\":{\"sessionId\":\"s1\",$2}}"
          read -r answer
          said="$said$(printf '%s' "$answer" | sed 's/["\\]//g')|"
        }
        while read -r line; do
          id=$(echo "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
          case "$line" in
            *'"method":"initialize"'*) answer "$id" '{"protocolVersion":1,"agentCapabilities":{}}' ;;
            *'"method":"session/new"'*) answer "$id" '{"sessionId":"s1"}' ;;
            *'"method":"session/prompt"'*)
              said=
              ERRANDS
              say "$said"
              answer "$id" '{"stopReason":"end_turn"}' ;;
          esac
        done"#;
    with_program(&script.replace("ERRANDS", errands)).await
}

#[tokio::test]
async fn a_rule_that_denies_a_file_binds_what_the_daemon_does_for_an_agent() -> Result<()> {
    let (stage, path) = with_errands(
        r#"ask fs/read_text_file '"path":".env"'
           ask fs/read_text_file '"path":"README.md"'
           ask fs/write_text_file '"path":".env","content":"gone"'
           ask fs/write_text_file '"path":"made.txt","content":"x"'"#,
    )
    .await?;
    std::fs::write(stage.world.project().join(".env"), "TOKEN=the family silver\n")?;
    let rules = json!({"permissions": {"deny": ["Read(**/.env)", "Edit(**/.env)"]}});
    crate::betcode::settings::write(&stage, &rules)?;
    for mode in ["acceptEdits", "autonomous"] {
        let config = [("command", path.as_str()), ("permission_mode", mode)];
        let id = stage.create_as(session(&stage, &config)).await?.id;
        let turn = stage.turn(&id, "go").await?;
        let said = contents(&turn, pb::ActivityType::Completion);
        let answers: Vec<&str> = said.split('|').collect();
        assert!(answers[0].contains("error:") && answers[0].contains("denies this"), "{mode}: {said}");
        assert!(!said.contains("silver"), "{mode}: {said}");
        assert!(answers[1].contains("A project for tests."), "{mode}: {said}");
        assert!(answers[2].contains("error:") && answers[2].contains("denies this"), "{mode}: {said}");
        assert!(answers[3].contains("result:{}"), "{mode}: {said}");
        let kept = std::fs::read_to_string(stage.world.project().join(".env"))?;
        assert!(kept.contains("silver"), "{mode}: {kept}");
        assert!(stage.requests(&id, false).await?.is_empty(), "{mode}: nobody was asked");
    }
    stage.close().await
}

#[tokio::test]
async fn an_agent_gets_files_and_commands_of_the_sessions_root_and_no_others() -> Result<()> {
    let (stage, path) = with_errands(
        r#"ask fs/read_text_file '"path":"README.md"'
           ask fs/read_text_file '"path":"../secret"'
           ask fs/write_text_file '"path":"made.txt","content":"by the agent"'
           ask terminal/create '"command":"cat made.txt; exit 3"'
           terminal=$(echo "$answer" | sed 's/.*"terminalId":"\([^"]*\)".*/\1/')
           ask terminal/wait_for_exit "\"terminalId\":\"$terminal\""
           ask terminal/output "\"terminalId\":\"$terminal\"""#,
    )
    .await?;
    std::fs::write(stage.world.path("secret"), "the family silver")?;
    let config = [("command", path.as_str()), ("permission_mode", "autonomous")];
    let id = stage.create_as(session(&stage, &config)).await?.id;
    let turn = stage.turn(&id, "go").await?;
    let said = contents(&turn, pb::ActivityType::Completion);
    let answers: Vec<&str> = said.split('|').collect();
    assert!(answers[0].contains("A project for tests."), "{said}");
    assert!(answers[1].contains("outside the project") && !said.contains("silver"), "{said}");
    assert!(answers[2].contains("result:{}"), "{said}");
    assert!(answers[3].contains("terminalId:term_"), "{said}");
    assert!(answers[4].contains("exitCode:3"), "{said}");
    assert!(answers[5].contains("by the agent"), "{said}");
    assert_eq!(std::fs::read_to_string(stage.world.project().join("made.txt"))?, "by the agent");
    // What was done with permission is on record.
    let asked: Vec<own::Request> = stage.requests(&id, true).await?;
    let tools: Vec<&str> = asked.iter().map(|request| request.tool_name.as_str()).collect();
    assert_eq!(tools, ["Write", "Bash"]);
    stage.close().await
}

#[tokio::test]
async fn an_agent_that_asks_in_its_own_way_is_answered_with_its_own_options() -> Result<()> {
    // Asks about no call, with options of no kind and of one that the protocol does not have; says what it was answered.
    let (stage, path) = with_program(
        r#"answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":\"$1\",\"result\":$2}"; }
           say() { echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}}}"; }
           while read -r line; do
             id=$(echo "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
             case "$line" in
               *'"method":"initialize"'*) answer "$id" '{"protocolVersion":1}' ;;
               *'"method":"session/new"'*) answer "$id" '{"sessionId":"s1"}' ;;
               *'"method":"session/prompt"'*)
                 echo '{"jsonrpc":"2.0","id":"a-1","method":"session/request_permission","params":{"sessionId":"s1","options":[{"optionId":"go-on","kind":"allow_for_the_day"},{"optionId":"allow"},{"optionId":"reject","name":null}]}}'
                 read -r said
                 say "$(printf '%s' "$said" | sed 's/["\\]//g')"
                 answer "$id" '{}' ;;
             esac
           done"#,
    )
    .await?;
    for (decision, option) in [(own::Decision::AllowOnce, "allow"), (own::Decision::Deny, "reject")] {
        let id = stage.create_as(session(&stage, &[("command", &path)])).await?.id;
        let turn = stage.send(&id, "go").await?;
        let request = stage.wait_for_request(&id).await?;
        let answer = own::AnswerPermissionRequest {
            session_id: id.clone(),
            request_id: request.id,
            decision: decision.into(),
            ..Default::default()
        };
        stage.clients.requests.clone().answer_permission(answer).await?;
        let said = contents(&e2e::clients::collect(turn).await?, pb::ActivityType::Completion);
        assert!(said.contains("outcome:selected") && said.contains(&format!("optionId:{option}")), "{said}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_model_is_one_that_the_agent_lists() -> Result<()> {
    let stage = stage!(Agent::Acp);
    let with_model = |model: &str| pb::CreateSessionRequest {
        model: model.into(),
        ..session(&stage, &[("agent", "codex-acp")])
    };
    let status = refusal(&stage, with_model("no-such-model-at-all")).await?;
    assert!(mentions(&status, "OBEY-2003") && mentions(&status, "the agent has no model"), "{status:?}");
    stage.close().await
}

#[tokio::test]
async fn an_agents_mode_follows_the_sessions() -> Result<()> {
    let stage = stage!(Agent::Acp);
    let id = stage.create().await?;
    let try_to_write = json!([
        {"tool": "Bash", "input": {"command": "touch made 2>/dev/null || echo kept out"}}, {"text": "done"}]);
    let turn = stage.turn(&id, &script(Agent::Acp, "before", &try_to_write)).await?;
    let results = of_type(&turn, pb::ActivityType::ToolResult);
    assert!(results[0].content.contains("kept out"), "{results:#?}");
    let mode = own::SetModeRequest { session_id: id.clone(), mode: "acceptEdits".into() };
    stage.clients.turns.clone().set_mode(mode).await?;
    stage.turn(&id, &script(Agent::Acp, "after", &try_to_write)).await?;
    assert!(stage.world.project().join("made").exists());
    stage.close().await
}

#[tokio::test]
async fn a_command_that_an_agent_kills_has_said_what_it_has_said() -> Result<()> {
    // The second command waits until the first has spoken.
    let (stage, path) = with_errands(
        r#"name() { echo "$answer" | sed 's/.*"terminalId":"\([^"]*\)".*/\1/'; }
           ask terminal/create '"command":"mkfifo pipe; echo so far; echo now > pipe; sleep 1000"'
           first=$(name)
           ask terminal/create '"command":"until [ -p pipe ]; do :; done; cat pipe"'
           ask terminal/wait_for_exit "\"terminalId\":\"$(name)\""
           ask terminal/kill "\"terminalId\":\"$first\""
           ask terminal/output "\"terminalId\":\"$first\""
           ask terminal/wait_for_exit "\"terminalId\":\"$first\"""#,
    )
    .await?;
    let config = [("command", path.as_str()), ("permission_mode", "autonomous")];
    let id = stage.create_as(session(&stage, &config)).await?.id;
    let turn = stage.turn(&id, "go").await?;
    let said = contents(&turn, pb::ActivityType::Completion);
    let answers: Vec<&str> = said.split('|').collect();
    assert!(answers[2].contains("exitCode:0"), "{said}");
    assert!(answers[4].contains("so far") && answers[4].contains("signal:SIGKILL"), "{said}");
    assert!(answers[5].contains("signal:SIGKILL"), "{said}");
    stage.close().await
}

#[tokio::test]
async fn an_answer_is_whole_at_its_end_though_the_daemon_died_in_it() -> Result<()> {
    let errands = r#"say "$(head -c $(cat length) /dev/zero | tr '\0' x)"; until [ -e go ]; do sleep 0.1; done; said=end"#;
    let (mut stage, path) = with_errands(errands).await?;
    let mut sessions = Vec::new();
    for length in [40_000, 9] {
        std::fs::write(stage.world.project().join("length"), length.to_string())?;
        let id = stage.create_as(session(&stage, &[("command", path.as_str())])).await?.id;
        drop(stage.send(&id, "go").await?);
        stage.wait_for_text(&id, "xxx").await?;
        sessions.push((id, length));
    }
    stage.daemon.kill9().await?;
    stage.daemon = e2e::daemon::Daemon::start(&stage.world).await?;
    stage.clients = stage.daemon.clients().await?;
    std::fs::write(stage.world.project().join("go"), "")?;
    for (id, length) in sessions {
        let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
        let text = ended["text"].as_str().unwrap_or_default();
        assert_eq!((text.len(), text.ends_with("xend")), (length + 3, true), "{ended:.300}");
    }
    stage.close().await
}

/// Every line the daemon writes to an agent is one the protocol's publisher has in its schema.
mod lines {
    use std::collections::BTreeMap;

    use e2e::acp::Schema;
    use serde_json::Value;

    use super::*;
    use crate::stage::{large_scenarios_of, scenarios_of};

    scenarios_of!(native, Acp, every_line_of_ours_fits_the_published_schema);
    large_scenarios_of!(opencode, Opencode, every_line_of_ours_fits_the_published_schema);
    large_scenarios_of!(goose, Goose, every_line_of_ours_fits_the_published_schema);
    large_scenarios_of!(gemini, Gemini, every_line_of_ours_fits_the_published_schema);
    large_scenarios_of!(claude_acp, ClaudeAcp, every_line_of_ours_fits_the_published_schema);
    large_scenarios_of!(codex_acp, CodexAcp, every_line_of_ours_fits_the_published_schema);

    async fn every_line_of_ours_fits_the_published_schema(agent: Agent) -> Result<()> {
        let Some(schema) = e2e::tools::acp_schema()? else { return Ok(()) };
        let schema = Schema::read(&schema)?;
        let stage = Stage::open_with(agent, |world| {
            let (sent, said) = (world.path("sent"), world.path("said"));
            let line = format!("tee '{}' | \"$REAL\" \"$@\" | tee '{}'", sent.display(), said.display());
            agent.program().map_or(Ok(()), |program| world.wrap(program, &line))
        });
        let Some(stage) = stage.await? else { return Ok(()) };
        let mut request = stage.new_session();
        request.provider_config.insert("permission_mode".into(), "autonomous".into());
        let id = stage.create_as(request).await?.id;
        let steps = json!([agent.asking("touch made"), {"text": "made it"}]);
        stage.turn(&id, &script(agent, "one", &steps)).await?;
        let stuck = stage.send(&id, &script(agent, "stuck", &json!([agent.endless()]))).await?;
        stage.wait_for_text(&id, "half a").await?;
        stage.cancel(&id).await?;
        e2e::clients::collect(stuck).await?;
        let read = |name: &str| -> Result<Vec<Value>> {
            let text = std::fs::read_to_string(stage.world.path(name))?;
            Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
        };
        let said = read("said")?;
        let asked: BTreeMap<String, &str> = said
            .iter()
            .filter_map(|line| Some((line.get("id")?.to_string(), line["method"].as_str()?)))
            .collect();
        let sent = read("sent")?;
        let methods: Vec<&str> = sent.iter().filter_map(|line| line["method"].as_str()).collect();
        for wanted in ["initialize", "session/new", "session/prompt", "session/cancel"] {
            assert!(methods.contains(&wanted), "{methods:?}");
        }
        for line in &sent {
            let checked = match line["method"].as_str() {
                // A draft's method, which agents of that time have.
                Some("session/set_model") => Ok(()),
                Some(_) => schema.check_client_message(line),
                None => {
                    let method = asked.get(&line["id"].to_string()).copied().unwrap_or_default();
                    schema.check_client_answer(method, line)
                }
            };
            checked.with_context(|| line.to_string())?;
        }
        stage.close().await
    }
}
