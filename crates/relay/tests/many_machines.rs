//! A thousand machines at one relay: they enrol, are idle, and come back after the relay has died. The machines are simulated, the relay
//! is a process of its own: this test, started again.

#![allow(clippy::unwrap_used, reason = "it is a test as a whole")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relay::Relay;
use tokio_stream::StreamExt as _;
use tunnel::keys::{self, KeyRequest};
use tunnel::pinned::TlsIdentity;
use tunnel::ticket::EnrolmentCode;
use tunnel::{CallFailure, FULL_FRAMES, Link, LinkSide, dial};
use wire::betcode::v1::RegisterRequest;
use wire::betcode::v1::tunnel_service_client::TunnelServiceClient;
use wire::obey::v1::EnrolMachineRequest;
use wire::obey::v1::relay_service_client::RelayServiceClient;

/// Names the folder of the relay that this process is to serve.
const SERVE: &str = "OBEY_TEST_SERVE_RELAY";
const TEST: &str = "a_thousand_machines_are_held_and_come_back";

const MACHINES: usize = 1_000;

/// What the relay may take while all of them are idle.
const IDLE_MAX_KIB: u64 = 150 * 1024;

/// How long everything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A relay process.
struct Serving(Child);

impl Serving {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", TEST]).env(SERVE, folder).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine that has joined.
struct SimulatedMachine {
    id: String,
    url: String,
    pin: String,
    identity: TlsIdentity,
}

impl SimulatedMachine {
    async fn enrol(code: &EnrolmentCode, name: String) -> Self {
        let key = KeyRequest::new(&name).unwrap();
        let channel = dial::connect(&code.url, &code.pin, None).await.unwrap();
        let request = EnrolMachineRequest { secret: code.secret.clone(), name, csr_pem: key.csr_pem.clone() };
        let enrolled = RelayServiceClient::new(channel).enrol_machine(request).await.unwrap().into_inner();
        Self {
            id: enrolled.machine_id,
            url: code.url.clone(),
            pin: code.pin.clone(),
            identity: TlsIdentity { certificate_pem: enrolled.certificate_pem, key_pem: key.key_pem },
        }
    }

    /// Keeps a tunnel open, for ever, as a daemon does.
    async fn run(self, is_over: Arc<AtomicBool>) {
        let mut failures = 0_u32;
        while !is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let _ended = self.connect().await;
            failures = if began.elapsed() > Duration::from_secs(60) { 0 } else { failures + 1 };
            let most = Duration::from_secs(1 << failures.saturating_sub(1).min(5));
            tokio::time::sleep(most.mul_f64(keys::jitter())).await;
        }
    }

    async fn connect(&self) -> Option<()> {
        let channel = dial::connect(&self.url, &self.pin, Some(&self.identity)).await.ok()?;
        let mut tunnels = TunnelServiceClient::new(channel);
        let request = RegisterRequest {
            machine_id: self.id.clone(),
            capabilities: vec![FULL_FRAMES.to_owned()],
            instance_id: self.id.clone(),
            ..Default::default()
        };
        tunnels.register(request).await.ok()?.into_inner().accepted.then_some(())?;
        let (link, frames) = Link::new(LinkSide::Machine, "");
        let opened = tunnels.open_tunnel(frames).await.ok()?.into_inner();
        tokio::pin!(opened);
        let mut beat = tokio::time::interval(Duration::from_secs(10));
        loop {
            tokio::select! {
                frame = opened.next() => match frame {
                    Some(Ok(frame)) => drop(link.receive(frame)),
                    _ => break,
                },
                _ = beat.tick() => drop(link.heartbeat(prost_types::Timestamp::default())),
            }
        }
        link.close(&CallFailure::new(tonic::Code::Unavailable, "the tunnel ended"));
        Some(())
    }
}

/// Asks the relay until so many machines are connected.
async fn until_online(relay: &Relay, wanted: u32) {
    let began = Instant::now();
    let mut online = 0;
    while online < wanted {
        assert!(began.elapsed() < PATIENCE, "{online} of {wanted} machines are connected");
        online = relay.ask_status().await.map_or(0, |status| status.machines_online);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Lets a process have as many connections as it may.
fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "large, 1,000 machines: make test-all"]
async fn a_thousand_machines_are_held_and_come_back() {
    raise_file_limit();
    if let Some(folder) = std::env::var_os(SERVE) {
        let relay = Relay::open(Path::new(&folder)).unwrap();
        relay.serve(std::future::pending(), |_| {}).await.unwrap();
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("relay");
    let listen = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Relay::create(&folder, listen, &[], None).unwrap();
    let relay = Relay::open(&folder).unwrap();
    let serving = Serving::start(&folder);
    until_online(&relay, 0).await;
    while relay.ask_status().await.is_err() {
        tokio::task::yield_now().await;
    }
    let empty = serving.resident_kib();

    let began = Instant::now();
    let is_over = Arc::new(AtomicBool::new(false));
    for number in 0..MACHINES {
        let code = EnrolmentCode::parse(&relay.code(None).unwrap().0).unwrap();
        let machine = SimulatedMachine::enrol(&code, format!("box-{number}")).await;
        tokio::spawn(machine.run(Arc::clone(&is_over)));
    }
    let wanted = u32::try_from(MACHINES).unwrap();
    until_online(&relay, wanted).await;
    let enrolled = began.elapsed();
    // Two heartbeats of every machine: what enrolling took is over.
    tokio::time::sleep(Duration::from_secs(25)).await;
    let idle = serving.resident_kib();

    drop(serving);
    let began = Instant::now();
    let serving = Serving::start(&folder);
    until_online(&relay, wanted).await;
    let back = began.elapsed();
    let after = serving.resident_kib();
    is_over.store(true, Ordering::Relaxed);
    println!(
        "{MACHINES} machines: enrolled in {enrolled:?}, all back {back:?} after the relay's death; the relay takes {empty} KiB empty, \
         {idle} KiB with all of them idle, {after} KiB after they came back"
    );
    assert!(idle <= IDLE_MAX_KIB, "{idle} KiB");
}
