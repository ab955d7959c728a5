//! Which clients are attached to which session, and which of them holds the input. Connections end with the
//! daemon, so nothing here is stored; the journal records the input holder.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::{Command, Error, ErrorCode, SessionId};
use tokio::sync::watch;
use tonic::Request;

use super::{Betcode, from_wire};
use surface::peer::{ConnectionNumber, Signer};

/// The metadata key by which a client names itself, so that its calls and streams are recognized as one
/// client.
const CLIENT_KEY: &str = "x-client-id";

/// A client: one stream, or several calls and streams under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BetcodeClient {
    pub(super) id: String,
    /// The client chose this id.
    named: bool,
    connection: Option<ConnectionNumber>,
    signer: Signer,
}

impl BetcodeClient {
    /// Returns the client of a call. Without a name each stream is a client, even two streams on one
    /// connection.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let connection = request.extensions().get::<ConnectionNumber>().copied();
        let signer = Signer::of(request.extensions());
        let name = request.metadata().get(CLIENT_KEY).and_then(|name| name.to_str().ok());
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            return Ok(Self { id: from_wire::client_id(name)?, named: true, connection, signer });
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = match connection {
            Some(ConnectionNumber(connection)) => format!("client-{connection}.{number}"),
            None => format!("client-{number}"),
        };
        Ok(Self { id, named: false, connection, signer })
    }

    /// Who speaks, for the journal.
    pub(super) fn signature(&self) -> String {
        self.signer.sign(self.id.clone())
    }

    /// Who answers a request or gives a grant; devices that may not are refused.
    pub(super) fn answer_signature(&self) -> Result<String, Error> {
        self.signer.sign_answer(self.id.clone())
    }

    pub(super) fn rename(&mut self, id: String) {
        self.id = id;
        self.named = true;
    }
}

/// The clients of all sessions.
#[derive(Clone, Default)]
pub(super) struct BetcodeClients {
    sessions: Arc<Mutex<HashMap<SessionId, Vec<Attached>>>>,
}

/// One stream of a client that is attached to a session.
struct Attached {
    number: u64,
    client: BetcodeClient,
    /// Why its streams must end; nothing as long as they need not.
    ending: watch::Sender<Option<Error>>,
}

/// A client's attachment to a session; detached on drop.
pub(super) struct Attachment {
    betcode: Betcode,
    session: SessionId,
    number: u64,
    /// Why the stream must end: its session or its worktree was removed.
    pub(super) ending: watch::Receiver<Option<Error>>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.betcode.presence.remove(&self.session, self.number);
        let (betcode, session) = (self.betcode.clone(), self.session.clone());
        // The next holder learns of the handover from the journal.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = betcode.settle_lock(&session).await
                    && error.code != ErrorCode::SessionNotFound
                {
                    tracing::warn!(%session, %error, "cannot hand over the input");
                }
            });
        }
    }
}

impl BetcodeClients {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<Attached>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Detaches a stream; the session's entry is removed with its last one.
    fn remove(&self, session: &SessionId, number: u64) {
        let mut sessions = self.lock();
        if let Some(clients) = sessions.get_mut(session) {
            clients.retain(|attached| attached.number != number);
            if clients.is_empty() {
                sessions.remove(session);
            }
        }
    }

    fn is_attached(&self, session: &SessionId, id: &str) -> bool {
        self.lock().get(session).is_some_and(|clients| clients.iter().any(|found| found.client.id == id))
    }

    /// Returns which client should hold the input: the current holder if it is attached, else the first
    /// attached client.
    fn rightful(&self, session: &SessionId, holder: Option<&str>) -> Option<String> {
        let sessions = self.lock();
        let clients = sessions.get(session)?;
        let kept = clients.iter().find(|attached| Some(attached.client.id.as_str()) == holder);
        kept.or_else(|| clients.first()).map(|attached| attached.client.id.clone())
    }

    /// Returns which client a call speaks for: the one it names; else the newest stream of its connection
    /// that does not already hold the input; else the call itself.
    fn speaker(&self, session: &SessionId, caller: &BetcodeClient, holder: Option<&str>) -> String {
        if caller.named || caller.connection.is_none() {
            return caller.id.clone();
        }
        let sessions = self.lock();
        let streams = sessions.get(session).into_iter().flatten();
        let own: Vec<&Attached> =
            streams.filter(|attached| attached.client.connection == caller.connection).collect();
        let waiting = own.iter().rev().find(|attached| Some(attached.client.id.as_str()) != holder);
        waiting
            .or_else(|| own.last())
            .map_or_else(|| caller.id.clone(), |attached| attached.client.id.clone())
    }

    /// Returns the sessions that clients are attached to.
    pub(super) fn attended(&self) -> Vec<SessionId> {
        self.lock().keys().cloned().collect()
    }

    /// Ends every stream of a session, for a reason that its clients are told.
    pub(super) fn dismiss(&self, session: &SessionId, reason: &Error) {
        for attached in self.lock().get(session).into_iter().flatten() {
            attached.ending.send_replace(Some(reason.clone()));
        }
    }
}

impl Betcode {
    /// Attaches a client to a session.
    pub(super) fn attach(&self, session: &SessionId, client: &BetcodeClient) -> Attachment {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (ending, watcher) = watch::channel(None);
        let attached = Attached { number, client: client.clone(), ending };
        self.presence.lock().entry(session.clone()).or_default().push(attached);
        Attachment { betcode: self.clone(), session: session.clone(), number, ending: watcher }
    }

    /// Records the rightful input holder in the journal and returns it. Loops until both agree, so that of
    /// concurrent changes the last one leaves the correct holder.
    pub(super) async fn settle_lock(&self, session: &SessionId) -> Result<Option<String>, Error> {
        loop {
            let holder = self.supervisor.snapshot(session).await?.state.input_holder.clone();
            let rightful = self.presence.rightful(session, holder.as_deref());
            if rightful == holder {
                return Ok(holder);
            }
            self.supervisor.command(session, Command::HoldInput { holder: rightful }).await?;
        }
    }

    /// Rejects a message of a client that does not hold the input.
    pub(super) async fn require_lock(
        &self,
        session: &SessionId,
        client: &BetcodeClient,
    ) -> Result<(), Error> {
        match self.settle_lock(session).await? {
            Some(holder) if holder != client.id => Err(Error::new(
                ErrorCode::NotAllowed,
                format!("message: {holder} holds the input of {session}; RequestInputLock takes it over"),
            )),
            _ => Ok(()),
        }
    }

    /// Gives the input to the caller; returns whether it did, and the previous holder. A caller without a
    /// name and without a stream could not use it.
    pub(super) async fn take_lock(
        &self,
        session: &SessionId,
        caller: &BetcodeClient,
    ) -> Result<(bool, Option<String>), Error> {
        let holder = self.supervisor.snapshot(session).await?.state.input_holder.clone();
        // A client that is no longer attached holds nothing.
        let holder = holder.filter(|holder| self.presence.is_attached(session, holder));
        let speaker = self.presence.speaker(session, caller, holder.as_deref());
        if !caller.named && !self.presence.is_attached(session, &speaker) {
            return Ok((false, None));
        }
        self.supervisor.command(session, Command::HoldInput { holder: Some(speaker.clone()) }).await?;
        Ok((true, holder.filter(|holder| *holder != speaker)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str, connection: u64) -> BetcodeClient {
        BetcodeClient {
            id: id.to_owned(),
            named: false,
            connection: Some(ConnectionNumber(connection)),
            signer: Signer::default(),
        }
    }

    fn presence(clients: &[(&str, u64)]) -> (BetcodeClients, SessionId) {
        let (presence, session) = (BetcodeClients::default(), SessionId::new("s"));
        for (number, (id, connection)) in clients.iter().enumerate() {
            let attached = Attached {
                number: number as u64,
                client: client(id, *connection),
                ending: watch::channel(None).0,
            };
            presence.lock().entry(session.clone()).or_default().push(attached);
        }
        (presence, session)
    }

    #[test]
    fn the_first_client_holds_the_input_until_it_leaves() {
        let (presence, session) = presence(&[("a", 1), ("b", 2)]);
        assert_eq!(presence.rightful(&session, None).as_deref(), Some("a"));
        assert_eq!(presence.rightful(&session, Some("b")).as_deref(), Some("b"));
        assert_eq!(presence.rightful(&session, Some("gone")).as_deref(), Some("a"));
        presence.remove(&session, 0);
        assert_eq!(presence.rightful(&session, Some("a")).as_deref(), Some("b"));
        presence.remove(&session, 1);
        assert_eq!(presence.rightful(&session, Some("b")), None);
        assert!(presence.lock().is_empty());
    }

    #[test]
    fn a_call_speaks_for_a_stream_of_its_connection() {
        let (presence, session) = presence(&[("a", 1), ("b", 1), ("c", 2)]);
        let caller = client("call", 1);
        assert_eq!(presence.speaker(&session, &caller, Some("a")), "b");
        assert_eq!(presence.speaker(&session, &caller, Some("b")), "a");
        assert_eq!(presence.speaker(&session, &client("call", 2), Some("a")), "c");
        assert_eq!(presence.speaker(&session, &client("call", 3), Some("a")), "call");
        let mut named = client("call", 1);
        named.rename("phone".to_owned());
        assert_eq!(presence.speaker(&session, &named, Some("a")), "phone");
    }
}
