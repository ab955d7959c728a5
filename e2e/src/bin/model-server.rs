//! The scripted model server by itself, for trying agents by hand: `model-server [--port N] [--log FILE]`.
//! Prints its address and serves until it is killed.

#![allow(clippy::print_stdout, reason = "the address is this program's output")]

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use e2e::model_server::ModelServer;

fn main() -> Result<()> {
    let (mut port, mut log) = (0, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--port" => port = value()?.parse().context("--port")?,
            "--log" => log = Some(PathBuf::from(value()?)),
            _ => bail!("usage: model-server [--port N] [--log FILE]"),
        }
    }
    let server = ModelServer::start_on(port, log)?;
    println!("{}", server.base_url());
    loop {
        std::thread::park();
    }
}
