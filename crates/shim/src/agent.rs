//! Starts the agent: fork, its own session, three pipes, exec; and reports why if that failed. Must not know
//! the spool or the control socket, nor look at what flows through the pipes.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::{ffi::OsStr, process};

use crate::confine::Confinement;
use crate::limits::{AGENT_DIES_FIRST, STDOUT_PIPE_BYTES};
use crate::sys::{self, Fork, Inherited};

/// A started agent, and the shim's ends of its pipes, none of which block.
pub(crate) struct Agent {
    pub(crate) pid: i32,
    pub(crate) stdin: Option<PipeWriter>,
    pub(crate) stdout: Option<PipeReader>,
    pub(crate) stderr: Option<PipeReader>,
}

/// Process attributes that the shim changed for itself and restores for the agent.
pub(crate) struct Inheritance {
    pub(crate) umask: libc::mode_t,
    pub(crate) core_limit: libc::rlim_t,
}

/// Where a start failed.
pub(crate) enum StartFault {
    Limits(io::Error),
    Cwd(io::Error),
    Exec(io::Error),
}

const AT_LIMITS: u8 = b'l';
const AT_CWD: u8 = b'c';
const AT_EXEC: u8 = b'e';

/// Starts the program and returns once it runs, or with the reason why it cannot.
pub(crate) fn start(
    command: &[CString],
    cwd: &CString,
    inherit: &Inheritance,
    confinement: &Confinement,
) -> Result<Agent, StartFault> {
    let pipes = || -> io::Result<_> {
        let (stdin, out, err, fault) = (io::pipe()?, io::pipe()?, io::pipe()?, io::pipe()?);
        sys::grow_pipe(out.0.as_fd(), STDOUT_PIPE_BYTES);
        sys::set_nonblocking(stdin.1.as_fd())?;
        sys::set_nonblocking(out.0.as_fd())?;
        sys::set_nonblocking(err.0.as_fd())?;
        Ok((stdin, out, err, fault))
    };
    let ((agent_in, stdin), (stdout, agent_out), (stderr, agent_err), (mut fault, mut fault_out)) =
        pipes().map_err(StartFault::Exec)?;
    let shim_pid = process::id();
    let (fork, is_in_group) = confinement.fork().map_err(StartFault::Limits)?;
    let pid = match fork {
        Fork::Parent(pid) => pid,
        Fork::Child => {
            let limits = || confinement.enter(is_in_group);
            let (stage, error) =
                become_agent(command, cwd, inherit, limits, shim_pid, &[&agent_in, &agent_out, &agent_err]);
            let errno = error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes();
            // If the shim has exited, the report has no reader.
            let _ = fault_out.write_all(&[stage, errno[0], errno[1], errno[2], errno[3]]);
            sys::exit_now(127)
        }
    };
    drop((agent_in, agent_out, agent_err, fault_out));
    let mut report = Vec::new();
    // Ends at the exec, which closes the other end, or at the child's death.
    let _ = fault.read_to_end(&mut report);
    if let Some(&[stage, a, b, c, d]) = report.first_chunk::<5>() {
        let error = io::Error::from_raw_os_error(i32::from_le_bytes([a, b, c, d]));
        return Err(match stage {
            AT_LIMITS => StartFault::Limits(error),
            AT_CWD => StartFault::Cwd(error),
            _ => StartFault::Exec(error),
        });
    }
    Ok(Agent { pid, stdin: Some(stdin), stdout: Some(stdout), stderr: Some(stderr) })
}

/// Runs in the child; returns only if the program could not be started.
fn become_agent(
    command: &[CString],
    cwd: &CString,
    inherit: &Inheritance,
    limits: impl FnOnce() -> io::Result<()>,
    shim_pid: u32,
    stdio: &[&dyn AsFd; 3],
) -> (u8, io::Error) {
    let prepare = || -> io::Result<()> {
        sys::setsid()?;
        sys::die_with_parent()?;
        // The shim may have died before the line above took effect.
        if sys::parent_pid() != shim_pid as i32 {
            sys::exit_now(127);
        }
        for (at, end) in stdio.iter().enumerate() {
            sys::place(end.as_fd(), at as i32)?;
        }
        sys::set_umask(inherit.umask);
        sys::set_core_limit(inherit.core_limit)?;
        sys::reset_signals();
        die_first();
        Ok(())
    };
    if let Err(error) = prepare() {
        return (AT_EXEC, error);
    }
    // Before anything of the agent's runs, so that nothing of it was ever outside.
    if let Err(error) = limits() {
        return (AT_LIMITS, error);
    }
    if let Err(error) = std::env::set_current_dir(OsStr::from_bytes(cwd.as_bytes())) {
        return (AT_CWD, error);
    }
    sys::drop_inherited(Inherited::CloseOnExec);
    (AT_EXEC, sys::exec(command))
}

/// Makes the kernel end agents first when memory runs out: agents can be restarted, while shims and the
/// daemon hold their output. Best effort: a system that forbids it runs agents all the same.
fn die_first() {
    const FILE: &str = "/proc/self/oom_score_adj";
    let inherited = std::fs::read_to_string(FILE).ok().and_then(|text| text.trim().parse::<i32>().ok());
    if let Some(inherited) = inherited {
        let _ = std::fs::write(FILE, inherited.saturating_add(AGENT_DIES_FIRST).min(1_000).to_string());
    }
}
