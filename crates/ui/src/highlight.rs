//! Colours of code blocks, made on a thread of its own: parsing takes longer than a frame. A block is drawn plain until
//! its colours are there.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, mpsc};

use syntect::parsing::{ParseState, ScopeStack, SyntaxSet};

use crate::limits;
use crate::theme::Role;

/// The pieces of each line of a block.
pub(crate) type ColoredLines = Vec<Vec<(Role, String)>>;

/// A block that was coloured.
#[derive(Debug)]
pub(crate) struct Colored {
    key: u64,
    lines: ColoredLines,
}

/// A block to be coloured.
struct Job {
    key: u64,
    language: String,
    code: String,
}

/// The coloured blocks, and the way to the thread that makes them.
#[derive(Default)]
pub(crate) struct Highlights {
    jobs: Option<mpsc::Sender<Job>>,
    blocks: RefCell<HashMap<u64, Option<Arc<ColoredLines>>>>,
}

impl Highlights {
    /// Starts the thread; each result is passed to `done`. It ends when this value is dropped.
    pub(crate) fn start(done: impl Fn(Colored) -> bool + Send + 'static) -> Self {
        let (jobs, waiting) = mpsc::channel::<Job>();
        let work = move || {
            let syntaxes = two_face::syntax::extra_newlines();
            for job in waiting {
                let lines = colored(&syntaxes, &job.language, &job.code).unwrap_or_default();
                if !done(Colored { key: job.key, lines }) {
                    return;
                }
            }
        };
        // Without the thread code stays plain.
        let started = std::thread::Builder::new().name("highlight".to_owned()).spawn(work);
        Self { jobs: started.ok().map(|_| jobs), blocks: RefCell::default() }
    }

    /// Stores a result.
    pub(crate) fn insert(&self, colored: Colored) {
        let mut blocks = self.blocks.borrow_mut();
        if blocks.len() > limits::HIGHLIGHT_BLOCKS_MAX {
            blocks.clear();
        }
        blocks.insert(colored.key, Some(Arc::new(colored.lines)));
    }

    /// Returns the colours of a block, or asks for them.
    pub(crate) fn get(&self, language: &str, code: &str) -> Option<Arc<ColoredLines>> {
        let jobs = self.jobs.as_ref()?;
        if language.is_empty() || code.lines().count() > limits::HIGHLIGHT_LINES_MAX {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (language, code).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(known) = self.blocks.borrow().get(&key) {
            return known.clone().filter(|lines| !lines.is_empty());
        }
        self.blocks.borrow_mut().insert(key, None);
        // The thread has ended only if the whole program ends.
        let _sent = jobs.send(Job { key, language: language.to_owned(), code: code.to_owned() });
        None
    }
}

/// Parses a block. `None` if the language is not known.
fn colored(syntaxes: &SyntaxSet, language: &str, code: &str) -> Option<ColoredLines> {
    let syntax = syntaxes.find_syntax_by_token(language)?;
    let mut state = ParseState::new(syntax);
    let mut scopes = ScopeStack::new();
    let mut lines = Vec::new();
    for line in code.split('\n') {
        let with_end = format!("{line}\n");
        let operations = state.parse_line(&with_end, syntaxes).ok()?;
        let mut parts: Vec<(Role, String)> = Vec::new();
        let mut from = 0;
        for (at, operation) in operations {
            push(&mut parts, role(&scopes), line.get(from..at.min(line.len())));
            from = at.min(line.len());
            scopes.apply(&operation).ok()?;
        }
        push(&mut parts, role(&scopes), line.get(from..));
        lines.push(parts);
    }
    Some(lines)
}

fn push(parts: &mut Vec<(Role, String)>, role: Role, text: Option<&str>) {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return };
    match parts.last_mut() {
        Some((last, joined)) if *last == role => joined.push_str(text),
        _ => parts.push((role, text.to_owned())),
    }
}

/// The meaning of a piece: that of the innermost scope that has one.
fn role(scopes: &ScopeStack) -> Role {
    for scope in scopes.as_slice().iter().rev() {
        let name = scope.build_string();
        let role = match name.split('.').next().unwrap_or_default() {
            "comment" => Role::Comment,
            "string" | "constant" => Role::Literal,
            "keyword" | "storage" => Role::Keyword,
            "entity" | "support" => Role::Accent,
            "markup" if name.starts_with("markup.inserted") => Role::Added,
            "markup" if name.starts_with("markup.deleted") => Role::Removed,
            _ => continue,
        };
        return role;
    }
    Role::Text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_coloured_by_meaning_and_keeps_its_text() {
        let syntaxes = two_face::syntax::extra_newlines();
        let code = "// note\nfn main() { let x = \"s\"; }";
        let lines = colored(&syntaxes, "rust", code).unwrap();
        let text: Vec<String> =
            lines.iter().map(|line| line.iter().map(|(_, text)| text.as_str()).collect()).collect();
        assert_eq!(text.join("\n"), code);
        assert_eq!(lines[0][0].0, Role::Comment);
        assert!(lines[1].iter().any(|(role, text)| *role == Role::Keyword && text.contains("fn")));
        assert!(lines[1].iter().any(|(role, text)| *role == Role::Literal && text.contains('s')));
        assert!(colored(&syntaxes, "no such language", code).is_none());
    }
}
