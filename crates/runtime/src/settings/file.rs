//! One settings file: read with care, because a repository may have put anything in its place, and replaced as a whole.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};
use serde_json::{Map, Value};

use super::{Layer, keys};
use crate::{ids, limits};

/// Reads and checks a file; one that is not there says nothing.
pub(super) fn read(path: &Path) -> Result<Layer, Error> {
    let layer: Layer = serde_json::from_value(Value::Object(read_map(path)?))
        .map_err(|error| unusable(path, &error.to_string()))?;
    keys::check(&layer).map_err(|error| unusable(path, &error.message))?;
    Ok(layer)
}

fn read_map(path: &Path) -> Result<Map<String, Value>, Error> {
    let Some(text) = read_text(path)? else { return Ok(Map::new()) };
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(unusable(path, "is no JSON object")),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

/// Reads a plain file of bounded size. A pipe in its place must not make us wait, nor a device feed us for ever.
fn read_text(path: &Path) -> Result<Option<String>, Error> {
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(unusable(path, &error.to_string())),
    };
    let plain = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if !plain {
        return Err(unusable(path, "is no plain file"));
    }
    let mut text = String::new();
    let most = limits::SETTINGS_FILE_MAX_BYTES;
    file.take(most + 1).read_to_string(&mut text).map_err(|error| unusable(path, &error.to_string()))?;
    if text.len() as u64 > most {
        return Err(unusable(path, &format!("is larger than {most} bytes")));
    }
    Ok(Some(text))
}

/// What to do where a link stands in the file's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    /// People keep such files elsewhere.
    Follow,
    /// A repository could make us write elsewhere.
    Refuse,
}

/// Puts a change into a file. What is not part of the change stays as it is, known or not.
pub(super) fn change(path: &Path, change: &Layer, links: Links) -> Result<(), Error> {
    let is_link = path.is_symlink() || path.parent().is_some_and(Path::is_symlink);
    if links == Links::Refuse && is_link {
        return Err(unusable(path, "is a link, which is not followed; put a plain file in its place"));
    }
    let mut map = read_map(path)?;
    let change = serde_json::to_value(change).map_err(|error| unusable(path, &error.to_string()))?;
    if let Value::Object(change) = change {
        merge(&mut map, change);
    }
    // What comes out must be readable again, or nothing is written.
    let layer: Layer = serde_json::from_value(Value::Object(map.clone()))
        .map_err(|error| unusable(path, &error.to_string()))?;
    keys::check(&layer).map_err(|error| unusable(path, &error.message))?;
    let mut text = serde_json::to_string_pretty(&map).map_err(|error| unusable(path, &error.to_string()))?;
    text.push('\n');
    replace(path, &text).map_err(|error| {
        Error::new(ErrorCode::StorageFailed, format!("{} cannot be written: {error}", path.display()))
    })
}

/// Nulls and empty lists are what a change does not say.
fn merge(map: &mut Map<String, Value>, change: Map<String, Value>) {
    for (key, value) in change {
        match value {
            Value::Null => {}
            Value::Array(items) if items.is_empty() && key != "auto_approve_directories" => {}
            Value::Object(fields) => {
                let entry = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
                match entry {
                    Value::Object(map) => merge(map, fields),
                    other => *other = Value::Object(fields),
                }
            }
            value => {
                map.insert(key, value);
            }
        }
    }
    map.retain(|_, value| !matches!(value, Value::Object(map) if map.is_empty()));
}

/// Writes beside the file and puts it in its place.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let target: PathBuf = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = target.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let beside = folder.join(format!(".settings.{}.tmp", ids::unique()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        if let Ok(metadata) = fs::metadata(&target) {
            fs::set_permissions(&beside, metadata.permissions())?;
        }
        fs::rename(&beside, &target)?;
        fs::File::open(folder)?.sync_all()
    })();
    if written.is_err() {
        // It may never have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn unusable(path: &Path, what: &str) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{}: {what}", path.display()))
}
