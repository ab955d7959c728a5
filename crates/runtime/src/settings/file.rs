//! One settings file: read with care, because a repository may have put anything in its place, and replaced as a whole.

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
    /// The user's own; people keep such files elsewhere and put a link in their place.
    Own(PathBuf),
    /// In a project, which somebody else may have written: no link leads out of it.
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

/// Reads and checks a file; one that is not there says nothing.
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

/// Reads the text of a file; one that is not there says nothing.
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

/// Puts a change into a file. What is not part of the change stays as it is, known or not.
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
    // What comes out must be readable again, or nothing is written.
    let layer: SettingsLayer = serde_json::from_value(Value::Object(map.clone()))
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
        // It may never have been made.
        let _ = fs::remove_file(&beside);
    }
    written
}

pub(super) fn unusable(path: &Path, what: &str) -> Error {
    Error::new(ErrorCode::ConfigInvalid, format!("{}: {what}", path.display()))
}
