//! What the command line shows on a terminal and asks there: output and its styles, Markdown, tables, the prompt line, the
//! conversation with an agent and its requests. Calls the daemon only to answer; knows no command.

pub mod console;
pub mod conversation;
pub mod editor;
mod highlight;
pub mod input;
pub mod limits;
pub mod markdown;
pub mod output;
pub mod prompt_line;
pub mod render;
mod request_detail;
pub mod request_prompts;
pub mod table;
pub mod view;
