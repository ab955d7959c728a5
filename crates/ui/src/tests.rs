//! The screen without a terminal and without a daemon: updates and keys in, text and effects out.

mod answering;
mod beside;
mod bytes;
mod large;
mod layouts;
mod machines;
mod moving;
mod plain;
mod plans;
mod reviewing;
mod stage;
mod work;
mod writing;
