//! The database: whether this program can use it, and whether it is damaged. Changes nothing.

use std::path::Path;

use domain::ErrorCode;

use super::Finding;

const CHECK: &str = "database";

/// Looks at the file; nothing where there is none yet.
pub(super) async fn examine(data_dir: &Path) -> Option<Finding> {
    let path = data_dir.join("daemon.db");
    // A new file is empty until it is first used.
    std::fs::metadata(&path).ok().filter(|meta| meta.len() > 0)?;
    let shown = path.display().to_string();
    let looked = tokio::task::spawn_blocking(move || storage::check_file(&path)).await.ok()?;
    Some(match looked {
        Ok(()) => Finding::ok(CHECK, shown),
        Err(error) if error.code == ErrorCode::StorageTooNew => {
            Finding::broken(CHECK, error.message, "install the newer version again, or set another data_dir")
        }
        Err(error) => {
            let folder = data_dir.display();
            let repair = format!(
                "stop the daemon (obey stop) and restore {folder} from a backup; or move {shown} away and begin anew: \
                 sessions are gone then, projects are not touched"
            );
            Finding::broken(CHECK, error.message, repair)
        }
    })
}
