//! The settings of `obey acp`: from flags, then the former bridge's variables, then the configuration. Only
//! reads them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::ProviderKind;
use domain::caller_environment::CALLER_ENVIRONMENT_KEY;
use surface_acp::{AcpSessionDefaults, NotificationSource, NotifyKind};
use wire::obey::v1 as pb;

use cli_args::acp::AcpArgs;
use config::failure::{Failure, Result};
use config::file::Acp;
use config::vars::Vars;

/// The chosen settings.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) defaults: AcpSessionDefaults,
    pub(super) standalone: bool,
    /// Programs chosen by the user; a daemon accepts none from its clients.
    pub(super) codex_binary: Option<PathBuf>,
    pub(super) codex_notify: Vec<String>,
    /// Variables that could not be parsed; their defaults apply.
    pub(super) problems: Vec<String>,
}

/// Prefixes of the editor's variables that its agents need too.
const PASSED_ON: [&str; 2] = ["ANTHROPIC_", "OPENAI_"];

impl Chosen {
    /// Combines flags, variables and configuration. Problems that need no abort are collected for the log.
    pub(super) fn of(args: &AcpArgs, config: &Acp, vars: &Vars) -> Result<Self> {
        let mut read = Reading { vars, problems: Vec::new() };
        let provider = provider(args, config)?;
        let notify = read.notify();
        let (mut provider_config, codex_notify) = match provider {
            ProviderKind::Codex => (read.overrides(), read.notify_program()),
            _ => (BTreeMap::new(), Vec::new()),
        };
        if let (Some(notify), ProviderKind::Codex) = (&notify, provider)
            && read.injects(codex_notify.is_empty())
        {
            let kind = if notify.kind == NotifyKind::Fifo { "fifo" } else { "file" };
            provider_config.insert("notify_path".to_owned(), notify.path.to_string_lossy().into_owned());
            provider_config.insert("notify_kind".to_owned(), kind.to_owned());
        }
        provider_config.extend(agent(args, config, provider)?);
        let codex_notify =
            if read.text("ACPLB_NOTIFY_INJECT") == "force" { Vec::new() } else { codex_notify };
        let codex_binary = match provider {
            ProviderKind::Codex => vars.get("CODEX_RUN").or_else(|| vars.get("CODEX_CMD")).map(PathBuf::from),
            _ => None,
        };
        let defaults = AcpSessionDefaults::default();
        let defaults = AcpSessionDefaults {
            provider,
            model: args.model.clone().unwrap_or_else(|| config.model.clone()),
            mode: args.mode.clone().unwrap_or_else(|| config.mode.clone()),
            provider_config,
            caller_environment: client::caller_environment::taken(vars, provider),
            environment: passed_on(vars),
            keep: args.keep || config.keep,
            max_sessions: usize::try_from(config.max_sessions).unwrap_or(defaults.max_sessions),
            idle_timeout: read.millis("ACPLB_IDLE_TIMEOUT_MS"),
            polling_interval: read.millis("ACPLB_POLLING_INTERVAL_MS").unwrap_or(defaults.polling_interval),
            notify,
            evidence: read.evidence(),
            lends_tools: false,
        };
        let standalone = args.standalone || codex_binary.is_some() || !codex_notify.is_empty();
        Ok(Self { defaults, standalone, codex_binary, codex_notify, problems: read.problems })
    }

    /// Returns the message that opens a connection to the daemon.
    pub(super) fn open(&self) -> pb::AcpOpen {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let defaults = &self.defaults;
        let (notify_path, notify_kind) = match &defaults.notify {
            Some(NotificationSource { path, kind }) => {
                let kind = if *kind == NotifyKind::Fifo { "fifo" } else { "file" };
                (path.to_string_lossy().into_owned(), kind.to_owned())
            }
            None => (String::new(), String::new()),
        };
        let mut provider_config: HashMap<String, String> =
            defaults.provider_config.clone().into_iter().collect();
        provider_config.insert(
            CALLER_ENVIRONMENT_KEY.to_owned(),
            client::caller_environment::encoded(&defaults.caller_environment),
        );
        pb::AcpOpen {
            provider: defaults.provider.name().to_owned(),
            model: defaults.model.clone(),
            mode: defaults.mode.clone(),
            provider_config,
            environment: defaults.environment.clone().into_iter().collect(),
            keep: defaults.keep,
            max_sessions: u32::try_from(defaults.max_sessions).unwrap_or(u32::MAX),
            idle_timeout_ms: defaults.idle_timeout.map_or(0, millis),
            polling_interval_ms: millis(defaults.polling_interval),
            notify_path,
            notify_kind,
            evidence_path: defaults
                .evidence
                .as_deref()
                .map(Path::to_string_lossy)
                .unwrap_or_default()
                .into_owned(),
            ..pb::AcpOpen::default()
        }
    }
}

/// Returns the provider: naming an agent means the provider `acp`.
fn provider(args: &AcpArgs, config: &Acp) -> Result<ProviderKind> {
    match (args.provider, &args.agent) {
        (None | Some(ProviderKind::Acp), Some(_)) => Ok(ProviderKind::Acp),
        (Some(other), Some(_)) => {
            let name = other.name();
            Err(Failure::usage(format!("--agent names an agent of the provider acp, not of {name}")))
        }
        (Some(provider), None) => Ok(provider),
        (None, None) => ProviderKind::parse(&config.provider)
            .ok_or_else(|| Failure::usage(format!("there is no provider {:?}", config.provider))),
    }
}

/// Returns the agent's launch settings. For the provider `acp` an agent or a command line is required.
fn agent(args: &AcpArgs, config: &Acp, provider: ProviderKind) -> Result<BTreeMap<String, String>> {
    let mut settings: BTreeMap<String, String> =
        args.config.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
    if provider != ProviderKind::Acp {
        return Ok(settings);
    }
    if let Some(name) = &args.agent {
        settings.insert("agent".to_owned(), name.clone());
    }
    let is_named = |settings: &BTreeMap<String, String>| {
        settings.contains_key("agent") || settings.contains_key("command")
    };
    if !is_named(&settings) && !config.agent.is_empty() {
        settings.insert("agent".to_owned(), config.agent.clone());
    }
    if is_named(&settings) {
        return Ok(settings);
    }
    Err(Failure::usage("the provider acp runs any agent: say which").with_hint(
        "obey acp --agent goose, or acp.agent in the configuration; `obey agents list` shows what is installed",
    ))
}

fn passed_on(vars: &Vars) -> BTreeMap<String, String> {
    vars.all()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| PASSED_ON.iter().any(|prefix| name.starts_with(prefix)))
        .collect()
}

/// The former bridge's variables.
struct Reading<'a> {
    vars: &'a Vars,
    problems: Vec<String>,
}

impl Reading<'_> {
    fn text(&self, name: &str) -> String {
        self.vars.get(name).map(|value| value.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Parses a duration; an invalid number and zero count as absent.
    fn millis(&mut self, name: &str) -> Option<Duration> {
        let text = self.text(name);
        if text.is_empty() {
            return None;
        }
        match text.trim().parse::<u64>() {
            Ok(0) => None,
            Ok(millis) => Some(Duration::from_millis(millis)),
            Err(_) => {
                self.problems.push(format!("{name}={text}: is no number of milliseconds; the default holds"));
                None
            }
        }
    }

    /// Reads where the agent's notifications are written; an unknown kind counts as a file.
    fn notify(&mut self) -> Option<NotificationSource> {
        let path = PathBuf::from(self.vars.get("ACPLB_NOTIFY_PATH")?);
        let text = self.text("ACPLB_NOTIFY_KIND");
        let kind = NotifyKind::parse(&text).unwrap_or_else(|| {
            self.problems.push(format!("ACPLB_NOTIFY_KIND={text}: must be file or fifo; file holds"));
            NotifyKind::File
        });
        match std::path::absolute(&path) {
            Ok(path) => Some(NotificationSource { path, kind }),
            Err(error) => {
                self.problems.push(format!("ACPLB_NOTIFY_PATH={}: {error}", path.display()));
                None
            }
        }
    }

    fn evidence(&mut self) -> Option<PathBuf> {
        let path = PathBuf::from(self.vars.get("ACPLB_EVIDENCE_PATH")?);
        let absolute = std::path::absolute(&path);
        if let Err(error) = &absolute {
            self.problems.push(format!("ACPLB_EVIDENCE_PATH={}: {error}", path.display()));
        }
        absolute.ok()
    }

    /// Whether the agent is configured to run our own forwarder.
    fn injects(&mut self, is_without_program: bool) -> bool {
        match self.text("ACPLB_NOTIFY_INJECT").as_str() {
            "" | "auto" => is_without_program,
            "never" => false,
            "force" => true,
            other => {
                let problem =
                    format!("ACPLB_NOTIFY_INJECT={other}: must be auto, never or force; auto holds");
                self.problems.push(problem);
                is_without_program
            }
        }
    }

    /// Reads the user's own notification program; an invalid value is ignored and reported.
    fn notify_program(&mut self) -> Vec<String> {
        let text = self.text("ACPLB_NOTIFY_CMD");
        if text.is_empty() {
            return Vec::new();
        }
        match serde_json::from_str::<Vec<String>>(&text) {
            Ok(words) if words.first().is_some_and(|program| !program.is_empty()) => words,
            _ => {
                self.problems.push(format!("ACPLB_NOTIFY_CMD={text}: must be a JSON list of words; ignored"));
                Vec::new()
            }
        }
    }

    /// Overrides of a mode's settings for Codex.
    fn overrides(&mut self) -> BTreeMap<String, String> {
        let mut config = BTreeMap::new();
        let known: [(&str, &str, &[&str]); 3] = [
            ("ACPLB_APPROVAL_POLICY", "approval_policy", &["never", "on-request", "untrusted"]),
            ("ACPLB_SANDBOX_MODE", "sandbox", &["read-only", "workspace-write", "danger-full-access"]),
            ("ACPLB_NETWORK_ACCESS", "network_access", &["true", "false"]),
        ];
        for (variable, key, values) in known {
            let text = self.text(variable);
            if values.contains(&text.as_str()) {
                config.insert(key.to_owned(), text);
            } else if !text.is_empty() {
                self.problems
                    .push(format!("{variable}={text}: must be one of {}; ignored", values.join(", ")));
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(vars: &[(&str, &str)]) -> Chosen {
        Chosen::of(&AcpArgs::default(), &Acp::default(), &Vars::of(vars)).unwrap()
    }

    #[test]
    fn without_variables_the_configuration_holds() {
        let plain = chosen(&[]);
        assert_eq!(plain.defaults.provider, ProviderKind::Codex);
        assert_eq!((plain.defaults.idle_timeout, plain.standalone), (None, false));
        assert_eq!(plain.defaults.polling_interval, Duration::from_millis(100));
        let args = AcpArgs { provider: Some(ProviderKind::ClaudeCode), keep: true, ..AcpArgs::default() };
        let config = Acp { mode: "plan".into(), max_sessions: 3, ..Acp::default() };
        let flags = Chosen::of(&args, &config, &Vars::default()).unwrap();
        assert_eq!(flags.open().provider, "claude-code");
        assert!(flags.open().keep && flags.open().mode == "plan" && flags.open().max_sessions == 3);
    }

    #[test]
    fn an_agent_is_named_by_flag_setting_or_configuration() {
        let of = |args: AcpArgs, config: Acp| Chosen::of(&args, &config, &Vars::default());
        let named = |chosen: &Chosen| chosen.open().provider_config.get("agent").cloned().unwrap_or_default();
        let flag = AcpArgs { agent: Some("goose".into()), ..AcpArgs::default() };
        let by_flag = of(flag, Acp::default()).unwrap();
        assert_eq!((by_flag.defaults.provider, named(&by_flag).as_str()), (ProviderKind::Acp, "goose"));
        let config = Acp { provider: "acp".into(), agent: "opencode".into(), ..Acp::default() };
        assert_eq!(named(&of(AcpArgs::default(), config.clone()).unwrap()), "opencode");
        let command = [("command".to_owned(), "my-agent --acp".to_owned())];
        let own = AcpArgs { config: Some(command.into_iter().collect()), ..AcpArgs::default() };
        let own = of(own, config).unwrap();
        assert_eq!(
            (named(&own).as_str(), own.open().provider_config["command"].as_str()),
            ("", "my-agent --acp")
        );
        let nobody = AcpArgs { provider: Some(ProviderKind::Acp), ..AcpArgs::default() };
        assert!(of(nobody, Acp::default()).unwrap_err().message.contains("say which"));
        let both = AcpArgs {
            provider: Some(ProviderKind::Codex),
            agent: Some("goose".into()),
            ..AcpArgs::default()
        };
        assert!(of(both, Acp::default()).unwrap_err().message.contains("--agent"));
    }

    #[test]
    fn variables_of_the_bridge_are_respected() {
        let all = chosen(&[
            ("ACPLB_IDLE_TIMEOUT_MS", "1200"),
            ("ACPLB_POLLING_INTERVAL_MS", "50"),
            ("ACPLB_NOTIFY_PATH", "/n/sink"),
            ("ACPLB_NOTIFY_KIND", "fifo"),
            ("ACPLB_EVIDENCE_PATH", "/n/evidence"),
            ("ACPLB_SANDBOX_MODE", "workspace-write"),
            ("ACPLB_APPROVAL_POLICY", "never"),
            ("OPENAI_API_KEY", "k"),
            ("OTHER", "x"),
        ]);
        assert!(all.problems.is_empty(), "{:?}", all.problems);
        let open = all.open();
        assert_eq!((open.idle_timeout_ms, open.polling_interval_ms), (1200, 50));
        assert_eq!((open.notify_path.as_str(), open.notify_kind.as_str()), ("/n/sink", "fifo"));
        assert_eq!(open.evidence_path, "/n/evidence");
        assert_eq!(open.provider_config["notify_path"], "/n/sink", "the forwarder is injected");
        assert_eq!(open.provider_config["sandbox"], "workspace-write");
        assert_eq!(open.environment.len(), 1);
    }

    #[test]
    fn injection_can_be_refused_and_forced() {
        let sink = ("ACPLB_NOTIFY_PATH", "/n");
        let program = ("ACPLB_NOTIFY_CMD", r#"["/p","a"]"#);
        let has = |chosen: &Chosen| chosen.defaults.provider_config.contains_key("notify_path");
        assert!(!has(&chosen(&[sink, ("ACPLB_NOTIFY_INJECT", "never")])));
        let own = chosen(&[sink, program]);
        assert!(!has(&own) && own.codex_notify == ["/p", "a"] && own.standalone);
        let forced = chosen(&[sink, program, ("ACPLB_NOTIFY_INJECT", "force")]);
        assert!(has(&forced) && forced.codex_notify.is_empty());
    }

    #[test]
    fn programs_of_the_users_own_make_it_standalone() {
        let own = chosen(&[("CODEX_CMD", "/fake/codex")]);
        assert!(own.standalone && own.codex_binary == Some("/fake/codex".into()));
        let run = chosen(&[("CODEX_CMD", "/a"), ("CODEX_RUN", "/b")]);
        assert_eq!(run.codex_binary, Some("/b".into()));
    }

    #[test]
    fn wrong_values_are_named_and_the_defaults_hold() {
        let wrong = chosen(&[
            ("ACPLB_IDLE_TIMEOUT_MS", "soon"),
            ("ACPLB_NOTIFY_PATH", "/n"),
            ("ACPLB_NOTIFY_KIND", "pipe"),
            ("ACPLB_NOTIFY_INJECT", "maybe"),
            ("ACPLB_NOTIFY_CMD", "x"),
            ("ACPLB_SANDBOX_MODE", "none"),
        ]);
        assert_eq!(wrong.problems.len(), 5, "{:?}", wrong.problems);
        assert_eq!(wrong.defaults.idle_timeout, None);
        assert_eq!(chosen(&[("ACPLB_IDLE_TIMEOUT_MS", "0")]).defaults.idle_timeout, None);
    }
}
