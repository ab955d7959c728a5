//! Which files are found, and that none is outside the folder.

use std::os::unix::fs::symlink;

use super::*;

async fn found(folder: &Path, text: &str) -> Vec<String> {
    let list = read(folder).await.unwrap();
    find(folder, &list, text, 100).paths
}

fn write(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "x").unwrap();
}

#[tokio::test]
async fn files_are_found_by_parts_of_their_paths_and_never_outside_the_folder() {
    let temp = tempfile::tempdir().unwrap();
    let (root, outside) = (temp.path().join("project"), temp.path().join("outside"));
    write(&outside.join("secret.rs"));
    for path in ["src/main.rs", "src/deep/er/mainframe.rs", "README.md", ".hidden/inside.rs", "märz.txt"] {
        write(&root.join(path));
    }
    symlink(&outside, root.join("away")).unwrap();
    symlink(outside.join("secret.rs"), root.join("link.rs")).unwrap();
    assert_eq!(found(&root, "main").await, ["src/main.rs", "src/deep/er/mainframe.rs"]);
    assert_eq!(found(&root, "srcmain").await.first().map(String::as_str), Some("src/main.rs"));
    assert_eq!(found(&root, "märz").await, ["märz.txt"]);
    for text in ["secret", "link", "../outside", "/etc/passwd", "inside"] {
        assert!(found(&root, text).await.is_empty(), "{text}: {:?}", found(&root, text).await);
    }
    // In a repository: what git ignores is left out, links and removed files, too.
    let git = |args: &[&str]| {
        assert!(
            std::process::Command::new("git")
                .args(args)
                .current_dir(&root)
                .output()
                .unwrap()
                .status
                .success()
        );
    };
    git(&["init", "-q"]);
    fs::write(root.join(".gitignore"), "*.log\nbuilt/\n").unwrap();
    write(&root.join("noise.log"));
    write(&root.join("built/out.rs"));
    write(&root.join("gone.rs"));
    git(&["add", "-A"]);
    fs::remove_file(root.join("gone.rs")).unwrap();
    let all = found(&root, "").await;
    for path in ["README.md", "src/main.rs", ".gitignore", ".hidden/inside.rs", "märz.txt"] {
        assert!(all.iter().any(|one| one == path), "{path}: {all:?}");
    }
    for path in ["noise.log", "built/out.rs", "gone.rs", "link.rs", "away", "away/secret.rs"] {
        assert!(!all.iter().any(|one| one == path), "{path}: {all:?}");
    }
    assert_eq!(all.first().map(|path| path.contains('/')), Some(false), "{all:?}");
}

#[test]
fn a_folder_on_the_way_that_became_a_link_is_not_followed() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("project");
    write(&temp.path().join("outside/a.rs"));
    fs::create_dir_all(&root).unwrap();
    symlink(temp.path().join("outside"), root.join("src")).unwrap();
    let list = FileList {
        paths: vec!["src/a.rs".to_owned().into(), "../outside/a.rs".to_owned().into()],
        is_cut: false,
        read_at: Instant::now(),
    };
    assert_eq!(find(&root, &list, "a", 10), FoundFiles::default());
}
