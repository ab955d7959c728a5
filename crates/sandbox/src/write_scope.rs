//! Lets a thread write only below some folders. For programs of the daemon's own that work on files which an agent can change: a
//! link that the agent has put there leads them nowhere else. Reading is not limited.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus,
};
use rustix::fs::{Mode, OFlags};

/// The newest version whose rights are asked for; older kernels know fewer.
const NEWEST: ABI = ABI::V9;

/// What every program may write.
const DISCARD: &str = "/dev/null";

/// Limits the calling thread, and all it starts from now on, to writing below these folders. Returns false if the kernel cannot.
/// The thread stays limited, so it must be one that ends.
pub fn write_only_below(folders: &[PathBuf]) -> io::Result<bool> {
    let writing = AccessFs::from_write(NEWEST);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writing)
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    let files: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Truncate;
    let granted =
        folders.iter().map(|folder| (folder.as_path(), OFlags::DIRECTORY | OFlags::NOFOLLOW, writing));
    for (path, flags, access) in granted.chain([(DISCARD.as_ref(), OFlags::NOFOLLOW, files)]) {
        // What does not exist, or is no folder, is not granted.
        if let Ok(opened) = rustix::fs::open(path, flags | OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            ruleset = ruleset.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)?;
        }
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_no_write_out_of_the_folder() {
        let home = tempfile::tempdir().unwrap();
        let (inside, outside) = (home.path().join("inside"), home.path().join("outside"));
        std::fs::create_dir_all(inside.join("deep")).unwrap();
        std::fs::write(&outside, "mine").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("link")).unwrap();
        std::os::unix::fs::symlink(home.path(), inside.join("folder")).unwrap();
        let scope = [inside.clone(), home.path().join("missing")];
        let (link, new) = (inside.join("link"), inside.join("folder/new"));
        let is_limited = std::thread::spawn(move || {
            let is_limited = write_only_below(&scope).unwrap();
            std::fs::write(scope[0].join("deep/file"), "x").unwrap();
            std::fs::rename(scope[0].join("deep/file"), scope[0].join("file")).unwrap();
            std::fs::write("/dev/null", "x").unwrap();
            if is_limited {
                std::fs::write(&link, "theirs").unwrap_err();
                std::fs::write(&new, "theirs").unwrap_err();
                // What it starts is limited too.
                let script = format!("echo theirs >> {}", link.display());
                assert!(!std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
            }
            is_limited
        });
        // Without Landlock there is nothing to try; the machines that tests run on have it.
        assert!(is_limited.join().unwrap(), "this kernel has no Landlock");
        assert_eq!(std::fs::read_to_string(&outside).unwrap(), "mine");
        assert!(inside.join("file").exists(), "this thread is not limited");
        std::fs::write(&outside, "still mine").unwrap();
    }
}
