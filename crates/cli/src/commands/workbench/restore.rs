//! `obey checkpoint restore ID`: brings the files of a project back to a checkpoint. Git runs in the sandbox; branches and index
//! stay as they are, and what was there before is kept.

use serde_json::json;
use wire::contextd::v1 as pb;

use super::WorkbenchSession;
use cli_args::workbench::WorkbenchSessionArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use terminal::console::Console;

/// Saves the tree as it is, then makes the files those of the checkpoint. `ID` is the checkpoint's.
const SCRIPT: &str = r#"
commit="$(git rev-parse -q --verify 'refs/obey/checkpoints/ID^{commit}')" || exit 9
set -e
own="$(mktemp -u)"
cp "$(git rev-parse --git-path index)" "$own" 2>/dev/null || true
export GIT_INDEX_FILE="$own"
if ! git add -A --ignore-errors . 2>"$own.errors"; then
  # A repository without a commit cannot be added; it is not touched either. Everything else must be saved.
  git ls-files -z -o --exclude-standard >"$own.untracked"
  if grep -zqv '/$' "$own.untracked" || ! git diff --quiet; then
    cat "$own.errors" >&2
    exit 8
  fi
fi
before="$(git commit-tree "$(git write-tree)" -m "before restoring ID")"
git update-ref refs/obey/before-restore/ID "$before"
# A checkpoint without all files says so; what it lacks stays where it is.
case "$(git log -1 --format=%s "$commit")" in
*" partial") git diff --cached --name-only --diff-filter=A -z "$commit" | xargs -0 -r git rm -q --cached -- ;;
esac
git read-tree -u --reset "$commit"
git diff --name-only "$before" "$commit"
"#;

/// Exit code of the script if the checkpoint holds no tree.
const NO_TREE: i32 = 9;

/// Exit code of the script if the files as they are cannot be saved.
const NOT_SAVED: i32 = 8;

/// How long git may take; a large tree is written in seconds.
const RESTORE_WAIT_SECS: i32 = 300;

pub(super) async fn run(
    console: &mut Console,
    session_args: &WorkbenchSessionArgs,
    id: &str,
) -> Result<Exit> {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if id.is_empty() || !plain(id) {
        return Err(Failure::usage(format!("{id:?} is no checkpoint; `obey checkpoint list` shows them")));
    }
    let visit = WorkbenchSession::open(console, session_args).await?;
    let answer = restore(&visit, id).await;
    visit.close().await;
    let answer = answer?;
    match answer.exit_code {
        0 => {}
        NO_TREE => {
            let text = format!("{id} holds no tree: its project had no git repository when it was saved");
            return Err(Failure::failed(text));
        }
        NOT_SAVED => {
            let said = answer.stderr_preview.trim();
            let text = format!("nothing was restored, as the files that are there cannot be saved: {said}");
            return Err(Failure::failed(text));
        }
        code => {
            let said = answer.stderr_preview.trim();
            return Err(Failure::failed(format!(
                "git ended with {code}; nothing is lost, see refs/obey/before-restore/{id}: {said}"
            )));
        }
    }
    let changed = answer.stdout_preview.lines().count();
    let before = format!("refs/obey/before-restore/{id}");
    if console.out.json {
        console.out.json(&json!({"checkpoint_id": id, "changed": changed > 0, "before": before}))?;
    } else {
        let what = if changed == 0 { "nothing had changed" } else { "the files are those of the checkpoint" };
        console.out.line(&format!("Restored {id}: {what}. What was there before is {before}."))?;
    }
    Ok(Exit::OK)
}

/// Asks for the checkpoint, which says whether it exists in this project, and runs the script.
async fn restore(visit: &WorkbenchSession, id: &str) -> Result<pb::BashResponse> {
    let request = pb::CheckpointResumeRequest {
        checkpoint_id: id.to_owned(),
        level: "summary".to_owned(),
        session_id: visit.session(),
    };
    visit.client.checkpoints().resume(request).await?;
    let request = pb::BashRequest {
        cmd: SCRIPT.replace("ID", id),
        timeout: RESTORE_WAIT_SECS,
        session_id: visit.session(),
        working_dir: String::new(),
    };
    Ok(visit.client.safe_exec().bash(request).await?.into_inner())
}
