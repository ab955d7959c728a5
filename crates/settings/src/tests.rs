//! Where settings come from, which of them are effective, and what is written.

use std::os::unix::fs::symlink;

use domain::ErrorCode;
use serde_json::{Value, json};

use super::*;

/// A user's file, a project, and the settings that read them.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(place.project().join(".betcode")).unwrap();
        place
    }

    fn global(&self) -> PathBuf {
        self.folder.path().join("user/settings.json")
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn write(&self, global: Value, project: Value) {
        std::fs::create_dir_all(self.global().parent().unwrap()).unwrap();
        std::fs::write(self.global(), global.to_string()).unwrap();
        std::fs::write(self.project().join(PROJECT_FILE), project.to_string()).unwrap();
    }

    fn settings(&self, environment: &[(&str, &str)], flags: &[&str]) -> Settings {
        let variables = environment.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Settings::new(SettingsSources {
            rules_file: None,
            global_file: Some(self.global()),
            environment: SettingsSources::read_environment(variables).unwrap(),
            flags: SettingsSources::read_flags(flags.iter().copied()).unwrap(),
        })
    }

    fn effective(&self, environment: &[(&str, &str)], flags: &[&str]) -> SettingsLayer {
        self.settings(environment, flags).effective(Some(&self.project())).unwrap()
    }
}

#[test]
fn each_place_wins_over_those_before_it() {
    let place = Place::new();
    let wait = |layer: SettingsLayer| layer.permissions.connected_timeout_secs.unwrap();
    assert_eq!(wait(place.effective(&[], &[])), 60);
    let says = |seconds: u32| json!({"permissions": {"connected_timeout_secs": seconds}});
    place.write(says(1), json!({}));
    assert_eq!(wait(place.effective(&[], &[])), 1);
    place.write(says(1), says(2));
    assert_eq!(wait(place.effective(&[], &[])), 2);
    let environment = [("BETCODE_PERMISSIONS_CONNECTED_TIMEOUT_SECS", "3")];
    assert_eq!(wait(place.effective(&environment, &[])), 3);
    let flags = ["permissions.connected_timeout_secs=4"];
    assert_eq!(wait(place.effective(&environment, &flags)), 4);
    // A value that a source does not set stays.
    assert_eq!(place.effective(&environment, &flags).permissions.disconnected_timeout_secs, Some(604_800));
    let settings = place.settings(&environment, &flags);
    let layer = |scope| wait(settings.layer(&scope).unwrap());
    assert_eq!(
        [
            SettingsScope::Default,
            SettingsScope::Global,
            SettingsScope::Project(place.project()),
            SettingsScope::Environment,
            SettingsScope::Flag
        ]
        .map(layer),
        [60, 1, 2, 3, 4]
    );
}

#[test]
fn a_project_can_only_make_things_stricter() {
    let place = Place::new();
    place.write(
        json!({"permissions": {"allow": ["Bash(git *)"]}}),
        json!({"permissions": {
            "allow": ["Bash"], "deny": ["Bash(git push *)"],
            "rules": [{"tool_pattern": "*", "action": "allow", "priority": -1}],
            "enable_auto_approve": true, "auto_approve_directories": ["/"],
        }}),
    );
    // The root as a folder is refused in every source.
    let settings = place.settings(&[], &[]);
    assert!(settings.rules(Some(&place.project())).is_err());
    place.write(
        json!({"permissions": {"allow": ["Bash(git *)"]}}),
        json!({"permissions": {
            "allow": ["Bash"], "deny": ["Bash(git push *)"],
            "rules": [{"tool_pattern": "*", "action": "allow", "priority": -1}],
            "enable_auto_approve": true, "auto_approve_directories": ["/tmp"],
        }}),
    );
    let rules = settings.rules(Some(&place.project())).unwrap();
    let own: Vec<(&str, RuleAction)> = rules
        .iter()
        .filter(|rule| rule.source != "built-in")
        .map(|rule| (rule.tool_pattern.as_str(), rule.action))
        .collect();
    assert_eq!(own, [("Bash(git push *)", RuleAction::Deny), ("Bash(git *)", RuleAction::Allow)]);
    assert!(rules.iter().all(|rule| !rule.id.is_empty()));
    assert_eq!(
        settings.effective(Some(&place.project())).unwrap().permissions.enable_auto_approve,
        Some(false)
    );
}

#[test]
fn folders_of_the_user_s_choice_allow_everything() {
    let place = Place::new();
    let folder = place.folder.path().display().to_string();
    let on = json!({"permissions": {"enable_auto_approve": true, "auto_approve_directories": [folder]}});
    place.write(on, json!({}));
    let settings = place.settings(&[], &[]);
    let allows = |project: &Path| {
        settings.rules(Some(project)).unwrap().iter().any(|rule| rule.source == "auto_approve_directories")
    };
    assert!(allows(&place.project()));
    assert!(!allows(Path::new("/elsewhere")));
}

#[test]
fn a_file_that_cannot_be_understood_is_an_error_not_silence() {
    let place = Place::new();
    let file = place.project().join(PROJECT_FILE);
    let settings = place.settings(&[], &[]);
    let fails = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let error = settings.rules(Some(&place.project())).unwrap_err();
        assert_eq!(error.code, ErrorCode::ConfigInvalid, "{text}");
        assert!(error.message.contains(".betcode/settings.json"), "{error}");
    };
    fails("{");
    fails("[]");
    fails(r#"{"permissions": {"deny": ["Bash("]}}"#);
    fails(r#"{"permissions": {"connected_timeout_secs": "soon"}}"#);
    fails(&" ".repeat(300_000));
    std::fs::remove_file(&file).unwrap();
    assert!(settings.rules(Some(&place.project())).is_ok());
    // A pipe must not block the reader.
    let path = std::ffi::CString::new(file.display().to_string()).unwrap();
    #[allow(unsafe_code)]
    // SAFETY: the path is a valid, terminated text.
    let made = unsafe { libc::mkfifo(path.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    assert!(settings.rules(Some(&place.project())).unwrap_err().message.contains("regular file"));
}

#[test]
fn an_update_changes_what_it_says_and_keeps_the_rest() {
    let place = Place::new();
    place.write(
        json!({"theme": "dark", "permissions": {"deny": ["Bash(rm *)"], "connected_timeout_secs": 9}}),
        json!({}),
    );
    let settings = place.settings(&[], &[]);
    let mut change = SettingsLayer::default();
    change.permissions.connected_timeout_secs = Some(5);
    change.sessions.default_model = Some("sonnet".to_owned());
    settings.update(&SettingsScope::Global, &change).unwrap();
    let written: Value = serde_json::from_str(&std::fs::read_to_string(place.global()).unwrap()).unwrap();
    assert_eq!(
        written,
        json!({"theme": "dark", "sessions": {"default_model": "sonnet"},
               "permissions": {"deny": ["Bash(rm *)"], "connected_timeout_secs": 5}})
    );
    settings.update(&SettingsScope::Project(place.project()), &change).unwrap();
    assert_eq!(settings.effective(Some(&place.project())).unwrap().sessions.default_model.unwrap(), "sonnet");
    let left: Vec<_> = std::fs::read_dir(place.global().parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "nothing is left beside the file");
}

#[test]
fn a_bad_update_changes_nothing() {
    let place = Place::new();
    place.write(json!({}), json!({}));
    let settings = place.settings(&[], &[]);
    let refuses = |scope: SettingsScope, change: fn(&mut SettingsLayer), field: &str| {
        let mut layer = SettingsLayer::default();
        change(&mut layer);
        let error = settings.update(&scope, &layer).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.starts_with(field), "{error}");
    };
    refuses(SettingsScope::Default, |_| {}, "scope: ");
    refuses(SettingsScope::Flag, |_| {}, "scope: ");
    refuses(SettingsScope::Project("/nowhere/x".into()), |_| {}, "scope: ");
    refuses(
        SettingsScope::Global,
        |layer| layer.sessions.auto_compact_threshold = Some(5),
        "settings.sessions.auto_compact_threshold: ",
    );
    refuses(
        SettingsScope::Global,
        |layer| layer.permissions.connected_timeout_secs = Some(u32::MAX),
        "settings.permissions.connected_timeout_secs: ",
    );
    refuses(
        SettingsScope::Global,
        |layer| layer.permissions.auto_approve_directories = Some(vec!["src".to_owned()]),
        "settings.permissions.auto_approve_directories: ",
    );
    refuses(
        SettingsScope::Global,
        |layer| {
            layer.feature_flags.insert("warp".to_owned(), true);
        },
        "settings.feature_flags.warp: ",
    );
    refuses(
        SettingsScope::Global,
        |layer| {
            layer.feature_flags.insert("session_persistence".to_owned(), false);
        },
        "settings.feature_flags.session_persistence: ",
    );
    refuses(
        SettingsScope::Project(place.project()),
        |layer| layer.permissions.enable_auto_approve = Some(true),
        "settings.permissions.enable_auto_approve: ",
    );
    assert_eq!(std::fs::read_to_string(place.global()).unwrap(), "{}");
}

#[test]
fn a_project_cannot_make_us_write_elsewhere() {
    let place = Place::new();
    let elsewhere = place.folder.path().join("elsewhere.json");
    std::fs::write(&elsewhere, "{}").unwrap();
    symlink(&elsewhere, place.project().join(PROJECT_FILE)).unwrap();
    let mut change = SettingsLayer::default();
    change.sessions.default_model = Some("sonnet".to_owned());
    let settings = place.settings(&[], &[]);
    assert!(
        settings
            .update(&SettingsScope::Project(place.project()), &change)
            .unwrap_err()
            .message
            .contains("link")
    );
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "{}");
    // The user's own file may be a link.
    std::fs::create_dir_all(place.global().parent().unwrap()).unwrap();
    symlink(&elsewhere, place.global()).unwrap();
    settings.update(&SettingsScope::Global, &change).unwrap();
    assert!(std::fs::read_to_string(&elsewhere).unwrap().contains("sonnet"));
    assert!(place.global().is_symlink());
}

#[test]
fn variables_and_flags_are_checked_when_the_daemon_starts() {
    for flag in
        ["permissions.connected_timeout_secs", "x.y=1", "sessions.auto_compact=maybe", "permissions.deny=a b"]
    {
        let error = SettingsSources::read_flags([flag].into_iter()).unwrap_err();
        assert_eq!(error.code, ErrorCode::ConfigInvalid, "{error}");
    }
    let variables = [("BETCODE_SESSIONS_AUTO_COMPACT_THRESHOLD".into(), "many".into())];
    let error = SettingsSources::read_environment(variables.into_iter()).unwrap_err();
    assert!(error.message.contains("BETCODE_SESSIONS_AUTO_COMPACT_THRESHOLD=many"), "{error}");
    let flags = SettingsSources::read_flags(["permissions.allow=Bash(echo a,b), Read"].into_iter()).unwrap();
    assert_eq!(flags.permissions.allow, ["Bash(echo a,b)", "Read"]);
}
