//! Other machines: TLS or nothing, devices with a role, and an end to both when a device is revoked or expires.

mod remote;

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::tools;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::{hostile_session, hostile_stage_with, obey, run_as_agent};
use crate::stage::{Agent, Stage, script};
pub(crate) use remote::with_tls;
use remote::{
    ANSWER, CREATE, DEVICES, FOLLOW, LIST, SEND, add, address, call, curl, file, is_ok, is_refused,
    is_unknown, stage,
};

#[tokio::test]
async fn a_role_bounds_what_a_device_may_do() -> Result<()> {
    let stage = stage().await?;
    let session = stage.create().await?;
    let list = pb::ListSessionsRequest::default();
    let new = stage.new_session();
    let message = script(Agent::Scripted, "hello", &json!([{"text": "hello"}]));
    let send = pb::SendMessageRequest { session_id: session.clone(), message };
    let devices = own::ListDevicesRequest {};
    for (role, may) in [
        ("viewer", [true, false, false, false]),
        ("operator", [true, true, true, false]),
        ("owner", [true, true, true, true]),
    ] {
        let token = add(&stage, role, role).await?;
        let answers = [
            call(&stage, LIST, &list, &token, &[]).await?,
            call(&stage, CREATE, &new, &token, &[]).await?,
            call(&stage, SEND, &send, &token, &[]).await?,
            call(&stage, DEVICES, &devices, &token, &[]).await?,
        ];
        for (answer, may) in answers.iter().zip(may) {
            ensure!(is_ok(answer) == may && is_refused(answer) != may, "{role}: {answer}");
        }
    }
    let listed = stage.cli().json(&["device", "list"]).await?;
    let seen: Vec<(&str, &str)> = { listed["devices"].as_array().into_iter().flatten() }
        .filter_map(|one| Some((one["name"].as_str()?, one["seen_from"].as_str()?)))
        .collect();
    ensure!(seen == [("operator", "127.0.0.1"), ("owner", "127.0.0.1"), ("viewer", "127.0.0.1")], "{listed}");
    stage.close().await
}

/// Python's grpcio as a client of another language: all roles, certificates, and everything that must not be let in.
#[tokio::test]
async fn python_calls_as_a_device_and_is_refused_as_anybody_else() -> Result<()> {
    let Some((python, stubs)) = tools::python()? else { return Ok(()) };
    let stage = stage().await?;
    let session = stage.create().await?;
    let folder = stage.world.path("certificates").display().to_string();
    stage.cli().ok(&["device", "add", "laptop", "--role", "operator", "--certificate", &folder]).await?;
    let mut arguments = vec![address(&stage).await?, stage.world.path("tls").display().to_string()];
    arguments.extend([file(&stage, "other", "ca.pem"), folder, session]);
    for role in ["viewer", "operator", "owner"] {
        arguments.push(add(&stage, role, role).await?);
    }
    let script = tools::repository().join("e2e/tests/python/devices_v1.py");
    let mut command = tokio::process::Command::from(stage.world.command(python));
    command.arg(script).args(arguments).env("PYTHONPATH", stubs).kill_on_drop(true);
    let output = within("the end of the script", command.output()).await??;
    ensure!(output.status.success(), "{output:?}\nthe daemon's log:\n{}", stage.daemon.log());
    let rows = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.json_lines()?;
    let of_line =
        |row: &&Value| row["operation"] == "acp session/delete" && row["caller"] == "device operator";
    let row = rows.iter().find(of_line).with_context(|| format!("{rows:#?}"))?;
    ensure!(row["origin"].as_str().is_some_and(|from| from.starts_with("tls 127.0.0.1:")), "{row}");
    stage.close().await
}

#[tokio::test]
async fn nobody_gets_in_without_tls_or_a_device() -> Result<()> {
    let stage = stage().await?;
    let (list, token) = (pb::ListSessionsRequest::default(), add(&stage, "phone", "owner").await?);
    ensure!(is_ok(&call(&stage, LIST, &list, &token, &[]).await?), "a device is served");
    let local = stage.daemon.socket().parent().context("no folder")?.join("token");
    let local = std::fs::read_to_string(local)?;
    for wrong in ["", "0", &token[1..], &token.to_uppercase(), local.trim()] {
        let answer = call(&stage, LIST, &list, wrong, &[]).await?;
        ensure!(is_unknown(&answer), "{wrong:?}: {answer}");
    }
    // A token in an address ends up in logs and histories; there it is nothing.
    for parameter in ["token", "access_token", "authorization"] {
        let answer = call(&stage, &format!("{LIST}?{parameter}={token}"), &list, "", &[]).await?;
        ensure!(is_unknown(&answer), "{answer}");
    }
    let answer = call(&stage, LIST, &list, "", &["--user", &format!("phone:{token}")]).await?;
    ensure!(is_unknown(&answer), "{answer}");
    // Pages of others, and names that are not ours.
    for wrong in
        ["origin: https://evil.test", "origin: null", "sec-fetch-site: cross-site", "host: evil.test"]
    {
        let answer = call(&stage, LIST, &list, &token, &["-H", wrong]).await?;
        ensure!(answer.lines().next().is_some_and(|line| line.contains("403")), "{wrong}: {answer}");
    }
    ensure!(is_ok(&call(&stage, LIST, &list, &token, &["-H", "host: daemon.test"]).await?), "a name of ours");
    // In the clear, by a client that trusts somebody else, and with TLS as it was.
    let at = address(&stage).await?;
    let ca = file(&stage, "tls", "ca.pem");
    let (plain, url) = (format!("http://{at}/{LIST}"), format!("https://{at}/{LIST}"));
    let other = file(&stage, "other", "ca.pem");
    for (what, url, more) in [
        ("plain text", &plain, vec![]),
        ("another authority", &url, vec!["--cacert", &other]),
        ("TLS 1.2", &url, vec!["--cacert", &ca, "--tls-max", "1.2"]),
    ] {
        let refused = curl(&stage, url, &list, &token, &more)?.output()?;
        ensure!(!refused.status.success() && refused.stdout.is_empty(), "{what}: {refused:?}");
    }
    stage.close().await
}

/// Bytes that are no handshake are not answered in the clear.
#[tokio::test]
async fn plain_text_gets_no_answer() -> Result<()> {
    let stage = stage().await?;
    let at = address(&stage).await?;
    for said in
        [&b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0\0\0\0"]
    {
        let mut stream = std::net::TcpStream::connect(&at)?;
        stream.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
        stream.write_all(said)?;
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut heard = Vec::new();
        // Cut off or closed, both are an end.
        let _reset = stream.read_to_end(&mut heard);
        // At most an alert of TLS: 21, its version, a length of 2, the alert.
        ensure!(heard.is_empty() || (heard.len() == 7 && heard[0] == 21), "{heard:?}");
    }
    stage.close().await
}

#[tokio::test]
async fn a_certificate_is_its_devices_until_that_is_revoked() -> Result<()> {
    let (stage, stranger) = (stage().await?, stage().await?);
    let list = pb::ListSessionsRequest::default();
    for (daemon, role) in [(&stage, "viewer"), (&stranger, "owner")] {
        let folder = daemon.world.path("certificates").display().to_string();
        let add = ["device", "add", "laptop", "--role", role, "--certificate", &folder];
        let added = daemon.cli().ok(&add).await?;
        ensure!(added.stdout.contains("laptop.pem") && !added.stdout.contains("PRIVATE"), "{added:?}");
    }
    let files = |daemon: &Stage| {
        let [certificate, key] = ["laptop.pem", "laptop.key"].map(|name| file(daemon, "certificates", name));
        ["--cert".to_owned(), certificate, "--key".to_owned(), key]
    };
    let (own, others) = (files(&stage), files(&stranger));
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    ensure!(is_ok(&call(&stage, LIST, &list, "", &own).await?), "its certificate is enough");
    let answer = call(&stage, CREATE, &stage.new_session(), "", &own).await?;
    ensure!(is_refused(&answer), "{answer}");
    let answer = call(&stage, LIST, &list, "wrong", &own).await?;
    ensure!(is_unknown(&answer), "a wrong token is wrong all the same: {answer}");
    ensure!(call(&stage, LIST, &list, "", &others).await.is_err(), "another daemon's certificate");
    ensure!(is_ok(&call(&stranger, LIST, &list, "", &others).await?), "which is one there");
    stage.cli().ok(&["device", "revoke", "laptop"]).await?;
    let answer = call(&stage, LIST, &list, "", &own).await?;
    ensure!(is_unknown(&answer), "{answer}");
    add(&stage, "laptop", "owner").await?;
    let answer = call(&stage, LIST, &list, "", &own).await?;
    ensure!(is_unknown(&answer), "a new device of that name is another: {answer}");
    stranger.close().await?;
    stage.close().await
}

/// Follows a session with a device's token; returns once the stream is open.
async fn following(
    stage: &Stage,
    session: &str,
    token: &str,
) -> Result<(tokio::process::Child, tokio::process::ChildStdout)> {
    let ca = file(stage, "tls", "ca.pem");
    let follow = own::ReadEventsRequest { session_id: session.into(), follow: true, ..Default::default() };
    let url = format!("https://{}/{FOLLOW}", address(stage).await?);
    let command = curl(stage, &url, &follow, token, &["--cacert", &ca, "--max-time", "600"])?;
    let mut open =
        tokio::process::Command::from(command).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut stream = open.stdout.take().context("no output")?;
    let mut first = [0; 15];
    within("the stream", stream.read_exact(&mut first)).await??;
    ensure!(String::from_utf8_lossy(&first).contains("200"), "{:?}", String::from_utf8_lossy(&first));
    Ok((open, stream))
}

/// Other users of the machine may see the address that a browser is started with.
#[tokio::test]
async fn a_code_of_this_machines_page_gives_nothing_over_the_network() -> Result<()> {
    let stage = stage().await?;
    let printed = stage.cli().json(&["web", "--no-open"]).await?;
    let url = printed["url"].as_str().context("no url")?;
    let (_, code) = url.rsplit_once("k=").context("no code")?;
    let at = address(&stage).await?;
    let ca = file(&stage, "tls", "ca.pem");
    let login = |url: String, more: &[&str]| {
        let body = json!({ "code": code, "name": "b" }).to_string();
        let done = std::process::Command::new("curl")
            .args(["-sS", "-i", "-H", "content-type: application/json", "-d", &body])
            .args(more)
            .arg(url)
            .output()?;
        anyhow::Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let path = "obey.v1.PageService/Login";
    let taken = login(format!("https://{at}/{path}"), &["--cacert", &ca])?;
    ensure!(taken.contains("was used before") && !taken.contains("obey-page-"), "{taken}");
    let here = url.split_once("/#").context("no fragment")?.0;
    let given = login(format!("{here}/{path}"), &[])?;
    ensure!(given.contains("\"role\""), "the attempt did not use it up: {given}");
    stage.close().await
}

#[tokio::test]
async fn a_revoked_device_is_cut_off_at_once() -> Result<()> {
    let stage = stage().await?;
    let session = stage.create().await?;
    let (list, token) = (pb::ListSessionsRequest::default(), add(&stage, "phone", "viewer").await?);
    let (_open, mut stream) = following(&stage, &session, &token).await?;
    stage.cli().ok(&["device", "revoke", "phone"]).await?;
    let mut rest = Vec::new();
    within("the end of the connection", stream.read_to_end(&mut rest)).await??;
    ensure!(is_unknown(&call(&stage, LIST, &list, &token, &[]).await?), "its token is worth nothing");
    // A new one of that name is another device.
    add(&stage, "phone", "viewer").await?;
    ensure!(is_unknown(&call(&stage, LIST, &list, &token, &[]).await?), "nor is it later");
    stage.close().await
}

#[tokio::test]
async fn a_device_ends_when_it_expires() -> Result<()> {
    let stage = stage().await?;
    let session = stage.create().await?;
    let added = ["device", "add", "guest", "--role", "viewer", "--expires", "5s"];
    let added = stage.cli().json(&added).await?;
    let token = added["token"].as_str().context("no token")?;
    ensure!(added["expires_at"].is_string(), "{added}");
    let (_open, mut stream) = following(&stage, &session, token).await?;
    let mut rest = Vec::new();
    within("the end of the connection", stream.read_to_end(&mut rest)).await??;
    let answer = call(&stage, LIST, &pb::ListSessionsRequest::default(), token, &[]).await?;
    ensure!(is_unknown(&answer) && answer.contains("expired"), "{answer}");
    stage.close().await
}

#[tokio::test]
async fn a_devices_answers_say_who_and_from_where() -> Result<()> {
    let stage = stage().await?;
    let token = add(&stage, "phone", "operator").await?;
    let id = stage.create().await?;
    let steps = json!([Agent::Scripted.asking("echo x >>made"), {"text": "made it"}]);
    let turn = stage.send(&id, &script(Agent::Scripted, "ask", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    let answer = own::AnswerPermissionRequest {
        session_id: id.clone(),
        request_id: request.id.clone(),
        decision: own::Decision::AllowOnce.into(),
        answered_by: "the user".into(),
        ..Default::default()
    };
    let viewer = add(&stage, "screen", "viewer").await?;
    let refused = call(&stage, ANSWER, &answer, &viewer, &[]).await?;
    ensure!(is_refused(&refused), "{refused}");
    // A rule for the whole project would outlive the device.
    let lasting = own::AnswerPermissionRequest { grant: "command.project".into(), ..answer.clone() };
    let refused = call(&stage, ANSWER, &lasting, &token, &[]).await?;
    ensure!(is_refused(&refused) && refused.contains("takes%20an%20owner"), "{refused}");
    ensure!(is_ok(&call(&stage, ANSWER, &answer, &token, &[]).await?), "an operator answers");
    let settled = stage.wait_for(&id, "request_settled", |_| true).await?;
    ensure!(settled["by"] == "device phone from 127.0.0.1 (the user)", "{settled}");
    drop(turn);
    ensure!(is_unknown(&call(&stage, ANSWER, &answer, "wrong", &[]).await?), "a stranger is none");
    let rows = stage.cli().ok(&["audit", "tail", "-n", "0", "--json"]).await?.json_lines()?;
    let find = |caller: &str, method: &str, outcome: &str| {
        let fits = |row: &&Value| {
            row["caller"] == caller
                && row["operation"].as_str().is_some_and(|operation| operation.ends_with(method))
                && row["outcome"].as_str().is_some_and(|code| code.contains(outcome))
        };
        rows.iter().find(fits).with_context(|| format!("{caller} {method} {outcome}: {rows:#?}"))
    };
    for (caller, outcome) in
        [("device phone", "ok"), ("device screen", "OBEY-1002"), ("stranger", "OBEY-1002")]
    {
        let row = find(caller, "/AnswerPermission", outcome)?;
        ensure!(row["origin"].as_str().is_some_and(|from| from.starts_with("tls 127.0.0.1:")), "{row}");
    }
    let added = find("user", "/AddDevice", "ok")?;
    ensure!(added["summary"].as_str().is_some_and(|text| text.contains("device phone dev_")), "{added}");
    stage.close().await
}

#[tokio::test]
async fn a_device_outlives_the_daemon_and_its_token_is_nowhere() -> Result<()> {
    let mut stage = stage().await?;
    let (list, token) = (pb::ListSessionsRequest::default(), add(&stage, "phone", "viewer").await?);
    ensure!(is_ok(&call(&stage, LIST, &list, &token, &[]).await?));
    stage.daemon.kill9().await?;
    stage.daemon.restart().await?;
    stage.clients = stage.daemon.clients().await?;
    ensure!(is_ok(&call(&stage, LIST, &list, &token, &[]).await?), "it is known after a crash");
    let refused = call(&stage, CREATE, &stage.new_session(), &token, &[]).await?;
    ensure!(is_refused(&refused), "{refused}");
    let secret = token.rsplit('-').next().context("no token")?.to_owned();
    ensure!(secret.len() == 64, "{secret}");
    ensure!(!stage.daemon.log().contains(&secret), "the log has the token");
    let root = stage.world.root().to_owned();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                // A file may go while it is looked for.
                let bytes = std::fs::read(&path).unwrap_or_default();
                let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                ensure!(!found, "{} has the token", path.display());
            }
        }
    }
    stage.close().await
}

#[tokio::test]
async fn an_agent_may_not_make_itself_a_device() -> Result<()> {
    let stage = hostile_stage_with(with_tls).await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let obey = obey(&stage)?;
    for command in ["device add mine --role owner", "device list", "device revoke phone"] {
        let said = run_as_agent(&stage, &session, &format!("{obey} {command} 2>&1")).await?;
        ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{command}: {said}");
    }
    // Its uid is nothing where callers are devices.
    let at = address(&stage).await?;
    let ca = file(&stage, "tls", "ca.pem");
    let said = run_as_agent(
        &stage,
        &session,
        &format!("curl -sS -i --noproxy '*' --cacert {ca} https://{at}/health"),
    )
    .await?;
    ensure!(said.contains(" 401"), "{said}");
    let listed = stage.cli().json(&["device", "list"]).await?;
    ensure!(listed["devices"] == json!([]), "{listed}");
    stage.close().await
}

#[tokio::test]
async fn an_agent_that_has_found_a_devices_token_stays_the_agent() -> Result<()> {
    let stage = hostile_stage_with(with_tls).await?;
    let (session, other) = (hostile_session(&stage, "autonomous").await?, stage.create().await?);
    let (token, at) = (add(&stage, "phone", "owner").await?, address(&stage).await?);
    ensure!(
        is_ok(&call(&stage, LIST, &pb::ListSessionsRequest::default(), &token, &[]).await?),
        "a device is served"
    );
    let ca = file(&stage, "tls", "ca.pem");
    let call = format!(
        "curl -sS -i --noproxy '*' --cacert {ca} -H 'authorization: Bearer {token}' \
         -H 'content-type: application/json' -d '{{}}' https://{at}/{LIST}"
    );
    let said = run_as_agent(&stage, &session, &call).await?;
    ensure!(said.contains("OBEY-1002") && !said.contains(&other), "{said}");
    stage.close().await
}

#[tokio::test]
async fn an_address_that_others_reach_needs_tls() -> Result<()> {
    let stage = stage().await?;
    // Of another world: this one has a certificate.
    let world = e2e::world::World::new()?;
    let refused = e2e::cli::Cli::new(&world).run(&["serve", "--listen", "0.0.0.0:0"]).await?;
    ensure!(
        refused.stderr.contains("OBEY-1013") && refused.stderr.contains("[tls]") && refused.code != Some(0),
        "{refused:?}"
    );
    let key = stage.world.path("tls").join("daemon.key");
    let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o644);
    std::fs::set_permissions(&key, mode)?;
    let (cert, key) = (file(&stage, "tls", "daemon.pem"), key.display().to_string());
    let flags = ["serve", "--listen", "tls://127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key];
    let refused = e2e::cli::Cli::new(&world).run(&flags).await?;
    ensure!(refused.stderr.contains("OBEY-1014") && refused.stderr.contains("chmod 600"), "{refused:?}");
    stage.close().await
}

/// Every interface of the machine: still devices only, also for the daemon's own user over loopback.
#[tokio::test]
async fn callers_of_every_interface_are_devices() -> Result<()> {
    let open = |world: &e2e::world::World| {
        with_tls(world)?;
        world.set_env("OBEY_LISTEN", "0.0.0.0:0");
        Ok(())
    };
    let stage = Stage::open_with(Agent::Scripted, open).await?.context("the scripted agent")?;
    let at = address(&stage).await?;
    let port = at.rsplit(':').next().context("no port")?;
    let url = format!("https://127.0.0.1:{port}/{LIST}");
    let (list, ca) = (pb::ListSessionsRequest::default(), file(&stage, "tls", "ca.pem"));
    let call = |token: &str| -> Result<String> {
        let output = curl(&stage, &url, &list, token, &["--cacert", &ca])?.output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    ensure!(is_unknown(&call("")?), "{}", call("")?);
    let token = add(&stage, "phone", "viewer").await?;
    ensure!(is_ok(&call(&token)?), "{}", call(&token)?);
    stage.close().await
}
