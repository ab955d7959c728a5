//! The commands that the documents print are commands of the program: every line of a code block that begins with `obey` is
//! read as the program would read it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on ends")]

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use clap::error::ErrorKind;
use cli_args::Cli;

/// Pages beside those below `docs`.
const PAGES: [&str; 4] = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "bench/README.md"];

#[test]
fn every_command_that_a_document_prints_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = PAGES.iter().map(|page| root.join(page)).collect();
    collect(&root.join("docs"), &mut pages);
    let (mut count, mut wrong) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        for (line, command) in commands(&text) {
            count += 1;
            if let Err(reason) = is_read(&command) {
                wrong.push(format!("{}:{line}: {}\n  {reason}", page.display(), command.join(" ")));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 300, "only {count} commands were found");
}

/// Adds the pages below a folder. Decisions tell what was, and are left out.
fn collect(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("decisions") {
            collect(&path, pages);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
}

fn is_read(command: &[String]) -> Result<(), String> {
    match Cli::command().try_get_matches_from(command) {
        Ok(_) => Ok(()),
        Err(error) if shows_help(error.kind()) => Ok(()),
        Err(error) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
    }
}

fn shows_help(kind: ErrorKind) -> bool {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    matches!(kind, DisplayHelp | DisplayVersion | DisplayHelpOnMissingArgumentOrSubcommand)
}

/// Returns the commands of the code blocks of a page, each with the number of its line.
fn commands(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    // How far the block is indented that a line is in; what is indented further is a part of something else.
    let mut block = None;
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        let indent = line.len() - line.trim_start().len();
        if trimmed.starts_with("```") {
            block = if block.is_none() { Some(indent) } else { None };
            continue;
        }
        let mut line = trimmed.trim_start_matches("$ ").to_owned();
        if block != Some(indent) || !(line == "obey" || line.starts_with("obey ")) {
            continue;
        }
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().map_or("", |(_, more)| more.trim()));
        }
        found.extend(words(&line).into_iter().map(|command| (number + 1, command)));
    }
    found
}

/// Splits a line into its commands of `obey` and their words, as a shell does. What another command would print is one word.
fn words(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut command, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut quote, mut depth, mut is_word) = (None, 0, false);
    for one in line.chars() {
        match (one, quote) {
            ('(', _) if word.ends_with('$') || depth > 0 => depth += 1,
            (')', _) if depth > 0 => depth -= 1,
            (_, _) if depth > 0 => {}
            ('"' | '\'', None) => (quote, is_word) = (Some(one), true),
            (_, Some(open)) if one == open => quote = None,
            (_, Some(_)) => word.push(one),
            ('#', None) if !is_word => break,
            ('|' | '&' | ';' | '<' | '>' | ' ', None) => {
                if is_word {
                    command.push(std::mem::take(&mut word));
                    is_word = false;
                }
                match one {
                    ' ' => {}
                    '<' | '>' | '|' => break,
                    _ => all.push(std::mem::take(&mut command)),
                }
            }
            _ => {
                word.push(one);
                is_word = true;
            }
        }
    }
    if is_word {
        command.push(word);
    }
    all.push(command);
    // `…` stands for words that the page leaves out.
    all.retain(|command| {
        command.first().is_some_and(|name| name == "obey") && !command.iter().any(|word| word == "…")
    });
    all
}
