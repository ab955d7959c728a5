//! Every target for a fixed number of inputs from a fixed seed; `make fuzz` runs longer.

use anyhow::{Context, Result};
use fuzz::{Bound, run, targets};

fn bounded(name: &str, inputs: u64) -> Result<()> {
    let mut all = targets::all()?;
    let target = all.iter_mut().find(|target| target.name() == name).context("there is no such target")?;
    let tried = run(target.as_mut(), 1, Bound::Inputs(inputs))?;
    assert!(tried.inputs >= inputs && tried.kept > 0, "{tried:?}");
    Ok(())
}

#[test]
fn no_path_leads_out() -> Result<()> {
    bounded("paths", 5_000)
}

#[test]
fn no_cut_changes_what_is_scrubbed() -> Result<()> {
    bounded("scrubber", 3_000)
}

#[test]
fn no_frame_breaks_an_end_of_a_tunnel() -> Result<()> {
    bounded("tunnel", 5_000)
}

#[test]
fn no_message_breaks_who_enrols() -> Result<()> {
    bounded("enrolment", 10_000)
}

#[test]
fn no_relay_changes_what_is_said_in_a_sealed_connection() -> Result<()> {
    bounded("records", 1_000)
}

#[test]
fn no_request_breaks_the_readers() -> Result<()> {
    bounded("requests", 20_000)
}

#[test]
fn no_line_of_claude_breaks_its_codec_or_depends_on_restarts() -> Result<()> {
    bounded("claude", 1_500)
}

#[test]
fn no_line_of_codex_breaks_its_codec_or_depends_on_restarts() -> Result<()> {
    bounded("codex", 1_500)
}

#[test]
fn no_line_of_an_acp_agent_breaks_its_codec_or_depends_on_restarts() -> Result<()> {
    bounded("acp", 1_500)
}

#[test]
fn no_reply_of_a_model_or_gateway_breaks_its_reader() -> Result<()> {
    bounded("model-replies", 10_000)?;
    bounded("openclaw", 1_500)
}

#[test]
fn no_body_breaks_the_reader_of_json_calls() -> Result<()> {
    bounded("json-calls", 10_000)
}

#[test]
fn no_bytes_of_a_disk_break_the_readers_of_journal_and_spool() -> Result<()> {
    bounded("journal", 10_000)?;
    bounded("spool", 5_000)
}

#[test]
fn no_text_breaks_the_readers_of_configuration_and_rules() -> Result<()> {
    bounded("configuration", 5_000)?;
    bounded("rules", 10_000)
}
