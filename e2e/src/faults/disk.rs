//! A disk that fills up: a small file system under the daemon's data, filled to the last page again and again while
//! agents work and clients send. Agents pause and go on; what was accepted is kept, what was refused leaves no trace.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio_stream::StreamExt;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::crew::{self, Crew};
use super::figures::{Figures, grouped, millis, percentile};
use super::input::{self, Fate, Target, saying};
use super::random::Random;
use super::story::Story;
use super::view::{Faults, View};
use crate::deadline::{within, within_time};
use crate::processes;
use crate::world::World;

/// A file system of a few megabytes. Unmounted when dropped.
pub struct SmallDisk {
    root: PathBuf,
}

/// The file that takes the room.
const FILLER: &str = "filler";

/// The least the file system gives to a file.
pub const PAGE: u64 = 4096;

impl SmallDisk {
    /// Mounts one over an empty folder. `None`: that is not permitted here, which is said where people look.
    pub fn mount(folder: &Path, megabytes: u32) -> Result<Option<SmallDisk>> {
        fs::remove_dir_all(folder).or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        fs::create_dir(folder)?;
        let options = format!("size={megabytes}m,mode=0700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).output()?;
        if !mounted.status.success() {
            crate::tools::announce_skip("mounting a small file system is not permitted here");
            return Ok(None);
        }
        Ok(Some(SmallDisk { root: folder.to_owned() }))
    }

    /// Takes all room but this many pages.
    pub fn fill(&self, pages_left: u64) -> Result<()> {
        let path = self.root.join(FILLER);
        let mut file = File::options().append(true).create(true).open(&path)?;
        let page = vec![b'x'; PAGE as usize];
        while file.write_all(&page).is_ok() {}
        // Whole pages only: the last write may have been cut short.
        let taken = file.metadata()?.len() / PAGE;
        file.set_len(taken.saturating_sub(pages_left) * PAGE).context("giving back some pages")
    }

    /// Gives the room back.
    pub fn free(&self) -> Result<()> {
        fs::remove_file(self.root.join(FILLER)).context("removing the filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because somebody may still have a file open there.
        let _ = Command::new("umount").arg("-l").arg(&self.root).status();
    }
}

/// How often.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub rounds: usize,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Outcome {
    pub rounds: usize,
    pub events: u64,
    pub faults: Faults,
    pub first_fault: Option<String>,
    /// What became of prompts sent while the disk was full.
    pub words: input::Outcome,
    pub refused: u64,
    /// From the moment there was room again to the end of the turn that had waited for it.
    pub resumed: Vec<Duration>,
    /// Agents that ended while the disk was full, and whose exit code is not known.
    pub exits_lost: u64,
    pub exits: u64,
    /// Starts of a daemon that a full disk prevented, each with a reason.
    pub starts_refused: u64,
    pub agents_disturbed: u64,
}

/// From room on the disk to the end of a turn that waited for it.
const RESUME_MAX: Duration = Duration::from_secs(5);

/// A call that cannot be obeyed for lack of room is refused, not kept waiting.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Megabytes of the file system: room for a journal and its log, so that it is filled by us and not by itself.
const DISK_MEGABYTES: u32 = 64;

/// Pages left free, at most. Most writes of a round need fewer.
const PAGES_LEFT_MAX: u64 = 48;

/// Runs it. `None`: small file systems cannot be mounted here. `told` hears about the progress.
pub async fn run(options: &Options, mut told: impl FnMut(usize)) -> Result<Option<Outcome>> {
    let world = World::new()?;
    let Some(disk) = SmallDisk::mount(&world.path("data"), DISK_MEGABYTES)? else { return Ok(None) };
    let mut random = Random::new(options.seed);
    let crew = Crew::start(world).await?;
    let talker = crew.create().await?;
    let listener = Target { id: crew.create().await?.id, steers: false, words: Vec::new() };
    let mut run = Run { crew, disk, listener, view: View::default(), outcome: Outcome::default() };
    for round in 0..options.rounds {
        let random = &mut random;
        run.round(&talker, round, random).await.with_context(|| format!("round {round}"))?;
        told(round + 1);
    }
    run.end(&talker).await.map(Some)
}

struct Run {
    crew: Crew,
    disk: SmallDisk,
    listener: Target,
    view: View,
    outcome: Outcome,
}

impl Run {
    async fn round(&mut self, talker: &pb::SessionInfo, round: usize, random: &mut Random) -> Result<()> {
        let gate = self.crew.world.path(&format!("gate-{round}"));
        let story = Story::new(&format!("r{round:04}"), 150, 1, random).after_file(&gate);
        self.view.expect(story.clone());
        self.crew.prompt(&talker.id, &story.prompt()).await?;
        let dying = if random.once_in(4) { Some(self.dying(&gate).await?) } else { None };
        self.disk.fill(random.within(0..PAGES_LEFT_MAX))?;
        self.crew.world.touch(&format!("gate-{round}"))?;
        for attempt in 0..random.within(1..4) {
            self.send(&format!("w{round:05}-{attempt}"), random).await?;
            tokio::time::sleep(random.below(Duration::from_millis(60))).await;
        }
        if random.once_in(3) {
            self.crash_while_full().await?;
        }
        tokio::time::sleep(random.below(Duration::from_millis(300))).await;
        self.disk.free()?;
        if self.crew.daemon.pid().is_none() {
            self.crew.restart().await?;
        }
        let since = Instant::now();
        self.follow(talker, story.key()).await?;
        self.outcome.resumed.push(since.elapsed());
        input::settle(&self.crew, &self.listener).await?;
        if let Some(id) = dying {
            self.check_exit(&id).await?;
        }
        self.outcome.rounds += 1;
        Ok(())
    }

    /// A session whose agent will end when the gate opens.
    async fn dying(&self, gate: &Path) -> Result<String> {
        let id = self.crew.create().await?.id;
        let steps = json!([{"wait_file": gate}, {"text": "x".repeat(30_000)}, {"crash": 5}]);
        self.crew.prompt(&id, &format!("dying SCRIPT: {steps}")).await?;
        Ok(id)
    }

    async fn send(&mut self, word: &str, random: &mut Random) -> Result<()> {
        // A long prompt needs more room than a short one.
        let padding = "p".repeat(random.within(0..20_000) as usize);
        let text = format!("{padding} {}", saying(word, false));
        let clients = self.crew.clients();
        let call = crew::prompt(&clients, &self.listener.id, &text, false);
        let answer = within_time("an answer on a full disk", ANSWER_MAX, call).await?;
        let fate = Fate::of(&answer);
        if let Err(status) = &answer {
            let known = ["OBEY-1010", "OBEY-2011"].iter().any(|code| status.message().contains(code));
            ensure!(known, "a full disk is told as {status:?}");
            self.outcome.refused += 1;
        }
        self.listener.words.push((word.to_owned(), fate));
        Ok(())
    }

    /// A daemon that dies while the disk is full. The next one may find no room to start in, and must say so.
    async fn crash_while_full(&mut self) -> Result<()> {
        self.crew.kill().await?;
        if let Err(error) = self.crew.restart().await {
            let text = format!("{error:#}");
            ensure!(text.contains("OBEY-1010") || text.contains("OBEY-1013"), "it did not start: {text}");
            self.outcome.starts_refused += 1;
            if self.crew.daemon.pid().is_some() {
                self.crew.daemon.wait().await?;
            }
        }
        Ok(())
    }

    /// Reads the talker's journal on until its turn has ended.
    async fn follow(&mut self, talker: &pb::SessionInfo, key: &str) -> Result<()> {
        let request = own::ReadEventsRequest {
            session_id: talker.id.clone(),
            after_seq: self.view.last_seq(),
            follow: true,
            ..Default::default()
        };
        let mut events = self.crew.clients().events.read_events(request).await?.into_inner();
        let view = &mut self.view;
        within("the end of a turn that waited for the disk", async {
            while view.ended().last().is_none_or(|ended| ended != key) {
                view.take(&events.next().await.context("the stream ended")??);
            }
            anyhow::Ok(())
        })
        .await?
    }

    async fn check_exit(&mut self, id: &str) -> Result<()> {
        let request = own::ReadEventsRequest { session_id: id.into(), follow: true, ..Default::default() };
        crate::clients::collect(self.crew.clients().events.read_events(request).await?.into_inner()).await?;
        let info = self.crew.info(id).await?;
        self.outcome.exits += 1;
        if !info.error_message.contains("code 5") {
            self.outcome.exits_lost += 1;
            self.outcome
                .first_fault
                .get_or_insert_with(|| format!("an end is told as {:?}", info.error_message));
        }
        Ok(())
    }

    async fn end(mut self, talker: &pb::SessionInfo) -> Result<Outcome> {
        let journal = self.crew.journal(&self.listener.id).await?;
        self.outcome.words.judge(&self.listener, &journal);
        let info = self.crew.info(&talker.id).await?;
        if info.pid != talker.pid || !processes::alive(talker.pid) {
            self.outcome.agents_disturbed += 1;
        }
        self.outcome.events = self.view.events();
        self.outcome.faults = self.view.faults();
        if let Some(fault) = self.view.first_fault() {
            self.outcome.first_fault.get_or_insert_with(|| fault.to_owned());
        }
        self.crew.close().await?;
        Ok(self.outcome)
    }
}

impl Outcome {
    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of("disk");
        figures.tell("times the disk was full", grouped(self.rounds as u64));
        figures.tell("events", grouped(self.events));
        figures.demand_none("events lost", self.faults.lost);
        figures.demand_none("events doubled, reordered or foreign", self.damaged());
        figures.demand_none("agents disturbed", self.agents_disturbed);
        figures.tell("prompts accepted", grouped(self.words.accepted));
        figures.tell("prompts refused", grouped(self.refused));
        figures.demand_none("accepted prompts lost", self.words.lost);
        figures.demand_none(
            "prompts delivered twice or although refused",
            self.words.duplicated + self.words.wrong,
        );
        figures.tell("agents that ended on a full disk", grouped(self.exits));
        figures.demand_none("exit codes lost", self.exits_lost);
        figures.tell("starts of a daemon refused", grouped(self.starts_refused));
        figures.tell("turn ended after there was room, median", millis(percentile(&self.resumed, 50)));
        let worst = percentile(&self.resumed, 99);
        let bound = format!("at most {}", millis(RESUME_MAX));
        figures.demand("turn ended after there was room, p99", millis(worst), &bound, worst <= RESUME_MAX);
        let faults = self.first_fault.iter().chain(&self.words.first_fault);
        figures.remarks.extend(faults.map(|fault| format!("first fault: {fault}")));
        figures
    }

    fn damaged(&self) -> u64 {
        self.faults.duplicated + self.faults.reordered + self.faults.foreign
    }
}
