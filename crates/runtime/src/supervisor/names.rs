//! Names of sessions: unique among those that have not ended.

use domain::{Command, Error, SessionId};

use super::Supervisor;
use crate::limits;
use storage::sessions;

/// What happens to a name that another session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenTaken {
    /// It was typed by a person, who chooses another one.
    Refuse,
    /// It came from an agent or a client that does not care; it gets a number.
    Number,
}

impl Supervisor {
    /// Gives a session another name. Refused if a living session has it.
    pub async fn rename(&self, id: &SessionId, name: &str) -> Result<String, Error> {
        let name = name.trim();
        super::create::check_short("name", name)?;
        if name.is_empty() {
            return Err(Error::invalid("name", "is required"));
        }
        let _naming = self.inner.naming.lock().await;
        let snapshot = self.snapshot(id).await?;
        if !snapshot.state.status.is_terminal() {
            self.free_name("name", name, id, WhenTaken::Refuse).await?;
        }
        if snapshot.state.name != name {
            self.command(id, Command::Rename { name: name.to_owned() }).await?;
        }
        Ok(name.to_owned())
    }

    /// Returns the first words of a prompt as a name, for a session or a branch; `None` if they make none. Names are seen by
    /// everybody: no secret is part of one.
    pub(super) fn name_after(&self, prompt: &str) -> Option<String> {
        let mut end = prompt.len().min(limits::NAME_PROMPT_MAX_BYTES);
        while !prompt.is_char_boundary(end) {
            end -= 1;
        }
        crate::git::names::slug_of(&self.without_secrets(&prompt[..end]))
    }

    /// Returns a name that no living session has.
    pub(super) async fn free_name(
        &self,
        field: &str,
        name: &str,
        id: &SessionId,
        when_taken: WhenTaken,
    ) -> Result<String, Error> {
        let Some(holder) = self.holder_of(name, id).await? else { return Ok(name.to_owned()) };
        let mut free = None;
        for number in 2..limits::NAME_NUMBERS_MAX {
            let numbered = format!("{name}-{number}");
            if self.holder_of(&numbered, id).await?.is_none() {
                free = Some(numbered);
                break;
            }
        }
        match (free, when_taken) {
            (Some(free), WhenTaken::Number) => Ok(free),
            (free, _) => {
                let or = free.map_or_else(String::new, |free| format!(", such as {free:?}"));
                Err(Error::invalid(
                    field,
                    format_args!(
                        "{name:?} is the name of {holder}, which has not ended; choose another one{or}"
                    ),
                ))
            }
        }
    }

    async fn holder_of(&self, name: &str, except: &SessionId) -> Result<Option<String>, Error> {
        let (name, except) = (name.to_owned(), except.clone());
        self.store().read(move |connection| sessions::named(connection, &name, &except)).await
    }
}

/// Returns as many words of a name made from a prompt as lists of sessions show, with room for a number: a name that is cut there
/// cannot be told from another, nor typed.
pub(super) fn short_name(words: &str) -> &str {
    let most = limits::NAME_FROM_PROMPT_MAX_BYTES;
    let ends = words.match_indices('-').map(|(at, _)| at).chain([words.len()]);
    // The words are ASCII.
    &words[..ends.take_while(|end| *end <= most).last().unwrap_or(most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_session_is_short_and_ends_with_a_word() {
        for (words, name) in [
            ("fix-the-login-bug-in-the-cart", "fix-the-login-bug"),
            ("fix-the-failing-test", "fix-the-failing"),
            ("go", "go"),
            ("", ""),
            ("internationalization-of-dates", "internationalizat"),
        ] {
            assert_eq!(short_name(words), name);
        }
    }
}
