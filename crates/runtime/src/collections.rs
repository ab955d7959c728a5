//! Which collections of the workbench an agent may read and write, as its session was created: the names, and the rule. Pure;
//! the surface of the workbench asks it. An agent cannot change what its session was created with.

use std::collections::BTreeMap;

use domain::{Error, SessionSpec};

/// The key of `provider_config` that names the collections; it never reaches the provider.
pub const COLLECTIONS_KEY: &str = "collections_access";

/// The variable that tells the agent, and in which the session keeps the choice.
const VARIABLE: &str = "OBEY_COLLECTIONS_ACCESS";

/// What the workbench keeps beyond a session.
const NAMES: [&str; 6] = ["memories", "checkpoints", "policies", "skills", "agents", "remediations"];

/// Ends the name of a collection that may only be read.
const READ_ONLY: &str = ":read";

/// Checks the names of collections; the error names the field.
pub fn check(field: &str, names: &[String]) -> Result<(), Error> {
    let is_known = |name: &String| NAMES.contains(&name.strip_suffix(READ_ONLY).unwrap_or(name));
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) => {
            let known = NAMES.join(", ");
            let message = format!("{name:?} is none of {known}, each alone or with {READ_ONLY}");
            Err(Error::invalid(field, message))
        }
    }
}

/// Takes the choice out of the settings of a new session into its environment. A worker has what its parent has.
pub(crate) fn take(
    config: &mut BTreeMap<String, String>,
    environment: &mut BTreeMap<String, String>,
    parent: Option<&SessionSpec>,
) -> Result<(), Error> {
    let asked = config.remove(COLLECTIONS_KEY);
    let asked = asked.map(|text| check("provider_config.collections_access", &names(&text)).map(|()| text));
    let inherited = parent.and_then(|parent| parent.environment.get(VARIABLE).cloned());
    environment.remove(VARIABLE);
    if let Some(text) = inherited.map(Ok).or(asked).transpose()? {
        environment.insert(VARIABLE.to_owned(), text);
    }
    Ok(())
}

/// Refuses the use of a collection that the session was not given.
pub fn require(spec: &SessionSpec, collection: &str, is_write: bool) -> Result<(), Error> {
    let Some(text) = spec.environment.get(VARIABLE) else { return Ok(()) };
    let names = names(text);
    let read_only = format!("{collection}{READ_ONLY}");
    let is_allowed = |name: &String| *name == collection || (!is_write && *name == read_only);
    if names.iter().any(is_allowed) {
        return Ok(());
    }
    let verb = if is_write { "write" } else { "read" };
    let given = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let message = format!("this agent may not {verb} {collection}; its collections are: {given}");
    Err(Error::new(domain::ErrorCode::NotAllowed, message))
}

fn names(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::tests::spec;

    fn chosen(text: &str, parent: Option<&SessionSpec>) -> Result<SessionSpec, Error> {
        let mut config = BTreeMap::from([(COLLECTIONS_KEY.to_owned(), text.to_owned())]);
        let mut made = spec("sess_1");
        take(&mut config, &mut made.environment, parent)?;
        assert!(config.is_empty(), "the provider must not see it");
        Ok(made)
    }

    #[test]
    fn an_agent_reads_and_writes_what_it_was_given_and_nothing_else() {
        let free = spec("sess_0");
        let bound = chosen("memories:read, remediations", None).unwrap();
        for (spec, collection, is_write, is_allowed) in [
            (&free, "memories", true, true),
            (&bound, "memories", false, true),
            (&bound, "memories", true, false),
            (&bound, "remediations", true, true),
            (&bound, "remediations", false, true),
            (&bound, "skills", false, false),
        ] {
            let answer = require(spec, collection, is_write);
            assert_eq!(answer.is_ok(), is_allowed, "{collection} {is_write}: {answer:?}");
        }
        let error = require(&bound, "memories", true).unwrap_err();
        assert!(error.message.contains("memories:read, remediations"), "{error}");
        assert!(require(&chosen("", None).unwrap(), "memories", false).is_err());
    }

    #[test]
    fn unknown_names_are_refused_and_workers_have_what_their_parent_has() {
        let error = chosen("memories, secrets", None).unwrap_err();
        assert!(error.message.contains("secrets") && error.message.contains("remediations"), "{error}");
        let parent = chosen("memories:read", None).unwrap();
        let worker = chosen("memories", Some(&parent)).unwrap();
        assert!(require(&worker, "memories", true).is_err());
    }
}
