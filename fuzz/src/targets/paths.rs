//! Paths named by agents: whatever they are, nothing outside the project is read, created or changed.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use workbench::files::ProjectRoot;

use super::kind;
use crate::Target;

const SECRET: &str = "what is kept outside";
/// Names in the root that are read-only.
const PROTECTED: [&str; 2] = [".git", ".obey"];

/// A project that contains links, and a folder next to it.
pub(super) struct Paths {
    folder: tempfile::TempDir,
    root: ProjectRoot,
    /// The content outside, which must not change.
    outside: Vec<(PathBuf, Vec<u8>)>,
    tried: u64,
}

impl Paths {
    pub(super) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let (project, beside) = (folder.path().join("project"), folder.path().join("beside"));
        fs::create_dir_all(&beside)?;
        fs::write(beside.join("secret"), SECRET)?;
        build(&project, &beside)?;
        let protected: Vec<std::ffi::OsString> = PROTECTED.iter().map(Into::into).collect();
        let root = ProjectRoot::open(&project, &protected).map_err(|error| anyhow::anyhow!("{error}"))?;
        let outside = everything(&beside)?;
        Ok(Self { folder, root, outside, tried: 0 })
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// Checks that nothing outside and nothing protected has changed.
    fn check(&mut self) -> Result<()> {
        let beside = self.folder.path().join("beside");
        ensure!(everything(&beside)? == self.outside, "something outside was made or changed");
        let mut names: Vec<_> =
            fs::read_dir(self.folder.path())?.filter_map(Result::ok).map(|it| it.file_name()).collect();
        names.sort();
        ensure!(names == ["beside", "project"], "something was made beside the project: {names:?}");
        let git = fs::read_to_string(self.project().join(".git/config")).context(".git/config")?;
        ensure!(git == "kept", "what is protected was changed");
        ensure!(
            fs::read_dir(self.project().join(".git"))?.count() == 1,
            "something was made in what is protected"
        );
        Ok(())
    }
}

/// Rebuilds the project, so that it does not grow forever.
fn build(project: &Path, beside: &Path) -> Result<()> {
    if project.exists() {
        for entry in fs::read_dir(project)? {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                fs::remove_dir_all(path)?
            } else {
                fs::remove_file(path)?
            }
        }
    }
    fs::create_dir_all(project.join("a/b"))?;
    fs::create_dir_all(project.join(".git"))?;
    fs::write(project.join(".git/config"), "kept")?;
    fs::write(project.join("a/file"), "inside")?;
    symlink(beside, project.join("out"))?;
    symlink(beside.join("secret"), project.join("a/leak"))?;
    symlink("../../beside", project.join("a/up"))?;
    symlink("/", project.join("slash"))?;
    symlink("/proc/self/root", project.join("proc"))?;
    symlink("loop", project.join("loop"))?;
    symlink("b", project.join("a/in"))?;
    symlink(".git", project.join("git"))?;
    symlink(beside.join("new"), project.join("dangling"))?;
    Ok(())
}

fn everything(folder: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        all.push((path.clone(), fs::read(&path).unwrap_or_default()));
    }
    all.sort();
    Ok(all)
}

impl Target for Paths {
    fn name(&self) -> &'static str {
        "paths"
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        let project = self.project().display().to_string();
        let beside = self.folder.path().join("beside/secret").display().to_string();
        let fixed = [
            "a/file",
            "./a/../a/file",
            "out/secret",
            "a/leak",
            "a/up/secret",
            "../beside/secret",
            "slash/etc/passwd",
            "proc/etc/passwd",
            "loop",
            "dangling",
            ".git/config",
            "git/hooks/x",
            "a/in/new/file",
            "a//b/./c",
        ];
        let mut all: Vec<Vec<u8>> = fixed
            .iter()
            .flat_map(|path| (0..4u8).map(move |how| [&[how], path.as_bytes()].concat()))
            .collect();
        all.extend(
            [
                format!("\0{project}/a/file"),
                format!("\u{1}{beside}"),
                format!("\u{1}{project}/../beside/secret"),
            ]
            .map(String::into_bytes),
        );
        all
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "/",
            "..",
            "../",
            "./",
            "a",
            "b",
            "out",
            "leak",
            "up",
            "slash",
            "proc",
            "loop",
            "in",
            "dangling",
            "git",
            ".git",
            ".GIT",
            ".obey",
            "secret",
            "new",
            "beside",
            "project",
            "etc/passwd",
            "/proc/self/fd/",
            "/dev/fd/3",
            "\u{202e}",
            "é",
            "~",
            "$HOME",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let (how, path) = input.split_first().map_or((0, &[][..]), |(how, path)| (*how, path));
        let path = String::from_utf8_lossy(path).into_owned();
        self.tried += 1;
        let outcome = match how % 4 {
            0 => self.root.open_file(&path).map(|mut opened| {
                let mut text = Vec::new();
                // A file that cannot be read reveals nothing.
                let _ = opened.file.read_to_end(&mut text);
                String::from_utf8_lossy(&text).into_owned()
            }),
            1 => self.root.write(&path, b"written").map(|_| String::new()),
            2 => self.root.append(&path, b"added").map(|_| String::new()),
            _ => self.root.list(&path).map(|entries| format!("{entries:?}")),
        };
        if let Ok(shown) = &outcome {
            ensure!(!shown.contains(SECRET), "a file outside was read");
            ensure!(!shown.contains("root:"), "a file of the system was read");
        }
        let changes = matches!(how % 4, 1 | 2) && outcome.is_ok();
        if changes {
            self.check()?;
        }
        if self.tried.is_multiple_of(2_000) {
            let (project, beside) = (self.project(), self.folder.path().join("beside"));
            build(&project, &beside)?;
        }
        let depth = path.matches('/').count().min(6) as u64;
        Ok(match &outcome {
            Ok(_) => u64::from(how % 4) << 8 | depth,
            Err(error) => kind(error) ^ u64::from(how % 4),
        })
    }
}
