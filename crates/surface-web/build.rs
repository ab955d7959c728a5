//! Lists the files of the built page (`web/dist`) in a table that the binary contains, each with the hash of its content,
//! and the documents (`docs/`) as pages.
//! Needs no Node: the built page is committed.

#[path = "build/documents.rs"]
mod documents;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let dist = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../web/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    list(&dist, &mut files)
        .map_err(|error| format!("{}: {error}; it is part of the repository", dist.display()))?;
    files.sort();
    let mut build = Sha256::new();
    let mut table = String::from("pub(super) static ASSETS: &[Asset] = &[\n");
    for file in files {
        let path = file.strip_prefix(&dist)?.to_str().ok_or("a name in web/dist is not UTF-8")?.to_owned();
        if path == "SOURCES" {
            continue;
        }
        let bytes = fs::read(&file)?;
        let hash = hex(&Sha256::digest(&bytes));
        build.update(hash.as_bytes());
        let full = fs::canonicalize(&file)?;
        writeln!(table, "    Asset {{ path: {path:?}, hash: {hash:?}, bytes: include_bytes!({full:?}) }},")?;
    }
    table.push_str("];\n");
    writeln!(
        table,
        "/// Names this build of the page.\npub(super) const BUILD: &str = {:?};",
        &hex(&build.finalize())[..16]
    )?;
    fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("assets.rs"), table)?;
    documents::write(Path::new(&std::env::var("OUT_DIR")?))
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
