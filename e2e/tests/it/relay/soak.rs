//! Faults for a long time: relay and daemon are as large afterwards as they were after the first ones, and nothing is left of any call.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::deadline::deadline;
use tonic::transport::Endpoint;
use wire::obey::v1 as own;
use wire::obey::v1::event_service_client::EventServiceClient;

use super::cut::{BACKOFF_MAX, Seeded, say_more, seed, speaking};
use super::fault_proxy::{Break, FaultProxy, redirected};
use super::scene::{RelayScene, connect_through};

/// Faults after which the first sizes are taken: caches and pools are full then.
const FIRST: u64 = 20;

/// What may be left that is no leak: allocators keep some, and a debug build more.
const MEMORY_MAX_KIB: u64 = 32 * 1024;
const FILES_MAX: usize = 8;

/// What a process holds.
#[derive(Clone, Copy, Debug)]
struct Size {
    memory_kib: u64,
    files: usize,
}

impl Size {
    fn of(pid: i32) -> Result<Self> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS")?;
        let memory_kib = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(Self { memory_kib, files: std::fs::read_dir(format!("/proc/{pid}/fd"))?.count() })
    }

    fn is_like(self, first: Self) -> bool {
        self.files <= first.files + FILES_MAX && self.memory_kib <= first.memory_kib + MEMORY_MAX_KIB
    }
}

#[tokio::test]
async fn faults_leave_nothing_behind() -> Result<()> {
    soak(|faults, _| faults < 60).await
}

#[tokio::test]
#[ignore = "long, ten minutes of faults or OBEY_TEST_SOAK_MINUTES: make test-all"]
async fn minutes_of_faults_leave_nothing_behind() -> Result<()> {
    let minutes = std::env::var("OBEY_TEST_SOAK_MINUTES").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(60 * minutes.unwrap_or(10));
    soak(|_, since| since < time).await
}

/// Follows turns through connections that are cut, reset or fall silent, as long as it is wanted.
async fn soak(goes_on: impl Fn(u64, Duration) -> bool) -> Result<()> {
    let relay = RelayScene::start().await?;
    let (of_machine, of_device) =
        (FaultProxy::start(relay.address).await?, FaultProxy::start(relay.address).await?);
    let machine =
        relay.machine_with("box", "off", &redirected(&relay.code().await?, of_machine.address)?).await?;
    let device = machine.device("laptop", "viewer").await?;
    let (connect, address) = connect_through(&device, "box", of_device.address).await?;
    let (mut clients, session) = speaking(&machine).await?;
    let pids = (relay.pid()?, machine.daemon.pid().context("no daemon")?);
    let sizes = || -> Result<(Size, Size)> { Ok((Size::of(pids.0)?, Size::of(pids.1)?)) };

    let mut random = Seeded(seed());
    let (began, mut faults, mut first, mut last_seq) = (Instant::now(), 0_u64, None, 0);
    while goes_on(faults, began.elapsed()) {
        let Ok(channel) = Endpoint::from_shared(format!("http://{address}"))?.connect().await else {
            continue;
        };
        let request = own::ReadEventsRequest {
            session_id: session.clone(),
            after_seq: last_seq,
            follow: true,
            ..Default::default()
        };
        let Ok(stream) = EventServiceClient::new(channel).read_events(request).await else { continue };
        let mut stream = stream.into_inner();
        let mut left = random.below(20);
        while let Ok(Some(event)) = stream.message().await {
            ensure!(event.seq == last_seq + 1, "event {} came after {last_seq}", event.seq);
            last_seq = event.seq;
            if event.r#type == "turn_ended" {
                say_more(&mut clients, &session).await?;
            }
            if left == 0 {
                break;
            }
            left -= 1;
        }
        // Most of clients: a machine waits longer each time before it dials again.
        let proxy = if random.below(30) == 0 { &of_machine } else { &of_device };
        proxy.break_all(if random.below(2) == 0 { Break::Close } else { Break::Reset });
        faults += 1;
        if faults == FIRST {
            first = Some(sizes()?);
        }
    }
    connect.signal(rustix::process::Signal::TERM);
    drop(connect);
    let first = first.context("too few faults")?;
    let ended = Instant::now();
    loop {
        let status = relay.cli().json(&["relay", "status"]).await?;
        let (of_relay, of_daemon) = sizes()?;
        let is_empty = status["calls_active"] == 0 && status["machines_online"] == 1;
        if is_empty && of_relay.is_like(first.0) && of_daemon.is_like(first.1) {
            println!(
                "{faults} faults, {last_seq} events: {first:?} at first, {of_relay:?} {of_daemon:?} at last"
            );
            return Ok(());
        }
        let is_late = ended.elapsed() > deadline() + BACKOFF_MAX;
        ensure!(!is_late, "after {faults} faults: {first:?} at first, {of_relay:?} {of_daemon:?}; {status}");
    }
}
