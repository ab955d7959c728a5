//! The list of sessions.

use client::format::below_folder;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use view::{SessionSummary, SummaryState};

use super::pane_block;
use crate::app::{App, Focus, ListEntry};
use crate::theme::{Glyph, Role};
use crate::{cells, format, sanitize};

/// Columns of a machine's name, where there are several.
const MACHINE_COLUMNS: usize = 8;

/// Draws the list with its frame.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let title = if app.filter.is_empty() {
        "1 sessions".to_owned()
    } else {
        format!("1 sessions: {}", sanitize::clean_line(&app.filter))
    };
    let block = pane_block(app, &title, app.focus == Focus::List, area.width);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    app.areas.list = area;
    if app.entries.is_empty() {
        let text = if app.overview.is_empty() { "No sessions yet." } else { "Nothing matches." };
        let key = app.keys.key_of(crate::keys::Action::NewSession).unwrap_or_default();
        let lines = vec![
            Line::raw(cells::cut(text, usize::from(inner.width))),
            Line::styled(
                cells::cut(&format!("{key} starts one."), usize::from(inner.width)),
                app.options.theme.style(Role::Dim),
            ),
        ];
        frame.render_widget(Paragraph::new(lines), inner);
        return;
    }
    entries(app, frame, inner, |_| true);
}

/// Draws only what needs a person, without a frame.
pub(super) fn draw_needs(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    app.areas.list = area;
    if app.overview.count(SummaryState::NeedsYou) == 0 {
        let working = app.overview.count(SummaryState::Working);
        let text = format!("Nothing needs you. {working} working.");
        frame.render_widget(Paragraph::new(cells::cut(&text, usize::from(area.width))), area);
        return;
    }
    entries(app, frame, area, |summary| summary.state == SummaryState::NeedsYou);
}

fn entries(app: &mut App, frame: &mut Frame<'_>, area: Rect, wanted: impl Fn(&SessionSummary) -> bool) {
    let width = usize::from(area.width);
    let mut lines: Vec<(usize, Line<'static>)> = Vec::new();
    let mut selected_line = 0;
    for (at, entry) in app.entries.iter().enumerate() {
        if at == app.selected {
            selected_line = lines.len();
        }
        let theme = &app.options.theme;
        match entry {
            ListEntry::Heading(state, count) => {
                if !heads_wanted(app, at, &wanted) {
                    continue;
                }
                let text = cells::fit(&format!("{} {count}", state.title()), width);
                lines.push((at, Line::styled(text, theme.style(Role::Dim))));
            }
            ListEntry::Collapsed(state, count) => {
                if !has_wanted(app, *state, &wanted) {
                    continue;
                }
                let text = format!("{} {count} {}", state.title(), theme.glyph(Glyph::Folded));
                let style = chosen(app, at, theme.style(Role::Dim));
                lines.push((at, Line::styled(cells::fit(&text, width), style)));
            }
            ListEntry::Session(id) => {
                let Some(summary) = app.overview.get(id).filter(|summary| wanted(summary)) else { continue };
                for line in session_lines(app, summary, at, width) {
                    lines.push((at, line));
                }
            }
        }
    }
    let height = usize::from(area.height);
    let first = (selected_line + 2).saturating_sub(height);
    let visible: Vec<(usize, Line<'static>)> = lines.into_iter().skip(first).take(height).collect();
    for (offset, (entry, _)) in visible.iter().enumerate() {
        app.areas.entries.push((area.y + offset as u16, *entry));
    }
    let lines: Vec<Line<'static>> = visible.into_iter().map(|(_, line)| line).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns whether a heading has sessions below it. Their states may have changed since the order was made.
fn heads_wanted(app: &App, heading: usize, wanted: &impl Fn(&SessionSummary) -> bool) -> bool {
    let below = app.entries.iter().skip(heading + 1).map_while(|entry| match entry {
        ListEntry::Session(id) => Some(id),
        ListEntry::Heading(..) | ListEntry::Collapsed(..) => None,
    });
    below.filter_map(|id| app.overview.get(id)).any(wanted)
}

fn has_wanted(app: &App, state: SummaryState, wanted: &impl Fn(&SessionSummary) -> bool) -> bool {
    app.overview.sessions().any(|summary| summary.state.group() == state && wanted(summary))
}

fn chosen(app: &App, at: usize, style: Style) -> Style {
    if at == app.selected && app.focus == Focus::List {
        style.patch(app.options.theme.selected())
    } else {
        style
    }
}

/// A session: glyph, name and age, and below it the reason if it needs a person, failed or is quiet.
fn session_lines(app: &App, summary: &SessionSummary, at: usize, width: usize) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let role = match summary.state {
        SummaryState::NeedsYou | SummaryState::Quiet => Role::Warn,
        SummaryState::Failed => Role::Bad,
        SummaryState::Working => Role::Accent,
        SummaryState::Done => Role::Good,
        SummaryState::Idle | SummaryState::Ended => Role::Dim,
    };
    let mark = if at == app.selected { theme.glyph(Glyph::Selected) } else { " " };
    let name = sanitize::clean_line(&summary.name);
    let word = if summary.state == SummaryState::Quiet { " quiet" } else { "" };
    let age = format::span_ms(app.now - summary.since);
    let glyph = summary.glyph(theme.ascii);
    let rest = width.saturating_sub(4);
    // One machine needs no column.
    let machine = match app.machines.is_empty() {
        true => String::new(),
        false => format!("{} ", cells::fit(&sanitize::clean_line(&summary.machine), MACHINE_COLUMNS)),
    };
    let text = cells::ends(&format!("{machine}{name}{word}"), &age, rest);
    let shown = app.open.as_ref().is_some_and(|open| open.id == summary.session);
    let name_style = theme.style(if shown { Role::Strong } else { Role::Text });
    let head = Line::from(vec![
        Span::styled(mark.to_owned(), chosen(app, at, theme.style(Role::Accent))),
        Span::styled(format!("{glyph} "), chosen(app, at, theme.style(role))),
        Span::styled(cells::fit(&text, width.saturating_sub(3)), chosen(app, at, name_style)),
    ]);
    let mut lines = vec![head];
    let reason = match summary.state {
        SummaryState::NeedsYou => {
            summary.requests.first().map_or(summary.reason.as_str(), |request| request.text.as_str())
        }
        SummaryState::Failed | SummaryState::Quiet => summary.reason.as_str(),
        _ if at == app.selected => {
            if summary.last_line.is_empty() {
                summary.reason.as_str()
            } else {
                summary.last_line.as_str()
            }
        }
        _ => "",
    };
    // Paths are long, and their beginning is that of the session's folder.
    let reason = sanitize::clean_line(&below_folder(reason, &summary.folder));
    if !reason.is_empty() {
        lines.push(Line::styled(cells::fit(&format!("   {reason}"), width), theme.style(Role::Dim)));
    }
    lines
}
