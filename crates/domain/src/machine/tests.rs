//! The rules, tested as scripts and by property. A script is a list of inputs, one per line; the expected
//! text has one line of effects for each. `script` defines the language, the other files test the rules with
//! it.

mod budgets;
mod external;
mod grants;
mod overview;
mod properties;
mod queue;
mod recovery;
mod redacting;
mod requests;
mod script;
mod secrets;
mod shared_budgets;
mod starting;
mod stopping;
mod tools;
mod turns;
