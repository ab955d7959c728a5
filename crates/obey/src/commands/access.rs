//! `obey access`: who may call what. The table is part of the program; no daemon is contacted.

use serde_json::{Map, Value};

use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::TextStyle;
use crate::table::Table;

/// Prints the access table; with `--json` one object per line.
pub(super) fn run(console: &mut Console) -> Result<Exit> {
    let rows = surface::access::rows().map(surface::access::cells);
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
        table.row(cells.map(|(_, cell)| if cell.is_empty() { "-".to_owned() } else { cell }).into());
    }
    for line in table.lines(None) {
        console.out.line(&line)?;
    }
    console
        .out
        .note(TextStyle::Dim, "docs/access.md says what the words mean; what has no row is refused")?;
    Ok(Exit::OK)
}
