//! Worlds with one of the large ACP agents of `make test-all`: its program first on PATH, and configured for the world's
//! model, so that it never looks for anything on the network. Does not start it.

use std::fs;

use anyhow::{Context, Result};
use serde_json::json;

use super::World;
use crate::tools;

impl World {
    /// A world in which the real opencode is first on PATH; `None` where it is absent.
    pub fn with_opencode() -> Result<Option<World>> {
        let Some(folder) = tools::large_acp_agent("opencode") else { return Ok(None) };
        let world = World::with_path(Some(&folder))?;
        let config = json!({
            "autoupdate": false, "share": "disabled", "model": "test/scripted", "small_model": "test/scripted",
            // It asks about what changes something, as the other agents do.
            "permission": {"bash": {"*": "ask", "echo *": "allow"}, "edit": "ask"},
            "provider": {"test": {
                "npm": "@ai-sdk/openai-compatible", "name": "Test",
                "options": {"baseURL": world.model().openai_base_url(), "apiKey": "dummy"},
                "models": {"scripted": {
                    "name": "Scripted", "limit": {"context": 120_000, "output": 8192}, "tool_call": true,
                    "reasoning": true,
                }},
            }},
        });
        let file = world.path("opencode.json");
        fs::write(&file, config.to_string())?;
        world.set_env("OPENCODE_CONFIG", file);
        world.set_env("XDG_CACHE_HOME", world.path("home/.cache"));
        for name in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS", "SHARE"] {
            world.set_env(&format!("OPENCODE_DISABLE_{name}"), "1");
        }
        Ok(Some(world))
    }

    /// A world in which the real goose is first on PATH; `None` where it is absent.
    pub fn with_goose() -> Result<Option<World>> {
        let Some(folder) = tools::large_acp_agent("goose") else { return Ok(None) };
        let world = World::with_path(Some(&folder))?;
        world.set_env("OPENAI_HOST", world.model().base_url());
        for (name, value) in [
            ("GOOSE_PROVIDER", "openai"),
            ("GOOSE_MODEL", "scripted"),
            ("GOOSE_MODE", "approve"),
            ("GOOSE_DISABLE_KEYRING", "1"),
            ("GOOSE_TELEMETRY_ENABLED", "false"),
            ("GOOSE_DISABLE_SESSION_NAMING", "true"),
            ("OPENAI_API_KEY", "dummy"),
        ] {
            world.set_env(name, value);
        }
        Ok(Some(world))
    }

    /// A world in which the real Gemini CLI is first on PATH; `None` where it is absent.
    pub fn with_gemini() -> Result<Option<World>> {
        let Some(world) = World::with_node_agent("gemini")? else { return Ok(None) };
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
            "general": {"checkpointing": {"enabled": false}, "enableAutoUpdate": false,
                "enableAutoUpdateNotification": false},
            "privacy": {"usageStatisticsEnabled": false},
            // A text that repeats itself is what some scenarios are about.
            "model": {"name": "gemini-2.5-flash", "disableLoopDetection": true},
            "ide": {"enabled": false},
        });
        let folder = world.path("home/.gemini");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("settings.json"), settings.to_string())?;
        world.set_env("GOOGLE_GEMINI_BASE_URL", world.model().base_url());
        for (name, value) in [
            ("GEMINI_API_KEY", "dummy"),
            ("GEMINI_TELEMETRY_ENABLED", "false"),
            ("GEMINI_CLI_NO_RELAUNCH", "true"),
            ("GEMINI_CLI_TRUST_WORKSPACE", "true"),
        ] {
            world.set_env(name, value);
        }
        Ok(Some(world))
    }

    /// A world in which the published adapter of Claude Code is first on PATH; `None` where it is absent.
    pub fn with_claude_agent_acp() -> Result<Option<World>> {
        World::with_node_agent("claude-agent-acp")
    }

    /// A world in which the published adapter of Codex is first on PATH; `None` where it is absent.
    pub fn with_published_codex_acp() -> Result<Option<World>> {
        let Some(world) = World::with_node_agent("codex-acp")? else { return Ok(None) };
        world.configure_codex("")?;
        world.set_env("OPENAI_API_KEY", "dummy");
        Ok(Some(world))
    }

    /// An agent that is a script, with a Node that is new enough for it.
    fn with_node_agent(name: &str) -> Result<Option<World>> {
        let (Some(node), Some(folder)) = (tools::new_node(), tools::large_acp_agent(name)) else {
            return Ok(None);
        };
        let world = World::with_path(Some(&folder))?;
        world.prepend_path(&node)?;
        Ok(Some(world))
    }

    /// Puts a shell script before a program of this world; in it, `$REAL` is the program.
    pub fn wrap(&self, name: &str, script: &str) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let path = self.locked().get("PATH").cloned().unwrap_or_default();
        let real = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.exists());
        let real = real.with_context(|| format!("{name} is not on the world's PATH"))?;
        let folder = self.path("wrapped");
        fs::create_dir_all(&folder)?;
        let program = folder.join(name);
        fs::write(&program, format!("#!/bin/sh\nREAL='{}'\n{script}\n", real.display()))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        self.prepend_path(&folder)
    }
}
