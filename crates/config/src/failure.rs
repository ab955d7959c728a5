//! The error of a command: message, OBEY code, a hint and an exit code. The only place that turns gRPC
//! statuses into text for people. Does not print; `output` does.

use std::fmt::Write as _;
use std::io;

use domain::{ErrorCode, ErrorKind, ProviderKind};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::exit::Exit;

/// The metadata key under which the daemon sends the OBEY code of an error.
const CODE_KEY: &str = "obey-code";

/// Stands in every message about a connection that goes through a relay, so that its hint is not about this machine's daemon.
pub const THROUGH_RELAY: &str = "through the relay";

pub type Result<T> = std::result::Result<T, Failure>;

/// Why a command ended early.
#[derive(Debug)]
pub struct Failure {
    pub exit: Exit,
    /// The OBEY code, even if this version does not know it.
    pub code: Option<String>,
    pub grpc: Option<Code>,
    pub message: String,
    hint: Option<String>,
    /// Nothing is printed, as when the reader of our output is gone.
    silent: bool,
}

impl Failure {
    fn plain(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, code: None, grpc: None, message: message.into(), hint: None, silent: false }
    }

    /// Returns a failed operation, without a code.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::plain(Exit::FAILED, message)
    }

    /// Returns a usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::plain(Exit::USAGE, message)
    }

    /// Returns a failure with a code of the registry; hint and exit code follow from it.
    pub fn coded(code: ErrorCode, message: impl Into<String>) -> Self {
        let mut failure = Self::plain(exit_of(code), message);
        failure.code = Some(code.to_string());
        failure.hint = hint_of(code, &failure.message);
        failure
    }

    /// Ends the command with an exit code without printing anything further.
    pub fn silent(exit: Exit) -> Self {
        Self { silent: true, ..Self::plain(exit, String::new()) }
    }

    /// Replaces the hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns whether the connection broke, as opposed to an error of the daemon.
    pub fn is_connection_lost(&self) -> bool {
        self.exit == Exit::UNREACHABLE
    }

    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Returns the failure for people: message and code, then what to do about it.
    pub fn for_people(&self) -> String {
        let mut text = format!("error: {}", self.message.trim_end());
        if let Some(code) = &self.code {
            let _infallible = write!(text, " [{code}]");
        }
        if let Some(hint) = &self.hint {
            let _infallible = write!(text, "\n  hint: {hint}");
        }
        if let Some(code) = &self.code {
            let _infallible = write!(text, "\n  see:  obey explain {code}");
        }
        text
    }

    /// Returns the failure for programs.
    pub fn for_programs(&self) -> Value {
        let grpc = self.grpc.or_else(|| {
            let code = self.code.as_deref().and_then(ErrorCode::parse)?;
            Some(grpc_of(code.kind()))
        });
        json!({"error": {"code": self.code, "grpc": grpc.map(grpc_name), "message": self.message}})
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let sent = status.metadata().get(CODE_KEY).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (in_message, message) = split_code(status.message());
        let code = sent.or(in_message);
        let known = code.as_deref().and_then(ErrorCode::parse);
        // A status without our code comes from the transport.
        if code.is_none() && transport_broke(&status) {
            let message = match message.contains(THROUGH_RELAY) {
                true => message.to_owned(),
                false => format!("the connection to the daemon was lost: {message}"),
            };
            return Self { grpc: Some(status.code()), ..Self::coded(ErrorCode::DaemonUnreachable, message) };
        }
        let message = match (message.is_empty(), known) {
            (false, _) => message.to_owned(),
            (true, Some(known)) => known.title().to_owned(),
            (true, None) => status.code().description().to_owned(),
        };
        Self {
            exit: known.map_or_else(|| exit_of_grpc(status.code()), exit_of),
            hint: known.and_then(|known| hint_of(known, &message)),
            grpc: Some(status.code()),
            code,
            message,
            silent: false,
        }
    }
}

impl From<io::Error> for Failure {
    /// Only for errors of our own output; other errors need a message that names the object.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::silent(Exit::PIPE_CLOSED);
        }
        Self::failed(format!("cannot write the output: {error}"))
    }
}

/// Splits a leading `OBEY-NNNN:` off a message, for servers that print the code there too.
fn split_code(message: &str) -> (Option<String>, &str) {
    let Some((head, rest)) = message.split_once(": ") else { return (None, message) };
    let digits = head.strip_prefix("OBEY-").unwrap_or("");
    if digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return (Some(head.to_owned()), rest);
    }
    (None, message)
}

fn transport_broke(status: &Status) -> bool {
    let by_transport = std::error::Error::source(status).is_some();
    match status.code() {
        Code::Unavailable => true,
        Code::Unknown | Code::Cancelled | Code::Internal => by_transport,
        _ => false,
    }
}

/// Returns the exit code of an error code.
fn exit_of(code: ErrorCode) -> Exit {
    match (code, code.kind()) {
        (ErrorCode::DaemonUnreachable, _) => Exit::UNREACHABLE,
        // The user's time limit of a session is a limit like its budget.
        (ErrorCode::SessionTimeout, _) => Exit::DENIED,
        (_, ErrorKind::NotFound) => Exit::NOT_FOUND,
        (_, ErrorKind::Invalid) => Exit::USAGE,
        (_, ErrorKind::State) => Exit::WRONG_STATE,
        (_, ErrorKind::Exhausted | ErrorKind::Denied | ErrorKind::Unauthenticated) => Exit::DENIED,
        (_, ErrorKind::Deadline | ErrorKind::Unavailable | ErrorKind::Internal) => Exit::FAILED,
    }
}

/// Returns the exit code of a gRPC status without an error code of ours.
fn exit_of_grpc(code: Code) -> Exit {
    match code {
        Code::NotFound => Exit::NOT_FOUND,
        Code::InvalidArgument | Code::OutOfRange => Exit::USAGE,
        Code::FailedPrecondition | Code::AlreadyExists | Code::Aborted => Exit::WRONG_STATE,
        Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted => Exit::DENIED,
        Code::Unavailable => Exit::UNREACHABLE,
        _ => Exit::FAILED,
    }
}

fn grpc_of(kind: ErrorKind) -> Code {
    match kind {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::Invalid => Code::InvalidArgument,
        ErrorKind::State => Code::FailedPrecondition,
        ErrorKind::Exhausted => Code::ResourceExhausted,
        ErrorKind::Deadline => Code::DeadlineExceeded,
        ErrorKind::Unavailable => Code::Unavailable,
        ErrorKind::Denied => Code::PermissionDenied,
        ErrorKind::Unauthenticated => Code::Unauthenticated,
        ErrorKind::Internal => Code::Internal,
    }
}

fn grpc_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Returns what to do about an error, if one sentence suffices and the message does not already say it.
fn hint_of(code: ErrorCode, message: &str) -> Option<String> {
    if let Some(hint) = hint_by_message(code, message) {
        return hint.map(str::to_owned);
    }
    let hint = match code {
        ErrorCode::CampaignNotFound => {
            "register the folder: obey campaign add PATH (registered: obey campaigns)"
        }
        ErrorCode::ProviderUnsupported => {
            let names: Vec<_> = ProviderKind::ALL.iter().map(|kind| kind.name()).collect();
            return Some(format!("providers: {}", names.join(", ")));
        }
        ErrorCode::CreateFailed | ErrorCode::ProviderNotReady => {
            "what can be run here, and how to get the rest: obey agents list"
        }
        ErrorCode::SessionNotFound => "list them: obey session list --all",
        // Messages about the state of other objects already say what to do.
        ErrorCode::WrongState if !message.starts_with("session ") => return None,
        ErrorCode::WrongState if message.contains("only an ended one is removed") => {
            "stop and remove it: obey rm --force ID"
        }
        ErrorCode::WrongState => {
            "look at it: obey session info ID; busy: wait for it (obey session wait ID), cancel its turn or add to it \
             (send --steer); ended: obey session restart ID"
        }
        ErrorCode::BudgetExceeded => {
            "raise it with the command that the message names and --usd N, --tokens N, --minutes N or --calls N"
        }
        ErrorCode::SessionTimeout => "start it again: obey session restart ID",
        ErrorCode::EventsExpired => "read what is left: obey session log ID --from N, with the N it names",
        ErrorCode::WorktreeNotFound => "list them: obey worktree list PATH",
        ErrorCode::RequestNotFound => "list what waits: obey session requests",
        ErrorCode::AlreadyStopped => "start it again: obey session restart ID",
        ErrorCode::StopTimedOut => "the agent did not finish in time and was ended by force; its log is kept",
        ErrorCode::ProviderCrashed | ErrorCode::ConnectionLost => {
            "its last words: obey session log ID; start it again: obey session restart ID"
        }
        ErrorCode::OutOfMemory => {
            "what it used: obey session info ID; create one with more: obey session create --memory SIZE"
        }
        ErrorCode::ProtectedFileChanged => {
            "look at the file that is named before you go on; then start it again: obey session restart ID"
        }
        ErrorCode::RateLimited => "wait, or use another model: obey session create --model MODEL",
        ErrorCode::DaemonUnreachable => "start it: obey serve --detach (what is wrong: obey doctor)",
        ErrorCode::AlreadyRunning => {
            "look at it: obey status; end it: obey stop; where these find no daemon it has another socket: use them with the \
             XDG_RUNTIME_DIR it was started with, or with --socket"
        }
        ErrorCode::ListenFailed => {
            "choose other addresses: listen = [\"127.0.0.1:PORT\"] in config.toml, or none: OBEY_LISTEN=none"
        }
        ErrorCode::ConfigInvalid => "every key and its value: obey config show",
        ErrorCode::CommandNotAllowed => {
            "add it to `allow` under [execute] in config.toml and restart the daemon"
        }
        ErrorCode::ItemNotFound if message.starts_with("entry:") => "what waits: obey queue list SESSION",
        ErrorCode::ItemNotFound if message.contains("ref") => "refs go with their session",
        ErrorCode::ItemNotFound => "each project has its own; another one is named with --project",
        ErrorCode::PolicyRefused => {
            "look at it: obey policy get ID; try another way: obey policy check 'COMMAND'"
        }
        ErrorCode::CommandTimedOut => "give it longer with --timeout",
        // The messages of the others say what to do.
        _ => return None,
    };
    Some(hint.to_owned())
}

/// Returns the hint of an error whose message tells what went wrong within its code: none if the message says what to do
/// itself. Nothing where the code alone decides.
fn hint_by_message(code: ErrorCode, message: &str) -> Option<Option<&'static str>> {
    let begins = |fields: &[&str]| fields.iter().any(|field| message.starts_with(field));
    match code {
        ErrorCode::RecordNotFound if begins(&["plan_id", "orchestration_id"]) => {
            Some(Some("list them: obey plan list"))
        }
        ErrorCode::RecordNotFound if begins(&["environment"]) => {
            Some(Some("list the environments: obey environment list"))
        }
        ErrorCode::RecordNotFound => Some(None),
        ErrorCode::DaemonUnreachable if message.contains("belongs to another user") => Some(Some(
            "use a socket of your own: unset OBEY_SOCKET, or set XDG_RUNTIME_DIR to a folder that is yours alone",
        )),
        ErrorCode::DaemonUnreachable if message.contains("was expected") => Some(Some(
            "it is not the relay or machine this device was paired with; ask who runs it, and pair again only if the key was \
             changed on purpose: obey device join LINE",
        )),
        ErrorCode::DaemonUnreachable if message.contains(THROUGH_RELAY) => {
            Some(Some("where the way to it is interrupted: obey machine doctor NAME"))
        }
        ErrorCode::ConfigInvalid if begins(&["there is no relay in "]) => Some(None),
        ErrorCode::WorktreeFailed if message.contains("a message to commit them with") => {
            Some(Some("commit them and merge: obey merge ID --commit MESSAGE"))
        }
        ErrorCode::WorktreeFailed if message.contains("use force to lose them") => {
            Some(Some("remove the tree with them: obey worktree remove --force ID"))
        }
        ErrorCode::InvalidArgument if begins(&["into: "]) => Some(Some("name it: obey merge --into BRANCH")),
        // Those about a socket and its folder say what to do.
        ErrorCode::ListenFailed if !begins(&["cannot listen on "]) || message.contains("socket") => {
            Some(None)
        }
        // The messages about arguments and settings of git, and about a campaign's own list, say what is wrong.
        ErrorCode::CommandNotAllowed if !message.contains("execute.allow") => Some(None),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: Code, obey: &str, message: &str) -> Status {
        let mut status = Status::new(code, message);
        if !obey.is_empty() {
            status.metadata_mut().insert(CODE_KEY, obey.parse().unwrap());
        }
        status
    }

    #[test]
    fn a_missing_campaign_says_how_to_add_it() {
        let failure = Failure::from(status(Code::NotFound, "OBEY-2001", "campaign \"x\" is not registered"));
        assert_eq!(failure.exit, Exit::NOT_FOUND);
        assert_eq!(
            failure.for_people(),
            "error: campaign \"x\" is not registered [OBEY-2001]\n  \
             hint: register the folder: obey campaign add PATH (registered: obey campaigns)\n  \
             see:  obey explain OBEY-2001"
        );
        assert_eq!(
            failure.for_programs(),
            json!({"error": {"code": "OBEY-2001", "grpc": "NOT_FOUND", "message": "campaign \"x\" is not registered"}})
        );
    }

    #[test]
    fn a_hint_is_about_what_went_wrong() {
        let hint = |code: ErrorCode, message: &str| Failure::coded(code, message).hint.unwrap_or_default();
        assert!(hint(ErrorCode::WrongState, "session s is WORKING").contains("obey session info"));
        assert_eq!(hint(ErrorCode::WrongState, "campaign shop has 2 running sessions; stop them first"), "");
        assert_eq!(hint(ErrorCode::ItemNotFound, "there is no ref ref_1"), "refs go with their session");
        assert!(!hint(ErrorCode::ItemNotFound, "there is no policy nono").contains("ref"));
        assert!(!hint(ErrorCode::ProviderNotReady, "OPENAI_API_KEY is not set").contains("npm"));
        for (code, message, expected) in [
            (ErrorCode::RecordNotFound, "plan_id: there is no plan \"x\"", "obey plan list"),
            (ErrorCode::RecordNotFound, "environment_id: there is none", "obey environment list"),
            (ErrorCode::RecordNotFound, "task_id: there is none", ""),
            (ErrorCode::ListenFailed, "the folder /x can be entered by other users; use another", ""),
            (ErrorCode::ListenFailed, "cannot listen on the socket /x: no; use another", ""),
            (
                ErrorCode::ListenFailed,
                "cannot listen on 127.0.0.1:80: another process listens there",
                "OBEY_LISTEN",
            ),
            (
                ErrorCode::DaemonUnreachable,
                "the process behind it belongs to another user (uid 7)",
                "socket of your own",
            ),
            (ErrorCode::DaemonUnreachable, "its authority is a, and b was expected", "pair again"),
            (ErrorCode::DaemonUnreachable, "it does not run", "obey serve --detach"),
            (
                ErrorCode::DaemonUnreachable,
                "machine box cannot be reached through the relay https://r: Connection refused",
                "obey machine doctor",
            ),
            (
                ErrorCode::ConfigInvalid,
                "there is no relay in /x; make one: obey relay init --listen ADDR",
                "",
            ),
            (ErrorCode::ConfigInvalid, "/x/config.toml: unknown key foo", "obey config show"),
            (
                ErrorCode::WrongState,
                "session s is RUNNING, only an ended one is removed; stop it first",
                "obey rm --force",
            ),
            (ErrorCode::AlreadyRunning, "a daemon already runs", "--socket"),
            (
                ErrorCode::WorktreeFailed,
                "/x has changes that are not committed; commit them there, or give a message to commit them with",
                "obey merge ID --commit",
            ),
            (
                ErrorCode::WorktreeFailed,
                "/x has changes that are not committed; commit them, or use force to lose them",
                "obey worktree remove --force",
            ),
            (
                ErrorCode::InvalidArgument,
                "into: /x was not made from a branch; say which one to merge into",
                "obey merge --into BRANCH",
            ),
            (ErrorCode::CommandNotAllowed, "command: git: -c is not allowed", ""),
            (ErrorCode::CommandNotAllowed, "command: x is not allowed; add it to execute.allow", "[execute]"),
        ] {
            let hint = hint(code, message);
            assert!(hint.contains(expected) && hint.is_empty() == expected.is_empty(), "{message}: {hint}");
        }
    }

    #[test]
    fn a_relay_that_is_down_is_not_reported_as_a_lost_daemon() {
        let message =
            "machine box cannot be reached through the relay https://r: Connection refused (UNAVAILABLE)";
        let failure = Failure::from(status(Code::Unavailable, "", message));
        assert_eq!((failure.message.as_str(), failure.exit), (message, Exit::UNREACHABLE));
    }

    #[test]
    fn the_code_is_found_in_the_message_too() {
        let failure = Failure::from(status(Code::FailedPrecondition, "", "OBEY-2011: it is STOPPED"));
        assert_eq!((failure.code.as_deref(), failure.message.as_str()), (Some("OBEY-2011"), "it is STOPPED"));
        assert_eq!(failure.exit, Exit::WRONG_STATE);
    }

    #[test]
    fn a_code_of_a_newer_daemon_keeps_its_number() {
        let failure = Failure::from(status(Code::ResourceExhausted, "OBEY-2999", "too much"));
        assert_eq!((failure.code.as_deref(), failure.exit), (Some("OBEY-2999"), Exit::DENIED));
    }

    #[test]
    fn only_an_unavailable_status_without_a_code_means_unreachable() {
        assert_eq!(Failure::from(status(Code::Unavailable, "", "gone")).exit, Exit::UNREACHABLE);
        assert_eq!(Failure::from(status(Code::Unavailable, "OBEY-2012", "x")).exit, Exit::FAILED);
    }

    #[test]
    fn every_kind_of_error_has_its_exit_code() {
        for (code, exit) in [
            (ErrorCode::InvalidArgument, Exit::USAGE),
            (ErrorCode::NotAllowed, Exit::DENIED),
            (ErrorCode::LimitReached, Exit::DENIED),
            (ErrorCode::DaemonUnreachable, Exit::UNREACHABLE),
            (ErrorCode::CreateFailed, Exit::FAILED),
            (ErrorCode::SessionNotFound, Exit::NOT_FOUND),
            (ErrorCode::AlreadyStopped, Exit::WRONG_STATE),
            (ErrorCode::BudgetExceeded, Exit::DENIED),
            (ErrorCode::SessionTimeout, Exit::DENIED),
        ] {
            assert_eq!(exit_of(code), exit, "{code}");
        }
    }

    #[test]
    fn a_closed_pipe_says_nothing() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(failure.is_silent());
        assert_eq!(failure.exit, Exit::PIPE_CLOSED);
    }
}
