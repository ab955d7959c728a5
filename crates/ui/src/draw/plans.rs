//! The plans of a session as trees. Lines only; the frame around them is drawn elsewhere.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::work::{columns, dim, window};
use crate::app::{App, PlansDialog};
use crate::theme::Role;
use crate::{cells, sanitize};

/// Draws every plan with its steps.
pub(super) fn lines(app: &App, dialog: &PlansDialog, area: Rect) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let width = columns(area);
    let mut out: Vec<Line<'static>> = Vec::new();
    let mut selected_line = 0;
    let steps = dialog.steps();
    for (at, plan) in dialog.plans.iter().enumerate() {
        let (ended, all) = plan.progress();
        let head = format!("{}  {} ({}), {ended} of {all} steps", plan.id, plan.state, plan.strategy);
        out.push(Line::styled(cells::cut(&sanitize::clean_line(&head), width), theme.style(Role::Strong)));
        for (number, (_, line)) in steps.iter().enumerate().filter(|(_, (plan, _))| *plan == at) {
            let Some(step) = plan.steps.get(line.step) else { continue };
            let is_selected = number == dialog.selected;
            if is_selected {
                selected_line = out.len();
            }
            let text = match step.text.is_empty() {
                true => step.describe(),
                false => format!("{}: {}", step.describe(), step.text),
            };
            let room = width.saturating_sub(cells::width(&line.indent));
            let style = if is_selected { theme.selected() } else { theme.style(role_of(&step.state)) };
            out.push(Line::from(vec![
                Span::styled(line.indent.clone(), theme.style(Role::Dim)),
                Span::styled(cells::cut(&sanitize::clean_line(&text), room), style),
            ]));
        }
    }
    let room = usize::from(area.height).saturating_sub(5);
    let shown = window(selected_line, out.len(), room);
    let mut out: Vec<Line<'static>> = out.drain(shown).collect();
    if !dialog.problem.is_empty() {
        let why = sanitize::clean_line(&dialog.problem);
        out.extend(cells::wrap_text(&why, theme.style(Role::Bad), width, ""));
    } else if dialog.plans.is_empty() {
        let text = if dialog.is_read {
            "No plan works for this session; obey plan run starts one."
        } else {
            "reading"
        };
        out.push(dim(app, cells::cut(text, width)));
    }
    out.push(Line::default());
    out.push(dim(app, cells::cut("j k choose  enter opens the step's session  esc close", width)));
    out
}

fn role_of(state: &str) -> Role {
    match state {
        "running" => Role::Accent,
        "succeeded" => Role::Good,
        "failed" => Role::Bad,
        "cancelled" | "blocked" => Role::Warn,
        _ => Role::Dim,
    }
}
