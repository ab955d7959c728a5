//! What a repository may contain in place of a file.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::*;

const MAX: u64 = 1024;

fn read_here(folder: &Path, name: &str) -> Result<Option<String>, ProjectFileError> {
    read_text(folder, Path::new(name), MAX)
}

#[test]
fn a_regular_file_is_read_also_through_a_link_inside_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("real"), "text").unwrap();
    symlink("../real", folder.path().join("sub/link")).unwrap();
    assert_eq!(read_here(folder.path(), "real").unwrap().as_deref(), Some("text"));
    assert_eq!(read_here(folder.path(), "sub/link").unwrap().as_deref(), Some("text"));
}

#[test]
fn what_is_missing_is_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for name in ["none", "none/deeper", "file/deeper"] {
        assert!(read_here(folder.path(), name).unwrap().is_none(), "{name}");
    }
    assert!(read_here(&folder.path().join("gone"), "x").unwrap().is_none());
}

#[test]
fn links_out_of_the_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    symlink(outside.path().join("secret"), folder.path().join("absolute")).unwrap();
    symlink("../../../../../../../etc/passwd", folder.path().join("relative")).unwrap();
    symlink(outside.path(), folder.path().join("folder")).unwrap();
    symlink("/dev/zero", folder.path().join("zero")).unwrap();
    symlink("/proc/self/fd/0", folder.path().join("magic")).unwrap();
    symlink("loop", folder.path().join("loop")).unwrap();
    for name in ["absolute", "relative", "folder/secret", "zero", "magic", "loop", "../x"] {
        let refused = read_here(folder.path(), name);
        assert!(matches!(refused, Err(ProjectFileError::LeadsOut)), "{name}: {refused:?}");
    }
}

#[test]
fn pipes_folders_and_sockets_are_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
    for name in ["pipe", "folder", "socket", "."] {
        let refused = read_here(folder.path(), name);
        assert!(matches!(refused, Err(ProjectFileError::NotRegular)), "{name}: {refused:?}");
    }
}

#[test]
fn a_file_over_the_limit_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
    std::fs::write(folder.path().join("exact"), vec![b'x'; MAX as usize]).unwrap();
    std::fs::write(folder.path().join("above"), vec![b'x'; MAX as usize + 1]).unwrap();
    for name in ["sparse", "above"] {
        assert!(matches!(read_here(folder.path(), name), Err(ProjectFileError::TooLarge(MAX))), "{name}");
    }
    assert_eq!(read_here(folder.path(), "exact").unwrap().map(|text| text.len() as u64), Some(MAX));
    // Files of the kernel report size 0 and are not empty.
    assert!(read(Path::new("/proc/self"), Path::new("mountinfo"), 1).is_err());
}

#[test]
fn other_bytes_than_text_are_refused_as_text() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bytes"), [0xff, 0xfe]).unwrap();
    assert!(matches!(read_here(folder.path(), "bytes"), Err(ProjectFileError::NotText)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_read_leaves_its_worker_to_others() {
    // With one worker, only a task that moved elsewhere can answer while this one is busy.
    let (asked, answer) = (std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel::<()>());
    let task = tokio::spawn(async move {
        off_async_threads(move || {
            asked.0.send(()).unwrap();
            answer.1.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        });
    });
    tokio::task::spawn_blocking(move || asked.1.recv().unwrap()).await.unwrap();
    tokio::spawn(async move { answer.0.send(()).unwrap() }).await.unwrap();
    task.await.unwrap();
}
