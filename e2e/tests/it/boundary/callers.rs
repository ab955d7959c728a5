//! Who is behind a call: told when the connection is made, never guessed upward.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::poll;
use e2e::tools;
use e2e::world::World;

use super::{hostile_session, hostile_stage, obey, run_as_agent};

/// A user of this machine that is neither root nor ours.
const NOBODY: &str = "65534";

/// Whether another user can be played here; says so where not.
fn can_be_somebody_else() -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        println!("SKIPPED: being another user needs root");
    }
    can
}

/// Runs curl as another user against the daemon's port; returns the status and the body.
async fn curl_as_nobody(world: &World, words: &[&str]) -> Result<(u32, String)> {
    let mut command = world.command("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "curl"]);
    command
        .args(["--silent", "--noproxy", "*", "--max-time", "20", "--write-out", "\n%{http_code}"])
        .args(words);
    command.stdin(Stdio::null()).current_dir("/");
    let output = tokio::process::Command::from(command).output().await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').with_context(|| format!("{output:?}"))?;
    Ok((status.parse()?, body.to_owned()))
}

/// Asks, with the token, for what the token gives and for what only the user may do.
async fn with_the_token(configured: Option<&str>) -> Result<Option<(u32, u32, String)>> {
    if !can_be_somebody_else() {
        return Ok(None);
    }
    let world = World::new()?;
    if let Some(users) = configured {
        world.set_env("OBEY_ACCESS_TOKEN_USERS", users);
    }
    let mut daemon = Daemon::start(&world).await?;
    let address = daemon.listen().first().context("no port")?.to_string();
    let token = std::fs::read_to_string(world.socket().with_file_name("token"))?;
    let bearer = format!("authorization: Bearer {}", token.trim());
    let (health, _) = curl_as_nobody(&world, &["-H", &bearer, &format!("http://{address}/health")]).await?;
    let body = format!(r#"{{"project_path":"{}"}}"#, world.project().display());
    let start = format!("http://{address}/api/v1/session/start");
    let json = "content-type: application/json";
    let (started, said) =
        curl_as_nobody(&world, &["-H", &bearer, "-H", json, "--data", &body, &start]).await?;
    daemon.terminate().await?;
    Ok(Some((health, started, said)))
}

#[tokio::test]
async fn another_user_with_the_token_is_not_the_user() -> Result<()> {
    let Some((health, started, said)) = with_the_token(None).await? else { return Ok(()) };
    ensure!(health == 200, "the token gives health: {health}");
    ensure!(started == 403 && said.contains("OBEY-1002"), "{started} {said}");
    Ok(())
}

#[tokio::test]
async fn another_user_with_the_token_is_the_user_where_configured() -> Result<()> {
    let Some((health, started, said)) = with_the_token(Some("nobody")).await? else { return Ok(()) };
    ensure!((health, started) == (200, 200), "{health} {started} {said}");
    Ok(())
}

/// Whatever an agent's processes do with their parents, they stay the agent's.
#[tokio::test]
async fn a_process_that_an_agent_lets_go_of_is_still_the_agents() -> Result<()> {
    let stage = hostile_stage().await?;
    let session = hostile_session(&stage, "autonomous").await?;
    let obey = obey(&stage)?;
    for way in [
        "setsid sh -c \"$CMD\"",
        "sh -c \"(setsid sh -c '$CMD' >out.txt 2>&1 &)\"; while ! grep -q exit out.txt; do :; done; cat out.txt",
        "unshare --pid --fork --mount-proc sh -c \"$CMD\" || sh -c \"$CMD\"",
        "env -i PATH=$PATH sh -c \"$CMD\"",
        "nohup sh -c \"$CMD\" </dev/null 2>&1 | cat",
    ] {
        let command = format!("CMD='{obey} session list 2>&1; echo exit $?'; rm -f out.txt; {way}");
        let said = run_as_agent(&stage, &session, &command).await?;
        ensure!(said.contains("OBEY-1002") && said.contains("exit 6"), "{way}: {said}");
    }
    stage.close().await
}

/// A command that the user has run in a project is the project's code, not the user's voice.
#[tokio::test]
async fn an_executed_command_does_not_speak_for_the_user() -> Result<()> {
    let world = World::new()?;
    let folder = world.path("tools");
    std::fs::create_dir(&folder)?;
    let program = folder.join("tool");
    let obey = world.obey()?;
    let script = format!(
        "#!/bin/sh\nexec {} --socket {} --no-autostart session list 2>&1\n",
        obey.display(),
        world.socket().display()
    );
    std::fs::write(&program, script)?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    world.prepend_path(&folder)?;
    world.set_env("OBEY_EXECUTE_ALLOW", "tool");
    let mut daemon = Daemon::start(&world).await?;
    let cli = Cli::new(&world);
    let project = world.project().display().to_string();
    cli.ok(&["campaign", "add", &project, "--name", "here"]).await?;
    cli.ok(&["session", "list"]).await?;
    let ran = cli.run(&["exec", "-c", "here", "--", "tool"]).await?;
    ensure!(ran.stdout.contains("OBEY-1002"), "{ran:?}");
    daemon.terminate().await?;
    Ok(())
}

/// An agent whose user has subordinate ids (`/etc/subuid`) can be another user of the machine. The test writes the maps that
/// `newuidmap` writes for it.
#[tokio::test]
async fn an_agent_with_a_subordinate_uid_and_the_token_is_refused() -> Result<()> {
    let Some(world) = World::of_user(61_237)? else { return Ok(()) };
    let agent =
        format!("hostile=python3 {}", tools::repository().join("e2e/tests/acp/shell_agent.py").display());
    world.set_env("OBEY_ACP_AGENTS", agent);
    let mut daemon = Daemon::start(&world).await?;
    let address = daemon.listen().first().context("no port")?.to_string();
    let cli = Cli::new(&world);
    cli.ok(&["campaign", "add", &world.project().display().to_string(), "--name", "demo"]).await?;
    let words = [
        "session",
        "create",
        "-c",
        "demo",
        "-p",
        "acp",
        "--config",
        r#"{"agent":"hostile"}"#,
        "--mode",
        "autonomous",
    ];
    let created = cli.json(&words).await?;
    let session = created["id"].as_str().context("no id")?.to_owned();
    let shared = tempfile::tempdir()?;
    std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o777))?;
    let (folder, token) = (shared.path().display(), world.socket().with_file_name("token"));
    let call = format!(
        "curl --silent --noproxy '*' --max-time 20 -w ' %{{http_code}}' -H \"authorization: Bearer $(cat {folder}/token)\" \
         -H 'content-type: application/json' --data '{{\"project_path\":\"{}\"}}' http://{address}/api/v1/session/start",
        world.project().display()
    );
    let script = format!(
        "cp {} {folder}/token && chmod 644 {folder}/token && unshare --user sh -c 'echo $$ > {folder}/pid.new && \
         mv {folder}/pid.new {folder}/pid; while ! [ -e {folder}/mapped ]; do sleep 0.05; done; \
         exec setpriv --reuid 1 --regid 1 --clear-groups sh {folder}/call'",
        token.display()
    );
    std::fs::write(shared.path().join("call"), format!("id -u; cat /proc/self/uid_map; {call}"))?;
    let maps = async {
        let pid = poll("the process waits for its maps", || {
            std::fs::read_to_string(shared.path().join("pid")).ok()
        })
        .await?;
        for map in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{}/{map}", pid.trim()), "0 61237 1\n1 700000 65536\n")?;
        }
        anyhow::Ok(std::fs::write(shared.path().join("mapped"), "")?)
    };
    let send = ["session", "send", &session, &script];
    let (said, mapped) = tokio::join!(cli.ok(&send), maps);
    mapped?;
    let said = said?.stdout;
    ensure!(said.contains("700000"), "it is another user: {said}");
    ensure!(said.contains("OBEY-1002") && said.contains("403"), "{said}");
    cli.run(&["session", "stop", &session]).await?;
    daemon.terminate().await?;
    Ok(())
}
