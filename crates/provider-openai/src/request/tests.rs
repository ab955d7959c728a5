//! Requests as sent and replies as received, in both forms.

use domain::event::Attachment;
use serde_json::{Value, json};

use super::*;
use crate::history::HistoryCall;
use crate::reply::{FailureKind, ReplyEnd, ReplyFailure, ReplyUsage};

fn conversation() -> Vec<HistoryItem> {
    let call = |id: &str| {
        HistoryItem::Call(HistoryCall {
            id: id.to_owned(),
            name: "Bash".to_owned(),
            arguments: r#"{"command":"ls"}"#.to_owned(),
        })
    };
    let result = |id: &str| HistoryItem::Result { id: id.to_owned(), output: "a.txt".to_owned() };
    let picture = Attachment {
        name: "p.png".to_owned(),
        media_type: "image/png".to_owned(),
        content: "aGVs\nbG8=".to_owned(),
    };
    let note = Attachment {
        name: "n.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        content: "aGVsbG8=".to_owned(),
    };
    vec![
        HistoryItem::User { text: "look".to_owned(), attachments: vec![picture, note] },
        HistoryItem::Reasoning(json!({"type": "reasoning", "id": "r1", "encrypted_content": "x"})),
        HistoryItem::Assistant("I look".to_owned()),
        call("c1"),
        call("c2"),
        result("c1"),
        result("c2"),
        HistoryItem::Assistant("done".to_owned()),
        HistoryItem::User { text: "thanks".to_owned(), attachments: Vec::new() },
    ]
}

fn body(wire: WireApi) -> Value {
    let offers = [ToolDefinition {
        name: "Bash".to_owned(),
        description: "Runs.".to_owned(),
        schema: json!({"type": "object"}),
    }];
    wire.body(&ModelRequest {
        model: "m",
        instructions: "be good",
        items: &conversation(),
        tools: &offers,
        effort: "low",
        temperature: Some(0.5),
        max_output_tokens: Some(9),
        session: "sess_1",
    })
}

#[test]
fn a_conversation_is_sent_over_responses() {
    let message = |role: &str, parts: Value| json!({"type": "message", "role": role, "content": parts});
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "Bash", "arguments": "{\"command\":\"ls\"}"});
    let result = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": "a.txt"});
    let expected = json!({
        "model": "m",
        "instructions": "be good",
        "stream": true,
        "store": false,
        "prompt_cache_key": "sess_1",
        "parallel_tool_calls": true,
        "temperature": 0.5,
        "max_output_tokens": 9,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "Bash", "description": "Runs.", "parameters": {"type": "object"}, "strict": false}],
        "input": [
            message("user", json!([
                {"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8="},
                {"type": "input_text", "text": "<attachment name=\"n.txt\">\nhello\n</attachment>"},
                {"type": "input_text", "text": "look"},
            ])),
            {"type": "reasoning", "id": "r1", "encrypted_content": "x"},
            message("assistant", json!([{"type": "output_text", "text": "I look"}])),
            call("c1"),
            call("c2"),
            result("c1"),
            result("c2"),
            message("assistant", json!([{"type": "output_text", "text": "done"}])),
            message("user", json!([{"type": "input_text", "text": "thanks"}])),
        ],
    });
    assert_eq!(body(WireApi::Responses), expected);
}

#[test]
fn a_conversation_is_sent_over_chat() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "Bash", "arguments": "{\"command\":\"ls\"}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "a.txt"});
    let expected = json!({
        "model": "m",
        "stream": true,
        "stream_options": {"include_usage": true},
        "reasoning_effort": "low",
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "tools": [{"type": "function", "function": {"name": "Bash", "description": "Runs.", "parameters": {"type": "object"}}}],
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
                {"type": "text", "text": "<attachment name=\"n.txt\">\nhello\n</attachment>"},
                {"type": "text", "text": "look"},
            ]},
            {"role": "assistant", "content": "I look", "tool_calls": [call("c1"), call("c2")]},
            result("c1"),
            result("c2"),
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
    });
    assert_eq!(body(WireApi::Chat), expected);
}

fn read(wire: WireApi, events: &[Value]) -> (Vec<ReplyPiece>, bool) {
    let mut reader = wire.reader();
    let mut pieces = Vec::new();
    for event in events {
        let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        reader.take(&data, &mut pieces);
    }
    reader.finish(&mut pieces);
    (pieces, reader.is_over())
}

fn call(id: &str, arguments: &str) -> ReplyPiece {
    ReplyPiece::Call(HistoryCall {
        id: id.to_owned(),
        name: "Bash".to_owned(),
        arguments: arguments.to_owned(),
    })
}

#[test]
fn a_reply_is_read_from_responses() {
    let events = [
        json!({"type": "response.created", "response": {"id": "r"}}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs"}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs", "delta": "hm"}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs"}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs", "delta": "aha"}),
        json!({"type": "response.output_item.done", "item": {"type": "reasoning", "id": "rs", "encrypted_content": "e"}}),
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": "I "}),
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": "look"}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "I look"}]}}),
        json!({"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "c1", "name": "Bash", "arguments": "{}"}}),
        json!({"type": "response.output_item.done", "item": {"type": "message", "id": "m2", "content": [{"type": "output_text", "text": "whole"}]}}),
        json!({"type": "something.new"}),
        json!("not json"),
        json!({"type": "response.completed", "response": {"usage": {
            "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 7}}}),
    ];
    let text = |text: &str| ReplyPiece::Text(text.to_owned());
    let thought = |text: &str| ReplyPiece::Thinking(text.to_owned());
    let expected = vec![
        thought("hm"),
        thought("\n\n"),
        thought("aha"),
        ReplyPiece::Reasoning(json!({"type": "reasoning", "id": "rs", "encrypted_content": "e"})),
        text("I "),
        text("look"),
        call("c1", "{}"),
        text("whole"),
        ReplyPiece::Used(ReplyUsage::new(100, 40, 7)),
        ReplyPiece::Ended(ReplyEnd::Whole),
    ];
    assert_eq!(read(WireApi::Responses, &events), (expected, true));
}

#[test]
fn a_reply_is_read_from_chat() {
    let chunk = |delta: Value, finish: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]});
    let part = |index: u64, id: Value, arguments: &str| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": id.as_str().map(|_| "Bash"), "arguments": arguments}}]});
    let events = [
        chunk(json!({"role": "assistant", "content": ""}), Value::Null),
        chunk(json!({"reasoning_content": "hm"}), Value::Null),
        chunk(json!({"content": "I look"}), Value::Null),
        chunk(part(0, json!("c1"), "{\"a\""), Value::Null),
        chunk(part(1, json!("c2"), ""), Value::Null),
        chunk(part(0, Value::Null, ":1}"), Value::Null),
        chunk(part(1, Value::Null, "{}"), Value::Null),
        chunk(json!({}), json!("tool_calls")),
        json!({"choices": [], "usage": {"prompt_tokens": 50, "completion_tokens": 5}}),
        json!("[DONE]"),
    ];
    let expected = vec![
        ReplyPiece::Thinking("hm".to_owned()),
        ReplyPiece::Text("I look".to_owned()),
        ReplyPiece::Used(ReplyUsage::new(50, 0, 5)),
        call("c1", "{\"a\":1}"),
        call("c2", "{}"),
        ReplyPiece::Ended(ReplyEnd::Whole),
    ];
    assert_eq!(read(WireApi::Chat, &events), (expected, true));
    // Some endpoints end without a final event; a stream that is cut off has no reason to end.
    let (pieces, over) = read(WireApi::Chat, &[chunk(json!({"content": "x"}), json!("stop"))]);
    assert_eq!((pieces.last(), over), (Some(&ReplyPiece::Ended(ReplyEnd::Whole)), true));
    let (pieces, over) = read(WireApi::Chat, &[chunk(json!({"content": "x"}), Value::Null)]);
    assert_eq!((pieces.len(), over), (1, false));
}

#[test]
fn ends_and_errors_are_told_apart() {
    let last = |wire: WireApi, event: Value| read(wire, &[event, json!("[DONE]")]).0.pop();
    let responses = |event: Value| last(WireApi::Responses, event);
    let incomplete = |reason: &str| json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": reason}}});
    assert_eq!(responses(incomplete("max_output_tokens")), Some(ReplyPiece::Ended(ReplyEnd::Cut)));
    assert_eq!(responses(incomplete("content_filter")), Some(ReplyPiece::Ended(ReplyEnd::Refused)));
    let failed = json!({"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "too long"}}});
    assert_eq!(
        responses(failed),
        Some(ReplyPiece::Failed(ReplyFailure::new(FailureKind::TooLong, "too long")))
    );
    let error = json!({"type": "error", "code": "server_error", "message": "oops"});
    assert_eq!(responses(error), Some(ReplyPiece::Failed(ReplyFailure::new(FailureKind::Passing, "oops"))));
    let chat =
        |finish: &str| last(WireApi::Chat, json!({"choices": [{"delta": {}, "finish_reason": finish}]}));
    assert_eq!(chat("length"), Some(ReplyPiece::Ended(ReplyEnd::Cut)));
    assert_eq!(chat("content_filter"), Some(ReplyPiece::Ended(ReplyEnd::Refused)));
    let error = last(WireApi::Chat, json!({"error": {"type": "overloaded_error", "message": "busy"}}));
    assert_eq!(error, Some(ReplyPiece::Failed(ReplyFailure::new(FailureKind::Passing, "busy"))));
}
