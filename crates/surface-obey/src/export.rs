//! `ExportService`: a session as Markdown or JSON. Secrets were taken out before the journal, so there are none here that
//! the journal does not have.

use domain::request::RequestSubject;
use domain::{CallId, Error, Event, EventKind, any_event};
use runtime::Snapshot;
use serde_json::json;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::export_service_server::ExportService;

use super::local::answer;
use super::{Obey, from_wire};
use surface::pump::{Flow, Messages, Projector, ReadUntil, pump};

#[tonic::async_trait]
impl ExportService for Obey {
    type ExportStream = Messages<pb::ExportChunk>;

    async fn export(
        &self,
        request: Request<pb::ExportRequest>,
    ) -> Result<Response<Self::ExportStream>, Status> {
        answer(self.export_session(&request.into_inner()).await)
    }
}

impl Obey {
    async fn export_session(&self, request: &pb::ExportRequest) -> Result<Messages<pb::ExportChunk>, Error> {
        let id = from_wire::session_id(&request.session_id)?;
        let snapshot = self.supervisor.snapshot(&id).await?;
        let mut cursor = self.supervisor.events_after(&id, 0).await?;
        let newest = cursor.newest();
        // Events that retention has removed are missing; the gap in the numbers shows that.
        cursor.skip_removed().await?;
        Ok(match request.format() {
            pb::ExportFormat::Markdown => {
                pump(cursor, MarkdownProjector::new(&snapshot, newest), ReadUntil::Event(newest))
            }
            pb::ExportFormat::Json => {
                pump(cursor, JsonProjector::new(&snapshot, newest), ReadUntil::Event(newest))
            }
            pb::ExportFormat::Unspecified => {
                return Err(Error::invalid("format", "is required: Markdown or JSON"));
            }
        })
    }
}

fn chunk(text: String) -> pb::ExportChunk {
    pb::ExportChunk { text }
}

/// One JSON object: the session and its events.
struct JsonProjector {
    head: Option<String>,
    newest: u64,
}

impl JsonProjector {
    fn new(snapshot: &Snapshot, newest: u64) -> Self {
        let (spec, state) = (&snapshot.spec, &snapshot.state);
        let session = json!({
            "session_id": spec.id.as_str(),
            "name": state.name,
            "provider": spec.provider.name(),
            "model": state.model,
            "mode": state.mode.name(),
            "status": state.status.name(),
            "folder": spec.working_dir.display().to_string(),
            "created_at": time(spec.created_at),
        });
        Self { head: Some(format!("{{\"session\":{session},\"events\":[\n")), newest }
    }
}

impl Projector for JsonProjector {
    type Wire = pb::ExportChunk;

    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow {
        let mut text = self.head.take().unwrap_or_else(|| ",\n".to_owned());
        let line = json!({"seq": event.seq, "at": time(event.at), "event": event.kind});
        text.push_str(&line.to_string());
        if event.seq >= self.newest {
            text.push_str("\n]}\n");
        }
        out.push(chunk(text));
        Flow::More
    }
}

fn time(at: domain::Timestamp) -> String {
    let (seconds, nanos) = at.seconds_and_nanos();
    jiff::Timestamp::new(seconds, nanos).map_or_else(|_| String::new(), |at| at.to_string())
}

/// The conversation: prompts, answers, calls with their outputs, requests with their answers.
struct MarkdownProjector {
    head: Option<String>,
    newest: u64,
    /// A text is being written, by this speaker.
    open: Option<Option<CallId>>,
    has_answered: bool,
}

impl MarkdownProjector {
    fn new(snapshot: &Snapshot, newest: u64) -> Self {
        let (spec, state) = (&snapshot.spec, &snapshot.state);
        let mut head = format!("# {}\n\n", escaped_line(&state.name));
        for (name, value) in [
            ("Session", spec.id.to_string()),
            ("Agent", format!("{} {}", spec.provider.name(), state.model).trim().to_owned()),
            ("Folder", spec.working_dir.display().to_string()),
            ("Begun", time(spec.created_at)),
        ] {
            head.push_str(&format!("- {name}: {}\n", escaped_line(&value)));
        }
        Self { head: Some(head), newest, open: None, has_answered: false }
    }

    /// Returns the text of an event; empty for what is not part of a conversation.
    fn text(&mut self, kind: &EventKind) -> String {
        if let EventKind::TextDelta { text, parent } = kind {
            let is_same = self.open.as_ref() == Some(parent);
            self.open = Some(parent.clone());
            self.has_answered |= parent.is_none();
            return match (is_same, parent) {
                (true, _) => text.clone(),
                (false, None) => format!("\n{text}"),
                (false, Some(_)) => format!("\n> (sub-agent)\n\n{text}"),
            };
        }
        let block = self.block(kind);
        if block.is_empty() {
            return block;
        }
        let gap = if self.open.take().is_some() { "\n" } else { "" };
        format!("{gap}\n{block}\n")
    }

    fn block(&mut self, kind: &EventKind) -> String {
        match kind {
            EventKind::TurnStarted { turn, prompt, by, .. } => {
                self.has_answered = false;
                let by = if by.is_empty() { String::new() } else { format!(", by {}", escaped_line(by)) };
                format!("## Turn {}{by}\n\n{}", turn.0, quoted(prompt))
            }
            EventKind::MessageAdded { text, .. } => quoted(text),
            EventKind::ToolStarted { tool, title, input, .. } => {
                let title =
                    if title.is_empty() { String::new() } else { format!(": {}", escaped_line(title)) };
                let input = serde_json::to_string_pretty(input).unwrap_or_default();
                format!("**{}**{title}\n\n{}", escaped_line(tool), fenced("json", &input))
            }
            EventKind::ToolFinished { ok, output, .. } => {
                let failed = if *ok { "" } else { "*failed*\n\n" };
                format!("{failed}{}", fenced("", output))
            }
            EventKind::RequestOpened { request, automatic: false, ask, .. } => {
                asked(&request.to_string(), ask)
            }
            EventKind::RequestSettled { request, outcome, by, message, .. } => {
                let message =
                    if message.is_empty() { String::new() } else { format!(": {}", escaped_line(message)) };
                format!("*{request} {} by {}{message}*", outcome.word(), escaped_line(by))
            }
            EventKind::TurnEnded { reason, text, error, .. } => {
                let said = if std::mem::take(&mut self.has_answered) { "" } else { text.as_str() };
                let gap = if said.is_empty() { "" } else { "\n\n" };
                let error =
                    if error.is_empty() { String::new() } else { format!(": {}", escaped_line(error)) };
                format!("{said}{gap}*Turn {}{error}*", reason.name().replace('_', " "))
            }
            EventKind::StatusChanged { to, message, .. } if to.is_terminal() => {
                format!("*Session {}: {}*", to.name(), escaped_line(message))
            }
            EventKind::Compacted { .. } => "*The conversation was compacted.*".to_owned(),
            EventKind::Notice { message, .. } => format!("*{}*", escaped_line(message)),
            any_event!(
                SessionCreated StatusChanged AgentStarted AgentReady AgentExited AgentLogged Restarted
                InterruptRequested TextDelta ThinkingDelta ToolProgress RequestOpened GrantsChanged settings
                plan UsageReported worker ActivityReported Unparsed
            ) => String::new(),
        }
    }
}

impl Projector for MarkdownProjector {
    type Wire = pb::ExportChunk;

    fn project(&mut self, event: &Event, out: &mut Vec<Self::Wire>) -> Flow {
        let mut text = self.head.take().unwrap_or_default();
        text.push_str(&self.text(&event.kind));
        if event.seq >= self.newest && self.open.is_some() {
            text.push('\n');
        }
        if !text.is_empty() {
            out.push(chunk(text));
        }
        Flow::More
    }
}

fn asked(request: &str, ask: &RequestSubject) -> String {
    match ask {
        RequestSubject::Permission(ask) => format!("*{request}: may {} be used?*", escaped_line(&ask.tool)),
        RequestSubject::Question { questions, .. } => {
            let texts: Vec<String> = questions.iter().map(|question| quoted(&question.text)).collect();
            format!("*{request}: a question*\n\n{}", texts.join("\n>\n"))
        }
        RequestSubject::ClientTool { tool, .. } => {
            format!("*{request}: a client runs {}*", escaped_line(tool))
        }
    }
}

/// Returns a text as a quotation.
fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// Returns a text in a fence that is longer than any within it.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}", text.trim_end_matches('\n'))
}

/// Returns one line in which nothing is markup.
fn escaped_line(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        match char {
            '\n' | '\r' => escaped.push(' '),
            '*' | '_' | '`' | '[' | ']' | '<' | '>' | '#' | '\\' => {
                escaped.push('\\');
                escaped.push(char);
            }
            char if char.is_control() => {}
            char => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_within() {
        assert_eq!(fenced("", "a"), "```\na\n```");
        assert_eq!(fenced("", "```\nx\n```"), "````\n```\nx\n```\n````");
    }

    #[test]
    fn markdown_in_names_is_escaped() {
        assert_eq!(escaped_line("# *a*\n<b>"), "\\# \\*a\\* \\<b\\>");
    }
}
