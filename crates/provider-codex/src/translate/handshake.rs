//! Answers of Codex: first the steps that lead to a conversation, one after the other, then the others.

use agent_port::{Decoded, Revisioned};
use domain::event::Level;
use domain::turn::EndReason;
use domain::{AgentEvent, ErrorCode, Mode};
use serde_json::{Value, json};

use super::super::encode;
use super::super::mode_settings::Workspace;
use super::super::rpc::{self, CodexRequestKind};
use super::super::settings::CodexSettings;
use super::super::state::CodexState;
use super::super::{TESTED_RANGE, is_tested, models};
use super::{notice, notifications, turn};
use provider_common::json_fields::Look;

/// The agent's message about a conversation it does not have.
const NO_THREAD: &str = "no rollout found";

/// Handles the answer to one of our requests.
pub(super) fn answer(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    purpose: CodexRequestKind,
    result: Result<Value, String>,
    out: &mut Decoded,
) {
    match (purpose, result) {
        (CodexRequestKind::Initialize, Ok(result)) => initialized(state, settings, &result, out),
        (CodexRequestKind::Initialize, Err(error)) => {
            broken(out, None, format!("the agent does not speak the protocol obey needs: {error}"));
        }
        (CodexRequestKind::Account, Ok(result)) => account(&result, out),
        (CodexRequestKind::Models, Ok(page)) => listed(state, &page, out),
        (CodexRequestKind::Models, Err(_)) => read_config(state, out),
        (CodexRequestKind::Config, result) => {
            let config = result.map(|result| result.under("config").clone()).unwrap_or_default();
            configured(state, settings, &config, out);
        }
        (CodexRequestKind::Start | CodexRequestKind::Resume, Ok(result)) => {
            begun(state, settings, &result, out)
        }
        (CodexRequestKind::Resume, Err(error)) if error.contains(NO_THREAD) => {
            begin_anew(state, settings, out)
        }
        (CodexRequestKind::Start | CodexRequestKind::Resume, Err(error)) => {
            broken(out, None, format!("Codex cannot begin a conversation: {error}"));
        }
        (CodexRequestKind::History, Ok(_)) => {
            state.history.clear();
            ready(state, settings, out);
        }
        (CodexRequestKind::History, Err(error)) => {
            broken(out, None, format!("Codex does not take the earlier conversation: {error}"));
        }
        (CodexRequestKind::Context, Err(error)) => {
            notice(out, Level::Error, &format!("Codex did not take the system context: {error}"));
        }
        (CodexRequestKind::Turn | CodexRequestKind::Compact, Err(error)) => turn::failed(state, error, out),
        (CodexRequestKind::Steer, Err(error)) => {
            notice(out, Level::Error, &format!("the message was not added to the turn: {error}"));
        }
        (CodexRequestKind::Settings, Ok(_)) if std::mem::take(&mut state.awaits_plan_mode) => {
            say_ready(state, out)
        }
        (CodexRequestKind::Settings, Ok(_)) => left_plan(state, out),
        (CodexRequestKind::Settings, Err(error)) if state.awaits_plan_mode => {
            broken(out, None, format!("Codex does not take plan mode: {error}"));
        }
        (CodexRequestKind::Settings, Err(error)) => {
            notice(out, Level::Error, &format!("Codex did not change its settings: {error}"));
        }
        (CodexRequestKind::Servers, Ok(page)) => notifications::listed_servers(state, &page, out),
        (CodexRequestKind::Settle, _) => turn::settled(state, out),
        // Their results are reported in separate lines, or do not matter any more: an account that cannot be
        // read, a turn that ended before it could be interrupted, a command that had already ended. The
        // answer to `turn/start` names the turn, but it cannot be interrupted before the agent reports its
        // start.
        (CodexRequestKind::Account | CodexRequestKind::Servers, Err(_))
        | (CodexRequestKind::Terminals, _)
        | (CodexRequestKind::Context, Ok(_))
        | (CodexRequestKind::Turn | CodexRequestKind::Steer | CodexRequestKind::Compact, Ok(_))
        | (CodexRequestKind::Interrupt | CodexRequestKind::Terminate, _) => {}
    }
}

fn broken(out: &mut Decoded, code: Option<ErrorCode>, message: String) {
    out.events.push(AgentEvent::Broken { code, message });
}

/// Checks the version, starts the conversation if possible and asks for models and account.
fn initialized(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    result: &Value,
    out: &mut Decoded,
) {
    // Such as `obey/0.166.0 (Debian 12.0.0; x86_64) …`.
    let agent = result.text("userAgent");
    let version = agent.split_once('/').map_or("", |(_, rest)| rest.split(' ').next().unwrap_or_default());
    version.clone_into(&mut state.version);
    if !is_tested(version) {
        let version = if version.is_empty() { "of unknown version" } else { version };
        notice(out, Level::Warning, &format!("this Codex is {version}; obey is tested with {TESTED_RANGE}"));
    }
    rpc::notify("initialized", &mut out.replies);
    if begins_at_once(state, settings) {
        encode::begin_thread(state, settings, &mut out.replies);
    }
    state.send_request(CodexRequestKind::Models, json!({"includeHidden": true}), &mut out.replies);
    state.send_request(CodexRequestKind::Account, json!({"refreshToken": false}), &mut out.replies);
}

/// Returns whether the conversation can start while the model is looked up, which makes a start faster: none
/// of the agent's answers changes how it starts. An unknown model ends the session before its first turn.
fn begins_at_once(state: &CodexState, settings: &CodexSettings) -> bool {
    settings.add_dirs.is_empty() && (state.model_is_wanted || state.asked_model.is_empty())
}

/// Reports at once what the first turn would fail with.
fn account(result: &Value, out: &mut Decoded) {
    if result.is("requiresOpenaiAuth") && result.under("account").is_null() {
        notice(
            out,
            Level::Warning,
            "Codex is not signed in, so its model will refuse: run `codex login`, or name another model with \
             provider_config.model_provider or provider_config.base_url",
        );
    }
}

fn listed(state: &mut Revisioned<CodexState>, page: &Value, out: &mut Decoded) {
    let before = state.models.len();
    models::add_listed(&mut state.models, page);
    let next = page.text("nextCursor");
    // A page without new entries is the last, whatever it says.
    if next.is_empty() || state.models.len() == before {
        read_config(state, out);
    } else {
        let params = json!({"includeHidden": true, "cursor": next});
        state.send_request(CodexRequestKind::Models, params, &mut out.replies);
    }
}

fn read_config(state: &mut Revisioned<CodexState>, out: &mut Decoded) {
    let params = json!({"cwd": state.cwd, "includeLayers": false});
    state.send_request(CodexRequestKind::Config, params, &mut out.replies);
}

/// Checks the requested model and continues the start with the agent's configuration.
fn configured(
    state: &mut Revisioned<CodexState>,
    settings: &CodexSettings,
    config: &Value,
    out: &mut Decoded,
) {
    state.workspace = Workspace::read(config);
    let has_begun = begins_at_once(state, settings);
    let listed = !state.models.is_empty();
    models::add_configured(&mut state.models, config);
    // An agent that lists no models cannot be checked.
    if listed && let Err(error) = models::check_known(&state.asked_model, &state.models) {
        if state.model_is_wanted {
            broken(out, Some(error.code), error.message);
            return;
        }
        notice(out, Level::Warning, &format!("{}; the session goes on with Codex's default", error.message));
        state.asked_model.clear();
    }
    state.checked = true;
    if has_begun {
        ready(state, settings, out);
    } else {
        encode::begin_thread(state, settings, &mut out.replies);
    }
}

/// Starts a conversation in place of one that the agent does not have: it keeps none without a turn.
fn begin_anew(state: &mut Revisioned<CodexState>, settings: &CodexSettings, out: &mut Decoded) {
    if state.had_turns {
        notice(out, Level::Warning, "Codex no longer has this conversation; a new one is begun");
    }
    state.resume.clear();
    encode::begin_thread(state, settings, &mut out.replies);
}

fn begun(state: &mut Revisioned<CodexState>, settings: &CodexSettings, result: &Value, out: &mut Decoded) {
    let thread = result.under("thread").text("id");
    if thread.is_empty() {
        broken(out, None, "Codex began a conversation without a name".to_owned());
        return;
    }
    thread.clone_into(&mut state.thread);
    result.text("model").clone_into(&mut state.model);
    // A resumed conversation first reports what it used before; that was already counted.
    state.counted = state.resume.is_empty().then(Default::default);
    if state.history.is_empty() {
        ready(state, settings, out);
    } else {
        let params = json!({"threadId": state.thread, "items": state.history});
        state.send_request(CodexRequestKind::History, params, &mut out.replies);
    }
}

/// Reports that the agent accepts prompts, once the conversation has started with its past and its model is known to
/// exist.
fn ready(state: &mut Revisioned<CodexState>, settings: &CodexSettings, out: &mut Decoded) {
    if state.thread.is_empty() || !state.checked || !state.history.is_empty() {
        return;
    }
    if state.mode == Mode::Plan {
        // It takes effect with the next turn, so it is sent before one; a prompt may be pending until we are
        // ready.
        state.awaits_plan_mode = true;
        encode::change_stance(state, settings, &mut out.replies);
    } else {
        say_ready(state, out);
    }
}

fn say_ready(state: &CodexState, out: &mut Decoded) {
    out.events.push(AgentEvent::Ready {
        native_session: state.thread.clone(),
        model: state.model.clone(),
        version: state.version.clone(),
        resolved_model: String::new(),
    });
}

/// Reports that the session's mode changed with the decision to carry out a plan.
fn left_plan(state: &mut Revisioned<CodexState>, out: &mut Decoded) {
    if std::mem::take(&mut state.left_plan) {
        out.events.push(AgentEvent::Mode(state.mode));
    }
}

/// Returns the end of a turn that only waited for our decision.
pub(super) fn ending(reason: EndReason) -> AgentEvent {
    AgentEvent::TurnEnded { reason, text: String::new(), error: String::new() }
}
