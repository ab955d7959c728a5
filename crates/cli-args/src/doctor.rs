//! The arguments of `obey doctor`.

use std::path::PathBuf;

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub struct DoctorArgs {
    /// Also write what a bug report needs into a tar archive: findings, configuration, log and metrics, without secrets
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
}
