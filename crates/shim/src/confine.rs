//! What holds the agent within its limits, entered by the process that becomes it: control groups that the daemon made, and
//! limits of single processes where there are none. Must not make groups or know what is in them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use crate::sys::{self, Fork};

/// Where the agent starts and what each of its processes may use.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Confinement {
    /// A group of version 2.
    pub(crate) group_folder: Option<PathBuf>,
    /// Files of version 1 by which a single thread joins.
    pub(crate) thread_files: Vec<PathBuf>,
    /// Memory of one process that is its own to write.
    pub(crate) data_bytes: Option<u64>,
    /// Processes of this user.
    pub(crate) processes: Option<u64>,
    pub(crate) cpus: Option<u64>,
}

/// What a kernel says that cannot start a process in a group.
const CANNOT: [i32; 4] = [libc::ENOSYS, libc::EINVAL, libc::E2BIG, libc::EPERM];

impl Confinement {
    /// Forks, where the kernel can, into the group of version 2. Returns whether the child is in it from its first moment.
    pub(crate) fn fork(&self) -> io::Result<(Fork, bool)> {
        let Some(folder) = &self.group_folder else { return Ok((sys::fork()?, true)) };
        let group = File::open(folder)?;
        match sys::fork_into(group.as_fd()) {
            // Linux before 5.7, or a filter that forbids it.
            Err(error) if CANNOT.contains(&error.raw_os_error().unwrap_or(0)) => Ok((sys::fork()?, false)),
            forked => Ok((forked?, true)),
        }
    }

    /// Joins the other groups and takes on the limits. Runs in the child.
    pub(crate) fn enter(&self, is_in_group: bool) -> io::Result<()> {
        if let Some(folder) = self.group_folder.as_ref().filter(|_| !is_in_group) {
            std::fs::write(folder.join("cgroup.procs"), "0")?;
        }
        for file in &self.thread_files {
            // It has one thread, so that is all of it.
            std::fs::write(file, "0")?;
        }
        if let Some(bytes) = self.data_bytes {
            sys::lower_limit(libc::RLIMIT_DATA, bytes)?;
        }
        if let Some(count) = self.processes {
            sys::lower_limit(libc::RLIMIT_NPROC, count)?;
        }
        if let Some(count) = self.cpus {
            sys::use_cpus(usize::try_from(count).unwrap_or(usize::MAX), std::process::id() as usize)?;
        }
        Ok(())
    }
}
