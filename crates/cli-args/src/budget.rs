//! The arguments of budgets: the amounts, and those of `obey budget` and `obey campaign budget`. Parses; the commands do the
//! rest.

use clap::Args;

use super::values;

/// What is to be changed of a budget; nothing: it is shown.
#[derive(Debug, Args)]
#[group(required = false, multiple = true)]
pub struct AmountArgs {
    /// Money, in US dollars; 0: no limit
    #[arg(long, value_name = "N", value_parser = values::amount, allow_negative_numbers = true)]
    pub usd: Option<f64>,
    /// Tokens; 0: no limit
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub tokens: Option<u64>,
    /// Minutes of work; 0: no limit
    #[arg(long, value_name = "N", value_parser = values::amount, allow_negative_numbers = true)]
    pub minutes: Option<f64>,
    /// Uses of tools; 0: no limit
    #[arg(long, value_name = "N", value_parser = values::count, allow_negative_numbers = true)]
    pub calls: Option<u64>,
}

impl AmountArgs {
    /// Returns the parts that are to be changed.
    pub fn budget(&self) -> domain::Budget {
        let scaled = |amount: Option<f64>, unit: f64| amount.map(|amount| (amount * unit).ceil() as u64);
        domain::Budget {
            tokens: self.tokens,
            cost_micro_usd: scaled(self.usd, 1_000_000.0),
            work_ms: scaled(self.minutes, 60_000.0),
            calls: self.calls,
        }
    }
}

#[derive(Debug, Args)]
pub struct DayBudgetArgs {
    #[command(flatten)]
    pub amounts: AmountArgs,
}

#[derive(Debug, Args)]
pub struct CampaignBudgetArgs {
    /// Id or name
    #[arg(value_name = "ID|NAME")]
    pub campaign: String,
    /// What its sessions may spend in one day, instead of in all
    #[arg(long)]
    pub per_day: bool,
    #[command(flatten)]
    pub amounts: AmountArgs,
}
