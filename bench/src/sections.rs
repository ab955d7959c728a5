//! What is measured, in the order of a run.

mod api;
mod idle;
mod latency;
mod long_line;
mod reattach;
mod start;
mod throughput;

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;

use crate::table::Table;

/// One block of measurements.
pub(crate) type Section = fn(&mut Table) -> Pin<Box<dyn Future<Output = Result<()>> + '_>>;

/// Every section by the name that chooses it.
pub(crate) const ALL: &[(&str, Section)] = &[
    ("latency", |table| Box::pin(latency::one(table))),
    ("fanout", |table| Box::pin(latency::fan_out(table))),
    ("burst", |table| Box::pin(throughput::burst(table))),
    ("replay", |table| Box::pin(throughput::replay(table))),
    ("start", |table| Box::pin(start::run(table))),
    ("idle", |table| Box::pin(idle::run(table))),
    ("reattach", |table| Box::pin(reattach::run(table))),
    ("api", |table| Box::pin(api::run(table))),
    ("line", |table| Box::pin(long_line::run(table))),
];
