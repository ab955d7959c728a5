//! The command line of `obey ui`.

use clap::Args;

#[derive(Debug, Default, Args)]
pub struct UiArgs {
    /// Show this session at once; its id or name
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Draw with ASCII characters only (the default where the locale is not UTF-8)
    #[arg(long)]
    pub ascii: bool,
    /// Leave the mouse to the terminal
    #[arg(long)]
    pub no_mouse: bool,
    /// Do not ring or show notices
    #[arg(long)]
    pub no_notices: bool,
    /// For screen readers: lines in the order in which things happen, and commands in words
    #[arg(long)]
    pub plain: bool,
    /// Print the keys, in the format of the keys file, and end
    #[arg(long)]
    pub keys: bool,
}
