//! What files below a folder hold, while a daemon goes on writing, replacing and removing them. Knows nothing of what is looked for.

use std::io;
use std::path::{Path, PathBuf};

/// Returns the files below a folder that hold one of the texts. A file or folder that vanishes meanwhile holds nothing.
pub fn holders(folder: &Path, texts: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let Some(entries) = present(std::fs::read_dir(&folder))? else { continue };
        for entry in entries {
            let entry = entry?;
            let Some(kind) = present(entry.file_type())? else { continue };
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file()
                && let Some(bytes) = present(std::fs::read(entry.path()))?
                && holds_one(&bytes, texts)
            {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}

fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn holds_one(bytes: &[u8], texts: &[&str]) -> bool {
    // The search in text is the standard library's, which is quick in a debug build too.
    let content = String::from_utf8_lossy(bytes);
    texts.iter().any(|text| content.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hold_a_text_are_found_in_every_folder_and_vanished_ones_hold_nothing() -> io::Result<()> {
        let temp = tempfile::tempdir()?;
        std::fs::create_dir_all(temp.path().join("a/b"))?;
        std::fs::write(temp.path().join("a/b/one"), b"\0\xffxxneedlexx")?;
        std::fs::write(temp.path().join("a/two"), "nothing")?;
        std::os::unix::fs::symlink("nowhere", temp.path().join("link"))?;
        assert_eq!(holders(temp.path(), &["needle"])?, [temp.path().join("a/b/one")]);
        assert!(holders(&temp.path().join("gone"), &["needle"])?.is_empty());
        Ok(())
    }
}
