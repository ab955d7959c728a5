//! Finds what a scripted tool call is called by the agent that asks: scripts may use Claude Code's words (`Bash`,
//! `Write`, a question, a to-do list) or the agent's own, and agents offer functions, custom tools and name spaces.
//! Pure but for the ids it draws.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::model_server::Ids;
use crate::model_server::script::{Block, Reply};

/// How a call is written on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Form {
    Function {
        namespace: Option<String>,
    },
    /// Its input is a text of its own, not JSON.
    Custom,
    LocalShell,
}

/// Rewrites the calls of a reply for the tools of a request; returns how each is written, by its id.
pub(super) fn as_offered(mut reply: Reply, body: &Value, ids: &Ids) -> (Reply, HashMap<String, Form>) {
    let offered = Offered::read(body);
    let base = ids.next("call");
    let mut forms = HashMap::new();
    for block in &mut reply.blocks {
        let Block::Tool { name, input, id } = block else { continue };
        let call = id.clone().unwrap_or_else(|| format!("{base}_{}", forms.len()));
        let (own_name, own_input, form) = offered.translate(name, input);
        (*name, *input) = (own_name, own_input);
        *id = Some(call.clone());
        forms.insert(call, form);
    }
    (reply, forms)
}

/// The tools of a request: name, type and name space.
struct Offered(Vec<(String, String, Option<String>)>);

impl Offered {
    fn read(body: &Value) -> Offered {
        let mut all = Vec::new();
        collect(&body["tools"], None, &mut all);
        // Models that write code find their tools in the first item of the conversation.
        for item in body["input"].as_array().into_iter().flatten() {
            if item["type"] == "additional_tools" {
                collect(&item["tools"], None, &mut all);
            }
        }
        Offered(all)
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(offered, ..)| offered == name)
    }

    fn translate(&self, name: &str, input: &Value) -> (String, Value, Form) {
        if !self.has(name) {
            match name {
                "Bash" | "shell" => return self.shell(input),
                "Write" => return self.translate("apply_patch", &json!({"input": added_file(input)})),
                "AskUserQuestion" => return self.translate("request_user_input", &questions(input)),
                "TodoWrite" => return self.translate("update_plan", &plan(input)),
                _ => {}
            }
        }
        let found = self.0.iter().find(|(offered, ..)| offered == name);
        match found {
            Some((_, kind, _)) if kind == "custom" => (name.to_owned(), text_of(input), Form::Custom),
            Some((.., namespace)) => {
                let form = Form::Function { namespace: namespace.clone() };
                (name.to_owned(), input.clone(), form)
            }
            None => self.in_namespace(name, input),
        }
    }

    /// `mcp__server__tool` is the tool of a name space for some agents; what nobody offers is called all the same.
    fn in_namespace(&self, name: &str, input: &Value) -> (String, Value, Form) {
        for (offered, _, namespace) in &self.0 {
            let Some(namespace) = namespace else { continue };
            if name == format!("{namespace}__{offered}") || name == format!("{namespace}/{offered}") {
                let form = Form::Function { namespace: Some(namespace.clone()) };
                return (offered.clone(), input.clone(), form);
            }
        }
        // Tools that the agent keeps back until they are searched for are named with their name space.
        let server = name.strip_prefix("mcp__").and_then(|rest| rest.find("__")).map(|at| at + "mcp__".len());
        let mcp = server.map(|at| (&name[..at], &name[at + "__".len()..]));
        let (namespace, name) = match name.split_once('/').or(mcp) {
            Some((namespace, name)) => (Some(namespace.to_owned()), name),
            None => (None, name),
        };
        (name.to_owned(), input.clone(), Form::Function { namespace })
    }

    fn shell(&self, input: &Value) -> (String, Value, Form) {
        let command = &input["command"];
        let mut own = input.clone();
        let function = Form::Function { namespace: None };
        if self.has("exec_command") {
            if let Some(map) = own.as_object_mut() {
                map.remove("command");
                map.insert("cmd".to_owned(), command.clone());
            }
            return ("exec_command".to_owned(), own, function);
        }
        if self.has("shell_command") {
            return ("shell_command".to_owned(), own, function);
        }
        own["command"] = json!(["bash", "-lc", command]);
        if self.has("local_shell") {
            return ("local_shell".to_owned(), own, Form::LocalShell);
        }
        ("shell".to_owned(), own, function)
    }
}

fn collect(tools: &Value, namespace: Option<&str>, all: &mut Vec<(String, String, Option<String>)>) {
    for tool in tools.as_array().into_iter().flatten() {
        let kind = tool["type"].as_str().unwrap_or_default();
        let name = tool["name"].as_str().unwrap_or(kind);
        if kind == "namespace" {
            collect(&tool["tools"], Some(name), all);
        } else {
            all.push((name.to_owned(), kind.to_owned(), namespace.map(str::to_owned)));
        }
    }
}

/// What a custom tool is given: the text itself, under whichever key the script has it.
fn text_of(input: &Value) -> Value {
    match input {
        Value::Object(map) => map.values().find(|value| value.is_string()).cloned().unwrap_or_default(),
        other => other.clone(),
    }
}

fn added_file(input: &Value) -> String {
    let (path, content) = (input["file_path"].as_str(), input["content"].as_str());
    let lines: String = content.unwrap_or_default().lines().map(|line| format!("+{line}\n")).collect();
    format!("*** Begin Patch\n*** Add File: {}\n{lines}*** End Patch\n", path.unwrap_or("file"))
}

fn questions(input: &Value) -> Value {
    let own = |(at, question): (usize, &Value)| {
        json!({
            "id": format!("question_{}", at + 1),
            "header": question["header"],
            "question": question["question"],
            "options": question["options"],
        })
    };
    let list = input["questions"].as_array().map(Vec::as_slice).unwrap_or_default();
    json!({"questions": list.iter().enumerate().map(own).collect::<Vec<Value>>()})
}

fn plan(input: &Value) -> Value {
    let own = |todo: &Value| json!({"step": todo["content"], "status": todo["status"]});
    let list = input["todos"].as_array().map(Vec::as_slice).unwrap_or_default();
    json!({"plan": list.iter().map(own).collect::<Vec<Value>>()})
}
