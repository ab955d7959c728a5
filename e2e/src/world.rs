//! One test's world: its own home, runtime, data and configuration folders, a project under git, a model server, and
//! the whole environment that daemon, command line and agents get. Nothing of the developer's machine leaks in, and
//! nothing outlives it. Does not start the daemon.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::deadline::poll;
use crate::model_server::ModelServer;
use crate::{processes, tools};

mod agents;

/// Programs that a world must not find by accident on the developer's PATH.
const AGENTS: &[&str] =
    &["claude", "codex", "openclaw", "codex-acp", "claude-agent-acp", "gemini", "goose", "opencode"];

/// One hermetic world. Clones share it; dropping the last one kills every process that belongs to it and removes its
/// folders.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    root: TempDir,
    environment: Mutex<BTreeMap<String, OsString>>,
    /// Instead of the binary under test.
    obey: Mutex<Option<PathBuf>>,
    /// Another user than this test's, whose world it is.
    user: Option<u32>,
    model: Arc<ModelServer>,
}

impl World {
    /// A world without any real agent.
    pub fn new() -> Result<World> {
        World::with_path(None)
    }

    /// A world in which the real `claude` is first on PATH. `None`: it is absent and the test may be skipped.
    pub fn with_claude() -> Result<Option<World>> {
        tools::claude()?.map(|claude| World::with_path(claude.parent())).transpose()
    }

    /// A world in which the real `codex` is first on PATH and configured for this world's model; `None` as for
    /// [`World::with_claude`].
    pub fn with_codex() -> Result<Option<World>> {
        let Some(codex) = tools::codex()? else { return Ok(None) };
        let world = World::with_path(codex.parent())?;
        world.configure_codex("")?;
        world.set_env("OPENAI_API_KEY", "dummy");
        Ok(Some(world))
    }

    /// A world in which the real `codex-acp` is first on PATH and configured for this world's model; `None` as for
    /// [`World::with_claude`].
    pub fn with_codex_acp() -> Result<Option<World>> {
        let (Some(agent), Some(sandbox)) = (tools::codex_acp()?, tools::bwrap()?) else { return Ok(None) };
        let world = World::with_path(agent.parent())?;
        if let Some(folder) = sandbox.parent() {
            world.prepend_path(folder)?;
        }
        world.configure_codex("")?;
        world.set_env("OPENAI_API_KEY", "dummy");
        Ok(Some(world))
    }

    /// A world whose model is an endpoint of the OpenAI API.
    pub fn with_openai() -> Result<World> {
        let world = World::new()?;
        world.set_env("OPENAI_BASE_URL", world.model().openai_base_url());
        world.set_env("OPENAI_API_KEY", "dummy");
        Ok(world)
    }

    /// Writes the Codex configuration of this world, with some lines of the test's own before the first table.
    pub fn configure_codex(&self, lines: &str) -> Result<()> {
        let home = self.path("home/.codex");
        fs::create_dir_all(&home)?;
        let url = self.model().openai_base_url();
        let config = format!(
            r#"model = "gpt-5.5"
model_provider = "scripted"
sandbox_mode = "workspace-write"
{lines}
[model_providers.scripted]
name = "scripted"
base_url = "{url}"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[features]
# They would be looked for on the network.
plugins = false
[analytics]
enabled = false
"#
        );
        Ok(fs::write(home.join("config.toml"), config)?)
    }

    /// A world without any real agent that shares the model of another, such as that of a program which serves both.
    pub fn sharing_model(other: &World) -> Result<World> {
        World::make(None, Arc::clone(&other.0.model))
    }

    /// A world of another user without any real agent: everything in it belongs to that user, and everything started
    /// from it runs as that user. `None`: this test may not start programs as others, or they cannot reach `obey`.
    pub fn of_user(uid: u32) -> Result<Option<World>> {
        World::of_user_with(uid, None)
    }

    /// The same with the real `claude`; `None` also where that is absent.
    pub fn of_user_with_claude(uid: u32) -> Result<Option<World>> {
        let Some(claude) = tools::claude()? else { return Ok(None) };
        World::of_user_with(uid, claude.parent())
    }

    /// The same with the real `codex`.
    pub fn of_user_with_codex(uid: u32) -> Result<Option<World>> {
        let Some(codex) = tools::codex()? else { return Ok(None) };
        let Some(world) = World::of_user_with(uid, codex.parent())? else { return Ok(None) };
        world.configure_codex("")?;
        world.set_env("OPENAI_API_KEY", "dummy");
        world.hand_over()?;
        Ok(Some(world))
    }

    fn of_user_with(uid: u32, agent: Option<&Path>) -> Result<Option<World>> {
        let world = World::make_for(agent, Arc::new(ModelServer::start()?), Some(uid))?;
        match world.command(world.obey()?).arg("version").output() {
            Ok(output) if output.status.success() => Ok(Some(world)),
            other => {
                tools::announce_skip(&format!("obey cannot be run as user {uid}: {other:?}"));
                Ok(None)
            }
        }
    }

    fn with_path(agent: Option<&Path>) -> Result<World> {
        World::make(agent, Arc::new(ModelServer::start()?))
    }

    fn make(agent: Option<&Path>, model: Arc<ModelServer>) -> Result<World> {
        World::make_for(agent, model, None)
    }

    fn make_for(agent: Option<&Path>, model: Arc<ModelServer>, user: Option<u32>) -> Result<World> {
        let (environment, obey) = (Mutex::default(), Mutex::default());
        let inner = Inner { root: short_folder()?, environment, obey, user, model };
        let world = World(Arc::new(inner));
        for folder in ["home", "run", "data", "config", "tmp", "project"] {
            fs::create_dir(world.path(folder))?;
        }
        restrict(&world.path("run"))?;
        *world.locked() = world.base_environment(agent)?;
        if !world.hand_over()? {
            return Ok(world);
        }
        world.init_project()?;
        Ok(world)
    }

    /// A path inside the world.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// The world's own folder; its name marks every process that belongs to the world.
    pub fn root(&self) -> &Path {
        self.0.root.path()
    }

    /// The model every agent of this world talks to.
    pub fn model(&self) -> &ModelServer {
        &self.0.model
    }

    /// The project folder: a git repository with one commit.
    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// Where the daemon's socket must appear.
    pub fn socket(&self) -> PathBuf {
        self.path("run/obey/daemon.sock")
    }

    /// Sets a variable for everything started from now on.
    pub fn set_env(&self, name: &str, value: impl Into<OsString>) {
        self.locked().insert(name.to_owned(), value.into());
    }

    /// Has programs in this folder found first by everything started from now on.
    pub fn prepend_path(&self, folder: &Path) -> Result<()> {
        let path = self.locked().get("PATH").cloned().unwrap_or_default();
        let path = std::env::join_paths([folder.to_owned()].into_iter().chain(std::env::split_paths(&path)))?;
        self.set_env("PATH", path);
        Ok(())
    }

    /// Removes a variable for everything started from now on.
    pub fn remove_env(&self, name: &str) {
        self.locked().remove(name);
    }

    /// The `obey` that is started from now on: the binary under test, unless another one was chosen.
    pub fn obey(&self) -> Result<PathBuf> {
        let chosen = self.0.obey.lock().unwrap_or_else(PoisonError::into_inner).clone();
        chosen.map_or_else(tools::obey, Ok)
    }

    /// Chooses another `obey`, such as an older release.
    pub fn use_obey(&self, binary: impl Into<PathBuf>) {
        *self.0.obey.lock().unwrap_or_else(PoisonError::into_inner) = Some(binary.into());
    }

    /// A command that runs in the project with this world's environment and nothing else.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(self.locked().iter()).current_dir(self.project());
        if let Some(user) = self.0.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Gives everything in the world to its user; false where this test may not.
    pub fn hand_over(&self) -> Result<bool> {
        let Some(user) = self.0.user else { return Ok(true) };
        give(self.root(), user)
    }

    /// Creates an empty file, such as one that a `wait_file` step waits for. Returns its path.
    pub fn touch(&self, name: &str) -> Result<PathBuf> {
        let path = self.path(name);
        fs::write(&path, "").with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }

    /// The live processes of this world.
    pub fn processes(&self) -> Vec<processes::Process> {
        processes::of_world(self.root())
    }

    /// Waits until no process of this world is left; the error lists those that stayed.
    pub async fn assert_no_process_left(&self) -> Result<()> {
        let ended = poll("the end of every process", || self.processes().is_empty().then_some(())).await;
        ended.with_context(|| format!("still there: {:#?}", self.processes()))
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<String, OsString>> {
        self.0.environment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn base_environment(&self, agent: Option<&Path>) -> Result<BTreeMap<String, OsString>> {
        let path = |name: &str| self.path(name).into_os_string();
        let text = |text: &str| OsString::from(text);
        let pairs = [
            ("PATH", search_path(agent)?),
            ("HOME", path("home")),
            ("XDG_RUNTIME_DIR", path("run")),
            ("XDG_DATA_HOME", path("data")),
            ("XDG_CONFIG_HOME", path("config")),
            ("XDG_STATE_HOME", path("data")),
            ("TMPDIR", path("tmp")),
            ("LANG", text("C.UTF-8")),
            ("TZ", text("UTC")),
            ("GIT_CONFIG_NOSYSTEM", text("1")),
            // Only the ports that a test asks for: the default one is the machine's.
            ("OBEY_LISTEN", text("none")),
            ("ANTHROPIC_BASE_URL", self.0.model.base_url().into()),
            ("ANTHROPIC_API_KEY", text("dummy")),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", text("1")),
            ("CLAUDE_CODE_MAX_RETRIES", text("0")),
            ("DISABLE_AUTOUPDATER", text("1")),
            // Lets claude skip permissions as root, as which tests often run in containers.
            ("IS_SANDBOX", text("1")),
        ];
        Ok(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn init_project(&self) -> Result<()> {
        fs::write(self.path("project/README.md"), "A project for tests.\n")?;
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["config", "user.name", "Test"],
            &["config", "user.email", "test@example.invalid"],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "Start"],
        ] {
            let output = self.command("git").args(args).output().context("running git")?;
            ensure!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        processes::kill_world(self.root.path());
    }
}

/// A Unix socket's path has at most 107 bytes, so the world lies directly in /tmp, wherever TMPDIR points.
fn short_folder() -> Result<TempDir> {
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix("obey");
        builder
    };
    builder().tempdir_in("/tmp").or_else(|_| builder().tempdir()).context("making the world's folder")
}

/// Gives a folder and what is in it to a user; false where that is not permitted.
fn give(path: &Path, user: u32) -> Result<bool> {
    match std::os::unix::fs::lchown(path, Some(user), Some(user)) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Ok(false),
        given => given.with_context(|| format!("giving {} to {user}", path.display()))?,
    }
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), user)?;
        }
    }
    Ok(true)
}

fn restrict(folder: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?)
}

/// The developer's PATH without the folders that hold an agent, and with the wanted agent first.
fn search_path(agent: Option<&Path>) -> Result<OsString> {
    let inherited = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let clean =
        std::env::split_paths(&inherited).filter(|dir| !AGENTS.iter().any(|name| dir.join(name).exists()));
    Ok(std::env::join_paths(agent.map(Path::to_owned).into_iter().chain(clean))?)
}

/// A world whose `obey` is a shell script, to test the harness itself.
#[cfg(test)]
pub(crate) fn with_fake_obey(script: &str) -> Result<World> {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new()?;
    let program = world.path("fake-obey");
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    world.use_obey(program);
    Ok(world)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn processes_of_a_world_are_found_wherever_they_hide_and_end_with_it() -> Result<()> {
        let world = World::new()?;
        assert!(world.socket().as_os_str().len() < 100, "too long for a socket: {:?}", world.socket());
        world.assert_no_process_left().await?;
        // A grandchild whose parent is gone, in a session of its own: what agents and shims look like.
        let status =
            world.command("sh").args(["-c", "setsid tail -f /dev/null >/dev/null 2>&1 &"]).status()?;
        assert!(status.success());
        let found = poll("the grandchild", || {
            world.processes().into_iter().find(|process| process.command.starts_with("tail"))
        })
        .await?;
        let root = world.root().to_owned();
        drop(world);
        assert!(!root.exists());
        assert!(!processes::alive(found.pid), "{found:?} outlived its world");
        Ok(())
    }
}
