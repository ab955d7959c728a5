//! What an agent says on its way to the rules: texts that come in pieces are scrubbed as they come, so that a secret cut in two is
//! found; what may still become one waits, and its owner is told until when. Everything else is scrubbed where it is recorded.
//! Must not know where events are kept.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::{AgentEvent, CallId, Redact};
use scrub::{Held, Live, Piece, Saved, Scrubber};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::limits;

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Text(Option<CallId>),
    Thinking(Option<CallId>),
    Progress(CallId),
    Log,
}

struct Text {
    source: Source,
    live: Live,
    /// The beginning of a line of the log.
    line: String,
    last_push: Instant,
}

/// A text that goes on in another daemon. Holds secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedText {
    source: Source,
    view: String,
    shown: usize,
    redacted: bool,
    line: String,
}

/// An event that can be recorded, and its text as it was where something was taken out.
#[derive(Debug, PartialEq)]
pub(super) struct Clean {
    pub(super) event: AgentEvent,
    pub(super) original: Option<String>,
}

impl SavedText {
    /// What was held back, as an event.
    fn rest(self) -> Option<Clean> {
        let text = self.line + self.view.get(self.shown..).unwrap_or_default();
        let event = match self.source {
            _ if text.is_empty() => return None,
            Source::Text(parent) => AgentEvent::Text { text, parent },
            Source::Thinking(parent) => AgentEvent::Thinking { text, parent },
            Source::Progress(call) => AgentEvent::ToolProgress { call, output: text },
            Source::Log => AgentEvent::Logged(text.trim_end().to_owned()),
        };
        Some(Clean::as_is(event))
    }
}

impl Clean {
    fn as_is(event: AgentEvent) -> Self {
        Self { event, original: None }
    }
}

/// The texts of one session's agent.
pub(super) struct Scrubbing {
    scrubber: Option<Scrubber>,
    redactor: Box<dyn Redact + Send + Sync>,
    texts: Vec<Text>,
    /// What a former daemon held back and this one need not.
    left: Vec<Clean>,
}

impl Scrubbing {
    /// Without a scrubber everything passes as it is.
    pub(super) fn new(scrubber: Option<Scrubber>) -> Self {
        let redactor: Box<dyn Redact + Send + Sync> = match &scrubber {
            Some(scrubber) => Box::new(Redactor(scrubber.clone())),
            None => Box::new(domain::redact::KeepAll),
        };
        Self { scrubber, redactor, texts: Vec::new(), left: Vec::new() }
    }

    /// Goes on with the texts of a former daemon.
    pub(super) fn restore(&mut self, saved: Vec<SavedText>) {
        let Some(scrubber) = &self.scrubber else {
            self.left = saved.into_iter().filter_map(SavedText::rest).collect();
            return;
        };
        self.texts = saved
            .into_iter()
            .map(|SavedText { source, view, shown, redacted, line }| {
                let live = Live::restore(scrubber, Saved { view: view.into_bytes(), shown, redacted });
                Text { source, live, line, last_push: Instant::now() }
            })
            .collect();
    }

    /// Returns what a next daemon needs to go on.
    pub(super) fn save(&self) -> Vec<SavedText> {
        let texts = self.texts.iter();
        texts
            .filter_map(|text| {
                let saved = text.live.save();
                let line = text.line.clone();
                if saved.is_none() && line.is_empty() {
                    return None;
                }
                let Saved { view, shown, redacted } =
                    saved.unwrap_or(Saved { view: Vec::new(), shown: 0, redacted: false });
                // A view is cut at its beginning, perhaps inside a letter; what is held after it is whole text.
                let (before, held) = view.split_at(shown.min(view.len()));
                let mut view = String::from_utf8_lossy(before).into_owned();
                let shown = view.len();
                view.push_str(&String::from_utf8_lossy(held));
                Some(SavedText { source: text.source.clone(), view, shown, redacted, line })
            })
            .collect()
    }

    /// Returns what takes secrets out of records.
    pub(super) fn redact(&self) -> &dyn Redact {
        &*self.redactor
    }

    /// Takes what an agent reports and returns what can be recorded by now, in order.
    pub(super) fn take(&mut self, event: AgentEvent) -> Vec<Clean> {
        let mut out = std::mem::take(&mut self.left);
        if self.scrubber.is_none() {
            out.push(Clean::as_is(event));
            return out;
        }
        match event {
            AgentEvent::Text { text, parent } => {
                self.finish_one(&Source::Thinking(parent.clone()), &mut out);
                self.push(Source::Text(parent), &text, &mut out);
            }
            AgentEvent::Thinking { text, parent } => {
                self.finish_one(&Source::Text(parent.clone()), &mut out);
                self.push(Source::Thinking(parent), &text, &mut out);
            }
            AgentEvent::ToolProgress { call, output } => self.push(Source::Progress(call), &output, &mut out),
            AgentEvent::Logged(line) => self.push(Source::Log, &format!("{line}\n"), &mut out),
            other => {
                self.finish_before(&other, &mut out);
                out.push(Clean::as_is(other));
            }
        }
        out
    }

    /// Ends the texts that an event ends.
    fn finish_before(&mut self, event: &AgentEvent, out: &mut Vec<Clean>) {
        match event {
            AgentEvent::ToolStarted { parent, .. } => {
                self.finish_one(&Source::Text(parent.clone()), out);
                self.finish_one(&Source::Thinking(parent.clone()), out);
            }
            AgentEvent::ToolFinished { call, .. } => {
                self.finish_one(&Source::Progress(call.clone()), out);
                self.finish_one(&Source::Text(Some(call.clone())), out);
                self.finish_one(&Source::Thinking(Some(call.clone())), out);
            }
            AgentEvent::TurnStarted
            | AgentEvent::TurnEnded { .. }
            | AgentEvent::Asked { .. }
            | AgentEvent::Checks { .. }
            | AgentEvent::Compacted { .. }
            | AgentEvent::Broken { .. } => self.finish_all(out),
            _ => {}
        }
    }

    /// Ends every text: nothing more comes of them.
    pub(super) fn finish_all(&mut self, out: &mut Vec<Clean>) {
        out.append(&mut self.left);
        for mut text in std::mem::take(&mut self.texts) {
            text.finish(out);
        }
    }

    /// Returns when something must be let out that waits for more.
    pub(super) fn due(&self) -> Option<Instant> {
        self.texts.iter().filter_map(Text::due).min()
    }

    /// Lets out what has waited long enough.
    pub(super) fn release(&mut self, now: Instant) -> Vec<Clean> {
        let mut out = Vec::new();
        for text in &mut self.texts {
            if text.due().is_some_and(|due| due <= now) {
                text.release(&mut out);
            }
        }
        out
    }

    fn push(&mut self, source: Source, piece: &str, out: &mut Vec<Clean>) {
        let Some(scrubber) = &self.scrubber else { return };
        let at = match self.texts.iter().position(|text| text.source == source) {
            Some(at) => at,
            None => {
                if self.texts.len() >= limits::LIVE_TEXTS_MAX {
                    self.texts.remove(0).finish(out);
                }
                let (live, last_push) = (Live::new(scrubber), Instant::now());
                self.texts.push(Text { source, live, line: String::new(), last_push });
                self.texts.len() - 1
            }
        };
        let text = &mut self.texts[at];
        let piece = text.live.push(piece);
        text.last_push = Instant::now();
        text.put(piece, out);
    }

    fn finish_one(&mut self, source: &Source, out: &mut Vec<Clean>) {
        if let Some(at) = self.texts.iter().position(|text| text.source == *source) {
            self.texts.remove(at).finish(out);
        }
    }
}

impl Text {
    fn due(&self) -> Option<Instant> {
        let wait: Duration = match self.live.held() {
            Held::Nothing if self.line.is_empty() => return None,
            Held::Nothing | Held::Perhaps => limits::LIVE_WAIT,
            Held::Likely => limits::LIVE_LIKELY_WAIT,
        };
        Some(self.last_push + wait)
    }

    fn finish(&mut self, out: &mut Vec<Clean>) {
        let piece = self.live.finish();
        self.put(piece, out);
        self.put_line(out);
    }

    fn release(&mut self, out: &mut Vec<Clean>) {
        let piece = self.live.release();
        self.put(piece, out);
        self.put_line(out);
    }

    fn put_line(&mut self, out: &mut Vec<Clean>) {
        if !self.line.is_empty() {
            out.push(Clean::as_is(AgentEvent::Logged(std::mem::take(&mut self.line))));
        }
    }

    fn put(&mut self, Piece { text, original }: Piece, out: &mut Vec<Clean>) {
        if text.is_empty() {
            return;
        }
        let event = match &self.source {
            Source::Text(parent) => AgentEvent::Text { text, parent: parent.clone() },
            Source::Thinking(parent) => AgentEvent::Thinking { text, parent: parent.clone() },
            Source::Progress(call) => AgentEvent::ToolProgress { call: call.clone(), output: text },
            Source::Log => {
                for part in text.split_inclusive('\n') {
                    self.line.push_str(part);
                    if let Some(line) = self.line.strip_suffix('\n') {
                        let event = AgentEvent::Logged(line.to_owned());
                        out.push(Clean {
                            event,
                            original: original.as_deref().map(|text| text.trim_end().to_owned()),
                        });
                        self.line.clear();
                    }
                }
                return;
            }
        };
        out.push(Clean { event, original });
    }
}

/// Takes secrets out of records.
struct Redactor(Scrubber);

impl Redact for Redactor {
    fn redact(&self, text: &str) -> Option<String> {
        self.0.redacted(text)
    }

    fn redact_named(&self, name: &str, text: &str) -> Option<String> {
        let named = self.0.redacted(&format!("{name}=\"{text}\""));
        let inner = named.as_deref().and_then(|named| {
            named.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"').map(str::to_owned)
        });
        inner.or_else(|| self.redact(text))
    }

    fn redact_base64(&self, media_type: &str, content: &str) -> Option<String> {
        let is_text = media_type.is_empty()
            || media_type.starts_with("text/")
            || ["json", "yaml", "toml", "xml", "javascript", "x-sh"]
                .iter()
                .any(|kind| media_type.contains(kind));
        let text = STANDARD.decode(content).ok().filter(|_| is_text)?;
        let clean = self.0.redacted(std::str::from_utf8(&text).ok()?)?;
        Some(STANDARD.encode(clean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbing() -> Scrubbing {
        Scrubbing::new(Some(Scrubber::new(&scrub::Config::new()).unwrap()))
    }

    fn token() -> String {
        format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
    }

    fn text(text: &str) -> AgentEvent {
        AgentEvent::Text { text: text.to_owned(), parent: None }
    }

    fn ended() -> AgentEvent {
        let reason = domain::turn::EndReason::Completed;
        AgentEvent::TurnEnded { reason, text: String::new(), error: String::new() }
    }

    #[tokio::test]
    async fn what_is_held_comes_out_before_the_end_of_the_turn() {
        let mut scrubbing = scrubbing();
        assert_eq!(scrubbing.take(text("it is ghp_a1B2")), [Clean::as_is(text("it is "))]);
        assert!(scrubbing.due().is_some());
        assert_eq!(scrubbing.take(ended()), [Clean::as_is(text("ghp_a1B2")), Clean::as_is(ended())]);
        assert_eq!(scrubbing.due(), None);
        assert_eq!(scrubbing.save(), []);
    }

    #[tokio::test]
    async fn speakers_do_not_complete_each_others_secrets_nor_end_them() {
        let mut scrubbing = scrubbing();
        let call = CallId::new("c1");
        let other = |text: &str| AgentEvent::Text { text: text.to_owned(), parent: Some(CallId::new("c2")) };
        let progress =
            |output: &str| AgentEvent::ToolProgress { call: call.clone(), output: output.to_owned() };
        let token = token();
        assert_eq!(scrubbing.take(text(&token[..10])), []);
        assert_eq!(scrubbing.take(progress(&token[..20])), []);
        assert_eq!(scrubbing.take(other("hello ")), [Clean::as_is(other("hello "))]);
        let said = scrubbing.take(text(&format!("{} x", &token[10..])));
        assert_eq!(said[0].event, text("[REDACTED:github-pat] "));
        assert_eq!(said[0].original, Some(format!("{token} ")));
        let said = scrubbing.take(progress(&format!("{}\n", &token[20..])));
        assert_eq!(said[0].event, progress("[REDACTED:github-pat]\n"));
    }

    #[tokio::test]
    async fn a_text_goes_on_in_the_next_daemon() {
        let mut former = scrubbing();
        assert_eq!(former.take(text("the password=")).len(), 1);
        assert_eq!(former.take(text("Kx9vQ2mZ")), []);
        let mut next = scrubbing();
        next.restore(former.save());
        let said = next.take(text("7pLw4Rt8\n"));
        assert!(!format!("{said:?}").contains("event: Text { text: \"Kx9v"), "{said:?}");
        assert!(
            matches!(&said[0].event, AgentEvent::Text { text, .. } if text.contains("[REDACTED:")),
            "{said:?}"
        );
    }

    #[tokio::test]
    async fn nothing_of_a_text_is_lost_though_its_letters_have_several_bytes() {
        let whole: String =
            (0..400).map(|n| format!("teller·{n}·{}", ["e", "é", "€", "🐎"][n % 4])).collect();
        let letters: Vec<char> = whole.chars().collect();
        let mut said = String::new();
        let mut note = |events: Vec<Clean>| {
            for clean in events {
                if let AgentEvent::Text { text, .. } = clean.event {
                    said.push_str(&text);
                }
            }
        };
        let mut current = scrubbing();
        for piece in letters.chunks(7) {
            note(current.take(text(&piece.iter().collect::<String>())));
            let mut next = scrubbing();
            next.restore(current.save());
            current = next;
        }
        note(current.take(ended()));
        assert_eq!(said, whole);
    }

    #[tokio::test]
    async fn held_text_is_released_where_scrubbing_is_off() {
        let mut former = scrubbing();
        assert_eq!(former.take(text("ghp_a1B2")), []);
        let mut next = Scrubbing::new(None);
        next.restore(former.save());
        assert_eq!(next.take(text("x")), [Clean::as_is(text("ghp_a1B2")), Clean::as_is(text("x"))]);
    }

    #[tokio::test]
    async fn lines_of_the_log_stay_lines() {
        let mut scrubbing = scrubbing();
        let logged = |line: &str| AgentEvent::Logged(line.to_owned());
        assert_eq!(scrubbing.take(logged("hello there")), [Clean::as_is(logged("hello there"))]);
        let said = scrubbing.take(logged(&format!("token {}", token())));
        assert_eq!(said[0].event, logged("token [REDACTED:github-pat]"));
    }

    #[test]
    fn a_field_is_judged_by_its_name() {
        let redactor = Redactor(Scrubber::new(&scrub::Config::new()).unwrap());
        let clean = redactor.redact_named("password", "Kx9vQ2mZ7pLw4Rt8").unwrap();
        assert!(clean.starts_with("[REDACTED:"), "{clean}");
        assert_eq!(redactor.redact_named("path", "src/main.rs"), None);
    }
}
