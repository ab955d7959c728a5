//! A client of `Converse` in a process of its own, made to be killed: `betcode-client SOCKET SESSION FROM [PROMPT]`.
//! Takes a session up after a number, says the prompt if there is one, and prints every numbered event on a line of
//! its own the moment it has it. What is printed whole is what it has seen.

#![allow(clippy::print_stdout, reason = "what it hears is this program's output")]

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use e2e::clients::Clients;
use tokio_stream::StreamExt;
use wire::betcode::v1 as pb;
use wire::betcode::v1::agent_request::Request as Said;
use wire::betcode::v1::agent_service_client::AgentServiceClient;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = "usage: betcode-client SOCKET SESSION FROM [PROMPT]";
    let mut words = std::env::args().skip(1);
    let (socket, session) = words.next().zip(words.next()).context(usage)?;
    let from = words.next().context(usage)?;
    // One name for all of its lives: whoever comes back takes up the input it held.
    let name = ("client_id".to_owned(), "phone".to_owned());
    let start = pb::StartConversation {
        session_id: session,
        metadata: HashMap::from([("from_sequence".to_owned(), from), name]),
        ..Default::default()
    };
    let prompt = words.next().map(|content| pb::UserMessage { content, ..Default::default() });
    let said = std::iter::once(Said::Start(start)).chain(prompt.map(Said::Message));
    let said: Vec<_> = said.map(|request| pb::AgentRequest { request: Some(request) }).collect();
    // The sending half stays open: this client would speak again.
    let said = tokio_stream::iter(said).chain(tokio_stream::pending());
    let channel = Clients::connect(Path::new(&socket)).await?.channel;
    let mut events = AgentServiceClient::new(channel).converse(said).await?.into_inner();
    while let Some(event) = events.next().await {
        let event = event?;
        if event.sequence > 0 {
            println!("{}\t{event:?}", event.sequence);
            std::io::stdout().flush()?;
        }
    }
    Ok(())
}
