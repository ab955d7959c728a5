//! Keeps keys out of messages: an endpoint or a server that fails may repeat what it was sent, and messages
//! end up in journals and logs. Pure.

use crate::limits::SECRET_MIN_BYTES;

/// The replacement of a secret.
const HIDDEN: &str = "***";

/// Texts that must not be shown.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// Creates it from values as they are sent; they are also recognised in the forms they have in addresses.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let long = |value: &String| value.len() >= SECRET_MIN_BYTES;
        let mut all: Vec<String> = Vec::new();
        for value in values.into_iter().filter(long) {
            all.extend(in_addresses(&value).into_iter().filter(long));
            all.push(value);
        }
        // A secret that contains another one comes before it.
        all.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        all.dedup();
        Self(all)
    }

    /// Returns a text without the secrets.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN);
            }
        }
        text
    }
}

/// Returns the forms of a text as part of an address: in its path, its query and its password.
fn in_addresses(value: &str) -> Vec<String> {
    let read = |address: String| reqwest::Url::parse(&address).ok();
    let path =
        read(format!("http://host/{value}")).map(|url| url.as_str()["http://host/".len()..].to_owned());
    let query =
        read(format!("http://host/?{value}")).map(|url| url.as_str()["http://host/?".len()..].to_owned());
    let password =
        read(format!("http://user:{value}@host/")).and_then(|url| url.password().map(str::to_owned));
    [path, query, password].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_in_every_form() {
        let secrets = Secrets::new(["sk-key".to_owned(), "sk-key-longer".to_owned(), "a b/c?d".to_owned()]);
        assert_eq!(secrets.hide("with sk-key-longer and sk-key."), "with *** and ***.");
        assert_eq!(
            secrets.hide("at http://host/x/a%20b/c?d and ?key=a%20b/c?d"),
            "at http://host/x/*** and ?key=***"
        );
        assert_eq!(secrets.hide("nothing here"), "nothing here");
    }

    #[test]
    fn what_is_too_short_to_be_a_secret_is_a_word() {
        let secrets = Secrets::new(["x".to_owned(), String::new()]);
        assert_eq!(secrets.hide("an example"), "an example");
    }
}
