//! Resolves what people type: sessions by id, an end of an id or name; campaigns by id, name or the current
//! folder. Queries the daemon's lists; accepts only unique matches.

use std::path::Path;

use domain::id::SESSION_PREFIX;
use domain::{ErrorCode, Status};
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use crate::connection::Client;
use crate::names;
use config::failure::{Failure, Result};
use config::nearest::suggestion;

/// A shorter end fits too many ids.
const ID_END_MIN_CHARS: usize = 3;

/// Length of a ULID, which follows the prefix of a session's id.
const ULID_CHARS: usize = 26;

/// Returns the id of the given session.
pub async fn session(client: &Client, typed: &str) -> Result<String> {
    session_in(client, typed, None).await
}

/// Returns the id of the given session, restricted to one campaign if given.
pub async fn session_in(client: &Client, typed: &str, campaign: Option<&str>) -> Result<String> {
    if is_whole_id(typed) {
        return Ok(typed.to_owned());
    }
    let campaign_id = match campaign {
        Some(typed) => named_campaign(client, typed).await?,
        None => String::new(),
    };
    let request = local::ListSessionsRequest { campaign_id, include_terminated: true, ..Default::default() };
    let sessions = client.daemon().list_sessions(request).await?.into_inner().sessions;
    pick_session(typed, &sessions).map(|session| session.id.clone())
}

fn is_whole_id(typed: &str) -> bool {
    let ulid = typed.strip_prefix(SESSION_PREFIX).unwrap_or("");
    ulid.len() == ULID_CHARS && ulid.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Finds the session that a typed id, start of an id or name means. It must be unique.
fn pick_session<'a>(typed: &str, sessions: &'a [local::SessionInfo]) -> Result<&'a local::SessionInfo> {
    if typed.is_empty() {
        return Err(Failure::usage("the session's id or name is empty"));
    }
    let live = |session: &local::SessionInfo| {
        names::status(session.status).is_some_and(|status| !status.is_terminal())
    };
    let named: Vec<_> = sessions.iter().filter(|session| session.agent_name == typed).collect();
    let named_live: Vec<_> = named.iter().copied().filter(|session| live(session)).collect();
    let prefix = typed.to_uppercase();
    let begins = |session: &&local::SessionInfo| {
        let ulid = session.id.strip_prefix(SESSION_PREFIX).unwrap_or(&session.id).to_uppercase();
        let wanted = prefix.strip_prefix("SESS_").unwrap_or(&prefix);
        session.id == typed || (!wanted.is_empty() && ulid.starts_with(wanted))
    };
    // Ids that were made together differ at their ends.
    let ends = |session: &&local::SessionInfo| {
        prefix.len() >= ID_END_MIN_CHARS && session.id.to_uppercase().ends_with(&prefix)
    };
    // A name is reused once its old session has ended, so a live session wins over its predecessors.
    let candidates = match (named_live.as_slice(), named.as_slice()) {
        ([_, ..], _) => named_live,
        // Of several that have ended, the last one is meant.
        (_, [.., last]) => vec![*last],
        _ => {
            let begun: Vec<_> = sessions.iter().filter(begins).collect();
            let ended: Vec<_> = sessions.iter().filter(ends).collect();
            // An end is rarely a start too; where it is, the one that names a single session is meant.
            let is_end = begun.is_empty() || (ended.len() == 1 && begun.len() > 1);
            if is_end { ended } else { begun }
        }
    };
    match candidates.as_slice() {
        [one] => Ok(one),
        [] => Err(no_session(typed, sessions)),
        many => Err(several(typed, many)),
    }
}

fn no_session(typed: &str, sessions: &[local::SessionInfo]) -> Failure {
    let names = sessions.iter().map(|session| session.agent_name.as_str());
    let meant = suggestion(typed, names.filter(|name| !name.is_empty()));
    Failure::coded(ErrorCode::SessionNotFound, format!("no session has the id or name {typed:?}{meant}"))
}

fn several(typed: &str, many: &[&local::SessionInfo]) -> Failure {
    let mut message = format!("{typed:?} fits {} sessions:", many.len());
    for session in many {
        let status = names::status(session.status).map_or("", Status::name);
        message.push_str(&format!("\n  {}  {}  {status}", session.id, session.agent_name));
    }
    let is_name = many.iter().any(|session| session.agent_name == typed);
    Failure::usage(message).with_hint(if is_name {
        "use its id"
    } else {
        "use more of the end of the id, which differs first"
    })
}

/// Returns every campaign.
pub async fn campaigns(client: &Client) -> Result<Vec<pb::Campaign>> {
    Ok(client.campaigns().list_campaigns(pb::ListCampaignsRequest {}).await?.into_inner().campaigns)
}

/// Returns the id of the given campaign, or of the one that contains the current folder.
pub async fn campaign(client: &Client, typed: Option<&str>, folder: &Path) -> Result<String> {
    match typed {
        Some(typed) => named_campaign(client, typed).await,
        None => campaign_of_folder(&campaigns(client).await?, folder),
    }
}

/// Returns the id of a registered campaign given by id or name.
pub fn known_campaign(all: &[pb::Campaign], typed: &str) -> Result<String> {
    find_campaign(all, typed).map(|campaign| campaign.id.clone()).ok_or_else(|| {
        let meant = suggestion(typed, all.iter().map(|campaign| campaign.name.as_str()));
        Failure::coded(ErrorCode::CampaignNotFound, format!("campaign {typed:?} is not registered{meant}"))
    })
}

fn find_campaign<'a>(all: &'a [pb::Campaign], typed: &str) -> Option<&'a pb::Campaign> {
    all.iter().find(|campaign| campaign.id == typed).or_else(|| all.iter().find(|c| c.name == typed))
}

/// Returns the id of a campaign given by id or name. An unlisted one is passed on: the daemon may know it
/// from another registry.
pub async fn named_campaign(client: &Client, typed: &str) -> Result<String> {
    let all = campaigns(client).await?;
    Ok(find_campaign(&all, typed).map_or_else(|| typed.to_owned(), |campaign| campaign.id.clone()))
}

/// Returns the campaign that contains a folder.
fn campaign_of_folder(campaigns: &[pb::Campaign], folder: &Path) -> Result<String> {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let around = campaigns.iter().filter(|campaign| folder.starts_with(&campaign.path));
    // The innermost one if campaigns are nested.
    let found = around.max_by_key(|campaign| campaign.path.len()).map(|campaign| campaign.id.clone());
    found.ok_or_else(|| {
        let message = format!("{} belongs to no registered campaign", folder.display());
        Failure::coded(ErrorCode::CampaignNotFound, message)
            .with_hint("register the folder: obey campaign add . (or name one with --campaign)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::exit::Exit;

    fn sessions() -> Vec<local::SessionInfo> {
        let make = |id: &str, name: &str, status: local::SessionStatus| local::SessionInfo {
            id: id.to_owned(),
            agent_name: name.to_owned(),
            status: status.into(),
            ..Default::default()
        };
        vec![
            make("sess_01AAAAAAAAAAAAAAAAAAAAAAAA", "worker", local::SessionStatus::Stopped),
            make("sess_01AABBBBBBBBBBBBBBBBBBBBBB", "worker", local::SessionStatus::Running),
            make("sess_01CCCCCCCCCCCCCCCCCCCCCCCC", "01AA", local::SessionStatus::Stopped),
        ]
    }

    fn picked(typed: &str) -> std::result::Result<String, Exit> {
        pick_session(typed, &sessions()).map(|session| session.id.clone()).map_err(|failure| failure.exit)
    }

    #[test]
    fn sessions_are_found_by_the_start_of_their_id() {
        assert_eq!(picked("sess_01C").unwrap(), "sess_01CCCCCCCCCCCCCCCCCCCCCCCC");
        assert_eq!(picked("01aab").unwrap(), "sess_01AABBBBBBBBBBBBBBBBBBBBBB");
        assert_eq!(picked("sess_01A"), Err(Exit::USAGE));
        assert_eq!(picked("sess_"), Err(Exit::NOT_FOUND), "the bare prefix names nothing");
        assert_eq!(picked("sess_09"), Err(Exit::NOT_FOUND));
    }

    #[test]
    fn sessions_are_found_by_the_end_of_their_id() {
        assert_eq!(picked("bbbbbb").unwrap(), "sess_01AABBBBBBBBBBBBBBBBBBBBBB");
        assert_eq!(picked("CCC").unwrap(), "sess_01CCCCCCCCCCCCCCCCCCCCCCCC");
        assert_eq!(picked("cc"), Err(Exit::NOT_FOUND), "too short for an end");
    }

    #[test]
    fn sessions_are_found_by_name_and_the_living_one_wins() {
        assert_eq!(picked("worker").unwrap(), "sess_01AABBBBBBBBBBBBBBBBBBBBBB");
        assert_eq!(
            picked("01AA").unwrap(),
            "sess_01CCCCCCCCCCCCCCCCCCCCCCCC",
            "a name wins over a start of an id"
        );
    }

    #[test]
    fn a_slip_in_a_name_is_pointed_out() {
        let message = pick_session("worket", &sessions()).unwrap_err().message;
        assert!(message.ends_with("did you mean worker?"), "{message}");
    }

    #[test]
    fn a_whole_id_needs_no_list() {
        assert!(is_whole_id("sess_01AABBBBBBBBBBBBBBBBBBBBBB"));
        assert!(!is_whole_id("sess_01AA"));
        assert!(!is_whole_id("01AABBBBBBBBBBBBBBBBBBBBBB"));
    }

    #[test]
    fn the_innermost_campaign_around_a_folder_is_used() {
        let make =
            |id: &str, path: &str| pb::Campaign { id: id.into(), path: path.into(), ..Default::default() };
        let all =
            [make("outer", "/nowhere/a"), make("inner", "/nowhere/a/b"), make("other", "/nowhere/a/bc")];
        assert_eq!(campaign_of_folder(&all, Path::new("/nowhere/a/b/c")).unwrap(), "inner");
        assert_eq!(campaign_of_folder(&all, Path::new("/nowhere/a/x")).unwrap(), "outer");
        let failure = campaign_of_folder(&all, Path::new("/nowhere")).unwrap_err();
        assert_eq!((failure.exit, failure.code.as_deref()), (Exit::NOT_FOUND, Some("OBEY-2001")));
    }
}
