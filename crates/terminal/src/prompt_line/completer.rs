//! Completes what is typed: slash commands at the beginning, names of files behind `@`.

use std::path::{Path, PathBuf};

use reedline::{Completer, CompletionResult, Span, Suggestion};

use super::{SharedShown, lock};
use crate::limits;

pub(super) struct PromptCompleter {
    folder: PathBuf,
    shown: SharedShown,
}

impl PromptCompleter {
    pub(super) fn new(folder: PathBuf, shown: SharedShown) -> Self {
        Self { folder, shown }
    }
}

impl Completer for PromptCompleter {
    fn complete(&mut self, line: &str, pos: usize) -> CompletionResult {
        let typed = line.get(..pos).unwrap_or_default();
        let begin = typed.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let word = &typed[begin..];
        let values = if let Some(path) = word.strip_prefix('@') {
            files(&self.folder, path).into_iter().map(|path| format!("@{path}")).collect()
        } else if begin == 0 && word.starts_with('/') {
            let shown = lock(&self.shown);
            shown.commands.iter().filter(|command| command.starts_with(word)).cloned().collect()
        } else {
            Vec::new()
        };
        let suggestion = |value: String| Suggestion {
            append_whitespace: !value.ends_with('/'),
            value,
            span: Span::new(begin, pos),
            display_override: None,
            description: None,
            style: None,
            extra: None,
            match_indices: None,
        };
        CompletionResult::fresh(values.into_iter().map(suggestion).collect::<Vec<_>>())
    }
}

/// Returns the names below a folder that begin with what was typed; folders end with a slash. Hidden ones only if typed.
fn files(folder: &Path, typed: &str) -> Vec<String> {
    let (parent, begin) = typed.rsplit_once('/').map_or(("", typed), |(parent, name)| (parent, name));
    let prefix = if typed.contains('/') { format!("{parent}/") } else { String::new() };
    let Ok(entries) = folder.join(&prefix).read_dir() else { return Vec::new() };
    let mut names: Vec<String> = entries
        .take(limits::COMPLETED_FILES_MAX)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_wanted = name.starts_with(begin)
                && (begin.starts_with('.') || !name.starts_with('.'))
                && !name.contains(char::is_whitespace);
            let slash = if entry.path().is_dir() { "/" } else { "" };
            is_wanted.then(|| format!("{prefix}{name}{slash}"))
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::super::Shown;
    use super::*;

    #[test]
    fn files_and_commands_are_completed_where_they_belong() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("src")).unwrap();
        std::fs::write(temp.path().join("src/main.rs"), "").unwrap();
        std::fs::write(temp.path().join(".hidden"), "").unwrap();
        let commands = vec!["/compact".to_owned(), "/cancel".to_owned(), "/mode".to_owned()];
        let shown = Arc::new(Mutex::new(Shown { commands, ..Shown::default() }));
        let mut completer = PromptCompleter::new(temp.path().to_owned(), shown);
        let mut complete = |line: &str| -> Vec<String> {
            let result = completer.complete(line, line.len());
            result.suggestions().iter().map(|suggestion| suggestion.value.clone()).collect()
        };
        assert_eq!(complete("see @s"), ["@src/"]);
        assert_eq!(complete("see @src/"), ["@src/main.rs"]);
        assert_eq!(complete("@"), ["@src/"]);
        assert_eq!(complete("@.h"), ["@.hidden"]);
        assert_eq!(complete("/c"), ["/compact", "/cancel"]);
        assert!(complete("not /c").is_empty());
        assert!(complete("plain").is_empty());
    }
}
