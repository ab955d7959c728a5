//! Every limit of `git`, each with its reason. The limits of the rules are in `domain::limits`.

use std::time::Duration;

/// Largest `.gitmodules` that is read. People write a few lines; a repository might contain anything.
pub const GIT_MODULES_MAX_BYTES: u64 = 256 * 1024;

/// Timeout of one git command: checking out a large repository on a slow disk.
pub const GIT_WAIT: Duration = Duration::from_secs(120);

/// How long a git command is retried while another git holds a lock, and the first pause. Git holds its locks for
/// milliseconds; a lock that stays longer was left by a git that died, which a person must look at.
pub const GIT_LOCK_WAIT: Duration = Duration::from_secs(4);
pub const GIT_LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Output of git that is kept; lists of worktrees and changed files stay far below.
pub const GIT_OUTPUT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Entries of a repository's configuration that are overridden for one command. Each takes two variables, and
/// the size of an environment is bounded.
pub const GIT_OVERRIDES_MAX: usize = 1_000;

pub use git_files::limits::BRANCH_MAX_BYTES;

/// Longest name of a worktree; it becomes part of a path.
pub const WORKTREE_NAME_MAX_BYTES: usize = 100;

/// Longest branch name made from a prompt, and its words: it is typed and read in columns.
pub const SLUG_MAX_BYTES: usize = 40;
pub const SLUG_WORDS_MAX: usize = 6;

/// Numbers tried to make a name of a new branch or folder unique.
pub const NAME_TRIES_MAX: u32 = 1_000;
