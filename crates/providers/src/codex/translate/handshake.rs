//! What Codex answers to us: first the steps that lead to a conversation, one after the other, then the rest.

use domain::event::Level;
use domain::turn::EndReason;
use domain::{AgentEvent, ErrorCode, Mode};
use runtime::provider::Decoded;
use serde_json::{Value, json};

use super::super::encode;
use super::super::memory::Memory;
use super::super::rpc::{self, Purpose};
use super::super::settings::Settings;
use super::super::stance::Workspace;
use super::super::{TESTED_RANGE, is_tested, models};
use super::{notes, notice, turn};
use crate::look::Look;

/// What the agent says of a conversation it does not have.
const NO_THREAD: &str = "no rollout found";

/// Takes the answer to a request of ours.
pub(super) fn answer(
    memory: &mut Memory,
    settings: &Settings,
    purpose: Purpose,
    result: Result<Value, String>,
    out: &mut Decoded,
) {
    match (purpose, result) {
        (Purpose::Initialize, Ok(result)) => initialized(memory, settings, &result, out),
        (Purpose::Initialize, Err(error)) => {
            broken(out, None, format!("the agent does not speak the protocol obey needs: {error}"));
        }
        (Purpose::Account, Ok(result)) => account(&result, out),
        (Purpose::Models, Ok(page)) => listed(memory, &page, out),
        (Purpose::Models, Err(_)) => read_config(memory, out),
        (Purpose::Config, result) => {
            let config = result.map(|result| result.under("config").clone()).unwrap_or_default();
            configured(memory, settings, &config, out);
        }
        (Purpose::Start | Purpose::Resume, Ok(result)) => begun(memory, settings, &result, out),
        (Purpose::Resume, Err(error)) if error.contains(NO_THREAD) => begin_anew(memory, settings, out),
        (Purpose::Start | Purpose::Resume, Err(error)) => {
            broken(out, None, format!("Codex cannot begin a conversation: {error}"));
        }
        (Purpose::Turn | Purpose::Compact, Err(error)) => turn::failed(memory, error, out),
        (Purpose::Steer, Err(error)) => {
            notice(out, Level::Error, &format!("the message was not added to the turn: {error}"));
        }
        (Purpose::Settings, Ok(_)) if std::mem::take(&mut memory.awaits_plan_mode) => say_ready(memory, out),
        (Purpose::Settings, Ok(_)) => left_plan(memory, out),
        (Purpose::Settings, Err(error)) if memory.awaits_plan_mode => {
            broken(out, None, format!("Codex does not take plan mode: {error}"));
        }
        (Purpose::Settings, Err(error)) => {
            notice(out, Level::Error, &format!("Codex did not change its settings: {error}"));
        }
        (Purpose::Servers, Ok(page)) => notes::listed_servers(memory, &page, out),
        (Purpose::Settle, _) => turn::settled(memory, out),
        // What became of these is seen in lines of their own, or does not matter any more: an account nobody can
        // read, a turn that ended before it could be interrupted, a command that was gone already. The answer to
        // `turn/start` names the turn, but it cannot be interrupted before the agent says that it began.
        (Purpose::Account | Purpose::Servers, Err(_))
        | (Purpose::Terminals, _)
        | (Purpose::Turn | Purpose::Steer | Purpose::Compact, Ok(_))
        | (Purpose::Interrupt | Purpose::Terminate, _) => {}
    }
}

fn broken(out: &mut Decoded, code: Option<ErrorCode>, message: String) {
    out.events.push(AgentEvent::Broken { code, message });
}

fn initialized(memory: &mut Memory, settings: &Settings, result: &Value, out: &mut Decoded) {
    // Such as `obey/0.166.0 (Debian 12.0.0; x86_64) …`.
    let agent = result.text("userAgent");
    let version = agent.split_once('/').map_or("", |(_, rest)| rest.split(' ').next().unwrap_or_default());
    version.clone_into(&mut memory.version);
    if !is_tested(version) {
        let version = if version.is_empty() { "of unknown version" } else { version };
        notice(out, Level::Warning, &format!("this Codex is {version}; obey is tested with {TESTED_RANGE}"));
    }
    rpc::notify("initialized", &mut out.replies);
    if begins_at_once(memory, settings) {
        encode::begin_thread(memory, settings, &mut out.replies);
    }
    memory.ask(Purpose::Models, json!({"includeHidden": true}), &mut out.replies);
    memory.ask(Purpose::Account, json!({"refreshToken": false}), &mut out.replies);
}

/// Whether the conversation can begin while the model is looked up, which makes a start faster: nothing of what the agent
/// answers changes how it begins. A model that turns out to be unknown ends the session before its first turn.
fn begins_at_once(memory: &Memory, settings: &Settings) -> bool {
    settings.add_dirs.is_empty() && (memory.model_is_wanted || memory.asked_model.is_empty())
}

/// Says at once what the first turn would fail with.
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

fn listed(memory: &mut Memory, page: &Value, out: &mut Decoded) {
    let before = memory.models.len();
    models::add_listed(&mut memory.models, page);
    let next = page.text("nextCursor");
    // A page that brings nothing new is the last, whatever it says.
    if next.is_empty() || memory.models.len() == before {
        read_config(memory, out);
    } else {
        let params = json!({"includeHidden": true, "cursor": next});
        memory.ask(Purpose::Models, params, &mut out.replies);
    }
}

fn read_config(memory: &mut Memory, out: &mut Decoded) {
    let params = json!({"cwd": memory.cwd, "includeLayers": false});
    memory.ask(Purpose::Config, params, &mut out.replies);
}

fn configured(memory: &mut Memory, settings: &Settings, config: &Value, out: &mut Decoded) {
    memory.workspace = Workspace::read(config);
    let has_begun = begins_at_once(memory, settings);
    let listed = !memory.models.is_empty();
    models::add_configured(&mut memory.models, config);
    // An agent that lists no models cannot be asked whether it has one.
    if listed && let Err(error) = models::check_known(&memory.asked_model, &memory.models) {
        if memory.model_is_wanted {
            broken(out, Some(error.code), error.message);
            return;
        }
        notice(out, Level::Warning, &format!("{}; the session goes on with Codex's default", error.message));
        memory.asked_model.clear();
    }
    memory.checked = true;
    if has_begun {
        ready(memory, settings, out);
    } else {
        encode::begin_thread(memory, settings, &mut out.replies);
    }
}

/// Begins a conversation in place of one that the agent does not have: it keeps none without a turn.
fn begin_anew(memory: &mut Memory, settings: &Settings, out: &mut Decoded) {
    if memory.had_turns {
        notice(out, Level::Warning, "Codex no longer has this conversation; a new one is begun");
    }
    memory.resume.clear();
    encode::begin_thread(memory, settings, &mut out.replies);
}

fn begun(memory: &mut Memory, settings: &Settings, result: &Value, out: &mut Decoded) {
    let thread = result.under("thread").text("id");
    if thread.is_empty() {
        broken(out, None, "Codex began a conversation without a name".to_owned());
        return;
    }
    thread.clone_into(&mut memory.thread);
    result.text("model").clone_into(&mut memory.model);
    // A conversation that is taken up says first what it used before; that was counted then.
    memory.counted = memory.resume.is_empty().then(Default::default);
    ready(memory, settings, out);
}

/// Says that the agent takes prompts, once the conversation has begun and its model is known to exist.
fn ready(memory: &mut Memory, settings: &Settings, out: &mut Decoded) {
    if memory.thread.is_empty() || !memory.checked {
        return;
    }
    if memory.mode == Mode::Plan {
        // It counts from the next turn on, so it comes before one; a prompt may wait for us to be ready.
        memory.awaits_plan_mode = true;
        encode::change_stance(memory, settings, &mut out.replies);
    } else {
        say_ready(memory, out);
    }
}

fn say_ready(memory: &Memory, out: &mut Decoded) {
    out.events.push(AgentEvent::Ready {
        native_session: memory.thread.clone(),
        model: memory.model.clone(),
        version: memory.version.clone(),
    });
}

/// Tells that the session's mode changed with the decision to carry out a plan.
fn left_plan(memory: &mut Memory, out: &mut Decoded) {
    if std::mem::take(&mut memory.left_plan) {
        out.events.push(AgentEvent::Mode(memory.mode));
    }
}

/// Returns how a turn ends that only waited for a word of ours.
pub(super) fn ending(reason: EndReason) -> AgentEvent {
    AgentEvent::TurnEnded { reason, text: String::new(), error: String::new() }
}
