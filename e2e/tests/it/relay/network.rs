//! Three network namespaces in a row: a machine, a router and a relay. Packets vanish at the router, in one direction or both,
//! without a word to either end. The namespaces are held by processes that end with the test, and leave nothing behind.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::tools;
use e2e::world::World;

/// Addresses that are kept for documentation, so that they are nobody's.
const MACHINE: &str = "192.0.2.2";
const MACHINE_ROUTER: &str = "192.0.2.1";
const RELAY: &str = "198.51.100.2";
const RELAY_ROUTER: &str = "198.51.100.1";

/// Where packets vanish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToRelay,
    ToMachine,
}

/// A namespace and the process that holds it.
struct Namespace(Child);

impl Namespace {
    /// Makes one; nothing where this machine gives none.
    fn new() -> Result<Option<Self>> {
        let mut command = Command::new("unshare");
        command.args(["--net", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return Ok(None) };
        // What comes back shows that the namespace is there.
        let is_written = child.stdin.as_mut().is_some_and(|stdin| stdin.write_all(b"there\n").is_ok());
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
        let this = Self(child);
        Ok((is_written && line == "there\n").then_some(this))
    }

    fn path(&self) -> String {
        format!("--net=/proc/{}/ns/net", self.0.id())
    }

    /// Runs a command inside.
    fn run(&self, words: &str) -> Result<()> {
        let output = Command::new("nsenter").arg(self.path()).args(words.split(' ')).output()?;
        ensure!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Has everything that this world starts run inside.
    fn enter(&self, world: &World) -> Result<()> {
        let script =
            format!("#!/bin/sh\nexec nsenter {} -- {} \"$@\"\n", self.path(), tools::obey()?.display());
        let program = world.path("obey-in-namespace");
        std::fs::write(&program, script)?;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
        world.use_obey(program);
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // One that has ended already is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine, a router and a relay.
pub(super) struct Network {
    machine: Namespace,
    router: Namespace,
    relay: Namespace,
}

impl Network {
    /// Makes the namespaces; nothing where that is not possible, which is said.
    pub(super) fn new() -> Result<Option<Self>> {
        let (Some(machine), Some(router), Some(relay)) =
            (Namespace::new()?, Namespace::new()?, Namespace::new()?)
        else {
            println!("SKIPPED: network namespaces need root, unshare and nsenter");
            return Ok(None);
        };
        let this = Self { machine, router, relay };
        match this.connect() {
            Ok(()) => Ok(Some(this)),
            Err(error) => {
                println!("SKIPPED: network namespaces cannot be connected here: {error:#}");
                Ok(None)
            }
        }
    }

    fn connect(&self) -> Result<()> {
        let router = self.router.0.id();
        for (end, name, own, other) in
            [(&self.machine, "machine", MACHINE, MACHINE_ROUTER), (&self.relay, "relay", RELAY, RELAY_ROUTER)]
        {
            end.run("ip link set lo up")?;
            end.run(&format!("ip link add eth0 type veth peer name {name} netns {router}"))?;
            end.run(&format!("ip addr add {own}/24 dev eth0"))?;
            end.run("ip link set eth0 up")?;
            self.router.run(&format!("ip addr add {other}/24 dev {name}"))?;
            self.router.run(&format!("ip link set {name} up"))?;
            end.run(&format!("ip route add default via {other}"))?;
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        let status = Command::new("nsenter").arg(self.router.path()).args(["sh", "-c", forward]).status()?;
        ensure!(status.success(), "the router forwards nothing");
        Ok(())
    }

    /// Returns a world whose programs are where the relay is, and an address that the relay may listen on.
    pub(super) fn relay_world(&self) -> Result<(World, SocketAddr)> {
        let world = World::new()?;
        self.relay.enter(&world)?;
        Ok((world, format!("{RELAY}:7443").parse()?))
    }

    /// Returns a world whose programs are where the machine is.
    pub(super) fn machine_world(&self) -> Result<World> {
        let world = World::new()?;
        self.machine.enter(&world)?;
        Ok(world)
    }

    /// Lets packets vanish.
    pub(super) fn cut(&self, direction: Direction) -> Result<()> {
        self.router.run(&format!("ip route add blackhole {}/32", direction.target()))
    }

    /// Lets packets through again.
    pub(super) fn heal(&self, direction: Direction) -> Result<()> {
        self.router.run(&format!("ip route del blackhole {}/32", direction.target()))
    }
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::ToRelay, Self::ToMachine];

    fn target(self) -> &'static str {
        match self {
            Self::ToRelay => RELAY,
            Self::ToMachine => MACHINE,
        }
    }
}
