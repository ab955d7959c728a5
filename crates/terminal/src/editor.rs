//! Opens a text in the person's own editor and returns what they made of it. The terminal must be free: whoever reads
//! from it waits.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use crate::console::Console;
use crate::limits;
use config::failure::{Failure, Result};

/// Opens a text in `$VISUAL`, `$EDITOR` or `vi`. `suffix` tells the editor the kind of text, such as `.json`.
pub async fn edit(console: &Console, text: &str, suffix: &str) -> Result<String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Failure::failed(format!("{what}: {error}"));
    // Only this user can read it: a command may contain a secret.
    let mut file = tempfile::Builder::new()
        .prefix("obey-")
        .suffix(suffix)
        .tempfile()
        .map_err(|error| failed("cannot make a file for the editor", &error))?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.flush())
        .map_err(|error| failed("cannot write the file for the editor", &error))?;
    let set = ["VISUAL", "EDITOR"].into_iter().find_map(|name| console.vars.get(name));
    let command = set.map_or_else(|| "vi".to_owned(), |command| command.to_string_lossy().into_owned());
    // As git and others do: the variable is a command line of the shell.
    let status = tokio::process::Command::new("/bin/sh")
        .args(["-c", &format!("{command} \"$1\""), "sh"])
        .arg(file.path())
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .status()
        .await
        .map_err(|error| failed("cannot start the editor", &error))?;
    if !status.success() {
        return Err(Failure::failed(format!(
            "the editor {command:?} ended with {status}; nothing was changed"
        ))
        .with_hint("set VISUAL or EDITOR to an editor that works here"));
    }
    // Editors may replace the file, so it is opened anew.
    let mut changed = String::new();
    std::fs::File::open(file.path())
        .and_then(|file| file.take(limits::EDITED_MAX_BYTES).read_to_string(&mut changed))
        .map_err(|error| failed("cannot read what the editor wrote", &error))?;
    Ok(changed)
}
