//! `obey exec`: runs one allowed command in a campaign's folder and passes its output through.

use wire::obey::local::v1::execute_response::Output as Part;
use wire::obey::local::v1::{ExecuteRequest, ExecuteResult};

use cli_args::ExecArgs;
use client::format;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;

/// Shells report a program killed by a signal as this plus the signal.
const SIGNAL_BASE: i32 = 128;

/// Runs the command and streams its output.
pub(super) async fn run(console: &mut Console, args: ExecArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let campaign_id = resolve::campaign(&client, args.campaign.as_deref(), &console.folder).await?;
    let mut words = args.command.into_iter();
    let request = ExecuteRequest {
        campaign_id,
        command: words.next().unwrap_or_default(),
        args: words.collect(),
        working_dir: args.workdir.unwrap_or_default(),
        timeout: args.timeout.map(super::session::protobuf_duration).transpose()?,
        environment: args.environment.into_iter().collect(),
    };
    let mut stream = client.daemon().execute(request).await?.into_inner();
    while let Some(response) = stream.message().await? {
        match response.output {
            Some(Part::Stdout(bytes)) => console.out.bytes(&bytes)?,
            Some(Part::Stderr(bytes)) => console.out.err_bytes(&bytes)?,
            Some(Part::Result(result)) => return finish(console, &result),
            None => {}
        }
    }
    Err(Failure::failed("the daemon did not say how the command ended"))
}

/// Returns the command's exit code, as a shell reports it.
fn finish(console: &mut Console, result: &ExecuteResult) -> Result<Exit> {
    if result.timed_out {
        let took = result.duration.and_then(|duration| std::time::Duration::try_from(duration).ok());
        let took = took.map_or_else(String::new, |took| format!(" after {}", format::duration(took)));
        console.out.say(TextStyle::Bad, &format!("obey: the command was ended{took}: it ran out of time"))?;
        return Ok(Exit::COMMAND_TIMED_OUT);
    }
    Ok(Exit(if result.signal > 0 { SIGNAL_BASE + result.signal } else { result.exit_code }))
}
