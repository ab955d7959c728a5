//! From `obey shim …` to a running shim: detaches from the daemon, prepares the directory, starts the agent,
//! and reports one line: `ready <shim_pid> <agent_pid>` or `error <stage> <errno> <text>`. Once the agent
//! runs, `hold` takes over.

use std::fs::{self, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::process;

use crate::agent::{self, Agent, Inheritance, StartFault};
use crate::args::Args;
use crate::control::Control;
use crate::hold::Shim;
use crate::home::Home;
use crate::limits::PROTOCOL;
use crate::record::Meta;
use crate::spool::{Position, Writer, segment_name};
use crate::sys::{self, Fork, Inherited};
use crate::{hold, proc_table};

/// The name of a shim in the process table.
pub const PROCESS_NAME: &str = "obey-shim";
const PROCESS_NAME_C: &std::ffi::CStr = c"obey-shim";

/// Why no agent is held. The daemon parses the stages; new ones may be added.
struct LaunchFailure {
    stage: &'static str,
    error: io::Error,
}

impl LaunchFailure {
    fn at(stage: &'static str) -> impl Fn(io::Error) -> LaunchFailure {
        move |error| LaunchFailure { stage, error }
    }

    fn line(&self) -> String {
        let text = self.error.to_string().replace(['\n', '\r'], " ");
        format!("error {} {} {}\n", self.stage, self.error.raw_os_error().unwrap_or(0), text)
    }
}

/// Forks so that the daemon is not the parent of the shim; the first process only passes the line on.
pub(crate) fn run(args: Result<Args, String>) -> i32 {
    sys::drop_inherited(Inherited::Close);
    let args = match args {
        Ok(args) => args,
        Err(text) => return report(&format!("error args {} {text}\n", libc::EINVAL)),
    };
    let forked = io::pipe().and_then(|pipe| sys::fork().map(|fork| (pipe, fork)));
    match forked {
        Ok(((reader, writer), Fork::Parent(_))) => {
            drop(writer);
            relay(reader)
        }
        Ok(((reader, writer), Fork::Child)) => {
            drop(reader);
            sys::exit_now(become_shim(&args, writer))
        }
        Err(error) => report(&LaunchFailure { stage: "fork", error }.line()),
    }
}

fn relay(mut from_shim: PipeReader) -> i32 {
    let mut line = String::new();
    // Ends when the shim has reported, or died.
    let _ = from_shim.read_to_string(&mut line);
    if line.is_empty() {
        line = "error fork 0 the shim ended without a word\n".into();
    }
    report(&line)
}

fn report(line: &str) -> i32 {
    let mut stdout = io::stdout();
    let said = stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush());
    if said.is_ok() && line.starts_with("ready ") { 0 } else { 1 }
}

/// Prepares the shim, reports the result and runs the loop.
fn become_shim(args: &Args, mut ready: PipeWriter) -> i32 {
    let hold = match prepare(args) {
        Ok(hold) => hold,
        Err(failure) => {
            // If this fails there is no reader; the exit is the same.
            let _ = ready.write_all(failure.line().as_bytes());
            return 1;
        }
    };
    let line = format!("ready {} {}\n", process::id(), hold.agent_pid());
    // If the first process has exited, the daemon no longer waits; it will find the held lock on its next
    // start.
    let _ = ready.write_all(line.as_bytes());
    drop(ready);
    hold::run(hold)
}

/// Enters and locks the directory, then prepares everything in it; cleans up on an error.
fn prepare(args: &Args) -> Result<Shim, LaunchFailure> {
    let inherit = detach().map_err(LaunchFailure::at("fork"))?;
    let mut home = Home::enter(&args.dir).map_err(LaunchFailure::at("dir"))?;
    home.lock().map_err(LaunchFailure::at("lock"))?;
    if home.has_spool().map_err(LaunchFailure::at("spool"))? {
        return Err(LaunchFailure::at("spool")(io::Error::from_raw_os_error(libc::EEXIST)));
    }
    let prepared = prepare_in(args, &home, &inherit);
    if prepared.is_err() {
        // The directory may be used again for another attempt.
        home.tidy();
        let _ = fs::remove_file(segment_name(Position::START.segment));
    }
    let (spool, control, agent) = prepared?;
    Shim::new(home, spool, control, agent, args.linger).map_err(LaunchFailure::at("fork"))
}

/// Creates the spool and the socket and starts the agent.
fn prepare_in(
    args: &Args,
    home: &Home,
    inherit: &Inheritance,
) -> Result<(Writer, Control, Agent), LaunchFailure> {
    let spool_fault = LaunchFailure::at("spool");
    home.reserve().map_err(&spool_fault)?;
    let mut spool = Writer::create(args.spool_max).map_err(&spool_fault)?;
    let control = Control::new(home.bind().map_err(LaunchFailure::at("socket"))?);
    let agent =
        agent::start(&args.command, &args.cwd, inherit, &args.confinement).map_err(|fault| match fault {
            StartFault::Limits(error) => LaunchFailure { stage: "limits", error },
            StartFault::Cwd(error) => LaunchFailure { stage: "cwd", error },
            StartFault::Exec(error) => LaunchFailure { stage: "exec", error },
        })?;
    let meta = Meta {
        protocol: PROTOCOL,
        agent_pid: agent.pid as u32,
        started_ns: sys::wall_ns(),
        start_ticks: proc_table::find(agent.pid).map_or(0, |process| process.start_ticks),
        boot_id: proc_table::boot_id(),
    };
    if let Err(error) = spool.open_with(meta.encode(), sys::monotonic_ns()) {
        sys::kill(agent.pid, libc::SIGKILL);
        return Err(spool_fault(error));
    }
    Ok((spool, control, agent))
}

/// Leaves the daemon's session, terminal and signals, and hides the process.
fn detach() -> io::Result<Inheritance> {
    sys::setsid()?;
    sys::adopt_orphans()?;
    sys::hide_memory();
    sys::keep_heap_small();
    sys::set_name(PROCESS_NAME_C);
    for signo in [libc::SIGHUP, libc::SIGPIPE, libc::SIGINT] {
        sys::ignore_signal(signo);
    }
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    for at in 0..=2 {
        sys::place(null.as_fd(), at)?;
    }
    // Nothing the shim creates is for other users; the socket is not executable either.
    let umask = sys::set_umask(0o177);
    Ok(Inheritance { umask, core_limit: sys::set_core_limit(0)? })
}
