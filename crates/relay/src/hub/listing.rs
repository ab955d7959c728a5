//! What clients get to know about machines: their connection state, and what they reported about themselves. Read-only.

use host::clock;
use wire::betcode::v1 as pb;

use super::{Hub, timestamp};
use crate::limits;
use crate::store::{MachineRecord, Principal};

impl Hub {
    /// Describes a machine.
    pub(crate) fn describe(&self, machine: &MachineRecord) -> pb::Machine {
        let elsewhere = self.cluster().and_then(|cluster| cluster.registered(&machine.id));
        let state = self.locked();
        let live = state.live.get(&machine.id);
        let registered = state.registered.get(&machine.id).or(elsewhere.as_ref());
        let status = match (live, registered) {
            (Some(live), _) if live.heard.elapsed() > limits::SILENCE_MAX => pb::MachineStatus::Offline,
            (Some(live), Some(_)) if !live.is_delivering => pb::MachineStatus::Online,
            (Some(live), None) if live.opened.elapsed() >= limits::REGISTER_WAIT => pb::MachineStatus::Online,
            (Some(_), _) => pb::MachineStatus::Connecting,
            (None, Some(_)) if elsewhere.is_some() => pb::MachineStatus::Online,
            (None, _) => pb::MachineStatus::Offline,
        };
        let is_elsewhere = live.is_none() && elsewhere.is_some();
        let seen = live.map(|live| live.seen_at).or(is_elsewhere.then(clock::now)).or(machine.seen_at);
        let info = registered.and_then(|request| request.info.clone());
        let resources = info.map(|info| pb::MachineResources {
            os: info.os,
            cpu_cores: info.cpu_cores,
            memory_bytes: info.memory_bytes,
            disk_free_bytes: registered.map_or(0, |request| request.disk_free_bytes),
        });
        let hostname = registered.map(|request| request.hostname.clone()).filter(|name| !name.is_empty());
        let described = pb::Machine {
            id: machine.id.clone(),
            name: machine.name.clone(),
            hostname: hostname.unwrap_or_else(|| machine.name.clone()),
            status: status as i32,
            capabilities: machine.capabilities.clone(),
            last_seen: seen.map(timestamp),
            worktrees: Vec::new(),
            resources,
            buffered_messages: 0,
        };
        drop(state);
        let waiting = self.store.waiting(&machine.id).unwrap_or(0);
        pb::Machine { buffered_messages: u32::try_from(waiting).unwrap_or(u32::MAX), ..described }
    }

    /// Returns every machine that a caller may reach, by name.
    pub(crate) fn machines(&self, principal: &Principal) -> Vec<pb::Machine> {
        let directory = self.store.directory();
        let reachable = |id: &String| directory.machine(principal, id);
        let mut found: Vec<_> = directory.machines.keys().filter_map(reachable).collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found.iter().map(|machine| self.describe(machine)).collect()
    }
}
