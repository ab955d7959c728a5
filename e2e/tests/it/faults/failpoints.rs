//! The daemon ends at every named point between two steps that belong together (`host/src/failpoint.rs`), and the
//! next one must make good of it: what was accepted is done once, what is shown is whole, nothing is left running.
//! `OBEY_FAULTS_SEEDS=20` asks for more than the first time each point is reached.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::clients::collect;
use e2e::deadline::{poll, within};
use e2e::faults::crew::{self, Crew, folders};
use e2e::faults::kills::is_gone;
use e2e::faults::output::{self, texts};
use e2e::faults::random::Random;
use e2e::faults::story::Story;
use e2e::faults::view::View;
use e2e::world::World;
use serde_json::json;
use tonic::Status;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::seed;

/// Points that only an end by request reaches, or only the very first start.
const LEAVING: &str = "leave.detached";
const FIRST_START: &str = "start.migrating";

/// Reached only where commits rest for a while, which a quick machine's trial does not do. Tried, not demanded.
const WHEN_AT_REST: &str = "sync.before";

/// The names in the daemon's table.
fn points() -> Result<Vec<String>> {
    let path = e2e::tools::repository().join("crates/host/src/failpoint.rs");
    let text = std::fs::read_to_string(path)?;
    let table =
        text.split("POINTS: ").nth(1).and_then(|rest| rest.split("\n];").next()).context("no table")?;
    let names = table.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next());
    Ok(names.map(str::to_owned).collect())
}

/// Half of the points, so that two tests share the work.
async fn every_second_point(first: usize) -> Result<()> {
    let mut random = Random::new(seed());
    let seeds: u64 = std::env::var("OBEY_FAULTS_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut unreached = Vec::new();
    for point in points()?.iter().skip(first).step_by(2) {
        for round in 0..seeds {
            let times = if round == 0 { 1 } else { random.within(2..12) };
            let reached = Trial::run(point, times, random.branch())
                .await
                .with_context(|| format!("after the daemon ended at {point}, reached {times} times"))?;
            if round == 0 && !reached && point != WHEN_AT_REST {
                unreached.push(point.clone());
            }
        }
    }
    ensure!(unreached.is_empty(), "never reached: {unreached:?}");
    Ok(())
}

#[tokio::test]
async fn a_crash_at_any_odd_point_is_made_good() -> Result<()> {
    every_second_point(0).await
}

#[tokio::test]
async fn a_crash_at_any_even_point_is_made_good() -> Result<()> {
    every_second_point(1).await
}

/// Starts a crew whose next daemon will end at a point.
async fn about_to_end_at(point: &str) -> Result<Crew> {
    let world = World::new()?;
    world.set_env("OBEY_EXECUTE_ALLOW", "sh");
    let mut crew = Crew::start(world).await?;
    crew.kill().await?;
    crew.world.set_env("OBEY_FAILPOINT", point);
    crew.restart().await?;
    crew.world.remove_env("OBEY_FAILPOINT");
    Ok(crew)
}

/// Waits until the daemon has ended at its point, and starts the next one.
async fn end_and_come_back(crew: &mut Crew) -> Result<()> {
    within("the end at the failpoint", crew.daemon.wait()).await??;
    ensure!(crew.daemon.log().contains("failpoint"), "the daemon ended elsewhere:\n{}", crew.daemon.log());
    crew.restart().await?;
    Ok(())
}

#[tokio::test]
async fn a_command_that_was_being_started_leaves_nothing() -> Result<()> {
    for point in ["launch.folder_made", "launch.shim_running", "launch.shim_ready", "execute.started"] {
        let mut crew = about_to_end_at(point).await?;
        let called = crew.clients().local.execute(execute("setsid sleep 600 & sleep 600")).await;
        ensure!(called.is_err(), "the daemon did not end at {point}");
        end_and_come_back(&mut crew).await?;
        let dir = crew.agents_dir();
        poll("the end of its folder", || folders(&dir).is_empty().then_some(())).await.context(point)?;
        crew.close().await.context(point)?;
    }
    Ok(())
}

#[tokio::test]
async fn what_a_killed_shim_left_is_ended_even_if_the_daemon_dies_before_it_could() -> Result<()> {
    let mut crew = about_to_end_at("exit.committed").await?;
    let id = crew.create().await?.id;
    let events = output::turn(&crew, &id, &json!([{"spawn_child": true}])).await?;
    let child: i32 = texts(&events).parse()?;
    let shim = crew::shim_pid(&crew.agents_dir(), &id).context("no shim")?;
    e2e::processes::signal(shim, rustix::process::Signal::KILL);
    end_and_come_back(&mut crew).await?;
    assert_eq!(crew.info(&id).await?.status(), pb::SessionStatus::Failed);
    super::gone(child).await?;
    crew.close().await
}

/// What clients were promised before the daemon ended.
#[derive(Default)]
struct Promised {
    /// Sessions whose creation was answered.
    created: Vec<String>,
    /// Prompts that were accepted.
    accepted: Vec<String>,
    /// A request was answered, and the answer accepted.
    answered: Option<String>,
    /// Sessions whose stop was answered.
    stopped: Vec<String>,
    /// A session whose end was seen.
    failed: Option<String>,
}

struct Trial {
    crew: Crew,
    promised: Promised,
    stories: Vec<Story>,
    random: Random,
}

impl Trial {
    /// Ends the daemon at one point and looks at what is left. Returns whether the point was reached.
    async fn run(point: &str, times: u64, mut random: Random) -> Result<bool> {
        let world = World::new()?;
        world.set_env("OBEY_EXECUTE_ALLOW", "sh");
        let wish = format!("{point}={times}");
        if point == FIRST_START {
            world.set_env("OBEY_FAILPOINT", &wish);
            let reached = e2e::daemon::Daemon::start(&world).await.is_err();
            world.remove_env("OBEY_FAILPOINT");
            let trial = Trial::begin(world, random).await?;
            trial.end().await?;
            return Ok(reached);
        }
        let mut trial = Trial::begin(world, random.branch()).await?;
        // A turn is under way, and a command nobody will ask for again, when the point is first within reach.
        trial.prepare().await?;
        trial.crew.kill().await?;
        trial.crew.world.set_env("OBEY_FAILPOINT", &wish);
        if trial.crew.restart().await.is_ok() {
            // Errors only mean that the daemon has ended.
            if let Err(error) = trial.work().await {
                ensure!(trial.goes_down().await, "the daemon refused: {error:?}");
            }
            if !trial.is_down() && point == LEAVING {
                let _ = within("the daemon's end", trial.crew.daemon.terminate()).await;
            } else if !trial.is_down() {
                trial.crew.kill().await?;
                let _ = trial.crew.restart().await;
                trial.goes_down().await;
            }
        }
        let reached = trial.crew.daemon.log().contains(&format!("failpoint {point}"));
        trial.crew.world.remove_env("OBEY_FAILPOINT");
        if trial.crew.daemon.pid().is_some() {
            trial.crew.kill().await?;
        }
        trial.crew.restart().await?;
        trial.check().await?;
        trial.end().await?;
        Ok(reached)
    }

    async fn begin(world: World, random: Random) -> Result<Trial> {
        let crew = Crew::start(world).await?;
        Ok(Trial { crew, promised: Promised::default(), stories: Vec::new(), random })
    }

    /// Whether the daemon has ended by itself.
    fn is_down(&self) -> bool {
        self.crew.daemon.pid().is_none_or(|pid| !e2e::processes::alive(pid))
    }

    /// Whether the daemon ends by itself within a moment.
    async fn goes_down(&self) -> bool {
        let down = async {
            while !self.is_down() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_millis(400), down).await.is_ok()
    }

    async fn prepare(&mut self) -> Result<()> {
        self.create(false).await?;
        self.tell(0, 40, 5).await?;
        let request = execute("sleep 600");
        let mut output = self.crew.clients().local.execute(request).await?.into_inner();
        poll("the command", || {
            folders(&self.crew.agents_dir()).iter().any(|name| name.starts_with("exec_")).then_some(())
        })
        .await?;
        let _ = tokio::time::timeout(Duration::from_millis(20), output.message()).await;
        Ok(())
    }

    /// Everything a client does, until the daemon is gone.
    async fn work(&mut self) -> Result<()> {
        self.create(true).await?;
        self.create(false).await?;
        self.tell(2, 20, 1).await?;
        self.ask_and_answer().await?;
        self.wait_for_turn(1).await?;
        let output = self.crew.clients().local.execute(execute("echo hi")).await?.into_inner();
        collect(output).await?;
        let id = self.promised.created[1].clone();
        self.crew.prompt(&id, &format!("dies SCRIPT: {}", json!([{"text": "x"}, {"crash": 3}]))).await?;
        let request = own::ReadEventsRequest { session_id: id.clone(), follow: true, ..Default::default() };
        collect(self.crew.clients().events.read_events(request).await?.into_inner()).await?;
        self.promised.failed = Some(id);
        self.wait_for_turn(0).await?;
        let id = self.promised.created[0].clone();
        let request = pb::StopSessionRequest { session_id: id.clone(), graceful: false };
        self.crew.clients().local.stop_session(request).await?;
        self.promised.stopped.push(id);
        Ok(())
    }

    async fn create(&mut self, supervised: bool) -> Result<()> {
        let info = self
            .crew
            .create_with(|request| {
                let mode = if supervised { "supervised" } else { "autonomous" };
                request.provider_config.insert("permission_mode".into(), mode.into());
            })
            .await?;
        self.promised.created.push(info.id);
        Ok(())
    }

    /// Sends a story to one of the sessions.
    async fn tell(&mut self, session: usize, lines: usize, gap_ms: u64) -> Result<(), Status> {
        let key = format!("story-{}", self.stories.len());
        let story = Story::new(&key, lines, gap_ms, &mut self.random);
        let prompt = story.prompt();
        self.stories.push(story);
        self.crew.prompt(&self.promised.created[session], &prompt).await?;
        self.promised.accepted.push(key);
        Ok(())
    }

    async fn ask_and_answer(&mut self) -> Result<()> {
        let id = self.promised.created[1].clone();
        let tool = json!({"tool": "Bash", "input": {"command": "ls"}, "ask": true, "result": "listed"});
        self.crew.prompt(&id, &format!("asks SCRIPT: {}", json!([tool, {"text": "allowed"}]))).await?;
        self.promised.accepted.push("asks".into());
        let mut requests = self.crew.clients().requests;
        let request = within("a request", async {
            loop {
                let request = own::ListRequestsRequest { session_id: id.clone(), include_settled: false };
                let list = requests.list_requests(request).await?.into_inner().requests;
                if let Some(request) = list.into_iter().next() {
                    return Ok::<_, Status>(request);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await??;
        let answer = own::AnswerPermissionRequest {
            session_id: id.clone(),
            request_id: request.id.clone(),
            decision: own::Decision::AllowOnce.into(),
            ..Default::default()
        };
        requests.answer_permission(answer).await?;
        self.promised.answered = Some(id);
        Ok(())
    }

    /// Waits for the end of a session's turn.
    async fn wait_for_turn(&self, session: usize) -> Result<()> {
        let id = &self.promised.created[session];
        settled(&self.crew, id).await.map(drop)
    }

    /// Looks at everything that was promised, under the next daemon.
    async fn check(&mut self) -> Result<()> {
        let request = pb::ListSessionsRequest { include_terminated: true, ..Default::default() };
        let list = self.crew.clients().local.list_sessions(request).await?.into_inner().sessions;
        for id in &self.promised.created {
            ensure!(list.iter().any(|session| session.id == *id), "the session {id} is gone");
        }
        let mut begun = Vec::new();
        for session in &list {
            let info = settled(&self.crew, &session.id).await?;
            let mut view = View::default();
            self.stories.iter().for_each(|story| view.expect(story.clone()));
            let journal = self.crew.journal(&session.id).await?;
            for event in &journal {
                view.take(event);
            }
            begun.extend(view.ended().iter().cloned());
            let other = ["asks", "dies"].iter().any(|key| view.has_begun(key));
            let faults = view.faults();
            ensure!(
                !faults.any() || (other && faults.lost + faults.duplicated + faults.reordered == 0),
                "{} {faults:?}: {:?}",
                session.id,
                view.first_fault()
            );
            // Only the one that was told to die may fail: a start that was under way is taken up again.
            ensure!(info.status() != pb::SessionStatus::Failed || view.has_begun("dies"), "{info:?}");
            self.check_one(&info, &journal)?;
        }
        for key in &self.promised.accepted {
            ensure!(begun.contains(key), "the accepted prompt {key} has no end");
        }
        Ok(())
    }

    fn check_one(&self, info: &pb::SessionInfo, journal: &[own::Event]) -> Result<()> {
        let count = |kind: &str| journal.iter().filter(|event| event.r#type == kind).count();
        if self.promised.answered.as_ref() == Some(&info.id) {
            ensure!(
                (count("request_opened"), count("request_settled")) == (1, 1),
                "answered other than once"
            );
            ensure!(texts(journal).contains("allowed"), "the answer did not arrive");
        }
        if self.promised.failed.as_ref() == Some(&info.id) {
            ensure!(
                info.status() == pb::SessionStatus::Failed && info.error_message.contains("code 3"),
                "{info:?}"
            );
        }
        if self.promised.stopped.contains(&info.id) {
            ensure!(info.status() == pb::SessionStatus::Stopped, "{info:?}");
        }
        ensure!(count("agent_exited") <= 1, "its end was told twice");
        Ok(())
    }

    /// The daemon works as ever, and leaves nothing when it is told to end everything.
    async fn end(self) -> Result<()> {
        let id = self.crew.create().await?.id;
        let events = output::turn(&self.crew, &id, &json!([{"text": "as ever"}])).await?;
        ensure!(texts(&events) == "as ever", "a new session does not work");
        self.crew.close().await
    }
}

/// Waits until a session neither starts nor stops nor works, and nothing of it waits but a person's answer.
async fn settled(crew: &Crew, id: &str) -> Result<pb::SessionInfo> {
    let clients = crew.clients();
    let look = async {
        loop {
            let request = pb::GetSessionRequest { session_id: id.into() };
            let info = clients.local.clone().get_session(request).await?.into_inner();
            use pb::SessionStatus::{Created, Failed, Running, Stopped};
            let waits = own::ListRequestsRequest { session_id: id.into(), include_settled: false };
            let waits = clients.requests.clone().list_requests(waits).await?.into_inner().requests;
            if let Some(request) = waits.first() {
                // Nobody answered it before the daemon ended.
                let answer = own::AnswerPermissionRequest {
                    session_id: id.into(),
                    request_id: request.id.clone(),
                    decision: own::Decision::AllowOnce.into(),
                    ..Default::default()
                };
                clients.requests.clone().answer_permission(answer).await?;
            }
            if matches!(info.status(), Running | Failed | Stopped) {
                return Ok::<_, Status>(info);
            }
            if info.status() == Created {
                return Err(Status::internal("a session stays CREATED"));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    match within(&format!("{id} to settle"), look).await {
        Ok(Ok(info)) => Ok(info),
        Ok(Err(status)) if is_gone(&status) => bail!("the daemon is gone: {status:?}"),
        Ok(Err(status)) => Err(status.into()),
        Err(late) => {
            let info = crew.info(id).await?;
            Err(late.context(format!("it is {info:?}")))
        }
    }
}

fn execute(command: &str) -> pb::ExecuteRequest {
    pb::ExecuteRequest {
        campaign_id: crew::CAMPAIGN.into(),
        command: "sh".into(),
        args: vec!["-c".into(), command.into()],
        ..Default::default()
    }
}
