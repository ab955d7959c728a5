//! `obey environment …`: named folders that programs' sessions run in.

use wire::obey::v1 as pb;

use crate::json;
use cli_args::EnvironmentCreateArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::{Table, named};

pub(super) async fn create(console: &mut Console, args: &EnvironmentCreateArgs) -> Result<Exit> {
    // Resolved here, because the daemon has another working directory.
    let given = console.folder.join(&args.dir);
    let path =
        given.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", args.dir.display())))?;
    let client = console.connect().await?;
    let wait = args.answer_wait.unwrap_or_default().as_secs();
    let request = pb::CreateEnvironmentRequest {
        name: args.name.clone(),
        directory: path.to_string_lossy().into_owned(),
        provider: args.provider.map(|kind| kind.name().to_owned()).unwrap_or_default(),
        model: args.model.clone().unwrap_or_default(),
        mode: args.mode.clone().unwrap_or_default(),
        answer_wait_secs: u32::try_from(wait).unwrap_or(u32::MAX),
        provider_config: args.config.clone().unwrap_or_default(),
    };
    let environment = client.environments().create_environment(request).await?.into_inner();
    if console.out.json {
        console.out.json(&json::environment(&environment))?;
        return Ok(Exit::OK);
    }
    let pairs = [
        ("Environment", environment.id.clone()),
        ("Name", environment.name.clone()),
        ("Folder", environment.directory.clone()),
        ("Provider", environment.provider.clone()),
        ("Model", environment.model.clone()),
        ("Mode", environment.mode.clone()),
    ];
    for line in named(&pairs) {
        console.out.line(&line)?;
    }
    Ok(Exit::OK)
}

pub(super) async fn list(console: &mut Console) -> Result<Exit> {
    let client = console.connect().await?;
    let request = pb::ListEnvironmentsRequest {};
    let environments = client.environments().list_environments(request).await?.into_inner().environments;
    if console.out.json {
        let list: Vec<_> = environments.iter().map(json::environment).collect();
        console.out.json(&serde_json::json!({"environments": list}))?;
        return Ok(Exit::OK);
    }
    if environments.is_empty() {
        let hint = "No environments. Make one with: obey environment create NAME --dir DIR";
        console.out.note(TextStyle::Dim, hint)?;
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["ID", "NAME", "PROVIDER", "FOLDER"]);
    for environment in environments {
        table.row(vec![environment.id, environment.name, environment.provider, environment.directory]);
    }
    super::session::print_table(console, &table)?;
    Ok(Exit::OK)
}

pub(super) async fn remove(console: &mut Console, typed: &str) -> Result<Exit> {
    let client = console.connect().await?;
    let request = pb::RemoveEnvironmentRequest { environment: typed.to_owned() };
    let removed = client.environments().remove_environment(request).await?.into_inner();
    let environment = removed.environment.unwrap_or_default();
    if console.out.json {
        console.out.json(&json::environment(&environment))?;
    } else {
        console.out.line(&format!("Removed: {} ({})", environment.id, environment.directory))?;
    }
    Ok(Exit::OK)
}
