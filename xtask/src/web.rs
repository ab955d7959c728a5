//! The built page: whether `web/dist` was made from the sources beside it. The hash of the sources is compared without Node;
//! `cargo xtask web --check` builds again and compares bytes. Knows nothing of what the page shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sha2::{Digest as _, Sha256};

use crate::tidy::Breach;

/// What the page is built from, below `web`. `web/scripts/sources.mjs` has the same list.
const PARTS: &[&str] =
    &["src", "public", "index.html", "vite.config.ts", "tsconfig.json", "package.json", "package-lock.json"];

/// How to build it.
const REMEDY: &str = "run `cargo xtask web` and commit web/dist";

/// Installs what the lock file names. Not `npm ci`: it wants the packages of every other platform in the lock file too.
const INSTALL: &[&str] = &["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];

/// Bytes of the scripts and styles of the first load, and of all of them, compressed with gzip.
const FIRST_LOAD_MAX: usize = 130_000;
const ALL_MAX: usize = 250_000;

/// Text that no built script may have: it would need a wider policy, or leave this host.
const FORBIDDEN: &[&str] = &["eval(", "new Function", "document.write"];

/// Returns what is wrong with the built page, as far as that can be seen without Node.
pub fn check_sources(root: &Path) -> Result<Vec<Breach>> {
    let web = root.join("web");
    if !web.exists() {
        return Ok(Vec::new());
    }
    let recorded = fs::read_to_string(web.join("dist/SOURCES")).unwrap_or_default();
    let breach = |remedy: String| Ok(vec![Breach::new("web", "web/dist", remedy)]);
    if recorded.trim() != sources_hash(&web)? {
        return breach(format!("is older than its sources; {REMEDY}"));
    }
    Ok(Vec::new())
}

/// Returns the hash of all sources: of every path and the hash of its bytes, in the order of paths.
fn sources_hash(web: &Path) -> Result<String> {
    let mut files = Vec::new();
    for part in PARTS {
        list(&web.join(part), &mut files)?;
    }
    let mut lines = BTreeMap::new();
    for file in files {
        let path = file.strip_prefix(web)?.to_str().context("a name below web is not UTF-8")?.to_owned();
        lines.insert(path, hex(&Sha256::digest(fs::read(&file)?)));
    }
    let mut hash = Sha256::new();
    for (path, bytes) in lines {
        hash.update(format!("{path} {bytes}\n"));
    }
    Ok(hex(&hash.finalize()))
}

/// Builds the page into `web/dist`.
pub fn build(root: &Path) -> Result<()> {
    npm(root, INSTALL, None)?;
    npm(root, &["run", "build"], None)
}

/// Builds the page elsewhere and compares it with `web/dist`, byte by byte; then its size and what its scripts contain.
pub fn check(root: &Path) -> Result<String> {
    let web = root.join("web");
    npm(root, INSTALL, None)?;
    // Beside the sources: the names of chunks depend on where the packages are.
    let fresh = web.join("node_modules/.cache/dist-check");
    npm(root, &["run", "build"], Some(&fresh))?;
    let (built, committed) = (contents(&fresh)?, contents(&web.join("dist"))?);
    for path in built.keys().chain(committed.keys()) {
        ensure!(
            built.get(path) == committed.get(path),
            "web/dist/{path} is not what its sources give; {REMEDY}"
        );
    }
    npm(root, &["run", "check"], None)?;
    npm(root, &["test"], None)?;
    no_markup(&web)?;
    sizes(&committed)
}

/// Our own sources set no markup from text: what agents say is never parsed as HTML.
fn no_markup(web: &Path) -> Result<()> {
    let mut files = Vec::new();
    list(&web.join("src"), &mut files)?;
    for file in files {
        let text = String::from_utf8_lossy(&fs::read(&file)?).into_owned();
        for word in ["innerHTML", "{@html"] {
            ensure!(!text.contains(word), "{} has `{word}`", file.display());
        }
    }
    Ok(())
}

/// Checks how much is loaded, and what scripts contain.
fn sizes(files: &BTreeMap<String, Vec<u8>>) -> Result<String> {
    let document = files.get("index.html").map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let document = document.context("web/dist/index.html is missing")?;
    let (mut first, mut all) = (0, 0);
    for (path, bytes) in files.iter().filter(|(path, _)| path.ends_with(".js") || path.ends_with(".css")) {
        let size = gzip_bytes(bytes)?;
        all += size;
        if document.contains(path.as_str()) {
            first += size;
        }
        let text = String::from_utf8_lossy(bytes);
        for word in FORBIDDEN {
            ensure!(!text.contains(word), "web/dist/{path} has `{word}`");
        }
    }
    ensure!(
        first <= FIRST_LOAD_MAX,
        "the first load is {first} bytes with gzip; {FIRST_LOAD_MAX} is the limit"
    );
    ensure!(all <= ALL_MAX, "the page is {all} bytes with gzip; {ALL_MAX} is the limit");
    Ok(format!("web: dist is what its sources give; {first} bytes at first, {all} in all, with gzip"))
}

/// Returns the length of bytes compressed by the system's gzip.
fn gzip_bytes(bytes: &[u8]) -> Result<usize> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut gzip = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = gzip.stdin.take().context("no input")?;
    let bytes = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&bytes));
    let output = gzip.wait_with_output()?;
    writing.join().map_err(|_| anyhow::anyhow!("gzip could not be fed"))??;
    Ok(output.stdout.len())
}

fn npm(root: &Path, arguments: &[&str], out: Option<&Path>) -> Result<()> {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(root.join("web"));
    if let Some(out) = out {
        command.env("OBEY_WEB_OUT", out);
    }
    let output = command.output().context("npm is needed to build the page")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        bail!("npm {} failed:\n{said}{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(folder)?.to_str().context("a name is not UTF-8")?.to_owned();
            Ok((path, fs::read(&file)?))
        })
        .collect()
}

fn list(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        list(&entry?.path(), files)?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_source_without_a_build_is_found_and_says_what_to_run() {
        let web = crate::tidy::workspace_root().join("web");
        let hash = sources_hash(&web).unwrap();
        let copy = tempfile::tempdir().unwrap();
        for (path, bytes) in contents(&web.join("src")).unwrap() {
            let target = copy.path().join("web/src").join(path);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::write(target, bytes).unwrap();
        }
        for part in PARTS.iter().filter(|part| **part != "src") {
            let (from, to) = (web.join(part), copy.path().join("web").join(part));
            if from.is_dir() {
                fs::create_dir_all(&to).unwrap();
                for (path, bytes) in contents(&from).unwrap() {
                    fs::write(to.join(path), bytes).unwrap();
                }
            } else {
                fs::copy(from, to).unwrap();
            }
        }
        fs::create_dir_all(copy.path().join("web/dist")).unwrap();
        fs::write(copy.path().join("web/dist/SOURCES"), format!("{hash}\n")).unwrap();
        assert!(check_sources(copy.path()).unwrap().is_empty());
        let main = copy.path().join("web/src/main.ts");
        fs::write(&main, format!("{} ", fs::read_to_string(&main).unwrap())).unwrap();
        let found = check_sources(copy.path()).unwrap();
        assert!(found[0].remedy.contains("cargo xtask web"), "{found:?}");
    }
}
