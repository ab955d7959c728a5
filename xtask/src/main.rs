//! The commands on the source tree: `cargo tidy` checks its rules and reports violations; `cargo xtask facts`
//! prints what a protobuf file, or the protobuf in a specification, defines; `cargo xtask capabilities`
//! generates the table of docs/providers.md; `cargo xtask web` builds the page, and with `--check` compares it with what
//! is committed.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use xtask::tidy;

fn main() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout().lock();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(tidy::workspace_root(), &mut out),
        ["tidy", root] => tidy(PathBuf::from(root), &mut out),
        ["facts", file] => {
            let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
            let source = if file.ends_with(".proto") { text } else { tidy::proto::protobuf_blocks(&text) };
            for fact in tidy::proto::facts(&source) {
                writeln!(out, "{fact}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        ["capabilities", folder] => {
            let made = xtask::capabilities::update(&tidy::workspace_root(), &PathBuf::from(folder))?;
            write!(out, "{made}")?;
            Ok(ExitCode::SUCCESS)
        }
        ["web"] => {
            xtask::web::build(&tidy::workspace_root())?;
            Ok(ExitCode::SUCCESS)
        }
        ["web", "--check"] => {
            writeln!(out, "{}", xtask::web::check(&tidy::workspace_root())?)?;
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("usage: cargo xtask tidy [ROOT] | facts FILE | capabilities DIR | web [--check]"),
    }
}

fn tidy(root: PathBuf, out: &mut impl std::io::Write) -> Result<ExitCode> {
    let report = tidy::check(&root)?;
    write!(out, "{report}")?;
    Ok(if report.breaches.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
