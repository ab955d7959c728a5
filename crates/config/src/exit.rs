//! The exit codes of the command, with their meaning; the help text and the manual are made from this table.
//! Knows no errors; `failure` maps an error to its code.

/// The exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub i32);

impl Exit {
    pub const OK: Self = Self(0);
    pub const FAILED: Self = Self(1);
    pub const USAGE: Self = Self(2);
    pub const UNREACHABLE: Self = Self(3);
    pub const NOT_FOUND: Self = Self(4);
    pub const WRONG_STATE: Self = Self(5);
    pub const DENIED: Self = Self(6);
    pub const TURN_FAILED: Self = Self(7);
    /// The exit code of `timeout`, so that scripts can treat both alike.
    pub const COMMAND_TIMED_OUT: Self = Self(124);
    pub const INTERRUPTED: Self = Self(130);
    /// The code that a shell reports for a program killed by SIGPIPE.
    pub const PIPE_CLOSED: Self = Self(141);
}

/// Every code with its meaning. `obey exec` returns the code of its command instead.
pub const TABLE: &[(Exit, &str)] = &[
    (Exit::OK, "done"),
    (Exit::FAILED, "the operation failed"),
    (Exit::USAGE, "wrong usage or an invalid argument"),
    (Exit::UNREACHABLE, "the daemon is not reachable"),
    (Exit::NOT_FOUND, "no such session, campaign or request"),
    (Exit::WRONG_STATE, "not possible in the current state"),
    (Exit::DENIED, "not allowed, or a limit or budget is used up"),
    (Exit::TURN_FAILED, "the turn failed or was cancelled"),
    (Exit::COMMAND_TIMED_OUT, "`obey exec`: the command did not end in time"),
    (Exit::INTERRUPTED, "interrupted with Ctrl-C"),
    (Exit::PIPE_CLOSED, "the reader of the output went away"),
];

/// Returns the table as the end of the help text.
pub fn help() -> String {
    let mut text = String::from("Exit codes:\n");
    for (exit, meaning) in TABLE {
        text.push_str(&format!("  {:>3}  {meaning}\n", exit.0));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_every_exit_code() {
        let page = include_str!("../../../docs/cli.md");
        for (exit, meaning) in TABLE {
            let row = format!("| {} | {meaning} |", exit.0);
            assert!(page.contains(&row), "docs/cli.md lacks the row {row:?}");
        }
    }
}
