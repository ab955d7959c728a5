//! Draws the state of the screen. Remembers where things are for the mouse, and changes nothing else.

mod card;
mod dialog;
mod list;
mod new_session;
mod plans;
mod review;
mod session;
mod work;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph};
use view::SummaryState;

use crate::app::{App, Areas, Connection, Focus};
use crate::theme::{self, Glyph, Role};
use crate::{cells, format, limits};

/// Draws everything.
pub(crate) fn draw(app: &mut App, frame: &mut Frame<'_>) {
    app.areas = Areas::default();
    let area = frame.area();
    if area.width == 0 || area.height == 0 {
        return;
    }
    let [top, middle, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(area);
    header(app, frame, top);
    if app.review.is_some() {
        review::draw(app, frame, middle);
    } else if area.width < limits::SMALL_COLUMNS || area.height < limits::SMALL_LINES {
        small(app, frame, middle);
    } else if area.width < limits::TWO_PANE_COLUMNS {
        if app.focus == Focus::List || app.open.is_none() {
            list::draw(app, frame, middle);
        } else {
            session::draw(app, frame, middle);
        }
    } else {
        let list_width = (area.width / 4).clamp(28, 44);
        let [left, right] =
            Layout::horizontal([Constraint::Length(list_width), Constraint::Min(0)]).areas(middle);
        list::draw(app, frame, left);
        session::draw(app, frame, right);
        app.areas.is_beside = true;
    }
    last_line(app, frame, bottom);
    dialog::draw(app, frame, middle);
    if app.options.theme.ascii {
        to_ascii(frame);
    }
}

/// On a very small screen only what needs a person, still answerable.
fn small(app: &mut App, frame: &mut Frame<'_>, area: Rect) {
    let wants_field = app.focus == Focus::Message && app.open.is_some();
    if app.card_request().is_some() && app.focus != Focus::List && !wants_field {
        card::draw(app, frame, area);
    } else if wants_field {
        session::message(app, frame, area);
    } else {
        list::draw_needs(app, frame, area);
    }
}

/// Replaces every symbol that a terminal without Unicode cannot show.
fn to_ascii(frame: &mut Frame<'_>) {
    for cell in &mut frame.buffer_mut().content {
        if !cell.symbol().is_ascii() {
            let plain = theme::ascii_symbol(cell.symbol());
            cell.set_symbol(plain);
        }
    }
}

/// A pane's frame: its number and title; brighter if it has the keys.
fn pane_block(app: &App, title: &str, focused: bool, width: u16) -> Block<'static> {
    let theme = &app.options.theme;
    let role = if focused { Role::Accent } else { Role::Dim };
    let title = cells::cut(title, usize::from(width.saturating_sub(4)));
    Block::default()
        .borders(Borders::ALL)
        .border_set(theme.border(false))
        .border_style(theme.style(role))
        .title(Span::styled(
            format!(" {title} "),
            theme.style(if focused { Role::Strong } else { Role::Dim }),
        ))
}

fn header(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = &app.options.theme;
    let separator = format!(" {} ", theme.glyph(Glyph::Separator));
    let mut parts = Vec::new();
    if !app.machine.is_empty() {
        parts.push(app.machine.clone());
    }
    let away: Vec<String> = app
        .machines
        .iter()
        .filter(|(_, problem)| !problem.is_empty())
        .map(|(name, _)| name.clone())
        .collect();
    if !app.machines.is_empty() {
        parts.push(format!("{} machines", app.machines.len() + 1));
    }
    if !away.is_empty() {
        parts.push(format!("{} not reached", crate::sanitize::clean_line(&away.join(", "))));
    }
    parts.push(format::plural(app.overview.len(), "session"));
    let counts = [
        (SummaryState::NeedsYou, Glyph::Waits),
        (SummaryState::Failed, Glyph::Bad),
        (SummaryState::Working, Glyph::Running),
    ];
    let counts = counts.iter().filter_map(|(state, glyph)| {
        let count = app.overview.count(*state);
        (count > 0).then(|| format!("{}{count}", theme.glyph(*glyph)))
    });
    let counts: Vec<String> = counts.collect();
    if !counts.is_empty() {
        parts.push(counts.join(" "));
    }
    let cost: u64 = app.overview.sessions().filter_map(|summary| summary.cost_micro_usd).sum();
    if cost > 0 {
        parts.push(format::dollars(cost));
    }
    let state = match app.connection {
        Connection::Connecting => "connecting".to_owned(),
        Connection::Live if app.read_only => "read-only".to_owned(),
        Connection::Live => "live".to_owned(),
        Connection::Lost(since) => format!("reconnecting, {}", format::span_ms(app.now - since)),
    };
    let text = cells::ends(
        &format!(" obey  {}", parts.join(&separator)),
        &format!("{state} "),
        usize::from(area.width),
    );
    let role = if matches!(app.connection, Connection::Lost(_)) { Role::Warn } else { Role::Strong };
    frame.render_widget(Paragraph::new(Line::styled(text, theme.style(role))), area);
}

/// The last line: a message, or the most useful keys, as many as fit.
fn last_line(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let theme = &app.options.theme;
    let width = usize::from(area.width);
    if let Some(message) = &app.message {
        let role = if message.bad { Role::Bad } else { Role::Accent };
        let text = crate::sanitize::clean_line(&message.text);
        let line = Line::styled(cells::cut(&format!(" {text}"), width), theme.style(role));
        frame.render_widget(Paragraph::new(line), area);
        return;
    }
    if let Some(dialog) = &app.dialog {
        // The keys of what is behind it would do nothing.
        let words = if dialog.is_only_read() {
            " up and down scroll  esc closes"
        } else {
            " enter chooses  esc closes"
        };
        let line = Line::styled(cells::cut(words, width), theme.style(Role::Dim));
        frame.render_widget(Paragraph::new(line), area);
        return;
    }
    let mut spans = vec![Span::raw(" ")];
    let mut used = 1;
    for action in app.useful() {
        let Some(key) = app.keys.key_of(action) else { continue };
        let words = action.words().split([',', ';']).next().unwrap_or_default();
        let cells = cells::width(&key) + 1 + cells::width(words) + 2;
        if used + cells > width {
            break;
        }
        used += cells;
        spans.push(Span::styled(key, theme.style(Role::Accent)));
        spans.push(Span::styled(format!(" {words}  "), theme.style(Role::Dim)));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// Returns the text for the terminal's title.
pub(crate) fn title(app: &App) -> String {
    let waiting = app.overview.open_requests().len();
    if waiting > 0 { format!("({waiting}) obey") } else { "obey".to_owned() }
}
