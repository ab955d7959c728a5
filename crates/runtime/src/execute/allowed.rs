//! Which commands may run: the daemon's list by name, narrowed by a campaign's own list, less what destroys work.

use std::collections::BTreeMap;
use std::path::Path;

use domain::{Error, ErrorCode};
use serde::Deserialize;

/// A campaign's own list. It can only forbid: a file that an agent may edit must not widen what the daemon allows.
const CAMPAIGN_LIST: &str = ".campaign/settings/allowlist.json";

#[derive(Deserialize)]
struct CampaignList {
    #[serde(default)]
    commands: BTreeMap<String, Entry>,
    #[serde(default = "yes")]
    inherit_defaults: bool,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    allowed: bool,
}

fn yes() -> bool {
    true
}

pub(super) fn check(root: &Path, allowed: &[String], command: &str, args: &[String]) -> Result<(), Error> {
    if command.contains('/') || command.contains('\0') {
        return Err(Error::invalid("command", "is a program's name, without a path"));
    }
    if let Some(index) = args.iter().position(|arg| arg.contains('\0')) {
        return Err(Error::invalid("args", format_args!("[{index}] contains a NUL byte")));
    }
    if !allowed.iter().any(|name| name == command) {
        return Err(refused(format!(
            "{command} is not allowed; allowed are {}; add it to execute.allow in the daemon's configuration",
            allowed.join(", ")
        )));
    }
    if let Some(list) = campaign_list(root)? {
        match list.commands.get(command) {
            Some(entry) if !entry.allowed => {
                return Err(refused(format!("{command} is forbidden by the campaign's {CAMPAIGN_LIST}")));
            }
            None if !list.inherit_defaults => {
                return Err(refused(format!("{command} is not in the campaign's {CAMPAIGN_LIST}")));
            }
            Some(_) | None => {}
        }
    }
    if command == "git" { check_git(args) } else { Ok(()) }
}

fn campaign_list(root: &Path) -> Result<Option<CampaignList>, Error> {
    let text = match std::fs::read_to_string(root.join(CAMPAIGN_LIST)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(refused(format!("{CAMPAIGN_LIST} cannot be read: {error}"))),
    };
    // A list that cannot be understood forbids: guessing would allow.
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| refused(format!("{CAMPAIGN_LIST} cannot be understood: {error}")))
}

/// Refuses what loses work or runs code given on the command line.
fn check_git(args: &[String]) -> Result<(), Error> {
    let mut rest = args.iter().map(String::as_str);
    let subcommand = loop {
        match rest.next() {
            Some("-C") => {
                rest.next();
            }
            Some(option) if option.starts_with('-') => {
                let harmless = ["--no-pager", "--version", "--help", "--no-optional-locks"];
                if !harmless.contains(&option) {
                    return Err(refused(format!("git {option} is not allowed before the subcommand")));
                }
            }
            Some(subcommand) => break subcommand,
            None => return Ok(()),
        }
    };
    let rest: Vec<&str> = rest.collect();
    let has = |long: &[&str], short: char| {
        rest.iter().any(|arg| {
            long.iter().any(|long| arg == long || arg.starts_with(&format!("{long}=")))
                || (arg.starts_with('-') && !arg.starts_with("--") && arg.contains(short))
        })
    };
    let forbidden = match subcommand {
        "push" if has(&["--force", "--force-with-lease", "--mirror", "--delete"], 'f') => {
            Some("push --force")
        }
        "push" if rest.iter().any(|arg| arg.starts_with('+')) => Some("push +refspec"),
        "reset" if has(&["--hard"], '\0') => Some("reset --hard"),
        "clean" if has(&["--force"], 'f') => Some("clean -f"),
        _ => None,
    };
    match forbidden {
        Some(what) => Err(refused(format!("git {what} loses work and is not allowed"))),
        None => Ok(()),
    }
}

fn refused(message: String) -> Error {
    Error::new(ErrorCode::CommandNotAllowed, format!("command: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, args: &[&str]) -> Result<(), Error> {
        let folder = tempfile::tempdir().unwrap();
        let allowed = ["git".to_owned(), "just".to_owned()];
        check(folder.path(), &allowed, command, &args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn listed_commands_pass_and_others_do_not() {
        assert_eq!(run("git", &["status"]), Ok(()));
        assert_eq!(run("just", &["build"]), Ok(()));
        assert_eq!(run("bash", &["-c", "id"]).unwrap_err().code, ErrorCode::CommandNotAllowed);
        assert_eq!(run("./git", &[]).unwrap_err().code, ErrorCode::InvalidArgument);
    }

    #[test]
    fn git_may_not_lose_work_or_run_code() {
        for bad in [
            &["push", "--force"][..],
            &["push", "origin", "-f"],
            &["push", "--force-with-lease=main"],
            &["push", "origin", "+main"],
            &["reset", "--hard", "HEAD~1"],
            &["clean", "-fd"],
            &["clean", "-xdf"],
            &["-c", "alias.x=!sh", "x"],
            &["--exec-path=/tmp", "status"],
            &["-C", "sub", "reset", "--hard"],
        ] {
            assert_eq!(run("git", bad).unwrap_err().code, ErrorCode::CommandNotAllowed, "{bad:?}");
        }
        assert_eq!(run("git", &["-C", "sub", "log", "--format=%h"]), Ok(()));
        assert_eq!(run("git", &["push", "origin", "main"]), Ok(()));
    }

    #[test]
    fn a_campaign_list_can_only_forbid() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join(CAMPAIGN_LIST);
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        std::fs::write(
            &list,
            r#"{"version":1,"commands":{"git":{"allowed":false},"bash":{"allowed":true}}}"#,
        )
        .unwrap();
        let allowed = ["git".to_owned(), "just".to_owned()];
        for (command, ok) in [("git", false), ("bash", false), ("just", true)] {
            assert_eq!(check(folder.path(), &allowed, command, &[]).is_ok(), ok, "{command}");
        }
        std::fs::write(&list, "not json").unwrap();
        assert!(check(folder.path(), &allowed, "just", &[]).is_err());
    }
}
