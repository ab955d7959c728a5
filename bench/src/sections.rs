//! The measurements, in the order of a run.

mod acp;
mod adapters;
mod api;
mod contained;
mod converse;
mod everyday;
mod guard;
mod idle;
mod latency;
mod long_line;
mod peers;
mod provider;
mod reattach;
mod relay;
mod start;
mod throughput;
mod workbench;
mod workers;

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;

use crate::table::Table;

/// One block of measurements.
pub(crate) type Section = fn(&mut Table) -> Pin<Box<dyn Future<Output = Result<()>> + '_>>;

/// Sections that run only when they are named: they fetch programs, or repeat others.
pub(crate) const NAMED: &[(&str, Section)] = &[
    ("peers", |table| Box::pin(peers::run(table))),
    ("guard", |table| Box::pin(guard::check(table))),
    ("guard-keep", |table| Box::pin(guard::keep(table))),
];

/// Every other section by the name that selects it.
pub(crate) const ALL: &[(&str, Section)] = &[
    ("latency", |table| Box::pin(latency::one(table))),
    ("fanout", |table| Box::pin(latency::fan_out(table))),
    ("burst", |table| Box::pin(throughput::burst(table))),
    ("replay", |table| Box::pin(throughput::replay(table))),
    ("start", |table| Box::pin(start::run(table))),
    ("idle", |table| Box::pin(idle::run(table))),
    ("reattach", |table| Box::pin(reattach::run(table))),
    ("everyday", |table| Box::pin(everyday::run(table))),
    ("workers", |table| Box::pin(workers::run(table))),
    ("acp", |table| Box::pin(acp::run(table))),
    ("acp-adapters", |table| Box::pin(adapters::run(table))),
    ("provider-claude", |table| Box::pin(provider::claude(table))),
    ("provider-codex", |table| Box::pin(provider::codex(table))),
    ("provider-acp", |table| Box::pin(provider::acp(table))),
    ("contained-claude", |table| Box::pin(contained::claude(table))),
    ("contained-codex", |table| Box::pin(contained::codex(table))),
    ("provider-api", |table| Box::pin(provider::api(table))),
    ("api-idle", |table| Box::pin(api::idle(table))),
    ("api-many", |table| Box::pin(api::many(table))),
    ("converse-idle", |table| Box::pin(converse::idle(table))),
    ("converse-replay", |table| Box::pin(converse::replay(table))),
    ("converse-fanout", |table| Box::pin(converse::fan_out(table))),
    ("permission", |table| Box::pin(converse::permission(table))),
    ("relay", |table| Box::pin(relay::run(table))),
    ("line", |table| Box::pin(long_line::run(table))),
    ("exec", |table| Box::pin(workbench::exec(table))),
    ("rest", |table| Box::pin(workbench::calls(table))),
    ("memories", |table| Box::pin(workbench::memories(table))),
    ("output", |table| Box::pin(workbench::output(table))),
];
