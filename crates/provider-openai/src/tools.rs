//! The tools offered to a model, and what a call of one means. Named and shaped as in other agents, so that
//! one permission rule covers all of them. Pure: decides what to do, does nothing.

use std::time::Duration;

use agent_port::toolbox::{self, ToolTask};
use domain::Mode;
use domain::event::{ClientTool, Todo, TodoPriority, TodoStatus};
use domain::request::{Question, QuestionOption};
use serde_json::{Map, Value, json};

use super::read_only_commands::only_looks;
use crate::limits::{TITLE_MAX_CHARS, TODO_DESCRIPTION_MAX_CHARS, TODO_MAX_CHARS, TODOS_MAX};
use crate::mcp::McpServers;
use provider_common::json_fields::Look;
use provider_common::text::{cut, one_line};

/// A tool as described to a model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolDefinition {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) schema: Value,
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ToolAction {
    Task(ToolTask),
    Ask(Vec<Question>),
    Todos(Vec<Todo>),
    /// The plan is ready to be approved.
    LeavePlan,
    /// A client runs it.
    Client(ClientTool),
    /// A server runs it; `only_looks` is the server's own claim.
    Server {
        arguments: Map<String, Value>,
        only_looks: bool,
    },
    /// The daemon runs it, under its own name.
    Named(ToolTask, toolbox::RequiredPermission),
}

/// Tools that are not built in.
#[derive(Clone, Copy)]
pub(super) struct AdditionalTools<'a> {
    /// The daemon's.
    pub(super) named: &'a [toolbox::OfferedTool],
    pub(super) clients: &'a [ClientTool],
    pub(super) servers: &'a McpServers,
}

/// What a call needs before it may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallPermission {
    Nothing,
    /// No person need be asked, but grants and rules may object.
    NoObjection,
    Permission,
    /// Not in this mode.
    Refused,
}

/// Names of the built-in tools, in all modes.
const BUILT_IN: [&str; 9] =
    ["Read", "Write", "Edit", "LS", "Grep", "Bash", "AskUserQuestion", "TodoWrite", "ExitPlanMode"];

/// Returns the names of clients' tools that are not offered because one of our tools has the same name.
pub(super) fn hidden<'a>(others: AdditionalTools<'a>) -> impl Iterator<Item = &'a str> {
    let names = others.clients.iter().map(|tool| tool.name.as_str());
    names.filter(move |name| is_ours(name, others))
}

fn is_ours(name: &str, others: AdditionalTools<'_>) -> bool {
    BUILT_IN.contains(&name) || others.named.iter().any(|named| named.name == name)
}

/// Returns the tools of a session: built-in, the daemon's, then those of clients and of servers. None hides
/// an earlier one.
pub(super) fn offers(mode: Mode, others: AdditionalTools<'_>) -> Vec<ToolDefinition> {
    let mut offers = working();
    offers.extend(asking());
    if mode == Mode::Plan {
        offers.retain(|offer| !matches!(offer.name.as_str(), "Write" | "Edit"));
        offers.push(offer(
            "ExitPlanMode",
            "Put your finished plan before the user. Call it once you know what to do; nothing can be changed before.",
            json!({"plan": {"type": "string", "description": "The plan, in Markdown."}}),
            &["plan"],
        ));
    }
    let offered = |tool: &&toolbox::OfferedTool| {
        mode != Mode::Plan || tool.need == toolbox::RequiredPermission::Nothing
    };
    offers.extend(others.named.iter().filter(offered).map(|tool| ToolDefinition {
        name: tool.name.clone(),
        description: tool.description.clone(),
        schema: tool.input_schema.clone(),
    }));
    for tool in others.clients {
        if !is_ours(&tool.name, others) && !offers.iter().any(|offer| offer.name == tool.name) {
            offers.push(ToolDefinition {
                name: tool.name.clone(),
                description: tool.description.clone(),
                schema: tool.input_schema.clone(),
            });
        }
    }
    for tool in others.servers.tools() {
        if !offers.iter().any(|offer| offer.name == tool.name) {
            offers.push(ToolDefinition {
                name: tool.name.clone(),
                description: tool.description.clone(),
                schema: tool.schema.clone(),
            });
        }
    }
    offers
}

fn offer(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: description.to_owned(),
        schema: json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false}),
    }
}

/// Tools that work on the project.
fn working() -> Vec<ToolDefinition> {
    let path = json!({"type": "string", "description": "Relative to the working folder, or absolute inside the project."});
    vec![
        offer(
            "Read",
            "Read a text file of the project.",
            json!({
                "file_path": path,
                "offset": {"type": "integer", "description": "First line, from 1."},
                "limit": {"type": "integer", "description": "How many lines."},
            }),
            &["file_path"],
        ),
        offer(
            "Write",
            "Write a file of the project, in place of what is there. Folders are made as needed.",
            json!({"file_path": path, "content": {"type": "string"}}),
            &["file_path", "content"],
        ),
        offer(
            "Edit",
            "Replace a text in a file of the project. The old text must occur exactly once, unless replace_all is set.",
            json!({
                "file_path": path,
                "old_string": {"type": "string"},
                "new_string": {"type": "string"},
                "replace_all": {"type": "boolean"},
            }),
            &["file_path", "old_string", "new_string"],
        ),
        offer("LS", "List a folder of the project.", json!({"path": path}), &[]),
        offer(
            "Grep",
            "Search the project's files for a regular expression. Returns file, line number and line.",
            json!({
                "pattern": {"type": "string"},
                "path": path,
                "glob": {"type": "string", "description": "Only files whose names fit, such as *.rs."},
            }),
            &["pattern"],
        ),
        offer(
            "Bash",
            "Run a shell command in the working folder, inside a sandbox: only the project can be written and there \
             is no network.",
            json!({
                "command": {"type": "string"},
                "timeout": {"type": "integer", "description": "Milliseconds; 30000 unless said, 300000 at most."},
            }),
            &["command"],
        ),
    ]
}

/// Tools that address the user.
fn asking() -> Vec<ToolDefinition> {
    vec![
        offer(
            "AskUserQuestion",
            "Ask the user when you cannot go on without a decision of theirs.",
            json!({"questions": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "question": {"type": "string"},
                    "header": {"type": "string"},
                    "options": {"type": "array", "items": {
                        "type": "object",
                        "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
                        "required": ["label"],
                    }},
                    "multiSelect": {"type": "boolean"},
                },
                "required": ["question", "options"],
            }}}),
            &["questions"],
        ),
        offer(
            "TodoWrite",
            "Show the user what you are going to do, as a whole list, and again whenever a step is done.",
            json!({"todos": {"type": "array", "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                    "description": {"type": "string", "description": "More about the step, if its name does not say it."},
                    "activeForm": {"type": "string", "description": "The step in progress, such as: Running the tests."},
                    "priority": {"type": "string", "enum": ["high", "medium", "low"]},
                },
                "required": ["content", "status"],
            }}}),
            &["todos"],
        ),
    ]
}

/// Parses a call; an error explains to the model what is wrong with it.
pub(super) fn read(
    name: &str,
    input: &Value,
    mode: Mode,
    others: AdditionalTools<'_>,
) -> Result<ToolAction, String> {
    let text = |key: &str| input.text(key).to_owned();
    let needed = |key: &str| match input.under(key) {
        Value::String(text) => Ok(text.clone()),
        _ => Err(format!("{key} is required and must be a text")),
    };
    let task = match name {
        "Read" => ToolTask::Read {
            path: needed("file_path")?,
            first_line: input.count("offset").unwrap_or(0),
            lines: input.count("limit").unwrap_or(0),
            raw: false,
        },
        "Write" => ToolTask::Write { path: needed("file_path")?, content: needed("content")? },
        "Edit" => ToolTask::Edit {
            path: needed("file_path")?,
            old: needed("old_string")?,
            new: needed("new_string")?,
            all: input.is("replace_all"),
        },
        "LS" => ToolTask::List { path: text("path") },
        "Grep" => ToolTask::Search { pattern: needed("pattern")?, path: text("path"), files: text("glob") },
        "Bash" => ToolTask::Run {
            command: needed("command")?,
            environment: Vec::new(),
            folder: String::new(),
            timeout: input.count("timeout").filter(|wait| *wait > 0).map(Duration::from_millis),
        },
        "AskUserQuestion" => return questions(input),
        "TodoWrite" => return Ok(ToolAction::Todos(todos(input))),
        "ExitPlanMode" if mode == Mode::Plan => return Ok(ToolAction::LeavePlan),
        "ExitPlanMode" => return Err("there is no plan to leave".to_owned()),
        other => {
            if let Some(tool) = others.named.iter().find(|tool| tool.name == other) {
                let task = ToolTask::Call { tool: other.to_owned(), arguments: input.clone() };
                return Ok(ToolAction::Named(task, tool.need));
            }
            if let Some(tool) = others.clients.iter().find(|tool| tool.name == other) {
                return Ok(ToolAction::Client(tool.clone()));
            }
            let tool = others.servers.find(other).ok_or_else(|| format!("there is no tool {other:?}"))?;
            let arguments = input.as_object().cloned().ok_or("the arguments must be a JSON object")?;
            return Ok(ToolAction::Server { arguments, only_looks: tool.only_looks });
        }
    };
    Ok(ToolAction::Task(task))
}

/// Parses the questions of an `AskUserQuestion` call.
fn questions(input: &Value) -> Result<ToolAction, String> {
    let question = |(at, asked): (usize, &Value)| Question {
        id: format!("question_{}", at + 1),
        header: asked.text("header").to_owned(),
        text: asked.text("question").to_owned(),
        options: asked
            .list("options")
            .iter()
            .map(|option| QuestionOption {
                label: option.text("label").to_owned(),
                description: option.text("description").to_owned(),
            })
            .collect(),
        multi_select: asked.is("multiSelect"),
    };
    let questions: Vec<Question> = input.list("questions").iter().enumerate().map(question).collect();
    if questions.is_empty() || questions.iter().any(|question| question.text.is_empty()) {
        return Err("questions must be a list of questions, each with a text".to_owned());
    }
    Ok(ToolAction::Ask(questions))
}

fn todos(input: &Value) -> Vec<Todo> {
    let entry = |(at, todo): (usize, &Value)| {
        let status = match todo.text("status") {
            "in_progress" => TodoStatus::InProgress,
            "completed" => TodoStatus::Completed,
            _ => TodoStatus::Pending,
        };
        let priority = match todo.text("priority") {
            "high" => Some(TodoPriority::High),
            "medium" => Some(TodoPriority::Medium),
            "low" => Some(TodoPriority::Low),
            _ => None,
        };
        Todo {
            description: cut(todo.text("description"), TODO_DESCRIPTION_MAX_CHARS),
            active_form: cut(todo.text("activeForm"), TODO_MAX_CHARS),
            priority,
            ..Todo::new((at + 1).to_string(), cut(todo.text("content"), TODO_MAX_CHARS), status)
        }
    };
    input.list("todos").iter().take(TODOS_MAX).enumerate().map(entry).collect()
}

/// Returns what a call needs before it is carried out.
pub(super) fn need(act: &ToolAction, mode: Mode) -> CallPermission {
    match act {
        ToolAction::Task(ToolTask::Read { .. } | ToolTask::List { .. } | ToolTask::Search { .. }) => {
            CallPermission::NoObjection
        }
        ToolAction::Task(ToolTask::Run { command, .. }) if only_looks(command) => CallPermission::NoObjection,
        ToolAction::Task(_) if mode == Mode::Plan => CallPermission::Refused,
        ToolAction::Client(tool) if tool.asks && mode == Mode::Plan => CallPermission::Refused,
        ToolAction::Task(task) if task.changes_files() && mode == Mode::AcceptEdits => {
            CallPermission::NoObjection
        }
        // A server's claim only decides whether the call may be asked about, nothing more.
        ToolAction::Server { only_looks, .. } if mode == Mode::Plan && !only_looks => CallPermission::Refused,
        ToolAction::Task(_) | ToolAction::LeavePlan | ToolAction::Server { .. } => CallPermission::Permission,
        ToolAction::Client(tool) if tool.asks => CallPermission::Permission,
        ToolAction::Named(_, toolbox::RequiredPermission::Nothing) => CallPermission::NoObjection,
        ToolAction::Named(..) if mode == Mode::Plan => CallPermission::Refused,
        ToolAction::Named(_, toolbox::RequiredPermission::EditPermission) if mode == Mode::AcceptEdits => {
            CallPermission::NoObjection
        }
        ToolAction::Named(..) => CallPermission::Permission,
        ToolAction::Ask(_) | ToolAction::Todos(_) | ToolAction::Client(_) => CallPermission::Nothing,
    }
}

/// Returns one line for a person.
pub(super) fn title(name: &str, input: &Value) -> String {
    let about = ["command", "cmd", "file_path", "pattern", "path"].map(|key| input.text(key));
    let about = about.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let line = if about.is_empty() { name.to_owned() } else { format!("{name}: {about}") };
    one_line(&line, TITLE_MAX_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> ClientTool {
        ClientTool {
            name: name.to_owned(),
            description: "a client's".to_owned(),
            input_schema: json!({"type": "object"}),
            exclusive: false,
            timeout_ms: None,
            asks: false,
        }
    }

    static NO_SERVERS: std::sync::LazyLock<McpServers> = std::sync::LazyLock::new(McpServers::default);

    fn by_clients(clients: &[ClientTool]) -> AdditionalTools<'_> {
        AdditionalTools { named: &[], clients, servers: &NO_SERVERS }
    }

    fn names(mode: Mode, clients: &[ClientTool]) -> Vec<String> {
        offers(mode, by_clients(clients)).into_iter().map(|offer| offer.name).collect()
    }

    #[test]
    fn clients_add_tools_and_replace_none() {
        let all = names(Mode::Supervised, &[client("lamp"), client("Bash")]);
        assert_eq!(all.iter().filter(|name| *name == "Bash").count(), 1);
        assert!(all.contains(&"lamp".to_owned()));
        let lamp = read("lamp", &json!({}), Mode::Supervised, by_clients(&[client("lamp")]));
        assert_eq!(lamp, Ok(ToolAction::Client(client("lamp"))));
        let bash =
            read("Bash", &json!({"command": "ls"}), Mode::Supervised, by_clients(&[client("Bash")])).unwrap();
        assert!(matches!(bash, ToolAction::Task(ToolTask::Run { .. })));
    }

    #[test]
    fn clients_tools_with_our_names_are_hidden_in_every_mode() {
        let own = [names(Mode::Supervised, &[]), names(Mode::Plan, &[])].concat();
        assert!(own.iter().all(|name| BUILT_IN.contains(&name.as_str())), "{own:?}");
        let clients: Vec<ClientTool> = ["lamp", "Write", "ExitPlanMode"].map(client).into();
        assert_eq!(hidden(by_clients(&clients)).collect::<Vec<_>>(), ["Write", "ExitPlanMode"]);
        assert!(!names(Mode::Plan, &clients).contains(&"Write".to_owned()));
        assert!(!names(Mode::Supervised, &clients).contains(&"ExitPlanMode".to_owned()));
    }

    #[test]
    fn tools_of_the_daemon_are_called_by_name_and_asked_for_by_their_need() {
        use CallPermission::{NoObjection, Permission, Refused};
        let named = |name: &str, need: toolbox::RequiredPermission| toolbox::OfferedTool {
            name: name.to_owned(),
            description: "the daemon's".to_owned(),
            input_schema: json!({"type": "object"}),
            need,
        };
        let all = [
            named("memory_search", toolbox::RequiredPermission::Nothing),
            named("safe_write", toolbox::RequiredPermission::EditPermission),
            named("safe_bash", toolbox::RequiredPermission::Permission),
        ];
        let others = AdditionalTools { named: &all, clients: &[client("safe_bash")], servers: &NO_SERVERS };
        let names = |mode: Mode| -> Vec<String> {
            let offers = offers(mode, others).into_iter();
            offers.map(|offer| offer.name).filter(|name| name.contains('_')).collect()
        };
        assert_eq!(names(Mode::Supervised), ["memory_search", "safe_write", "safe_bash"]);
        assert_eq!(names(Mode::Plan), ["memory_search"]);
        let needs = |name: &str| {
            let act = read(name, &json!({"a": 1}), Mode::Supervised, others).unwrap();
            let task = ToolTask::Call { tool: name.to_owned(), arguments: json!({"a": 1}) };
            assert!(matches!(&act, ToolAction::Named(own, _) if *own == task), "{act:?}");
            [Mode::Supervised, Mode::AcceptEdits, Mode::Autonomous, Mode::Plan].map(|mode| need(&act, mode))
        };
        assert_eq!(needs("memory_search"), [NoObjection; 4]);
        assert_eq!(needs("safe_write"), [Permission, NoObjection, Permission, Refused]);
        assert_eq!(needs("safe_bash"), [Permission, Permission, Permission, Refused]);
    }

    #[test]
    fn modes_decide_what_is_asked() {
        let needs = |name: &str, input: Value| {
            let act = read(name, &input, Mode::Plan, by_clients(&[])).unwrap();
            [Mode::Supervised, Mode::AcceptEdits, Mode::Autonomous, Mode::Plan].map(|mode| need(&act, mode))
        };
        use CallPermission::{NoObjection, Permission, Refused};
        assert_eq!(needs("Read", json!({"file_path": "a"})), [NoObjection; 4]);
        assert_eq!(needs("LS", json!({})), [NoObjection; 4]);
        assert_eq!(needs("Grep", json!({"pattern": "a"})), [NoObjection; 4]);
        assert_eq!(needs("Bash", json!({"command": "git status"})), [NoObjection; 4]);
        assert_eq!(
            needs("Bash", json!({"command": "touch a"})),
            [Permission, Permission, Permission, Refused]
        );
        let written = json!({"file_path": "a", "content": ""});
        // An autonomous session asks too; our rules answer.
        assert_eq!(needs("Write", written), [Permission, NoObjection, Permission, Refused]);
        assert_eq!(needs("ExitPlanMode", json!({"plan": "x"})), [Permission; 4]);
        let lift = ToolAction::Client(ClientTool { asks: true, ..client("lift") });
        let all = [Mode::Supervised, Mode::AcceptEdits, Mode::Autonomous, Mode::Plan];
        assert_eq!(all.map(|mode| need(&lift, mode)), [Permission, Permission, Permission, Refused]);
        assert_eq!(
            all.map(|mode| need(&ToolAction::Client(client("look")), mode)),
            [CallPermission::Nothing; 4]
        );
    }

    #[test]
    fn a_plan_is_left_only_where_there_is_one() {
        assert!(names(Mode::Plan, &[]).contains(&"ExitPlanMode".to_owned()));
        assert!(!names(Mode::Plan, &[]).contains(&"Write".to_owned()));
        assert!(!names(Mode::Supervised, &[]).contains(&"ExitPlanMode".to_owned()));
        assert!(read("ExitPlanMode", &json!({}), Mode::Supervised, by_clients(&[])).is_err());
    }

    #[test]
    fn a_wrong_call_gets_an_error_that_names_the_fault() {
        let wrong =
            |name: &str, input: Value| read(name, &input, Mode::Supervised, by_clients(&[])).unwrap_err();
        assert_eq!(wrong("Read", json!({})), "file_path is required and must be a text");
        assert_eq!(wrong("Write", json!({"file_path": "a"})), "content is required and must be a text");
        assert_eq!(wrong("Fly", json!({})), "there is no tool \"Fly\"");
        assert!(wrong("AskUserQuestion", json!({"questions": []})).contains("a list of questions"));
        assert_eq!(title("Bash", &json!({"command": "ls\n-la"})), "Bash: ls -la");
        assert_eq!(title("LS", &json!({})), "LS");
    }
}
