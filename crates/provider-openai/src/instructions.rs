//! The instructions for a model: the folder, the tools, the mode. Pure.

use domain::Mode;

const BASE: &str = "You are a coding agent that works in a project folder on the user's machine through the tools you \
are given. Look before you change: read the files a change touches. Make the smallest change that does what was asked, \
keep to the style of the code around it, and check your work with the project's own commands where there are any. \
Paths are relative to the working folder. Files outside the project cannot be reached. Some calls are put before the \
user, who may deny them: then take what they said into account and do not try the same again. When you are done, say \
shortly what you did.";

const PLAN: &str = "You are in plan mode: nothing may be changed yet. Look around, ask what is unclear, and put your \
plan before the user with ExitPlanMode.";

/// Returns the instructions of a session.
pub(super) fn instructions(working_dir: &str, mode: Mode, added: &str) -> String {
    let mut text = format!("{BASE}\n\nWorking folder: {working_dir}");
    if mode == Mode::Plan {
        text.push_str("\n\n");
        text.push_str(PLAN);
    }
    if !added.trim().is_empty() {
        text.push_str("\n\n");
        text.push_str(added);
    }
    text
}

/// The prompt that asks a model to summarise a conversation; its reply replaces the conversation.
pub(super) const SUMMARISE: &str = "Summarise the conversation so far for somebody who takes it over and sees nothing \
but your summary: what the user wants, word for word where it matters, what was found out, what was done to which \
files, what is open and what comes next. Leave nothing out that is needed to go on. Write only the summary.";
