//! What programs keep here over REST: streams, commands, leases, safety policies, triggers and logins of devices.

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::http;
use serde_json::{Value, json};
use wire::roz::v1 as pb;
use wire::roz::v1::safety_service_client::SafetyServiceClient;

use super::keys::{Program, key, status_of};
use super::talk::environment;
use crate::stage::{Agent, script, stage};

const NONE: Value = Value::Null;

fn id_of(record: &Value) -> Result<&str> {
    record["id"].as_str().with_context(|| format!("no id: {record}"))
}

/// Registers a host in an environment; returns its id.
async fn host(program: &Program<'_>, environment: &str) -> Result<String> {
    let new = json!({"name": "arm", "environment_id": environment});
    Ok(id_of(&program.data(201, "POST", "/v1/hosts", new).await?)?.to_owned())
}

#[tokio::test]
async fn streams_and_safety_policies_are_kept_for_hosts() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let admin = key(&stage, "setup", "Admin").await?;
    let program = Program { to, key: &admin };
    let host = host(&program, &environment(&stage).await?).await?;
    let new = json!({"name": "imu", "category": "telemetry", "host_id": host, "rate_hz": 50, "config": {"axes": 3}});
    let stream = program.data(201, "POST", "/v1/streams", new).await?;
    let path = format!("/api/v1/streams/{}", id_of(&stream)?);
    let changed = program.data(200, "PUT", &path, json!({"rate_hz": 10.5})).await?;
    ensure!(changed["rate_hz"] == 10.5 && changed["config"]["axes"] == 3, "{changed}");
    ensure!(program.data(200, "GET", "/v1/streams", NONE).await? == json!([changed]));
    let policy = json!({"name": "yard", "limits": {"speed": 1}, "geofences": [{"r": 2}]});
    let policy = program.data(201, "POST", "/v1/safety-policies", policy).await?;
    let its = format!("/v1/safety-policies/{}", id_of(&policy)?);
    let next = program.data(200, "PUT", &its, json!({"limits": {"speed": 2}})).await?;
    ensure!(
        next["version"] == 2 && next["limits"]["speed"] == 2 && next["geofences"] == policy["geofences"],
        "{next}"
    );
    for (method, path, body, status, what) in [
        ("POST", "/v1/streams", json!({"name": "x"}), 400, "category"),
        ("POST", "/v1/streams", json!({"name": "x", "category": "y", "rate_hz": -1}), 400, "rate_hz: "),
        ("POST", "/v1/streams", json!({"name": "x", "category": "y", "rate": 1}), 400, "rate"),
        (
            "POST",
            "/v1/streams",
            json!({"name": "x", "category": "y", "config": {"a": "b".repeat(70_000)}}),
            400,
            "longer",
        ),
        ("PUT", its.as_str(), json!({"name": "other"}), 400, "name: "),
        ("POST", "/v1/safety-policies", json!({"name": "yard"}), 409, "already"),
        ("GET", "/v1/streams/nobody", NONE, 400, "id: "),
        ("GET", "/v1/streams/00000000-0000-4000-8000-000000000000", NONE, 404, "there is no stream"),
        ("GET", "/v1/streams?limit=-1", NONE, 400, "limit: "),
        ("GET", "/v1/streams?host=x", NONE, 400, "query: "),
        ("GET", "/v1/leases?all=1", NONE, 400, "query: "),
        ("GET", "/v1/tasks?status=running", NONE, 400, "query: "),
    ] {
        let answer = program.ask(method, path, body).await?;
        ensure!(answer.status == status && answer.body.contains(what), "{method} {path}: {answer:?}");
    }
    let reader = key(&stage, "reader", "ReadStreams").await?;
    let reader = Program { to, key: &reader };
    ensure!(reader.ask("GET", &path, NONE).await?.status == 200);
    ensure!(reader.ask("DELETE", &path, NONE).await?.status == 403);
    ensure!(reader.ask("GET", &its, NONE).await?.status == 403);
    program.data(204, "DELETE", &path, NONE).await?;
    ensure!(program.ask("DELETE", &path, NONE).await?.status == 404);
    stage.close().await
}

#[tokio::test]
async fn commands_go_forward_once_and_a_resource_has_one_holder() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let admin = key(&stage, "setup", "Admin").await?;
    let program = Program { to, key: &admin };
    let environment = environment(&stage).await?;
    let host = host(&program, &environment).await?;
    let new = json!({"host_id": host, "command": "home", "idempotency_key": "k1", "params": {"slow": true}});
    let command = program.data(201, "POST", "/v1/commands", new.clone()).await?;
    ensure!(command["state"] == "accepted", "{command}");
    ensure!(
        program.data(200, "POST", "/v1/commands", new).await? == command,
        "the same key makes one command"
    );
    let other = json!({"host_id": host, "command": "grip", "idempotency_key": "k1"});
    ensure!(program.ask("POST", "/v1/commands", other).await?.status == 409);
    let path = format!("/v1/commands/{}/transition", id_of(&command)?);
    for (state, status) in [
        ("started", 200),
        ("progress", 200),
        ("progress", 200),
        ("started", 409),
        ("flying", 400),
        ("completed", 200),
        ("failed", 409),
    ] {
        let answer = program.ask("POST", &path, json!({ "state": state })).await?;
        ensure!(answer.status == status, "{state}: {answer:?}");
    }
    let lease = json!({"host_id": host, "resource": "arm", "holder_id": "a", "ttl_secs": 600});
    let lease = program.data(201, "POST", "/v1/leases", lease).await?;
    let theirs = json!({"host_id": host, "resource": "arm", "holder_id": "b"});
    let refused = program.ask("POST", "/v1/leases", theirs.clone()).await?;
    ensure!(refused.status == 409 && refused.body.contains("held by"), "{refused:?}");
    let release = format!("/v1/leases/{}/release", id_of(&lease)?);
    let released = program.data(200, "POST", &release, json!({})).await?;
    ensure!(released["released_at"].is_string() && lease["expires_at"].is_string(), "{released}");
    let second = program.data(201, "POST", "/v1/leases", theirs).await?;
    ensure!(program.data(200, "GET", "/v1/leases", NONE).await? == json!([second]));
    // Nothing moves while its environment is stopped.
    let stop = pb::TriggerEstopRequest { environment_id: environment, reason: "smoke".to_owned() };
    SafetyServiceClient::new(stage.clients.channel.clone()).trigger_estop(stop).await?;
    let new = json!({"host_id": host, "command": "home", "idempotency_key": "k2"});
    let refused = program.ask("POST", "/v1/commands", new).await?;
    ensure!(refused.status == 409 && refused.body.contains("emergency stop"), "{refused:?}");
    stage.close().await
}

#[tokio::test]
async fn a_trigger_starts_its_task_at_its_time_and_when_it_is_fired() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let admin = key(&stage, "setup", "Admin").await?;
    let program = Program { to, key: &admin };
    let environment = environment(&stage).await?;
    let prompt = script(Agent::Scripted, "patrol", &json!([{"text": "all quiet"}]));
    let trigger = |kind: &str, config: Value| json!({"name": kind, "trigger_type": kind, "config": config, "task_prompt": prompt, "environment_id": environment});
    let manual = program.data(201, "POST", "/v1/triggers", trigger("manual", json!({}))).await?;
    let path = format!("/v1/triggers/{}", id_of(&manual)?);
    let fired = program.data(201, "POST", &format!("{path}/fire"), json!({})).await?;
    status_of(&program, &fired, "succeeded").await?;
    ensure!(program.data(200, "GET", &path, NONE).await?["last_task_id"] == fired["id"]);
    program.data(200, "POST", &format!("{path}/toggle"), json!({"enabled": false})).await?;
    ensure!(program.ask("POST", &format!("{path}/fire"), json!({})).await?.status == 409);

    let timed =
        program.data(201, "POST", "/v1/triggers", trigger("schedule", json!({"every_secs": 1}))).await?;
    let path = format!("/v1/triggers/{}", id_of(&timed)?);
    let first = fired_after(&program, &path, &NONE).await?;
    let second = fired_after(&program, &path, &first).await?;
    ensure!(first != second);
    status_of(&program, &json!({ "id": second }), "succeeded").await?;
    for (body, what) in [
        (trigger("mqtt", json!({})), "trigger_type: mqtt is not served"),
        (trigger("dream", json!({})), "trigger_type: "),
        (trigger("schedule", json!({})), "config: "),
        (trigger("schedule", json!({"cron": "every day"})), "config.cron: "),
        (trigger("schedule", json!({"cron": "* * * * *", "timezone": "UTC"})), "timezone"),
        (trigger("manual", json!({"a": 1})), "config: "),
    ] {
        let answer = program.ask("POST", "/v1/triggers", body).await?;
        ensure!(answer.status == 400 && answer.body.contains(what), "{what}: {answer:?}");
    }
    program.data(204, "DELETE", &path, NONE).await?;
    stage.close().await
}

/// Waits until a trigger has started another task than this one; returns its id.
async fn fired_after(program: &Program<'_>, path: &str, last: &Value) -> Result<Value> {
    within("the task of a trigger", async {
        loop {
            let task = program.data(200, "GET", path, NONE).await?["last_task_id"].clone();
            if !task.is_null() && task != *last {
                return anyhow::Ok(task);
            }
        }
    })
    .await?
}

#[tokio::test]
async fn a_device_gets_its_key_when_its_user_types_the_code() -> Result<()> {
    let stage = stage!(Agent::Scripted);
    let to = *stage.daemon.listen().first().context("the daemon listens on no port")?;
    let admin = key(&stage, "setup", "Admin").await?;
    let less = key(&stage, "less", "WriteTasks").await?;
    let begun = http::send(to, "POST", "/v1/auth/device/code", Some("{}")).await?.json()?;
    let poll = json!({"device_code": begun["device_code"]}).to_string();
    let pending = http::send(to, "POST", "/v1/auth/device/token", Some(&poll)).await?;
    ensure!(pending.status == 400 && pending.json()?["error"] == "authorization_pending", "{pending:?}");
    let typed = json!({"user_code": begun["user_code"]});
    let complete = "/v1/auth/device/complete";
    ensure!(Program { to, key: &less }.ask("POST", complete, typed.clone()).await?.status == 403);
    let completed = Program { to, key: &admin }.ask("POST", complete, typed.clone()).await?;
    ensure!(completed.status == 200, "{completed:?}");
    ensure!(Program { to, key: &admin }.ask("POST", complete, typed).await?.status == 400, "once");
    let given = http::send(to, "POST", "/v1/auth/device/token", Some(&poll)).await?.json()?;
    ensure!(given["token_type"] == "bearer", "{given}");
    let token = given["access_token"].as_str().context("no token")?;
    let device = Program { to, key: token };
    ensure!(device.ask("GET", "/v1/tasks", NONE).await?.status == 200);
    ensure!(device.ask("GET", "/v1/auth/keys", NONE).await?.status == 403);
    let again = http::send(to, "POST", "/v1/auth/device/token", Some(&poll)).await?;
    ensure!(again.json()?["error"] == "invalid_grant", "{again:?}");
    stage.close().await
}
