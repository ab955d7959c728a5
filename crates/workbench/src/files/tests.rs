//! Files: what may be read and written, what is rejected, and that moving links concurrently does not allow
//! an escape.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const CANARY: &str = "the canary lives";

struct Project {
    _dir: tempfile::TempDir,
    outside: PathBuf,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, outside) = (base.join("project"), base.join("outside"));
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("canary"), CANARY).unwrap();
        fs::write(root.join("src/a.txt"), "one\ntwo\n").unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        symlink("a.txt", root.join("src/link")).unwrap();
        symlink("../../outside/canary", root.join("src/out")).unwrap();
        symlink(&outside, root.join("src/out-folder")).unwrap();
        symlink("../.git", root.join("src/git")).unwrap();
        Self { _dir: dir, outside, root }
    }

    fn open(&self, resolver: Resolver) -> ProjectRoot {
        let mut root =
            ProjectRoot::open(&self.root, &[OsString::from(".git"), OsString::from(".claude")]).unwrap();
        assert_eq!(root.resolver, Resolver::Kernel, "this machine has openat2");
        root.resolver = resolver;
        root
    }
}

fn content(mut opened: OpenedFile) -> String {
    let mut text = String::new();
    opened.file.read_to_string(&mut text).unwrap();
    text
}

const BOTH: [Resolver; 2] = [Resolver::Kernel, Resolver::Walk];

#[test]
fn files_inside_are_read_by_either_kind_of_path() {
    let project = Project::new();
    for resolver in BOTH {
        let root = project.open(resolver);
        assert_eq!(content(root.open_file("src/a.txt").unwrap()), "one\ntwo\n");
        assert_eq!(content(root.open_file("./src/./a.txt").unwrap()), "one\ntwo\n");
        let absolute = project.root.join("src/a.txt");
        assert_eq!(content(root.open_file(absolute.to_str().unwrap()).unwrap()), "one\ntwo\n");
    }
    let root = project.open(Resolver::Kernel);
    assert_eq!(content(root.open_file("src/link").unwrap()), "one\ntwo\n", "a link that stays inside");
    assert_eq!(content(root.open_file("src/../src/a.txt").unwrap()), "one\ntwo\n");
}

#[test]
fn whatever_leads_out_is_refused() {
    let project = Project::new();
    let outside = project.outside.join("canary");
    let paths = [
        "../outside/canary",
        "src/../../outside/canary",
        "src/out",
        "src/out-folder/canary",
        "/etc/passwd",
        outside.to_str().unwrap(),
        "/proc/self/root/etc/passwd",
        "..",
    ];
    for resolver in BOTH {
        let root = project.open(resolver);
        for path in paths {
            let error = root.open_file(path).unwrap_err();
            assert_eq!(error.code, ErrorCode::NotAllowed, "{path}: {error}");
            let error = root.write(path, b"x").unwrap_err();
            assert_eq!(error.code, ErrorCode::NotAllowed, "{path}: {error}");
            assert!(root.append(path, b"x").is_err(), "{path}");
        }
        assert!(root.write("src/out-folder/new", b"x").is_err());
    }
    assert_eq!(fs::read_to_string(outside).unwrap(), CANARY);
    assert_eq!(fs::read_dir(&project.outside).unwrap().count(), 1);
}

#[test]
fn folders_pipes_sockets_and_missing_files_are_refused_at_once() {
    let project = Project::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project.root.join("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(project.root.join("socket")).unwrap();
    let root = project.open(Resolver::Kernel);
    for path in ["src", ".", "pipe", "socket", "src/a.txt/b", "", "a\0b"] {
        assert_eq!(root.open_file(path).unwrap_err().code, ErrorCode::InvalidArgument, "{path:?}");
    }
    let missing = root.open_file("missing").unwrap_err();
    assert_eq!(
        (missing.code, missing.message.as_str()),
        (ErrorCode::ItemNotFound, "path: missing does not exist")
    );
    for path in ["src", ".", "pipe", "socket", "src/a.txt/b", "", "missing/../x"] {
        assert!(root.write(path, b"x").is_err(), "{path:?}");
        assert!(root.append(path, b"x").is_err(), "{path:?}");
    }
}

#[test]
fn writing_replaces_in_one_step_and_keeps_the_mode() {
    let project = Project::new();
    for resolver in BOTH {
        let root = project.open(resolver);
        let path = project.root.join("src/a.txt");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        let before = File::open(&path).unwrap();
        assert_eq!(root.write("src/a.txt", b"new").unwrap(), Written { bytes: 3, created: false });
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);
        assert_ne!(
            std::os::unix::fs::MetadataExt::ino(&before.metadata().unwrap()),
            std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap())
        );
        assert_eq!(root.append("src/a.txt", b"er").unwrap(), Written { bytes: 2, created: false });
        assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
        let deep = format!("deep/{resolver:?}/new.txt");
        assert_eq!(root.write(&deep, b"x").unwrap(), Written { bytes: 1, created: true });
        assert_eq!(fs::read_to_string(project.root.join(&deep)).unwrap(), "x");
        assert_eq!(
            root.append(&format!("log-{resolver:?}"), b"x").unwrap(),
            Written { bytes: 1, created: true }
        );
    }
    let left: Vec<_> =
        fs::read_dir(project.root.join("src")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("obey-")), "{left:?}");
}

#[test]
fn a_link_inside_is_written_through_and_stays_a_link() {
    let project = Project::new();
    let root = project.open(Resolver::Kernel);
    root.write("src/link", b"through").unwrap();
    assert_eq!(fs::read_to_string(project.root.join("src/a.txt")).unwrap(), "through");
    assert!(project.root.join("src/link").is_symlink());
    symlink("nowhere", project.root.join("dangling")).unwrap();
    root.write("dangling", b"x").unwrap();
    assert!(!project.root.join("nowhere").exists(), "a link to nothing is replaced, not followed");
}

#[test]
fn protected_names_are_not_written_by_any_way() {
    let project = Project::new();
    for resolver in BOTH {
        let root = project.open(resolver);
        for path in
            [".git/config", ".git/hooks/x", ".claude/settings.json", "./.git/x", ".claude", "src/git/config"]
        {
            let error = root.write(path, b"x").unwrap_err();
            assert_eq!(error.code, ErrorCode::NotAllowed, "{path}: {error}");
            assert!(root.append(path, b"x").is_err(), "{path}");
        }
    }
    assert_eq!(fs::read_dir(project.root.join(".git")).unwrap().count(), 0);
    assert!(!project.root.join(".claude").exists());
}

/// Git takes a folder with these for a repository, and runs what its configuration names.
#[test]
fn no_repository_is_made_of_the_root_and_one_under_another_name_stays() {
    for resolver in BOTH {
        let project = Project::new();
        let root = project.open(resolver);
        fs::remove_dir_all(project.root.join(".git")).unwrap();
        for path in ["refs/heads/main", "commondir", "./refs"] {
            assert_eq!(root.write(path, b"x").unwrap_err().code, ErrorCode::NotAllowed, "{path}");
        }
        root.write("objects/x", b"x").unwrap();
        fs::create_dir_all(project.root.join("store")).unwrap();
        fs::write(project.root.join("store/HEAD"), "ref: refs/heads/main\n").unwrap();
        root.write("store/config", b"x").unwrap();
        fs::write(project.root.join(".git"), "gitdir: store\n").unwrap();
        assert_eq!(root.write("store/config", b"y").unwrap_err().code, ErrorCode::NotAllowed);
        root.write("refs/heads/main", b"x").unwrap();
    }
}

#[test]
fn sizes_are_limited() {
    let project = Project::new();
    let root = project.open(Resolver::Kernel);
    let big = vec![b'x'; limits::WRITE_MAX + 1];
    assert_eq!(root.write("big", &big).unwrap_err().code, ErrorCode::LimitReached);
    let file = File::create(project.root.join("sparse")).unwrap();
    file.set_len(limits::READ_FILE_MAX + 1).unwrap();
    assert_eq!(root.open_file("sparse").unwrap_err().code, ErrorCode::LimitReached);
}

#[test]
fn text_is_told_from_other_things() {
    assert!(!is_binary(b"plain text\n"));
    assert!(!is_binary(b""));
    assert!(!is_binary("Grüße aus Köln, 日本\n".as_bytes()));
    assert!(!is_binary(b"caf\xe9 cr\xe8me in Latin-1, mostly plain letters though\n"));
    assert!(is_binary(b"\x7fELF\x02\x01\x01\0\0"));
    assert!(is_binary(&(128..=255).collect::<Vec<u8>>()));
}

/// Swaps a folder, a file and links to the outside concurrently with reads and writes through them.
#[test]
fn nobody_gets_out_by_moving_links() {
    for resolver in BOTH {
        let project = Project::new();
        let root = project.open(resolver);
        let inside = project.root.join("race");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = fs::remove_file(&inside);
                    let _ = fs::create_dir(&inside);
                    let _ = fs::write(inside.join("canary"), "inside");
                    let _ = fs::rename(&inside, project.root.join("aside"));
                    let _ = symlink(&project.outside, &inside);
                    let _ = fs::remove_dir_all(project.root.join("aside"));
                }
            });
            let (mut read, mut refused) = (0, 0);
            for turn in 0..4_000 {
                match root.open_file("race/canary") {
                    Ok(opened) => {
                        read += 1;
                        // It is empty between its creation and its first write.
                        assert_ne!(content(opened), CANARY, "read outside in turn {turn}");
                    }
                    Err(_) => refused += 1,
                }
                let _ = root.write("race/canary", b"inside");
                let _ = root.append("race/new", b"inside");
            }
            stop.store(true, Ordering::Relaxed);
            println!("{resolver:?}: {read} reads, {refused} refusals");
        });
        assert_eq!(fs::read_to_string(project.outside.join("canary")).unwrap(), CANARY);
        assert_eq!(fs::read_dir(&project.outside).unwrap().count(), 1, "something was written outside");
    }
}
