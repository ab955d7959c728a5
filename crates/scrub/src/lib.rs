//! Takes secrets out of what is shown or kept: by rules in gitleaks' format, by the values of known secrets,
//! and by following private keys. `[REDACTED:rule]` stands where one was. Knows no session and no store; must not keep or
//! log what it finds.

mod allow;
mod ansi;
mod begun;
mod config;
mod engine;
mod entropy;
mod follow;
mod gate;
mod judge;
mod known;
pub mod limits;
mod live;
mod pem;
mod rules;
mod stream;
mod syntax;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use domain::{Error, ErrorCode};

pub use known::KnownSecret;
pub use live::{Live, Piece, Saved};
pub use stream::Stream;

use config::{File, Merged};
use gate::Gate;
use known::KnownSet;
use rules::RuleSet;

/// Our own rules.
const OWN_RULES: &str = include_str!("../rules/obey.toml");

/// Our own rules, read once: reading them takes most of the time that a scrubber is made in.
static BUILT_IN: LazyLock<Result<BuiltIn, String>> = LazyLock::new(|| {
    let mut merged = Merged::default();
    merged.lay(File::parse(OWN_RULES)?, false);
    Ok(BuiltIn { rules: Arc::new(RuleSet::new(&merged)?), merged: Arc::new(merged) })
});

/// Begins to read our own rules on a thread of its own, so that a program that soon makes a scrubber waits less for them.
pub fn read_ahead() {
    // Without the thread they are read when they are needed.
    let _ =
        std::thread::Builder::new().name("scrub-rules".into()).spawn(|| LazyLock::force(&BUILT_IN).is_ok());
}

struct BuiltIn {
    rules: Arc<RuleSet>,
    merged: Arc<Merged>,
}

/// What a scrubber is made of: our rules, rule files of others laid over them, known secrets.
#[derive(Clone, Debug, Default)]
pub struct Config {
    files: Vec<(String, String)>,
    known: Vec<KnownSecret>,
}

impl Config {
    /// Starts with our rules alone.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lays a rule file over what is there. Its rules, changes, disabled rules and allow-lists count; our other rules
    /// stay. The caller answers for the file: one that an agent can write would let it switch the scrubber off.
    pub fn with_file(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.files.push((name.into(), text.into()));
        self
    }

    /// Adds secrets whose values are known.
    pub fn with_known(mut self, secrets: impl IntoIterator<Item = KnownSecret>) -> Self {
        self.known.extend(secrets);
        self
    }
}

/// Finds and redacts secrets. Cheap to clone; safe to share.
#[derive(Clone, Debug)]
pub struct Scrubber {
    rules: Arc<RuleSet>,
    known: Arc<KnownSet>,
    gate: Arc<Gate>,
    /// What it was made of, for making others.
    merged: Arc<Merged>,
    secrets: Arc<[KnownSecret]>,
}

/// A text without its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    pub bytes: Vec<u8>,
    pub findings: Findings,
}

/// That a rule found something, and where; never what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: Arc<str>,
    /// The number of the secret's first byte in the input.
    pub offset: u64,
}

/// What was found in one text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    list: Vec<Finding>,
    counts: BTreeMap<Arc<str>, u64>,
}

impl Findings {
    fn add(&mut self, finding: Finding) {
        *self.counts.entry(finding.rule.clone()).or_default() += 1;
        if self.list.len() < limits::SCRUB_FINDINGS_MAX {
            self.list.push(finding);
        }
    }

    /// Returns the findings in the order of the text; the first thousand of them.
    pub fn list(&self) -> &[Finding] {
        &self.list
    }

    /// Returns how often each rule found something.
    pub fn counts(&self) -> &BTreeMap<Arc<str>, u64> {
        &self.counts
    }

    /// Returns how many secrets there were.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }
}

impl Scrubber {
    /// Makes a scrubber; a rule file that cannot be used is refused with its name and what is wrong (OBEY-1014).
    pub fn new(config: &Config) -> Result<Self, Error> {
        let built_in = BUILT_IN.as_ref().map_err(|error| wrong("built-in rules", error))?;
        let secrets = Arc::from(&*config.known);
        if config.files.is_empty() {
            return Self::assemble(Arc::clone(&built_in.rules), Arc::clone(&built_in.merged), secrets);
        }
        let mut merged = (*built_in.merged).clone();
        let mut names = vec!["built-in rules"];
        for (name, text) in &config.files {
            merged.lay(parse(name, text)?, true);
            names.push(name);
        }
        Self::build(merged, &names.join(", "), secrets)
    }

    /// Makes a scrubber with one more rule file laid over all others.
    pub fn with_file(&self, name: &str, text: &str) -> Result<Self, Error> {
        let mut merged = (*self.merged).clone();
        merged.lay(parse(name, text)?, true);
        Self::build(merged, name, Arc::clone(&self.secrets))
    }

    /// Makes a scrubber with the same rules and other known secrets.
    pub fn with_known(&self, secrets: &[KnownSecret]) -> Result<Self, Error> {
        let (rules, merged) = (Arc::clone(&self.rules), Arc::clone(&self.merged));
        Self::assemble(rules, merged, secrets.into())
    }

    /// Makes a scrubber that knows more secrets.
    pub fn adding_known(&self, secrets: &[KnownSecret]) -> Result<Self, Error> {
        let all: Vec<KnownSecret> = self.secrets.iter().chain(secrets).cloned().collect();
        self.with_known(&all)
    }

    fn build(merged: Merged, names: &str, secrets: Arc<[KnownSecret]>) -> Result<Self, Error> {
        let rules = Arc::new(RuleSet::new(&merged).map_err(|error| wrong(names, error))?);
        Self::assemble(rules, Arc::new(merged), secrets)
    }

    fn assemble(
        rules: Arc<RuleSet>,
        merged: Arc<Merged>,
        secrets: Arc<[KnownSecret]>,
    ) -> Result<Self, Error> {
        let known = Arc::new(KnownSet::new(&secrets));
        let gate = Gate::new(&rules, &known).map_err(|error| Error::new(ErrorCode::ConfigInvalid, error))?;
        Ok(Self { rules, known, gate: Arc::new(gate), merged, secrets })
    }

    /// Starts on a text that comes in pieces.
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone(), None)
    }

    /// Starts on the text of a file; allow-lists and rules may look at its path.
    pub fn stream_of(&self, path: &str) -> Stream {
        Stream::new(self.clone(), Some(path.to_owned()))
    }

    /// Scrubs a whole text.
    pub fn scrub(&self, text: &[u8]) -> Scrubbed {
        let mut stream = self.stream();
        let mut bytes = stream.push(text);
        let (rest, findings) = stream.finish();
        bytes.extend_from_slice(&rest);
        Scrubbed { bytes, findings }
    }

    /// Scrubs a text for people; bytes that are no UTF-8 become replacement characters.
    pub fn scrub_text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.scrub(text.as_bytes()).bytes).into_owned()
    }

    /// Scrubs a short text that is most likely clean; nothing if it is.
    pub fn redacted(&self, text: &str) -> Option<String> {
        if !self.may_hold_secret(text.as_bytes()) {
            return None;
        }
        let clean = self.scrub_text(text);
        (clean != text).then_some(clean)
    }

    /// Whether anybody wants to look closer at a text.
    fn may_hold_secret(&self, text: &[u8]) -> bool {
        if !self.rules.uncalled.is_empty() || text.contains(&0x1b) {
            return true;
        }
        let mut seen = false;
        self.gate.walk(self.gate.start(), text, |_, _, _| seen = true);
        seen
    }

    /// Returns how many rules there are, private keys included.
    pub fn rules(&self) -> usize {
        self.rules.rules.len() + usize::from(self.rules.private_key.is_some())
    }

    /// Returns the bytes the keyword automaton takes.
    pub fn gate_bytes(&self) -> usize {
        self.gate.memory()
    }
}

fn wrong(name: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{name}: {error}"))
}

fn parse(name: &str, text: &str) -> Result<File, Error> {
    if text.len() > limits::RULE_FILE_MAX {
        return Err(wrong(name, format!("is larger than {} bytes", limits::RULE_FILE_MAX)));
    }
    File::parse(text).map_err(|error| wrong(name, error))
}
