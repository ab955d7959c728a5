//! The examples of the published interface, as printed there. Only the port and the path of the project are replaced: a
//! test cannot own port 50051 of the machine.

use anyhow::{Context, Result, ensure};
use e2e::deadline::within;
use e2e::tools;

use super::bench::Bench;

const CURL: &str = r#"# Start a session
SESSION=$(curl -s -X POST http://localhost:50051/api/v1/session/start \
  -H "Content-Type: application/json" \
  -d '{"project_path": "/path/to/project"}' | jq -r '.session_id')

# Execute command
curl -X POST http://localhost:50051/api/v1/safeexec/bash \
  -H "Content-Type: application/json" \
  -d "{\"session_id\": \"$SESSION\", \"cmd\": \"ls -la\"}"
"#;

const PYTHON_REST: &str = r#"import requests

# Start session
resp = requests.post("http://localhost:50051/api/v1/session/start",
    json={"project_path": "/path/to/project"})
session_id = resp.json()["session_id"]

# Execute command
resp = requests.post("http://localhost:50051/api/v1/safeexec/bash",
    json={"session_id": session_id, "cmd": "ls -la"})
print(resp.json()["summary"])
"#;

const PYTHON_GRPC: &str = r#"import grpc
from contextd.v1 import safeexec_pb2, safeexec_pb2_grpc

channel = grpc.insecure_channel('localhost:50051')
stub = safeexec_pb2_grpc.SafeExecServiceStub(channel)

response = stub.Bash(safeexec_pb2.BashRequest(
    cmd="ls -la",
    session_id="sess_abc123"
))
print(f"Exit: {response.exit_code}, Summary: {response.summary}")
"#;

/// The tiers of an answer; the published text leaves out the imports and the condition.
const PYTHON_TIERS: &str = r#"import grpc
from contextd.v1 import ref_pb2_grpc, safeexec_pb2_grpc
from contextd.v1.ref_pb2 import RefGetContentRequest
from contextd.v1.safeexec_pb2 import BashRequest
channel = grpc.insecure_channel('localhost:50051')
stub = safeexec_pb2_grpc.SafeExecServiceStub(channel)
ref_stub = ref_pb2_grpc.RefServiceStub(channel)
need_full_output = True

# Tier 1: Just the summary
response = stub.Bash(BashRequest(cmd="ls -la", session_id="sess_123"))
print(response.summary)  # "Executed: ls -la (exit 0, 150 lines)"

# Tier 2: Need preview
if response.exit_code != 0:
    print(response.stderr_preview)

# Tier 3: Need full output
if need_full_output:
    full = ref_stub.GetContent(RefGetContentRequest(ref_id=response.stdout_ref))
    print(full.content)
"#;

async fn run(bench: &Bench, program: &std::path::Path, flag: &str, script: &str) -> Result<String> {
    let port = bench.address()?.port();
    let script = script
        .replace("localhost:50051", &format!("localhost:{port}"))
        .replace("/path/to/project", &bench.world.project().display().to_string());
    let mut command = tokio::process::Command::from(bench.world.command(program));
    command.args([flag, &script]).kill_on_drop(true);
    if let Some((_, stubs)) = tools::python()? {
        command.env("PYTHONPATH", stubs);
    }
    let output = within("the end of the example", command.output()).await?.context("running the example")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{}\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr),
        bench.daemon.log()
    );
    Ok(text(&output.stdout))
}

#[tokio::test]
async fn the_curl_example_works_as_printed() -> Result<()> {
    let bench = Bench::start().await?;
    let said = run(&bench, std::path::Path::new("bash"), "-c", CURL).await?;
    let answer: serde_json::Value = serde_json::from_str(&said)?;
    ensure!(answer["exit_code"] == 0, "{answer}");
    ensure!(
        answer["summary"].as_str().is_some_and(|it| it.starts_with("Executed: ls -la (exit 0, ")),
        "{answer}"
    );
    // The preview is the listing's beginning, where names with a dot stand; the ref has all of it.
    ensure!(answer["stdout_preview"].as_str().is_some_and(|it| it.contains(" .git\n")), "{answer}");
    let whole = answer["stdout_ref"].as_str().context("no ref")?;
    let curl = format!(
        "curl -s -H 'Content-Type: application/json' -d '{{\"ref_id\":\"{whole}\"}}' http://localhost:50051/api/v1/ref/content"
    );
    let listing = run(&bench, std::path::Path::new("bash"), "-c", &curl).await?;
    ensure!(listing.contains("README.md"), "{listing}");
    for name in ["stderr_preview", "stderr_ref", "stdout_ref"] {
        ensure!(answer[name].is_string(), "{name} is not printed: {answer}");
    }
    ensure!(answer["tokens_used"].is_i64(), "{answer}");
    bench.end().await
}

#[tokio::test]
async fn the_python_examples_work_as_printed() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let bench = Bench::start().await?;
    let said = run(&bench, &python, "-c", PYTHON_REST).await?;
    ensure!(said.starts_with("Executed: ls -la (exit 0, "), "{said}");
    let said = run(&bench, &python, "-c", PYTHON_GRPC).await?;
    ensure!(said.starts_with("Exit: 0, Summary: Executed: ls -la (exit 0, "), "{said}");
    let said = run(&bench, &python, "-c", PYTHON_TIERS).await?;
    ensure!(said.starts_with("Executed: ls -la (exit 0, ") && said.contains("README"), "{said}");
    bench.end().await
}

/// Asks a daemon what it serves, knowing nothing of it.
const PYTHON_REFLECTION: &str = r#"import grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

channel = grpc.insecure_channel('localhost:50051')
served = ProtoReflectionDescriptorDatabase(channel)
names = sorted(name for name in served.get_services() if name.startswith("contextd.v1."))
for name in names:
    file = served.FindFileContainingSymbol(name)
    service = next(service for service in file.service if name.endswith("." + service.name))
    print(service.name, len(service.method))
"#;

#[tokio::test]
async fn python_reflection_tells_the_nine_services_and_every_method() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let bench = Bench::start().await?;
    let said = run(&bench, &python, "-c", PYTHON_REFLECTION).await?;
    let methods: usize = said.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum();
    ensure!(said.lines().count() == 9 && methods == 28, "{said}");
    bench.end().await
}

#[tokio::test]
async fn every_example_of_tool_md_works_as_printed() -> Result<()> {
    let Some((python, _)) = tools::python()? else { return Ok(()) };
    let bench = Bench::start().await?;
    let text = bench.send("GET", "/tools/TOOL.md", None).await?.body;
    let mut tried = 0;
    for block in text.split("```").skip(1).step_by(2) {
        let (language, script) = block.split_once('\n').context("a block without a language")?;
        match language {
            "bash" => {
                let said = run(&bench, std::path::Path::new("bash"), "-c", script).await?;
                let answer: serde_json::Value = serde_json::from_str(&said)?;
                ensure!(answer["session_id"].as_str().is_some_and(|id| id.starts_with("sess_")), "{answer}");
            }
            "python" => {
                // It opens a channel and stops there; that it leads somewhere is shown by waiting for it.
                let script = format!("{script}\ngrpc.channel_ready_future(channel).result(timeout=20)\n");
                run(&bench, &python, "-c", &script).await?;
            }
            other => anyhow::bail!("nobody tries examples in {other:?}"),
        }
        tried += 1;
    }
    ensure!(tried == 2, "{tried} examples in TOOL.md");
    bench.end().await
}
