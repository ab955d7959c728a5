//! The commands of the guide, run as they are printed, in one world. A person beside them answers what agents ask.

use std::fs;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::clients::Clients;
use e2e::tools;
use e2e::world::World;
use tokio_stream::StreamExt;
use wire::obey::v1::overview_service_client::OverviewServiceClient;
use wire::obey::v1::{AnswerPermissionRequest, Decision, WatchOverviewRequest};

/// Pages whose `sh` blocks are run, in this order.
const PAGES: [&str; 3] = ["terminal.md", "tasks.md", "languages.md"];

#[tokio::test]
async fn every_command_of_the_guide_works_as_printed() -> Result<()> {
    let world = World::new()?;
    fs::create_dir_all(world.path("config/obey"))?;
    // No real agent is installed here.
    fs::write(world.path("config/obey/config.toml"), "[sessions]\ndefault_provider = \"scripted\"\n")?;
    let programs = tools::obey()?;
    world.prepend_path(programs.parent().context("no folder")?)?;
    Cli::new(&world).ok(&["ping"]).await?;
    let answering = tokio::spawn(allow_everything(Clients::connect(&world.socket()).await?));
    let mut count = 0;
    for page in PAGES {
        let text = fs::read_to_string(tools::repository().join("docs/guide").join(page))?;
        for command in commands(&text) {
            super::run(&world, "sh", &["-ec", &command], &world.project())
                .await
                .with_context(|| format!("{page}: {command}"))?;
            count += 1;
        }
    }
    ensure!(count > 20, "only {count} commands were found");
    ensure!(!answering.is_finished(), "nobody answered what agents asked");
    answering.abort();
    Ok(())
}

/// Returns the commands of the `sh` blocks of a page.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_command = false;
    for line in text.lines() {
        match line {
            "```sh" => is_command = true,
            "```" => is_command = false,
            line if is_command && !line.trim().is_empty() => found.push(line.to_owned()),
            _ => {}
        }
    }
    found
}

/// Allows what any agent asks.
async fn allow_everything(mut clients: Clients) -> Result<()> {
    let mut overview = OverviewServiceClient::new(clients.channel.clone());
    let mut updates = overview.watch(WatchOverviewRequest { filter: None }).await?.into_inner();
    while let Some(update) = updates.next().await {
        for session in update?.sessions {
            for request in session.requests {
                let answer = AnswerPermissionRequest {
                    session_id: session.session_id.clone(),
                    request_id: request.request_id,
                    decision: Decision::AllowOnce.into(),
                    ..AnswerPermissionRequest::default()
                };
                clients.requests.answer_permission(answer).await?;
            }
        }
    }
    Ok(())
}
