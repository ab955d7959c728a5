//! The rules of the tree, each a small function from files to violations. `tests/tidy.rs` runs them all with
//! the other tests, so that a violation is a failed test and not a review comment.

pub mod conformance;
pub mod dependencies;
pub mod errors;
pub mod events;
pub mod files;
pub mod hygiene;
pub mod imports;
pub mod links;
pub mod map;
pub mod names;
pub mod proto;
pub mod rust;
pub mod sizes;
pub mod source;
pub mod tree;
pub mod versions;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

pub use tree::{File, Tree};

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breach {
    pub rule: &'static str,
    /// The file, and the line if there is one.
    pub place: String,
    /// What is wrong and what to do about it.
    pub remedy: String,
}

impl Breach {
    pub fn new(rule: &'static str, place: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { rule, place: place.into(), remedy: remedy.into() }
    }
}

/// The result of checking the tree.
#[derive(Debug, Default)]
pub struct Report {
    pub breaches: Vec<Breach>,
    /// For information; not a violation.
    pub notes: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for breach in &self.breaches {
            writeln!(f, "{}: {} [{}]", breach.place, breach.remedy, breach.rule)?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        match self.breaches.len() {
            0 => writeln!(f, "tidy"),
            1 => writeln!(f, "1 breach"),
            count => writeln!(f, "{count} breaches"),
        }
    }
}

/// A file that may violate a rule, and why. An entry that is no longer needed is a violation itself.
pub type Allowed = (&'static str, &'static str);

/// Checks every rule of a tree.
pub fn check(root: &Path) -> Result<Report> {
    let tree = Tree::read(root)?;
    let packages = imports::packages(root)?;
    let mut breaches = imports::edges(&packages);
    breaches.extend(imports::third_party(&packages));
    breaches.extend(dependencies::check(root)?);
    breaches.extend(map::names(&tree));
    breaches.extend(links::lead_somewhere(&tree, root));
    breaches.extend(links::contents(&tree));
    breaches.extend(files::headers(&tree));
    breaches.extend(files::lengths(&tree, files::LONG_FILES));
    breaches.extend(files::no_mod_files(&tree));
    breaches.extend(sizes::crates(&tree));
    breaches.extend(names::types_once(&tree));
    breaches.extend(names::banned_words(&tree));
    breaches.extend(source::no_async(&tree));
    breaches.extend(source::processes(&tree, source::STARTS_PROCESSES));
    breaches.extend(source::clocks(&tree));
    breaches.extend(source::unfinished(&tree));
    breaches.extend(errors::pages(&tree));
    breaches.extend(events::decided(&tree));
    breaches.extend(hygiene::developer_paths(&tree, root));
    breaches.extend(hygiene::lock_files(&tree));
    breaches.extend(proto::contracts(&tree, proto::published(root).as_deref()));
    breaches.extend(proto::published_files(&tree));
    breaches.extend(versions::repeated(root)?);
    breaches.extend(crate::web::check_sources(root)?);
    let conformance = conformance::rows(&tree);
    breaches.extend(conformance.breaches);
    breaches.sort();
    Ok(Report { breaches, notes: conformance.notes })
}

/// Returns the root of the workspace this was built from.
pub fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
