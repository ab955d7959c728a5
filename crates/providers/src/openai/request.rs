//! One request to a model, in words both APIs share, and the reader of what comes back. Pure.

use serde_json::Value;

use super::history::Item;
use super::reply::Piece;
use super::settings::WireApi;
use super::tools::Offer;
use super::{chat, responses};

/// What a model is asked.
pub(super) struct Request<'a> {
    pub(super) model: &'a str,
    pub(super) instructions: &'a str,
    pub(super) items: &'a [Item],
    pub(super) tools: &'a [Offer],
    pub(super) effort: &'a str,
    pub(super) max_output_tokens: Option<u64>,
    /// Requests of one session share a cache at the endpoint.
    pub(super) session: &'a str,
}

impl WireApi {
    /// Returns where requests go, below the endpoint's address.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Responses => "/responses",
            Self::Chat => "/chat/completions",
        }
    }

    /// Returns the body of a request.
    pub(super) fn body(self, request: &Request<'_>) -> Value {
        match self {
            Self::Responses => responses::body(request),
            Self::Chat => chat::body(request),
        }
    }

    pub(super) fn reader(self) -> Reader {
        match self {
            Self::Responses => Reader::Responses(responses::Reader::default()),
            Self::Chat => Reader::Chat(chat::Reader::default()),
        }
    }
}

/// Reads a reply, event by event.
#[derive(Debug)]
pub(super) enum Reader {
    Responses(responses::Reader),
    Chat(chat::Reader),
}

impl Reader {
    /// Takes the data of one event.
    pub(super) fn take(&mut self, data: &str, pieces: &mut Vec<Piece>) {
        match self {
            Self::Responses(reader) => reader.take(data, pieces),
            Self::Chat(reader) => reader.take(data, pieces),
        }
    }

    /// Takes the end of the stream.
    pub(super) fn finish(&mut self, pieces: &mut Vec<Piece>) {
        if let Self::Chat(reader) = self {
            reader.finish(pieces);
        }
    }

    /// Returns whether the reply has come to its end.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Responses(reader) => reader.is_over(),
            Self::Chat(reader) => reader.is_over(),
        }
    }
}

#[cfg(test)]
mod tests;
