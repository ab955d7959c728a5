//! The one registry of errors: the OBEY codes. Surfaces convert a code into their protocol's error in one
//! table of their own; nothing here knows a protocol.

use std::fmt;

/// An error with a code and a message for the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    pub code: ErrorCode,
    /// Shown to the caller: what is wrong and what to do about it.
    pub message: String,
    /// Written to the log; never leaves the daemon.
    pub detail: Option<String>,
}

impl Error {
    /// Creates an error for the caller.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), detail: None }
    }

    /// Creates the error for an invalid request field.
    pub fn invalid(field: &str, remedy: impl fmt::Display) -> Self {
        Self::new(ErrorCode::InvalidArgument, format!("{field}: {remedy}"))
    }

    /// Adds details for the log.
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// The category of an error. Protocols map these, not single codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    NotFound,
    Invalid,
    State,
    Exhausted,
    Deadline,
    Unavailable,
    Denied,
    Unauthenticated,
    Internal,
}

macro_rules! registry {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $kind:ident, $retryable:literal, $title:literal;)*) => {
        /// The numbered errors. Each has a page in `docs/errors/`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every code there is.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// Returns the number after `OBEY-`.
            pub fn number(self) -> u16 {
                match self { $(Self::$name => $number,)* }
            }

            /// Returns the category of the error.
            pub fn kind(self) -> ErrorKind {
                match self { $(Self::$name => ErrorKind::$kind,)* }
            }

            /// Returns whether the same call may succeed when it is retried.
            pub fn retryable(self) -> bool {
                match self { $(Self::$name => $retryable,)* }
            }

            /// Returns the registry's short description.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }
        }
    };
}

registry! {
    /// A request field is missing or malformed.
    InvalidArgument = 1001, Invalid, false, "Invalid argument";
    /// The caller may not do this.
    NotAllowed = 1002, Denied, false, "Caller not allowed";
    /// A size, count or rate is above its limit.
    LimitReached = 1003, Exhausted, false, "Limit reached";
    /// The machine has no memory left for another agent.
    MachineMemoryLow = 1004, Exhausted, true, "No memory left for another agent";
    /// The database cannot be read or written.
    StorageFailed = 1010, Unavailable, true, "Storage failed";
    /// The database was written by a newer version.
    StorageTooNew = 1011, State, false, "Storage written by a newer version";
    /// Another daemon holds the lock.
    AlreadyRunning = 1012, State, false, "Daemon already running";
    /// An address cannot be listened on.
    ListenFailed = 1013, Unavailable, false, "Cannot listen";
    /// The configuration file is wrong.
    ConfigInvalid = 1014, Invalid, false, "Configuration invalid";
    /// No daemon answers.
    DaemonUnreachable = 1015, Unavailable, true, "Daemon not reachable";
    /// There is no environment, host or task with this name.
    RecordNotFound = 1016, NotFound, false, "Record not found";
    /// A command is not on the campaign's allow-list.
    CommandNotAllowed = 1020, Denied, false, "Command not allowed";
    /// A command did not end in time.
    CommandTimedOut = 1021, Deadline, false, "Command timed out";
    /// A command could not be started.
    CommandFailed = 1022, Internal, false, "Command could not be started";
    /// A memory, checkpoint, policy, skill, agent, remediation or ref does not exist, or not for this caller.
    ItemNotFound = 1040, NotFound, false, "Item not found";
    /// A policy forbids the request.
    PolicyRefused = 1041, Denied, false, "Refused by a policy";
    /// There is no machine with this id or name, or not for this caller.
    MachineNotFound = 1050, NotFound, false, "Machine not found";
    /// The machine is not connected to the relay.
    MachineOffline = 1051, Unavailable, true, "Machine offline";
    /// The machine takes sealed connections only.
    SealedOnly = 1052, State, false, "Not served in the clear through a relay";
    /// A relay does not take a code, a certificate or a name.
    RelayRefused = 1053, Denied, false, "Refused by the relay";
    /// A relay does not answer, or is not the one that was expected.
    RelayUnreachable = 1054, Unavailable, true, "Relay not reachable";
    /// A call that waited at a relay has come before.
    AlreadyDelivered = 1055, State, false, "Call delivered before";
    /// GitLab or GitHub wants a token, or does not take the one it got.
    ForgeUnauthenticated = 1060, Unauthenticated, false, "Token of GitLab or GitHub missing or not taken";
    /// The token does not allow this.
    ForgeDenied = 1061, Denied, false, "Refused by GitLab or GitHub";
    /// There is no such project or item, or it is private.
    ForgeNotFound = 1062, NotFound, false, "Not found on GitLab or GitHub";
    /// The server takes no more requests for now.
    ForgeRateLimited = 1063, Exhausted, true, "Rate limit of GitLab or GitHub reached";
    /// The server does not answer, fails, or is something else.
    ForgeUnavailable = 1064, Unavailable, true, "GitLab or GitHub not usable";
    /// The server does not take what was sent.
    ForgeRefused = 1065, State, false, "Not taken by GitLab or GitHub";
    SessionError = 2000, Internal, false, "Agent session error";
    CampaignNotFound = 2001, NotFound, false, "Campaign not found";
    ProviderUnsupported = 2002, Invalid, false, "Provider not supported";
    ModelUnsupported = 2003, Invalid, false, "Model not supported by provider";
    CreateFailed = 2004, Internal, false, "Session creation failed";
    SandboxFailed = 2005, State, false, "Campaign sandbox initialization failed";
    /// The user replaced a protected file while an agent ran in the sandbox, and the agent may have written to it.
    ProtectedFileChanged = 2006, State, false, "Protected file changed while an agent ran";
    SessionNotFound = 2010, NotFound, false, "Session not found";
    WrongState = 2011, State, false, "Session not in expected state";
    DeliveryFailed = 2012, Unavailable, true, "Message delivery failed";
    BudgetExceeded = 2013, Exhausted, false, "Token budget exceeded";
    SessionTimeout = 2014, Deadline, false, "Session timeout reached";
    RequestNotFound = 2015, NotFound, false, "Request not found";
    EventsExpired = 2016, NotFound, false, "Events no longer kept";
    AlreadyStopped = 2020, State, false, "Session already stopped";
    StopTimedOut = 2021, Deadline, false, "Graceful stop timed out";
    ProviderNotReady = 2030, Unavailable, false, "Provider adapter not initialized";
    ProviderCrashed = 2031, Internal, false, "Provider process crashed";
    ConnectionLost = 2032, Unavailable, true, "Provider connection lost";
    /// The kernel killed the agent, or something it started, because memory ran out.
    OutOfMemory = 2033, Exhausted, false, "Agent out of memory";
    /// The model refuses for now because too much was asked of it.
    RateLimited = 2034, Exhausted, true, "Rate limit of the model reached";
    WorktreeNotFound = 2040, NotFound, false, "Worktree not found";
    WorktreeFailed = 2041, State, false, "Worktree cannot be made, used or removed";
    /// A merge or rebase conflicts; nothing was changed.
    MergeConflict = 2042, State, false, "Merge conflict";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OBEY-{:04}", self.number())
    }
}

impl ErrorCode {
    /// Parses the printed form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.to_string() == text)
    }

    /// Returns the sentence of an error that was printed with its code; a text without it as it is.
    pub fn sentence(self, printed: &str) -> &str {
        let sentence = printed.strip_prefix(&self.to_string()).and_then(|rest| rest.strip_prefix(": "));
        sentence.unwrap_or(printed)
    }
}

impl serde::Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for ErrorCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        // A code of a newer version must not make an old journal unreadable.
        Ok(Self::parse(&text).unwrap_or(Self::SessionError))
    }
}
