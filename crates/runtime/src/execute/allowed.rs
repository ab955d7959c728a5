//! Decides which commands may run: the daemon's list of names, narrowed by a campaign's own list, and nothing
//! else. The rules for git arguments are in `domain::git_command`.

use std::collections::BTreeMap;
use std::path::Path;

use domain::{Error, ErrorCode};
use serde::Deserialize;

use crate::limits;
use host::project_file;

/// A campaign's own list. It can only forbid: a file that an agent may edit must not widen what the daemon
/// allows.
const CAMPAIGN_LIST: &str = ".campaign/settings/allowlist.json";

#[derive(Deserialize)]
struct CampaignList {
    #[serde(default)]
    commands: BTreeMap<String, AllowedCommand>,
    #[serde(default = "yes")]
    inherit_defaults: bool,
}

#[derive(Deserialize)]
struct AllowedCommand {
    #[serde(default)]
    allowed: bool,
}

fn yes() -> bool {
    true
}

/// Checks a command against the daemon's list and the campaign's list.
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
    Ok(())
}

fn campaign_list(root: &Path) -> Result<Option<CampaignList>, Error> {
    let text = project_file::read_text(root, Path::new(CAMPAIGN_LIST), limits::CAMPAIGN_LIST_MAX_BYTES);
    let Some(text) = text.map_err(|error| refused(format!("{CAMPAIGN_LIST} {error}")))? else {
        return Ok(None);
    };
    // A list that cannot be parsed forbids everything: guessing might allow too much.
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| refused(format!("{CAMPAIGN_LIST} cannot be understood: {error}")))
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
    fn a_campaign_list_that_is_no_regular_file_of_the_campaign_forbids() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join(CAMPAIGN_LIST);
        std::fs::create_dir_all(list.parent().unwrap()).unwrap();
        let allowed = ["git".to_owned()];
        let refusal = |expected: &str| {
            let error = check(folder.path(), &allowed, "git", &[]).unwrap_err();
            assert_eq!(error.code, ErrorCode::CommandNotAllowed);
            assert!(error.message.contains(expected), "{error}");
            std::fs::remove_file(&list).unwrap();
        };
        std::os::unix::fs::symlink("/dev/zero", &list).unwrap();
        refusal("leads out");
        std::fs::File::create(&list).unwrap().set_len(1 << 30).unwrap();
        refusal("larger than");
        rustix::fs::mkfifoat(rustix::fs::CWD, &list, rustix::fs::Mode::RUSR).unwrap();
        refusal("regular file");
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
