//! What a client program on this machine needs: the connection to the daemon, starting it, finding sessions by what was
//! typed, following their events and answering requests. Knows no command line and no screen.

pub mod answers;
pub mod attachments;
pub mod autostart;
pub mod caller_environment;
pub mod connection;
pub mod creating;
pub mod events;
pub mod feed;
pub mod format;
pub mod limits;
pub mod machines;
pub mod names;
pub mod once;
pub mod resolve;
pub mod seen;
