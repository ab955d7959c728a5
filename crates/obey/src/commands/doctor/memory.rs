//! Who makes the vectors of memories, and whether all memories have one: those of another maker cannot be compared, so that
//! such memories are found by their words alone until they have a new one.

use std::path::Path;

use workbench::memory::Standing;

use super::Finding;
use crate::config::Config;
use crate::daemon::bench::maker;

const CHECK: &str = "memory";

pub(super) async fn examine(config: &Config, data_dir: &Path) -> Finding {
    let maker = match maker(config.memory.clone()).await {
        Ok(maker) => maker,
        Err(error) => {
            return Finding::broken(
                CHECK,
                error.message,
                "correct the section [memory] of the configuration",
            );
        }
    };
    let name = maker.name();
    match Standing::of_file(&data_dir.join("daemon.db"), &maker) {
        Ok(Some(Standing { memories, waiting: 0, .. })) => {
            Finding::ok(CHECK, format!("{memories} memories, vectors by {name}"))
        }
        Ok(Some(Standing { memories, waiting, .. })) => Finding::warning(
            CHECK,
            format!(
                "{waiting} of {memories} memories have no vector by {name}; they are found by their words alone"
            ),
            "the daemon makes them when memories are next used; if they stay, its log says why",
        ),
        Ok(None) => Finding::ok(CHECK, format!("no memories yet, vectors by {name}")),
        Err(error) => Finding::warning(CHECK, error.to_string(), "see the finding about the data folder"),
    }
}
