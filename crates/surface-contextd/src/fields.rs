//! The rules for request fields. The same rules validate requests of every protocol and produce schema.json
//! and the OpenAPI document. As in protobuf, an empty field counts as absent.

use domain::{Error, ErrorCode};
use serde_json::{Map, Value};
use workbench::limits as most;

/// The allowed values of a request field, in addition to its type.
#[derive(Clone, Copy, Debug)]
pub struct FieldRule {
    pub name: &'static str,
    pub required: bool,
    /// The default of an absent field, as JSON; empty: no default.
    pub default: &'static str,
    pub range: Option<(f64, f64)>,
    /// The maximum length of a text, or of each text in a list, in characters. 0: no limit of its own.
    pub chars: usize,
    /// The maximum length of a text in bytes. 0: no limit of its own.
    pub bytes: usize,
    /// The maximum number of texts in a list. 0: no limit of its own.
    pub items: usize,
    /// The allowed texts; empty: any.
    pub one_of: &'static [&'static str],
}

impl FieldRule {
    const fn new(name: &'static str) -> Self {
        Self { name, required: false, default: "", range: None, chars: 0, bytes: 0, items: 0, one_of: &[] }
    }

    const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    const fn default(mut self, json: &'static str) -> Self {
        self.default = json;
        self
    }

    const fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    const fn chars(mut self, most: usize) -> Self {
        self.chars = most;
        self
    }

    const fn bytes(mut self, most: usize) -> Self {
        self.bytes = most;
        self
    }

    const fn items(mut self, most: usize) -> Self {
        self.items = most;
        self
    }

    const fn one_of(mut self, words: &'static [&'static str]) -> Self {
        self.one_of = words;
        self
    }
}

/// The kernel's maximum path length, and the maximum lengths where contextd's schema has none.
const PATH_MAX: usize = 4096;
const TEXT_MAX: usize = 20_000;

/// The largest content of a write, from contextd's schema: 1 MB, counted in bytes as files are.
const CONTENT_BYTES_MAX: usize = 1 << 20;

const LIST_MAX: usize = 100;

/// What an agent may be given, to write and to read, or only to read.
pub(super) const COLLECTIONS: &[&str] = &[
    "memories",
    "memories:read",
    "checkpoints",
    "checkpoints:read",
    "policies",
    "policies:read",
    "skills",
    "skills:read",
    "agents",
    "agents:read",
    "remediations",
    "remediations:read",
];

// Rules that several operations share.
const SESSION: FieldRule = FieldRule::new("session_id").required().chars(69);
const ID: FieldRule = FieldRule::new("id").required().chars(200);
const NAME: FieldRule = FieldRule::new("name").required().chars(100);
const SCOPES: &[&str] = &["project", "team", "org"];
const SCOPE_FILTER: FieldRule = FieldRule::new("scope").one_of(SCOPES);
const SCOPE: FieldRule = FieldRule::new("scope").one_of(SCOPES).default("\"project\"");
const COLLECTIONS_ACCESS: FieldRule =
    FieldRule::new("collections_access").items(LIST_MAX).chars(200).one_of(COLLECTIONS);
const DESCRIPTION: FieldRule = FieldRule::new("description").chars(TEXT_MAX);
const TAGS: FieldRule = FieldRule::new("tags").items(most::TAGS_MAX).chars(most::TAG_CHARS);

/// The largest `int32`.
const INT: f64 = i32::MAX as f64;

// The fields of each operation.
pub(super) const BASH: &[FieldRule] = &[
    FieldRule::new("cmd").required().chars(most::COMMAND_MAX),
    FieldRule::new("timeout").default("30").range(0.0, 300.0),
    SESSION,
    FieldRule::new("working_dir").chars(PATH_MAX),
];
pub(super) const READ: &[FieldRule] = &[
    FieldRule::new("path").required().chars(PATH_MAX),
    FieldRule::new("offset").default("0").range(0.0, INT),
    FieldRule::new("limit").default("0").range(0.0, INT),
    SESSION,
];
pub(super) const WRITE: &[FieldRule] = &[
    FieldRule::new("path").required().chars(PATH_MAX),
    FieldRule::new("content").bytes(CONTENT_BYTES_MAX),
    FieldRule::new("append"),
    SESSION,
];
pub(super) const SESSION_START: &[FieldRule] = &[
    FieldRule::new("project_path").required().chars(PATH_MAX),
    FieldRule::new("task_description").chars(TEXT_MAX),
    FieldRule::new("tenant_id").chars(200),
    FieldRule::new("team_id").chars(200),
];
pub(super) const SESSION_END: &[FieldRule] = &[
    SESSION,
    FieldRule::new("outcome").one_of(&["success", "failure", "partial"]).default("\"success\""),
    FieldRule::new("distill").default("false"),
];
pub(super) const REF_GET: &[FieldRule] =
    &[FieldRule::new("ref_id").required().chars(200), FieldRule::new("session_id").chars(69)];
pub(super) const MEMORY_SEARCH: &[FieldRule] = &[
    FieldRule::new("query").required().chars(TEXT_MAX),
    FieldRule::new("scope").one_of(&["project", "team", "org", "all"]).default("\"project\""),
    FieldRule::new("outcome").one_of(&["success", "failure", "all"]).default("\"all\""),
    FieldRule::new("limit").default("10").range(0.0, 100.0),
    FieldRule::new("min_confidence").default("0.7").range(0.0, 1.0),
    SESSION,
];
pub(super) const MEMORY_STORE: &[FieldRule] = &[
    FieldRule::new("title").required().chars(most::TITLE_CHARS),
    FieldRule::new("description").chars(most::DESCRIPTION_CHARS),
    FieldRule::new("content").required().chars(most::CONTENT_CHARS),
    FieldRule::new("outcome").one_of(&["success", "failure", "mixed", "neutral"]).default("\"neutral\""),
    TAGS,
    SESSION,
];
pub(super) const MEMORY_FEEDBACK: &[FieldRule] = &[
    FieldRule::new("memory_id").required().chars(200),
    FieldRule::new("helpful").default("false"),
    FieldRule::new("comment").chars(most::DESCRIPTION_CHARS),
    SESSION,
];
pub(super) const BY_ID: &[FieldRule] = &[ID, SESSION];
pub(super) const CHECKPOINT_SAVE: &[FieldRule] =
    &[FieldRule::new("summary").required().chars(TEXT_MAX), TAGS, SESSION];
pub(super) const CHECKPOINT_LIST: &[FieldRule] =
    &[FieldRule::new("limit").default("10").range(0.0, 100.0), SESSION];
pub(super) const CHECKPOINT_RESUME: &[FieldRule] = &[
    FieldRule::new("checkpoint_id").required().chars(200),
    FieldRule::new("level").one_of(&["summary", "context", "full"]).default("\"context\""),
    SESSION,
];
pub(super) const POLICY_CHECK: &[FieldRule] =
    &[FieldRule::new("action").required().chars(TEXT_MAX), FieldRule::new("context").chars(1 << 20), SESSION];
pub(super) const POLICY_LIST: &[FieldRule] =
    &[SCOPE_FILTER, FieldRule::new("category").one_of(&["security", "coding", "repo"]), SESSION];
pub(super) const LIST: &[FieldRule] = &[SCOPE_FILTER, SESSION];
pub(super) const SKILL_CREATE: &[FieldRule] = &[
    NAME,
    DESCRIPTION,
    FieldRule::new("trigger").chars(TEXT_MAX),
    FieldRule::new("steps").items(LIST_MAX).chars(TEXT_MAX),
    FieldRule::new("prompt_template").chars(TEXT_MAX),
    SCOPE,
    SESSION,
];
pub(super) const SKILL_UPDATE: &[FieldRule] = &[
    ID,
    FieldRule::new("name").chars(100),
    DESCRIPTION,
    FieldRule::new("trigger").chars(TEXT_MAX),
    FieldRule::new("steps").items(LIST_MAX).chars(TEXT_MAX),
    FieldRule::new("prompt_template").chars(TEXT_MAX),
    SESSION,
];
pub(super) const AGENT_CREATE: &[FieldRule] = &[
    NAME,
    DESCRIPTION,
    FieldRule::new("system_prompt").required().chars(TEXT_MAX),
    FieldRule::new("skills").items(LIST_MAX).chars(200),
    COLLECTIONS_ACCESS,
    FieldRule::new("model_preference").chars(200),
    FieldRule::new("temperature").range(0.0, 2.0),
    SCOPE,
    SESSION,
];
pub(super) const AGENT_UPDATE: &[FieldRule] = &[
    ID,
    FieldRule::new("name").chars(100),
    DESCRIPTION,
    FieldRule::new("system_prompt").chars(TEXT_MAX),
    FieldRule::new("skills").items(LIST_MAX).chars(200),
    COLLECTIONS_ACCESS,
    FieldRule::new("model_preference").chars(200),
    FieldRule::new("temperature").range(0.0, 2.0),
    SESSION,
];
pub(super) const REMEDIATION_SEARCH: &[FieldRule] = &[
    FieldRule::new("error").required().chars(TEXT_MAX),
    FieldRule::new("context").chars(TEXT_MAX),
    FieldRule::new("limit").default("5").range(0.0, 100.0),
    SESSION,
];
pub(super) const REMEDIATION_RECORD: &[FieldRule] = &[
    FieldRule::new("title").required().chars(200),
    FieldRule::new("problem").required().chars(TEXT_MAX),
    FieldRule::new("symptoms").items(LIST_MAX).chars(TEXT_MAX),
    FieldRule::new("root_cause").chars(TEXT_MAX),
    FieldRule::new("solution").required().chars(TEXT_MAX),
    FieldRule::new("code_diff").chars(TEXT_MAX),
    FieldRule::new("affected_files").items(LIST_MAX).chars(PATH_MAX),
    SESSION,
];

/// Validates the fields of a request; the error names the field and the problem (OBEY-1001).
pub(super) fn check(fields: &[FieldRule], request: &Map<String, Value>) -> Result<(), Error> {
    if let Some(name) = request.keys().find(|name| fields.iter().all(|field| field.name != name.as_str())) {
        let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
        let name = shortened(name);
        return Err(Error::invalid(&name, format_args!("is no field here; there are {}", known.join(", "))));
    }
    for field in fields {
        let value = request.get(field.name).unwrap_or(&Value::Null);
        if field.required && is_empty(value) {
            return Err(Error::invalid(field.name, "is required"));
        }
        check_value(field, value)?;
    }
    Ok(())
}

/// Whether a value counts as absent.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// Checks a value against the range, the number of items and the text rules of its field.
fn check_value(field: &FieldRule, value: &Value) -> Result<(), Error> {
    match value {
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if let Some((from, to)) = field.range
                && !(from..=to).contains(&number)
            {
                return Err(Error::invalid(field.name, format_args!("must be between {from} and {to}")));
            }
        }
        Value::String(text) => check_text(field, text)?,
        Value::Array(list) => {
            if field.items > 0 && list.len() > field.items {
                let most = field.items;
                return Err(Error::invalid(field.name, format_args!("holds more than {most} texts")));
            }
            for text in list.iter().filter_map(Value::as_str) {
                check_text(field, text)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks the length, the characters and the allowed values of a text.
fn check_text(field: &FieldRule, text: &str) -> Result<(), Error> {
    if field.bytes > 0 && text.len() > field.bytes {
        let (most, is) = (field.bytes, text.len());
        return Err(Error::invalid(
            field.name,
            format_args!("has {is} bytes, more than {most}; write it in parts with append"),
        ));
    }
    // The byte length is checked first: it is cheap and never less than the number of characters.
    if field.chars > 0 && text.len() > field.chars && text.chars().count() > field.chars {
        let most = field.chars;
        return Err(Error::invalid(field.name, format_args!("is longer than {most} characters")));
    }
    if text.contains('\0') && !matches!(field.name, "content" | "context") {
        return Err(Error::invalid(field.name, "holds a NUL character"));
    }
    if !text.is_empty() && !field.one_of.is_empty() && !field.one_of.contains(&text) {
        let words = field.one_of.join(", ");
        let text = shortened(text);
        return Err(Error::invalid(field.name, format_args!("{text:?} is none of {words}")));
    }
    Ok(())
}

/// Normalizes a JSON request: `5.0` becomes the integer 5. `null` is rejected, because no field accepts it.
pub(super) fn as_meant(mut request: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    for (name, value) in &mut request {
        if value.is_null() {
            return Err(Error::invalid(&shortened(name), "is null; leave it out"));
        }
        if let Value::Number(number) = value
            && !number.is_i64()
            && let Some(float) = number.as_f64()
            && float.fract() == 0.0
            && float.abs() <= INT
        {
            *value = Value::from(float as i64);
        }
    }
    Ok(request)
}

/// The maximum length of request text that an error quotes.
const QUOTED_MAX_CHARS: usize = 200;

/// Shortens text of the caller, so that the size of an error does not depend on it.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns the error for JSON that is not a valid request, without quoting it.
pub(super) fn not_a_request(error: &serde_json::Error) -> Error {
    let text = shortened(&error.to_string());
    Error::new(ErrorCode::InvalidArgument, format!("the request is not the JSON this call takes: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(fields: &[FieldRule], json: Value) -> Result<(), String> {
        check(fields, json.as_object().unwrap()).map_err(|error| error.message)
    }

    #[test]
    fn a_field_that_is_wrong_is_named() {
        let fine = serde_json::json!({"cmd": "ls", "session_id": "sess_a", "timeout": 5, "working_dir": ""});
        checked(BASH, fine).unwrap();
        for (json, word) in [
            (serde_json::json!({"session_id": "sess_a"}), "cmd: is required"),
            (serde_json::json!({"cmd": "", "session_id": "sess_a"}), "cmd: is required"),
            (serde_json::json!({"cmd": "ls"}), "session_id: is required"),
            (serde_json::json!({"cmd": "ls", "session_id": "sess_a", "timeout": 301}), "timeout: must be"),
            (serde_json::json!({"cmd": "ls", "session_id": "sess_a", "timeout": -1}), "timeout: must be"),
            (serde_json::json!({"cmd": "x".repeat(4097), "session_id": "sess_a"}), "cmd: is longer"),
            (serde_json::json!({"cmd": "a\0b", "session_id": "sess_a"}), "cmd: holds a NUL"),
            (serde_json::json!({"cmd": "ls", "session_id": "sess_a", "timout": 3}), "timout: is no field"),
        ] {
            let message = checked(BASH, json).unwrap_err();
            assert!(message.starts_with(word), "{message}");
        }
        let whole = serde_json::json!({"cmd": "ls", "timeout": 5.0, "n": 1.5, "far": 1e300, "neg": -2.0});
        let meant = serde_json::json!({"cmd": "ls", "timeout": 5, "n": 1.5, "far": 1e300, "neg": -2});
        assert_eq!(as_meant(whole.as_object().unwrap().clone()).unwrap(), *meant.as_object().unwrap());
        let nothing = serde_json::json!({"temperature": null});
        assert!(
            as_meant(nothing.as_object().unwrap().clone())
                .unwrap_err()
                .message
                .contains("temperature: is null")
        );
        let long = "x".repeat(100_000);
        for json in [
            serde_json::json!({"query": "x", "session_id": "sess_a", "scope": long}),
            serde_json::json!({"query": "x", "session_id": "sess_a", long.as_str(): 1}),
        ] {
            let message = checked(MEMORY_SEARCH, json).unwrap_err();
            assert!(message.len() < 1_000, "{} bytes", message.len());
        }
        let content =
            |text: String| serde_json::json!({"path": "a", "session_id": "sess_a", "content": text});
        checked(WRITE, content("x".repeat(1 << 20))).unwrap();
        let message = checked(WRITE, content("é".repeat((1 << 19) + 1))).unwrap_err();
        assert!(message.starts_with("content: has 1048578 bytes"), "{message}");
        let scope = serde_json::json!({"query": "x", "session_id": "sess_a", "scope": "galaxy"});
        assert!(checked(MEMORY_SEARCH, scope).unwrap_err().contains("none of project, team, org, all"));
    }
}
