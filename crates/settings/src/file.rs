//! One settings file. It is read defensively, because a repository may contain anything at its path, and
//! replaced atomically.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use domain::{Error, ErrorCode};
use serde_json::{Map, Value};

use super::{SettingsLayer, keys};
use crate::limits;
use host::{ids, project_file};

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SettingsFileLocation {
    /// A file of the user. Links are followed, since people keep such files elsewhere and link to them.
    Own(PathBuf),
    /// A file in a project, which others may have written: links that lead out of it are not followed.
    Project { folder: PathBuf, below: &'static str },
}

impl SettingsFileLocation {
    pub(super) fn path(&self) -> PathBuf {
        match self {
            Self::Own(path) => path.clone(),
            Self::Project { folder, below } => folder.join(below),
        }
    }
}

/// Reads and checks a file; a missing file has no settings.
pub(super) fn read(place: &SettingsFileLocation) -> Result<SettingsLayer, Error> {
    let path = &place.path();
    let layer: SettingsLayer = serde_json::from_value(Value::Object(read_map(place)?))
        .map_err(|error| unusable(path, &error.to_string()))?;
    keys::check(&layer).map_err(|error| unusable(path, &error.message))?;
    Ok(layer)
}

fn read_map(place: &SettingsFileLocation) -> Result<Map<String, Value>, Error> {
    let path = &place.path();
    let Some(text) = read_text(place)? else { return Ok(Map::new()) };
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(unusable(path, "is no JSON object")),
        Err(error) => Err(unusable(path, &error.to_string())),
    }
}

/// Reads the text of a file; `None` if it is missing.
pub(super) fn read_text(place: &SettingsFileLocation) -> Result<Option<String>, Error> {
    let most = limits::SETTINGS_FILE_MAX_BYTES;
    let text = match place {
        SettingsFileLocation::Own(path) => project_file::read_own_text(path, most),
        SettingsFileLocation::Project { folder, below } => {
            project_file::read_text(folder, Path::new(below), most)
        }
    };
    text.map_err(|error| unusable(&place.path(), &error.to_string()))
}

/// Applies a change to a file. Everything that is not part of the change stays, known or not.
pub(super) fn change(place: &SettingsFileLocation, change: &SettingsLayer) -> Result<(), Error> {
    let path = &place.path();
    let is_link = path.is_symlink() || path.parent().is_some_and(Path::is_symlink);
    // A repository could make us write elsewhere.
    if matches!(place, SettingsFileLocation::Project { .. }) && is_link {
        return Err(unusable(path, "is a link, which is not followed; put a regular file in its place"));
    }
    let mut map = read_map(place)?;
    let change = serde_json::to_value(change).map_err(|error| unusable(path, &error.to_string()))?;
    if let Value::Object(change) = change {
        merge(&mut map, change);
    }
    // The result must be readable again, or nothing is written.
    let layer: SettingsLayer = serde_json::from_value(Value::Object(map.clone()))
        .map_err(|error| unusable(path, &error.to_string()))?;
    keys::check(&layer).map_err(|error| unusable(path, &error.message))?;
    let mut text = serde_json::to_string_pretty(&map).map_err(|error| unusable(path, &error.to_string()))?;
    text.push('\n');
    replace(path, &text).map_err(|error| {
        Error::new(ErrorCode::StorageFailed, format!("{} cannot be written: {error}", path.display()))
    })
}

/// Merges a change into a map. Nulls and empty lists mean no change.
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

/// Writes a temporary file beside the target and renames it.
pub(super) fn replace(path: &Path, text: &str) -> std::io::Result<()> {
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
        // The file may not exist.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Returns the error about a file that cannot be used.
pub(super) fn unusable(path: &Path, what: &str) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{}: {what}", path.display()))
}
