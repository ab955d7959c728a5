//! The tree of a checkpoint: a commit of everything in the project, outside the branches (`refs/obey/checkpoints/ID`). Git
//! runs in the sandbox, so that nothing a repository names runs outside; index and branches stay as they are.

use domain::{Error, SessionId};

use crate::tools::Exec;
use crate::{Project, Workbench, limits};

/// Exit code of the script in a project without a repository.
const NO_REPOSITORY: i32 = 9;

/// Commits the working tree with an index of its own. `ID` is the checkpoint's.
const SCRIPT: &str = r#"
git rev-parse --git-dir >/dev/null 2>&1 || exit 9
set -e
own="$(mktemp -u)"
cp "$(git rev-parse --git-path index)" "$own" 2>/dev/null || true
export GIT_INDEX_FILE="$own"
git add -A .
head="$(git rev-parse -q --verify HEAD || true)"
commit="$(git commit-tree "$(git write-tree)" ${head:+-p "$head"} -m "obey checkpoint ID")"
git update-ref refs/obey/checkpoints/ID "$commit"
printf '%s' "$commit"
"#;

impl Workbench {
    /// Saves the project's tree for a checkpoint and returns its commit; `None` in a project without a repository.
    pub async fn save_tree(
        &self,
        session: &SessionId,
        project: &Project,
        checkpoint: &str,
    ) -> Result<Option<String>, Error> {
        let exec = Exec {
            command: SCRIPT.replace("ID", checkpoint),
            working_dir: String::new(),
            timeout: Some(limits::CHECKPOINT_TREE_WAIT),
            env: Vec::new(),
        };
        let answer = self.exec(session, project, exec).await?;
        let commit = answer.stdout.preview.trim();
        match answer.exit_code {
            0 if is_commit(commit) => Ok(Some(commit.to_owned())),
            NO_REPOSITORY => Ok(None),
            code => {
                let said = answer.stderr.preview.trim();
                Err(Error::new(
                    domain::ErrorCode::CommandFailed,
                    format!("the project's tree cannot be saved: git ended with {code}: {said}"),
                ))
            }
        }
    }
}

fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
