//! Edits one MCP server in a TOML file: `[mcp_servers.obey]`. The rest of the file keeps its bytes.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::clients::Entry;

const CONTAINER: &str = "mcp_servers";
const NAME: &str = "obey";

/// Adds or replaces the entry. Returns the same text if it is already there.
pub(super) fn set(text: &str, entry: &Entry) -> Result<String, String> {
    let mut document = read(text)?;
    if let Some(known) = find(&document)? {
        if is(known, entry) {
            return Ok(text.to_owned());
        }
    } else {
        // Appended as a separate table: no byte before it changes.
        let added = format!("{text}{}{}", gap(text), block(entry));
        if read(&added).is_ok_and(|document| matches!(find(&document), Ok(Some(known)) if is(known, entry))) {
            return Ok(added);
        }
    }
    // There is another entry of this name, or the servers are written inline.
    let servers = document.entry(CONTAINER).or_insert_with(|| Item::Table(Table::new()));
    let in_line = servers.is_value();
    let servers = servers.as_table_like_mut().ok_or_else(|| format!("{CONTAINER} is no table"))?;
    let empty = || if in_line { value(InlineTable::new()) } else { Item::Table(Table::new()) };
    let server = servers.entry(NAME).or_insert_with(empty);
    let server = server.as_table_like_mut().ok_or_else(|| format!("{CONTAINER}.{NAME} is no table"))?;
    // The user's other settings of the entry, such as timeouts, stay.
    server.remove("url");
    put(server, "command", value(entry.command.as_str()));
    put(server, "args", value(entry.args.iter().collect::<Array>()));
    kept(text, document.to_string())
}

/// Replaces a value and keeps its comments.
fn put(server: &mut dyn TableLike, name: &str, value: Item) {
    match server.get_mut(name) {
        Some(there) => *there = value,
        None => drop(server.insert(name, value)),
    }
}

/// Removes the entry. Returns the same text if it is not there.
pub(super) fn remove(text: &str) -> Result<String, String> {
    let mut document = read(text)?;
    if find(&document)?.is_none() {
        return Ok(text.to_owned());
    }
    // Remove exactly what was added if possible: then every other byte stays, including line ends.
    let cut = without_block(text);
    if matches!(read(&cut).as_ref().map(find), Ok(Ok(None))) && kept(text, cut.clone()).is_ok() {
        return Ok(cut);
    }
    if let Some(servers) = document.get_mut(CONTAINER).and_then(Item::as_table_like_mut) {
        servers.remove(NAME);
    }
    kept(text, document.to_string())
}

/// Removes the lines from the entry's heading to the next heading; at the end of a file also the empty line
/// before them.
fn without_block(text: &str) -> String {
    let mut rest = String::with_capacity(text.len());
    let mut is_ours = false;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            is_ours = line.trim() == format!("[{CONTAINER}.{NAME}]");
        }
        if !is_ours {
            rest.push_str(line);
        }
    }
    if is_ours && rest.ends_with("\n\n") {
        rest.pop();
    }
    rest
}

fn read(text: &str) -> Result<DocumentMut, String> {
    text.parse::<DocumentMut>().map_err(|error| {
        let line =
            error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        format!("line {line} is not TOML: {}", error.message())
    })
}

fn find(document: &DocumentMut) -> Result<Option<&dyn TableLike>, String> {
    let Some(servers) = document.get(CONTAINER) else { return Ok(None) };
    let servers = servers.as_table_like().ok_or_else(|| format!("{CONTAINER} is no table"))?;
    match servers.get(NAME) {
        None => Ok(None),
        Some(server) => {
            server.as_table_like().map(Some).ok_or_else(|| format!("{CONTAINER}.{NAME} is no table"))
        }
    }
}

fn is(known: &dyn TableLike, entry: &Entry) -> bool {
    let args = known.get("args").and_then(Item::as_array);
    let args = args.map(|args| args.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Vec<_>>());
    let wanted: Vec<Option<String>> = entry.args.iter().cloned().map(Some).collect();
    known.get("command").and_then(Item::as_str) == Some(&entry.command)
        && args == Some(wanted)
        && !known.contains_key("url")
}

/// The separator between the existing text and an added table.
fn gap(text: &str) -> &'static str {
    match text {
        "" => "",
        text if text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

fn block(entry: &Entry) -> String {
    let args: Array = entry.args.iter().collect();
    format!("[{CONTAINER}.{NAME}]\ncommand = {}\nargs = {args}\n", value(entry.command.as_str()))
}

/// Accepts a result only if nothing but the entry has changed.
fn kept(before: &str, after: String) -> Result<String, String> {
    let without = |text: &str| -> Option<toml::Value> {
        let mut all: toml::Table = toml::from_str(text).ok()?;
        let servers = all.get_mut(CONTAINER).and_then(toml::Value::as_table_mut);
        let is_empty = servers.is_none_or(|servers| {
            servers.remove(NAME);
            servers.is_empty()
        });
        if is_empty {
            all.remove(CONTAINER);
        }
        Some(toml::Value::Table(all))
    };
    let (one, other) = (without(before), without(&after));
    if one.is_some() && one == other { Ok(after) } else { Err("cannot be changed without harm".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { command: "/opt/o bey".to_owned(), args: vec!["mcp".to_owned()] }
    }

    const BLOCK: &str = "[mcp_servers.obey]\ncommand = \"/opt/o bey\"\nargs = [\"mcp\"]\n";

    #[test]
    fn an_entry_is_added_behind_everything_and_taken_out_again() {
        for before in [
            "",
            "# mine\nmodel = 'gpt'   # odd\n\n[tui]\nx=1\n",
            "[mcp_servers.lab]\ncommand = \"lab\" # keep\n",
            "a = 1",
            "a = 1\r\n\r\n[b]\r\nc = 2\r\n",
        ] {
            let after = set(before, &entry()).unwrap();
            assert!(after.starts_with(before) && after.ends_with(BLOCK), "{after}");
            assert_eq!(set(&after, &entry()).unwrap(), after, "a second time changes nothing");
            assert_eq!(remove(&after).unwrap().trim_end(), before.trim_end(), "{after}");
            assert_eq!(remove(before).unwrap(), before);
        }
    }

    #[test]
    fn an_entry_in_the_middle_is_replaced_where_it_stands() {
        let before =
            "[mcp_servers.obey]\n# fast\ncommand = \"old\"\nstartup_timeout_sec = 9\n\n[z]\ny = 1 # why\n";
        let after = set(before, &entry()).unwrap();
        assert_eq!(
            after,
            "[mcp_servers.obey]\n# fast\ncommand = \"/opt/o bey\"\nstartup_timeout_sec = 9\nargs = [\"mcp\"]\n\n[z]\ny = 1 # why\n"
        );
        let inline = "mcp_servers = { lab = { command = \"lab\" } } # all\nx = 1\n";
        let after = set(inline, &entry()).unwrap();
        assert!(
            after.contains("lab = { command = \"lab\" }") && after.ends_with("# all\nx = 1\n"),
            "{after}"
        );
        assert_eq!(set(&after, &entry()).unwrap(), after);
        let gone = remove(&after).unwrap();
        assert!(gone.contains("lab = { command = \"lab\" }") && gone.ends_with("# all\nx = 1\n"), "{gone}");
        assert!(!gone.contains("obey"), "{gone}");
    }

    #[test]
    fn a_file_that_is_broken_is_named_with_its_line() {
        assert!(set("a = 1\nb = = 2\n", &entry()).unwrap_err().starts_with("line 2 is not TOML"));
        assert_eq!(set("mcp_servers = 1", &entry()).unwrap_err(), "mcp_servers is no table");
        assert_eq!(remove("[mcp_servers]\nobey = 1").unwrap_err(), "mcp_servers.obey is no table");
    }
}
