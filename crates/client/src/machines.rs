//! The machines that this device is paired with: where each is reached, and the key that this device has for it. One private
//! file per machine, in the data folder, which the sandbox hides from agents.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use serde::{Deserialize, Serialize};
use tonic::transport::Channel;
use tunnel::pinned::{self, NextPin, TlsIdentity};
use tunnel::ticket::PairingLine;
use tunnel::{dial, keys, pairing, pipe, renewal};

use crate::limits;
use config::failure::{Failure, Result, THROUGH_RELAY};
use config::paths::{self, Paths};

/// The name of this machine among the others.
pub const THIS_MACHINE: &str = "this";

const FOLDER: &str = "machines";
const CURRENT_FILE: &str = "current";

/// A machine that this device is paired with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownMachine {
    pub name: String,
    pub machine_id: String,
    pub relay: String,
    relay_pin: String,
    /// Lets this device reach the machine through the relay.
    pub token: String,
    machine_pin: String,
    pub role: String,
    pub device_id: String,
    certificate_pem: String,
    key_pem: String,
    /// When the certificate must have been renewed; unknown where it was made before there was an end to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
    /// Where it is kept.
    #[serde(skip)]
    file: PathBuf,
}

impl KnownMachine {
    /// Returns its relay, which is connected when it is used.
    pub fn relay(&self) -> Result<MachineRelay> {
        let next = NextPin::default();
        let channel = dial::connect_lazily(&self.relay, &self.relay_pin, &next).map_err(failure)?;
        Ok(MachineRelay { channel, next })
    }

    /// Opens a sealed connection to its daemon. A certificate that ends soon, or has ended, is renewed first.
    pub async fn connect(&self, relay: &MachineRelay, protocols: &[&[u8]]) -> io::Result<pipe::SealedStream> {
        let fresh = match self.is_due(clock::now()) {
            true => Some(self.renewed(relay).await?),
            false => None,
        };
        let current = fresh.as_ref().unwrap_or(self);
        let io = current.open(relay).await?;
        current.follow(relay);
        let config = pinned::client_config(&current.machine_pin, Some(&current.identity()), protocols)
            .map_err(|error| io::Error::other(error.message))?;
        pipe::seal(io, config).await
    }

    fn identity(&self) -> TlsIdentity {
        TlsIdentity { certificate_pem: self.certificate_pem.clone(), key_pem: self.key_pem.clone() }
    }

    async fn open(&self, relay: &MachineRelay) -> io::Result<tokio::io::DuplexStream> {
        let opening = pipe::open(relay.channel.clone(), &self.token, &self.machine_id);
        opening.await.map_err(|status| {
            io::Error::other(format!(
                "machine {} cannot be reached {THROUGH_RELAY} {}: {} ({})",
                self.name,
                self.relay,
                status.message(),
                tunnel::grpc::name(status.code())
            ))
        })
    }

    /// Whether the certificate must be renewed now.
    fn is_due(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| end.since(now) < limits::RENEW_BEFORE)
    }

    /// Returns this machine with a certificate that is not due: the one that another process has got, or a new one.
    async fn renewed(&self, relay: &MachineRelay) -> io::Result<KnownMachine> {
        let now = clock::now();
        let kept = load(&self.file).ok().filter(|kept| kept.machine_id == self.machine_id);
        let kept = kept.unwrap_or_else(|| self.clone());
        if !kept.is_due(now) {
            return Ok(kept);
        }
        let io = self.open(relay).await?;
        match renewal::renew(io, &kept.machine_pin, &kept.identity()).await {
            Ok(renewed) => {
                let TlsIdentity { certificate_pem, key_pem } = renewed.identity;
                let expires_at = renewed.expires_at.map(from_wire);
                let next = KnownMachine { certificate_pem, key_pem, expires_at, ..kept };
                write(&next).map_err(|failure| io::Error::other(failure.message))?;
                Ok(next)
            }
            // A machine that knows no renewal, or cannot renew just now, may still take the certificate.
            Err(_) if kept.expires_at.is_none_or(|end| end > now) => Ok(kept),
            Err(error) => Err(io::Error::other(error.message)),
        }
    }

    /// Expects the relay's next authority from now on, if there was word of one.
    fn follow(&self, relay: &MachineRelay) {
        let Some(next) = relay.next.get() else { return };
        if let Ok(kept) = load(&self.file)
            && kept.relay_pin != next
        {
            // What cannot be kept is told again by the next connection.
            let _ = write(&KnownMachine { relay_pin: next.to_owned(), ..kept });
        }
    }
}

/// The relay of a machine.
#[derive(Clone)]
pub struct MachineRelay {
    pub channel: Channel,
    next: NextPin,
}

/// Pairs this device with a machine, and keeps what it needs to reach it.
pub async fn join(machines: &KnownMachines, line: &str, name: &str) -> Result<KnownMachine> {
    let line = PairingLine::parse(line).map_err(failure)?;
    let relay = dial::connect(&line.url, &line.relay_pin, None).await.map_err(failure)?;
    let io = pipe::open(relay, &line.token, &line.machine).await?;
    let host = keys::host_id(&host::machine::system_id());
    let paired = pairing::pair(io, &line, name, &host).await.map_err(failure)?;
    let machine = KnownMachine {
        name: paired.machine_name,
        machine_id: line.machine,
        relay: line.url,
        relay_pin: line.relay_pin,
        token: line.token,
        machine_pin: line.machine_pin,
        role: paired.role,
        device_id: paired.device_id,
        certificate_pem: paired.identity.certificate_pem,
        key_pem: paired.identity.key_pem,
        expires_at: paired.expires_at.map(from_wire),
        file: PathBuf::new(),
    };
    machines.save(&machine)?;
    Ok(machine)
}

/// The machines in a folder.
pub struct KnownMachines {
    folder: PathBuf,
}

impl KnownMachines {
    pub fn in_folder(paths: &Paths) -> Self {
        Self { folder: paths.data_dir.join(FOLDER) }
    }

    /// Returns them by name.
    pub fn list(&self) -> Result<Vec<KnownMachine>> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&self.folder, &error)),
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                found.push(load(&path)?);
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// Returns the machine with this name or id.
    pub fn find(&self, named: &str, relay: Option<&str>) -> Result<KnownMachine> {
        refuse_agents(host::process_tree::is_inside_agent())?;
        let is_named = |one: &KnownMachine| one.name == named || one.machine_id == named;
        let all: Vec<KnownMachine> = self.list()?.into_iter().filter(is_named).collect();
        let relay = relay.map(|relay| relay.trim_end_matches('/'));
        let of_relay = |one: &&KnownMachine| relay.is_none_or(|relay| relay == one.relay);
        let mut found = all.iter().filter(of_relay).cloned();
        match (found.next(), found.next()) {
            (Some(machine), None) => Ok(machine),
            // Another relay of the same cluster: it must have the same key, or it is refused.
            (None, _) if all.len() == 1 && relay.is_some() => {
                let relay = relay.unwrap_or_default().to_owned();
                all.into_iter().map(|one| KnownMachine { relay: relay.clone(), ..one }).next().ok_or_else(
                    || Failure::coded(ErrorCode::MachineNotFound, format!("there is no machine {named:?}")),
                )
            }
            (None, _) => {
                let message = format!("this device is not paired with a machine {named:?}");
                let hint = "list them: obey machine list; pair with one: obey device add there, obey device join here";
                Err(Failure::coded(ErrorCode::MachineNotFound, message).with_hint(hint))
            }
            (Some(_), Some(_)) => Err(Failure::usage(format!(
                "several machines are called {named:?}; say which one with --relay URL, or by its id"
            ))),
        }
    }

    fn save(&self, machine: &KnownMachine) -> Result<()> {
        paths::make_private(&self.folder)?;
        write(&KnownMachine { file: self.file(machine), ..machine.clone() })
    }

    /// Forgets a machine.
    pub fn remove(&self, machine: &KnownMachine) -> Result<()> {
        let path = self.file(machine);
        fs::remove_file(&path).map_err(|error| unreadable(&path, &error))?;
        if self.current()?.is_some_and(|current| current == machine.name) {
            self.switch(THIS_MACHINE)?;
        }
        Ok(())
    }

    fn file(&self, machine: &KnownMachine) -> PathBuf {
        // Ids are the relay's; only what cannot leave the folder is used of them.
        let id: String =
            machine.machine_id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        self.folder.join(format!("{id}.json"))
    }

    /// Returns the machine that commands go to; none: this one.
    pub fn current(&self) -> Result<Option<String>> {
        match read(&self.folder.join(CURRENT_FILE)) {
            Ok(name) => Ok(Some(name.trim().to_owned()).filter(|name| !name.is_empty())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(&self.folder.join(CURRENT_FILE), &error)),
        }
    }

    /// Sends later commands to a machine.
    pub fn switch(&self, name: &str) -> Result<()> {
        paths::make_private(&self.folder)?;
        let path = self.folder.join(CURRENT_FILE);
        let text = if name == THIS_MACHINE { "" } else { name };
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(paths::PRIVATE_FILE).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| unreadable(&path, &error))
    }
}

/// Refuses an agent of this machine: the keys are its user's. On the other machine it would count as its user.
fn refuse_agents(is_agent: bool) -> Result<()> {
    if !is_agent {
        return Ok(());
    }
    let message = "an agent may not use its user's keys for other machines";
    Err(Failure::coded(ErrorCode::NotAllowed, message)
        .with_hint("run the command in a terminal of yours, outside the agent"))
}

/// Reads the file of a machine.
fn load(path: &Path) -> Result<KnownMachine> {
    let text = read(path).map_err(|error| unreadable(path, &error))?;
    let machine: KnownMachine = serde_json::from_str(&text).map_err(|error| unreadable(path, &error))?;
    Ok(KnownMachine { file: path.to_owned(), ..machine })
}

/// Writes the file of a machine, in the place of an earlier one.
fn write(machine: &KnownMachine) -> Result<()> {
    let path = &machine.file;
    // Several processes may do so at once; each writes a whole file.
    let draft = path.with_extension(format!("draft{}", std::process::id()));
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(paths::PRIVATE_FILE).open(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(machine)?)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|error| unreadable(path, &error))
}

fn from_wire(time: prost_types::Timestamp) -> Timestamp {
    Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(i64::from(time.nanos) / 1_000))
}

fn read(path: &Path) -> io::Result<String> {
    let file = fs::File::open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "others can read it; chmod 600"));
    }
    let mut text = String::new();
    file.take(limits::MACHINE_FILE_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(path: &Path, problem: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("{}: {problem}", path.display()))
}

/// Returns an error of ours as a command's.
fn failure(error: Error) -> Failure {
    Failure::coded(error.code, error.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::vars::Vars;

    fn machine(name: &str, id: &str, relay: &str) -> KnownMachine {
        KnownMachine {
            name: name.to_owned(),
            machine_id: id.to_owned(),
            relay: relay.to_owned(),
            relay_pin: "p".to_owned(),
            token: "t".to_owned(),
            machine_pin: "m".to_owned(),
            role: "viewer".to_owned(),
            device_id: "dev_1".to_owned(),
            certificate_pem: "c".to_owned(),
            key_pem: "k".to_owned(),
            expires_at: None,
            file: PathBuf::new(),
        }
    }

    #[test]
    fn an_agent_may_not_use_the_keys_for_other_machines() {
        refuse_agents(false).unwrap();
        let refused = refuse_agents(true).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some("OBEY-1002"));
        assert!(refused.message.contains("an agent may not"));
    }

    #[test]
    fn machines_are_kept_privately_and_found_by_name_id_and_relay() {
        let folder = tempfile::tempdir().unwrap();
        let vars = Vars::of(&[("XDG_DATA_HOME", folder.path().to_str().unwrap())]);
        let machines = KnownMachines::in_folder(&Paths::of(&vars, 1));
        assert!(machines.list().unwrap().is_empty());
        let one = machine("box", "mach_1", "https://a:1");
        machines.save(&one).unwrap();
        machines.save(&machine("box", "mach_2", "https://b:1")).unwrap();
        assert_eq!(fs::metadata(machines.file(&one)).unwrap().mode() & 0o777, 0o600);
        assert!(machines.find("box", None).unwrap_err().message.contains("--relay"));
        let found = machines.find("box", Some("https://a:1/")).unwrap();
        assert_eq!(found, KnownMachine { file: machines.file(&one), ..one.clone() });
        assert_eq!(machines.find("mach_2", None).unwrap().relay, "https://b:1");
        assert!(machines.find("other", None).is_err());
        assert_eq!(machines.current().unwrap(), None);
        machines.switch("box").unwrap();
        assert_eq!(machines.current().unwrap(), Some("box".to_owned()));
        machines.remove(&one).unwrap();
        assert_eq!((machines.current().unwrap(), machines.list().unwrap().len()), (None, 1));
    }
}
