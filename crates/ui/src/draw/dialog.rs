//! Dialogs over the panes.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::work;
use crate::app::{App, Dialog, PaletteEntry};
use crate::keys::{Action, KeyContext};
use crate::theme::Role;
use crate::{cells, sanitize};

/// Draws the dialog that is open.
pub(super) fn draw(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let Some(dialog) = app.dialog.clone() else { return };
    let (title, lines, scroll) = match &dialog {
        Dialog::Text { title, text, scroll } => {
            let width = usize::from(area.width.saturating_sub(8)).min(110);
            let style = app.options.theme.style(Role::Text);
            (
                sanitize::clean_line(title),
                cells::wrap_text(&sanitize::revealed(text), style, width, ""),
                *scroll,
            )
        }
        Dialog::Keys { context, scroll } => ("keys".to_owned(), keys(app, *context), *scroll),
        Dialog::Palette { field, found, selected } => {
            ("all actions".to_owned(), palette(app, field, found, *selected, area), 0)
        }
        Dialog::Find { field } => ("find".to_owned(), field_line(app, field), 0),
        Dialog::Search(search) => ("search all sessions".to_owned(), work::search(app, search, area), 0),
        Dialog::Queue(queue) => {
            let title = format!("prompts of {} that wait", sanitize::clean_line(&queue.name));
            (title, work::queue(app, queue, area), 0)
        }
        Dialog::Budget(budget) => {
            (format!("budget of {}", sanitize::clean_line(&budget.name)), work::budget(app, budget), 0)
        }
        Dialog::Rename { field, .. } => ("new name".to_owned(), field_line(app, field), 0),
        Dialog::Merge { branch, field, failure, .. } => {
            ("merge".to_owned(), work::merge(app, branch, field, failure, area), 0)
        }
        Dialog::Attach { field, .. } => ("attach a file".to_owned(), field_line(app, field), 0),
        Dialog::Filter { field } => ("filter".to_owned(), field_line(app, field), 0),
        Dialog::Mode { selected, .. } => ("mode".to_owned(), modes(app, *selected), 0),
        Dialog::Confirm { text, .. } => {
            let mut lines = cells::wrap_text(text, app.options.theme.style(Role::Strong), 60, "");
            lines.push(Line::default());
            lines.push(Line::styled("y yes   n no", app.options.theme.style(Role::Accent)));
            ("sure?".to_owned(), lines, 0)
        }
        Dialog::New(form) => ("new session".to_owned(), super::new_session::lines(app, form), 0),
        Dialog::Plans(plans) => {
            let title = format!("plans of {}", crate::sanitize::clean_line(&plans.name));
            (title, super::plans::lines(app, plans, area), 0)
        }
        Dialog::Usage(usage) => ("usage".to_owned(), work::usage(app, usage, area), 0),
    };
    boxed(app, frame, area, &title, lines, scroll);
}

fn boxed(
    app: &mut App,
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    lines: Vec<Line<'static>>,
    scroll: usize,
) {
    let theme = app.options.theme;
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).max(cells::width(title) + 4).max(30);
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(area.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let rect =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let style = theme.style(Role::Accent);
    let title = cells::cut(title, usize::from(width.saturating_sub(4)));
    let block = Block::default()
        .borders(Borders::ALL)
        .border_set(theme.border(false))
        .border_style(style)
        .title(Span::styled(format!(" {title} "), theme.style(Role::Strong)));
    let inner = block.inner(rect);
    frame.render_widget(Clear, rect);
    frame.render_widget(block, rect);
    let room = usize::from(inner.height);
    // The end stays reachable and nothing is scrolled beyond it.
    let scroll = scroll.min(lines.len().saturating_sub(room));
    if let Some(Dialog::Text { scroll: at, .. } | Dialog::Keys { scroll: at, .. }) = &mut app.dialog {
        *at = scroll;
    }
    let padded = Rect { x: inner.x + 1.min(inner.width), width: inner.width.saturating_sub(2), ..inner };
    let visible: Vec<Line<'static>> = lines.into_iter().skip(scroll).take(room).collect();
    frame.render_widget(Paragraph::new(visible), padded);
}

fn keys(app: &App, context: KeyContext) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let line = |action: Action| {
        Line::from(vec![
            Span::styled(cells::fit(&app.keys.keys_of(action), 22), theme.style(Role::Accent)),
            Span::raw(action.words()),
        ])
    };
    let here: Vec<Line<'static>> =
        Action::all().filter(|action| action.context() == context).map(line).collect();
    let mut lines = here;
    if context != KeyContext::Message {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(Action::all().filter(|action| action.context() == KeyContext::Everywhere).map(line));
    }
    lines
}

fn palette(
    app: &App,
    field: &str,
    found: &[PaletteEntry],
    selected: usize,
    area: Rect,
) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let mut lines = field_line(app, field);
    let room = usize::from(area.height).saturating_sub(4).clamp(1, 20);
    let first = (selected + 1).saturating_sub(room);
    for (at, entry) in found.iter().enumerate().skip(first).take(room) {
        let (text, key) = match entry {
            PaletteEntry::Action(action) => (action.words().to_owned(), app.keys.keys_of(*action)),
            PaletteEntry::Session { name, .. } => {
                (format!("go to {}", sanitize::clean_line(name)), String::new())
            }
        };
        let style = if at == selected { theme.selected() } else { theme.style(Role::Text) };
        lines.push(Line::styled(cells::ends(&text, &key, 56), style));
    }
    lines
}

pub(super) fn field_line(app: &App, field: &str) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let shown = sanitize::clean_line(field);
    let tail: String = {
        let all: Vec<char> = shown.chars().collect();
        all[all.len().saturating_sub(50)..].iter().collect()
    };
    let spaces = if field.ends_with(' ') { " " } else { "" };
    vec![Line::from(vec![Span::raw(format!("{tail}{spaces}")), Span::styled(" ", theme.selected())])]
}

fn modes(app: &App, selected: usize) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let words = [
        "the agent reads and plans",
        "every permission is asked",
        "edits are allowed, the rest is asked",
        "everything is allowed and recorded",
    ];
    let line = |(at, (mode, words)): (usize, (&&str, &str))| {
        let style = if at == selected { theme.selected() } else { theme.style(Role::Text) };
        Line::styled(format!("{} {words}", cells::fit(mode, 13)), style)
    };
    crate::app::MODES.iter().zip(words).enumerate().map(line).collect()
}
