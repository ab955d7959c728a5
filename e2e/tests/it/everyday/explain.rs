//! Help that needs no daemon: errors, configuration, manual pages, completion.

use anyhow::Result;
use e2e::cli::Cli;
use e2e::world::World;
use serde_json::json;

#[tokio::test]
async fn an_error_is_explained_without_a_daemon_and_near_codes_are_suggested() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let page = cli.ok(&["explain", "OBEY-2001"]).await?;
    assert!(page.stdout.starts_with("# OBEY-2001"), "{page:?}");
    assert!(page.stdout.contains("**What to do.**"), "{page:?}");
    let document = cli.json(&["explain", "2001"]).await?;
    assert_eq!(document["code"], "OBEY-2001");
    let near = cli.run(&["explain", "OBEY-2007"]).await?;
    assert_eq!(near.code, Some(2), "{near:?}");
    assert!(near.stderr.contains("did you mean OBEY-200"), "{near:?}");
    let all = cli.ok(&["explain"]).await?;
    assert!(all.stdout.contains("OBEY-1015"), "{all:?}");
    assert!(world.processes().is_empty(), "nothing was started");
    Ok(())
}

#[tokio::test]
async fn a_failure_names_a_command_and_no_file_that_is_not_there() -> Result<()> {
    let world = World::new()?;
    let failed = Cli::new(&world).run(&["session", "info", "nobody", "--no-autostart"]).await?;
    assert_eq!(failed.code, Some(3), "{failed:?}");
    assert!(failed.stderr.contains("obey explain OBEY-1015"), "{failed:?}");
    assert!(!failed.stderr.contains("docs/"), "{failed:?}");
    Ok(())
}

#[tokio::test]
async fn the_configuration_is_shown_with_its_sources_and_checked() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let file = world.path("config/obey/config.toml");
    std::fs::create_dir_all(world.path("config/obey"))?;
    std::fs::write(
        &file,
        "[sessions]\nmax_active = 7\n[openclaw]\ntoken = \"hush-hush\"\n[budgets]\nday = \"usd:20 calls:9\"\ncampaigns = [\"shop=usd:5\"]\n",
    )?;
    let shown = cli.json(&["config", "show"]).await?;
    let of = |key: &str| {
        let all = shown["settings"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|setting| setting["key"] == key).unwrap_or_default()
    };
    assert_eq!(
        (&of("sessions.max_active")["value"], &of("sessions.max_active")["source"]),
        (&7.into(), &"file".into())
    );
    assert_eq!(of("log_level")["source"], "default");
    let budgets = ["day", "campaign", "campaign_day", "campaigns", "campaigns_day"];
    let budgets = budgets.map(|key| of(&format!("budgets.{key}")));
    assert_eq!(
        budgets.each_ref().map(|setting| &setting["value"]),
        [&json!("usd:20 calls:9"), &json!(""), &json!(""), &json!(["shop=usd:5"]), &json!([])]
    );
    assert_eq!(
        budgets.each_ref().map(|setting| setting["source"].as_str().unwrap_or_default()),
        ["file", "default", "default", "file", "default"]
    );
    assert_eq!(of("listen")["source"], "OBEY_LISTEN");
    assert!(!shown.to_string().contains("hush-hush"), "{shown}");
    cli.ok(&["config", "check"]).await?;
    std::fs::write(&file, "[budgets]\nday = \"euro:5\"\n")?;
    let wrong = cli.run(&["config", "check"]).await?;
    assert!(wrong.code == Some(2) && wrong.stderr.contains("budgets.day"), "{wrong:?}");
    std::fs::write(&file, "[session]\nmax_active = 7\n")?;
    let wrong = cli.run(&["config", "check"]).await?;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("did you mean sessions"), "{wrong:?}");
    assert!(wrong.stderr.contains("obey config show"), "{wrong:?}");
    Ok(())
}

#[tokio::test]
async fn there_is_a_manual_page_for_every_command() -> Result<()> {
    let world = World::new()?;
    let cli = Cli::new(&world);
    let page = cli.ok(&["man", "session", "create"]).await?;
    assert!(page.stdout.contains(".TH") && page.stdout.contains("campaign"), "{page:?}");
    let unknown = cli.run(&["man", "sesion"]).await?;
    assert!(unknown.stderr.contains("did you mean session"), "{unknown:?}");
    let folder = world.path("man").display().to_string();
    cli.ok(&["man", "--dir", &folder]).await?;
    for page in ["obey.1", "obey-run.1", "obey-session-create.1"] {
        assert!(world.path("man").join(page).is_file(), "{page} is missing");
    }
    Ok(())
}

#[tokio::test]
async fn help_without_a_command_ends_with_2_and_is_grouped() -> Result<()> {
    let world = World::new()?;
    let help = Cli::new(&world).run(&[]).await?;
    assert_eq!(help.code, Some(2), "{help:?}");
    let text = format!("{}{}", help.stdout, help.stderr);
    assert!(text.contains("Work with agents:") && text.contains("  run "), "{text}");
    Ok(())
}
