//! `obey audit verify FILE`: verifies an export of the audit without a daemon.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use config::exit::Exit;
use config::failure::{Failure, Result};
use serde_json::json;
use terminal::console::Console;
use terminal::output::TextStyle;

/// Verifies an export without a daemon.
pub(crate) fn verify(console: &mut Console, file: &Path, key: Option<&str>) -> Result<Exit> {
    let opened = File::open(file)
        .map_err(|error| Failure::failed(format!("{} cannot be read: {error}", file.display())))?;
    let verdict = storage::audit::verify_export(BufReader::new(opened).lines(), key);
    let exit = if verdict.broken.is_none() { Exit::OK } else { Exit::FAILED };
    let (line, reason) = verdict.broken.clone().unwrap_or_default();
    if console.out.json {
        console.out.json(&json!({
            "intact": verdict.broken.is_none(),
            "entries": verdict.entries,
            "first_seq": verdict.first_seq,
            "last_seq": verdict.last_seq,
            "head": verdict.head,
            "public_key": verdict.public_key,
            "key_was_given": key.is_some(),
            "broken_at_line": line,
            "reason": reason,
        }))?;
        return Ok(exit);
    }
    if verdict.broken.is_some() {
        console.out.styled_line(&[(TextStyle::Bad, &format!("broken at line {line}: {reason}"))])?;
        return Ok(exit);
    }
    let range = format!("{} to {}", verdict.first_seq, verdict.last_seq);
    console.out.line(&format!("intact: {} entries ({range})", verdict.entries))?;
    console.out.line(&format!("head: {}", verdict.head))?;
    let whose = if key.is_some() { "as given" } else { "compare with `obey audit verify` of that machine" };
    console.out.line(&format!("key: {} ({whose})", verdict.public_key))?;
    Ok(exit)
}
