//! MCP servers of a session: their tools are asked about, their forms filled in.

use domain::request::RequestSubject;
use domain::{AgentInput, Decision};
use serde_json::json;

use super::driver::Live;

const SERVER: &str = r#"
import json, os, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def text(id, text): say({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
FORM = {"type": "object", "required": ["name"], "properties": {
    "name": {"type": "string", "title": "Name"}, "count": {"type": "integer"}, "sure": {"type": "boolean"}}}
waiting = {}
for line in sys.stdin:
    call = json.loads(line)
    id, method = call.get("id"), call.get("method")
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": call["params"]["protocolVersion"],
             "capabilities": {"tools": {}}, "serverInfo": {"name": "lab", "version": "1"}}})
    elif method == "tools/list":
        names = ["secret", "form", "open"]
        say({"id": id, "result": {"tools": [{"name": n, "description": n, "inputSchema": {"type": "object"}} for n in names]}})
    elif method == "tools/call":
        name = call["params"]["name"]
        if name == "secret": text(id, os.environ.get("SECRET", "none"))
        else:
            waiting[f"e{id}"] = id
            asked = {"message": "Who are you?", "requestedSchema": FORM} if name == "form" else \
                {"mode": "url", "url": "https://example.invalid/", "elicitationId": "1", "message": "Open this"}
            say({"id": f"e{id}", "method": "elicitation/create", "params": asked})
    elif method is None and id in waiting: text(waiting.pop(id), json.dumps(call.get("result"), sort_keys=True))
    elif id is not None: say({"id": id, "result": {}})
"#;

#[test]
#[ignore = "talks to the real program: run by make test-all"]
fn servers_of_the_session() {
    let servers = json!({"lab": {"command": "python3", "args": ["-c", SERVER], "env": {"SECRET": "hush"}}});
    let config = json!({"mcp_servers": servers.to_string()});
    let mut live = Live::start("servers", json!({"provider_config": config}));
    let line = std::fs::read(format!("/proc/{}/cmdline", live.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains("hush"), "any user can read a command line");
    let call = |tool: &str| json!({"tool": format!("mcp__lab__{tool}"), "input": {"a": 1}});
    live.prompt("use", json!([call("secret"), call("secret"), {"text": "Used."}]));
    assert_eq!(live.decide(Decision::AllowOnce, ""), "mcp__lab__secret");
    assert_eq!(live.finished(), (true, "hush".into()));
    live.decide(Decision::Deny, "");
    assert!(!live.finished().0);
    assert_eq!(live.end().1, "Used.");
    live.prompt("form", json!([call("form"), {"text": "Filled."}]));
    live.decide(Decision::AllowOnce, "");
    let (native, ask) = live.asked();
    assert!(matches!(&ask, RequestSubject::Question { questions, .. } if questions.len() == 3));
    let answers = [("name", "Ann"), ("count", "3"), ("sure", "yes")];
    let answers = answers.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    live.tell(AgentInput::Answer { native, answers, ask });
    let filled = r#"{"action": "accept", "content": {"count": 3, "name": "Ann", "sure": true}}"#;
    assert_eq!(live.finished(), (true, filled.into()));
    live.end();
    live.prompt("open", json!([call("open"), {"text": "Opened."}]));
    live.decide(Decision::AllowOnce, "");
    assert_eq!(live.decide(Decision::Deny, ""), "mcp_elicitation");
    assert_eq!(live.finished().1, r#"{"action": "decline"}"#);
    assert_eq!(live.end().1, "Opened.");
    live.leave();
}
