//! Memories whose vectors lie on a Qdrant server: found there, made good where it lost something, and found without it
//! while it is away. The server is the published contract over the published client's local mode; a real one is tried
//! where `QDRANT_URL` names it.

mod server;

use anyhow::{Context, Result, ensure};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline;
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};

use super::bench::Bench;
use server::Server;

/// What the daemon says when it begins to ask the server.
const SERVING: &str = "memories are searched in Qdrant";
/// And when it no longer does.
const ALONE: &str = "memories are searched in the daemon's own file";

/// A daemon whose vectors are made by a model and lie on a server at this address.
async fn begin(world: World, url: &str) -> Result<Bench> {
    world.set_env("OBEY_MEMORY_EMBEDDINGS_URL", world.model().openai_base_url());
    world.set_env("OBEY_MEMORY_EMBEDDINGS_MODEL", "small");
    world.set_env("OBEY_MEMORY_QDRANT_URL", url);
    let daemon = Daemon::start(&world).await?;
    Ok(Bench { world, daemon })
}

async fn store(bench: &Bench, session: &str, title: &str) -> Result<String> {
    let memory = json!({"session_id": session, "title": title, "description": title, "content": "It helped.",
        "outcome": "success"});
    let kept = bench.post("/api/v1/memory/store", memory).await?;
    Ok(kept["id"].as_str().context("no id")?.to_owned())
}

async fn titles(bench: &Bench, session: &str, query: &str, more: Value) -> Result<Vec<String>> {
    let mut search = json!({"session_id": session, "query": query});
    for (name, value) in more.as_object().into_iter().flatten() {
        search[name] = value.clone();
    }
    let found = bench.post("/api/v1/memory/search", search).await?;
    let memories = found["memories"].as_array().cloned().unwrap_or_default();
    Ok(memories.iter().filter_map(|memory| memory["title"].as_str().map(str::to_owned)).collect())
}

async fn judge(bench: &Bench, session: &str, id: &str, helpful: bool, comment: &str) -> Result<()> {
    let feedback = json!({"session_id": session, "memory_id": id, "helpful": helpful, "comment": comment});
    bench.post("/api/v1/memory/feedback", feedback).await.map(drop)
}

/// What `obey doctor` says about the server: how it stands, and why.
async fn finding(bench: &Bench) -> Result<(String, String)> {
    let findings = Cli::new(&bench.world).run(&["--json", "doctor"]).await?.json()?;
    let list = findings.as_array().or_else(|| findings["findings"].as_array()).cloned().unwrap_or_default();
    let found = list.iter().find(|finding| finding["check"] == "qdrant").cloned().unwrap_or(Value::Null);
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    Ok((text("state"), text("message")))
}

/// Waits until the server has exactly these memories, and returns what `obey doctor` says about it.
async fn in_step(bench: &Bench, memories: usize) -> Result<String> {
    let noun = if memories == 1 { "memory" } else { "memories" };
    found(bench, &format!("{memories} {noun} in collection "), |said, wanted| said.starts_with(wanted)).await
}

/// Waits until `obey doctor` says something about the server, and returns its whole sentence.
async fn found(bench: &Bench, wanted: &str, fits: fn(&str, &str) -> bool) -> Result<String> {
    let mut last = String::new();
    let waited = deadline::within(wanted, async {
        loop {
            last = finding(bench).await?.1;
            if fits(&last, wanted) {
                return anyhow::Ok(last.clone());
            }
        }
    });
    waited.await.and_then(|found| found).with_context(|| format!("last: {last}\n{}", bench.daemon.log()))
}

/// Waits until the daemon has said something so often.
async fn said(bench: &Bench, what: &str, times: usize) -> Result<()> {
    let log = || bench.daemon.log();
    deadline::poll(what, || (log().matches(what).count() >= times).then_some(())).await.with_context(log)
}

/// Searches until the server is asked; every answer must be right, whoever was asked.
async fn asked(bench: &Bench, server: &Server, session: &str, query: &str, wanted: &[&str]) -> Result<()> {
    deadline::within("Qdrant is asked", async {
        loop {
            let before = server.calls("Query");
            let found = titles(bench, session, query, json!({})).await?;
            ensure!(found == wanted, "{query}: {found:?}");
            if server.calls("Query") > before {
                return Ok(());
            }
        }
    })
    .await?
}

/// The server first: its process would count as one that the daemon left behind.
async fn end(bench: Bench, mut server: Server) -> Result<()> {
    server.stop().await?;
    bench.end().await
}

fn collection(finding: &str) -> Result<String> {
    let after = finding.split("collection ").nth(1).with_context(|| finding.to_owned())?;
    Ok(after.split(' ').next().unwrap_or_default().to_owned())
}

/// What must hold with every server. Ends with an empty collection.
async fn memories_by_meaning(bench: &Bench) -> Result<()> {
    let (one, two) =
        (bench.session(&bench.folder("one")?).await?, bench.session(&bench.folder("two")?).await?);
    let car = store(bench, &one, "the car will not start").await?;
    let doctor = store(bench, &one, "the doctor is late").await?;
    let cat = store(bench, &two, "the cat sleeps").await?;
    said(bench, SERVING, 1).await?;
    in_step(bench, 3).await?;
    // Nothing but the model knows that these mean the same.
    ensure!(titles(bench, &one, "automobile", json!({})).await? == ["the car will not start"]);
    ensure!(titles(bench, &one, "physician", json!({})).await? == ["the doctor is late"]);
    // In their scopes.
    ensure!(titles(bench, &one, "feline", json!({})).await?.is_empty());
    ensure!(titles(bench, &one, "feline", json!({"scope": "all"})).await? == ["the cat sleeps"]);
    ensure!(titles(bench, &one, "automobile", json!({"outcome": "failure"})).await?.is_empty());
    ensure!(titles(bench, &one, "automobile", json!({"min_confidence": 0.85})).await?.is_empty());
    judge(bench, &one, &car, true, "").await?;
    let sure = titles(bench, &one, "automobile", json!({"min_confidence": 0.85})).await?;
    ensure!(sure == ["the car will not start"], "{sure:?}");
    // What is kept is found at once, whether it was sent or not.
    let dog = store(bench, &one, "the feline chased a dog").await?;
    ensure!(titles(bench, &one, "cat", json!({})).await? == ["the feline chased a dog"]);
    for (id, session) in [(car, &one), (doctor, &one), (cat, &two), (dog, &one)] {
        judge(bench, session, &id, false, "outdated").await?;
    }
    ensure!(titles(bench, &one, "automobile", json!({"scope": "all"})).await?.is_empty());
    in_step(bench, 0).await.map(drop)
}

#[tokio::test]
async fn memories_are_found_by_meaning_through_qdrant_until_they_are_outdated() -> Result<()> {
    let world = World::new()?;
    let folder = world.path("qdrant");
    let options = ["--folder", folder.to_str().unwrap_or_default()];
    let Some(mut server) = Server::start(&world, &options).await? else { return Ok(()) };
    let bench = begin(world, &server.url()).await?;
    memories_by_meaning(&bench).await?;
    ensure!(server.calls("Query") > 0, "{:?}", server.all_calls());
    // Nothing readable was ever there.
    store(&bench, &bench.session(&bench.folder("three")?).await?, "a car in the folder of the server")
        .await?;
    let finding = in_step(&bench, 1).await?;
    server.stop().await?;
    let kept = std::fs::read(folder.join("collection").join(collection(&finding)?).join("storage.sqlite"))?;
    let holds = |text: &str| kept.windows(text.len()).any(|window| window == text.as_bytes());
    ensure!(holds("standing") && !holds("folder of the server") && !holds("three"), "readable");
    bench.end().await
}

#[tokio::test]
#[ignore = "needs a server: QDRANT_URL=http://127.0.0.1:6334 make test-all"]
async fn real_qdrant_server_finds_memories_by_meaning() -> Result<()> {
    let Some((url, key)) = tools::qdrant_server() else { return Ok(()) };
    let world = World::new()?;
    world.set_env("OBEY_MEMORY_QDRANT_COLLECTION", "obey-test");
    world.set_env("OBEY_MEMORY_QDRANT_KEY_ENV", "QDRANT_API_KEY");
    world.set_env("QDRANT_API_KEY", key);
    let bench = begin(world, &url).await?;
    memories_by_meaning(&bench).await?;
    bench.end().await
}

#[tokio::test]
async fn a_qdrant_that_was_down_or_emptied_is_made_good() -> Result<()> {
    let world = World::new()?;
    let Some(mut server) = Server::start(&world, &[]).await? else { return Ok(()) };
    let bench = begin(world, &server.url()).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    store(&bench, &session, "the car will not start").await?;
    let late = store(&bench, &session, "the doctor is late").await?;
    said(&bench, SERVING, 1).await?;
    in_step(&bench, 2).await?;
    server.stop().await?;
    // Nothing is refused, lost or missed meanwhile.
    store(&bench, &session, "the cat sleeps").await?;
    judge(&bench, &session, &late, false, "outdated").await?;
    ensure!(titles(&bench, &session, "automobile", json!({})).await? == ["the car will not start"]);
    ensure!(titles(&bench, &session, "feline", json!({})).await? == ["the cat sleeps"]);
    ensure!(titles(&bench, &session, "physician", json!({})).await?.is_empty());
    said(&bench, ALONE, 1).await?;
    let (state, message) = finding(&bench).await?;
    ensure!(state == "warning" && message.contains("does not answer"), "{state}: {message}");
    ensure!(message.contains("memory.qdrant_url") && message.contains("own file"), "{message}");
    // It comes back empty and is filled again, with what was kept while it was away.
    server.start_again(&[]).await?;
    in_step(&bench, 2).await?;
    said(&bench, SERVING, 2).await?;
    asked(&bench, &server, &session, "feline", &["the cat sleeps"]).await?;
    asked(&bench, &server, &session, "physician", &[]).await?;
    end(bench, server).await
}

#[tokio::test]
async fn a_qdrant_that_stands_still_costs_no_search() -> Result<()> {
    let world = World::new()?;
    let Some(server) = Server::start(&world, &[]).await? else { return Ok(()) };
    let bench = begin(world, &server.url()).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    store(&bench, &session, "the car will not start").await?;
    in_step(&bench, 1).await?;
    said(&bench, SERVING, 1).await?;
    server.hold(true);
    ensure!(titles(&bench, &session, "automobile", json!({})).await? == ["the car will not start"]);
    store(&bench, &session, "the cat sleeps").await?;
    ensure!(titles(&bench, &session, "feline", json!({})).await? == ["the cat sleeps"]);
    said(&bench, ALONE, 1).await?;
    server.hold(false);
    said(&bench, SERVING, 2).await?;
    in_step(&bench, 2).await?;
    end(bench, server).await
}

#[tokio::test]
async fn a_daemon_that_starts_again_sends_qdrant_nothing_twice() -> Result<()> {
    let world = World::new()?;
    let folder = world.path("qdrant");
    let options = ["--folder", folder.to_str().unwrap_or_default()];
    let Some(mut server) = Server::start(&world, &options).await? else { return Ok(()) };
    let mut bench = begin(world, &server.url()).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    store(&bench, &session, "the car will not start").await?;
    store(&bench, &session, "the doctor is late").await?;
    in_step(&bench, 2).await?;
    bench.daemon.terminate().await?;
    server.stop().await?;
    server.start_again(&options).await?;
    let sent = server.calls("Upsert");
    bench.daemon.restart().await?;
    ensure!(titles(&bench, &session, "automobile", json!({})).await? == ["the car will not start"]);
    said(&bench, SERVING, 2).await?;
    asked(&bench, &server, &session, "automobile", &["the car will not start"]).await?;
    ensure!(server.calls("Upsert") == sent, "{:?}", server.all_calls());
    end(bench, server).await
}

#[tokio::test]
async fn vectors_of_another_maker_lie_elsewhere_in_qdrant() -> Result<()> {
    let world = World::new()?;
    let Some(server) = Server::start(&world, &[]).await? else { return Ok(()) };
    let mut bench = begin(world, &server.url()).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    store(&bench, &session, "the car will not start").await?;
    store(&bench, &session, "the doctor is late").await?;
    let small = collection(&in_step(&bench, 2).await?)?;
    bench.world.set_env("OBEY_MEMORY_EMBEDDINGS_MODEL", "large");
    bench.daemon.restart().await?;
    titles(&bench, &session, "anything", json!({})).await?;
    let large = collection(&in_step(&bench, 2).await?)?;
    ensure!(small != large);
    asked(&bench, &server, &session, "automobile", &["the car will not start"]).await?;
    // The older ones are taken away.
    let calls = server.all_calls();
    let last = calls.iter().rposition(|call| call["collection"] == small.as_str()).context("never asked")?;
    ensure!(calls[last]["call"] == "Delete", "{calls:?}");
    end(bench, server).await
}

#[tokio::test]
async fn a_wrong_key_and_another_width_are_named_with_their_settings() -> Result<()> {
    let world = World::new()?;
    let Some(mut server) = Server::start(&world, &["--key", "the-key-of-the-server"]).await? else {
        return Ok(());
    };
    world.set_env("OBEY_MEMORY_QDRANT_KEY_ENV", "MY_QDRANT_KEY");
    world.set_env("MY_QDRANT_KEY", "another-key-altogether");
    let mut bench = begin(world, &server.url()).await?;
    let session = bench.session(&bench.folder("one")?).await?;
    store(&bench, &session, "the car will not start").await?;
    ensure!(titles(&bench, &session, "automobile", json!({})).await? == ["the car will not start"]);
    said(&bench, ALONE, 1).await?;
    let (state, message) = finding(&bench).await?;
    ensure!(state == "broken" && message.contains("does not accept the key in MY_QDRANT_KEY"), "{message}");
    ensure!(message.contains("memory.qdrant_key_env"), "{message}");
    ensure!(!message.contains("another-key") && !bench.daemon.log().contains("another-key"), "{message}");
    // With the right one everything is made good.
    bench.world.set_env("MY_QDRANT_KEY", "the-key-of-the-server");
    bench.daemon.restart().await?;
    ensure!(titles(&bench, &session, "automobile", json!({})).await? == ["the car will not start"]);
    let name = collection(&in_step(&bench, 1).await?)?;
    // Somebody made a collection of this name for other vectors.
    server.stop().await?;
    server.start_again(&["--collection", &format!("{name}:7")]).await?;
    let wanted = "was made for other vectors (7 numbers, here 48";
    let message = found(&bench, wanted, |said, wanted| said.contains(wanted)).await?;
    ensure!(message.contains("memory.qdrant_collection") && message.contains(&name), "{message}");
    ensure!(titles(&bench, &session, "automobile", json!({})).await? == ["the car will not start"]);
    said(&bench, "was made for other vectors", 1).await?;
    end(bench, server).await
}

#[tokio::test]
async fn an_address_that_is_no_url_ends_the_start_with_the_setting_named() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_MEMORY_QDRANT_URL", "127.0.0.1:6334");
    let started = Cli::new(&world).run(&["serve"]).await?;
    let said = format!("{started:?}");
    ensure!(said.contains("OBEY-1014") && said.contains("memory.qdrant_url"), "{said}");
    let findings = Cli::new(&world).run(&["--json", "doctor"]).await?.json()?.to_string();
    ensure!(findings.contains("memory.qdrant_url: must begin with http:// or https://"), "{findings}");
    Ok(())
}
