//! What the daemon needs of this machine beside agents: git, and enough open files.

use rustix::process::{Resource, getrlimit};

use super::{Finding, programs};
use crate::limits;
use terminal::console::Console;

/// The oldest git that merges trees without a checkout (`merge-tree --write-tree`).
const GIT_MIN: [u64; 2] = [2, 38];

/// Checks git: working trees, diffs and merges are made with it.
pub(super) async fn examine_git(console: &Console) -> Finding {
    const CHECK: &str = "git";
    let install = "install git 2.38 or newer, such as: apt install git";
    let Some(program) = console.vars.find_program("git") else {
        let message = "git is not on the PATH; working trees, diffs and merges are refused";
        return Finding::warning(CHECK, message, install);
    };
    let said = cli::programs::ask(&program, &["--version"], cli::limits::VERSION_WAIT).await;
    let shown = program.display();
    match said {
        Ok(said) if said.status.success() => match programs::version_in(&said.out) {
            Some(version) if version[..] < GIT_MIN[..] => {
                let message = format!("{} at {shown} is too old to merge working trees", said.out);
                Finding::warning(CHECK, message, install)
            }
            _ => Finding::ok(CHECK, format!("{} at {shown}", said.out)),
        },
        Ok(said) => Finding::broken(CHECK, format!("{shown} --version failed: {}", said.status), install),
        Err(problem) => Finding::broken(CHECK, format!("{shown} --version {problem}"), install),
    }
}

/// Checks how many files the daemon may have open. It raises its own limit as far as it may.
pub(super) fn examine_open_files() -> Finding {
    const CHECK: &str = "open files";
    let Some(most) = getrlimit(Resource::Nofile).maximum else { return Finding::ok(CHECK, "unlimited") };
    if most >= limits::OPEN_FILES_LOW {
        return Finding::ok(CHECK, format!("up to {most}"));
    }
    Finding::warning(
        CHECK,
        format!("a process here may open {most} files only; each session and each client needs some"),
        "raise the hard limit (ulimit -Hn; nofile in /etc/security/limits.conf, LimitNOFILE= of a service) and restart the daemon",
    )
}
