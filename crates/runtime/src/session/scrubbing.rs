//! What an agent says on its way to the rules: texts that come in pieces are scrubbed as they come, so that a secret cut in two is
//! found; what may still become one waits until more comes or its text ends. Everything else is scrubbed where it is recorded.
//! Must not know where events are kept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::{AgentEvent, CallId, Redact, any_report};
use scrub::{Live, Piece, Saved, Scrubber};
use serde::{Deserialize, Serialize};

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
        let redactor = redactor(scrubber.clone());
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
                Text { source, live, line }
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
            other @ any_report!(
                life turn ToolStarted ToolFinished request settings usage worker Notice Waits Unparsed
            ) => {
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
            any_report!(Ready text ToolProgress Withdrew settings Usage RateLimited worker log) => {}
        }
    }

    /// Ends every text: nothing more comes of them.
    pub(super) fn finish_all(&mut self, out: &mut Vec<Clean>) {
        out.append(&mut self.left);
        for mut text in std::mem::take(&mut self.texts) {
            text.finish(out);
        }
    }

    fn push(&mut self, source: Source, piece: &str, out: &mut Vec<Clean>) {
        let Some(scrubber) = &self.scrubber else { return };
        let at = match self.texts.iter().position(|text| text.source == source) {
            Some(at) => at,
            None => {
                if self.texts.len() >= limits::LIVE_TEXTS_MAX {
                    self.texts.remove(0).finish(out);
                }
                self.texts.push(Text { source, live: Live::new(scrubber), line: String::new() });
                self.texts.len() - 1
            }
        };
        let text = &mut self.texts[at];
        let piece = text.live.push(piece);
        text.put(piece, out);
    }

    fn finish_one(&mut self, source: &Source, out: &mut Vec<Clean>) {
        if let Some(at) = self.texts.iter().position(|text| text.source == *source) {
            self.texts.remove(at).finish(out);
        }
    }
}

impl Text {
    fn finish(&mut self, out: &mut Vec<Clean>) {
        let piece = self.live.finish();
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

/// Returns what takes secrets out of records; without a scrubber, nothing does.
pub(crate) fn redactor(scrubber: Option<Scrubber>) -> Box<dyn Redact + Send + Sync> {
    match scrubber {
        Some(scrubber) => Box::new(Redactor(scrubber)),
        None => Box::new(domain::redact::KeepAll),
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
mod tests;
