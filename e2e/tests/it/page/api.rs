//! The API of the page with plain HTTP: methods as JSON, keys, streams, documents.

use anyhow::{Context, Result, ensure};
use e2e::deadline::{poll, within};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::PageStage;

#[tokio::test]
async fn reading_needs_no_key_and_acting_is_refused_without_one() -> Result<()> {
    let stage = PageStage::start().await?;
    let id = stage.session("quiet").await?;
    let listed = stage.call("obey.v1.CampaignService/ListCampaigns", &json!({}), None).await?;
    ensure!(listed.status == 200 && listed.json()?["campaigns"][0]["name"] == "project", "{listed:?}");
    let info =
        stage.call("obey.local.v1.LocalDaemonService/GetSession", &json!({"sessionId": id}), None).await?;
    ensure!(info.json()?["agent_name"] == "quiet", "{info:?}");
    for (method, message) in [
        ("obey.v1.TurnService/Prompt", json!({"session_id": id, "text": "hello"})),
        ("obey.v1.TurnService/CancelTurn", json!({"session_id": id})),
        ("obey.local.v1.LocalDaemonService/StopSession", json!({"session_id": id})),
        ("obey.v1.DeviceService/ListDevices", json!({})),
        ("obey.v1.PageService/CreateCode", json!({})),
    ] {
        let refused = stage.call(method, &message, None).await?;
        let told = refused.json()?;
        ensure!(refused.status == 403 && told["code"] == "OBEY-1002", "{method}: {refused:?}");
        ensure!(told["error"].as_str().is_some_and(|text| text.contains("obey web")), "{method}: {told}");
    }
    // What a browser sends is a page's whatever its path: the workbench, MCP and gRPC-Web too.
    let browser = format!("origin: http://{}\r\nsec-fetch-site: same-origin\r\n", stage.address);
    let bash = json!({"cmd": "touch made", "session_id": "sess_page", "working_dir": stage.world.project()});
    let refused = stage.post("/api/v1/safeexec/bash", &bash, &browser).await?;
    ensure!(refused.status == 403 && refused.json()?["code"] == "OBEY-1002", "{refused:?}");
    ensure!(!stage.world.project().join("made").exists());
    let unknown = stage.call("obey.v1.TurnService/Prompt", &json!({"txet": "x"}), None).await?;
    ensure!(unknown.status == 400 || unknown.status == 403, "{unknown:?}");
    stage.end().await
}

#[tokio::test]
async fn a_code_works_once_and_its_key_acts_until_it_is_revoked() -> Result<()> {
    let stage = PageStage::start().await?;
    let id = stage.session("worker").await?;
    let code = stage.code().await?;
    let login = json!({"code": code, "name": "desk"});
    let given = stage.call("obey.v1.PageService/Login", &login, None).await?.json()?;
    let key = given["key"].as_str().context("no key")?.to_owned();
    ensure!(given["name"] == "desk" && given["role"] == "owner", "{given}");
    let again = stage.call("obey.v1.PageService/Login", &login, None).await?;
    ensure!(again.status == 400 && again.body.contains("obey web"), "{again:?}");
    let prompt = json!({"session_id": id, "text": "SCRIPT: [{\"text\":\"done\"}]"});
    let sent = stage.call("obey.v1.TurnService/Prompt", &prompt, Some(&key)).await?;
    ensure!(sent.status == 200 && sent.json()?["seq"].as_u64().is_some(), "{sent:?}");
    let log = stage.cli().ok(&["session", "log", &id, "--json"]).await?.json_lines()?;
    let started = log.iter().find(|event| event["type"] == "turn_started").context("no turn")?;
    ensure!(started["by"] == "web/desk", "{started}");
    let listed = stage.cli().json(&["device", "list"]).await?;
    ensure!(listed["devices"][0]["name"] == "desk" && listed["devices"][0]["proof"] == "page", "{listed}");
    stage.cli().ok(&["device", "revoke", "desk"]).await?;
    let refused = stage.call("obey.v1.TurnService/Prompt", &prompt, Some(&key)).await?;
    ensure!(refused.status == 401 && refused.body.contains("signed out"), "{refused:?}");
    // A code is in no log and no audit.
    ensure!(!stage.daemon.log().contains(&code));
    let audit = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.stdout;
    ensure!(!audit.contains(&code) && audit.contains("obey.v1.PageService/Login"), "{audit}");
    stage.end().await
}

#[tokio::test]
async fn a_key_survives_a_restart_of_the_daemon() -> Result<()> {
    let mut stage = PageStage::start().await?;
    let (key, name) = stage.key().await?;
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.address = *stage.daemon.listen().first().context("no address")?;
    let caller = stage.call("obey.v1.PageService/GetCaller", &json!({}), Some(&key)).await?.json()?;
    ensure!(
        caller["kind"] == "device" && caller["name"] == name.as_str() && caller["role"] == "owner",
        "{caller}"
    );
    stage.end().await
}

#[tokio::test]
async fn events_resume_exactly_after_the_last_id() -> Result<()> {
    let stage = PageStage::start().await?;
    let id = stage.session("teller").await?;
    stage.cli().ok(&["session", "send", &id, "SCRIPT: [{\"text\":\"one two three\",\"chunks\":3}]"]).await?;
    let log = stage.cli().ok(&["session", "log", &id, "--json"]).await?.json_lines()?;
    let newest = log.len() as u64;
    let path = format!("/api/sessions/{id}/events?follow=false");
    let all = sse(&stage, &path, "").await?;
    let expected: Vec<Value> = log.clone();
    ensure!(
        all.iter().map(|(_, event)| event.clone()).collect::<Vec<_>>() == expected,
        "{all:#?}\n{expected:#?}"
    );
    for last in [0, 1, newest / 2, newest - 1] {
        let rest = sse(&stage, &path, &format!("last-event-id: {last}\r\n")).await?;
        let ids: Vec<u64> = rest.iter().map(|(id, _)| *id).collect();
        ensure!(ids == (last + 1..=newest).collect::<Vec<_>>(), "after {last}: {ids:?}");
    }
    let page = stage
        .get(&format!("/api/sessions/{id}/events?after=2&limit=2"), "accept: application/json\r\n")
        .await?;
    let page = page.json()?;
    ensure!(
        page["events"].as_array().is_some_and(|events| events.len() == 2 && events[0]["seq"] == 3),
        "{page}"
    );
    let missing = stage.get("/api/sessions/sess_none/events", "").await?;
    ensure!(missing.status == 404 && missing.json()?["code"] == "OBEY-2010", "{missing:?}");
    stage.end().await
}

/// Reads a finite stream of events: their ids and data.
async fn sse(stage: &PageStage, path: &str, headers: &str) -> Result<Vec<(u64, Value)>> {
    let text = raw(stage, "GET", path, headers, "").await?;
    let mut events = Vec::new();
    for block in text.split("\n\n").filter(|block| block.contains("data: ")) {
        let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        events.push((line("id: ").parse()?, serde_json::from_str(line("data: "))?));
    }
    Ok(events)
}

/// Sends a request over HTTP/1.0, whose answers end with the connection and have no chunks.
async fn raw(stage: &PageStage, method: &str, path: &str, headers: &str, body: &str) -> Result<String> {
    let mut stream = connect(stage, method, path, headers, body).await?;
    let mut bytes = Vec::new();
    within("the end of an answer", stream.read_to_end(&mut bytes)).await??;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(text.split_once("\r\n\r\n").context("no answer")?.1.to_owned())
}

async fn connect(
    stage: &PageStage,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Result<TcpStream> {
    let to = stage.address;
    let mut stream = TcpStream::connect(to).await?;
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let head = format!(
        "{method} {path} HTTP/1.0\r\nhost: {to}\r\n{headers}{kind}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

/// Reads a stream until it has a text.
async fn read_until(stream: &mut TcpStream, seen: &mut String, wanted: &str) -> Result<()> {
    let reading = async {
        let mut buffer = [0; 4096];
        while !seen.contains(wanted) {
            let count = stream.read(&mut buffer).await?;
            ensure!(count > 0, "the stream ended without {wanted:?}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        Ok(())
    };
    within(&format!("{wanted:?} in a stream"), reading).await?
}

#[tokio::test]
async fn the_live_stream_gives_every_event_after_the_pages_own_and_ends_with_its_key() -> Result<()> {
    let stage = PageStage::start().await?;
    let id = stage.session("streamer").await?;
    let (key, name) = stage.key().await?;
    let authorization = format!("authorization: Bearer {key}\r\n");
    let body = json!({"sessions": {id.as_str(): 2, "sess_none": 0}}).to_string();
    let mut stream = connect(&stage, "POST", "/api/live", &authorization, &body).await?;
    let mut seen = String::new();
    read_until(&mut stream, &mut seen, "event: caught_up").await?;
    ensure!(seen.contains("\"sess_none\":{\"verdict\":\"missing\""), "{seen}");
    ensure!(seen.contains("\"seq\":3,") && !seen.contains("\"seq\":2,"), "{seen}");
    stage.cli().ok(&["session", "send", &id, "SCRIPT: [{\"text\":\"all of it\",\"chunks\":4}]"]).await?;
    let newest = stage.cli().ok(&["session", "log", &id, "--json"]).await?.json_lines()?.len();
    read_until(&mut stream, &mut seen, &format!("\"last\":{newest}}}")).await?;
    let mut seqs: Vec<u64> = Vec::new();
    for line in seen.lines().filter_map(|line| line.strip_prefix("data: {\"session\"")) {
        let Ok(value) = serde_json::from_str::<Value>(&format!("{{\"session\"{line}")) else { continue };
        seqs.extend(
            value["events"].as_array().into_iter().flatten().filter_map(|event| event["seq"].as_u64()),
        );
    }
    ensure!(seqs == (3..=newest as u64).collect::<Vec<_>>(), "{seqs:?}");
    stage.cli().ok(&["device", "revoke", &name]).await?;
    read_until(&mut stream, &mut seen, "event: signed_out").await?;
    let wrong = stage.post("/api/live", &json!({"sessions": []}), "").await?;
    ensure!(wrong.status == 400 && wrong.body.contains("SEQ"), "{wrong:?}");
    stage.end().await
}

#[tokio::test]
async fn a_method_that_streams_is_served_as_lines() -> Result<()> {
    let stage = PageStage::start().await?;
    let id = stage.session("lines").await?;
    let body = json!({"session_id": id}).to_string();
    let text =
        raw(&stage, "POST", "/obey.v1.EventService/ReadEvents", "accept: application/x-ndjson\r\n", &body)
            .await?;
    let seqs: Vec<Value> = text
        .lines()
        .map(|line| Ok(serde_json::from_str::<Value>(line)?["seq"].clone()))
        .collect::<Result<_>>()?;
    ensure!(seqs.len() >= 3 && seqs[0] == 1 && seqs[2] == 3, "{text}");
    let refused = stage.call("obey.v1.EventService/ReadEvents", &json!({"session_id": id}), None).await?;
    ensure!(refused.status == 406 && refused.body.contains("x-ndjson"), "{refused:?}");
    stage.end().await
}

#[tokio::test]
async fn the_page_is_served_with_its_policy_and_nothing_is_kept_in_a_cookie() -> Result<()> {
    let stage = PageStage::start().await?;
    for path in ["/", "/s/sess_1", "/s/sess_1/review", "/new", "/audit", "/settings"] {
        let page = stage.get(path, "").await?;
        let head = page.head.to_lowercase();
        ensure!(page.status == 200 && page.body.contains("<div id=\"app\">"), "{path}: {page:?}");
        ensure!(head.contains("content-security-policy: default-src 'none'; script-src 'self'"), "{head}");
        ensure!(!head.contains("unsafe-") && !head.contains("set-cookie"), "{head}");
        ensure!(
            head.contains("cache-control: no-cache") && head.contains("referrer-policy: no-referrer"),
            "{head}"
        );
    }
    let page = stage.get("/", "").await?;
    let script =
        page.body.split("src=\"").nth(1).and_then(|rest| rest.split('"').next()).context("no script")?;
    let asset = stage.get(script, "").await?;
    let head = asset.head.to_lowercase();
    ensure!(
        head.contains("immutable") && head.contains("text/javascript") && head.contains("nosniff"),
        "{head}"
    );
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).context("no tag")?;
    let known = stage.get(script, &format!("if-none-match: {tag}\r\n")).await?;
    ensure!(known.status == 304 && known.body.is_empty(), "{known:?}");
    ensure!(stage.get("/assets/none.js", "").await?.status == 404);
    ensure!(stage.get("/assets/../index.html", "").await?.status == 404);
    ensure!(stage.get("/api/none", "").await?.status == 404);
    // A link from elsewhere opens the page; a request of another page reads nothing.
    let link = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n";
    ensure!(stage.get("/s/sess_1", link).await?.status == 200);
    let framed = "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: iframe\r\n";
    ensure!(stage.get("/", framed).await?.status == 403);
    let fetched = "sec-fetch-site: same-site\r\nsec-fetch-mode: cors\r\nsec-fetch-dest: empty\r\n";
    ensure!(stage.get("/", fetched).await?.status == 403);
    ensure!(stage.get("/api/sessions/sess_1/events", link).await?.status == 403);
    stage.end().await
}

#[tokio::test]
async fn the_openapi_document_describes_what_can_be_called() -> Result<()> {
    let stage = PageStage::start().await?;
    let document = raw(&stage, "GET", "/api/openapi.json", "", "").await?;
    let document: Value = serde_json::from_str(&document)?;
    ensure!(document["openapi"] == "3.1.0");
    let paths = document["paths"].as_object().context("no paths")?;
    for path in ["/obey.v1.TurnService/Prompt", "/obey.v1.RequestService/AnswerPermission", "/api/live"] {
        ensure!(paths.contains_key(path), "{path}");
    }
    stage.end().await
}

#[tokio::test]
async fn obey_web_prints_the_address_and_starts_the_daemon_if_need_be() -> Result<()> {
    let world = e2e::world::World::new()?;
    world.set_env("OBEY_LISTEN", "127.0.0.1:0");
    let cli = e2e::cli::Cli::new(&world);
    let printed = cli.ok(&["web", "--no-open"]).await?;
    let url = printed.stdout.trim();
    ensure!(url.starts_with("http://127.0.0.1:") && url.contains("/#k="), "{printed:?}");
    let pair = cli.run(&["web", "pair"]).await?;
    ensure!(
        !pair.stderr.is_empty() && pair.stderr.contains("TLS") || pair.stderr.contains("tls"),
        "{pair:?}"
    );
    cli.ok(&["stop"]).await?;
    poll("the end of every process", || world.processes().is_empty().then_some(())).await?;
    Ok(())
}
