//! Says to the daemon that a person has seen what was shown of a session, so that it is no longer "done, not looked at".

use wire::obey::v1 as pb;

use crate::connection::Client;

/// Marks a session as looked at, up to an event that was shown; 0: nothing was shown. The mark is a courtesy: what was
/// asked for is done already, so a failure is not worth an error.
pub async fn mark(client: &Client, session: &str, seq: u64) {
    if seq > 0 {
        let request = pb::MarkSeenRequest { session_id: session.to_owned(), seq };
        let _ = client.overview().mark_seen(request).await;
    }
}
