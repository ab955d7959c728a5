//! Prompts sent into a daemon that is being killed. One that was accepted must reach the agent exactly once; one that
//! got no answer at most once; one that was refused never. What the agent received is what it says, word for word.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio_stream::StreamExt;
use wire::obey::v1 as own;

use super::crew::{self, Crew};
use super::figures::{Figures, grouped};
use super::kills::is_gone;
use super::random::Random;
use crate::deadline::within;
use crate::world::World;

/// How often, and how many sessions are spoken to at once.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub trials: usize,
    pub sessions: usize,
    /// The kill falls within this time after the first word is sent.
    pub window: Duration,
}

/// What became of the words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub trials: usize,
    pub accepted: u64,
    /// The daemon died before it answered.
    pub unanswered: u64,
    /// Of these, how many had been taken all the same.
    pub unanswered_delivered: u64,
    pub lost: u64,
    pub duplicated: u64,
    /// Words of prompts that were refused, or out of order.
    pub wrong: u64,
    pub first_fault: Option<String>,
}

/// What a client knows of a word it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Accepted,
    Unanswered,
    Refused,
}

struct Target {
    id: String,
    /// Words are added to a turn that never ends, instead of each being a turn of its own.
    steers: bool,
    words: Vec<(String, Fate)>,
}

/// Runs it. `told` hears about the progress.
pub async fn run(options: &Options, mut told: impl FnMut(usize)) -> Result<Outcome> {
    let mut random = Random::new(options.seed);
    let mut crew = Crew::start(World::new()?).await?;
    let mut targets = Vec::new();
    for number in 0..options.sessions {
        let id = crew.create().await?.id;
        let steers = number % 2 == 1;
        if steers {
            crew.prompt(&id, &format!("endless SCRIPT: {}", json!([{"hang": true}]))).await?;
        }
        targets.push(Target { id, steers, words: Vec::new() });
    }
    let mut outcome = Outcome::default();
    for trial in 0..options.trials {
        send_into_kill(&mut crew, &mut targets, trial, random.below(options.window)).await?;
        crew.restart().await?;
        for target in &targets {
            settle(&crew, target).await.with_context(|| format!("trial {trial}"))?;
        }
        outcome.trials += 1;
        told(outcome.trials);
    }
    for target in &targets {
        outcome.judge(target, &crew.journal(&target.id).await?);
    }
    crew.close().await?;
    Ok(outcome)
}

/// Sends one word to every session, kills the daemon meanwhile, and notes what each sender was told.
async fn send_into_kill(
    crew: &mut Crew,
    targets: &mut [Target],
    trial: usize,
    delay: Duration,
) -> Result<()> {
    let mut sending = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        let word = format!("w{number:02}-{trial:05}");
        let (id, steers, clients) = (target.id.clone(), target.steers, crew.clients());
        sending.push(tokio::spawn(async move {
            let text = match steers {
                true => word.clone(),
                false => format!("{word} SCRIPT: {}", json!([{"text": format!("{word}\n")}])),
            };
            (word, crew::prompt(&clients, &id, &text, steers).await)
        }));
    }
    tokio::time::sleep(delay).await;
    crew.kill().await?;
    for (target, sent) in targets.iter_mut().zip(sending) {
        let (word, answer) = within("the end of a call", sent).await??;
        let fate = match answer {
            Ok(()) => Fate::Accepted,
            Err(status) if is_gone(&status) => Fate::Unanswered,
            Err(_) => Fate::Refused,
        };
        target.words.push((word, fate));
    }
    Ok(())
}

/// Waits until the session has dealt with the last word, if it has it at all.
async fn settle(crew: &Crew, target: &Target) -> Result<()> {
    let Some((word, fate)) = target.words.last() else { return Ok(()) };
    let taken = journal_tail(crew, &target.id).await?.iter().any(|event| mentions(event, word));
    ensure!(taken || *fate != Fate::Accepted, "the accepted prompt {word} is not in the journal");
    if !taken {
        return Ok(());
    }
    let request =
        own::ReadEventsRequest { session_id: target.id.clone(), follow: true, ..Default::default() };
    let mut events = crew.clients().events.read_events(request).await?.into_inner();
    let mut said = false;
    within(&format!("the agent's answer to {word}"), async {
        while let Some(event) = events.next().await {
            let event = event?;
            said |= event.r#type == "text_delta" && mentions(&event, word);
            // A turn of its own is over when the session is RUNNING again.
            if said && (target.steers || event.r#type == "status_changed") {
                return Ok(());
            }
        }
        anyhow::bail!("the stream ended")
    })
    .await?
}

async fn journal_tail(crew: &Crew, id: &str) -> Result<Vec<own::Event>> {
    crew.journal(id).await
}

fn mentions(event: &own::Event, word: &str) -> bool {
    event.json.contains(word)
}

impl Outcome {
    /// Counts each word in what the agent said.
    fn judge(&mut self, target: &Target, journal: &[own::Event]) {
        let mut said: BTreeMap<String, u64> = BTreeMap::new();
        let mut order = Vec::new();
        for event in journal.iter().filter(|event| event.r#type == "text_delta") {
            let fields: Value = serde_json::from_str(&event.json).unwrap_or_default();
            let text = fields["text"].as_str().unwrap_or_default();
            let word = text.trim_end().trim_start_matches("steered: ").to_owned();
            order.push(word.clone());
            *said.entry(word).or_default() += 1;
        }
        if !order.is_sorted() {
            self.wrong += 1;
            self.blame(|| format!("the words of {} are out of order", target.id));
        }
        for (word, fate) in &target.words {
            let times = said.remove(word).unwrap_or(0);
            match fate {
                Fate::Accepted => self.accepted += 1,
                Fate::Unanswered => {
                    self.unanswered += 1;
                    self.unanswered_delivered += times.min(1);
                }
                Fate::Refused => {}
            }
            let (lost, wrong) = match fate {
                Fate::Accepted => (times == 0, false),
                Fate::Unanswered => (false, false),
                Fate::Refused => (false, times > 0),
            };
            self.lost += u64::from(lost);
            self.wrong += u64::from(wrong);
            self.duplicated += times.saturating_sub(1);
            if lost || wrong || times > 1 {
                self.blame(|| format!("{word}, {fate:?}, reached the agent {times} times"));
            }
        }
        for (word, times) in said {
            self.wrong += times;
            self.blame(|| format!("nobody sent {word:?}"));
        }
    }

    fn blame(&mut self, why: impl FnOnce() -> String) {
        self.first_fault.get_or_insert_with(why);
    }

    pub fn holds(&self) -> bool {
        self.lost + self.duplicated + self.wrong == 0
    }

    pub fn figures(&self) -> Figures {
        let mut figures = Figures::of("input");
        figures.tell("crash trials", grouped(self.trials as u64));
        figures.tell("prompts accepted", grouped(self.accepted));
        figures.tell("prompts without an answer", grouped(self.unanswered));
        figures.tell("of these delivered all the same", grouped(self.unanswered_delivered));
        figures.demand_none("accepted prompts lost", self.lost);
        figures.demand_none("prompts delivered twice", self.duplicated);
        figures.demand_none("prompts refused, but delivered", self.wrong);
        figures.remarks.extend(self.first_fault.iter().map(|fault| format!("first fault: {fault}")));
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(words: &[(&str, Fate)], said: &[&str]) -> Outcome {
        let words = words.iter().map(|(word, fate)| ((*word).to_owned(), *fate)).collect();
        let target = Target { id: "x".into(), steers: false, words };
        let event = |text: &&str| own::Event {
            r#type: "text_delta".into(),
            json: json!({"text": format!("{text}\n")}).to_string(),
            ..Default::default()
        };
        let mut outcome = Outcome::default();
        outcome.judge(&target, &said.iter().map(event).collect::<Vec<_>>());
        outcome
    }

    #[test]
    fn words_are_counted_by_what_their_sender_was_told() {
        use Fate::{Accepted, Refused, Unanswered};
        assert!(judged(&[("a", Accepted), ("b", Unanswered), ("c", Refused)], &["a", "b"]).holds());
        assert!(judged(&[("a", Accepted), ("b", Unanswered)], &["steered: a"]).holds());
        assert_eq!(judged(&[("a", Accepted)], &[]).lost, 1);
        assert_eq!(judged(&[("a", Accepted)], &["a", "a"]).duplicated, 1);
        assert_eq!(judged(&[("a", Unanswered)], &["a", "a"]).duplicated, 1);
        assert_eq!(judged(&[("a", Refused)], &["a"]).wrong, 1);
        assert_eq!(judged(&[("a", Accepted), ("b", Accepted)], &["b", "a"]).wrong, 1);
        assert_eq!(judged(&[], &["z"]).wrong, 1);
    }
}
