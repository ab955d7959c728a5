//! The rules, tested as scripts and by property. A script is a list of inputs, one per line; the expected
//! text has one line of effects for each. `script` defines the language, the other files test the rules with
//! it.

mod budgets;
mod grants;
mod properties;
mod recovery;
mod redacting;
mod requests;
mod script;
mod secrets;
mod starting;
mod stopping;
mod tools;
mod turns;
