//! The files of the service: two units for systemd, a property list for launchd. Defines their content and
//! location; pure apart from reading existing files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::manager::LABEL;
use cli_args::ServiceManager;
use config::failure::{Failure, Result};
use terminal::console::Console;

/// This line identifies our own files; it is the same in every version.
const MARKER: &str = "Written by `obey service install`; `obey service uninstall` removes it.";

/// Variables for the locations of the daemon's files and of its agents' programs. A service manager does not
/// know what a shell's profile sets.
const KEPT: [&str; 6] =
    ["PATH", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "OBEY_CONFIG", "OBEY_DATA_DIR"];

/// What the files depend on.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// Absolute.
    pub(super) program: PathBuf,
    /// The socket, if it is not the default one.
    pub(super) socket: Option<PathBuf>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) home: PathBuf,
    pub(super) config_home: PathBuf,
    pub(super) log: PathBuf,
}

/// A file of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The existing file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileState {
    Missing,
    /// Ours, identical.
    Same,
    /// Ours, from another version or of another program.
    Different,
    /// Not written by us.
    Foreign,
}

impl Service {
    /// Returns the service of the calling user.
    pub(super) fn of(console: &Console) -> Result<Self> {
        let home = console.paths.home.clone().ok_or_else(|| {
            Failure::failed("HOME is not set").with_hint("a service belongs to a user with a home folder")
        })?;
        let socket = console.socket()?;
        let kept = |name: &&str| Some(((*name).to_owned(), console.vars.get(name)?.to_str()?.to_owned()));
        let mut variables: Vec<(String, String)> = KEPT.iter().filter_map(kept).collect();
        for (name, value) in &mut variables {
            if name != "PATH" {
                *value = console.folder.join(&*value).to_string_lossy().into_owned();
            }
        }
        Ok(Self {
            program: console.program.clone(),
            socket: (socket != console.paths.socket).then_some(socket),
            variables,
            config_home: console.vars.folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            log: console.paths.log_file(),
            home,
        })
    }

    /// Returns the files of a manager.
    pub(super) fn files(&self, manager: ServiceManager) -> Vec<ServiceFile> {
        match manager {
            ServiceManager::Systemd => {
                let folder = self.config_home.join("systemd/user");
                vec![
                    ServiceFile { path: folder.join("obey.service"), text: self.unit() },
                    ServiceFile { path: folder.join("obey.socket"), text: self.socket_unit() },
                ]
            }
            ServiceManager::Launchd => {
                let folder = self.home.join("Library/LaunchAgents");
                vec![ServiceFile { path: folder.join(format!("{LABEL}.plist")), text: self.property_list() }]
            }
        }
    }

    /// Returns systemd's service unit.
    fn unit(&self) -> String {
        let variables: String = self
            .variables
            .iter()
            .map(|(name, value)| format!("Environment={}\n", quoted(&format!("{name}={value}"))))
            .collect();
        format!(
            "# {MARKER}
[Unit]
Description=obey, the daemon that runs coding agents
Requires=obey.socket
After=obey.socket

[Service]
Type=notify
ExecStart={program} serve --socket {socket}
{variables}# Agents outlive the daemon: an end or an exchange of it, and an agent without memory, end nothing else.
KillMode=process
OOMPolicy=continue
# Each agent gets a control group of its own, beside the daemon's.
Delegate=yes
DelegateSubgroup=obey-daemon
TimeoutStopSec=20
Restart=on-failure
RestartSec=1

[Install]
WantedBy=default.target
Also=obey.socket
",
            program = quoted(&self.program.to_string_lossy()),
            socket = self.socket_name(),
        )
    }

    /// The manager listens, so that clients wait while the daemon is replaced, and the first client starts
    /// it.
    fn socket_unit(&self) -> String {
        // Not quoted: the whole rest of the line is the path.
        let path = match &self.socket {
            Some(path) => path.to_string_lossy().replace('%', "%%"),
            None => USUAL_SOCKET.to_owned(),
        };
        format!(
            "# {MARKER}
[Unit]
Description=The socket of the obey daemon

[Socket]
ListenStream={path}
SocketMode=0600
DirectoryMode=0700

[Install]
WantedBy=sockets.target
"
        )
    }

    fn socket_name(&self) -> String {
        self.socket.as_ref().map_or_else(|| USUAL_SOCKET.to_owned(), |path| quoted(&path.to_string_lossy()))
    }

    /// Returns launchd's property list.
    fn property_list(&self) -> String {
        let mut arguments = vec![self.program.to_string_lossy().into_owned(), "serve".to_owned()];
        if let Some(socket) = &self.socket {
            arguments.extend(["--socket".to_owned(), socket.to_string_lossy().into_owned()]);
        }
        let arguments: String =
            arguments.iter().map(|word| format!("        <string>{}</string>\n", escaped(word))).collect();
        let pair = |(name, value): &(String, String)| {
            format!("        <key>{}</key>\n        <string>{}</string>\n", escaped(name), escaped(value))
        };
        let variables: String = self.variables.iter().map(pair).collect();
        let log = escaped(&self.log.to_string_lossy());
        format!(
            r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- {MARKER} -->
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
    <key>Label</key>
    <string>{LABEL}</string>
    <key>ProgramArguments</key>
    <array>
{arguments}    </array>
    <key>EnvironmentVariables</key>
    <dict>
{variables}    </dict>
    <key>RunAtLoad</key>
    <true/>
    <!-- Started again after a crash, not after `obey stop`. -->
    <key>KeepAlive</key>
    <dict>
        <key>SuccessfulExit</key>
        <false/>
    </dict>
    <!-- Agents outlive the daemon. -->
    <key>AbandonProcessGroup</key>
    <true/>
    <key>ProcessType</key>
    <string>Interactive</string>
    <key>StandardOutPath</key>
    <string>{log}</string>
    <key>StandardErrorPath</key>
    <string>{log}</string>
</dict>
</plist>
"#
        )
    }
}

/// The default socket; the manager inserts the runtime folder.
const USUAL_SOCKET: &str = "%t/obey/daemon.sock";

impl ServiceFile {
    /// Checks the existing file.
    pub(super) fn found(&self) -> Result<FileState> {
        match fs::read_to_string(&self.path) {
            Ok(text) if text == self.text => Ok(FileState::Same),
            Ok(text) if is_ours(&text) => Ok(FileState::Different),
            Ok(_) => Ok(FileState::Foreign),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileState::Missing),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(FileState::Foreign),
            Err(error) => Err(Failure::failed(format!("cannot read {}: {error}", self.path.display()))),
        }
    }

    /// Writes the file in one step.
    pub(super) fn write(&self) -> Result<()> {
        let failed =
            |error: io::Error| Failure::failed(format!("cannot write {}: {error}", self.path.display()));
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(failed)?;
        let draft = self.path.with_extension("new");
        fs::write(&draft, &self.text).and_then(|()| fs::rename(&draft, &self.path)).map_err(failed)
    }
}

/// The marker is at the top, so that a file that only quotes it is not taken for ours.
fn is_ours(text: &str) -> bool {
    const TOP_LINES: usize = 3;
    text.lines().take(TOP_LINES).any(|line| line.contains(MARKER))
}

/// Quotes a word for a unit file.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// Escapes a text for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
