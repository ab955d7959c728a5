//! What is registered beside sessions: campaigns (project roots), environments with their hosts and tasks, what programs
//! keep beside them, and the keys by which clients make a request take effect once. Knows no running session.

pub mod campaign;
pub mod client_keys;
pub mod environments;
pub mod limits;
pub mod records;
