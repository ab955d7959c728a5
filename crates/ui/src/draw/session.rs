//! The pane of one session: transcript, card, status and message field.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use view::{BudgetPart, BudgetUnit};

use super::{card, pane_block};
use crate::app::{App, Focus};
use crate::theme::{Glyph, Role};
use crate::transcript_pane::Look;
use crate::{cells, format, limits, sanitize};

/// Draws the pane.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let title = title(app);
    let block = pane_block(app, &title, app.focus == Focus::Transcript, area.width);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    if app.open.is_none() {
        nothing(app, frame, inner);
        return;
    }
    let message_height = message_height(app, inner);
    let card_height = card::height(app, inner);
    let [transcript, card, status, message_area] = Layout::vertical([
        Constraint::Min(1),
        Constraint::Length(card_height),
        Constraint::Length(1),
        Constraint::Length(message_height),
    ])
    .areas(inner);
    draw_transcript(app, frame, transcript);
    if card_height > 0 {
        card::draw(app, frame, card);
    }
    draw_status(app, frame, status);
    message(app, frame, message_area);
    completion(app, frame, transcript, message_area);
}

fn title(app: &App) -> String {
    let separator = format!(" {} ", app.options.theme.glyph(Glyph::Separator));
    let Some(open) = &app.open else { return "2 transcript".to_owned() };
    let mut parts = Vec::new();
    match app.overview.get(&open.id) {
        Some(summary) => {
            let fields = [
                &summary.name,
                &summary.campaign,
                &summary.branch,
                &summary.provider,
                &summary.model,
                &summary.mode,
            ];
            parts.extend(fields.iter().map(|field| sanitize::clean_line(field)));
        }
        None => parts.push(open.id.clone()),
    }
    parts.retain(|part| !part.is_empty());
    format!("2 {}", parts.join(&separator))
}

fn nothing(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let waiting = app.overview.open_requests().len();
    let working = app.overview.count(view::SummaryState::Working);
    let text = if waiting > 0 {
        let key = app.keys.key_of(crate::keys::Action::NextRequest).unwrap_or_default();
        format!("{} for you: {key} shows the first.", format::plural(waiting, "request"))
    } else {
        format!("Nothing needs you. {working} working.")
    };
    let line = Line::styled(cells::cut(&text, usize::from(area.width)), app.options.theme.style(Role::Dim));
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_transcript(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    app.areas.transcript = area;
    let selected_style = app.options.theme.selected();
    let look = Look { theme: &app.options.theme, highlights: &app.highlights };
    let Some(open) = &mut app.open else { return };
    let Some(pane) = &mut open.pane else {
        let text = open.failure.clone().unwrap_or_else(|| "reading the journal".to_owned());
        let text = sanitize::clean(&text);
        let lines = cells::wrap_text(&text, look.theme.style(Role::Dim), usize::from(area.width), "");
        frame.render_widget(Paragraph::new(lines), area);
        return;
    };
    // What is on its way is shown below everything that is recorded.
    let mut sending = Vec::new();
    for text in &open.sending {
        let line = format!("{} {} (sending)", look.theme.glyph(Glyph::Prompt), sanitize::clean_line(text));
        sending.push(Line::styled(cells::cut(&line, usize::from(area.width)), look.theme.style(Role::Dim)));
    }
    let height = usize::from(area.height).saturating_sub(sending.len());
    pane.resize(usize::from(area.width), height);
    let visible = pane.visible(&look);
    let selected = pane.reading.selected.filter(|_| app.focus == Focus::Transcript);
    let mut lines: Vec<Line<'static>> = Vec::with_capacity(visible.len());
    for (offset, shown) in visible.into_iter().enumerate() {
        app.areas.rows.push((area.y + offset as u16, shown.key));
        let line = if selected == Some(shown.key) && shown.at == 0 {
            shown.line.patch_style(selected_style)
        } else {
            shown.line
        };
        lines.push(line);
    }
    lines.extend(sending);
    frame.render_widget(Paragraph::new(lines), area);
}

/// Plan, context, tokens, money, and how much came while one was reading above.
fn draw_status(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = &app.options.theme;
    let separator = format!(" {} ", theme.glyph(Glyph::Separator));
    let mut parts = Vec::new();
    let mut new = String::new();
    if let Some(pane) = app.open.as_ref().and_then(|open| open.pane.as_ref()) {
        let header = pane.transcript.header();
        if !header.todos.is_empty() {
            parts.push(plan(app, header));
        }
        if let (Some(used), Some(window)) = (header.context_tokens, header.context_window)
            && window > 0
        {
            parts.push(format!(
                "context {}/{} {}",
                format::count(used),
                format::count(window),
                meter(app, used, window)
            ));
        }
        if pane.new_rows() > 0 {
            new = format!("{} {} new", theme.glyph(Glyph::Down), pane.new_rows());
        } else if !pane.follows() {
            new = format!("{} end", theme.glyph(Glyph::Down));
        }
        if let Some(began) = header.turn_at {
            let waits = app.open_summary().is_some_and(|summary| !summary.requests.is_empty());
            let working = format!("working {}", format::span_ms(app.now - began));
            parts.push(if waits { "waits for you".to_owned() } else { working });
        }
    }
    if let Some(summary) = app.open_summary() {
        if let Some(tokens) = summary.tokens {
            parts.push(format!("{} tokens", format::count(tokens)));
        }
        if let Some(cost) = summary.cost_micro_usd {
            parts.push(format::dollars(cost));
        }
        if let Some(part) = summary.budget.tightest() {
            parts.push(format!("{} {}", meter(app, part.used(), part.limit), budget_text(&part)));
        }
        if summary.queued > 0 {
            parts.push(format!("queue {}", summary.queued));
        }
        if parts.is_empty() && !summary.reason.is_empty() {
            parts.push(sanitize::clean_line(&summary.reason));
        }
    }
    let text = cells::ends(&parts.join(&separator), &new, usize::from(area.width));
    frame.render_widget(Paragraph::new(Line::styled(text, theme.style(Role::Dim))), area);
}

fn plan(app: &App, header: &view::SessionHeader) -> String {
    let theme = &app.options.theme;
    let glyph = |todo: &view::TodoRow| {
        theme.glyph(match todo.status {
            "completed" => Glyph::Good,
            "in_progress" => Glyph::Running,
            _ => Glyph::Pending,
        })
    };
    let glyphs: String = header.todos.iter().take(12).map(glyph).collect();
    format!("to-dos {glyphs} {}/{}", header.todos_done(), header.todos.len())
}

/// A bar of eight cells.
pub(super) fn meter(app: &App, used: u64, all: u64) -> String {
    let full = usize::try_from((used.min(all) * 8).div_ceil(all.max(1))).unwrap_or(8);
    let theme = &app.options.theme;
    format!("{}{}", theme.glyph(Glyph::Full).repeat(full), theme.glyph(Glyph::Empty).repeat(8 - full.min(8)))
}

/// What is used of a part of a budget, such as "$1.84 of $5.00".
pub(super) fn budget_text(part: &BudgetPart) -> String {
    let (used, limit) = (part.used(), part.limit);
    match part.unit {
        BudgetUnit::Money => format!("{} of {}", format::dollars(used), format::dollars(limit)),
        BudgetUnit::Tokens => format!("{} of {} tokens", format::count(used), format::count(limit)),
        BudgetUnit::Time => {
            let minutes = |ms: u64| format::span_ms(i64::try_from(ms).unwrap_or(i64::MAX));
            format!("{} of {}", minutes(used), minutes(limit))
        }
        BudgetUnit::Calls => format!("{used} of {limit} calls"),
    }
}

fn message_height(app: &App, area: Rect) -> u16 {
    let Some(open) = &app.open else { return 1 };
    let width = usize::from(area.width.saturating_sub(2)).max(1);
    let lines: usize = open.message.lines().iter().take(200).map(|line| cells::width(line) / width + 1).sum();
    let height = u16::try_from(lines)
        .unwrap_or(u16::MAX)
        .clamp(1, limits::PROMPT_LINES_MAX.min((area.height * 2 / 5).max(1)));
    height + u16::from(!open.attachments.is_empty())
}

/// The files that go with the message, in a line above it. Returns what is left for the field.
fn attached(app: &App, frame: &mut Frame<'_>, area: Rect) -> Rect {
    let Some(open) = app.open.as_ref().filter(|open| !open.attachments.is_empty()) else { return area };
    if area.height < 2 {
        return area;
    }
    let [line, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
    let names = open.attachments.iter().map(|file| {
        let size = format::count(file.content.len() as u64);
        format!(
            "{} ({}, {size} bytes)",
            sanitize::clean_line(&file.name),
            sanitize::clean_line(&file.media_type)
        )
    });
    let names: Vec<String> = names.collect();
    let text = format!("+ {}", names.join(", "));
    let text = cells::ends(&text, "backspace removes", usize::from(line.width));
    frame.render_widget(Paragraph::new(Line::styled(text, app.options.theme.style(Role::Accent))), line);
    rest
}

/// The message field.
pub(super) fn message(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let area = attached(app, frame, area);
    app.areas.message = area;
    let theme = app.options.theme;
    let focused = app.focus == Focus::Message && app.dialog.is_none();
    let working = app.is_working();
    let write = app.keys.key_of(crate::keys::Action::Write).unwrap_or_default();
    let Some(open) = &mut app.open else { return };
    let [mark, field] = Layout::horizontal([Constraint::Length(2), Constraint::Min(1)]).areas(area);
    let role = if focused { Role::Accent } else { Role::Dim };
    frame.render_widget(Paragraph::new(Span::styled(theme.glyph(Glyph::Prompt), theme.style(role))), mark);
    let is_empty = open.message.lines().iter().all(String::is_empty);
    if is_empty && !focused {
        let text = if working { "writes a message for when the turn has ended" } else { "writes a message" };
        let text = cells::cut(&format!("{write} {text}"), usize::from(field.width));
        frame.render_widget(Paragraph::new(Span::styled(text, theme.style(Role::Dim))), field);
        return;
    }
    open.message.set_cursor_style(if focused { theme.selected() } else { ratatui::style::Style::default() });
    frame.render_widget(&open.message, field);
}

/// What may complete the word before the cursor, above the field.
fn completion(app: &App, frame: &mut Frame<'_>, above: Rect, field: Rect) {
    let Some(completion) = app.open.as_ref().and_then(|open| open.completion.as_ref()) else { return };
    let height = u16::try_from(completion.found.len()).unwrap_or(0).min(above.height);
    let width = above.width.min(60);
    let area = Rect { x: field.x, y: field.y.saturating_sub(height + 1).max(above.y), width, height };
    frame.render_widget(Clear, area);
    let theme = &app.options.theme;
    let line = |(at, text): (usize, &String)| {
        let style = if at == completion.selected { theme.selected() } else { theme.style(Role::Text) };
        let text = sanitize::clean_line(text.strip_prefix('/').unwrap_or(text));
        Line::styled(cells::fit(&format!(" {}{text}", completion.sign), usize::from(width)), style)
    };
    let lines: Vec<Line<'static>> = completion.found.iter().enumerate().map(line).collect();
    frame.render_widget(Paragraph::new(lines), area);
}
