//! One request to a model, in types both APIs share, and the reader of its reply. Pure.

use serde_json::Value;

use super::history::HistoryItem;
use super::reply::ReplyPiece;
use super::settings::WireApi;
use super::tools::ToolDefinition;
use super::{chat, responses};

/// A request to a model.
pub(super) struct ModelRequest<'a> {
    pub(super) model: &'a str,
    pub(super) instructions: &'a str,
    pub(super) items: &'a [HistoryItem],
    pub(super) tools: &'a [ToolDefinition],
    pub(super) effort: &'a str,
    pub(super) temperature: Option<f64>,
    pub(super) max_output_tokens: Option<u64>,
    /// Requests of one session share a cache at the endpoint.
    pub(super) session: &'a str,
}

impl WireApi {
    /// Returns the path of requests, relative to the endpoint's address.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Responses => "/responses",
            Self::Chat => "/chat/completions",
        }
    }

    /// Returns the body of a request.
    pub(super) fn body(self, request: &ModelRequest<'_>) -> Value {
        match self {
            Self::Responses => responses::body(request),
            Self::Chat => chat::body(request),
        }
    }

    pub(super) fn reader(self) -> ReplyReader {
        match self {
            Self::Responses => ReplyReader::Responses(responses::ResponsesReplyReader::default()),
            Self::Chat => ReplyReader::Chat(chat::ChatReplyReader::default()),
        }
    }
}

/// Reads a reply, event by event.
#[derive(Debug)]
pub(super) enum ReplyReader {
    Responses(responses::ResponsesReplyReader),
    Chat(chat::ChatReplyReader),
}

impl ReplyReader {
    /// Handles the data of one event.
    pub(super) fn take(&mut self, data: &str, pieces: &mut Vec<ReplyPiece>) {
        match self {
            Self::Responses(reader) => reader.take(data, pieces),
            Self::Chat(reader) => reader.take(data, pieces),
        }
    }

    /// Handles the end of the stream.
    pub(super) fn finish(&mut self, pieces: &mut Vec<ReplyPiece>) {
        if let Self::Chat(reader) = self {
            reader.finish(pieces);
        }
    }

    /// Returns whether the reply has ended.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Responses(reader) => reader.is_over(),
            Self::Chat(reader) => reader.is_over(),
        }
    }
}

#[cfg(test)]
mod tests;
