//! Tests of the configuration: layers, mistakes and their messages, and that the manual describes every key.

use super::*;

fn load_text(text: &str) -> Result<Config> {
    load(Some((Path::new("config.toml"), text)), &Vars::default(), &Flags::default())
}

fn message(text: &str) -> String {
    let failure = load_text(text).unwrap_err();
    assert_eq!(failure.code.as_deref(), Some("OBEY-1014"));
    failure.message
}

#[test]
fn an_empty_file_is_the_default() {
    let loaded = load_text("").unwrap();
    assert_eq!(loaded, Config::default());
}

/// A configuration that sets every key.
const EVERY_KEY: &str = r#"
        listen = ["localhost:1", "[::1]:2"]
        socket = "/s"
        data_dir = "~/d"
        log_level = "debug,h2=warn"
        [telemetry]
        endpoint = "http://127.0.0.1:4318"
        [scrub]
        events = false
        [claude_code]
        binary = "claude"
        [codex]
        binary = "codex"
        [openclaw]
        binary = "openclaw"
        url = "ws://127.0.0.1:18789"
        token = "secret"
        [execute]
        allow = ["make"]
        timeout_secs = 9
        [retention]
        activities_days = 1
        events_days = 2
        sessions_days = 3
        spool_max_mb = 4
        [checkpoints]
        automatic = false
        keep_count = 3
        keep_days = 2

        [sessions]
        max_active = 5
        default_provider = "codex"
        default_mode = "plan"
        [sandbox]
        agents = true
        network = "none"
        campaigns = ["shop=model"]
        providers = ["codex=none"]
        model_hosts = ["model.example:443"]
        required = false
        read_only = ["/opt/tools"]
        writable = ["/var/cache/build"]
        [limits]
        memory = "4G"
        cpus = 1.5
        processes = 500
        campaigns = ["shop=memory:1G"]
        providers = ["codex=cpus:2"]
        reserve = "1G"
        [workbench]
        default_project = "/p"
        session_idle_minutes = 6
        session_max_minutes = 7
        project_rules = true
        for_agents = false
        [memory]
        model_folder = "/opt/model"
        embeddings_url = "http://127.0.0.1:11434/v1"
        embeddings_model = "small"
        embeddings_key_env = "MY_KEY"
        qdrant_url = "http://127.0.0.1:6334"
        qdrant_collection = "mine"
        qdrant_key_env = "MY_OTHER_KEY"
        [acp]
        agents = ["mine=/opt/mine/agent --acp"]
        provider = "claude-code"
        agent = "mine"
        model = "sonnet"
        mode = "plan"
        keep = true
        max_sessions = 6
        [access]
        token_users = ["somebody"]
        [tls]
        cert = "/c.pem"
        key = "~/k.pem"
        [prices]
        models = ["gpt-5=1.25/10/0.125"]
        [budgets]
        day = "usd:20"
        campaign = "calls:100"
        campaign_day = "minutes:60"
        campaigns = ["app=usd:50"]
        campaigns_day = ["app=usd:5"]
        [relay]
        plain = "read"
        [workers]
        at_once = 8
        timeout_minutes = 9
        for_agents = 2
        [gitlab]
        url = "https://gitlab.example.invalid/git"
        token = "t"
        token_file = "~/t"
        ca_file = "/ca.pem"
        instances = ["https://other.example.invalid=~/other"]
        projects = ["group/name=~/name"]
        [github]
        url = "https://github.example.invalid"
        token = "t"
        token_file = "~/t"
        ca_file = "/ca.pem"
        projects = ["me/tool=~/tool"]
        [notices]
        on = ["failed"]
        done_after_secs = 5
        desktop = false
        bell = false
        hook = "/opt/hook"
        webhook = "https://example.invalid/x"
        webhook_token_env = "MY_TOKEN"
        push_services = ["https://push.example/"]
    "#;

#[test]
fn every_key_can_be_written() {
    let loaded = load_text(EVERY_KEY).unwrap();
    assert_eq!(loaded.execute, Execute { allow: vec!["make".to_owned()], timeout_secs: 9 });
    assert_eq!(loaded.data_dir.as_deref(), Some(Path::new("~/d")));
    assert!(loaded.sandbox.agents && !loaded.sandbox.required && loaded.workbench.project_rules);
    let table: toml::Table = EVERY_KEY.parse().unwrap();
    for (key, _) in keys() {
        let written = match key.split_once('.') {
            Some((section, name)) => table.get(section).and_then(|section| section.get(name)),
            None => table.get(&key),
        };
        assert!(written.is_some(), "the text above should use {key}");
    }
}

#[test]
fn each_layer_wins_over_the_one_before() {
    let file = "log_level = \"warn\"\nlisten = [\"127.0.0.1:1\"]\n[execute]\ntimeout_secs = 5\n";
    let file = Some((Path::new("config.toml"), file));
    let vars = Vars::of(&[("OBEY_LOG", "debug"), ("OBEY_EXECUTE_TIMEOUT_SECS", "6"), ("OBEY_LISTEN", "")]);
    let flags = Flags { log_level: Some("trace".to_owned()), ..Flags::default() };

    let by_variables = load(file, &vars, &Flags::default()).unwrap();
    assert_eq!((by_variables.log_level.as_str(), by_variables.execute.timeout_secs), ("debug", 6));
    assert!(by_variables.listen.is_empty(), "an empty OBEY_LISTEN means no address");
    assert_eq!(load(file, &vars, &flags).unwrap().log_level, "trace");
}

#[test]
fn a_flag_adds_addresses_and_none_leaves_only_those_given() {
    let with = |file: Option<&str>, listen: &[&str]| {
        let listen = listen.iter().map(|entry| (*entry).to_owned()).collect();
        let file = file.map(|text| (Path::new("config.toml"), text));
        load(file, &Vars::default(), &Flags { listen, ..Flags::default() }).unwrap()
    };
    let added = with(None, &["127.0.0.1:8080", "127.0.0.1:0"]);
    assert_eq!(added.listen, ["127.0.0.1:8080", "127.0.0.1:0", "127.0.0.1:50051"]);
    assert_eq!(added.default_listen, Some("127.0.0.1:50051".parse().unwrap()));
    let configured = with(Some("listen = [\"127.0.0.1:1\"]"), &["127.0.0.1:2", "127.0.0.1:1"]);
    assert_eq!(configured.listen, ["127.0.0.1:2", "127.0.0.1:1"]);
    assert_eq!(with(Some("listen = []"), &["127.0.0.1:2"]).listen, ["127.0.0.1:2"]);
    assert!(with(None, &["none"]).listen.is_empty());
    assert_eq!(with(None, &["none", "127.0.0.1:2"]).listen, ["127.0.0.1:2"]);
    assert_eq!(with(None, &["none,127.0.0.1:2"]).listen, ["127.0.0.1:2"]);
}

#[test]
fn only_the_address_nobody_asked_for_may_be_stepped_over() {
    let default = Some("127.0.0.1:50051".parse().unwrap());
    assert_eq!(load(None, &Vars::default(), &Flags::default()).unwrap().default_listen, default);
    let asked = Some((Path::new("config.toml"), "listen = [\"127.0.0.1:50051\"]"));
    assert_eq!(load(asked, &Vars::default(), &Flags::default()).unwrap().default_listen, None);
    let by_variable = Vars::of(&[("OBEY_LISTEN", "127.0.0.1:50051")]);
    assert_eq!(load(None, &by_variable, &Flags::default()).unwrap().default_listen, None);
    for asked in [&["127.0.0.1:50051", "127.0.0.1:1"][..], &["127.0.0.1:50051"], &["localhost:50051"]] {
        let listen: Vec<String> = asked.iter().map(|entry| (*entry).to_owned()).collect();
        let by_flag =
            load(None, &Vars::default(), &Flags { listen: listen.clone(), ..Flags::default() }).unwrap();
        assert_eq!((by_flag.default_listen, by_flag.listen), (None, listen));
    }
}

#[test]
fn a_provider_that_does_not_exist_is_named_with_those_that_do() {
    for (text, key) in
        [("[acp]\nprovider", "acp.provider"), ("[sessions]\ndefault_provider", "sessions.default_provider")]
    {
        let said = message(&format!("{text} = \"claud\""));
        assert!(
            said.starts_with(&format!("{key}: \"claud\" is no provider; use one of claude-code, ")),
            "{said}"
        );
    }
    assert!(load_text("[sessions]\ndefault_provider = \"\"").is_ok());
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    assert_eq!(message("lisen = []"), "config.toml: unknown key lisen; did you mean listen?");
    assert_eq!(
        message("[execute]\ntimeout = 3"),
        "config.toml: unknown key execute.timeout; did you mean execute.timeout_secs?"
    );
    assert_eq!(message("[retantion]\nx = 3"), "config.toml: unknown key retantion; did you mean retention?");
    assert_eq!(message("qqqqqqqqqqqq = 1"), "config.toml: unknown key qqqqqqqqqqqq");
}

#[test]
fn a_syntax_error_names_the_line() {
    assert!(message("log_level = \"info\"\nlisten = [").starts_with("config.toml:2: "));
}

#[test]
fn wrong_values_are_explained() {
    assert!(message("listen = [\"50051\"]").contains("127.0.0.1:50051"));
    assert!(message("socket = \"x.sock\"").contains("absolute path"));
    assert!(message("log_level = \"a=b=c\"").contains("log_level"));
    assert!(message("[execute]\nallow = [\"/bin/sh\"]").contains("without a path"));
    assert!(message("[sessions]\nmax_active = 0").contains("above 0"));
    assert!(message("[acp]\nmax_sessions = 0").contains("above 0"));
    assert!(message("[acp]\nprovider = \"x\"").contains("no provider"));
    let text = message("[execute]\ntimeout_secs = \"x\"");
    assert!(text.contains("timeout_secs"), "{text}");
    let vars = Vars::of(&[("OBEY_SANDBOX_AGENTS", "maybe")]);
    let failure = load(None, &vars, &Flags::default()).unwrap_err();
    assert_eq!(failure.message, "OBEY_SANDBOX_AGENTS=maybe: must be true or false");
}

#[test]
fn the_manual_describes_every_key_and_its_variable() {
    let page = include_str!("../../../../docs/config.md");
    for (key, _) in keys() {
        assert!(page.contains(&format!("`{key}`")), "docs/config.md lacks `{key}`");
        let variable = variable(&key);
        assert!(page.contains(&format!("`{variable}`")), "docs/config.md lacks `{variable}`");
    }
}

#[test]
fn the_example_in_the_manual_is_the_default() {
    let page = include_str!("../../../../docs/config.md");
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert_eq!(load_text(example).unwrap(), Config::default());
}
