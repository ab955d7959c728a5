//! Parses JSON with comments and trailing commas into a tree with text positions.

use serde_json::{Map, Value};

/// Maximum nesting; a common limit of parsers.
const DEPTH_MAX: usize = 128;

/// A value and its position.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) kind: JsonKind,
}

#[derive(Debug)]
pub(super) enum JsonKind {
    Object(Vec<Member>),
    List(Vec<Node>),
    Plain(Value),
}

/// A name with its value.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// The position of the name.
    pub(super) start: usize,
    pub(super) value: Node,
    /// The position of the comma after it.
    pub(super) comma: Option<usize>,
}

impl Node {
    /// Returns the value without comments.
    pub(super) fn value(&self) -> Value {
        match &self.kind {
            JsonKind::Plain(value) => value.clone(),
            JsonKind::List(list) => list.iter().map(Node::value).collect(),
            JsonKind::Object(members) => {
                let pairs = members.iter().map(|member| (member.name.clone(), member.value.value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }
}

/// Parses a whole text; an error names the line.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut reader = Reader { text, at: if text.starts_with('\u{feff}') { 3 } else { 0 } };
    let parsed = reader.blanks().and_then(|()| reader.node(0)).and_then(|node| {
        reader.blanks()?;
        if reader.at < text.len() { Err("something follows the end".to_owned()) } else { Ok(node) }
    });
    parsed.map_err(|problem| {
        let before = &text[..reader.at.min(text.len())];
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
        format!("line {line}, column {column} is not JSON: {problem}")
    })
}

/// Returns the end of a comment that follows on the same line; without one, the same position.
pub(super) fn end_of_remark(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let begin = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    let line = rest.find('\n').unwrap_or(rest.len());
    let remark = &rest[begin..line];
    let is_whole =
        remark.starts_with("//") || (remark.starts_with("/*") && remark.trim_end().ends_with("*/"));
    if is_whole { at + begin + remark.trim_end().len() } else { at }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn next(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn takes(&mut self, word: char) -> bool {
        let found = self.next() == Some(word);
        if found {
            self.at += word.len_utf8();
        }
        found
    }

    /// Skips whitespace and comments.
    fn blanks(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            self.at += blank;
            if self.rest().starts_with("//") {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
            } else if self.rest().starts_with("/*") {
                let Some(length) = self.rest().find("*/") else {
                    return Err("a comment does not end".to_owned());
                };
                self.at += length + 2;
            } else {
                return Ok(());
            }
        }
    }

    /// Parses a value and records its position.
    fn node(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let start = self.at;
        let kind = match self.next() {
            Some('{') => self.object(depth)?,
            Some('[') => self.list(depth)?,
            Some('"') => JsonKind::Plain(Value::String(self.string()?)),
            Some(_) => self.word()?,
            None => return Err("it ends too early".to_owned()),
        };
        Ok(Node { start, end: self.at, kind })
    }

    fn object(&mut self, depth: usize) -> Result<JsonKind, String> {
        self.at += 1;
        let mut members = Vec::new();
        loop {
            self.blanks()?;
            if self.takes('}') {
                return Ok(JsonKind::Object(members));
            }
            if members.last().is_some_and(|member: &Member| member.comma.is_none()) {
                return Err("a comma is missing".to_owned());
            }
            let start = self.at;
            if self.next() != Some('"') {
                return Err("a name in quotes is missing".to_owned());
            }
            let name = self.string()?;
            self.blanks()?;
            if !self.takes(':') {
                return Err("a colon is missing".to_owned());
            }
            self.blanks()?;
            let value = self.node(depth + 1)?;
            self.blanks()?;
            let comma = self.at;
            let comma = self.takes(',').then_some(comma);
            members.push(Member { name, start, value, comma });
        }
    }

    fn list(&mut self, depth: usize) -> Result<JsonKind, String> {
        self.at += 1;
        let mut list = Vec::new();
        let mut comma = true;
        loop {
            self.blanks()?;
            if self.takes(']') {
                return Ok(JsonKind::List(list));
            }
            if !comma {
                return Err("a comma is missing".to_owned());
            }
            list.push(self.node(depth + 1)?);
            self.blanks()?;
            comma = self.takes(',');
        }
    }

    fn string(&mut self) -> Result<String, String> {
        let bytes = self.rest().as_bytes();
        let mut end = 1;
        while bytes.get(end).is_some_and(|byte| *byte != b'"') {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let Some(whole) = self.rest().get(..end + 1) else { return Err("a text does not end".to_owned()) };
        let read: Result<String, _> = serde_json::from_str(whole);
        let text = read.map_err(|_| "a text holds what it may not".to_owned())?;
        self.at += end + 1;
        Ok(text)
    }

    fn word(&mut self) -> Result<JsonKind, String> {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let length = self.rest().len() - self.rest().trim_start_matches(letters).len();
        let read: Result<Value, _> = serde_json::from_str(&self.rest()[..length]);
        let value = read.map_err(|_| "this is no value".to_owned())?;
        self.at += length;
        Ok(JsonKind::Plain(value))
    }
}
