//! The machines that the page shows beside its own: those that this user paired this one with, as `obey machine list` shows them.
//! The daemon calls them with the certificates that the command line keeps.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use client::connection::Client;
use client::machines::KnownMachines;
use config::failure::Failure;
use config::paths::Paths;
use daemon::{OtherMachine, OtherMachines};
use domain::{Error, ErrorCode};
use tonic::transport::Channel;

/// Machines in the data folder of the user, with the connections to them.
pub(crate) struct PairedMachines {
    known: KnownMachines,
    /// By machine and device: whoever pairs again gets another connection.
    channels: Mutex<HashMap<(String, String), Channel>>,
}

impl PairedMachines {
    pub(crate) fn new(paths: &Paths) -> Self {
        Self { known: KnownMachines::in_folder(paths), channels: Mutex::default() }
    }
}

impl OtherMachines for PairedMachines {
    fn list(&self) -> Result<Vec<OtherMachine>, Error> {
        let all = self.known.list().map_err(error)?;
        Ok(all
            .into_iter()
            .map(|one| OtherMachine { id: one.machine_id, name: one.name, role: one.role })
            .collect())
    }

    fn channel(&self, id: &str) -> Result<Channel, Error> {
        // Read each time: a machine that was removed is not called any more.
        let all = self.known.list().map_err(error)?;
        let Some(machine) = all.into_iter().find(|one| one.machine_id == id) else {
            let message = "machine: this machine is not paired with one of this id; see obey machine list";
            return Err(Error::new(ErrorCode::MachineNotFound, message));
        };
        let key = (machine.machine_id.clone(), machine.device_id.clone());
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(channel) = channels.get(&key) {
            return Ok(channel.clone());
        }
        let channel = Client::through(&Arc::new(machine)).map_err(error)?.channel();
        channels.retain(|(known, _), _| known != id);
        channels.insert(key, channel.clone());
        Ok(channel)
    }
}

fn error(failure: Failure) -> Error {
    let code = failure.code.as_deref().and_then(ErrorCode::parse).unwrap_or(ErrorCode::ConfigInvalid);
    Error::new(code, failure.message)
}
