//! Puts the pages of the errors into the program, so that `obey explain` needs no files.

use std::fmt::Write as _;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder =
        PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../docs/errors").canonicalize()?;
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let number =
            path.file_stem().and_then(|name| name.to_str()?.strip_prefix("OBEY-")?.parse::<u16>().ok());
        pages.extend(number.map(|number| (number, path)));
    }
    pages.sort();
    let mut list = String::from("&[\n");
    for (number, path) in pages {
        writeln!(list, "    ({number}, include_str!({:?})),", path.display().to_string())?;
    }
    list.push(']');
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("error_pages.rs"), list)?;
    Ok(())
}
