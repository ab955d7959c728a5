//! The arguments of `obey campaign …`. Parses; the commands do the rest.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use domain::Mode;

use super::budget::CampaignBudgetArgs;
use super::values;

#[derive(Debug, Subcommand)]
pub enum CampaignCommand {
    /// Register a folder as a campaign
    Add(CampaignAddArgs),
    /// List the campaigns
    #[command(visible_alias = "ls")]
    List,
    /// Unregister a campaign; nothing in its folder is changed
    #[command(visible_alias = "rm")]
    Remove {
        /// Id or name
        #[arg(value_name = "ID|NAME")]
        campaign: String,
    },
    /// Change settings, for sessions created from now on
    Set {
        /// Id or name
        #[arg(value_name = "ID|NAME")]
        campaign: String,
        #[command(flatten)]
        settings: CampaignSettings,
    },
    /// Show or change what its sessions may spend together; raising a used-up budget goes on with their turns
    Budget(CampaignBudgetArgs),
}

#[derive(Debug, Args)]
pub struct CampaignAddArgs {
    /// The campaign's folder
    pub path: PathBuf,
    /// Its name [default: the folder's name]
    #[arg(long)]
    pub name: Option<String>,
    /// A description
    #[arg(long)]
    pub description: Option<String>,
    #[command(flatten)]
    pub settings: CampaignSettings,
}

/// What a campaign may say for its sessions.
#[derive(Debug, Args)]
#[group(required = false, multiple = true)]
pub struct CampaignSettings {
    /// Take secrets out of its sessions' events [default: as scrub.events says]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    pub scrub: Option<bool>,
    /// The mode of its sessions that name none: supervised, autonomous, plan or acceptEdits; none: as
    /// sessions.default_mode says
    #[arg(long, value_name = "MODE", value_parser = mode_or_none)]
    pub mode: Option<ModeSetting>,
}

impl CampaignSettings {
    /// Returns the mode as it is sent: empty for none.
    pub fn mode_name(&self) -> Option<String> {
        self.mode.as_ref().map(|setting| setting.0.map(Mode::name).unwrap_or_default().to_owned())
    }
}

/// A mode, or that the daemon's configuration decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSetting(pub Option<Mode>);

fn mode_or_none(text: &str) -> Result<ModeSetting, String> {
    match text {
        "none" => Ok(ModeSetting(None)),
        text => values::mode(text).map(|mode| ModeSetting(Some(mode))),
    }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("{other:?} is neither on nor off")),
    }
}
