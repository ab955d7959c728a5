//! Replies of models and frames of gateways: no bytes make their readers panic, and how a reply is cut into chunks makes
//! no difference.

use anyhow::{Result, ensure};

use crate::Target;
use crate::mutate::hash;

/// Streams of the OpenAI API. The first byte chooses the API, the second where the stream is cut.
pub(super) struct ModelReplies;

const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello, w\u{f6}rld\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\",\"call_id\":\"c\",",
    "\"name\":\"shell\",\"arguments\":\"{\\\"a\\\":1}\"}}\r\n\r\n: comment\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"usage\":{\"input_tokens\":10,",
    "\"output_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":3}}}}\n\n",
);

const CHAT: &str = concat!(
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"He\"}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\",\"tool_calls\":[{\"index\":0,\"id\":\"c\",",
    "\"function\":{\"name\":\"shell\",\"arguments\":\"{\\\"a\\\"\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\":1}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":7,",
    "\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
);

impl Target for ModelReplies {
    fn name(&self) -> &'static str {
        "model-replies"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let failed = "data: {\"error\":{\"message\":\"slow down\",\"code\":\"rate_limit_exceeded\"}}\n\n";
        [(0, RESPONSES), (1, CHAT), (0, failed), (1, failed)]
            .map(|(api, text)| [&[api, 40], text.as_bytes()].concat())
            .to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "data: ",
            "\n\n",
            "\r\n",
            "data",
            ":",
            "[DONE]",
            "\"delta\":",
            "\"index\":",
            "\"usage\":",
            "-1",
            "1e999",
            "null",
            "\\ud800",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let [api, cut, stream @ ..] = input else { return Ok(0) };
        let is_chat = *api % 2 == 1;
        let whole = providers::openai::decode_reply(is_chat, &[stream]);
        let chunks: Vec<&[u8]> = stream.chunks(usize::from(*cut).max(1)).collect();
        let in_chunks = providers::openai::decode_reply(is_chat, &chunks);
        ensure!(whole == in_chunks, "chunks change the reply: {whole:?} became {in_chunks:?}");
        let kinds: Vec<&str> =
            whole.iter().map(|piece| piece.split('(').next().unwrap_or_default()).collect();
        Ok(hash(kinds.join(" ").as_bytes()) ^ u64::from(is_chat))
    }
}

/// Frames of an OpenClaw gateway, one per line.
pub(super) struct GatewayFrames;

/// Recorded conversations with a gateway.
const GATEWAY: [&str; 2] = [
    include_str!("../../../crates/provider-openclaw/tests/transcripts/openclaw/conversation.jsonl"),
    include_str!("../../../crates/provider-openclaw/tests/transcripts/openclaw/approvals.jsonl"),
];

impl Target for GatewayFrames {
    fn name(&self) -> &'static str {
        "openclaw"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let frames = |recording: &str| {
            let lines =
                recording.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            let ours: Vec<String> = lines
                .filter(|entry| entry["dir"] == "<")
                .take(40)
                .map(|entry| entry["msg"].to_string())
                .collect();
            ours.join("\n").into_bytes()
        };
        GATEWAY.map(frames).to_vec()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"type\":",
            "\"event\":",
            "\"payload\":",
            "\"runId\":",
            "\"ok\":true",
            "\"ok\":false",
            "null",
            "-1",
            "[]",
            "{}",
            "\n",
            "\\ud800",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let text = String::from_utf8_lossy(input);
        let frames: Vec<&str> = text.lines().collect();
        let events = providers::openclaw::decode_frames(&frames);
        let names: Vec<String> =
            events.iter().map(|event| format!("{event:.0?}").chars().take(12).collect()).collect();
        Ok(hash(names.join(" ").as_bytes()))
    }
}
