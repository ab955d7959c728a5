//! Counts tokens and cost so that the session's sum equals what the agent reports, at every moment and never
//! twice.
//!
//! While a turn runs, every message of the model reports its own tokens; a `result` then reports what was
//! really used since the last one, including sub-agents and side requests. What was reported ahead of a
//! result is offset against it. What was reported in excess (the agent does not count a message that was cut
//! off) is offset against what comes next.

use domain::Usage;
use serde::{Deserialize, Serialize};

/// The usage counts of one run of an agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct UsageTally {
    /// The sum of all results.
    said: Usage,
    /// Its cost, finer than the sum shown, so that rounding errors do not add up.
    said_nano_usd: u64,
    /// What messages reported since the last result.
    ahead: Usage,
    /// What was reported to the session.
    reported: Usage,
    /// Running totals of the last result, for agents that do not report differences.
    total: Option<(Usage, u64)>,
}

impl UsageTally {
    /// Adds what a message used beyond its earlier counts; returns what to report.
    pub(super) fn message(&mut self, more: &Usage) -> Usage {
        self.ahead.add(more);
        let mut sum = self.said;
        sum.add(&self.ahead);
        self.report(&sum)
    }

    /// Adds what a result reports as used since the last one; returns what to report.
    pub(super) fn settle(&mut self, since: &Usage, nano_usd: u64) -> Usage {
        self.said.add(since);
        self.said_nano_usd = self.said_nano_usd.saturating_add(nano_usd);
        self.said.cost_micro_usd = self.said_nano_usd.saturating_add(500) / 1_000;
        self.ahead = Usage::default();
        let sum = self.said;
        self.report(&sum)
    }

    /// Returns what is new in a running total. The total restarts at zero when the conversation is cleared,
    /// and includes the past of a resumed conversation, so the first one says nothing.
    pub(super) fn since(&mut self, total: Usage, nano_usd: u64) -> Option<(Usage, u64)> {
        let last = self.total.replace((total, nano_usd))?;
        let shrank = total.input_tokens < last.0.input_tokens || total.output_tokens < last.0.output_tokens;
        if shrank {
            return Some((total, nano_usd));
        }
        Some((total.beyond(&last.0), nano_usd.saturating_sub(last.1)))
    }

    fn report(&mut self, sum: &Usage) -> Usage {
        let more = sum.beyond(&self.reported);
        self.reported.add(&more);
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: u64, output: u64) -> Usage {
        Usage { input_tokens: input, output_tokens: output, ..Usage::default() }
    }

    #[test]
    fn messages_and_their_result_count_once() {
        let mut tally = UsageTally::default();
        assert_eq!(tally.message(&tokens(10, 1)), tokens(10, 1));
        assert_eq!(tally.message(&tokens(0, 35)), tokens(0, 35));
        // A sub-agent that was not reported used 5 and 7 more.
        assert_eq!(tally.settle(&tokens(15, 43), 1_499), Usage { cost_micro_usd: 1, ..tokens(5, 7) });
        assert_eq!(tally.settle(&tokens(0, 0), 0), tokens(0, 0));
        // Half a micro-dollar each time must not vanish.
        assert_eq!(tally.settle(&tokens(0, 0), 501).cost_micro_usd, 1);
    }

    #[test]
    fn what_was_reported_too_much_is_set_off() {
        let mut tally = UsageTally::default();
        tally.message(&tokens(10, 1));
        assert_eq!(tally.settle(&tokens(0, 0), 0), tokens(0, 0));
        assert_eq!(tally.message(&tokens(10, 1)), tokens(0, 0));
        assert_eq!(tally.settle(&tokens(10, 8), 0), tokens(0, 7));
    }

    #[test]
    fn running_totals_are_turned_into_differences() {
        let mut tally = UsageTally::default();
        assert_eq!(tally.since(tokens(100, 50), 7), None);
        assert_eq!(tally.since(tokens(110, 60), 9), Some((tokens(10, 10), 2)));
        assert_eq!(tally.since(tokens(1, 2), 3), Some((tokens(1, 2), 3)));
    }
}
