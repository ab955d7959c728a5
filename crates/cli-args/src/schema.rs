//! The arguments of `obey schema`.

use clap::Args;

#[derive(Clone, Debug, Args)]
pub struct SchemaArgs {
    /// The schema to print; without one, the names of all are listed
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
