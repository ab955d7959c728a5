//! Every secret of the scrubber's corpus that has a form of its own, said by each kind of agent in small pieces: none reaches the
//! journal, a surface or a file.

use anyhow::{Context, Result, ensure};
use e2e::deadline::poll;
use e2e::files;
use serde_json::json;

use crate::betcode::talk as betcode;
use crate::stage::{Agent, Stage, stage};

#[allow(dead_code, clippy::panic, clippy::unwrap_used)]
#[path = "../../../../../crates/scrub/tests/it/made_up.rs"]
mod made_up;

crate::stage::scenarios_of!(scripted, Scripted, no_secret_of_the_corpus_is_shown_or_kept);
crate::stage::scenarios_of!(real_claude, Claude, no_secret_of_the_corpus_is_shown_or_kept);
crate::stage::scenarios_of!(real_codex, Codex, no_secret_of_the_corpus_is_shown_or_kept);
crate::stage::scenarios_of!(openai, Openai, no_secret_of_the_corpus_is_shown_or_kept);
crate::stage::scenarios_of!(openai_chat, OpenaiChat, no_secret_of_the_corpus_is_shown_or_kept);
crate::stage::scenarios_of!(real_acp, Acp, no_secret_of_the_corpus_is_shown_or_kept);

/// One secret of each rule whose secrets are known without a word beside them.
fn corpus() -> Result<Vec<String>> {
    let corpus: toml::Table = toml::from_str(include_str!("../../../../../crates/scrub/corpus/rules.toml"))?;
    let rules = corpus["rule"].as_array().context("rules")?;
    let mut secrets = Vec::new();
    for rule in rules {
        let (id, template) = (rule["id"].as_str(), rule["positive"][0].as_str());
        let (id, template) = (id.context("an id")?, template.context("an example")?);
        let filled = made_up::expand(template, &mut made_up::Dice::new(&format!("e2e {id}")));
        if let Some(secret) = filled.strip_prefix('«').and_then(|rest| rest.strip_suffix('»'))
            && !secret.contains(['«', '\n', '\\', '"'])
        {
            secrets.push(secret.to_owned());
        }
    }
    Ok(secrets)
}

/// What of a secret must be nowhere: its second half, without the word its kind begins with.
fn kept_part(secret: &str) -> &str {
    &secret[secret.len() / 2..]
}

fn shown<'s>(secrets: &'s [String], text: &str) -> Vec<&'s str> {
    secrets.iter().map(String::as_str).filter(|secret| text.contains(kept_part(secret))).collect()
}

async fn no_secret_of_the_corpus_is_shown_or_kept(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let id = stage.create().await?;
    let secrets = corpus()?;
    ensure!(secrets.len() > 100, "{} secrets", secrets.len());
    let text: String = secrets.iter().map(|secret| format!("this one: {secret} and\n")).collect();
    // Small pieces cut each secret at many places, and each time at others.
    for size in [7, 13] {
        let steps = json!([{"text": text, "chunks": text.len() / size}]);
        let turn = stage.turn(&id, &stage.script(&id, &format!("corpus {size}"), &steps)).await?;
        let streamed = format!("{turn:?}");
        ensure!(shown(&secrets, &streamed).is_empty(), "streamed: {:?}", shown(&secrets, &streamed));
    }
    check_surfaces(&stage, &id, &secrets).await?;
    let texts: Vec<&str> = secrets.iter().map(|secret| kept_part(secret)).collect();
    poll("the files without secrets", || {
        let folders = ["data/obey", "run/obey", "state/obey"].map(|folder| stage.world.path(folder));
        folders
            .iter()
            .all(|folder| files::holders(folder, &texts).is_ok_and(|found| found.is_empty()))
            .then_some(())
    })
    .await?;
    stage.close().await
}

/// Reads the session back with everything that shows one.
async fn check_surfaces(stage: &Stage, id: &str, secrets: &[String]) -> Result<()> {
    let journal = stage.journal(id).await?;
    let marks = journal.iter().map(|event| format!("{event:?}").matches("[REDACTED:").count()).sum::<usize>();
    ensure!(marks > secrets.len(), "{marks} marks for {} secrets", secrets.len());
    let mut texts = vec![("ReadEvents", format!("{journal:?}"))];
    for args in [
        ["session", "log", id, "--json"].as_slice(),
        &["session", "log", id],
        &["session", "info", id, "--json"],
    ] {
        texts.push(("the command line", stage.cli().ok(args).await?.stdout));
    }
    texts.push(("betcode", format!("{:?}", betcode::stored(&stage.clients, id, 0).await?)));
    for (surface, text) in texts {
        let found = shown(secrets, &text);
        ensure!(found.is_empty(), "{surface} shows {found:?}");
    }
    Ok(())
}
