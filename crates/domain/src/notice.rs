//! Which changes of sessions a person is notified of: one notice per cause, withdrawn when the cause is gone. Pure; does not
//! know how a notice is delivered.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::id::SessionId;
use crate::overview::SessionState;
use crate::time::Timestamp;

/// What a notice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A permission or a question waits.
    NeedsYou,
    Failed,
    /// A turn that took a while has ended, and nobody has looked.
    Done,
}

impl NoticeKind {
    pub const ALL: [NoticeKind; 3] = [Self::NeedsYou, Self::Failed, Self::Done];

    /// Returns the printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::Failed => "failed",
            Self::Done => "done",
        }
    }

    /// Parses the printed name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// What a person is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The same for the same cause, and different for every other.
    pub id: String,
    pub kind: NoticeKind,
    pub session_id: String,
    pub name: String,
    pub folder: String,
    /// One line.
    pub text: String,
}

/// What is to be done about notices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeChange {
    Raise(Notice),
    /// Its cause is gone: answered elsewhere, looked at, or the session was removed.
    Withdraw(Notice),
}

/// What a person wants to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoticeRules {
    pub kinds: Vec<NoticeKind>,
    /// A shorter turn is watched by whoever started it.
    pub done_after: Duration,
}

/// What is known of a session when it changes.
#[derive(Clone, Debug)]
pub struct NoticeFacts {
    pub session: SessionId,
    pub name: String,
    pub folder: String,
    pub state: SessionState,
    pub reason: String,
    pub since: Timestamp,
    /// The oldest request that waits for a person.
    pub request: Option<String>,
    /// When the open turn began.
    pub turn_began: Option<Timestamp>,
}

/// The notices that stand.
#[derive(Debug)]
pub struct NoticeBoard {
    rules: NoticeRules,
    sessions: BTreeMap<SessionId, Told>,
}

/// What was told of one session.
#[derive(Debug, Default)]
struct Told {
    /// When its last turn began.
    turn_began: Option<Timestamp>,
    standing: Option<Notice>,
}

impl NoticeBoard {
    pub fn new(rules: NoticeRules) -> Self {
        Self { rules, sessions: BTreeMap::new() }
    }

    /// Takes what sessions are like at the start. Nothing is told: whoever wanted to know was told before.
    pub fn begin(&mut self, facts: &NoticeFacts) {
        let standing = self.wanted(facts, facts.turn_began);
        self.sessions.insert(facts.session.clone(), Told { turn_began: facts.turn_began, standing });
    }

    /// Takes a change of a session.
    pub fn update(&mut self, facts: &NoticeFacts) -> Vec<NoticeChange> {
        let before = self.sessions.remove(&facts.session).unwrap_or_default();
        let turn_began = facts.turn_began.or(before.turn_began);
        let now = self.wanted(facts, turn_began);
        let mut changes = Vec::new();
        if before.standing.as_ref().map(|notice| &notice.id) != now.as_ref().map(|notice| &notice.id) {
            changes.extend(before.standing.map(NoticeChange::Withdraw));
            changes.extend(now.clone().map(NoticeChange::Raise));
        }
        self.sessions.insert(facts.session.clone(), Told { turn_began, standing: now });
        changes
    }

    /// Takes the removal of a session.
    pub fn remove(&mut self, session: &SessionId) -> Vec<NoticeChange> {
        let told = self.sessions.remove(session);
        told.and_then(|told| told.standing).map(NoticeChange::Withdraw).into_iter().collect()
    }

    /// Returns the notice that a session should have now.
    fn wanted(&self, facts: &NoticeFacts, turn_began: Option<Timestamp>) -> Option<Notice> {
        let (kind, cause) = match facts.state {
            SessionState::NeedsYou => (NoticeKind::NeedsYou, facts.request.clone()?),
            SessionState::Failed => (NoticeKind::Failed, facts.since.0.to_string()),
            SessionState::Done => {
                let took = facts.since.0.saturating_sub(turn_began?.0);
                let least = i64::try_from(self.rules.done_after.as_micros()).unwrap_or(i64::MAX);
                if took < least {
                    return None;
                }
                (NoticeKind::Done, facts.since.0.to_string())
            }
            SessionState::Working | SessionState::Quiet | SessionState::Idle | SessionState::Ended => {
                return None;
            }
        };
        if !self.rules.kinds.contains(&kind) {
            return None;
        }
        Some(Notice {
            id: format!("{}/{}/{cause}", facts.session, kind.name()),
            kind,
            session_id: facts.session.to_string(),
            name: facts.name.clone(),
            folder: facts.folder.clone(),
            text: facts.reason.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn facts(state: SessionState, since: i64, request: &str) -> NoticeFacts {
        NoticeFacts {
            session: SessionId::new("sess_1"),
            name: "api".to_owned(),
            folder: "/p".to_owned(),
            state,
            reason: "wants to run rm".to_owned(),
            since: Timestamp(since),
            request: (!request.is_empty()).then(|| request.to_owned()),
            turn_began: None,
        }
    }

    fn working(began: i64) -> NoticeFacts {
        NoticeFacts { turn_began: Some(Timestamp(began)), ..facts(SessionState::Working, began, "") }
    }

    fn board() -> NoticeBoard {
        NoticeBoard::new(NoticeRules { kinds: NoticeKind::ALL.to_vec(), done_after: Duration::from_secs(60) })
    }

    fn words(changes: &[NoticeChange]) -> Vec<String> {
        let word = |change: &NoticeChange| match change {
            NoticeChange::Raise(notice) => format!("raise {}", notice.id),
            NoticeChange::Withdraw(notice) => format!("withdraw {}", notice.id),
        };
        changes.iter().map(word).collect()
    }

    #[test]
    fn one_notice_per_cause_and_it_is_withdrawn_when_it_is_settled() {
        let mut board = board();
        let asks = facts(SessionState::NeedsYou, SECOND, "req_1");
        assert_eq!(words(&board.update(&asks)), ["raise sess_1/needs_you/req_1"]);
        assert_eq!(words(&board.update(&asks)), [""; 0], "the same cause is not told twice");
        let next = facts(SessionState::NeedsYou, SECOND, "req_2");
        assert_eq!(
            words(&board.update(&next)),
            ["withdraw sess_1/needs_you/req_1", "raise sess_1/needs_you/req_2"]
        );
        assert_eq!(words(&board.update(&working(SECOND))), ["withdraw sess_1/needs_you/req_2"]);
    }

    #[test]
    fn the_end_of_a_turn_is_told_only_if_it_took_a_while() {
        let mut board = board();
        board.update(&working(SECOND));
        assert!(board.update(&facts(SessionState::Done, 30 * SECOND, "")).is_empty());
        board.update(&working(100 * SECOND));
        let done = facts(SessionState::Done, 200 * SECOND, "");
        assert_eq!(words(&board.update(&done)), ["raise sess_1/done/200000000"]);
        let seen = facts(SessionState::Idle, 210 * SECOND, "");
        assert_eq!(words(&board.update(&seen)), ["withdraw sess_1/done/200000000"]);
    }

    #[test]
    fn what_was_there_at_the_start_is_not_told_but_withdrawn() {
        let mut board = board();
        board.begin(&facts(SessionState::Failed, SECOND, ""));
        assert!(board.update(&facts(SessionState::Failed, SECOND, "")).is_empty());
        assert_eq!(words(&board.remove(&SessionId::new("sess_1"))), ["withdraw sess_1/failed/1000000"]);
        assert!(board.remove(&SessionId::new("sess_1")).is_empty());
    }

    #[test]
    fn a_kind_that_is_not_wanted_is_never_told() {
        let rules = NoticeRules { kinds: vec![NoticeKind::Failed], done_after: Duration::ZERO };
        let mut board = NoticeBoard::new(rules);
        assert!(board.update(&facts(SessionState::NeedsYou, SECOND, "req_1")).is_empty());
        assert_eq!(board.update(&facts(SessionState::Failed, SECOND, "")).len(), 1);
    }
}
