//! Lines of agents: whatever they are, the codec neither panics nor depends on when the daemon was restarted. An input is
//! lines; one that begins with `>` is an input of ours (JSON), any other is the agent's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use agent_port::{Codec, Decoded, LaunchPlan, LaunchRequest, Provider};
use anyhow::{Context, Result, bail, ensure};
use domain::{AgentEvent, AgentInput, ProviderKind, SessionId, SessionSpec, State, Timestamp};
use serde_json::Value;

use crate::Target;
use crate::mutate::hash;

/// Bytes of a recording that one seed has at most; longer ones make slow inputs.
const SEED_MAX_BYTES: usize = 8 * 1024;
/// Recordings that are seeds, for each agent.
const SEEDS_MAX: usize = 12;

/// The codec of one agent.
struct AgentLines {
    name: &'static str,
    provider: Box<dyn Provider>,
    spec: SessionSpec,
    /// The codec as it is before the first line.
    saved: String,
    seeds: Vec<Vec<u8>>,
}

/// Returns a target for each agent that is a program.
pub(super) fn all() -> Result<Vec<Box<dyn Target>>> {
    let program = std::env::current_exe()?;
    let named = providers::acp::NamedAgents::new(&[format!("stub={}", program.display())])
        .map_err(|error| anyhow::anyhow!(error))?;
    let claude = Box::new(providers::claude_code::ClaudeCode::new(Some(program.clone())));
    let codex = Box::new(providers::codex::Codex::new(Some(program)));
    let acp = Box::new(providers::acp::Acp::new(named, None));
    Ok(vec![
        Box::new(AgentLines::new("claude", "claude_code", ProviderKind::ClaudeCode, claude)?),
        Box::new(AgentLines::new("codex", "codex", ProviderKind::Codex, codex)?),
        Box::new(AgentLines::new("acp", "acp", ProviderKind::Acp, acp)?),
    ])
}

impl AgentLines {
    fn new(
        name: &'static str,
        folder: &str,
        kind: ProviderKind,
        provider: Box<dyn Provider>,
    ) -> Result<Self> {
        let spec = spec(kind);
        let state = State { started_at: Some(Timestamp(1_700_000_000_000_000)), ..State::new(&spec) };
        let request = LaunchRequest {
            spec: &spec,
            state: &state,
            resume: false,
            environment: Vec::new(),
            bridge: None,
            past: None,
            programs: None,
            given: Vec::new(),
        };
        let LaunchPlan::Process(mut process) =
            provider.launch(&request).map_err(|error| anyhow::anyhow!("{error}"))?
        else {
            bail!("{name} is no program");
        };
        process.codec.open(&mut Vec::new());
        let saved = process.codec.save();
        Ok(Self { name, provider, spec, saved, seeds: seeds(folder)? })
    }

    fn codec(&self, saved: &str) -> Result<Box<dyn Codec>> {
        self.provider.codec(&self.spec, saved).map_err(|error| anyhow::anyhow!("restored: {error}"))
    }
}

/// What a codec made of lines.
#[derive(Debug, Default, PartialEq)]
struct Meaning {
    events: Vec<AgentEvent>,
    written: Vec<u8>,
}

impl Meaning {
    fn take(&mut self, codec: &mut dyn Codec, line: &[u8]) {
        if let Some(input) = line.strip_prefix(b">") {
            if let Ok(input) = serde_json::from_slice::<AgentInput>(input) {
                // An input that is refused must not be written in part.
                let _ = codec.encode(&input, &mut self.written);
            }
            return;
        }
        let mut out = Decoded::default();
        codec.decode(line, &mut out);
        drop(codec.take_client_requests());
        self.events.append(&mut out.events);
        self.written.append(&mut out.replies);
    }
}

impl Target for AgentLines {
    fn name(&self) -> &'static str {
        self.name
    }

    fn seeds(&self) -> Vec<Vec<u8>> {
        self.seeds.clone()
    }

    fn words(&self) -> &'static [&'static str] {
        &[
            "\"type\":",
            "\"id\":",
            "\"method\":",
            "\"params\":",
            "\"result\":",
            "\"error\":",
            "null",
            "{}",
            "[]",
            "-1",
            "1e999",
            "18446744073709551616",
            "\"\"",
            "\\u0000",
            "\\ud800",
            "\n",
            ">\"interrupt\"",
            "\"session/update\"",
            "\"tool_use\"",
            "\"item/completed\"",
        ]
    }

    fn run(&mut self, input: &[u8]) -> Result<u64> {
        let (mut plain, mut restored) = (Meaning::default(), Meaning::default());
        let mut codec = self.codec(&self.saved)?;
        let mut saved = self.saved.clone();
        for line in input.split(|byte| *byte == b'\n') {
            plain.take(codec.as_mut(), line);
            let mut again = self.codec(&saved)?;
            // Client requests in progress are started again by a new daemon.
            drop(again.take_client_requests());
            restored.take(again.as_mut(), line);
            saved = again.save();
        }
        // After a restart the daemon completes the text of a turn from the journal.
        for events in [&mut plain.events, &mut restored.events] {
            events.iter_mut().for_each(forget_final_text);
        }
        ensure!(plain == restored, "a restart changes the meaning: {plain:?} became {restored:?}");
        let names: Vec<String> = plain.events.iter().map(|event| variant(&format!("{event:?}"))).collect();
        Ok(hash(names.join(" ").as_bytes()))
    }
}

fn forget_final_text(event: &mut AgentEvent) {
    if let AgentEvent::TurnEnded { text, .. } = event {
        text.clear();
    }
}

/// Returns the name of a variant from its debug text.
fn variant(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric()).collect()
}

/// Returns recorded conversations as inputs.
fn seeds(folder: &str) -> Result<Vec<Vec<u8>>> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/providers/tests/transcripts").join(folder);
    let mut files: Vec<PathBuf> = folder
        .read_dir()
        .with_context(|| folder.display().to_string())?
        .map(|file| Ok(file?.path()))
        .collect::<Result<_>>()?;
    files.sort();
    let mut all = Vec::new();
    for file in
        files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "jsonl")).take(SEEDS_MAX)
    {
        let mut seed = Vec::new();
        for line in std::fs::read_to_string(file)?.lines() {
            let entry: Value = serde_json::from_str(line)?;
            if let Some(input) = entry.get("told") {
                seed.extend_from_slice(format!(">{input}\n").as_bytes());
            } else if let Some(line) = entry.get("line") {
                seed.extend_from_slice(format!("{line}\n").as_bytes());
            } else if entry["dir"] == "<" {
                seed.extend_from_slice(format!("{}\n", entry["msg"]).as_bytes());
            }
            if seed.len() > SEED_MAX_BYTES {
                break;
            }
        }
        all.push(seed);
    }
    Ok(all)
}

fn spec(provider: ProviderKind) -> SessionSpec {
    let provider_config = match provider {
        ProviderKind::Acp => BTreeMap::from([("agent".to_owned(), "stub".to_owned())]),
        _ => BTreeMap::new(),
    };
    SessionSpec {
        name: "fuzz".to_owned(),
        provider_config,
        ..SessionSpec::new(
            SessionId::new("sess_01JC0000000000000000000001"),
            provider,
            "/example/repo".into(),
        )
    }
}
