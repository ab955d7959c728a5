//! Sums of what was used, by time, session and model. Names of campaigns and sessions are in the database.

use domain::Timestamp;
use rusqlite::{Connection, params};

/// Which reports are summed up.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageQuery {
    pub from: Option<Timestamp>,
    /// Strictly before.
    pub to: Option<Timestamp>,
    /// Length of a bucket; nothing: one bucket.
    pub step_us: Option<i64>,
    /// Where buckets begin.
    pub offset_us: i64,
    pub session_key: Option<i64>,
}

/// What one session used with one model in one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSum {
    /// Beginning of the bucket; 0 where there is one.
    pub at: Timestamp,
    pub session_key: i64,
    pub model: String,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
    /// Nothing: no report named one.
    pub cost_micro_usd: Option<u64>,
    pub reports: u64,
    pub reports_without_cost: u64,
}

/// Returns the sums, by time.
pub fn sums(connection: &Connection, query: &UsageQuery) -> rusqlite::Result<Vec<UsageSum>> {
    // Division rounds towards zero; times before 1970 do not occur.
    let mut select = connection.prepare_cached(
        "SELECT CASE WHEN ?1 IS NULL THEN 0 ELSE ((at + ?2) / ?1) * ?1 - ?2 END AS bucket, session_key, model,
                sum(input), sum(output), sum(cache_read), sum(cache_write), sum(cost), count(*), count(*) - count(cost)
         FROM usage_reports
         WHERE (?3 IS NULL OR at >= ?3) AND (?4 IS NULL OR at < ?4) AND (?5 IS NULL OR session_key = ?5)
         GROUP BY bucket, session_key, model ORDER BY bucket",
    )?;
    let (from, to) = (query.from.map(|at| at.0), query.to.map(|at| at.0));
    let rows =
        select.query_map(params![query.step_us, query.offset_us, from, to, query.session_key], |row| {
            let number = |index| row.get::<_, i64>(index).map(|value| value as u64);
            Ok(UsageSum {
                at: Timestamp(row.get(0)?),
                session_key: row.get(1)?,
                model: row.get(2)?,
                input_tokens: number(3)?,
                output_tokens: number(4)?,
                cache_read_tokens: number(5)?,
                cache_write_tokens: number(6)?,
                cost_micro_usd: row.get::<_, Option<i64>>(7)?.map(|value| value as u64),
                reports: number(8)?,
                reports_without_cost: number(9)?,
            })
        })?;
    rows.collect()
}
