//! Rules in files: written, read, counted, narrowed and removed.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use domain::permission::{Coverage, GrantAction};

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

fn project_file(folder: &Path) -> PathBuf {
    folder.join(PROJECT_FILE)
}

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn user(&self) -> PathBuf {
        self.folder.path().join("config/rules.toml")
    }

    fn project(&self) -> PathBuf {
        let project = self.folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir_all(project.join(".obey")).unwrap();
        project
    }

    fn write_project(&self, text: &str) -> Result<ProjectRules, Error> {
        let project = self.project();
        std::fs::write(project_file(&project), text).unwrap();
        of_project(&project)
    }

    fn write_user(&self, text: &str) -> Result<Vec<FileRule>, Error> {
        std::fs::create_dir_all(self.user().parent().unwrap()).unwrap();
        std::fs::write(self.user(), text).unwrap();
        of_user(&self.user())
    }
}

fn prefix(scope: Scope) -> Grant {
    Grant {
        scope,
        given_by: "cli".to_owned(),
        given_at: Some(NOW),
        ..Grant::new("Bash", Coverage::Prefix("npm test".to_owned()))
    }
}

#[test]
fn a_rule_is_written_read_and_taken_back() {
    let files = Files::new();
    let rule = add(&files.user(), &prefix(Scope::Always), "tests are harmless", NOW).unwrap();
    assert_eq!(of_user(&files.user()).unwrap(), std::slice::from_ref(&rule));
    assert_eq!((rule.grant.given_by.as_str(), rule.reason.as_str()), ("cli", "tests are harmless"));
    // Adding the same rule again does not add a second one.
    add(&files.user(), &prefix(Scope::Always), "", NOW).unwrap();
    assert_eq!(of_user(&files.user()).unwrap().len(), 1);
    let other = add(&files.user(), &prefix(Scope::Project("/repo".into())), "", NOW).unwrap();
    assert_ne!(other.grant.id, rule.grant.id);
    assert!(remove(&files.user(), &rule.grant.id, NOW).unwrap().is_some());
    assert!(remove(&files.user(), &rule.grant.id, NOW).unwrap().is_none());
    assert_eq!(of_user(&files.user()).unwrap(), [other]);
}

#[test]
fn what_people_wrote_around_a_rule_stays() {
    let files = Files::new();
    files.write_user("# mine\n[[rule]]\naction = \"deny\" # never\ntool = \"WebFetch\"\n").unwrap();
    add(&files.user(), &prefix(Scope::Always), "", NOW).unwrap();
    let text = std::fs::read_to_string(files.user()).unwrap();
    assert!(text.starts_with("# mine\n[[rule]]\naction = \"deny\" # never\n"), "{text}");
    assert_eq!(of_user(&files.user()).unwrap().len(), 2);
}

#[test]
fn uses_are_counted_and_end_the_rule() {
    let files = Files::new();
    let grant = Grant { uses_left: Some(2), ..prefix(Scope::Always) };
    let id = add(&files.user(), &grant, "", NOW).unwrap().grant.id;
    assert!(take_use(&files.user(), &id, NOW).unwrap());
    assert_eq!(of_user(&files.user()).unwrap()[0].grant.uses_left, Some(1));
    assert!(take_use(&files.user(), &id, NOW).unwrap());
    assert!(of_user(&files.user()).unwrap().is_empty());
    assert!(!take_use(&files.user(), &id, NOW).unwrap());
}

#[test]
fn what_has_run_out_goes_with_the_next_change() {
    let files = Files::new();
    let grant = Grant { expires_at: Some(Timestamp(NOW.0 + 1)), ..prefix(Scope::Always) };
    add(&files.user(), &grant, "", NOW).unwrap();
    add(&files.user(), &prefix(Scope::Project("/repo".into())), "", Timestamp(NOW.0 + 1)).unwrap();
    assert_eq!(of_user(&files.user()).unwrap().len(), 1);
}

#[test]
fn a_project_may_only_narrow() {
    let files = Files::new();
    let rules = files
        .write_project(
            "[[rule]]\naction = \"allow\"\ntool = \"*\"\n\
             [[rule]]\naction = \"deny\"\ntool = \"Read\"\nfile = \".env\"\n\
             [[rule]]\naction = \"ask\"\ntool = \"Bash(git push *)\"\n",
        )
        .unwrap();
    assert_eq!(rules.ignored.len(), 1);
    let heard: Vec<(GrantAction, &Coverage)> =
        rules.heard.iter().map(|rule| (rule.grant.action, &rule.grant.covers)).collect();
    let env = Coverage::File(files.project().join(".env"));
    assert_eq!(heard, [(GrantAction::Deny, &env), (GrantAction::Ask, &Coverage::Pattern)]);
    assert!(rules.heard.iter().all(|rule| rule.grant.scope == Scope::Project(files.project())));
}

#[test]
fn a_file_that_cannot_be_understood_names_itself_and_the_line() {
    let files = Files::new();
    for (text, line, what) in [
        ("[[rule]]\naction = \"deny\"\ntool = ", "line 3", ""),
        (
            "[[rule]]\naction = \"deny\"\ntool = \"Bash\"\n\n[[rule]]\naction = \"permit\"\ntool = \"x\"\n",
            "line 5",
            "action",
        ),
        ("[[rule]]\naction = \"deny\"\ntol = \"Bash\"\n", "line 3", "tol"),
        ("[[rule]]\naction = \"deny\"\n", "line 1", "tool"),
        ("[[rule]]\naction = \"ask\"\ntool = \"Bash\"\nprefix = \"a; b\"\n", "line 1", "prefix"),
        (
            "[[rule]]\naction = \"ask\"\ntool = \"Bash\"\nprefix = \"a\"\ncommand = \"a\"\n",
            "line 1",
            "only one",
        ),
        ("[[rule]]\naction = \"ask\"\ntool = \"Bash\"\nexpires_at = \"soon\"\n", "line 1", "expires_at"),
    ] {
        for error in [files.write_project(text).unwrap_err(), files.write_user(text).unwrap_err()] {
            assert_eq!(error.code, ErrorCode::ConfigInvalid);
            assert!(error.message.contains("rules.toml"), "{error}");
            assert!(error.message.contains(line) && error.message.contains(what), "{text}: {error}");
        }
    }
}

#[test]
fn a_project_s_file_is_a_plain_one_in_the_project() {
    let files = Files::new();
    let project = files.project();
    assert_eq!(of_project(&project).unwrap(), ProjectRules::default());
    let outside = files.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("rules.toml"), "").unwrap();
    symlink(outside.join("rules.toml"), project_file(&project)).unwrap();
    assert!(of_project(&project).unwrap_err().message.contains("link"));
    std::fs::remove_dir_all(project.join(".obey")).unwrap();
    symlink(&outside, project.join(".obey")).unwrap();
    assert!(of_project(&project).unwrap_err().message.contains("link"));
    std::fs::remove_file(project.join(".obey")).unwrap();
    std::fs::create_dir(project.join(".obey")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        project_file(&project),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    assert!(of_project(&project).unwrap_err().message.contains("regular file"), "a pipe makes nobody wait");
    std::fs::remove_file(project_file(&project)).unwrap();
    std::fs::write(project_file(&project), " ".repeat(300_000)).unwrap();
    assert!(of_project(&project).unwrap_err().message.contains("larger"));
    // The error quotes nothing of the file: an agent may read the message.
    std::fs::write(project_file(&project), "secret = sesame\n").unwrap();
    assert!(!of_project(&project).unwrap_err().message.contains("sesame"));
}

#[test]
fn a_change_by_another_program_is_told_once_and_our_own_is_not() {
    let files = Files::new();
    files.write_user("").unwrap();
    let sources =
        crate::SettingsSources { rules_file: Some(files.user()), ..crate::SettingsSources::default() };
    let settings = crate::Settings::new(sources);
    let changes = settings.watch_rules();
    settings.add_rule(&prefix(Scope::Always), "mine", NOW).unwrap();
    settings.user_rules().unwrap();
    assert_eq!(*changes.borrow(), 0, "our own change");
    let mut text = std::fs::read_to_string(files.user()).unwrap();
    text.push_str("\n[[rule]]\naction = \"allow\"\ntool = \"*\"\n");
    std::fs::write(files.user(), text).unwrap();
    for _ in 0..3 {
        assert_eq!(settings.user_rules().unwrap().len(), 2);
        assert_eq!(*changes.borrow(), 1);
    }
}
