//! `obey memory setup`: fetches the small sentence model, so that memories are found by meaning.

use std::path::Path;

use config::exit::Exit;
use config::failure::{Failure, Result};
use serde_json::json;
use terminal::console::Console;
use terminal::output::TextStyle;
use workbench::embed::{Embedder, setup};

/// Fetches the model into the data folder and tries it. A daemon that runs uses it after its next start.
pub(crate) async fn run(console: &mut Console, from: Option<String>) -> Result<Exit> {
    let configured = console.config()?.data_dir;
    let data_dir =
        configured.map_or_else(|| console.paths.data_dir.clone(), |path| console.paths.expand(&path));
    let from = match from {
        Some(from) if ["http://", "https://", "file://"].iter().any(|kind| from.starts_with(kind)) => from,
        Some(folder) => console.folder.join(folder).to_string_lossy().into_owned(),
        None => setup::SOURCE.to_owned(),
    };
    let to = setup::folder(&data_dir);
    let mut shown = 0;
    let fetched = setup::fetch(setup::FILES, &from, &to, |name, there, all| {
        let percent = there * 100 / all.max(1);
        if percent != shown {
            shown = percent;
            // The terminal is not worth failing for.
            let text = format!("{name} {} {percent} % of {} MB", bar(percent), all.div_ceil(1_000_000));
            let _ = console.out.status(&text);
        }
    });
    let fetched = fetched.await;
    console.out.hide_status()?;
    fetched.map_err(failed)?;
    let embedder = load(&to)?;
    if console.out.json {
        console.out.json(&json!({"model": setup::MODEL, "folder": to, "embedder": embedder.name()}))?;
    } else {
        console.out.line(&format!("{} is in {}.", setup::MODEL, to.display()))?;
        console
            .out
            .note(TextStyle::Dim, "The daemon uses it after its next start: obey stop && obey ping")?;
    }
    Ok(Exit::OK)
}

/// Draws how much is done.
fn bar(percent: u64) -> String {
    const CELLS: usize = 20;
    let full = usize::try_from(percent.min(100)).unwrap_or(0) * CELLS / 100;
    format!("[{}{}]", "#".repeat(full), "-".repeat(CELLS - full))
}

fn load(folder: &Path) -> Result<Embedder> {
    Embedder::from_folder(folder).map_err(failed)
}

fn failed(error: domain::Error) -> Failure {
    Failure::coded(error.code, error.message)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_bar_is_as_full_as_what_is_done() {
        assert_eq!(super::bar(0), "[--------------------]");
        assert_eq!(super::bar(49), "[#########-----------]");
        assert_eq!(super::bar(100), "[####################]");
    }
}
