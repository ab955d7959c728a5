//! Neovim itself, without a screen: codecompanion.nvim, set up as the guide says, drives a session. `OBEY_TEST_NEOVIM` names the
//! folder with the plugin and plenary.nvim, which are in no registry that the other tests use.

use anyhow::{Result, ensure};
use e2e::deadline::within;
use e2e::tools;

use super::assert_no_agent;
use crate::stage::{Agent, stage};

const PROMPT: &str = r#"SCRIPT: [{"text":"hello "},{"tool":"Bash","input":{"command":"ls"},"ask":true,"result":"x"},{"text":"neovim"}]"#;

#[tokio::test]
#[ignore = "needs Neovim and codecompanion.nvim: make test-all"]
async fn neovim_drives_a_session_with_the_published_plugin() -> Result<()> {
    let Some(folder) = tools::neovim_plugins() else { return Ok(()) };
    let stage = stage!(Agent::Scripted);
    let obey = stage.world.obey()?;
    if let Some(folder) = obey.parent() {
        stage.world.prepend_path(folder)?;
    }
    let script = tools::repository().join("e2e/tests/acp/neovim.lua");
    let mut neovim = tokio::process::Command::from(stage.world.command("nvim"));
    neovim.args(["--headless", "--clean", "-c"]).arg(format!("luafile {}", script.display()));
    neovim.env("OBEY_TEST_NEOVIM", folder).env("OBEY_TEST_PROMPT", PROMPT);
    neovim.current_dir(stage.world.project()).kill_on_drop(true);
    let output = within("the end of Neovim", neovim.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    ensure!(output.status.success(), "{printed}\n{}", text(&output.stderr));
    ensure!(printed.contains("ended 1, asked 1,") && printed.contains("You selected: Accept"), "{printed}");
    // The plugin has one key for all options that remember something, so there is one.
    ensure!(printed.matches("Always accept").count() == 1, "{printed}");
    let said = printed.rsplit("You selected").next().unwrap_or_default();
    ensure!(printed.contains("hello") && said.contains("neovim"), "{printed}");
    assert_no_agent(&stage).await?;
    stage.close().await
}
