//! `obey session tree`: campaigns, their sessions, and below each session those it started.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tonic::metadata::MetadataMap;
use wire::obey::local::v1 as local;
use wire::obey::v1 as pb;

use super::tokens;
use crate::json;
use cli_args::session::TreeArgs;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;

/// The protocol's message has no field for the parent; the daemon sends `child=parent` pairs as metadata.
const PARENT_KEY: &str = "obey-parent-session";

pub(super) async fn run(console: &mut Console, args: &TreeArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let campaigns = resolve::campaigns(&client).await?;
    let request = local::ListSessionsRequest { include_terminated: args.all, ..Default::default() };
    let response = client.daemon().list_sessions(request).await?;
    let parents = parents(response.metadata());
    let sessions = response.into_inner().sessions;
    let tree = Tree { sessions: &sessions, parents: &parents };
    if console.out.json {
        let list: Vec<Value> = sessions.iter().map(|session| tree.json(session)).collect();
        console.out.json(&json!({"sessions": list}))?;
        return Ok(Exit::OK);
    }
    if sessions.is_empty() {
        console.out.note(TextStyle::Dim, "No sessions.")?;
    }
    for (title, roots) in tree.by_campaign(&campaigns) {
        console.out.styled_line(&[(TextStyle::Bold, &title)])?;
        for line in
            roots.iter().enumerate().flat_map(|(at, root)| tree.lines(root, "", at + 1 == roots.len(), 0))
        {
            console.out.line(&line)?;
        }
    }
    Ok(Exit::OK)
}

fn parents(metadata: &MetadataMap) -> BTreeMap<String, String> {
    let pairs = metadata.get_all(PARENT_KEY).iter().filter_map(|value| value.to_str().ok()?.split_once('='));
    pairs.map(|(child, parent)| (child.to_owned(), parent.to_owned())).collect()
}

/// Deeper than any real tree; terminates a cycle that a faulty daemon could report.
const DEPTH_MAX: usize = 32;

struct Tree<'a> {
    sessions: &'a [local::SessionInfo],
    parents: &'a BTreeMap<String, String>,
}

impl<'a> Tree<'a> {
    /// Returns the sessions without a listed parent, by campaign.
    fn by_campaign(&self, campaigns: &[pb::Campaign]) -> BTreeMap<String, Vec<&'a local::SessionInfo>> {
        let listed: BTreeSet<&str> = self.sessions.iter().map(|session| session.id.as_str()).collect();
        let mut groups: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for session in self.sessions {
            if self.parents.get(&session.id).is_some_and(|parent| listed.contains(parent.as_str())) {
                continue;
            }
            let campaign = campaigns.iter().find(|campaign| campaign.id == session.campaign_id);
            let title = campaign.map_or_else(
                || session.campaign_id.clone(),
                |found| format!("{} ({})", found.name, found.path),
            );
            groups
                .entry(if title.is_empty() { "no campaign".to_owned() } else { title })
                .or_default()
                .push(session);
        }
        groups
    }

    /// Returns the lines of a session and of those below it, up to `DEPTH_MAX` levels.
    fn lines(&self, session: &local::SessionInfo, indent: &str, last: bool, depth: usize) -> Vec<String> {
        let branch = if last { "└─ " } else { "├─ " };
        let mut lines = vec![format!("{indent}{branch}{}", describe(session))];
        if depth >= DEPTH_MAX {
            return lines;
        }
        let below = format!("{indent}{}", if last { "   " } else { "│  " });
        let children: Vec<_> =
            self.sessions.iter().filter(|child| self.parents.get(&child.id) == Some(&session.id)).collect();
        for (at, child) in children.iter().enumerate() {
            lines.extend(self.lines(child, &below, at + 1 == children.len(), depth + 1));
        }
        lines
    }

    fn json(&self, session: &local::SessionInfo) -> Value {
        let mut value = json::session(session);
        value["parent_session_id"] = json!(self.parents.get(&session.id));
        value
    }
}

fn describe(session: &local::SessionInfo) -> String {
    let festival =
        if session.festival_id.is_empty() { String::new() } else { format!("  {}", session.festival_id) };
    let (name, status) = (&session.agent_name, names::status_name(session.status));
    let provider = names::provider(session.provider);
    format!("{name}  {status}  {provider}  {}{festival}  {}", tokens(session), session.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_stand_below_their_parents() {
        let make =
            |id: &str| local::SessionInfo { id: id.into(), agent_name: id.into(), ..Default::default() };
        let sessions = [make("a"), make("b"), make("c"), make("d")];
        let parents = [("b", "a"), ("c", "b"), ("d", "a")].map(|(x, y)| (x.to_owned(), y.to_owned())).into();
        let tree = Tree { sessions: &sessions, parents: &parents };
        let groups = tree.by_campaign(&[]);
        let roots = &groups["no campaign"];
        assert_eq!(roots.len(), 1);
        let names: Vec<String> = tree
            .lines(roots[0], "", true, 0)
            .iter()
            .map(|line| line.split("  0").next().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["└─ a", "   ├─ b", "   │  └─ c", "   └─ d"]);
    }

    #[test]
    fn parents_are_read_from_the_metadata() {
        let mut metadata = MetadataMap::new();
        metadata.append(PARENT_KEY, "x=y".parse().unwrap());
        metadata.append(PARENT_KEY, "z=y".parse().unwrap());
        assert_eq!(parents(&metadata).len(), 2);
    }
}
