//! The documents that describe the operations: schema.json, the OpenAPI document, TOOL.md. They are generated
//! from the table of operations, the field rules, the examples and the comments in the protobuf files, so
//! they always match what is served.

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorProto};
use serde_json::{Map, Value, json};

use super::examples::EXAMPLES;
use super::fields::FieldRule;
use super::operations::{HttpMethod, OPERATIONS, Operation};

const PACKAGE: &str = "contextd.v1";

/// A descriptor set whose files stay encoded: the comments of other packages are megabytes.
#[derive(Clone, PartialEq, prost::Message)]
struct EncodedFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// Of a file, its package.
#[derive(Clone, PartialEq, prost::Message)]
struct FilePackage {
    #[prost(string, tag = "2")]
    package: String,
}

/// The content of the protobuf files: messages by name, method comments by `Service.Method`.
#[derive(Default)]
struct Descriptions {
    messages: BTreeMap<String, Vec<FieldDescription>>,
    methods: BTreeMap<String, String>,
}

/// One field of a message.
struct FieldDescription {
    name: String,
    kind: Type,
    /// The name of the message type, if it is one.
    message: String,
    repeated: bool,
    comment: String,
}

impl Descriptions {
    /// Reads the descriptors that are compiled into the program.
    fn read() -> Self {
        let mut all = Self::default();
        // Our own descriptors; the build guarantees that they can be decoded.
        let set = EncodedFiles::decode(Bytes::from_static(wire::DESCRIPTORS)).unwrap_or_default();
        for file in set.file {
            let package = FilePackage::decode(file.clone()).unwrap_or_default().package;
            if package == PACKAGE {
                all.add(&FileDescriptorProto::decode(file).unwrap_or_default());
            }
        }
        all
    }

    /// Adds the messages and methods of one file, with their comments.
    fn add(&mut self, file: &FileDescriptorProto) {
        let mut comments: BTreeMap<Vec<i32>, String> = BTreeMap::new();
        for location in file.source_code_info.iter().flat_map(|info| &info.location) {
            let comment = location.leading_comments().split_whitespace().collect::<Vec<_>>().join(" ");
            if !comment.is_empty() {
                comments.insert(location.path.clone(), comment);
            }
        }
        let comment = |path: &[i32]| comments.get(path).cloned().unwrap_or_default();
        for (at, message) in (0i32..).zip(&file.message_type) {
            let fields = described(message, |field| comment(&[4, at, 2, field]));
            self.messages.insert(message.name().to_owned(), fields);
        }
        for (at, service) in (0i32..).zip(&file.service) {
            let short = service.name().trim_end_matches("Service");
            for (number, method) in (0i32..).zip(&service.method) {
                let key = format!("{short}.{}", method.name());
                self.methods.insert(key, comment(&[6, at, 2, number]));
            }
        }
    }

    fn fields(&self, message: &str) -> &[FieldDescription] {
        self.messages.get(message).map_or(&[], Vec::as_slice)
    }

    /// Returns the JSON schema of a message; `rules` are the field rules of a request.
    fn schema(&self, message: &str, rules: Option<&[FieldRule]>) -> Value {
        let mut properties = Map::new();
        for field in self.fields(message) {
            let rule = rules.and_then(|rules| rules.iter().find(|rule| rule.name == field.name));
            properties.insert(field.name.clone(), self.property(field, rule));
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        if let Some(rules) = rules {
            let required: Vec<&str> =
                rules.iter().filter(|rule| rule.required).map(|rule| rule.name).collect();
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema["additionalProperties"] = json!(false);
        }
        schema
    }

    /// Returns the JSON schema of a field, with the limits of its rule.
    fn property(&self, field: &FieldDescription, rule: Option<&FieldRule>) -> Value {
        let mut one = match field.kind {
            Type::Message => self.schema(&field.message, None),
            Type::Bool => json!({ "type": "boolean" }),
            Type::Float | Type::Double => json!({ "type": "number" }),
            Type::Int32 => json!({ "type": "integer", "format": "int32" }),
            _ => json!({ "type": "string" }),
        };
        if let Some(rule) = rule {
            limit(&mut one, rule, field.repeated);
        }
        let mut property = if field.repeated { json!({ "type": "array", "items": one }) } else { one };
        if let Some(rule) = rule {
            if field.repeated && rule.items > 0 {
                property["maxItems"] = json!(rule.items);
            }
            if let Ok(default) = serde_json::from_str::<Value>(rule.default) {
                property["default"] = default;
            }
        }
        if !field.comment.is_empty() {
            property["description"] = json!(field.comment);
        }
        property
    }
}

/// Describes the fields of a message. `comment` returns the comment of the field with this index.
fn described(message: &DescriptorProto, comment: impl Fn(i32) -> String) -> Vec<FieldDescription> {
    let fields = (0i32..).zip(&message.field).map(|(at, field)| FieldDescription {
        name: field.name().to_owned(),
        kind: field.r#type(),
        message: field.type_name().rsplit('.').next().unwrap_or_default().to_owned(),
        repeated: field.label() == Label::Repeated,
        comment: comment(at),
    });
    fields.collect()
}

/// Adds the limits of a rule to a field's schema.
fn limit(one: &mut Value, rule: &FieldRule, repeated: bool) {
    if let Some((from, to)) = rule.range {
        // Integers are written without a fraction.
        let number = |value: f64| if value.fract() == 0.0 { json!(value as i64) } else { json!(value) };
        (one["minimum"], one["maximum"]) = (number(from), number(to));
    }
    // A text never has more characters than bytes.
    let longest = if rule.chars > 0 { rule.chars } else { rule.bytes };
    if longest > 0 {
        one["maxLength"] = json!(longest);
    }
    if rule.required && !repeated && one["type"] == "string" {
        one["minLength"] = json!(1);
    }
    if !rule.one_of.is_empty() {
        one["enum"] = json!(rule.one_of);
    }
    if rule.name == "session_id" {
        one["pattern"] = json!("^sess_[A-Za-z0-9_-]{1,64}$");
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the examples of an operation.
fn examples(operation: &Operation) -> Vec<Value> {
    let of_it = EXAMPLES.iter().filter(|example| example.key == operation.key);
    let values = of_it.map(|example| {
        json!({
            "description": example.description,
            "input": parse(example.input),
            "output": parse(example.output),
        })
    });
    values.collect()
}

/// Returns schema.json: every operation by `Service.Method`, with input, output and examples.
pub fn schema_json() -> Value {
    let described = Descriptions::read();
    let entries = OPERATIONS.iter().map(|operation| (operation.key.to_owned(), entry(&described, operation)));
    sorted(Value::Object(entries.collect()))
}

/// Returns the entry of schema.json for one tool; `None` if there is no such tool.
pub fn tool_schema(tool: &str) -> Option<Value> {
    let operation = OPERATIONS.iter().find(|operation| operation.tool == tool)?;
    Some(sorted(entry(&Descriptions::read(), operation)))
}

/// Returns the entry of an operation in schema.json.
fn entry(described: &Descriptions, operation: &Operation) -> Value {
    json!({
        "service": format!("{}Service", operation.service),
        "method": operation.method,
        "tool": operation.tool,
        "description": described.methods.get(operation.key),
        "endpoint": format!("{} {}", operation.verb.name(), operation.path),
        "input": described.schema(operation.input, Some(operation.fields)),
        "output": described.schema(operation.output, None),
        "examples": examples(operation),
    })
}

/// Sorts the keys of a document, so that its text does not depend on how it was built.
fn sorted(mut document: Value) -> Value {
    document.sort_all_objects();
    document
}

/// Returns every operation as a tool of one session: its description, and the schema of its input without the
/// session id, which is known.
pub fn tools() -> Vec<(&'static Operation, String, Value)> {
    let described = Descriptions::read();
    let tool = |operation: &'static Operation| {
        let description = described.methods.get(operation.key).cloned().unwrap_or_default();
        let mut input = described.schema(operation.input, Some(operation.fields));
        parameter("session_id", "query", &mut input, true);
        (operation, description, sorted(input))
    };
    OPERATIONS.iter().map(tool).collect()
}

/// Returns TOOL.md: every tool in a form that costs few tokens. The schema of each is fetched when it is needed.
pub fn tool_md() -> String {
    let mut text = String::from(TOOL_HEAD);
    for (service, purpose) in SERVICES {
        let tools = OPERATIONS.iter().filter(|operation| operation.service == *service);
        let tools: Vec<&str> = tools.map(|operation| operation.tool).collect();
        text.push_str(&format!("- {}: {purpose}\n", tools.join(", ")));
    }
    text.push_str(TOOL_TAIL);
    text
}

/// The services in the order of TOOL.md, with what their tools are for.
const SERVICES: &[(&str, &str)] = &[
    ("SafeExec", "run a command, read or write a file, in a sandbox without network"),
    ("Session", "begin and end work on a project"),
    ("Ref", "the whole of an output that was cut"),
    ("Memory", "what earlier sessions learned, found by meaning"),
    ("Checkpoint", "save the state of the work, return to it"),
    ("Policy", "what must not be done"),
    ("Skill", "procedures"),
    ("Agent", "named system prompts"),
    ("Remediation", "errors and their solutions"),
];

const TOOL_HEAD: &str = r#"# contextd Tools

gRPC and HTTP on `localhost:50051`.

```bash
curl -X POST http://localhost:50051/api/v1/session/start \
  -H "Content-Type: application/json" \
  -d '{"project_path": "/path/to/project"}'
```

```python
import grpc
from contextd.v1 import safeexec_pb2, safeexec_pb2_grpc
channel = grpc.insecure_channel('localhost:50051')
```

Endpoint, input, output and examples of one tool: `GET /tools/schema/{tool}.json`; of all: `/tools/schema.json`.

"#;

const TOOL_TAIL: &str = "
Answers: `summary` (one line), `*_preview` (500 characters), `*_ref` (the rest, by ref_get), `tokens_used`. A failed command is an \
answer with its `exit_code`.
";

/// Returns the OpenAPI document.
pub fn open_api(version: &str) -> Value {
    let described = Descriptions::read();
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path.to_owned()).or_insert_with(|| json!({}));
        path[operation.verb.name().to_lowercase()] = path_item(&described, operation);
    }
    let health = json!({"summary": "Says that the daemon serves", "operationId": "health", "tags": ["Health"],
        "responses": {"200": {"description": "It does", "content": {"application/json": {"schema":
            {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}}}}}});
    paths.insert("/health".to_owned(), json!({ "get": health }));
    sorted(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "contextd.v1",
            "version": version,
            "description": "Sandboxed commands, files, memory, checkpoints, policies, skills and agents. The same \
                            operations are served over gRPC on this port.",
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "schemas": { "Error": error_schema() },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer",
                    "description": "For callers that are not the daemon's own user" }
            }
        },
        "security": [{}, { "token": [] }],
    }))
}

/// Returns the schema of the body of every error.
fn error_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "error": { "type": "string", "description": "What is wrong, and what to do" },
            "code": { "type": "string", "pattern": "^OBEY-[0-9]{4}$" },
            "status": { "type": "integer" },
            "retryable": { "type": "boolean" },
        },
        "required": ["error", "code", "status"],
    })
}

/// Returns the OpenAPI entry of one operation.
fn path_item(described: &Descriptions, operation: &Operation) -> Value {
    let first = examples(operation).into_iter().next().unwrap_or_default();
    let output = described.schema(operation.output, None);
    let mut item = json!({
        "operationId": operation.key,
        "summary": described.methods.get(operation.key),
        "tags": [operation.service],
        "responses": {
            "200": { "description": "The answer", "content": { "application/json": {
                "schema": output, "example": first["output"] } } },
            "default": { "description": "An error", "content": { "application/json": {
                "schema": { "$ref": "#/components/schemas/Error" } } } },
        },
    });
    let mut input = described.schema(operation.input, Some(operation.fields));
    let mut parameters = Vec::new();
    if operation.path.contains("{id}") {
        parameters.push(parameter("id", "path", &mut input, true));
    }
    if matches!(operation.verb, HttpMethod::Get | HttpMethod::Delete) {
        for field in operation.fields.iter().filter(|field| field.name != "id") {
            parameters.push(parameter(field.name, "query", &mut input, false));
        }
    } else {
        let mut body = json!({ "schema": input });
        if !operation.path.contains("{id}") {
            body["example"] = first["input"].clone();
        }
        item["requestBody"] = json!({ "required": true, "content": { "application/json": body } });
    }
    if !parameters.is_empty() {
        item["parameters"] = json!(parameters);
    }
    item
}

/// Returns a request field as a parameter; `moved` removes it from the body's schema.
fn parameter(name: &str, place: &str, input: &mut Value, moved: bool) -> Value {
    let schema = input["properties"][name].clone();
    let mut required = false;
    if let Some(names) = input["required"].as_array_mut() {
        required = names.iter().any(|known| known == name);
        if moved {
            names.retain(|known| known != name);
        }
    }
    if moved && let Some(properties) = input["properties"].as_object_mut() {
        properties.remove(name);
    }
    json!({ "name": name, "in": place, "required": required || place == "path", "schema": schema })
}

#[cfg(test)]
mod tests;
