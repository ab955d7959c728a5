//! A daemon that listens with TLS, and curl as a client on another machine.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::world::World;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::stage::{Agent, Stage};

pub(super) const LIST: &str = "obey.local.v1.LocalDaemonService/ListSessions";
pub(super) const CREATE: &str = "obey.local.v1.LocalDaemonService/CreateSession";
pub(super) const SEND: &str = "obey.local.v1.LocalDaemonService/SendMessage";
pub(super) const ANSWER: &str = "obey.v1.RequestService/AnswerPermission";
pub(super) const FOLLOW: &str = "obey.v1.EventService/ReadEvents";
pub(super) const DEVICES: &str = "obey.v1.DeviceService/ListDevices";

/// Writes an authority, and a certificate and key of the daemon that it vouches for, into a folder.
fn authority(folder: &Path) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::create_dir_all(folder)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "an authority");
    std::fs::write(folder.join("ca.pem"), params.self_signed(&key)?.pem())?;
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned(), "daemon.test".to_owned()])?;
    std::fs::write(folder.join("daemon.pem"), params.signed_by(&key, &issuer)?.pem())?;
    let mut file = std::fs::OpenOptions::new();
    let mut file = file.write(true).create_new(true).mode(0o600).open(folder.join("daemon.key"))?;
    Ok(std::io::Write::write_all(&mut file, key.serialize_pem().as_bytes())?)
}

/// Has the daemon listen with TLS on a free port.
pub(crate) fn with_tls(world: &World) -> Result<()> {
    let folder = world.path("tls");
    authority(&folder)?;
    world.set_env("OBEY_LISTEN", "tls://127.0.0.1:0");
    world.set_env("OBEY_TLS_CERT", folder.join("daemon.pem"));
    world.set_env("OBEY_TLS_KEY", folder.join("daemon.key"));
    authority(&world.path("other"))
}

pub(super) async fn stage() -> Result<Stage> {
    Stage::open_with(Agent::Scripted, with_tls).await?.context("the scripted agent is part of the daemon")
}

/// Where the daemon listens with TLS.
pub(super) async fn address(stage: &Stage) -> Result<String> {
    let status = stage.cli().json(&["status"]).await?;
    let listens = status["listen"].as_array().context("no addresses")?;
    let mut found = listens.iter().rev().filter_map(|one| one.as_str()?.strip_prefix("tls://"));
    Ok(found.next().with_context(|| format!("{status}"))?.to_owned())
}

/// Adds a device and returns its token.
pub(super) async fn add(stage: &Stage, name: &str, role: &str) -> Result<String> {
    let added = stage.cli().json(&["device", "add", name, "--role", role]).await?;
    Ok(added["token"].as_str().with_context(|| format!("{added}"))?.to_owned())
}

/// The file of an authority or a certificate.
pub(super) fn file(stage: &Stage, folder: &str, name: &str) -> String {
    stage.world.path(folder).join(name).display().to_string()
}

/// A call of gRPC-Web by curl.
pub(super) fn curl(
    stage: &Stage,
    url: &str,
    message: &impl Message,
    token: &str,
    more: &[&str],
) -> Result<std::process::Command> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let message = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
    frame.extend_from_slice(&message);
    let file: PathBuf = stage.world.path(&format!("frame{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::write(&file, frame)?;
    let mut command = stage.world.command("curl");
    command.args(["-sSN", "-i", "--noproxy", "*", "--max-time", "60"]);
    command.args(["-H", "content-type: application/grpc-web+proto"]);
    if !token.is_empty() {
        command.args(["-H", &format!("authorization: Bearer {token}")]);
    }
    command.arg("--data-binary").arg(format!("@{}", file.display()));
    command.args(more).arg(url);
    Ok(command)
}

/// Calls a method over TLS, trusting the daemon's authority; returns headers and body.
pub(super) async fn call(
    stage: &Stage,
    method: &str,
    message: &impl Message,
    token: &str,
    more: &[&str],
) -> Result<String> {
    let ca = file(stage, "tls", "ca.pem");
    let more: Vec<&str> = ["--cacert", &ca].into_iter().chain(more.iter().copied()).collect();
    let url = format!("https://{}/{method}", address(stage).await?);
    let command = curl(stage, &url, message, token, &more)?;
    let output = tokio::process::Command::from(command).output().await?;
    ensure!(output.status.success(), "{method}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn is_ok(answer: &str) -> bool {
    // The trailers are the end of the body.
    answer.contains("grpc-status:0")
}

pub(super) fn is_refused(answer: &str) -> bool {
    answer.contains("OBEY-1002") && answer.contains("grpc-status: 7")
}

/// Whether nobody was found behind a call: 401, UNAUTHENTICATED, and the code.
pub(super) fn is_unknown(answer: &str) -> bool {
    let is_401 = answer.lines().next().is_some_and(|line| line.contains("401"));
    is_401 && answer.contains("grpc-status: 16") && answer.contains("OBEY-1002")
}
