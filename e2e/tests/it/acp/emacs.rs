//! Emacs itself, without a screen: acp.el, the library of agent-shell, drives a session. `OBEY_TEST_ACP_EL` names the folder with
//! acp.el, which is in a registry of Emacs (MELPA) and not in one of those that the other tests use.

use anyhow::{Result, ensure};
use e2e::deadline::within;
use e2e::tools;

use super::assert_no_agent;
use crate::stage::{Agent, stage};

const PROMPT: &str = r#"SCRIPT: [{"text":"hello "},{"tool":"Bash","input":{"command":"ls"},"ask":true,"result":"x"},{"text":"emacs"}]"#;

#[tokio::test]
#[ignore = "needs Emacs and acp.el: make test-all"]
async fn emacs_drives_a_session_with_the_published_library() -> Result<()> {
    let Some(folder) = tools::acp_el() else { return Ok(()) };
    let stage = stage!(Agent::Scripted);
    let obey = stage.world.obey()?;
    if let Some(folder) = obey.parent() {
        stage.world.prepend_path(folder)?;
    }
    let mut emacs = tokio::process::Command::from(stage.world.command("emacs"));
    emacs.args(["-Q", "--batch", "-L"]).arg(folder).arg("-l");
    emacs.arg(tools::repository().join("e2e/tests/acp/emacs.el"));
    emacs.env("OBEY_TEST_PROMPT", PROMPT).current_dir(stage.world.project()).kill_on_drop(true);
    let output = within("the end of Emacs", emacs.output()).await??;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = text(&output.stdout);
    ensure!(output.status.success(), "{printed}\n{}", text(&output.stderr));
    ensure!(printed.contains("protocol 1, ended end_turn, asked 1, said hello emacs"), "{printed}");
    assert_no_agent(&stage).await?;
    stage.close().await
}
