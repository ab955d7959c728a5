//! `obey key …`: keys with which programs call roz.v1.

use serde_json::{Value, json};
use wire::obey::v1 as pb;

use cli_args::key::{KeyCommand, KeyCreateArgs};
use client::format::rfc3339;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

pub(super) async fn run(console: &mut Console, command: KeyCommand) -> Result<Exit> {
    match command {
        KeyCommand::Create(args) => create(console, args).await,
        KeyCommand::List => list(console).await,
        KeyCommand::Revoke { key } => revoke(console, key).await,
    }
}

async fn create(console: &mut Console, args: KeyCreateArgs) -> Result<Exit> {
    let expires_at = args.expires.map(|wait| {
        let (seconds, nanos) = host::clock::now().after(wait).seconds_and_nanos();
        prost_types::Timestamp { seconds, nanos }
    });
    let request = pb::CreateApiKeyRequest { name: args.name, scopes: args.scopes, expires_at };
    let client = console.connect_here().await?;
    let created = client.api_keys().create_api_key(request).await?.into_inner();
    let key = created.api_key.unwrap_or_default();
    if console.out.json {
        let mut value = shown(&key);
        value["full_key"] = json!(created.full_key);
        console.out.json(&value)?;
        return Ok(Exit::OK);
    }
    console.out.line(&created.full_key)?;
    let note = format!(
        "The key {} ({}), shown this once; it is sent as Authorization: Bearer KEY",
        key.name,
        key.scopes.join(", ")
    );
    console.out.note(TextStyle::Dim, &note)?;
    Ok(Exit::OK)
}

async fn list(console: &mut Console) -> Result<Exit> {
    let client = console.connect_here().await?;
    let keys = client.api_keys().list_api_keys(pb::ListApiKeysRequest {}).await?.into_inner().api_keys;
    if console.out.json {
        console.out.json(&json!({"keys": keys.iter().map(shown).collect::<Vec<Value>>()}))?;
        return Ok(Exit::OK);
    }
    if keys.is_empty() {
        console.out.note(TextStyle::Dim, "No keys. Make one with: obey key create NAME --scope ReadTasks")?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["NAME", "ID", "KEY", "SCOPES", "EXPIRES", "LAST USED"]);
    for key in keys {
        let expires = rfc3339(key.expires_at.as_ref()).unwrap_or_else(|| "never".to_owned());
        let seen = rfc3339(key.seen_at.as_ref()).unwrap_or_else(|| "never".to_owned());
        let begins = format!("{}…", key.key_prefix);
        table.row(vec![key.name, key.id, begins, key.scopes.join(", "), expires, seen]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

async fn revoke(console: &mut Console, api_key: String) -> Result<Exit> {
    let client = console.connect_here().await?;
    let request = pb::RevokeApiKeyRequest { api_key };
    let key = client.api_keys().revoke_api_key(request).await?.into_inner().api_key.unwrap_or_default();
    if console.out.json {
        console.out.json(&shown(&key))?;
    } else {
        console.out.line(&format!("Revoked: {} ({}…)", key.name, key.key_prefix))?;
    }
    Ok(Exit::OK)
}

fn shown(key: &pb::ApiKey) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "key_prefix": key.key_prefix,
        "scopes": key.scopes,
        "created_at": rfc3339(key.created_at.as_ref()),
        "expires_at": rfc3339(key.expires_at.as_ref()),
        "seen_at": rfc3339(key.seen_at.as_ref()),
        "seen_from": Some(&key.seen_from).filter(|from| !from.is_empty()),
    })
}
