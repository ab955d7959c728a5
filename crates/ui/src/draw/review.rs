//! The review: changed files with their counts, the change of one, and comments below their lines.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::pane_block;
use crate::app::{App, Review};
use crate::theme::{Glyph, Role, Theme};
use crate::{cells, format, limits, sanitize};

/// Draws the review.
pub(super) fn draw(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let Some(review) = &app.review else { return };
    if area.width < limits::TWO_PANE_COLUMNS {
        let file =
            review.file().map_or_else(|| "changes".to_owned(), |file| sanitize::clean_line(&file.path));
        change(app, review, &format!("{}: {file}", name(app, review)), frame, area);
        return;
    }
    let [left, right] =
        Layout::horizontal([Constraint::Length(area.width / 3), Constraint::Min(0)]).areas(area);
    files(app, review, frame, left);
    let title = review.file().map_or_else(|| "review".to_owned(), |file| sanitize::clean_line(&file.path));
    change(app, review, &title, frame, right);
}

/// The name of the session whose changes are shown: it need not be the one in the other pane.
fn name(app: &App, review: &Review) -> String {
    app.overview.get(&review.session).map(|summary| sanitize::clean_line(&summary.name)).unwrap_or_default()
}

fn files(app: &App, review: &Review, frame: &mut Frame<'_>, area: Rect) {
    let against = sanitize::clean_line(&review.against);
    let against = if against.is_empty() { String::new() } else { format!(" against {against}") };
    let title = format!("{}: changes{against}", name(app, review));
    let block = pane_block(app, &title, false, area.width);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let theme = &app.options.theme;
    let width = usize::from(inner.width);
    let height = usize::from(inner.height);
    let mut lines = Vec::new();
    let all = review.files.as_deref().unwrap_or_default();
    let first = (review.at + 2).saturating_sub(height);
    for (at, file) in all.iter().enumerate().skip(first).take(height) {
        let comments = review.comments.keys().filter(|(path, _)| *path == file.path).count();
        let mut about = format!("+{} {}{}", file.added, theme.glyph(Glyph::Minus), file.removed);
        if !file.note.is_empty() {
            about = format!("{} {about}", file.note);
        }
        if comments > 0 {
            about = format!("{} {about}", format::plural(comments, "comment"));
        }
        let text = cells::ends(&sanitize::clean_line(&file.path), &about, width);
        let style = if at == review.at { theme.selected() } else { theme.style(Role::Text) };
        lines.push(Line::styled(text, style));
    }
    if review.more > 0 {
        lines.push(Line::styled(
            cells::cut(&format!("and {} more files", review.more), width),
            theme.style(Role::Warn),
        ));
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

fn change(app: &App, review: &Review, title: &str, frame: &mut Frame<'_>, area: Rect) {
    let block = pane_block(app, title, true, area.width);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let theme = &app.options.theme;
    let width = usize::from(inner.width);
    let say = |text: &str| vec![Line::styled(cells::cut(text, width), theme.style(Role::Dim))];
    let lines = match (&review.failure, &review.files, review.shown()) {
        (Some(why), ..) => cells::wrap_text(&sanitize::clean(why), theme.style(Role::Bad), width, ""),
        (None, None, _) => say("comparing"),
        (None, Some(files), _) if files.is_empty() => say("Nothing was changed."),
        (None, Some(_), None) => say("reading the change"),
        (None, Some(_), Some([])) => say("There are no lines to show."),
        (None, Some(_), Some(_)) => visible(theme, review, width, usize::from(inner.height)),
    };
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The lines around the cursor; only those that are visible are made.
fn visible(theme: &Theme, review: &Review, width: usize, height: usize) -> Vec<Line<'static>> {
    let all = review.shown().unwrap_or_default();
    let path = review.file().map(|file| file.path.clone()).unwrap_or_default();
    let first = review.cursor.saturating_sub(height.saturating_sub(4).max(1) / 2);
    let mut out = Vec::new();
    for (at, line) in all.iter().enumerate().skip(first) {
        if out.len() >= height {
            break;
        }
        let role = match line.mark {
            '+' => Role::Added,
            '-' => Role::Removed,
            '@' => Role::Accent,
            _ => Role::Text,
        };
        let number = if line.mark == '@' { String::new() } else { line.number.to_string() };
        let mark = if line.mark == '@' { ' ' } else { line.mark };
        let text = format!("{number:>5} {mark} {}", sanitize::revealed(&line.text).replace('\n', " "));
        let mut style = theme.style(role);
        if at == review.cursor {
            style = style.patch(theme.selected());
        }
        out.push(Line::styled(cells::fit(&text, width), style));
        let writing = review.field.as_ref().filter(|_| at == review.cursor);
        if let Some(field) = writing {
            let text = sanitize::revealed(field);
            let shown: String = text
                .chars()
                .rev()
                .take(width.saturating_sub(12))
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect();
            out.push(Line::from(vec![
                Span::styled(format!("        {} ", theme.glyph(Glyph::Prompt)), theme.style(Role::Accent)),
                Span::raw(shown),
                Span::styled(" ", theme.selected()),
            ]));
        } else if let Some(comment) = review.comments.get(&(path.clone(), at)) {
            let text = format!("        {} {}", theme.glyph(Glyph::Prompt), sanitize::clean_line(comment));
            out.push(Line::styled(cells::cut(&text, width), theme.style(Role::Warn)));
        }
    }
    out.truncate(height);
    out
}
