//! Rate limits: which answers are one, and how long to wait before the request is sent again. Pure.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

use crate::limits::{RETRIES_MAX, RETRY_PAUSE, RETRY_PAUSE_MAX};

/// An answer that refuses a request because there were too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// How long to wait, if the server says.
    pub(crate) wait: Option<Duration>,
}

/// Returns the rate limit that an answer tells; `None`: it is about something else. `now` is in seconds since 1970.
pub(crate) fn of(status: StatusCode, headers: &HeaderMap, now: u64) -> Option<RateLimit> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let after = number(RETRY_AFTER.as_str());
    let is_limit = match status {
        StatusCode::TOO_MANY_REQUESTS => true,
        // GitHub says it so.
        StatusCode::FORBIDDEN => after.is_some() || number("x-ratelimit-remaining") == Some(0),
        _ => false,
    };
    if !is_limit {
        return None;
    }
    let reset = number("ratelimit-reset").or_else(|| number("x-ratelimit-reset"));
    let wait = after.or_else(|| reset.map(|reset| reset.saturating_sub(now)));
    Some(RateLimit { wait: wait.map(Duration::from_secs) })
}

impl RateLimit {
    /// Returns the pause before the next attempt; `None`: the caller is told instead.
    pub(crate) fn pause(self, attempt: u32) -> Option<Duration> {
        let pause = self.wait.unwrap_or(RETRY_PAUSE * 2u32.saturating_pow(attempt));
        (attempt < RETRIES_MAX && pause <= RETRY_PAUSE_MAX).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_server_says_how_long_to_wait_or_the_pause_doubles() {
        let told = |pairs: &[(&'static str, &str)]| {
            of(StatusCode::TOO_MANY_REQUESTS, &headers(pairs), 1000).unwrap()
        };
        assert_eq!(told(&[("retry-after", "3")]).pause(0), Some(Duration::from_secs(3)));
        assert_eq!(told(&[("ratelimit-reset", "1004")]).pause(1), Some(Duration::from_secs(4)));
        assert_eq!(told(&[("ratelimit-reset", "900")]).pause(1), Some(Duration::ZERO));
        assert_eq!(told(&[("retry-after", "3600")]).pause(0), None);
        let silent = told(&[("retry-after", "tomorrow")]);
        assert_eq!(
            [silent.pause(0), silent.pause(1), silent.pause(2)],
            [Some(Duration::from_secs(1)), Some(Duration::from_secs(2)), None]
        );
    }

    #[test]
    fn a_refusal_of_github_is_a_limit_only_if_it_says_so() {
        let of = |pairs: &[(&'static str, &str)]| of(StatusCode::FORBIDDEN, &headers(pairs), 1000);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[("x-ratelimit-remaining", "12")]), None);
        let none_left = of(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1002")]).unwrap();
        assert_eq!(none_left.wait, Some(Duration::from_secs(2)));
        assert!(super::of(StatusCode::OK, &headers(&[("retry-after", "1")]), 0).is_none());
    }
}
