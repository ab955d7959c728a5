//! Evaluates a call before its session decides about it: where its paths really lead, and what the rules in
//! force say. Only evaluates; stores nothing and notifies nothing.

use std::path::{Component, Path, PathBuf};

use domain::permission::grant::Asked;
use domain::permission::pattern::{self, PatternCall};
use domain::permission::{CallEvaluation, RuleVerdict};
use domain::request::{PermissionSubject, RequestSubject, Settler};
use domain::{AgentEvent, Command, Input, SessionSpec, any_report};

use crate::settings::Settings;
use host::clock;

/// Adds to an input the evaluation its session needs to decide.
pub(crate) fn with_evaluation(settings: &Settings, spec: &SessionSpec, input: Input) -> Input {
    if let Input::Command(Command::AskPermission { native, ask }) = input {
        let findings = evaluate_and_count(settings, spec, &ask);
        return Input::Asked { native, ask, findings };
    }
    if let Input::Agent(report) = input {
        return report_with_evaluation(settings, spec, report);
    }
    input
}

fn report_with_evaluation(settings: &Settings, spec: &SessionSpec, report: AgentEvent) -> Input {
    match report {
        AgentEvent::Asked { native, ask: RequestSubject::Permission(ask) } => {
            let findings = evaluate_and_count(settings, spec, &ask);
            Input::Asked { native, ask, findings }
        }
        AgentEvent::Checks { native, ask } => {
            let findings = evaluate(settings, spec, &ask);
            Input::Checked { native, ask, findings }
        }
        // A client's tool that the rules forbid is refused like any other call. Otherwise it needs no
        // permission.
        AgentEvent::Asked { native, ask: RequestSubject::ClientTool { call, tool, input } } => {
            let ask = PermissionSubject {
                call: Some(call.clone()),
                tool,
                input,
                title: String::new(),
                parent: None,
            };
            let findings = evaluate(settings, spec, &ask);
            if matches!(findings.verdict, RuleVerdict::Deny { .. }) {
                return Input::Asked { native, ask, findings };
            }
            let PermissionSubject { tool, input, .. } = ask;
            Input::Agent(AgentEvent::Asked { native, ask: RequestSubject::ClientTool { call, tool, input } })
        }
        AgentEvent::Asked { ask: RequestSubject::Question { .. }, .. }
        | any_report!(life turn text call Withdrew settings usage worker log) => Input::Agent(report),
    }
}

/// Evaluates a call an agent asks for. Rules that cannot be read deny everything, since it is unknown what
/// they forbid.
pub(crate) fn evaluate(settings: &Settings, spec: &SessionSpec, ask: &PermissionSubject) -> CallEvaluation {
    evaluate_with(settings, spec, ask, false)
}

/// The same for a call that is about to be answered: it uses up one use of a rule that allows a limited
/// number.
fn evaluate_and_count(settings: &Settings, spec: &SessionSpec, ask: &PermissionSubject) -> CallEvaluation {
    evaluate_with(settings, spec, ask, true)
}

/// Resolves the paths of a call and judges it by the rules in force; with `counts` a limited rule loses a
/// use.
fn evaluate_with(
    settings: &Settings,
    spec: &SessionSpec,
    ask: &PermissionSubject,
    counts: bool,
) -> CallEvaluation {
    let named = pattern::paths_of(&ask.tool, &ask.input, &spec.working_dir);
    let real_paths: Vec<PathBuf> = named.iter().map(|path| real(path)).collect();
    let (tool, input, working_dir) = (ask.tool.as_str(), &ask.input, spec.working_dir.as_path());
    let asked = Asked {
        call: PatternCall { tool, input, working_dir, real_paths: Some(&real_paths) },
        parent: ask.parent.as_ref(),
        root: spec.place().root,
        now: clock::now(),
    };
    let rules = settings.rules_in(&spec.working_dir, asked.root);
    let explanation = rules.as_ref().map_or_else(|_| String::new(), |rules| rules.explain(&asked));
    let verdict = match rules {
        Ok(rules) => match rules.limited(&asked).filter(|_| counts) {
            Some(rule) => counted(settings, &rule.grant.id, &asked, rules.judge(&asked)),
            None => rules.judge(&asked),
        },
        Err(error) => RuleVerdict::Deny {
            by: Settler::UNREADABLE_RULES.to_string(),
            message: format!("the permission rules cannot be read, so nothing is allowed: {}", error.message),
        },
    };
    CallEvaluation { verdict, real_paths, explanation }
}

/// A use that cannot be counted does not allow the call: a person is asked instead.
fn counted(settings: &Settings, id: &str, asked: &Asked<'_>, verdict: RuleVerdict) -> RuleVerdict {
    match settings.take_use(id, asked.now) {
        Ok(true) => verdict,
        Ok(false) => RuleVerdict::Ask,
        Err(error) => {
            tracing::warn!(rule = id, %error, "a use cannot be counted; somebody is asked");
            RuleVerdict::Ask
        }
    }
}

/// Returns a predicate for files that a rule forbids to read, for tools that search many files. If the rules
/// cannot be read, all files are forbidden.
pub fn unreadable(
    settings: &Settings,
    working_dir: &Path,
    root: &Path,
) -> impl Fn(&Path) -> bool + Send + Sync + use<> {
    let rules = settings.rules_in(working_dir, root);
    let (working_dir, root, now) = (working_dir.to_owned(), root.to_owned(), clock::now());
    move |path| {
        let Ok(rules) = &rules else { return true };
        let input = serde_json::json!({"file_path": path.to_string_lossy()});
        let real = [path.to_owned()];
        let call =
            PatternCall { tool: "Read", input: &input, working_dir: &working_dir, real_paths: Some(&real) };
        let asked = Asked { call, parent: None, root: &root, now };
        matches!(rules.judge(&asked), RuleVerdict::Deny { .. })
    }
}

/// Resolves the links of a path as far as it exists. The rest, which does not exist yet, keeps its name.
fn real(path: &Path) -> PathBuf {
    let mut missing = Vec::new();
    let mut there = path;
    loop {
        match there.canonicalize() {
            Ok(found) => {
                return missing
                    .iter()
                    .rev()
                    .fold(found, |path: PathBuf, name: &Component<'_>| path.join(name));
            }
            // A dangling link could be made to lead anywhere, and a write goes to its target. It is treated
            // as `/`.
            Err(_) if there.is_symlink() => return PathBuf::from("/"),
            Err(_) => {}
        }
        let (Some(parent), Some(name)) = (there.parent(), there.components().next_back()) else {
            return path.to_owned();
        };
        missing.push(name);
        there = parent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_followed_as_far_as_they_exist() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("a")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
        std::os::unix::fs::symlink(root.join("nowhere"), root.join("dangling")).unwrap();
        assert_eq!(real(&root.join("a/new/file")), root.join("a/new/file"));
        assert_eq!(real(&root.join("out/passwd")), Path::new("/etc/passwd"));
        assert_eq!(real(&root.join("out/new")), Path::new("/etc/new"));
        assert_eq!(real(&root.join("dangling")), Path::new("/"));
    }
}
