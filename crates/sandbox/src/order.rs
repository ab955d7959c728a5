//! What the daemon tells the keeper and the stage, and what the stage tells back: a plan when a sandbox is to be made, an
//! order when there is a command for it, then lines. Both sides are the same binary, so that the form may change with it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::agent::CopiedFile;
use super::{Limits, Network, Tier};

/// What is known of a sandbox before its command is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) tier: Tier,
    pub(crate) network: Network,
    pub(crate) limits: Limits,
    /// The project, where it can be put in before there is a command: in a root that is built up.
    pub(crate) root: Option<OsString>,
    /// Folders outside the root that the command may read, or read and write.
    pub(crate) read_only: Vec<OsString>,
    pub(crate) writable: Vec<OsString>,
    /// The system's configuration of git.
    pub(crate) git_config: String,
    /// Control groups to join: their files of members.
    pub(crate) cgroups: Vec<OsString>,
    /// What the root of an agent is made of; none for a command.
    #[serde(default)]
    pub(crate) agent: Option<AgentRoot>,
}

impl Plan {
    /// Whether the machine's network is seen.
    pub(crate) fn shares_network(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| agent.shares_network)
    }
}

/// What the root of an agent has beside the system's programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AgentRoot {
    pub(crate) home: OsString,
    /// Empty folders, in memory; parents first.
    pub(crate) private: Vec<OsString>,
    /// What is seen of the machine: from where, where, and whether it can be written; parents first.
    pub(crate) mounts: Vec<(OsString, OsString, bool)>,
    /// What may be written, of both.
    pub(crate) writable: Vec<OsString>,
    /// Files that are seen as they were at the start.
    pub(crate) copies: Vec<CopiedFile>,
    /// Folders, and names in them that stay as they are. Something stands at each.
    pub(crate) protected: Vec<(OsString, Vec<OsString>)>,
    /// Sockets of programs outside that are covered.
    pub(crate) sockets: Vec<OsString>,
    /// Instead of the machine's table of hosts.
    pub(crate) hosts: Option<String>,
    pub(crate) shares_network: bool,
}

/// What one command is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) action: StageAction,
    /// The project's root, an absolute path without links.
    pub(crate) root: OsString,
    /// Where the command starts, beneath the root.
    pub(crate) cwd: OsString,
    /// The complete environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Names in the root that stay as they are, or stay away.
    pub(crate) protected: Vec<OsString>,
    /// Folders outside the root, and names in them that stay as they are.
    pub(crate) protected_outside: Vec<(OsString, Vec<OsString>)>,
    /// A repository that the command makes in the root is freed of what makes git run code.
    pub(crate) new_repository: bool,
    /// What makes the root itself a repository is removed: there was no `HEAD` in it.
    pub(crate) has_no_head: bool,
    /// A folder for temporary files; without namespaces only.
    pub(crate) scratch: Option<OsString>,
}

/// What the stage does when it has locked itself in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StageAction {
    Run(Vec<OsString>),
    /// Tries to get out and prints how each attempt ended.
    Probe(Canary),
}

/// Things outside that a probe tries to reach.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Canary {
    pub(crate) file: OsString,
    pub(crate) socket: OsString,
    pub(crate) port: u16,
    pub(crate) pid: i32,
}

/// What the stage reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The sandbox could not be built; nothing ran.
    Unbuilt { step: String, errno: i32 },
    /// The sandbox stands, the program cannot be run in it.
    Unstarted { errno: i32 },
    /// The command ended by itself. Always the last.
    Exited { code: i32, signal: i32 },
    /// Everything was killed because a protected file may have been changed: which, and how. Always the last.
    Unprotected { path: PathBuf, why: String },
    /// Everything was killed because its time was up. Always the last.
    Expired,
    /// Everything was killed because the daemon asked for it or went away. Always the last.
    Killed,
}

/// The byte that brings the daemon a handle to the stage; comes before any report.
pub(crate) const HANDLE: [u8; 1] = [0];

/// Longest order read; environments and arguments are bounded by the kernel at 2 MB.
const ORDER_MAX: usize = 8 << 20;

/// Writes an order: its length, then itself.
pub(crate) fn encode(order: &Order) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(order)?;
    let mut message = u32::try_from(body.len()).map_err(io::Error::other)?.to_le_bytes().to_vec();
    message.extend(body);
    Ok(message)
}

/// Reads an order as it was written, to be handed on.
pub(crate) fn receive(mut from: impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let body = u32::from_le_bytes(len) as usize;
    if body > ORDER_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = len.to_vec();
    message.resize(len.len() + body, 0);
    from.read_exact(&mut message[len.len()..])?;
    Ok(message)
}

/// Takes an order out of what was received.
pub(crate) fn decode(message: &[u8]) -> io::Result<Order> {
    let body = message.get(size_of::<u32>()..).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(serde_json::from_slice(body)?)
}

/// Writes a report as one line. Nobody is left to be told if that fails.
pub(crate) fn report(mut to: impl Write, report: &Report) {
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let _ = to.write_all(&line);
    }
}
