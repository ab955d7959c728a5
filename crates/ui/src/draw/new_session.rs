//! The form of a new session.

use ratatui::text::{Line, Span};

use crate::app::{App, FORM_FIELDS, NewSessionForm};
use crate::theme::Role;
use crate::{cells, sanitize};

/// Columns of the labels, and of what follows them.
const LABEL_COLUMNS: usize = 10;
const VALUE_COLUMNS: usize = 50;

/// Returns the lines of the form.
pub(super) fn lines(app: &App, form: &NewSessionForm) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let campaign = form.campaigns.get(form.campaign).map_or("", |campaign| campaign.name.as_str());
    let agent = form.agents.get(form.agent).map_or("", String::as_str);
    let mode = if form.mode == 0 { "as configured" } else { form.mode_name() };
    let machine = if form.machine_name().is_empty() { "this one" } else { form.machine_name() };
    let chosen = |text: &str| format!("< {} >", sanitize::clean_line(text));
    let values = [
        chosen(machine),
        chosen(campaign),
        chosen(agent),
        form.model.clone(),
        chosen(mode),
        chosen(if form.worktree { "a new one" } else { "none" }),
        form.name.clone(),
        form.budget.clone(),
        form.message.clone(),
    ];
    let hints = [
        "",
        "",
        "",
        "the agent's default",
        "",
        "",
        "chosen for you",
        "no limit (5: US dollars, 200000 tokens)",
        "first message",
    ];
    let mut lines = Vec::new();
    for (at, ((label, value), hint)) in FORM_FIELDS.iter().zip(values).zip(hints).enumerate() {
        // Where there is one machine there is nothing to choose.
        if at == 0 && form.machines.is_empty() {
            continue;
        }
        let focused = at == form.at;
        let label_style = theme.style(if focused { Role::Accent } else { Role::Dim });
        let mut spans = vec![Span::styled(cells::fit(label, LABEL_COLUMNS), label_style)];
        let shown = sanitize::clean_line(&value);
        if value.is_empty() && !focused {
            spans.push(Span::styled(hint, theme.style(Role::Dim)));
        } else {
            spans.push(Span::raw(cells::end(&shown, VALUE_COLUMNS - 2)));
        }
        if focused && !value.starts_with("< ") {
            spans.push(Span::styled(" ", theme.selected()));
        }
        lines.push(Line::from(spans));
    }
    lines.push(Line::default());
    let text = match (form.sending, form.error.as_str(), form.unregistered()) {
        (true, ..) => ("starting the agent".to_owned(), Role::Accent),
        (false, "", Some(new)) => (
            format!("{} becomes a campaign: agents may work in it.", sanitize::clean_line(&new.path)),
            Role::Warn,
        ),
        (false, "", None) => {
            ("arrows choose, Tab moves, Enter in the last field starts".to_owned(), Role::Dim)
        }
        (false, error, _) => (sanitize::clean_line(error), Role::Bad),
    };
    lines.extend(cells::wrap_text(&text.0, theme.style(text.1), LABEL_COLUMNS + VALUE_COLUMNS, ""));
    lines
}
