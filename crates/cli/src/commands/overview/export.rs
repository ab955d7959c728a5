//! `obey export`: a session as Markdown or JSON, to standard output or a new file.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use wire::obey::v1 as pb;

use cli_args::overview::{ExportArgs, ExportFormatArg};
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::{Output, TextStyle};

pub(in crate::commands) async fn run(console: &mut Console, args: &ExportArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = resolve::session(&client, &args.session).await?;
    let format = match args.format {
        ExportFormatArg::Md => pb::ExportFormat::Markdown,
        ExportFormatArg::Json => pb::ExportFormat::Json,
    };
    let request = pb::ExportRequest { session_id, format: format.into() };
    let mut chunks = client.export().export(request).await?.into_inner();
    let mut file = args.output.as_deref().map(create).transpose()?;
    while let Some(chunk) = chunks.message().await? {
        match &mut file {
            Some((file, path)) => {
                file.write_all(chunk.text.as_bytes()).map_err(|error| not_written(path, &error))?
            }
            None => print(&mut console.out, &chunk.text)?,
        }
    }
    if let Some((file, path)) = file {
        file.sync_all().map_err(|error| not_written(path, &error))?;
        console.out.note(TextStyle::Dim, &format!("Written to {}.", path.display()))?;
    }
    Ok(Exit::OK)
}

/// Prints a part: on a terminal without what would control it, elsewhere as it is.
fn print(out: &mut Output, text: &str) -> Result<()> {
    if out.out_is_terminal() { out.text(text) } else { out.bytes(text.as_bytes()) }
}

/// Creates the file, for its owner alone; one that exists is not overwritten.
fn create(path: &Path) -> Result<(File, &Path)> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    Ok((file.map_err(|error| not_written(path, &error))?, path))
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use terminal::output::test::Buffer;

    #[test]
    fn an_export_does_not_control_the_terminal_it_is_printed_on() {
        let global = cli_args::Cli::try_parse_from(["obey", "ps"]).unwrap().global;
        let text = "# s\n\u{1b}]52;c;cHduZWQ=\u{7}\u{1b}[2Jdone\n";
        for (terminal, is_kept) in [(true, false), (false, true)] {
            let out = Buffer::default();
            let mut output = Output::to_buffers(out.clone(), Buffer::default(), &global, terminal);
            print(&mut output, text).unwrap();
            assert_eq!(out.text().contains('\u{1b}'), is_kept, "{:?}", out.text());
            assert!(out.text().contains("done"));
        }
    }
}
