//! Memories by other makers of vectors: an endpoint, a model in a folder. What one maker made never meets what another
//! made, and no maker is needed to keep or to find something.

use anyhow::{Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline;
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};

use super::bench::Bench;

async fn store(bench: &Bench, session: &str, title: &str) -> Result<()> {
    let memory = json!({"session_id": session, "title": title, "description": title, "content": "It helped.",
        "outcome": "success"});
    bench.post("/api/v1/memory/store", memory).await.map(drop)
}

async fn titles(bench: &Bench, session: &str, query: &str) -> Result<Vec<String>> {
    let found = bench.post("/api/v1/memory/search", json!({"session_id": session, "query": query})).await?;
    let memories = found["memories"].as_array().cloned().unwrap_or_default();
    Ok(memories.iter().filter_map(|memory| memory["title"].as_str().map(str::to_owned)).collect())
}

/// What `obey doctor` says about memories.
async fn finding(bench: &Bench) -> Result<String> {
    let findings = Cli::new(&bench.world).run(&["--json", "doctor"]).await?.json()?;
    let list = findings.as_array().or_else(|| findings["findings"].as_array()).cloned().unwrap_or_default();
    let memory = list.iter().find(|finding| finding["check"] == "memory").cloned().unwrap_or(Value::Null);
    Ok(memory["message"].as_str().unwrap_or_default().to_owned())
}

/// Waits until every memory has a vector by the maker in use.
async fn caught_up(bench: &Bench, maker: &str) -> Result<()> {
    deadline::within("all memories have vectors", async {
        loop {
            let finding = finding(bench).await?;
            if finding.contains(&format!("vectors by {maker}")) {
                return anyhow::Ok(());
            }
            tokio::task::yield_now().await;
        }
    })
    .await?
}

async fn begin(world: World) -> Result<Bench> {
    let daemon = Daemon::start(&world).await?;
    Ok(Bench { world, daemon })
}

#[tokio::test]
async fn an_endpoint_makes_vectors_and_a_change_of_maker_never_mixes_them() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_MEMORY_EMBEDDINGS_URL", world.model().openai_base_url());
    world.set_env("OBEY_MEMORY_EMBEDDINGS_MODEL", "small");
    world.set_env("OBEY_MEMORY_EMBEDDINGS_KEY_ENV", "MY_EMBEDDINGS_KEY");
    world.set_env("MY_EMBEDDINGS_KEY", "key-of-the-test");
    let mut bench = begin(world).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    for title in ["the car will not start", "the doctor is late", "water the garden"] {
        store(&bench, &session, title).await?;
    }
    // Nothing but the endpoint knows what the made-up word means.
    ensure!(titles(&bench, &session, "brumbrum").await? == ["the car will not start"]);
    ensure!(titles(&bench, &session, "physician").await? == ["the doctor is late"]);
    let asked = bench.world.model().requests();
    ensure!(asked.iter().any(|request| {
        request.path == "/v1/embeddings"
            && request.body["model"] == "small"
            && request
                .headers
                .iter()
                .any(|(name, value)| name == "authorization" && value == "Bearer key-of-the-test")
    }));
    // Another model, with vectors of another width: all are made again.
    bench.world.set_env("OBEY_MEMORY_EMBEDDINGS_MODEL", "large");
    bench.daemon.restart().await?;
    let said = finding(&bench).await?;
    ensure!(said.contains("3 of 3 memories have no vector by endpoint:large@"), "{said}");
    titles(&bench, &session, "anything").await?;
    caught_up(&bench, "endpoint:large@").await?;
    ensure!(titles(&bench, &session, "brumbrum").await? == ["the car will not start"]);
    // And back to the built-in vectors, which do not know it.
    bench.world.remove_env("OBEY_MEMORY_EMBEDDINGS_URL");
    bench.daemon.restart().await?;
    ensure!(titles(&bench, &session, "brumbrum").await?.is_empty());
    ensure!(titles(&bench, &session, "car start").await? == ["the car will not start"]);
    bench.end().await
}

#[tokio::test]
async fn an_endpoint_that_fails_costs_no_memory_and_no_search() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_MEMORY_EMBEDDINGS_URL", world.model().openai_base_url());
    world.set_env("OBEY_MEMORY_EMBEDDINGS_MODEL", "small");
    let bench = begin(world).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    store(&bench, &session, "the car, but the endpoint is overloaded").await?;
    let said = finding(&bench).await?;
    ensure!(said.contains("1 of 1 memories have no vector by endpoint:small@"), "{said}");
    // By its words, and whatever the endpoint says.
    ensure!(titles(&bench, &session, "car").await?.len() == 1);
    ensure!(titles(&bench, &session, "car, but the endpoint is overloaded").await?.len() == 1);
    store(&bench, &session, "the doctor is late").await?;
    ensure!(titles(&bench, &session, "physician").await? == ["the doctor is late"]);
    bench.end().await
}

#[tokio::test]
async fn real_model_in_a_folder_finds_what_was_said_in_other_words() -> Result<()> {
    let Some(folder) = tools::sentence_model()? else { return Ok(()) };
    let world = World::new()?;
    world.set_env("OBEY_MEMORY_MODEL_FOLDER", folder);
    let bench = begin(world).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    for title in ["Kittens sleep all day", "The train was delayed", "Invoices must be paid within a month"] {
        store(&bench, &session, title).await?;
    }
    for (query, title) in [
        ("young cats are tired", "Kittens sleep all day"),
        ("late railway arrival", "The train was delayed"),
        ("deadline for bills", "Invoices must be paid within a month"),
    ] {
        let found = titles(&bench, &session, query).await?;
        ensure!(found.first().is_some_and(|first| first == title), "{query}: {found:?}");
    }
    let said = finding(&bench).await?;
    ensure!(said.contains("3 memories, vectors by folder:model:"), "{said}");
    bench.end().await
}

#[tokio::test]
async fn a_folder_that_holds_no_model_is_named_with_what_is_wrong() -> Result<()> {
    let world = World::new()?;
    let folder = world.path("no-model");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config.json"), r#"{"model_type": "gpt2"}"#)?;
    world.set_env("OBEY_MEMORY_MODEL_FOLDER", &folder);
    let bench = begin(world).await?;
    let said = finding(&bench).await?;
    ensure!(said.contains("no-model/config.json"), "{said}");
    bench.end().await
}
