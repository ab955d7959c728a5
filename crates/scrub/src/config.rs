//! Rule files in gitleaks' own configuration format, as text. Our rules, a user's and a project's are read alike and
//! laid over each other. Must not open files: whoever brings the text decides whether it may be trusted.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One rule file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct File {
    pub(crate) extend: Extend,
    pub(crate) rules: Vec<RuleEntry>,
    pub(crate) allowlist: Option<AllowEntry>,
    pub(crate) allowlists: Vec<AllowEntry>,
}

/// What a file says about the rules below it. `useDefault` needs no answer: our rules are always there.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Extend {
    #[serde(alias = "disabledrules")]
    pub(crate) disabled_rules: Vec<String>,
}

/// One rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RuleEntry {
    pub(crate) id: String,
    pub(crate) description: String,
    pub(crate) regex: String,
    #[serde(alias = "secretgroup")]
    pub(crate) secret_group: Option<usize>,
    pub(crate) entropy: Option<f64>,
    pub(crate) path: String,
    pub(crate) keywords: Vec<String>,
    /// Ours: what is a secret is decided by the judge, behind each keyword; `regex` is not looked at.
    pub(crate) judge: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) allowlist: Option<AllowEntry>,
    pub(crate) allowlists: Vec<AllowEntry>,
    /// Set by us: a user's rule is checked in full when it is loaded.
    #[serde(skip)]
    pub(crate) foreign: bool,
}

/// One allow-list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct AllowEntry {
    pub(crate) condition: String,
    pub(crate) commits: Vec<String>,
    pub(crate) paths: Vec<String>,
    #[serde(alias = "regextarget")]
    pub(crate) regex_target: String,
    pub(crate) regexes: Vec<String>,
    pub(crate) stopwords: Vec<String>,
    #[serde(alias = "targetrules")]
    pub(crate) target_rules: Vec<String>,
    /// Set by us, as of a rule.
    #[serde(skip)]
    pub(crate) foreign: bool,
}

impl File {
    /// Reads a file. Keys we do not know are left alone: newer versions of gitleaks have more of them.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        file.allowlists.extend(file.allowlist.take());
        for rule in &mut file.rules {
            if rule.id.is_empty() {
                return Err("a rule has no id".into());
            }
            rule.allowlists.extend(rule.allowlist.take());
        }
        Ok(file)
    }
}

/// All files laid over each other, in the order of their coming.
#[derive(Clone, Debug, Default)]
pub(crate) struct Merged {
    pub(crate) rules: BTreeMap<String, RuleEntry>,
    pub(crate) allowlists: Vec<AllowEntry>,
}

impl Merged {
    /// Lays a file over what is there: a rule of the same name is changed where the file says something, its keywords
    /// and allow-lists grow; disabled rules go. Rules that the file does not name stay, with or without `useDefault`.
    pub(crate) fn lay(&mut self, file: File, foreign: bool) {
        for id in &file.extend.disabled_rules {
            self.rules.remove(id);
        }
        for mut rule in file.rules {
            rule.foreign = foreign;
            match self.rules.get_mut(&rule.id) {
                Some(below) => below.change(rule),
                None => {
                    self.rules.insert(rule.id.clone(), rule);
                }
            }
        }
        self.allowlists.extend(file.allowlists.into_iter().map(|list| AllowEntry { foreign, ..list }));
    }
}

impl RuleEntry {
    fn change(&mut self, above: RuleEntry) {
        self.foreign |= above.foreign;
        self.entropy = above.entropy.or(self.entropy);
        self.secret_group = above.secret_group.or(self.secret_group);
        for (mine, theirs) in [
            (&mut self.description, above.description),
            (&mut self.regex, above.regex),
            (&mut self.path, above.path),
        ] {
            if !theirs.is_empty() {
                *mine = theirs;
            }
        }
        self.keywords.extend(above.keywords);
        self.tags.extend(above.tags);
        self.allowlists.extend(above.allowlists);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_above_changes_adds_and_disables() {
        let mut merged = Merged::default();
        let ours = "[[rules]]\nid='a'\nregex='x'\nkeywords=['k']\n[[rules]]\nid='b'\nregex='y'";
        merged.lay(File::parse(ours).unwrap(), false);
        let theirs = "title='t'\nminVersion='v9'\n[extend]\nuseDefault=true\ndisabledRules=['b']\n\
            [allowlist]\nstopwords=['s']\n\
            [[rules]]\nid='a'\nentropy=3.5\nkeywords=['l']\n[rules.allowlist]\nregexes=['r']\n\
            [[rules]]\nid='c'\nregex='z'\nsecretGroup=1";
        merged.lay(File::parse(theirs).unwrap(), true);
        assert_eq!(merged.rules.keys().collect::<Vec<_>>(), ["a", "c"]);
        let a = &merged.rules["a"];
        assert_eq!(
            (a.regex.as_str(), a.entropy, a.keywords.len(), a.allowlists.len()),
            ("x", Some(3.5), 2, 1)
        );
        assert!(a.foreign && merged.rules["c"].foreign);
        assert_eq!(merged.allowlists.len(), 1);
    }

    #[test]
    fn errors_name_the_fault() {
        assert!(File::parse("[[rules]]\nregex='x'").unwrap_err().contains("no id"));
        assert!(File::parse("rules = 3").is_err());
        assert!(File::parse("").unwrap().rules.is_empty());
    }
}
