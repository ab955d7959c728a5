//! `obey access`: who may call what. The table is part of the program; no daemon is contacted.

use serde_json::{Map, Value};

use crate::local::LocalCommands;
use config::exit::Exit;
use config::failure::Result;
use terminal::console::Console;
use terminal::output::TextStyle;
use terminal::table::Table;

/// Prints the access table; with `--json` one object per line.
pub(super) fn run(console: &mut Console, local: &dyn LocalCommands) -> Result<Exit> {
    let rows = local.access_rows().into_iter();
    if console.out.json {
        for cells in rows {
            let object: Map<String, Value> =
                cells.into_iter().map(|(name, cell)| (name.to_owned(), Value::String(cell))).collect();
            console.out.json(&object)?;
        }
        return Ok(Exit::OK);
    }
    let mut table = Table::new(&["METHOD", "WHO", "SESSION", "EFFECT", "NEEDS", "AGENTS"]);
    for cells in rows {
        table.row(
            cells.into_iter().map(|(_, cell)| if cell.is_empty() { "-".to_owned() } else { cell }).collect(),
        );
    }
    for line in table.lines(None) {
        console.out.line(&line)?;
    }
    console.out.note(TextStyle::Dim, "What has no row is refused.")?;
    Ok(Exit::OK)
}
