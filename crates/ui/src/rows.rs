//! A row of a transcript as lines of a width. Matches every kind of row, so that a new one cannot be forgotten. Knows no
//! scrolling; all text of agents is cleaned here.

use ratatui::text::{Line, Span};
use view::{CallRow, CallState, FileChange, RequestRow, Row, RowBody};

use crate::highlight::Highlights;
use crate::theme::{Glyph, Role, Theme};
use crate::{cells, format, limits, markdown, sanitize};

/// How rows are laid out.
pub(crate) struct RowLayout<'a> {
    pub(crate) theme: &'a Theme,
    pub(crate) highlights: &'a Highlights,
    pub(crate) cells: usize,
}

/// Whether a row can be folded.
pub(crate) fn can_fold(row: &Row) -> bool {
    matches!(
        row.body,
        RowBody::Thinking { .. } | RowBody::Calls { .. } | RowBody::Edit { .. } | RowBody::Compaction { .. }
    )
}

/// Whether a row is open unless a person said otherwise.
pub(crate) fn is_open_at_first(row: &Row) -> bool {
    !matches!(row.body, RowBody::Thinking { .. } | RowBody::Calls { .. } | RowBody::Compaction { .. })
}

/// Returns the text of a row for searching and copying.
pub(crate) fn plain_text(row: &Row) -> String {
    match &row.body {
        RowBody::Prompt { text, .. } | RowBody::Text { text, .. } | RowBody::Thinking { text, .. } => {
            text.clone()
        }
        RowBody::Calls { calls, .. } => calls.iter().map(call_plain).collect::<Vec<_>>().join("\n"),
        RowBody::Edit { call, files } => {
            let mut text = call_plain(call);
            for file in files {
                text.push_str(&format!("\n{}", file.path));
                for line in &file.lines {
                    text.push_str(&format!("\n{}{}", line.mark, line.text));
                }
            }
            text
        }
        RowBody::Plan { todos, .. } => {
            todos.iter().map(|todo| todo.text.clone()).collect::<Vec<_>>().join("\n")
        }
        RowBody::Request(request) => format!("{} {}", request.text, request.outcome),
        RowBody::TurnEnd { text, error, .. } => format!("{text}{error}"),
        RowBody::Compaction { summary, .. } => summary.clone(),
        RowBody::Worker { title, summary, .. } => format!("{title} {summary}"),
        RowBody::Activity { content, .. } => content.clone(),
        RowBody::Notice { text, .. } => text.clone(),
        RowBody::Gap { .. } => String::new(),
    }
}

fn call_plain(call: &CallRow) -> String {
    format!("{}\n{}", call.text, call.output)
}

impl RowLayout<'_> {
    /// Returns the lines of a row.
    pub(crate) fn lines(&self, row: &Row, open: bool) -> Vec<Line<'static>> {
        if row.parent.is_some() {
            let inner = RowLayout { cells: self.cells.saturating_sub(2).max(4), ..*self };
            let bar = format!("{} ", self.theme.glyph(Glyph::Quote));
            let mut lines = inner.body(&row.body, open);
            for line in &mut lines {
                line.spans.insert(0, Span::styled(bar.clone(), self.theme.style(Role::Dim)));
            }
            return lines;
        }
        self.body(&row.body, open)
    }

    fn body(&self, body: &RowBody, open: bool) -> Vec<Line<'static>> {
        match body {
            RowBody::Prompt { origin, added, text, by, attachments, .. } => {
                let names: Vec<&str> = attachments.iter().map(|file| file.name.as_str()).collect();
                self.prompt(origin, *added, text, by, &names)
            }
            RowBody::Text { text, .. } => {
                let text = sanitize::clean(text);
                let mut lines = markdown::lines(&text, self.cells, self.theme, self.highlights);
                if !lines.is_empty() {
                    lines.push(Line::default());
                }
                lines
            }
            RowBody::Thinking { text, .. } => self.thinking(text, open),
            RowBody::Calls { summary, calls, .. } => self.calls(summary, calls, open),
            RowBody::Edit { call, files } => self.edit(call, files, open),
            RowBody::Plan { todos, done, total } => self.plan(todos, *done, *total),
            RowBody::Request(request) => self.request(request),
            RowBody::TurnEnd { reason, error, text, took_ms, usage, .. } => {
                let mut lines = Vec::new();
                if !text.is_empty() {
                    let text = sanitize::clean(text);
                    lines = markdown::lines(&text, self.cells, self.theme, self.highlights);
                }
                let usage =
                    usage.map(|usage| (usage.input_tokens + usage.output_tokens, usage.cost_micro_usd));
                lines.extend(self.turn_end(reason, error, *took_ms, usage));
                lines.push(Line::default());
                lines
            }
            RowBody::Compaction { tokens_before, tokens_after, summary } => {
                self.compaction(*tokens_before, *tokens_after, summary, open)
            }
            RowBody::Worker { title, state, summary, worker, .. } => {
                self.worker(if title.is_empty() { worker } else { title }, *state, summary)
            }
            RowBody::Activity { activity, agent_name, tool, content, .. } => {
                let parts = [activity, agent_name, tool, content];
                let parts: Vec<&str> =
                    parts.iter().map(|part| part.as_str()).filter(|part| !part.is_empty()).collect();
                let text = sanitize::clean(&parts.join(" "));
                cells::wrap_text(&text, self.theme.style(Role::Text), self.cells, "  ")
            }
            RowBody::Notice { word, level, code, text } => self.notice(word, level, code, text),
            RowBody::Gap { from, to } => {
                let count = to + 1 - from;
                let text = format!("{} earlier events are not shown", count);
                vec![self.line(Role::Dim, &text)]
            }
        }
    }

    fn plan(&self, todos: &[view::TodoRow], done: u64, total: u64) -> Vec<Line<'static>> {
        let mut lines = vec![self.line(Role::Dim, &format!("to-dos {done}/{total}"))];
        for todo in todos {
            let (glyph, role) = match todo.status {
                "completed" => (Glyph::Good, Role::Dim),
                "in_progress" => (Glyph::Running, Role::Accent),
                _ => (Glyph::Pending, Role::Text),
            };
            let priority =
                todo.priority.map_or_else(String::new, |priority| format!(" ({priority} priority)"));
            let text =
                format!("  {} {}{priority}", self.theme.glyph(glyph), sanitize::clean_line(todo.words()));
            lines.extend(cells::wrap_text(&text, self.theme.style(role), self.cells, "    "));
            if !todo.description.is_empty() {
                let text = format!("    {}", sanitize::clean_line(&todo.description));
                lines.extend(cells::wrap_text(&text, self.theme.style(Role::Dim), self.cells, "    "));
            }
        }
        lines
    }

    fn compaction(
        &self,
        before: Option<u64>,
        after: Option<u64>,
        summary: &str,
        open: bool,
    ) -> Vec<Line<'static>> {
        let tokens = |tokens: Option<u64>| tokens.map_or_else(|| "?".to_owned(), format::count);
        let fold = self.theme.glyph(if open { Glyph::Opened } else { Glyph::Folded });
        let text = format!("{fold} compacted: {} to {} tokens", tokens(before), tokens(after));
        let mut lines = vec![self.line(Role::Dim, &text)];
        if open && !summary.is_empty() {
            lines.extend(self.indented(Role::Dim, &sanitize::clean(summary)));
        }
        lines
    }

    fn worker(&self, title: &str, state: CallState, summary: &str) -> Vec<Line<'static>> {
        let mut text = format!("{} worker {}", self.state_glyph(state), sanitize::clean_line(title));
        if !summary.is_empty() {
            text.push_str(&format!(": {}", sanitize::clean_line(summary)));
        }
        cells::wrap_text(&text, self.theme.style(self.state_role(state)), self.cells, "  ")
    }

    fn notice(&self, word: &str, level: &str, code: &str, text: &str) -> Vec<Line<'static>> {
        let role = match level {
            "error" => Role::Bad,
            "warning" => Role::Warn,
            _ => Role::Dim,
        };
        let code = if code.is_empty() { String::new() } else { format!(" [{code}]") };
        let text = format!("{word}: {}{code}", sanitize::clean(text));
        cells::wrap_text(&text, self.theme.style(role), self.cells, "  ")
    }

    /// One line, cut to the width.
    fn line(&self, role: Role, text: &str) -> Line<'static> {
        Line::styled(cells::cut(text, self.cells), self.theme.style(role))
    }

    fn indented(&self, role: Role, text: &str) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for line in text.split('\n') {
            lines.extend(cells::wrap_text(&format!("  {line}"), self.theme.style(role), self.cells, "  "));
        }
        lines
    }

    fn prompt(&self, origin: &str, added: bool, text: &str, by: &str, files: &[&str]) -> Vec<Line<'static>> {
        if origin == "agent" && text.is_empty() {
            return vec![self.line(Role::Dim, "the agent went on by itself")];
        }
        let glyph = self.theme.glyph(Glyph::Prompt);
        let text = format!("{glyph} {}", sanitize::clean(text));
        let mut lines = cells::wrap_text(&text, self.theme.style(Role::Strong), self.cells, "  ");
        let mut about = Vec::new();
        if added {
            about.push("added to the turn".to_owned());
        }
        if !by.is_empty() {
            about.push(format!("by {}", sanitize::clean_line(by)));
        }
        about.extend(files.iter().map(|name| format!("with {}", sanitize::clean_line(name))));
        if !about.is_empty() {
            lines.push(self.line(Role::Dim, &format!("  {}", about.join(", "))));
        }
        lines.push(Line::default());
        lines
    }

    fn thinking(&self, text: &str, open: bool) -> Vec<Line<'static>> {
        let text = sanitize::clean(text);
        let words = text.split_whitespace().count();
        let glyph = self.theme.glyph(if open { Glyph::Opened } else { Glyph::Folded });
        let head = format!("{glyph} thought, {}", format::plural(words, "word"));
        let mut lines = vec![self.line(Role::Dim, &head)];
        if open {
            lines.extend(self.indented(Role::Dim, text.trim_end()));
        }
        lines
    }

    fn state_glyph(&self, state: CallState) -> &'static str {
        self.theme.glyph(match state {
            CallState::Running => Glyph::Running,
            CallState::Waiting => Glyph::Waits,
            CallState::Ok => Glyph::Good,
            CallState::Failed => Glyph::Bad,
            CallState::Unfinished => Glyph::Minus,
        })
    }

    /// What stands at the end of a call's line. A glyph alone would not say that a person is waited for.
    fn state_end(&self, state: CallState) -> String {
        let glyph = self.state_glyph(state);
        match state {
            CallState::Waiting => format!("waiting for permission {glyph}"),
            _ => glyph.to_owned(),
        }
    }

    fn state_role(&self, state: CallState) -> Role {
        match state {
            CallState::Running => Role::Accent,
            CallState::Waiting => Role::Warn,
            CallState::Ok | CallState::Unfinished => Role::Dim,
            CallState::Failed => Role::Bad,
        }
    }

    fn calls(&self, summary: &str, calls: &[CallRow], open: bool) -> Vec<Line<'static>> {
        let failed = calls.iter().filter(|call| call.state == CallState::Failed).count();
        let any = |state: CallState| calls.iter().any(|call| call.state == state);
        let state = match failed {
            _ if any(CallState::Waiting) => CallState::Waiting,
            _ if any(CallState::Running) => CallState::Running,
            0 => CallState::Ok,
            _ => CallState::Failed,
        };
        let took: i64 = calls.iter().filter_map(|call| call.took_ms).sum();
        let fold = self.theme.glyph(if open { Glyph::Opened } else { Glyph::Folded });
        let what = match calls {
            [call] => sanitize::clean_line(&call.text),
            calls => {
                let separator = self.theme.glyph(Glyph::Separator);
                format!("{} calls {separator} {}", calls.len(), sanitize::clean_line(summary))
            }
        };
        let end = match (state, failed) {
            (CallState::Failed, count) if calls.len() > 1 => format!("{}{count}", self.state_glyph(state)),
            (state, _) => self.state_end(state),
        };
        let right = if took >= 1_000 { format!("{} {end}", format::span_ms(took)) } else { end };
        let head = cells::ends(&format!("{fold} {what}"), &right, self.cells);
        let mut lines = vec![Line::styled(head, self.theme.style(self.state_role(state)))];
        if open {
            for call in calls {
                if calls.len() > 1 {
                    lines.push(self.call_head(call));
                }
                lines.extend(self.output(call));
            }
        } else if calls.len() > 1 {
            // A failure is visible without opening.
            for call in calls.iter().filter(|call| call.state == CallState::Failed).take(3) {
                lines.push(self.call_head(call));
            }
        } else if failed == 1
            && let Some(reason) = calls.first().map(|call| sanitize::clean_line(&call.output))
            && !reason.is_empty()
        {
            lines.push(self.line(Role::Bad, &format!("    {reason}")));
        }
        lines
    }

    fn call_head(&self, call: &CallRow) -> Line<'static> {
        let text = format!("  {} {}", self.state_glyph(call.state), sanitize::clean_line(&call.text));
        let right = call.took_ms.filter(|ms| *ms >= 1_000).map(format::span_ms).unwrap_or_default();
        Line::styled(cells::ends(&text, &right, self.cells), self.theme.style(self.state_role(call.state)))
    }

    /// The end of a call's output, and who permitted it.
    fn output(&self, call: &CallRow) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if !call.permission.is_empty() {
            let text = format!("    {}", sanitize::clean_line(&call.permission));
            lines.push(self.line(Role::Dim, &text));
        }
        let output = sanitize::clean_output(&call.output);
        let output = output.trim_end_matches('\n');
        if output.is_empty() {
            return lines;
        }
        let all: Vec<&str> = output.split('\n').collect();
        let hidden = all.len().saturating_sub(limits::OUTPUT_LINES);
        if hidden > 0 || call.output_omitted > 0 {
            let more = if call.output_omitted > 0 { " and more" } else { "" };
            lines.push(self.line(Role::Dim, &format!("    {}{more} before", format::plural(hidden, "line"))));
        }
        let role = if call.state == CallState::Failed { Role::Bad } else { Role::Dim };
        for line in &all[hidden..] {
            lines.push(self.line(role, &format!("    {line}")));
        }
        lines
    }

    fn edit(&self, call: &CallRow, files: &[FileChange], open: bool) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for (at, file) in files.iter().enumerate() {
            let path = sanitize::clean_line(&file.path);
            let fold = self.theme.glyph(if open { Glyph::Opened } else { Glyph::Folded });
            let counts = format!("+{} {}{}", file.added, self.theme.glyph(Glyph::Minus), file.removed);
            let right = if at == 0 { self.state_end(call.state) } else { String::new() };
            let head = cells::ends(&format!("{fold} {path}  {counts}"), &right, self.cells);
            lines.push(Line::styled(head, self.theme.style(self.state_role(call.state))));
            if open {
                lines.extend(self.change(file, limits::CHANGE_LINES));
            }
        }
        if call.state == CallState::Failed {
            let reason = sanitize::clean_line(&call.output);
            lines.push(self.line(Role::Bad, &format!("    {reason}")));
        }
        lines
    }

    /// The lines of a change, at most so many.
    pub(crate) fn change(&self, file: &FileChange, max: usize) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for line in file.lines.iter().take(max) {
            let role = match line.mark {
                "+" => Role::Added,
                "-" => Role::Removed,
                "@" => Role::Accent,
                _ => Role::Dim,
            };
            let mark = if line.mark == "@" { "" } else { line.mark };
            lines.push(self.line(role, &format!("  {mark} {}", sanitize::revealed(&line.text))));
        }
        let hidden = file.lines.len().saturating_sub(max) as u64 + file.omitted;
        if hidden > 0 {
            lines.push(self.line(Role::Dim, &format!("    {hidden} more lines")));
        }
        lines
    }

    fn request(&self, request: &RequestRow) -> Vec<Line<'static>> {
        let text = sanitize::clean_line(&request.text);
        let separator = self.theme.glyph(Glyph::Separator);
        // What became of it comes first: a long command is cut.
        let line = if request.open {
            let waits = self.theme.glyph(Glyph::Waits);
            self.line(Role::Warn, &format!("{waits} waits for you {separator} {text}"))
        } else {
            let by = if request.by.is_empty() { String::new() } else { format!(" by {}", request.by) };
            let message =
                if request.message.is_empty() { String::new() } else { format!(": {}", request.message) };
            let end = sanitize::clean_line(&format!("{}{by}{message}", request.outcome));
            let allowed = !request.outcome.starts_with("denied");
            let glyph = self.theme.glyph(if allowed { Glyph::Good } else { Glyph::Bad });
            let role = if allowed { Role::Dim } else { Role::Bad };
            self.line(role, &format!("{glyph} {end} {separator} {text}"))
        };
        vec![line]
    }

    fn turn_end(
        &self,
        reason: &str,
        error: &str,
        took: Option<i64>,
        usage: Option<(u64, u64)>,
    ) -> Vec<Line<'static>> {
        let (glyph, role, words) = match reason {
            "completed" => (Glyph::Good, Role::Dim, "done"),
            "cancelled" => (Glyph::Bad, Role::Warn, "cancelled"),
            "failed" => (Glyph::Bad, Role::Bad, "the turn failed"),
            "refused" => (Glyph::Bad, Role::Bad, "refused by the model"),
            "limit_reached" => (Glyph::Bad, Role::Bad, "stopped at a limit of the model or agent"),
            "budget_exceeded" => (Glyph::Bad, Role::Bad, "stopped: the budget is used up"),
            "interrupted" => (Glyph::Bad, Role::Bad, "interrupted: the agent died"),
            other => (Glyph::Bad, Role::Bad, other),
        };
        let mut text = format!("{} {words}", self.theme.glyph(glyph));
        if !error.is_empty() {
            text.push_str(&format!(": {}", sanitize::clean_line(error)));
        }
        let separator = self.theme.glyph(Glyph::Separator);
        if let Some(took) = took {
            text.push_str(&format!(" {separator} {}", format::span_ms(took)));
        }
        if let Some((tokens, cost)) = usage {
            text.push_str(&format!(" {separator} {} tokens", format::count(tokens)));
            if cost > 0 {
                text.push_str(&format!(" {separator} {}", format::dollars(cost)));
            }
        }
        cells::wrap_text(&text, self.theme.style(role), self.cells, "  ")
    }
}
