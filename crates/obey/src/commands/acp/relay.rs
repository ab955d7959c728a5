//! Between an editor's pipes and the daemon: bytes both ways, and the end of either. Knows nothing of what they say.

use std::future::Future;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use wire::obey::v1 as pb;
use wire::obey::v1::acp_input::Input;
use wire::obey::v1::acp_output::Output;

use super::Pipes;
use crate::client::Client;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::limits;

/// Carries until the editor has left and the daemon has ended what was its alone.
pub(super) async fn run(
    client: &Client,
    open: pb::AcpOpen,
    pipes: Pipes,
    end: impl Future<Output = ()> + Send + 'static,
) -> Result<Exit> {
    let (sender, receiver) = mpsc::channel(limits::ACP_PIECES_AHEAD);
    let opening = pb::AcpInput { input: Some(Input::Open(open)) };
    // The channel is empty and has room.
    let _sent = sender.try_send(opening);
    let connected = client.acp().connect(ReceiverStream::new(receiver)).await?;
    let mut outputs = connected.into_inner();
    let reading = tokio::spawn(async move {
        tokio::select! {
            () = read(pipes.input, sender) => {}
            // The input is closed for the daemon, whatever the editor still sends.
            () = end => {}
        }
    });
    let mut output = pipes.output;
    let mut is_read = true;
    loop {
        let message = match outputs.message().await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(status) => {
                reading.abort();
                return Err(Failure::from(status));
            }
        };
        match message.output {
            Some(Output::Lines(lines)) if is_read => {
                is_read = output.write_all(&lines).await.is_ok() && output.flush().await.is_ok();
                if !is_read {
                    // An editor that no longer reads has left.
                    reading.abort();
                }
            }
            Some(Output::Log(log)) => surfaces::acp::log(&log.level, &log.message),
            _ => {}
        }
    }
    reading.abort();
    Ok(Exit::OK)
}

async fn read(mut from: Box<dyn AsyncRead + Send + Unpin>, to: mpsc::Sender<pb::AcpInput>) {
    let mut buffer = vec![0; limits::ACP_READ_BYTES];
    while let Ok(count) = from.read(&mut buffer).await {
        let lines = Input::Lines(buffer[..count].to_vec());
        if count == 0 || to.send(pb::AcpInput { input: Some(lines) }).await.is_err() {
            return;
        }
    }
}
