//! Which git commands may be run for a request: a list of subcommands and their options, by full names.
//! Anything not listed is refused: git has about a hundred options that run programs, write files anywhere or
//! lose work, and gains more with every release. Pure; which configuration git reads is decided elsewhere.

mod subcommand;
mod table;

#[cfg(test)]
mod tests;

use subcommand::{Positional, Subcommand};

/// A command line that may be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitCommand {
    /// The argument of `-C`: the folder the command runs in, relative to the requested one.
    pub folder: Option<String>,
    /// `None` if only the version or the help was asked for.
    pub subcommand: Option<&'static str>,
    /// The arguments passed to git.
    pub args: Vec<String>,
    /// Whether it may change the repository or its working tree.
    pub changes: bool,
}

/// Options before the subcommand that affect no programs, folders or configuration.
const GLOBAL: [&str; 2] = ["--no-pager", "--no-optional-locks"];

/// Checks a command line. An error names the argument that is not allowed and, if there is one, an
/// alternative.
pub fn parse(args: &[String]) -> Result<GitCommand, String> {
    let mut folder = None;
    let mut rest = args.iter();
    let name = loop {
        match rest.next().map(String::as_str) {
            Some("-C") => {
                let named = rest.next().filter(|named| !named.is_empty());
                let Some(named) = named else { return Err("git -C needs a folder".to_owned()) };
                if folder.replace(named.clone()).is_some() {
                    return Err("git -C is allowed once".to_owned());
                }
            }
            Some(only @ ("--version" | "--help")) if rest.len() == 0 => {
                return Ok(GitCommand {
                    folder,
                    subcommand: None,
                    args: vec![only.to_owned()],
                    changes: false,
                });
            }
            None => return Ok(GitCommand { folder, subcommand: None, args: Vec::new(), changes: false }),
            Some(option) if GLOBAL.contains(&option) => {}
            Some(option) if option.starts_with('-') => {
                return Err(format!("git {option} is not allowed before the subcommand"));
            }
            Some(name) => break name,
        }
    };
    let Some(subcommand) = table::SUBCOMMANDS.iter().find(|subcommand| subcommand.name == name) else {
        let known: Vec<&str> = table::SUBCOMMANDS.iter().map(|subcommand| subcommand.name).collect();
        return Err(format!("git {name} is not allowed; allowed are {}", known.join(", ")));
    };
    let rest: Vec<&str> = rest.map(String::as_str).collect();
    subcommand.check(&rest)?;
    Ok(GitCommand {
        folder,
        subcommand: Some(subcommand.name),
        args: subcommand.arguments(&rest),
        changes: subcommand.changes,
    })
}

impl Subcommand {
    /// Checks the verb, every option and every positional argument of a subcommand.
    fn check(&self, args: &[&str]) -> Result<(), String> {
        let verb = args.first().copied().filter(|first| !first.starts_with('-'));
        if let (Some(verbs), Some(verb)) = (self.verbs, verb)
            && !verbs.split(' ').any(|known| known == verb)
        {
            return Err(format!("git {} {verb} is not allowed; allowed are {verbs}", self.name));
        }
        let mut given: Vec<&str> = Vec::new();
        // The previous option takes the next argument as its value, whatever it looks like.
        let mut wants_value: Option<&str> = None;
        let mut positional = Vec::new();
        let mut ended = false;
        for (at, arg) in args.iter().enumerate() {
            if ended || !arg.starts_with('-') || *arg == "-" {
                // `config --get` takes no value: the next argument is a setting.
                if wants_value.take().is_none() || self.positional == Positional::ConfigKey {
                    let is_verb = at == 0 && self.verbs.is_some();
                    if !is_verb {
                        positional.push(*arg);
                    }
                }
                continue;
            }
            if let Some(option) = wants_value {
                return Err(format!(
                    "git {} {option} {arg}: write a value that begins with a dash behind the option, as in {option}…",
                    self.name
                ));
            }
            if *arg == "--" {
                if self.positional == Positional::NoPaths {
                    return Err(format!("git {} -- would overwrite files; it takes a branch", self.name));
                }
                ended = true;
                continue;
            }
            wants_value = self.check_option(arg, &mut given)?;
        }
        if self.verbs.is_some() && verb.is_none() && !positional.is_empty() && !self.bare_verb {
            return Err(format!("git {}: name what to do first", self.name));
        }
        for word in &positional {
            self.positional.check(word).map_err(|why| format!("git {} {word}: {why}", self.name))?;
        }
        self.positional.check_all(&positional).map_err(|why| format!("git {}: {why}", self.name))?;
        let needed: Vec<&str> = self.needs.split(' ').filter(|option| !option.is_empty()).collect();
        if !needed.is_empty() && !needed.iter().any(|option| given.contains(option)) {
            return Err(format!("git {} is allowed with {} only", self.name, needed.join(" or ")));
        }
        Ok(())
    }

    /// Checks one argument that begins with a dash. Returns it if its value is the next argument.
    fn check_option<'a>(&self, arg: &'a str, given: &mut Vec<&'a str>) -> Result<Option<&'a str>, String> {
        let refused = |what: &str| Err(format!("git {} {what} is not allowed", self.name));
        if let Some(long) = arg.strip_prefix("--") {
            let (name, has_value) = match long.find('=') {
                Some(at) => (&arg[..at + 2], true),
                None => (arg, false),
            };
            given.push(name);
            let listed = |list: &[&str]| list.iter().any(|part| part.split(' ').any(|known| known == name));
            return if listed(self.optional) || (listed(self.flags) && !has_value) {
                Ok(None)
            } else if listed(self.values) {
                Ok((!has_value).then_some(arg))
            } else {
                refused(name)
            };
        }
        let letters = &arg[1..];
        if self.numbers && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(None);
        }
        for (at, letter) in letters.char_indices() {
            let after = at + letter.len_utf8();
            given.push(match letter {
                'n' => "-n",
                'S' => "-S",
                'l' => "-l",
                _ => "",
            });
            if self.short_optional.contains(letter) {
                return Ok(None);
            }
            if self.short_values.contains(letter) {
                return Ok((after == letters.len()).then_some(arg));
            }
            if !self.short.contains(letter) {
                return refused(&format!("-{letter}"));
            }
        }
        Ok(None)
    }

    /// Returns the arguments passed to git. Our own options come first among the subcommand's, so that the
    /// repository's attributes cannot run a program.
    fn arguments(&self, args: &[&str]) -> Vec<String> {
        let mut all = vec![self.name.to_owned()];
        let at =
            usize::from(self.verbs.is_some() && args.first().is_some_and(|first| !first.starts_with('-')));
        all.extend(args[..at].iter().map(|arg| (*arg).to_owned()));
        let adds = self.adds_with_verb.is_none_or(|verb| args.first() == Some(&verb));
        all.extend(self.adds.iter().filter(|_| adds).map(|arg| (*arg).to_owned()));
        all.extend(args[at..].iter().map(|arg| (*arg).to_owned()));
        if self.positional == Positional::NoPaths {
            all.push("--".to_owned());
        }
        all
    }
}
