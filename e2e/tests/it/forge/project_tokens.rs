//! Projects with tokens of their own: each is asked with its own one, and none is tried in place of another.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Result, ensure};
use e2e::forge_server::{ForgeServer, TOKEN};

use super::column;
use crate::stage::{Agent, Stage};

const OF_THE_SERVER: &str = "glpat-tokenOfTheServer";

#[tokio::test]
async fn each_project_is_asked_with_its_own_token_and_no_other() -> Result<()> {
    let server = ForgeServer::start("/git", "")?;
    let (mut own, mut open) = Default::default();
    let stage = Stage::open_with(Agent::Scripted, |world| {
        own = world.project().join("../own.token");
        open = world.project().join("../open.token");
        write(&own, 0o600)?;
        write(&open, 0o644)?;
        world.set_env("GITLAB_URL", server.url());
        world.set_env("GITLAB_TOKEN", OF_THE_SERVER);
        let shown = own.display();
        world.set_env("OBEY_GITLAB_PROJECTS", format!("group={shown},other/open={}", open.display()));
        Ok(())
    });
    let Some(stage) = stage.await? else { return Ok(()) };
    let cli = stage.cli();
    // The server takes one token; that of the server's own section is not it.
    let listed = cli.json(&["gitlab", "mr", "list", "--project", "group/demo"]).await?;
    ensure!(column(&listed, "merge_requests", "iid")?.len() == 3, "{listed}");
    let refused = cli.run(&["gitlab", "mr", "list", "--project", "another/demo"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("does not take the token"), "{refused:?}");
    let refused = cli.run(&["gitlab", "mr", "list", "--project", "other/open"]).await?;
    ensure!(refused.code != Some(0) && refused.stderr.contains("others can read it"), "{refused:?}");
    let used: Vec<(bool, String)> = server
        .asked()
        .into_iter()
        .map(|asked| (asked.path.contains("/projects/group%2Fdemo/"), asked.token.unwrap_or_default()))
        .collect();
    ensure!(
        used.len() == 2
            && used.contains(&(true, TOKEN.to_owned()))
            && used.contains(&(false, OF_THE_SERVER.to_owned())),
        "{used:?}"
    );
    // Replaced without a restart: the file is read at every call.
    std::fs::write(&own, "glpat-revoked")?;
    let refused = cli.run(&["gitlab", "mr", "list", "--project", "group/demo"]).await?;
    ensure!(refused.stderr.contains("does not take the token"), "{refused:?}");
    stage.close().await
}

fn write(file: &Path, mode: u32) -> Result<()> {
    std::fs::write(file, TOKEN)?;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode))?;
    Ok(())
}
