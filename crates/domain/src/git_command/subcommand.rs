//! Describes a subcommand of git, and which positional arguments it accepts.

/// One subcommand. Options are lists of whole words, separated by spaces.
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    pub(super) changes: bool,
    /// Options without a value.
    pub(super) flags: &'static [&'static str],
    /// Options with a value, after `=` or as the next argument.
    pub(super) values: &'static [&'static str],
    /// Options with or without a value after `=`; never with the next argument.
    pub(super) optional: &'static [&'static str],
    pub(super) short: &'static str,
    /// Letters whose value follows directly or as the next argument.
    pub(super) short_values: &'static str,
    /// Letters whose value follows directly, if there is one.
    pub(super) short_optional: &'static str,
    /// `-5` is a count.
    pub(super) numbers: bool,
    /// The allowed first arguments, if the first argument is a verb.
    pub(super) verbs: Option<&'static str>,
    /// The verb may be missing.
    pub(super) bare_verb: bool,
    /// One of these must be given.
    pub(super) needs: &'static str,
    /// Options we add.
    pub(super) adds: &'static [&'static str],
    /// Add them only with this verb.
    pub(super) adds_with_verb: Option<&'static str>,
    pub(super) positional: Positional,
}

/// Which positional arguments are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Positional {
    Any,
    /// Names of branches and commits; nothing is interpreted as a file.
    NoPaths,
    /// An address or a remote's name, and refspecs that overwrite and delete nothing.
    Remote,
    /// An address and a folder below the one it runs in.
    Clone,
    /// A folder below the one it runs in.
    Folder,
    /// Names of settings. Newer versions of git interpret a word without a dot as a verb.
    ConfigKey,
}

impl Positional {
    /// Checks one positional argument.
    pub(super) fn check(self, word: &str) -> Result<(), &'static str> {
        let is_remote = matches!(self, Self::Remote | Self::Clone);
        if is_remote && word.contains("::") {
            return Err("helpers for other kinds of addresses are not allowed");
        }
        if self == Self::Remote && word.starts_with('+') {
            return Err("a refspec with + overwrites what is there and is not allowed");
        }
        if self == Self::Remote && word.starts_with(':') {
            return Err("a refspec without a source deletes and is not allowed");
        }
        if self == Self::ConfigKey && !word.contains('.') {
            return Err("settings can be read only; name one, such as user.name");
        }
        Ok(())
    }

    /// Checks the positional arguments together: a folder must lie below the current one.
    pub(super) fn check_all(self, words: &[&str]) -> Result<(), &'static str> {
        let folder = match self {
            Self::Clone => words.get(1),
            Self::Folder => words.first(),
            Self::Any | Self::NoPaths | Self::Remote | Self::ConfigKey => None,
        };
        let below = |folder: &&str| !folder.starts_with('/') && !folder.split('/').any(|part| part == "..");
        if folder.is_none_or(below) { Ok(()) } else { Err("the folder must lie below the one it runs in") }
    }
}

/// A subcommand that allows nothing.
pub(super) const NONE: Subcommand = Subcommand {
    name: "",
    changes: false,
    flags: &[],
    values: &[],
    optional: &[],
    short: "",
    short_values: "",
    short_optional: "",
    numbers: false,
    verbs: None,
    bare_verb: false,
    needs: "",
    adds: &[],
    adds_with_verb: None,
    positional: Positional::Any,
};
