//! Files of a session's folder by parts of their paths, for clients that complete names. Lists are kept for a moment, so that
//! typing is answered at once. Follows no link: no path leads out of the folder. Reads no file.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use domain::{Error, ErrorCode, SessionId};
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

use crate::supervisor::Supervisor;
use crate::{git, limits};

/// Files that were found, the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundFiles {
    /// Relative to the folder.
    pub paths: Vec<String>,
    /// The folder has more files than are looked at.
    pub is_cut: bool,
}

/// The files of a folder at one moment.
#[derive(Debug)]
struct FileList {
    paths: Vec<ListedPath>,
    is_cut: bool,
    read_at: Instant,
}

#[derive(Debug)]
struct ListedPath {
    path: String,
    /// Folders above it.
    depth: usize,
}

impl From<String> for ListedPath {
    fn from(path: String) -> Self {
        let depth = path.bytes().filter(|byte| *byte == b'/').count();
        Self { path, depth }
    }
}

/// The lists of files that were read lately, by folder.
#[derive(Debug, Default)]
pub(crate) struct ProjectFiles {
    lists: Mutex<HashMap<PathBuf, Arc<FileList>>>,
    /// One folder is read at a time: a page asks again with every letter.
    reading: tokio::sync::Mutex<()>,
}

impl Supervisor {
    /// Finds files of a session's folder, at most so many; 0: some.
    pub async fn find_files(&self, id: &SessionId, text: &str, limit: usize) -> Result<FoundFiles, Error> {
        if text.len() > limits::FILE_TEXT_MAX_BYTES {
            let most = limits::FILE_TEXT_MAX_BYTES;
            return Err(Error::invalid("text", format_args!("is longer than {most} bytes")));
        }
        let folder = self.snapshot(id).await?.spec.working_dir.clone();
        let limit = if limit == 0 { limits::FOUND_FILES_DEFAULT } else { limit };
        let list = self.project_files().list(&folder).await?;
        let (text, limit) = (text.to_owned(), limit.min(limits::FOUND_FILES_MAX));
        let search = move || find(&folder, &list, &text, limit);
        tokio::task::spawn_blocking(search).await.map_err(broken)
    }
}

impl ProjectFiles {
    /// Returns the files of a folder, read anew unless that was a moment ago.
    async fn list(&self, folder: &Path) -> Result<Arc<FileList>, Error> {
        if let Some(list) = self.recent(folder) {
            return Ok(list);
        }
        let _turn = self.reading.lock().await;
        if let Some(list) = self.recent(folder) {
            return Ok(list);
        }
        let list = Arc::new(read(folder).await?);
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|_, list| list.read_at.elapsed() < limits::FILE_LIST_TTL);
        if lists.len() < limits::FILE_LISTS_MAX {
            lists.insert(folder.to_owned(), Arc::clone(&list));
        }
        Ok(list)
    }

    fn recent(&self, folder: &Path) -> Option<Arc<FileList>> {
        let lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.get(folder).filter(|list| list.read_at.elapsed() < limits::FILE_LIST_TTL).cloned()
    }
}

fn broken(error: tokio::task::JoinError) -> Error {
    Error::new(ErrorCode::SessionError, "the files cannot be listed").with_detail(error.to_string())
}

/// Reads the files of a folder: those that git knows or would add, or all if it is in no repository.
async fn read(folder: &Path) -> Result<FileList, Error> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    let listed = git::run(folder, &args.map(OsStr::new)).await;
    let (paths, is_cut): (Vec<String>, bool) = match listed {
        Ok(printed) => {
            let names = printed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
            // A name that is no text cannot be typed.
            (names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect(), false)
        }
        Err(_) => {
            let folder = folder.to_owned();
            let walk = tokio::task::spawn_blocking(move || walk(&folder)).await;
            walk.map_err(broken)?
        }
    };
    let is_cut = is_cut || paths.len() > limits::FILE_LIST_MAX;
    let paths = paths.into_iter().take(limits::FILE_LIST_MAX).map(ListedPath::from).collect();
    Ok(FileList { paths, is_cut, read_at: Instant::now() })
}

/// Returns the files below a folder that is in no repository, hidden folders left out, and whether there are more.
fn walk(root: &Path) -> (Vec<String>, bool) {
    let end = Instant::now() + limits::FILE_WALK_WAIT;
    let mut paths = Vec::new();
    let mut folders = std::collections::VecDeque::from([(root.to_owned(), String::new())]);
    while let Some((folder, prefix)) = folders.pop_front() {
        // A folder that cannot be read has no names to offer.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            if paths.len() >= limits::FILE_LIST_MAX || Instant::now() > end {
                return (paths, true);
            }
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else { continue };
            if kind.is_file() {
                paths.push(format!("{prefix}{name}"));
            } else if kind.is_dir() && !name.starts_with('.') {
                folders.push_back((entry.path(), format!("{prefix}{name}/")));
            }
        }
    }
    (paths, false)
}

/// Returns the files whose paths fit best.
fn find(folder: &Path, list: &FileList, text: &str, limit: usize) -> FoundFiles {
    let pattern = Pattern::parse(text.trim(), CaseMatching::Smart, Normalization::Smart);
    let mut matcher = Matcher::new(Config::DEFAULT.match_paths());
    let mut letters = Vec::new();
    let mut fitting = Vec::new();
    for listed in &list.paths {
        if let Some(score) = pattern.score(Utf32Str::new(&listed.path, &mut letters), &mut matcher) {
            fitting.push((Reverse(score), listed.depth, listed.path.len(), listed.path.as_str()));
        }
    }
    // Of tens of thousands only the best are put in order; some of them may be no files.
    let mut paths = Vec::new();
    let mut rest = fitting.as_mut_slice();
    while paths.len() < limit && !rest.is_empty() {
        let most = limit * limits::FOUND_FILES_SPARE;
        if rest.len() > most {
            rest.select_nth_unstable(most);
        }
        let (best, others) = rest.split_at_mut(most.min(rest.len()));
        best.sort_unstable();
        let files = best.iter().filter(|(.., path)| is_file(folder, path));
        paths.extend(files.take(limit - paths.len()).map(|(.., path)| (*path).to_owned()));
        rest = others;
    }
    FoundFiles { paths, is_cut: list.is_cut }
}

/// Returns whether a listed path is a file of the folder, reached over no link. Git also lists links, and files that are gone.
fn is_file(folder: &Path, path: &str) -> bool {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, std::path::Component::Normal(_))) {
        return false;
    }
    let mut place = folder.to_owned();
    let mut parts = relative.components().peekable();
    while let Some(part) = parts.next() {
        place.push(part);
        let Ok(found) = fs::symlink_metadata(&place) else { return false };
        let is_fitting = if parts.peek().is_some() { found.is_dir() } else { found.is_file() };
        if !is_fitting {
            return false;
        }
    }
    true
}
