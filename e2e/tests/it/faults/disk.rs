//! What disks do: torn ends, flipped bits, missing files, no room. What is whole is shown, what is damaged is never shown
//! as if it were whole, what was accepted is kept, and nothing stays behind.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::deadline::poll;
use e2e::faults::crew::{Crew, folders, shim_pid};
use e2e::faults::output::spooled;
use e2e::faults::random::Random;
use e2e::faults::story::Story;
use e2e::processes;
use e2e::world::World;
use rustix::process::Signal;
use serde_json::Value;
use wire::obey::local::v1::SessionStatus;

use super::{assert_numbered, said, seed};

/// A session whose agent has said everything while no daemon was there.
struct Spooled {
    id: String,
    story: Story,
    dir: PathBuf,
}

/// Some sessions, no daemon, and all their output in the last segment of their spools, none of it read.
async fn unread(crew: &mut Crew, count: usize, random: &mut Random) -> Result<Vec<Spooled>> {
    let mut sessions = Vec::new();
    let gate = crew.world.path("gate");
    for number in 0..count {
        let id = crew.create().await?.id;
        let story = Story::new(&format!("s{number:02}"), 60, 2, random).after_file(&gate);
        let dir = crew.agents_dir().join(format!("{id}.1"));
        let before = spooled(&dir);
        crew.prompt(&id, &story.prompt()).await?;
        // What the agent was told is in its spool too; a prompt that is still on its way would wait for a daemon.
        poll("the prompt's delivery", || (spooled(&dir) > before).then_some(())).await?;
        sessions.push(Spooled { id, story, dir });
    }
    crew.kill().await?;
    crew.world.touch("gate")?;
    for session in &sessions {
        poll("the turn's end on disk", || ends_with_turn(&session.dir).then_some(())).await?;
    }
    Ok(sessions)
}

fn segment(dir: &Path) -> PathBuf {
    dir.join("out.000001")
}

fn ends_with_turn(dir: &Path) -> bool {
    let bytes = fs::read(segment(dir)).unwrap_or_default();
    bytes.windows(12).any(|window| window == br#""turn_ended""#)
}

/// Waits for the session's end and returns its journal.
async fn failed_journal(crew: &Crew, session: &Spooled) -> Result<(Vec<wire::obey::v1::Event>, String)> {
    let request = wire::obey::v1::ReadEventsRequest {
        session_id: session.id.clone(),
        follow: true,
        ..Default::default()
    };
    let stream = crew.clients().events.read_events(request).await?.into_inner();
    let journal = e2e::clients::collect(stream).await?;
    let info = crew.info(&session.id).await?;
    assert_eq!(info.status(), SessionStatus::Failed, "{info:?}");
    Ok((journal, info.error_message))
}

/// Asserts that what is shown is a beginning of what was said, in whole pieces.
fn assert_beginning(session: &Spooled, journal: &[wire::obey::v1::Event]) -> Result<usize> {
    assert_numbered(journal);
    let shown = said(journal);
    let text = session.story.text();
    ensure!(text.starts_with(&shown), "{} shows what was never said", session.story.key());
    ensure!(shown.is_empty() || shown.ends_with('\n'), "{} shows half a line", session.story.key());
    Ok(shown.len())
}

#[tokio::test]
async fn a_torn_spool_is_shown_up_to_its_last_whole_line() -> Result<()> {
    let mut random = Random::new(seed());
    let mut crew = Crew::start(World::new()?).await?;
    let sessions = unread(&mut crew, 16, &mut random).await?;
    let mut cut = Vec::new();
    for session in &sessions {
        let shim = shim_pid(&crew.agents_dir(), &session.id).context("no shim")?;
        processes::signal(shim, Signal::KILL);
        poll("the shim's end", || (!processes::alive(shim)).then_some(())).await?;
        let path = segment(&session.dir);
        let length = fs::metadata(&path)?.len();
        let keep = random.within(150..length);
        OpenOptions::new().write(true).open(&path)?.set_len(keep)?;
        // A disk that lost power may also leave zeros, or rubbish, where the end was.
        if random.once_in(3) {
            let rubbish: Vec<u8> =
                (0..random.within(1..400)).map(|_| random.within(0..256) as u8 & 0x7f).collect();
            let rubbish = if random.once_in(2) { vec![0; rubbish.len()] } else { rubbish };
            OpenOptions::new().write(true).open(&path)?.write_all_at(&rubbish, keep)?;
        }
        cut.push((keep, length));
    }
    crew.restart().await?;
    let mut lengths = Vec::new();
    for (session, (keep, length)) in sessions.iter().zip(cut) {
        let (journal, why) = failed_journal(&crew, session).await?;
        assert!(why.contains("OBEY-2031"), "{why}");
        let shown = assert_beginning(session, &journal)?;
        // Most lines came alone, so little of what is left in front of the cut can be missing.
        ensure!(
            shown as u64 + 500 > keep.saturating_sub(length / 4) / 4,
            "only {shown} bytes are shown of a spool of which {keep} of {length} bytes were left"
        );
        lengths.push(shown);
    }
    lengths.sort_unstable();
    lengths.dedup();
    assert!(lengths.len() > 3, "every spool was cut at the same place: {lengths:?}");
    poll("the end of every folder", || folders(&crew.agents_dir()).is_empty().then_some(())).await?;
    crew.close().await
}

#[tokio::test]
async fn damage_ends_a_session_whose_shim_lives_and_leaves_nothing() -> Result<()> {
    let mut random = Random::new(seed());
    let mut crew = Crew::start(World::new()?).await?;
    let sessions = unread(&mut crew, 8, &mut random).await?;
    for session in &sessions {
        let file = OpenOptions::new().read(true).write(true).open(segment(&session.dir))?;
        // Beyond what the killed daemon can have read.
        let length = file.metadata()?.len();
        flip(&file, random.within(length / 4..length * 3 / 4), random.within(0..8) as u32)?;
    }
    crew.restart().await?;
    for session in &sessions {
        let (journal, why) = failed_journal(&crew, session).await?;
        assert!(why.contains("OBEY-2031") && why.contains("damaged"), "{why}");
        assert_beginning(session, &journal)?;
        let kinds: Vec<&str> = journal.iter().map(|event| event.r#type.as_str()).collect();
        assert!(!kinds.contains(&"unparsed"), "damage is shown as output: {kinds:?}");
    }
    poll("the end of every folder", || folders(&crew.agents_dir()).is_empty().then_some(())).await?;
    let agents = || crew.world.processes().into_iter().filter(|process| process.command.contains("scripted"));
    poll("the end of every agent and shim", || agents().next().is_none().then_some(())).await?;
    crew.close().await
}

fn flip(file: &File, at: u64, bit: u32) -> Result<()> {
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ (1 << bit)], at)?;
    Ok(())
}

#[tokio::test]
async fn an_agent_whose_folder_or_spool_is_gone_is_lost_and_no_other() -> Result<()> {
    let mut random = Random::new(seed());
    let mut crew = Crew::start(World::new()?).await?;
    let sessions = unread(&mut crew, 3, &mut random).await?;
    let shim = shim_pid(&crew.agents_dir(), &sessions[0].id).context("no shim")?;
    // Somebody clears away what belongs to a running agent: all of it, or only what it said.
    fs::remove_dir_all(&sessions[0].dir)?;
    fs::remove_file(segment(&sessions[1].dir))?;
    crew.restart().await?;
    for session in &sessions[..2] {
        let (journal, why) = failed_journal(&crew, session).await?;
        assert!(why.contains("OBEY-2031"), "{why}");
        assert_beginning(session, &journal)?;
    }
    let request = wire::obey::v1::ReadEventsRequest {
        session_id: sessions[2].id.clone(),
        follow: true,
        ..Default::default()
    };
    let mut events = crew.clients().events.read_events(request).await?.into_inner();
    let ended = e2e::clients::wait_event(&mut events, "its end", |event| event.r#type == "turn_ended");
    let fields: Value = serde_json::from_str(&ended.await?.json)?;
    assert_eq!(fields["text"], Value::from(sessions[2].story.answer()));
    drop(events);
    // A shim looks for its folder once a minute, and when it is asked to.
    processes::signal(shim, Signal::USR1);
    crew.close().await
}

#[tokio::test]
async fn a_full_disk_makes_agents_wait_and_loses_nothing() -> Result<()> {
    let options = e2e::faults::disk::Options { seed: seed(), rounds: 8 };
    let Some(outcome) = e2e::faults::disk::run(&options, |_| {}).await? else { return Ok(()) };
    let figures = outcome.figures();
    println!("{figures}");
    ensure!(figures.holds(), "seed {}:\n{figures}", options.seed);
    Ok(())
}
