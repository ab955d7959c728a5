//! Lines that make no sense: nothing breaks the codec, and one that was saved continues exactly as it would
//! have.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Fields that translating reads.
const KEYS: &str = "threadId turnId turn id item itemId type status delta tokenUsage total last inputTokens plan step \
    error message willRetry codexErrorInfo thread parentThreadId agentThreadId kind changes path questions options \
    requestId requestedSchema properties _meta codex_approval_kind serverName data config model threadSettings \
    collaborationMode mode items receiverThreadIds tool server";

/// Texts it distinguishes; `t1` is the conversation, `a` and `c1` may be a turn and a call.
const TEXTS: &str = "t1 a c1 completed failed interrupted plan started commandExecution fileChange mcpToolCall \
    agentMessage reasoning subAgentActivity contextCompaction collabAgentToolCall spawnAgent form mcp_tool_call";

const NOTIFICATIONS: &str = "turn/started turn/completed turn/plan/updated thread/tokenUsage/updated item/started \
    item/completed item/agentMessage/delta item/plan/delta item/reasoning/summaryTextDelta \
    item/reasoning/summaryPartAdded item/commandExecution/outputDelta serverRequest/resolved thread/started \
    thread/settings/updated error warning configWarning hook/completed mcpServer/startupStatus/updated model/rerouted \
    thread/closed brand/new";

const REQUESTS: &str = "item/commandExecution/requestApproval item/fileChange/requestApproval \
    item/tool/requestUserInput item/permissions/requestApproval mcpServer/elicitation/request item/tool/call brand/new";

const PURPOSES: &str = "initialize account models config start resume settings turn steer interrupt compact terminals \
    terminate settle";

fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    prop::sample::select(words.split_whitespace().collect::<Vec<&str>>())
}

/// Values with the fields that translating reads, of any type.
fn nonsense() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        one_of(TEXTS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(one_of(KEYS), inner, 0..7).prop_map(|map| {
                Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            }),
        ]
    })
}

fn line() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => (one_of(NOTIFICATIONS), nonsense())
            .prop_map(|(method, params)| json!({"method": method, "params": params})),
        2 => (one_of(REQUESTS), 0..4_u8, nonsense())
            .prop_map(|(method, id, params)| json!({"id": id, "method": method, "params": params})),
        2 => (one_of(PURPOSES), nonsense(), any::<bool>()).prop_map(|(purpose, result, ok)| {
            let id = format!("obey-{purpose}-1");
            if ok { json!({"id": id, "result": result}) } else { json!({"id": id, "error": result}) }
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_line_breaks_the_codec_and_a_saved_one_goes_on_the_same(
        lines in prop::collection::vec((line(), 0..8_u8), 1..12)
    ) {
        let mut codec = running();
        for (line, told) in lines {
            let mut twin = with(serde_json::from_str(&codec.save()).unwrap());
            let input = match told {
                0 => Some(AgentInput::Prompt { text: "x".into(), attachments: Vec::new() }),
                1 => Some(AgentInput::Interrupt),
                2 => Some(AgentInput::Steer { text: "y".into() }),
                3 => Some(AgentInput::SetMode(domain::Mode::Plan)),
                _ => None,
            };
            if let Some(input) = input {
                prop_assert_eq!(tell(&mut codec, input.clone()), tell(&mut twin, input));
            }
            prop_assert_eq!(hear_all(&mut codec, line.clone()), hear_all(&mut twin, line));
            prop_assert_eq!(codec.save(), twin.save());
        }
    }

    #[test]
    fn no_bytes_break_the_codec(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut out = Decoded::default();
        running().decode(&bytes, &mut out);
        prop_assert!(out.events.len() <= 1);
    }
}
