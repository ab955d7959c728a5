//! Makes the access table: reads the option `obey.v1.access` of our own methods and `proto/access.toml` for all others,
//! and writes them as a Rust array. What is wrong in either fails the build; a method without a row does not, it is
//! refused at run time and found by a test.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

use protox::prost_reflect::{
    DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor, ReflectMessage as _, Value,
};
use serde::Deserialize;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    grpc: BTreeMap<String, BTreeMap<String, Entry>>,
    outside: BTreeMap<String, Entry>,
    rest: BTreeMap<String, Entry>,
    tool: BTreeMap<String, Entry>,
    acp: BTreeMap<String, Entry>,
}

/// A row as it is written down.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    who: String,
    effect: String,
    #[serde(default)]
    session: String,
    #[serde(default)]
    needs: String,
    #[serde(default)]
    withheld: bool,
    #[serde(default = "yes")]
    tunnel: bool,
    rest: Option<String>,
    tool: Option<String>,
    /// The scope with which an API key may call it; none: no key may.
    #[serde(default)]
    scope: String,
    /// The route is served below `/api`, too.
    #[serde(default)]
    below_api: bool,
}

fn yes() -> bool {
    true
}

/// Rows by protocol and method, as Rust.
#[derive(Default)]
struct Rows(BTreeMap<(u8, String), String>);

const GRPC: (u8, &str) = (0, "Grpc");
const REST: (u8, &str) = (1, "Rest");
const TOOL: (u8, &str) = (2, "Tool");
const ACP: (u8, &str) = (3, "Acp");

/// The scopes of API keys, as `wire::access` names them.
const SCOPES: [&str; 7] =
    ["ReadTasks", "WriteTasks", "ReadHosts", "WriteHosts", "ReadStreams", "WriteStreams", "Admin"];

/// Writes the table to a file.
pub(super) fn write(pool: &DescriptorPool, rules: &Path, out: &Path) -> Result<()> {
    let text = std::fs::read_to_string(rules)?;
    let mut file: File = toml::from_str(&text).map_err(|error| format!("{}: {error}", rules.display()))?;
    let mut rows = Rows::default();
    for service in pool.services() {
        let mut written = file.grpc.remove(service.full_name()).unwrap_or_default();
        for method in service.methods() {
            let name = format!("{}/{}", service.full_name(), method.name());
            let entry = match (written.remove(method.name()), option(pool, &method)?) {
                (Some(_), Some(_)) => return Err(format!("{name} has two rows").into()),
                (Some(entry), None) | (None, Some(entry)) => entry,
                (None, None) => continue,
            };
            rows.add_method(&name, &method, &entry)?;
        }
        if let Some(name) = written.keys().next() {
            return Err(
                format!("{}: there is no method {}/{name}", rules.display(), service.full_name()).into()
            );
        }
    }
    if let Some(name) = file.grpc.keys().next() {
        return Err(format!("{}: there is no service {name}", rules.display()).into());
    }
    for (protocol, entries) in [(GRPC, file.outside), (REST, file.rest), (TOOL, file.tool), (ACP, file.acp)] {
        for (name, entry) in entries {
            rows.add(protocol, &name, &entry, &[], false)?;
            if entry.below_api {
                rows.add(protocol, &name.replacen(" /", " /api/", 1), &entry, &[], false)?;
            }
        }
    }
    std::fs::write(out, rows.rust()?)?;
    Ok(())
}

impl Rows {
    /// Adds a gRPC method, and the route and the tool that do the same.
    fn add_method(&mut self, name: &str, method: &MethodDescriptor, entry: &Entry) -> Result<()> {
        let path = match entry.session.as_str() {
            "" | "caller" => Vec::new(),
            session => numbers(&method.input(), session).map_err(|error| format!("{name}: {error}"))?,
        };
        self.add(GRPC, name, entry, &path, method.is_client_streaming())?;
        if let Some(route) = &entry.rest {
            self.add(REST, route, entry, &[], false)?;
        }
        if let Some(tool) = &entry.tool {
            let session = if entry.session.is_empty() { String::new() } else { "caller".to_owned() };
            self.add(TOOL, tool, &Entry { session, ..entry.clone() }, &[], false)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        protocol: (u8, &str),
        name: &str,
        entry: &Entry,
        path: &[u32],
        streams: bool,
    ) -> Result<()> {
        let wrong = |field: &str, value: &str| format!("{name}: {field} is {value:?}");
        let who = word(&entry.who, &["Anyone", "User", "Agent", "Bridge"])
            .ok_or_else(|| wrong("who", &entry.who))?;
        let effect = word(&entry.effect, &["Reads", "Acts", "Administers"])
            .ok_or_else(|| wrong("effect", &entry.effect))?;
        let needs = match entry.needs.as_str() {
            "" => "Nothing",
            "edit permission" => "EditPermission",
            needs => {
                word(needs, &["Nothing", "Permission", "Declared"]).ok_or_else(|| wrong("needs", needs))?
            }
        };
        let session = match entry.session.as_str() {
            "" => "SessionIn::None".to_owned(),
            "caller" => "SessionIn::Caller".to_owned(),
            field => format!("SessionIn::Field {{ name: {field:?}, path: &{path:?} }}"),
        };
        if entry.session.is_empty() && matches!(who, "Agent" | "Bridge") {
            return Err(format!("{name}: what agents may call must name its session").into());
        }
        let is_tool = protocol == TOOL || entry.tool.is_some();
        let offer = match (is_tool, entry.withheld) {
            (_, true) => "Withheld",
            (true, false) => "Offered",
            (false, false) => "NoTool",
        };
        let scope = match entry.scope.as_str() {
            "" => "None".to_owned(),
            scope => {
                let known = word(scope, &SCOPES).ok_or_else(|| wrong("scope", scope))?;
                format!("Some(ApiScope::{known})")
            }
        };
        let tunnel = entry.tunnel;
        let row = format!(
            "Row {{ protocol: Protocol::{}, method: {name:?}, who: Who::{who}, session: {session}, effect: \
             Effect::{effect}, needs: Needs::{needs}, offer: Offer::{offer}, tunnel: {tunnel}, client_streams: \
             {streams}, scope: {scope} }}",
            protocol.1
        );
        if self.0.insert((protocol.0, name.to_owned()), row).is_some() {
            return Err(format!("{name} has two rows").into());
        }
        Ok(())
    }

    /// Sorted by method, so that a method is found by bisection.
    fn rust(&self) -> Result<String> {
        let mut text = String::new();
        for (number, name) in [(GRPC.0, "GRPC"), (REST.0, "REST"), (TOOL.0, "TOOLS"), (ACP.0, "ACP")] {
            writeln!(
                text,
                "/// The rows of this protocol, sorted by method.\npub static {name}: &[Row] = &["
            )?;
            for ((_, _), row) in self.0.iter().filter(|((of, _), _)| *of == number) {
                writeln!(text, "    {row},")?;
            }
            writeln!(text, "];")?;
        }
        Ok(text)
    }
}

fn word<'a>(written: &str, words: &[&'a str]) -> Option<&'a str> {
    words.iter().copied().find(|word| word.eq_ignore_ascii_case(written))
}

/// Returns the numbers that lead to a field such as `start.session_id`, which must be a text.
fn numbers(message: &MessageDescriptor, field: &str) -> Result<Vec<u32>> {
    let mut message = message.clone();
    let mut path = Vec::new();
    let mut names = field.split('.').peekable();
    while let Some(name) = names.next() {
        let no_field = || format!("{} has no field {name}", message.full_name());
        let found = message.get_field_by_name(name).ok_or_else(no_field)?;
        path.push(found.number());
        let kind = found.kind();
        match (kind.as_message(), names.peek()) {
            (Some(inner), Some(_)) => message = inner.clone(),
            (None, None) if !found.is_list() && kind.as_enum().is_none() => {}
            _ => return Err(format!("{field} is no text in {}", message.full_name()).into()),
        }
    }
    Ok(path)
}

/// Reads the option of a method; none where it has none.
fn option(pool: &DescriptorPool, method: &MethodDescriptor) -> Result<Option<Entry>> {
    let extension =
        pool.get_extension_by_name("obey.v1.access").ok_or("obey/v1/access.proto is not compiled")?;
    let options = method.options();
    if !options.has_extension(&extension) {
        return Ok(None);
    }
    let value = options.get_extension(&extension);
    let access = value.as_message().ok_or("the option is no message")?;
    let text =
        |name: &str| access.get_field_by_name(name).and_then(|value| value.as_str().map(str::to_owned));
    let is_set =
        |name: &str| access.get_field_by_name(name).and_then(|value| value.as_bool()).unwrap_or(false);
    Ok(Some(Entry {
        who: enum_word(access, "who")?,
        effect: enum_word(access, "effect")?,
        session: text("session").unwrap_or_default(),
        needs: enum_word(access, "needs")?,
        withheld: is_set("withheld"),
        tunnel: !is_set("no_tunnel"),
        rest: None,
        tool: None,
        scope: String::new(),
        below_api: false,
    }))
}

/// Returns the value of an enum as the table writes it: `ACCESS_NEEDS_EDIT_PERMISSION` is `edit permission`.
fn enum_word(message: &DynamicMessage, name: &str) -> Result<String> {
    let field = message.descriptor().get_field_by_name(name).ok_or("the option lacks a field")?;
    let kind = field.kind();
    let kind = kind.as_enum().ok_or("the option's field is no enum")?;
    let Value::EnumNumber(number) = *message.get_field(&field) else { return Err("no number".into()) };
    let value = kind.get_value(number).ok_or("the option has an unknown value")?;
    let prefix = format!("ACCESS_{}_", name.to_uppercase());
    Ok(value.name().trim_start_matches(prefix.as_str()).to_lowercase().replace('_', " "))
}
