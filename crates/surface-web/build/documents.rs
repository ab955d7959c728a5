//! Makes pages of the documents (`docs/`), for `/docs`. Links between them lead to their pages; what is outside of `docs/` is
//! named and not linked.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// Writes the table of all pages.
pub(crate) fn write(out: &Path) -> Result<(), Box<dyn Error>> {
    let docs = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../docs");
    println!("cargo:rerun-if-changed={}", docs.display());
    let mut files = Vec::new();
    super::list(&docs, &mut files)?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "md"));
    files.sort();
    let mut table = String::from("pub(super) static DOCUMENTS: &[Document] = &[\n");
    for file in files {
        let path = file.strip_prefix(&docs)?.to_str().ok_or("a name in docs is not UTF-8")?.to_owned();
        let text = fs::read_to_string(&file)?;
        let (title, body) = page(&path, &text);
        let address = address(&path);
        writeln!(table, "    Document {{ address: {address:?}, title: {title:?}, body: {body:?} }},")?;
    }
    table.push_str("];\n");
    fs::write(out.join("documents.rs"), table)?;
    Ok(())
}

/// Returns where a document is served, below `/docs/`.
fn address(path: &str) -> String {
    let path = path.strip_suffix(".md").unwrap_or(path);
    let path = path.strip_suffix("/README").unwrap_or(path);
    if path == "SUMMARY" { "contents".to_owned() } else { path.to_owned() }
}

/// Returns the title and the HTML of a document.
fn page(path: &str, text: &str) -> (String, String) {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let mut title = String::new();
    let mut made = Vec::with_capacity(events.len());
    let mut unlinked = false;
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let words = words_of(&events[at + 1..]);
                if *level == HeadingLevel::H1 && title.is_empty() {
                    title.clone_from(&words);
                }
                let id = Some(CowStr::from(anchor(&words)));
                made.push(Event::Start(Tag::Heading {
                    level: *level,
                    id,
                    classes: Vec::new(),
                    attrs: Vec::new(),
                }));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => match target(folder, dest_url) {
                Some(url) => {
                    let (link_type, title, id) = (*link_type, title.clone(), id.clone());
                    made.push(Event::Start(Tag::Link { link_type, dest_url: url.into(), title, id }));
                }
                None => unlinked = true,
            },
            Event::End(TagEnd::Link) if unlinked => unlinked = false,
            // Nothing in a document is HTML.
            Event::Html(raw) | Event::InlineHtml(raw) => made.push(Event::Text(raw.clone())),
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => {}
            other => made.push(other.clone()),
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, made.into_iter());
    (title, body)
}

/// Returns where a link leads; nothing if that is outside of the documents.
fn target(folder: &str, url: &str) -> Option<String> {
    if url.contains("://") || url.starts_with('#') {
        return Some(url.to_owned());
    }
    let (path, heading) = url.split_once('#').map_or((url, ""), |(path, heading)| (path, heading));
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    let path = parts.join("/");
    path.ends_with(".md").then(|| {
        let heading = if heading.is_empty() { String::new() } else { format!("#{heading}") };
        format!("/docs/{}{heading}", address(&path))
    })
}

/// Returns the text of a heading that has begun.
fn words_of(events: &[Event<'_>]) -> String {
    let mut words = String::new();
    for event in events {
        match event {
            Event::Text(text) | Event::Code(text) => words.push_str(text),
            Event::End(TagEnd::Heading(_)) => break,
            _ => {}
        }
    }
    words
}

/// Returns a heading as links name it.
fn anchor(words: &str) -> String {
    let kept = words.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}
