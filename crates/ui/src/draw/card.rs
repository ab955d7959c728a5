//! The card of a request: exactly what would be done, what a grant would cover, and the keys that answer. What does not
//! fit is counted, never silently left out.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};
use view::RequestRow;

use crate::app::{App, CardMode, CardState, Focus};
use crate::rows::RowLayout;
use crate::theme::{Glyph, Role, Theme};
use crate::{cells, format, sanitize};

/// Returns the lines a card takes of a pane; 0 without one.
pub(super) fn height(app: &App, area: Rect) -> u16 {
    let Some(request) = app.card_request() else { return 0 };
    let Some(card) = app.open.as_ref().and_then(|open| open.card.as_ref()) else { return 0 };
    let width = usize::from(area.width.saturating_sub(4));
    let wanted = body(app, request, card, width, usize::MAX).len() + 3;
    u16::try_from(wanted)
        .unwrap_or(u16::MAX)
        .min((area.height * 3 / 5).max(6))
        .min(area.height.saturating_sub(2))
}

/// Draws the card.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let theme = app.options.theme;
    let focused = app.focus == Focus::Card;
    let waiting = app.open_requests().len();
    let (Some(request), Some(card)) =
        (app.card_request(), app.open.as_ref().and_then(|open| open.card.as_ref()))
    else {
        return;
    };
    let name = app.open_summary().map(|summary| sanitize::clean_line(&summary.name)).unwrap_or_default();
    let what = match (request.subject, view::call_kind(&request.tool)) {
        ("question", _) => "asks".to_owned(),
        (_, "execute") => "wants to run".to_owned(),
        (_, "edit") => "wants to change files".to_owned(),
        (_, "fetch") => "wants to fetch".to_owned(),
        _ => format!("wants to use {}", sanitize::clean_line(&request.tool)),
    };
    // The same marks as in the list.
    let mark = if request.subject == "question" { "?" } else { theme.glyph(Glyph::Waits) };
    let mut title = format!("{mark} {name} {what}");
    if waiting > 1 {
        title.push_str(&format!(" (1 of {waiting})"));
    }
    let border = theme.style(if focused { Role::Warn } else { Role::Dim });
    let block =
        Block::default().borders(Borders::ALL).border_set(theme.border(true)).border_style(border).title(
            Span::styled(
                format!(" {} ", cells::cut(&title, usize::from(area.width.saturating_sub(4)))),
                border,
            ),
        );
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    let width = usize::from(inner.width);
    let room = usize::from(inner.height).saturating_sub(1);
    let mut lines = body(app, request, card, width, room);
    lines.truncate(room);
    let (keys, buttons) = key_line(app, card, request, focused, width);
    let key_row = inner.y + lines.len() as u16;
    lines.push(keys);
    frame.render_widget(Paragraph::new(lines), inner);
    app.areas.card = area;
    app.areas.buttons =
        buttons.into_iter().map(|(from, to, key)| (key_row, inner.x + from, inner.x + to, key)).collect();
}

/// What the card says above its keys, in at most so many lines.
fn body(app: &App, request: &RequestRow, card: &CardState, width: usize, room: usize) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    match &card.mode {
        CardMode::Words { stop, field } => {
            let head = if *stop { "Deny and stop. Why?" } else { "Deny. Why?" };
            let mut lines = vec![Line::styled(cells::cut(head, width), theme.style(Role::Strong))];
            lines.extend(field_lines(theme, field, width));
            return lines;
        }
        CardMode::Input { field, error } => {
            let mut lines = field_lines(theme, field, width);
            if room != usize::MAX {
                // The line with the cursor stays visible.
                let skip = (field.cursor().0 + 2).saturating_sub(room.saturating_sub(1));
                lines = lines.into_iter().skip(skip).take(room.saturating_sub(1)).collect();
            }
            if !error.is_empty() {
                lines.push(Line::styled(cells::cut(error, width), theme.style(Role::Bad)));
            }
            return lines;
        }
        CardMode::Questions(answers) => {
            return question_lines(theme, request, answers, width);
        }
        CardMode::Choose => {}
    }
    let mut what = what_lines(app, request, width);
    let about = about_lines(app, request, width);
    let most = room.saturating_sub(about.len()).max(1);
    if what.len() > most {
        let hidden = what.len() - most + 1;
        what.truncate(most.saturating_sub(1));
        let key = app.keys.key_of(crate::keys::Action::ShowInput).unwrap_or_default();
        let text = format!("{hidden} more lines: {key} shows all");
        what.push(Line::styled(cells::cut(&text, width), theme.style(Role::Warn)));
    }
    what.extend(about);
    what
}

/// The command, the change or the whole input.
fn what_lines(app: &App, request: &RequestRow, width: usize) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    if !request.files.is_empty() {
        let layout = RowLayout { theme, highlights: &app.highlights, cells: width };
        let mut lines = Vec::new();
        for file in &request.files {
            let counts = format!("+{} {}{}", file.added, theme.glyph(Glyph::Minus), file.removed);
            let head = format!("{}  {counts}", sanitize::revealed(&file.path));
            lines.push(Line::styled(cells::cut(&head, width), theme.style(Role::Strong)));
            lines.extend(layout.change(file, usize::MAX));
        }
        return lines;
    }
    let command = request.input.get("command");
    let command = command.and_then(|command| match command {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Array(words) => {
            Some(words.iter().filter_map(serde_json::Value::as_str).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    });
    let text = command.unwrap_or_else(|| {
        let input = crate::app::pretty(&request.input);
        format!("{}\n{input}", request.text)
    });
    cells::wrap_text(&sanitize::revealed(&text), theme.style(Role::Strong), width, "  ")
}

/// Where it would happen, how long it waits, and what a grant for the session would cover.
fn about_lines(app: &App, request: &RequestRow, width: usize) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let separator = format!(" {} ", theme.glyph(Glyph::Separator));
    let mut parts = Vec::new();
    if let Some(summary) = app.open_summary() {
        parts.push(format!(
            "in {}",
            sanitize::clean_line(&format::folder(&summary.folder, &app.options.home))
        ));
        if !summary.branch.is_empty() {
            parts.push(sanitize::clean_line(&summary.branch));
        }
        let asked = summary.requests.iter().find(|waiting| waiting.request == request.request);
        if let Some(asked) = asked {
            parts.push(format!("waits {}", format::span_ms(app.now - asked.at)));
        }
    }
    let dim = theme.style(Role::Dim);
    let mut lines = Vec::new();
    if !parts.is_empty() {
        lines.push(Line::styled(cells::cut(&parts.join(&separator), width), dim));
    }
    if !request.not_covered.is_empty() {
        let text = format!("asked because {}", sanitize::clean_line(&request.not_covered));
        lines.extend(cells::wrap_text(&text, dim, width, "  ").into_iter().take(2));
    }
    if !request.destructive.is_empty() {
        let armed =
            app.open.as_ref().and_then(|open| open.card.as_ref()).is_some_and(|card| card.armed.is_some());
        let what = sanitize::clean_line(&request.destructive);
        let text = if armed {
            format!("it {what}: press again to allow it")
        } else {
            format!("it {what}: allowing it needs a second press")
        };
        lines.push(Line::styled(cells::cut(&text, width), theme.style(Role::Strong)));
    }
    if let Some(proposal) = request.proposals.first() {
        let key = app.keys.key_of(crate::keys::Action::AllowSession).unwrap_or_default();
        let text = format!("{key} would allow {}", sanitize::clean_line(&proposal.text));
        lines.extend(cells::wrap_text(&text, dim, width, "  ").into_iter().take(2));
    }
    lines
}

fn question_lines(
    theme: &Theme,
    request: &RequestRow,
    answers: &crate::app::QuestionAnswers,
    width: usize,
) -> Vec<Line<'static>> {
    let Some(question) = request.questions.get(answers.at) else { return Vec::new() };
    let count = request.questions.len();
    let number = if count > 1 { format!("{} of {count}: ", answers.at + 1) } else { String::new() };
    let text = format!("{number}{}", sanitize::clean(&question.text));
    let mut lines = cells::wrap_text(&text, theme.style(Role::Strong), width, "");
    for (at, option) in question.options.iter().enumerate() {
        let mark = match (question.multi_select, answers.picked.contains(&at)) {
            (false, _) => "",
            (true, false) => "[ ] ",
            (true, true) => "[x] ",
        };
        let about =
            if option.description.is_empty() { String::new() } else { format!(": {}", option.description) };
        let text = sanitize::clean_line(&format!("{} {mark}{}{about}", at + 1, option.label));
        let style = if at == answers.cursor && answers.field.is_none() {
            theme.selected()
        } else {
            theme.style(Role::Text)
        };
        lines.push(Line::styled(cells::fit(&text, width), style));
    }
    let own = question.options.len();
    match &answers.field {
        Some(field) => lines.extend(field_lines(theme, field, width)),
        None => {
            let style = if answers.cursor == own { theme.selected() } else { theme.style(Role::Dim) };
            lines.push(Line::styled(cells::fit(&format!("{} own words", own + 1), width), style));
        }
    }
    lines
}

/// The text of a field with its cursor.
fn field_lines(
    theme: &Theme,
    field: &ratatui_textarea::TextArea<'static>,
    width: usize,
) -> Vec<Line<'static>> {
    let cursor = field.cursor();
    let mut lines = Vec::new();
    for (at, text) in field.lines().iter().enumerate() {
        let mut spans = vec![Span::raw(format!("{} ", theme.glyph(Glyph::Prompt)))];
        if at == cursor.0 {
            let before: String = text.chars().take(cursor.1).collect();
            let under: String = text.chars().nth(cursor.1).unwrap_or(' ').to_string();
            let after: String = text.chars().skip(cursor.1 + 1).collect();
            spans.push(Span::raw(sanitize::revealed(&before)));
            spans.push(Span::styled(under, theme.selected()));
            spans.push(Span::raw(sanitize::revealed(&after)));
        } else {
            spans.push(Span::raw(sanitize::revealed(text)));
        }
        lines.extend(cells::wrap(&spans, width, "  "));
    }
    lines
}

/// A button's first and last column, and its key.
type Button = (u16, u16, char);

/// The keys that answer, and where they are.
fn key_line(
    app: &App,
    card: &CardState,
    request: &RequestRow,
    focused: bool,
    width: usize,
) -> (Line<'static>, Vec<Button>) {
    use crate::keys::Action;
    let theme = &app.options.theme;
    let plain = |text: &str| (Line::styled(cells::cut(text, width), theme.style(Role::Dim)), Vec::new());
    if card.sent {
        return plain("sending the answer");
    }
    match &card.mode {
        CardMode::Words { .. } => return plain("Enter sends, Esc goes back"),
        CardMode::Input { .. } => return plain("Ctrl+S allows with this input, Esc goes back"),
        CardMode::Questions(answers) => {
            let multi = request.questions.get(answers.at).is_some_and(|question| question.multi_select);
            let text = match (focused, multi) {
                (false, _) => "Tab to answer",
                (true, false) => "a number or Enter answers",
                (true, true) => "numbers or Space choose, Enter answers",
            };
            return plain(text);
        }
        CardMode::Choose => {}
    }
    let actions = [
        (Action::Allow, "once"),
        (Action::AllowSession, "session"),
        (Action::Deny, "deny"),
        (Action::DenyAndStop, "deny and stop"),
        (Action::EditInput, "edit"),
        (Action::ShowInput, "input"),
    ];
    let mut spans = Vec::new();
    let mut buttons = Vec::new();
    let mut used = 0;
    for (action, words) in actions {
        let Some(key) = app.keys.key_of(action) else { continue };
        let cells = cells::width(&key) + 1 + cells::width(words);
        if used + cells > width {
            break;
        }
        let live = focused && card.ready;
        spans.push(Span::styled(key.clone(), theme.style(if live { Role::Accent } else { Role::Dim })));
        spans.push(Span::styled(
            format!(" {words}   "),
            theme.style(if live { Role::Text } else { Role::Dim }),
        ));
        if let Some(letter) = key.chars().next().filter(|_| key.chars().count() == 1) {
            buttons.push((used as u16, (used + cells - 1) as u16, letter));
        }
        used += cells + 3;
    }
    if !focused && used + 13 <= width {
        spans.push(Span::styled("Tab to answer", theme.style(Role::Warn)));
    }
    (Line::from(spans), buttons)
}
