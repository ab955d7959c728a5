//! Edits one MCP server in a JSON file, with or without comments: `{"mcpServers": {"obey": …}}`. Only the
//! entry's text is changed; the rest of the file keeps its bytes, including comments and whitespace.

mod tree;

use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use tree::{JsonKind, Member, Node};

const NAME: &str = "obey";
const USUAL_INDENT: &str = "  ";

/// Adds or replaces the entry. Returns the same text if it is already there.
pub(super) fn set(text: &str, container: &str, entry: &Value) -> Result<String, String> {
    let style = Style::of(text);
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        let mut servers = Map::new();
        servers.insert(NAME.to_owned(), entry.clone());
        let mut all = Map::new();
        all.insert(container.to_owned(), Value::Object(servers));
        return Ok(format!("{text}{}{}", style.pretty(&Value::Object(all), ""), style.newline));
    }
    let root = tree::parse(text)?;
    let after = match find(&root, container)? {
        None => {
            let mut servers = Map::new();
            servers.insert(NAME.to_owned(), entry.clone());
            style.insert(text, &root, container, &Value::Object(servers))
        }
        Some(servers) => match member(servers, NAME) {
            Some(known) if known.value.value() == *entry => return Ok(text.to_owned()),
            Some(known) => {
                let indent = line_indent(text, known.start);
                let written = if text[servers.start..servers.end].contains('\n') {
                    style.pretty(entry, indent)
                } else {
                    entry.to_string()
                };
                format!("{}{written}{}", &text[..known.value.start], &text[known.value.end..])
            }
            None => style.insert(text, servers, NAME, entry),
        },
    };
    let mut wanted = root.value();
    wanted[container][NAME] = entry.clone();
    kept(after, &wanted)
}

/// Removes the entry. Returns the same text if it is not there.
pub(super) fn remove(text: &str, container: &str) -> Result<String, String> {
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Ok(text.to_owned());
    }
    let root = tree::parse(text)?;
    let Some(servers) = find(&root, container)? else { return Ok(text.to_owned()) };
    let JsonKind::Object(members) = &servers.kind else { return Ok(text.to_owned()) };
    let Some(at) = members.iter().rposition(|member| member.name == NAME) else { return Ok(text.to_owned()) };
    let after = without(text, servers, members, at);
    let mut wanted = root.value();
    if let Some(servers) = wanted[container].as_object_mut() {
        servers.remove(NAME);
    }
    kept(after, &wanted)
}

/// Accepts a result only if it parses to the expected value: nothing but the entry has changed.
fn kept(after: String, wanted: &Value) -> Result<String, String> {
    match tree::parse(&after) {
        Ok(root) if root.value() == *wanted => Ok(after),
        _ => Err("cannot be changed without harm".to_owned()),
    }
}

/// Returns the object that contains the servers; `None` if it is missing.
fn find<'a>(root: &'a Node, container: &str) -> Result<Option<&'a Node>, String> {
    if !matches!(root.kind, JsonKind::Object(_)) {
        return Err("is JSON, but no object".to_owned());
    }
    match member(root, container) {
        None => Ok(None),
        Some(Member { value, .. }) if matches!(value.kind, JsonKind::Object(_)) => Ok(Some(value)),
        Some(_) => Err(format!("{container} is no object")),
    }
}

/// Returns the member with a name; of several the last one wins, as in every parser.
fn member<'a>(object: &'a Node, name: &str) -> Option<&'a Member> {
    match &object.kind {
        JsonKind::Object(members) => members.iter().rev().find(|member| member.name == name),
        _ => None,
    }
}

/// The formatting of a file.
struct Style {
    indent: String,
    newline: &'static str,
}

impl Style {
    /// Detects the indentation and the line ending of a text.
    fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        // The first indented line determines the indentation.
        let indent = text.lines().find_map(|line| {
            let indent = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
            let rest = &line[indent.len()..];
            (!indent.is_empty() && rest.starts_with('"')).then(|| indent.to_owned())
        });
        Self { indent: indent.unwrap_or_else(|| USUAL_INDENT.to_owned()), newline }
    }

    /// Writes a value over several lines, all but the first indented.
    fn pretty(&self, value: &Value, indent: &str) -> String {
        let mut bytes = Vec::new();
        let formatter = PrettyFormatter::with_indent(self.indent.as_bytes());
        let mut serializer = Serializer::with_formatter(&mut bytes, formatter);
        // A JSON value always serializes.
        let _infallible = serde::Serialize::serialize(value, &mut serializer);
        let text = String::from_utf8(bytes).unwrap_or_default();
        text.replace('\n', &format!("{}{indent}", self.newline))
    }

    /// Adds a member at the end of an object.
    fn insert(&self, text: &str, object: &Node, name: &str, value: &Value) -> String {
        let JsonKind::Object(members) = &object.kind else { return text.to_owned() };
        let inside = &text[object.start + 1..object.end - 1];
        let key = Value::String(name.to_owned());
        let closing = line_indent(text, object.start);
        let newline = self.newline;
        let Some(last) = members.last() else {
            let indent = format!("{closing}{}", self.indent);
            let inside = inside.trim_end();
            return format!(
                "{}{{{inside}{newline}{indent}{key}: {}{newline}{closing}}}{}",
                &text[..object.start],
                self.pretty(value, &indent),
                &text[object.end..],
            );
        };
        let (comma, end) = match last.comma {
            Some(comma) => ("", comma + 1),
            None => (",", last.value.end),
        };
        let (before, after) = (&text[..last.value.end], &text[last.value.end..]);
        if !inside.contains('\n') {
            let rest = &after[end - last.value.end..];
            let trailing = if last.comma.is_some() { "," } else { "" };
            return format!("{before}, {key}: {value}{trailing}{rest}");
        }
        // A comment after the last member stays after it.
        let point = tree::end_of_remark(text, end) - last.value.end;
        let own = line_indent(text, last.start);
        let indent = if text[..last.start].ends_with(own) && is_first(text, last.start) {
            own.to_owned()
        } else {
            format!("{closing}{}", self.indent)
        };
        let trailing = if last.comma.is_some() { "," } else { "" };
        format!(
            "{before}{comma}{}{newline}{indent}{key}: {}{trailing}{}",
            &after[..point],
            self.pretty(value, &indent),
            &after[point..],
        )
    }
}

/// Removes a member from its object.
fn without(text: &str, object: &Node, members: &[Member], at: usize) -> String {
    let gone = &members[at];
    let (mut start, mut end) = (gone.start, gone.comma.map_or(gone.value.end, |comma| comma + 1));
    if members.len() == 1 {
        let rest = format!("{}{}", &text[object.start + 1..start], &text[end..object.end - 1]);
        if rest.trim().is_empty() {
            return format!("{}{{}}{}", &text[..object.start], &text[object.end..]);
        }
    }
    let last = at + 1 == members.len();
    if let (true, Some(before), None) = (last, at.checked_sub(1).map(|at| &members[at]), gone.comma) {
        // The comma before it is removed, too; the text between the two stays.
        let comma = before.comma.unwrap_or(before.value.end);
        start = text[..start].trim_end().len().max(comma + 1);
        return format!("{}{}{}", &text[..comma], &text[comma + 1..start], &text[end..]);
    }
    if is_first(text, start) {
        // A member on its own line is removed with its line end; the surrounding lines stay as they are.
        let blank = text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
        let rest = &text[end + blank..];
        let newline = ["\r\n", "\n"].into_iter().find(|newline| rest.starts_with(newline));
        if let Some(newline) = newline {
            start = text[..start].trim_end_matches([' ', '\t']).len();
            end += blank + newline.len();
        }
    } else {
        end += text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len();
    }
    format!("{}{}", &text[..start], &text[end..])
}

/// Returns the indentation of a line.
fn line_indent(text: &str, at: usize) -> &str {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let rest = &text[line..at];
    &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
}

/// Whether only whitespace precedes it in its line.
fn is_first(text: &str, at: usize) -> bool {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    text[line..at].trim_matches([' ', '\t']).is_empty()
}

#[cfg(test)]
mod tests;
