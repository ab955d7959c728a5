//! Policies as their files are now: a policy that the user adds applies to sessions that are already open. Keeps the parsed
//! policies until a file changes. Must not know what the policies say.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use domain::{Error, ErrorCode};

use super::Policies;
use crate::limits;

/// The built-in policies and those of the user's own file.
#[derive(Debug)]
pub struct UserPolicies {
    /// The user's file; `None`: there are only the built-in policies.
    file: Option<PathBuf>,
    parsed: Mutex<Option<ParsedPolicies>>,
}

/// Policies and the text they were parsed from; no text: there was no file.
#[derive(Debug)]
struct ParsedPolicies {
    text: Option<String>,
    policies: Policies,
    /// Counts the changes, so that policies that build on these notice one.
    revision: u64,
}

impl UserPolicies {
    /// Reads the user's file, which may be absent. A file that cannot be used is an error.
    pub fn new(file: Option<PathBuf>) -> Result<Self, Error> {
        let policies = Self { file, parsed: Mutex::default() };
        policies.current()?;
        Ok(policies)
    }

    /// Returns the policies as the file is now, and the number of its changes so far.
    fn current(&self) -> Result<(Policies, u64), Error> {
        let text = self.text()?;
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = parsed.as_ref().filter(|known| known.text == text) {
            return Ok((known.policies.clone(), known.revision));
        }
        let name = self.file.as_deref().map(|file| file.display().to_string()).unwrap_or_default();
        let policies = Policies::new(text.as_deref().map(|text| (name.as_str(), text)))?;
        let revision = parsed.as_ref().map_or(0, |known| known.revision + 1);
        *parsed = Some(ParsedPolicies { text, policies: policies.clone(), revision });
        Ok((policies, revision))
    }

    /// Reads the user's file; `None` if there is none.
    fn text(&self) -> Result<Option<String>, Error> {
        let Some(file) = &self.file else { return Ok(None) };
        let wrong =
            |error: String| Error::new(ErrorCode::ConfigInvalid, format!("{}: {error}", file.display()));
        match std::fs::metadata(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error.to_string())),
            Ok(meta) if meta.len() > limits::POLICY_FILE_MAX as u64 => {
                let most = limits::POLICY_FILE_MAX / 1024;
                return Err(wrong(format!("is larger than {most} KB")));
            }
            Ok(_) => {}
        }
        std::fs::read_to_string(file).map(Some).map_err(|error| wrong(error.to_string()))
    }
}

/// The policies of one project: the user's, and its own.
#[derive(Debug)]
pub struct ProjectPolicies {
    user: Arc<UserPolicies>,
    parsed: Mutex<Option<(u64, ParsedPolicies)>>,
}

impl ProjectPolicies {
    pub(crate) fn new(user: Arc<UserPolicies>) -> Self {
        Self { user, parsed: Mutex::default() }
    }

    /// Returns the policies that apply, given the text of the project's file.
    pub(crate) fn current(&self, name: &str, text: Option<String>) -> Result<Policies, Error> {
        let (user, revision) = self.user.current()?;
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = parsed.as_ref().filter(|(of, known)| *of == revision && known.text == text)
        {
            return Ok(known.policies.clone());
        }
        let policies = match &text {
            Some(text) => user.with_project(name, text)?,
            None => user,
        };
        *parsed = Some((revision, ParsedPolicies { text, policies: policies.clone(), revision: 0 }));
        Ok(policies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PolicyAction;

    fn policy(id: &str, pattern: &str) -> String {
        format!(
            "[[policies]]\nid = \"{id}\"\ntitle = \"T\"\ncategory = \"repo\"\nseverity = \"critical\"\n\
             requirement = \"r\"\nsuggestion = \"s\"\ncommand_patterns = ['{pattern}']\n"
        )
    }

    #[test]
    fn a_new_policy_applies_at_once_and_a_broken_file_lets_nothing_through() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("policies.toml");
        let user = Arc::new(UserPolicies::new(Some(file.clone())).unwrap());
        let project = ProjectPolicies::new(Arc::clone(&user));
        let refused = |command: &str, text: Option<String>| {
            project
                .current("project.toml", text)
                .map(|now| now.enforce(PolicyAction::Command(command)).is_err())
        };
        assert!(!refused("deploy now", None).unwrap());
        std::fs::write(&file, policy("no-deploy", "deploy")).unwrap();
        assert!(refused("deploy now", None).unwrap(), "the user's");
        assert!(!refused("publish", None).unwrap());
        assert!(refused("publish", Some(policy("no-publish", "publish"))).unwrap(), "the project's");
        assert!(refused("deploy now", Some(policy("no-publish", "publish"))).unwrap(), "both");
        assert!(!refused("publish", None).unwrap(), "taken away");
        std::fs::write(&file, "policies = 5").unwrap();
        assert_eq!(refused("true", None).unwrap_err().code, ErrorCode::ConfigInvalid);
        std::fs::remove_file(&file).unwrap();
        assert!(!refused("deploy now", None).unwrap());
    }
}
