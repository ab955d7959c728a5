//! Suggests rules: finds permissions that were asked repeatedly and always allowed, and the rule that would
//! have answered them. Only reads journals.

use std::collections::BTreeMap;
use std::path::PathBuf;

use domain::permission::{Coverage, Grant, Principal, Scope, proposal};
use domain::request::{PermissionSubject, RequestOutcome, RequestSubject, Settler};
use domain::{Error, EventKind, RequestId, any_event};

use super::Grants;
use crate::limits;
use crate::session::Snapshot;
use storage::sessions::{self, SessionFilter};

/// A rule that would have made questions unnecessary.
#[derive(Clone, Debug, PartialEq)]
pub struct Suggestion {
    pub grant: Grant,
    /// How many questions it would have answered; all were allowed by a person.
    pub times: u64,
    pub folder: PathBuf,
}

/// How people answered the questions that one rule would cover.
#[derive(Debug)]
struct Answers {
    grant: Grant,
    folder: PathBuf,
    allowed: u64,
    denied: u64,
}

impl Grants {
    /// Returns rules for permissions that were asked at least twice and never denied, most useful first.
    pub async fn suggest(&self) -> Result<Vec<Suggestion>, Error> {
        let filter = SessionFilter { include_ended: true, ..SessionFilter::default() };
        let mut all = self.supervisor.list(filter).await?;
        let surplus = all.len().saturating_sub(storage::limits::SUGGEST_SESSIONS_MAX);
        let mut answers = BTreeMap::new();
        for session in all.split_off(surplus) {
            let id = session.spec.id.clone();
            let events =
                self.supervisor.store().read(move |connection| sessions::request_events(connection, &id));
            count(&mut answers, &session, &events.await?);
        }
        let settings = self.supervisor.settings().clone();
        let known =
            tokio::task::spawn_blocking(move || settings.user_rules()).await.map_err(super::broken)??;
        let is_known = |grant: &Grant| {
            known.iter().any(|rule| (&rule.grant.tool, &rule.grant.covers) == (&grant.tool, &grant.covers))
        };
        let mut suggestions: Vec<Suggestion> = answers
            .into_values()
            .filter(|answers| answers.allowed >= 2 && answers.denied == 0 && !is_known(&answers.grant))
            .map(|Answers { grant, folder, allowed, .. }| Suggestion { grant, times: allowed, folder })
            .collect();
        suggestions.sort_by_key(|suggestion| std::cmp::Reverse(suggestion.times));
        suggestions.truncate(limits::SUGGESTIONS_MAX);
        Ok(suggestions)
    }
}

/// Counts how persons answered permissions, by the rule that would cover them.
fn count(answers: &mut BTreeMap<String, Answers>, session: &Snapshot, events: &[EventKind]) {
    let mut open: BTreeMap<RequestId, &PermissionSubject> = BTreeMap::new();
    for event in events {
        match event {
            EventKind::RequestOpened {
                request,
                ask: RequestSubject::Permission(ask),
                automatic: false,
                ..
            } => {
                open.insert(*request, ask);
            }
            EventKind::RequestSettled {
                request, outcome: RequestOutcome::Decided { decision }, by, ..
            } => {
                let Some(ask) = open.remove(request) else { continue };
                let Some(grant) = rule_for(session, ask).filter(|_| Settler::parse(by).is_person()) else {
                    continue;
                };
                let key = format!("{} {}", grant.label(), grant.place());
                let folder = session.spec.working_dir.clone();
                let entry =
                    answers.entry(key).or_insert_with(|| Answers { grant, folder, allowed: 0, denied: 0 });
                if decision.allows() { entry.allowed += 1 } else { entry.denied += 1 }
            }
            any_event!(
                life turn output RequestOpened RequestSettled GrantsChanged settings plan usage worker report
            ) => {}
        }
    }
}

/// Returns the rule a person would write for a call: its command prefix or its folder if it has one, within
/// its project.
fn rule_for(session: &Snapshot, ask: &PermissionSubject) -> Option<Grant> {
    let place = session.spec.place();
    let offered = proposal::grants(ask, place);
    let wide = |grant: &&Grant| matches!(grant.covers, Coverage::Prefix(_) | Coverage::Folder(_));
    let mut grants = offered.iter().map(|(_, grant)| grant);
    let grant = grants.clone().find(wide).or_else(|| grants.next())?.clone();
    Some(Grant { scope: Scope::Project(place.root.to_owned()), principal: Principal::Everyone, ..grant })
}
