//! `obey grants …`: remembered permissions, wherever they are stored.

use std::path::{Path, PathBuf};

use wire::obey::v1 as pb;
use wire::obey::v1::grant::{Covers, Where};

use crate::json;
use cli_args::grants::{AddArgs, GrantListArgs, GrantsArgs, GrantsCommand};
use client::connection::Client;
use client::format;
use client::names;
use client::resolve;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(super) async fn run(console: &mut Console, args: GrantsArgs) -> Result<Exit> {
    let command = args.command.unwrap_or_else(|| GrantsCommand::List(GrantListArgs::default()));
    match command {
        GrantsCommand::List(args) => list(console, &args).await,
        GrantsCommand::Add(args) => add(console, *args).await,
        GrantsCommand::Revoke { id } => revoke(console, &id).await,
        GrantsCommand::Suggest => suggest(console).await,
    }
}

async fn list(console: &mut Console, args: &GrantListArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let session_id = match &args.session {
        Some(typed) => resolve::session(&client, typed).await?,
        None => String::new(),
    };
    let project = args.project.as_deref().map(|path| real(console, path)).transpose()?.unwrap_or_default();
    let request = pb::ListGrantsRequest { session_id, project };
    let answer = client.grants().list_grants(request).await?.into_inner();
    if console.out.json {
        let grants: Vec<_> = answer.grants.iter().map(json::grant).collect();
        console.out.json(&serde_json::json!({"grants": grants, "problems": answer.problems}))?;
        return Ok(Exit::OK);
    }
    for problem in &answer.problems {
        console
            .out
            .note(TextStyle::Bad, &format!("everything is denied until this is repaired: {problem}"))?;
    }
    if answer.grants.is_empty() {
        console
            .out
            .note(TextStyle::Dim, "No grants. Agents ask for everything their mode does not allow.")?;
    }
    for grant in answer.grants.iter().filter(|grant| grant.ignored) {
        let text =
            format!("{} is ignored: a project may deny and ask, never allow ({})", grant.what, grant.source);
        console.out.note(TextStyle::Warn, &text)?;
    }
    print(console, answer.grants.iter().filter(|grant| !grant.ignored))?;
    Ok(Exit::OK)
}

fn print<'a>(console: &mut Console, grants: impl Iterator<Item = &'a pb::Grant>) -> Result<()> {
    let mut table = Table::new(&["ID", "ACTION", "WHAT", "WHERE", "UNTIL", "USES", "GIVEN BY", "KEPT IN"]);
    let mut any = false;
    for grant in grants {
        any = true;
        table.row(vec![
            grant.id.clone(),
            names::grant_action(grant.action()).to_owned(),
            format::one_line(&grant.what),
            grant.where_text.clone(),
            format::rfc3339(grant.expires_at.as_ref()).unwrap_or_default(),
            grant.uses_left.map_or_else(String::new, |uses| uses.to_string()),
            grant.given_by.clone(),
            grant.source.clone(),
        ]);
    }
    if any { super::session::print_table(console, &table) } else { Ok(()) }
}

async fn add(console: &mut Console, args: AddArgs) -> Result<Exit> {
    let client = console.connect().await?;
    let grant = wanted(console, &client, args).await?;
    let request = pb::AddGrantRequest { grant: Some(grant), given_by: console.person() };
    let grant = client.grants().add_grant(request).await?.into_inner();
    told(console, "Added", &grant)
}

/// Converts the flags to a grant; paths become absolute.
async fn wanted(console: &Console, client: &Client, args: AddArgs) -> Result<pb::Grant> {
    let action = match (args.allow, args.deny) {
        (true, _) => pb::GrantAction::Allow,
        (false, true) => pb::GrantAction::Deny,
        (false, false) => pb::GrantAction::Ask,
    };
    let covers = match (args.command, args.prefix, args.file, args.folder) {
        (Some(command), ..) => Some(Covers::Command(command)),
        (_, Some(words), ..) => Some(Covers::Prefix(words)),
        (_, _, Some(path), _) => Some(Covers::File(absolute(console, &path)?)),
        (_, _, _, Some(path)) => Some(Covers::Folder(absolute(console, &path)?)),
        (None, None, None, None) => None,
    };
    let place = match (&args.session, &args.worktree, &args.project) {
        (Some(typed), ..) => Some(Where::SessionId(resolve::session(client, typed).await?)),
        (_, Some(path), _) => Some(Where::Worktree(real(console, path)?)),
        (_, _, Some(path)) => Some(Where::Project(real(console, path)?)),
        (None, None, None) => None,
    };
    let expires_at = args.expires.map(|wait| {
        let (seconds, nanos) = host::clock::now().after(wait).seconds_and_nanos();
        prost_types::Timestamp { seconds, nanos }
    });
    Ok(pb::Grant {
        action: action.into(),
        tool: args.tool.unwrap_or_else(|| "Bash".to_owned()),
        covers,
        r#where: place,
        expires_at,
        uses_left: args.uses,
        sub_agents: args.sub_agents,
        reason: args.reason,
        ..pb::Grant::default()
    })
}

async fn revoke(console: &mut Console, id: &str) -> Result<Exit> {
    let client = console.connect().await?;
    let request = pb::RevokeGrantRequest { id: id.to_owned(), revoked_by: console.person() };
    let grant = client.grants().revoke_grant(request).await?.into_inner();
    told(console, "Revoked", &grant)
}

fn told(console: &mut Console, word: &str, grant: &pb::Grant) -> Result<Exit> {
    if console.out.json {
        console.out.json(&json::grant(grant))?;
        return Ok(Exit::OK);
    }
    let action = names::grant_action(grant.action());
    let what = format::one_line(&grant.what);
    console
        .out
        .line(&format!("{word}: {} {action} {what}, {} ({})", grant.id, grant.where_text, grant.source))?;
    Ok(Exit::OK)
}

/// Prints grants that would have saved the user repeated answers.
async fn suggest(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let answer = client.grants().suggest_grants(pb::SuggestGrantsRequest {}).await?.into_inner();
    let suggested: Vec<(pb::Grant, u64)> =
        answer.suggestions.into_iter().map(|one| (one.grant.unwrap_or_default(), one.times)).collect();
    if console.out.json {
        let list: Vec<_> = suggested
            .iter()
            .map(|(grant, times)| {
                let mut value = json::grant(grant);
                value["times"] = serde_json::json!(times);
                value["add"] = serde_json::json!(typed(grant));
                value
            })
            .collect();
        console.out.json(&serde_json::json!({"suggestions": list}))?;
        return Ok(Exit::OK);
    }
    if suggested.is_empty() {
        console.out.note(TextStyle::Dim, "Nothing was asked twice and always allowed.")?;
    }
    for (grant, times) in &suggested {
        console.out.line(&format!("{times}× {}, {}", format::one_line(&grant.what), grant.where_text))?;
        console.out.line(&format!("    {}", typed(grant)))?;
    }
    Ok(Exit::OK)
}

/// Returns the command that adds a grant.
fn typed(grant: &pb::Grant) -> String {
    let mut words = vec![format!("obey grants add --allow --tool {}", quoted(&grant.tool))];
    words.extend(grant.covers.as_ref().map(|covers| match covers {
        Covers::Command(command) => format!("--command {}", quoted(command)),
        Covers::Prefix(prefix) => format!("--prefix {}", quoted(prefix)),
        Covers::File(path) => format!("--file {}", quoted(path)),
        Covers::Folder(path) => format!("--folder {}", quoted(path)),
    }));
    words.push(match &grant.r#where {
        Some(Where::SessionId(id)) => format!("--session {}", quoted(id)),
        Some(Where::Worktree(path)) => format!("--worktree {}", quoted(path)),
        Some(Where::Project(path)) => format!("--project {}", quoted(path)),
        None => "--always".to_owned(),
    });
    words.join(" ")
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Resolves an existing folder, including links.
fn real(console: &Console, path: &Path) -> Result<String> {
    let found = console.folder.join(path).canonicalize();
    let found = found.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    text(found)
}

/// Returns an absolute path. The file need not exist; its folder is resolved if it exists.
fn absolute(console: &Console, path: &Path) -> Result<String> {
    let joined = console.folder.join(path);
    if let Ok(found) = joined.canonicalize() {
        return text(found);
    }
    let plain = domain::permission::proposal::absolute(Path::new("/"), &joined);
    match (plain.parent().and_then(|parent| parent.canonicalize().ok()), plain.file_name()) {
        (Some(parent), Some(name)) => text(parent.join(name)),
        _ => text(plain),
    }
}

fn text(path: PathBuf) -> Result<String> {
    path.into_os_string()
        .into_string()
        .map_err(|path| Failure::usage(format!("{} is no text", path.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_can_be_typed_as_it_is_printed() {
        let grant = pb::Grant {
            tool: "Bash".to_owned(),
            covers: Some(Covers::Command("echo 'a b'".to_owned())),
            r#where: Some(Where::Project("/my repo".to_owned())),
            ..pb::Grant::default()
        };
        assert_eq!(
            typed(&grant),
            r"obey grants add --allow --tool Bash --command 'echo '\''a b'\''' --project '/my repo'"
        );
    }
}
