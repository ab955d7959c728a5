//! The screens of the page in a real browser. Each test runs one script of `tests/page`, which says what must hold.

use anyhow::{Context as _, Result};

use super::PageStage;
use crate::background_workers::delegating;
use crate::boundary::with_tls;
use crate::stage::{Agent, stage};

async fn drive(script: &str) -> Result<()> {
    let stage = PageStage::start().await?;
    stage.drive(script).await?;
    stage.end().await
}

#[tokio::test]
async fn a_prompt_is_sent_and_its_turn_is_shown_as_it_happens() -> Result<()> {
    drive("prompt.mjs").await
}

#[tokio::test]
async fn a_request_is_on_every_page_and_is_answered_once() -> Result<()> {
    drive("requests.mjs").await
}

#[tokio::test]
async fn a_page_without_a_key_shows_everything_and_cannot_act() -> Result<()> {
    drive("looking.mjs").await
}

#[tokio::test]
async fn hostile_text_of_an_agent_runs_nothing_and_loads_nothing() -> Result<()> {
    drive("hostile.mjs").await
}

#[tokio::test]
async fn every_screen_is_accessible_in_both_themes_and_at_every_width() -> Result<()> {
    drive("accessible.mjs").await
}

#[tokio::test]
async fn a_long_answer_is_the_same_streamed_and_read_whole() -> Result<()> {
    drive("streaming.mjs").await
}

#[tokio::test]
async fn changes_are_reviewed_commented_and_merged() -> Result<()> {
    drive("review.mjs").await
}

#[tokio::test]
async fn a_newcomer_starts_answers_reviews_and_merges() -> Result<()> {
    drive("newcomer.mjs").await
}

#[tokio::test]
async fn two_pages_a_terminal_and_an_editor_show_the_same_rows() -> Result<()> {
    drive("editor.mjs").await
}

#[tokio::test]
async fn nothing_is_lost_or_doubled_when_the_connection_breaks() -> Result<()> {
    drive("reconnect.mjs").await
}

#[tokio::test]
async fn a_daemon_that_is_killed_again_and_again_loses_and_doubles_no_row() -> Result<()> {
    drive("kills.mjs").await
}

#[tokio::test]
async fn the_pages_look_as_their_pictures() -> Result<()> {
    drive("pictures.mjs").await
}

#[tokio::test]
async fn everything_is_found_by_its_role_and_its_name() -> Result<()> {
    drive("names.mjs").await
}

#[tokio::test]
async fn queue_search_usage_export_audit_memory_and_settings_show_what_the_daemon_has() -> Result<()> {
    drive("screens.mjs").await
}

#[tokio::test]
async fn odd_circumstances_are_said_and_nothing_is_lost_or_sent_twice() -> Result<()> {
    drive("odd.mjs").await
}

#[tokio::test]
async fn pictures_of_a_prompt_are_shown_and_todos_say_all_that_the_agent_says() -> Result<()> {
    drive("attachments.mjs").await
}

#[tokio::test]
async fn hundreds_of_sessions_are_listed_by_need_and_do_not_move_under_the_pointer() -> Result<()> {
    drive("list.mjs").await
}

#[tokio::test]
async fn the_rows_are_those_of_the_journal_however_the_connection_breaks() -> Result<()> {
    drive("faults.mjs").await
}

#[tokio::test]
async fn a_journal_whose_beginning_was_removed_says_so() -> Result<()> {
    let mut stage = PageStage::start().await?;
    let id = stage.session("old").await?;
    let cli = stage.cli();
    cli.ok(&["session", "send", &id, "SCRIPT: [{\"text\":\"long ago\"}]"]).await?;
    cli.ok(&["session", "stop", &id]).await?;
    // Two months later the events of sessions that have ended are no longer kept.
    stage.world.set_env("OBEY_TEST_CLOCK_OFFSET", (60 * 24 * 60 * 60).to_string());
    stage.daemon.terminate().await?;
    stage.daemon.restart().await?;
    stage.address = *stage.daemon.listen().first().context("no address")?;
    let cli = stage.cli();
    cli.ok(&["gc"]).await?;
    cli.ok(&["session", "restart", &id]).await?;
    cli.ok(&["session", "send", &id, "SCRIPT: [{\"text\":\"just now\"}]"]).await?;
    stage.drive("removed.mjs").await?;
    stage.end().await
}

#[tokio::test]
async fn every_answer_reaches_the_agent_once_and_a_session_is_controlled() -> Result<()> {
    drive("cards.mjs").await
}

#[tokio::test]
async fn ten_agents_write_at_once_and_hidden_tabs_let_go_of_their_streams() -> Result<()> {
    drive("busy.mjs").await
}

#[tokio::test]
async fn files_are_completed_in_the_message_field_and_input_methods_are_left_alone() -> Result<()> {
    drive("composer.mjs").await
}

#[tokio::test]
async fn the_steps_of_a_plan_are_a_tree_with_their_states() -> Result<()> {
    drive("plans.mjs").await
}

#[tokio::test]
async fn the_row_under_the_readers_eyes_stays_and_hundreds_of_calls_open() -> Result<()> {
    drive("reading.mjs").await
}

#[tokio::test]
async fn turns_say_how_they_ended_and_what_came_into_them() -> Result<()> {
    drive("turns.mjs").await
}

#[tokio::test]
async fn a_real_agents_sub_agents_are_nested_and_its_commands_completed() -> Result<()> {
    let stage = stage!(Agent::Claude);
    let id = stage.create().await?;
    stage.turn(&id, &delegating("echo sub > sub.txt")).await?;
    stage.wait_for_request(&id).await?;
    stage.world.set_env("PAGE_SESSION", id);
    let address = *stage.daemon.listen().first().context("no TCP address")?;
    super::drive(&stage.world, &stage.daemon, address, "real_agent.mjs").await?;
    stage.close().await
}

#[tokio::test]
async fn a_phone_is_paired_over_tls_and_answers() -> Result<()> {
    let stage = PageStage::start_after(with_tls).await?;
    stage.drive("pair.mjs").await?;
    stage.end().await
}

#[tokio::test]
async fn a_browser_is_told_while_no_page_is_open() -> Result<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let stage = PageStage::start_after(|world| {
        world.set_env("OBEY_NOTICES_PUSH_SERVICES", format!("http://127.0.0.1:{port}/"));
        world.set_env("PAGE_PUSH_PORT", port.to_string());
        Ok(())
    })
    .await?;
    stage.drive("push.mjs").await?;
    stage.end().await
}
