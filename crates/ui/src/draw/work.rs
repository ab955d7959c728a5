//! The dialogs about the work of sessions: queue, search, usage, budget, merge. Lines only; the frame around them is drawn
//! elsewhere.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::dialog::field_line;
use crate::app::{App, BUDGET_FIELDS, BudgetDialog, QueueDialog, SearchDialog, UsageDialog};
use crate::data::{SearchHit, UsageRow, UsageSpan};
use crate::theme::{Glyph, Role};
use crate::{cells, format, sanitize};

/// Columns of a dialog that lists something.
pub(super) fn columns(area: Rect) -> usize {
    usize::from(area.width.saturating_sub(8)).clamp(20, 110)
}

pub(super) fn dim(app: &App, text: impl Into<String>) -> Line<'static> {
    Line::styled(text.into(), app.options.theme.style(Role::Dim))
}

/// The window of a list in which the selected line is visible.
pub(super) fn window(selected: usize, count: usize, room: usize) -> std::ops::Range<usize> {
    let first = (selected + 1).saturating_sub(room.max(1));
    first..count.min(first + room.max(1))
}

/// The prompts that wait.
pub(super) fn queue(app: &App, queue: &QueueDialog, area: Rect) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let width = columns(area);
    let mut lines = Vec::new();
    match &queue.entries {
        None => lines.push(dim(app, "reading")),
        Some(entries) if entries.is_empty() => {
            lines.push(dim(app, "Nothing waits. A message that is sent while a turn runs waits here."));
        }
        Some(entries) => {
            let room = usize::from(area.height).saturating_sub(7);
            for at in window(queue.selected, entries.len(), room) {
                let Some(entry) = entries.get(at) else { continue };
                let editing = queue.edited.as_ref().filter(|_| at == queue.selected);
                if let Some(text) = editing {
                    let mut line = vec![Span::styled(format!("{:>2} ", at + 1), theme.style(Role::Accent))];
                    line.extend(field_line(app, text).into_iter().flat_map(|line| line.spans));
                    lines.push(Line::from(line));
                    continue;
                }
                let style = if at == queue.selected { theme.selected() } else { theme.style(Role::Text) };
                let files = match entry.attachments {
                    0 => String::new(),
                    count => format!(" [{}]", format::plural(count, "file")),
                };
                let text = format!("{:>2} {}{files}", at + 1, sanitize::clean_line(&entry.text));
                lines.push(Line::styled(cells::fit(&text, width), style));
            }
        }
    }
    if !queue.paused.is_empty() {
        let text = format!("paused: {}", sanitize::clean_line(&queue.paused));
        lines.extend(cells::wrap_text(&text, theme.style(Role::Warn), width, ""));
    }
    lines.push(Line::default());
    let pause = if queue.paused.is_empty() { "p pause" } else { "p go on" };
    let keys = match &queue.edited {
        Some(_) => "enter keep  esc leave as it was".to_owned(),
        None => format!("j k choose  J K move  e edit  x drop  {pause}  esc close"),
    };
    lines.push(dim(app, cells::cut(&keys, width)));
    lines
}

/// The search over all sessions.
pub(super) fn search(app: &App, search: &SearchDialog, area: Rect) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let width = columns(area);
    let mut lines = field_line(app, &search.field);
    lines.push(Line::default());
    if !search.failure.is_empty() {
        let why = sanitize::clean_line(&search.failure);
        lines.extend(cells::wrap_text(&why, theme.style(Role::Bad), width, ""));
    } else if search.field.trim().is_empty() {
        lines.push(dim(
            app,
            cells::cut("words of prompts, answers, commands and outputs; word* is a beginning", width),
        ));
    } else if search.hits.is_empty() {
        let known = search.searched == search.field.trim();
        lines.push(dim(app, if known { "nothing found" } else { "searching" }));
    }
    let room = usize::from(area.height).saturating_sub(6) / 2;
    for at in window(search.selected, search.hits.len(), room) {
        if let Some(hit) = search.hits.get(at) {
            lines.extend(hit_lines(app, hit, at == search.selected, width));
        }
    }
    if search.more {
        lines.push(dim(app, "there is more: add a word"));
    }
    // The dialog keeps its width while hits come and go.
    lines.push(Line::raw(" ".repeat(width)));
    lines
}

fn hit_lines(app: &App, hit: &SearchHit, selected: bool, width: usize) -> [Line<'static>; 2] {
    let theme = &app.options.theme;
    let separator = theme.glyph(Glyph::Separator);
    let head = format!("{} {separator} {}", sanitize::clean_line(&hit.name), hit.kind);
    let age = format::span_ms(app.now - hit.at);
    let style = if selected { theme.selected() } else { theme.style(Role::Strong) };
    let mut spans = vec![Span::raw("  ")];
    let mut used = 2;
    // What was found is between two marks.
    for (at, part) in hit.snippet.split(['\u{1}', '\u{2}']).enumerate() {
        let part = cells::cut(&one_line(part), width.saturating_sub(used));
        used += cells::width(&part);
        spans.push(Span::styled(part, theme.style(if at % 2 == 1 { Role::Warn } else { Role::Dim })));
    }
    [Line::styled(cells::ends(&head, &age, width), style), Line::from(spans)]
}

/// One line, with the spaces at its ends.
fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    let inner = sanitize::clean_line(&text);
    let before = if text.starts_with(' ') && !inner.starts_with(' ') { " " } else { "" };
    let after = if text.ends_with(' ') && !inner.ends_with(' ') && !inner.is_empty() { " " } else { "" };
    format!("{before}{inner}{after}")
}

/// Tokens and money over time.
pub(super) fn usage(app: &App, usage: &UsageDialog, area: Rect) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let width = columns(area);
    let heading = format!("by {}, {}", usage.by.name(), usage.span.name());
    let mut lines = vec![Line::styled(heading, theme.style(Role::Strong)), Line::default()];
    if !app.machines.is_empty() {
        let text = match usage.uncounted.as_slice() {
            [] => "of all machines; the budgets are those of this one".to_owned(),
            names => format!("not counted, since not reached: {}", sanitize::clean_line(&names.join(", "))),
        };
        lines.insert(1, dim(app, cells::cut(&text, width)));
    }
    match &usage.rows {
        None => lines.push(dim(app, "reading")),
        Some(rows) if rows.is_empty() => {
            lines.push(dim(app, "no agent reported any usage in this time; t shows another"))
        }
        Some(rows) => {
            let table = [("", "tokens", "cost", "")];
            lines.extend(
                table.map(|(name, tokens, cost, over)| dim(app, usage_row(name, tokens, cost, over))),
            );
            let room = usize::from(area.height).saturating_sub(8).max(1);
            let first = usage.scroll.min(rows.len().saturating_sub(room));
            let most = rows.iter().flat_map(|row| &row.buckets).copied().max().unwrap_or(0);
            for row in rows.iter().skip(first).take(room) {
                lines.push(Line::raw(cells::cut(&printed(app, row, most), width)));
            }
            let all = sum(rows, usage.span);
            let most = all.buckets.iter().copied().max().unwrap_or(0);
            lines.push(Line::styled(cells::cut(&printed(app, &all, most), width), theme.style(Role::Strong)));
        }
    }
    lines.extend(budgets(app, usage, width));
    lines.push(Line::default());
    lines.push(dim(app, cells::cut("tab campaign, provider, model, session  t time  esc close", width)));
    lines
}

fn usage_row(name: &str, tokens: &str, cost: &str, over_time: &str) -> String {
    let cost = format!("{cost:>12}");
    format!("{} {:>10} {cost}  {over_time}", cells::fit(name, 22), tokens)
}

fn printed(app: &App, row: &UsageRow, most: u64) -> String {
    let cost = row.cost_micro_usd.map_or_else(|| "not reported".to_owned(), format::dollars);
    let name = if row.name.is_empty() { "-".to_owned() } else { sanitize::clean_line(&row.name) };
    usage_row(&name, &format::count(row.tokens), &cost, &sparkline(app, &row.buckets, most))
}

fn sum(rows: &[UsageRow], span: UsageSpan) -> UsageRow {
    let mut all =
        UsageRow { name: "all".to_owned(), buckets: vec![0; span.buckets()], ..UsageRow::default() };
    for row in rows {
        all.tokens += row.tokens;
        if let Some(cost) = row.cost_micro_usd {
            all.cost_micro_usd = Some(all.cost_micro_usd.unwrap_or(0) + cost);
        }
        for (sum, bucket) in all.buckets.iter_mut().zip(&row.buckets) {
            *sum += bucket;
        }
    }
    all
}

/// One cell per bucket; its height is the share of the largest.
fn sparkline(app: &App, buckets: &[u64], most: u64) -> String {
    let steps: &[char] = if app.options.theme.ascii {
        &['_', '.', '-', '=', '#']
    } else {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    };
    let cell = |bucket: &u64| match (*bucket, most) {
        (0, _) | (_, 0) => ' ',
        (bucket, most) => {
            let last = steps.len() as u64 - 1;
            let at = usize::try_from(bucket.saturating_mul(last) / most).unwrap_or(0);
            steps.get(at).copied().unwrap_or(' ')
        }
    };
    buckets.iter().map(cell).collect()
}

/// A meter for every budget that sessions share, then for every session that has one, the fullest first.
fn budgets(app: &App, usage: &UsageDialog, width: usize) -> Vec<Line<'static>> {
    let shared = usage.shared.iter().filter_map(|(title, budget)| Some((title.as_str(), budget.tightest()?)));
    let mut limited: Vec<_> = app
        .overview
        .sessions()
        .filter_map(|known| known.budget.tightest().map(|part| (known.name.as_str(), part)))
        .collect();
    limited.sort_by(|(a, x), (b, y)| y.share_used().total_cmp(&x.share_used()).then(a.cmp(b)));
    let limited: Vec<_> = shared.chain(limited).collect();
    if limited.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![Line::default(), dim(app, "budgets")];
    for (name, part) in limited.into_iter().take(8) {
        let role = if part.share_used() >= 0.8 { Role::Warn } else { Role::Text };
        let name = cells::fit(&sanitize::clean_line(name), 22);
        let meter = super::session::meter(app, part.used(), part.limit);
        let text = format!("{name} {meter} {}", super::session::budget_text(&part));
        lines.push(Line::styled(cells::cut(&text, width), app.options.theme.style(role)));
    }
    lines
}

/// The fields of a budget.
pub(super) fn budget(app: &App, budget: &BudgetDialog) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let known = app.overview.get(&budget.session).map(|known| known.budget).unwrap_or_default();
    let mut lines = Vec::new();
    let parts = known.parts();
    for (at, label) in BUDGET_FIELDS.iter().enumerate() {
        let focused = at == budget.at;
        let label_style = theme.style(if focused { Role::Accent } else { Role::Dim });
        let value = budget.fields.get(at).cloned().unwrap_or_default();
        let mut spans = vec![Span::styled(cells::fit(label, 12), label_style)];
        if value.is_empty() && !focused {
            spans.push(Span::styled(cells::fit("no limit", 12), theme.style(Role::Dim)));
        } else {
            spans.push(Span::raw(sanitize::clean_line(&value)));
            if focused {
                spans.push(Span::styled(" ", theme.selected()));
            }
            let used = cells::width(&value) + usize::from(focused);
            spans.push(Span::raw(" ".repeat(12_usize.saturating_sub(used).max(1))));
        }
        if let Some(part) = parts.get(at).copied().flatten() {
            let meter = super::session::meter(app, part.used(), part.limit);
            let text = format!("{meter} {}", super::session::budget_text(&part));
            spans.push(Span::styled(text, theme.style(Role::Dim)));
        }
        lines.push(Line::from(spans));
    }
    lines.push(Line::default());
    if budget.error.is_empty() {
        lines.push(dim(app, "up and down choose, enter sets; a turn that a used-up budget stopped goes on"));
    } else {
        lines.extend(cells::wrap_text(&budget.error, theme.style(Role::Bad), 70, ""));
    }
    lines
}

/// How a tree is merged.
pub(super) fn merge(app: &App, branch: &str, field: &str, failure: &str, area: Rect) -> Vec<Line<'static>> {
    let theme = &app.options.theme;
    let width = columns(area).min(80);
    let branch = if branch.is_empty() { "the tree".to_owned() } else { sanitize::clean_line(branch) };
    let text = format!(
        "{branch} is merged into the branch it was made from. What is not committed is committed first, with this message:"
    );
    let mut lines = cells::wrap_text(&text, theme.style(Role::Text), width, "");
    lines.extend(field_line(app, field));
    lines.push(Line::default());
    if failure.is_empty() {
        lines.push(dim(app, "enter merges  esc does not; on a conflict nothing is changed"));
    } else {
        lines.extend(cells::wrap_text(&sanitize::clean(failure), theme.style(Role::Bad), width, ""));
    }
    lines
}
