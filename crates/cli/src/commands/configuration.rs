//! `obey config`: the settings with their sources, a check, and an edit that keeps no broken file.

use std::path::{Path, PathBuf};

use config::exit::Exit;
use config::failure::{Failure, Result};
use config::file::{self, Config, Flags};
use config::paths;
use config::running::Running;
use serde_json::{Value, json};

use crate::local::LocalCommands;
use cli_args::everyday::ConfigCommand;
use terminal::console::{Autostart, Console};
use terminal::editor;
use terminal::output::TextStyle;

/// Settings whose values are secrets.
const SECRET: &[&str] = &["openclaw.token", "gitlab.token", "github.token"];

/// What a new configuration file begins with.
const TEMPLATE: &str = "# The configuration of obey. Every key and its value now: obey config show\n\
# After a change: obey upgrade (agents keep running)\n\n";

pub(super) async fn run(
    console: &mut Console,
    command: ConfigCommand,
    local: &dyn LocalCommands,
) -> Result<Exit> {
    match command {
        ConfigCommand::Show => show(console).await,
        ConfigCommand::Edit => edit(console, local).await,
        ConfigCommand::Check { file } => check(console, file.as_deref(), local).await,
    }
}

/// One setting.
struct Setting {
    key: String,
    value: Value,
    /// `default`, `file` or the variable.
    source: String,
}

async fn show(console: &mut Console) -> Result<Exit> {
    let path = own_file(console)?;
    let settings = settings(console, &path)?;
    let campaigns = campaign_modes(console).await;
    if console.out.json {
        let list: Vec<Value> = settings
            .iter()
            .map(|setting| json!({"key": setting.key, "value": setting.value, "source": setting.source}))
            .collect();
        let campaigns: Vec<Value> =
            campaigns.iter().map(|(name, mode)| json!({"campaign": name, "mode": mode})).collect();
        console.out.json(&json!({"file": path, "settings": list, "campaign_modes": campaigns}))?;
        return Ok(Exit::OK);
    }
    let there = if path.exists() { "" } else { " (not there)" };
    console.out.styled_line(&[(TextStyle::Dim, &format!("# {}{there}", path.display()))])?;
    let mut section = "";
    for setting in &settings {
        let (of, key) = setting.key.split_once('.').unwrap_or(("", &setting.key));
        if of != section {
            console.out.line("")?;
            console.out.styled_line(&[(TextStyle::Bold, &format!("[{of}]"))])?;
            section = of;
        }
        let line = format!("{key} = {}", setting.value);
        let (style, source) = match setting.source.as_str() {
            "default" => (TextStyle::Dim, String::new()),
            source => (TextStyle::Plain, format!("   # {source}")),
        };
        // A key that is not set has no value to show, only its name.
        let line = if setting.value.is_null() { format!("# {key}") } else { line };
        console.out.styled_line(&[(style, &line), (TextStyle::Accent, &source)])?;
    }
    if !campaigns.is_empty() {
        console.out.line("")?;
        console
            .out
            .styled_line(&[(TextStyle::Bold, "# Modes of campaigns (obey campaign set NAME --mode M)")])?;
    }
    for (name, mode) in &campaigns {
        console.out.line(&format!("# {name} = {}", json!(mode)))?;
    }
    tell_unused(console, &path).await?;
    Ok(Exit::OK)
}

/// Says that the running daemon started before the file was changed, and how it gets the change.
async fn tell_unused(console: &mut Console, path: &Path) -> Result<()> {
    let socket = console.socket()?;
    let runs = client::connection::probe(&socket).await.unwrap_or(false);
    if runs && Running::is_older_than(&socket, path) {
        let note = "The file was changed after the daemon had started. The daemon uses it after: obey upgrade (agents keep running)";
        console.out.note(TextStyle::Warn, note)?;
    }
    Ok(())
}

/// Returns the campaigns that have a mode of their own, with it. The daemon keeps them; without a running one none are shown.
async fn campaign_modes(console: &mut Console) -> Vec<(String, String)> {
    let Ok(client) = console.connect_with(Autostart::Never).await else { return Vec::new() };
    let campaigns = client::resolve::campaigns(&client).await.unwrap_or_default();
    let named = campaigns.into_iter().filter(|campaign| !campaign.mode.is_empty());
    named.map(|campaign| (campaign.name, campaign.mode)).collect()
}

/// Returns every setting, those without a section first.
fn settings(console: &Console, path: &Path) -> Result<Vec<Setting>> {
    let text = file::read_file(path)?;
    let named = text.as_deref().map(|text| (path, text));
    let now = file::load(named, &console.vars, &Flags::default())?;
    let in_file: toml::Table = text.as_deref().unwrap_or_default().parse().unwrap_or_default();
    let now = serde_json::to_value(&now).unwrap_or_default();
    let mut settings: Vec<Setting> = file::keys()
        .into_iter()
        .map(|(key, _)| {
            let (section, name) = key.split_once('.').unwrap_or(("", &key));
            let value = if section.is_empty() { &now[name] } else { &now[section][name] };
            let is_in_file = match section {
                "" => in_file.contains_key(name),
                section => {
                    in_file.get(section).and_then(toml::Value::as_table).is_some_and(|t| t.contains_key(name))
                }
            };
            let variable = file::variable(&key);
            let source = match (console.vars.set(&variable).is_some(), is_in_file) {
                (true, _) => variable,
                (false, true) => "file".to_owned(),
                (false, false) => "default".to_owned(),
            };
            let is_secret = SECRET.contains(&key.as_str()) && !value.is_null();
            let value = if is_secret { json!("(not shown)") } else { value.clone() };
            Setting { value, source, key }
        })
        .collect();
    settings.sort_by_key(|setting| setting.key.contains('.'));
    Ok(settings)
}

async fn check(console: &mut Console, given: Option<&Path>, local: &dyn LocalCommands) -> Result<Exit> {
    let path = match given {
        Some(given) => {
            let path = console.folder.join(given);
            if !path.exists() {
                return Err(Failure::usage(format!("{} does not exist", path.display())));
            }
            path
        }
        None => own_file(console)?,
    };
    let text = file::read_file(&path)?;
    check_text(console, &path, text.as_deref(), local)?;
    let there = text.is_some();
    if console.out.json {
        console.out.json(&json!({"file": path, "exists": there, "ok": true}))?;
    } else if there {
        console.out.line(&format!("{}: no problem found", path.display()))?;
        if given.is_none() {
            tell_unused(console, &path).await?;
        }
    } else {
        console.out.line(&format!("{} does not exist; every setting has its default", path.display()))?;
    }
    Ok(Exit::OK)
}

fn check_text(
    console: &Console,
    path: &Path,
    text: Option<&str>,
    local: &dyn LocalCommands,
) -> Result<Config> {
    let config = file::load(text.map(|text| (path, text)), &console.vars, &Flags::default())?;
    local.check_config(&config)?;
    Ok(config)
}

/// Lets the person change the file until it is right or they give up; a broken one is never kept.
async fn edit(console: &mut Console, local: &dyn LocalCommands) -> Result<Exit> {
    if !console.can_ask() {
        return Err(Failure::usage(
            "an editor needs a terminal; write the file yourself, then: obey config check",
        ));
    }
    let path = own_file(console)?;
    let before = file::read_file(&path)?;
    let mut text = before.clone().unwrap_or_else(|| TEMPLATE.to_owned());
    loop {
        text = editor::edit(console, &text, ".toml").await?;
        if Some(&text) == before.as_ref() || text == TEMPLATE {
            console.out.line("Nothing was changed.")?;
            return Ok(Exit::OK);
        }
        let Err(failure) = check_text(console, &path, Some(&text), local) else { break };
        console.out.say(TextStyle::Bad, &failure.for_people())?;
        console.out.ask("Edit it again? [Y/n] ")?;
        let answer = console.input.single_line().unwrap_or_else(|| "n".to_owned());
        console.out.answered();
        if answer.trim().to_lowercase().starts_with('n') {
            console.out.line("Nothing was changed.")?;
            return Ok(Exit::FAILED);
        }
    }
    write(&path, &text)?;
    console.out.line(&format!("Wrote {}", path.display()))?;
    console.out.note(TextStyle::Dim, "A running daemon uses it after: obey upgrade (agents keep running)")?;
    Ok(Exit::OK)
}

/// Replaces the file as a whole, readable by its owner only.
fn write(path: &Path, text: &str) -> Result<()> {
    let failed = |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder).map_err(failed)?;
    // A link, as people with dotfiles have it, stays one.
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().unwrap_or(folder);
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    file.persist(&target).map_err(|error| failed(error.error))?;
    Ok(())
}

fn own_file(console: &Console) -> Result<PathBuf> {
    paths::config_file(None, &console.vars, &console.paths)
}
