//! What was used, as the screen shows it: by what it is split, over which time, and the sums.

/// By what the sums are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageBy {
    Campaign,
    Provider,
    Model,
    Session,
}

impl UsageBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Campaign => "campaign",
            Self::Provider => "provider",
            Self::Model => "model",
            Self::Session => "session",
        }
    }

    pub(crate) fn next(self) -> Self {
        match self {
            Self::Campaign => Self::Provider,
            Self::Provider => Self::Model,
            Self::Model => Self::Session,
            Self::Session => Self::Campaign,
        }
    }
}

/// The time that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsageSpan {
    /// 24 hours, by the hour.
    Day,
    /// 30 days, by the day.
    Month,
    /// From the beginning; there is nothing to draw over time.
    Always,
}

impl UsageSpan {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Month => "30 days",
            Self::Always => "from the beginning",
        }
    }

    pub(crate) fn next(self) -> Self {
        match self {
            Self::Day => Self::Month,
            Self::Month => Self::Always,
            Self::Always => Self::Day,
        }
    }

    pub(crate) fn buckets(self) -> usize {
        match self {
            Self::Day => 24,
            Self::Month => 30,
            Self::Always => 0,
        }
    }

    /// Length of a bucket.
    pub(crate) fn step_seconds(self) -> u64 {
        match self {
            Self::Day => 3_600,
            Self::Month | Self::Always => 86_400,
        }
    }
}

/// The sums of one campaign, provider, model or session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageRow {
    pub(crate) name: String,
    pub(crate) tokens: u64,
    /// `None`: not reported, which is not 0.
    pub(crate) cost_micro_usd: Option<u64>,
    /// Tokens over time, oldest first.
    pub(crate) buckets: Vec<u64>,
}
