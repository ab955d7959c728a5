//! Compiles every file below `proto/` with a pure-Rust compiler, so that building needs no protoc, and makes the access
//! table.

#[path = "build/table.rs"]
mod table;

use std::path::PathBuf;

const FILES: &[&str] = &[
    "obey/local/v1/daemon.proto",
    "obey/v1/access.proto",
    "obey/v1/obey.proto",
    "obey/v1/acp.proto",
    "obey/v1/bridge.proto",
    "obey/v1/environment.proto",
    "obey/v1/audit.proto",
    "obey/v1/device.proto",
    "obey/v1/grant.proto",
    "betcode/v1/agent.proto",
    "betcode/v1/config.proto",
    "betcode/v1/worktree.proto",
    "contextd/v1/agent.proto",
    "contextd/v1/checkpoint.proto",
    "contextd/v1/memory.proto",
    "contextd/v1/policy.proto",
    "contextd/v1/ref.proto",
    "contextd/v1/remediation.proto",
    "contextd/v1/safeexec.proto",
    "contextd/v1/session.proto",
    "contextd/v1/skill.proto",
    "roz/v1/agent.proto",
    "roz/v1/task.proto",
    "roz/v1/host.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(FILES)?;
    let descriptors = compiler.file_descriptor_set();
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    table::write(&compiler.descriptor_pool(), &root.join("access.toml"), &out.join("access.rs"))?;
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // contextd's messages are JSON too: the same names, numbers as numbers, everything printed.
        .type_attribute(".contextd.v1", "#[derive(serde::Serialize, serde::Deserialize)]")
        .type_attribute(".contextd.v1", "#[serde(default)]")
        .compile_fds(descriptors)?;
    Ok(())
}
