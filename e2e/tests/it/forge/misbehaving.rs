//! Servers and callers that misbehave: each gets a clear error, and the token goes nowhere else.

use anyhow::Result;
use e2e::forge_server::TOKEN;
use serde_json::json;

use super::{Forges, column};
use crate::stage::Agent;

#[tokio::test]
async fn what_a_server_answers_badly_is_told_by_name() -> Result<()> {
    let Some(forges) = Forges::open(Agent::Scripted).await? else { return Ok(()) };
    let cli = forges.stage.cli();
    let elsewhere = format!("http://127.0.0.1:{}/group/demo", forges.other.port());
    for (project, code, words) in [
        ("bad/denied", "OBEY-1061", "does not allow this; it says: 403 Forbidden"),
        ("bad/none", "OBEY-1062", "or it is private"),
        ("bad/limited", "OBEY-1063", "retry in 3600 s"),
        ("bad/broken", "OBEY-1064", "answers 500"),
        ("bad/garbage", "OBEY-1064", "no JSON; is it a GitLab?"),
        ("bad/object", "OBEY-1064", "something else than a list"),
        ("bad/rows", "OBEY-1064", "without an id"),
        ("bad/deep", "OBEY-1064", "no JSON"),
        ("bad/moved", "OBEY-1064", "redirects to 127.0.0.1, which is not followed"),
        ("bad/circle", "OBEY-1064", "redirects in a circle"),
        ("bad/echo", "OBEY-1061", "your token"),
        // Nobody gave a token for that server.
        (elsewhere.as_str(), "OBEY-1060", "wants a token; set gitlab.token_file or GITLAB_TOKEN"),
        ("http://127.0.0.1:9/group/demo", "OBEY-1064", "cannot be reached"),
        ("http://example.com/group/demo", "OBEY-1001", "use https"),
        ("nothing", "OBEY-1001", "is no project"),
    ] {
        let refused = cli.run(&["gitlab", "mr", "list", "--project", project]).await?;
        assert!(refused.code.is_some_and(|code| code != 0), "{refused:?}");
        assert!(refused.stderr.contains(code) && refused.stderr.contains(words), "{project}: {refused:?}");
        assert!(!refused.stderr.contains(TOKEN), "{refused:?}");
    }
    let busy = cli.json(&["gitlab", "mr", "list", "--project", "bad/busy"]).await?;
    assert_eq!(busy["merge_requests"], json!([]));
    // A server that says for ever that there is more is not read for ever.
    let endless = cli.json(&["gitlab", "mr", "list", "--project", "bad/endless", "--limit", "300"]).await?;
    assert!(column(&endless, "merge_requests", "iid")?.len() < 100, "{}", endless["total"]);
    let asked = forges.server.asked().iter().filter(|asked| asked.path.contains("endless")).count();
    assert!(asked <= 30, "{asked}");
    let huge = cli.json(&["gitlab", "mr", "list", "--project", "bad/huge"]).await?;
    let title = huge["merge_requests"][0]["title"].as_str().unwrap_or_default().to_owned();
    assert!(title.len() <= 1024 && title.ends_with('…'), "{}", title.len());
    for args in [
        &["gitlab", "mr", "list", "--state", "odd"][..],
        &["gitlab", "mr", "show", "x"],
        &["gitlab", "mr", "list", "--limit", "301"],
    ] {
        assert_eq!(cli.run(args).await?.code, Some(2), "{args:?}");
    }
    // The repository's remote decides nothing that was not configured.
    for (remote, words) in [
        ("git@github.com:octo/demo.git", "use obey github"),
        ("https://gitlab.elsewhere.test/group/demo.git", "set gitlab.url"),
        ("/srv/git/demo.git", "no address of a GitLab"),
    ] {
        let project = forges.stage.world.project();
        let set = ["remote", "set-url", "origin", remote];
        forges.stage.world.command("git").args(set).current_dir(project).output()?;
        let refused = cli.run(&["gitlab", "issue", "list"]).await?;
        assert!(refused.code == Some(2) && refused.stderr.contains(words), "{remote}: {refused:?}");
    }
    forges.check_token_stayed();
    let log = forges.stage.daemon.log();
    assert!(!log.contains(TOKEN), "the token is in the daemon's log");
    forges.stage.close().await
}
