//! The embedder of memories, and whether all memories have a vector of it. Vectors of another embedder are
//! not comparable, so only words find such memories until they have a new one.

use std::path::Path;

use domain::ErrorCode;
use workbench::memory::EmbeddingStatus;
use workbench::memory::mirror::Mirrored;

use super::Finding;
use config::file::Config;
use daemon::workbench::{embedder, memory_settings, qdrant};

const CHECK: &str = "memory";
const QDRANT: &str = "qdrant";

/// The repair for invalid settings.
const SECTION: &str = "correct the section [memory] of the configuration";

pub(super) async fn examine(config: &Config, data_dir: &Path) -> Finding {
    let settings = memory_settings(&config.memory, data_dir);
    let has_model = settings.model_folder.is_some() || !settings.embeddings_url.is_empty();
    let embedder = match embedder(settings).await {
        Ok(embedder) => embedder,
        Err(error) => {
            return Finding::broken(CHECK, error.message, SECTION);
        }
    };
    let name = embedder.name();
    // Words find most paraphrases, a model nearly all.
    let hint = if has_model { "" } else { "; `obey memory setup` fetches a model that finds more (91 MB)" };
    match EmbeddingStatus::of_file(&data_dir.join("daemon.db"), &embedder) {
        Ok(Some(EmbeddingStatus { memories, waiting: 0, .. })) => {
            Finding::ok(CHECK, format!("{}, vectors by {name}{hint}", all(memories)))
        }
        Ok(Some(EmbeddingStatus { memories, waiting, .. })) => Finding::warning(
            CHECK,
            format!(
                "{waiting} of {memories} memories have no vector by {name}; they are found by their words alone"
            ),
            "the daemon makes them when memories are next used; if they stay, its log says why",
        ),
        Ok(None) => Finding::ok(CHECK, format!("no memories yet, vectors by {name}{hint}")),
        Err(error) => Finding::warning(CHECK, error.to_string(), "see the finding about the data folder"),
    }
}

/// Checks whether the configured Qdrant server is usable and has every memory; `None` if none is configured.
pub(super) async fn examine_qdrant(config: &Config, data_dir: &Path) -> Option<Finding> {
    let server = match qdrant(&config.memory) {
        Ok(server) => server?,
        Err(error) => return Some(Finding::broken(QDRANT, error.message, SECTION)),
    };
    // An invalid embedder is a finding of `examine`.
    let embedder = embedder(config.memory.clone()).await.ok()?;
    let seen = Mirrored::of_file(&data_dir.join("daemon.db"), &embedder, &server).await;
    Some(match seen {
        Ok(Mirrored { version, collection, memories, there }) if there == memories => Finding::ok(
            QDRANT,
            format!("{} in collection {collection} at {}, Qdrant {version}", all(memories), server.url()),
        ),
        Ok(Mirrored { collection, memories, there, .. }) => Finding::warning(
            QDRANT,
            format!("{there} of {memories} memories in collection {collection} at {}", server.url()),
            "the daemon makes this good when memories are next used; if it stays so, its log says why",
        ),
        Err(error) if error.code == ErrorCode::ConfigInvalid => {
            Finding::broken(QDRANT, format!("{}; {ALONE}", error.message), SECTION)
        }
        Err(error) => Finding::warning(
            QDRANT,
            format!("{}; {ALONE}", error.message),
            "start the server, or correct memory.qdrant_url; the daemon sends what is missing then",
        ),
    })
}

/// The consequence of an unusable server.
const ALONE: &str = "until it can be used memories are searched in the daemon's own file";

fn all(memories: u64) -> String {
    if memories == 1 { "1 memory".to_owned() } else { format!("{memories} memories") }
}
