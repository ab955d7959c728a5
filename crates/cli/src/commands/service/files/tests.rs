//! The exact files, and the detection of files that others wrote.

use super::*;

fn service() -> Service {
    Service {
        program: "/usr/local/bin/obey".into(),
        socket: None,
        variables: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        home: "/home/u".into(),
        config_home: "/home/u/.config".into(),
        log: "/home/u/.local/state/obey/daemon.log".into(),
    }
}

/// Compares with a file of the repository; OBEY_BLESS=1 writes it.
fn golden(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands/service/files").join(name);
    if std::env::var_os("OBEY_BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, kept, "{name} differs; after a look, write it anew with OBEY_BLESS=1");
}

#[test]
fn the_files_are_those_of_the_repository() {
    let units = service().files(ServiceManager::Systemd);
    assert_eq!(units[0].path, Path::new("/home/u/.config/systemd/user/obey.service"));
    assert_eq!(units[1].path, Path::new("/home/u/.config/systemd/user/obey.socket"));
    golden("obey.service", &units[0].text);
    golden("obey.socket", &units[1].text);
    let list = service().files(ServiceManager::Launchd);
    assert_eq!(list[0].path, Path::new("/home/u/Library/LaunchAgents/dev.obey.daemon.plist"));
    golden("dev.obey.daemon.plist", &list[0].text);
}

#[test]
fn words_with_special_characters_stay_what_they_are() {
    let odd = Service {
        program: "/opt/100% \"mine\"\\x/obey".into(),
        socket: Some("/run/a%b/daemon.sock".into()),
        variables: vec![("PATH".into(), "/a&b:/c<d".into())],
        ..service()
    };
    let units = odd.files(ServiceManager::Systemd);
    let start = units[0].text.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert_eq!(start, r#"ExecStart="/opt/100%% \"mine\"\\x/obey" serve --socket "/run/a%%b/daemon.sock""#);
    assert!(units[1].text.contains("ListenStream=/run/a%%b/daemon.sock\n"), "{}", units[1].text);
    let list = &odd.files(ServiceManager::Launchd)[0].text;
    assert!(list.contains("<string>/a&amp;b:/c&lt;d</string>"), "{list}");
    assert!(
        list.contains("<string>--socket</string>\n        <string>/run/a%b/daemon.sock</string>"),
        "{list}"
    );
}

#[test]
fn only_what_we_wrote_counts_as_ours() {
    let temp = tempfile::tempdir().unwrap();
    let service = Service { config_home: temp.path().to_owned(), ..service() };
    let unit = &service.files(ServiceManager::Systemd)[0];
    assert_eq!(unit.found().unwrap(), FileState::Missing);
    unit.write().unwrap();
    assert_eq!(unit.found().unwrap(), FileState::Same);
    let older = ServiceFile { text: unit.text.replace("RestartSec=1", "RestartSec=9"), ..unit.clone() };
    older.write().unwrap();
    assert_eq!(unit.found().unwrap(), FileState::Different);
    let quoting = format!("[Unit]\n\n\n\n# {MARKER}\n");
    for foreign in ["[Unit]\nDescription=mine\n", quoting.as_str(), ""] {
        fs::write(&unit.path, foreign).unwrap();
        assert_eq!(unit.found().unwrap(), FileState::Foreign, "{foreign:?}");
    }
    fs::write(&unit.path, [0xff, 0xfe]).unwrap();
    assert_eq!(unit.found().unwrap(), FileState::Foreign);
    let list = &Service { home: temp.path().to_owned(), ..service }.files(ServiceManager::Launchd)[0];
    list.write().unwrap();
    assert_eq!(list.found().unwrap(), FileState::Same);
}
