//! Compiles every file below `proto/` with a pure-Rust compiler, so that building needs no protoc, and makes the access
//! table.

#[path = "build/table.rs"]
mod table;
#[path = "build/unary.rs"]
mod unary;

use std::path::PathBuf;

use protox::prost_reflect::{DescriptorPool, Kind};
use tonic_prost_build::Builder;

const FILES: &[&str] = &[
    "obey/local/v1/daemon.proto",
    "obey/v1/access.proto",
    "obey/v1/event.proto",
    "obey/v1/obey.proto",
    "obey/v1/acp.proto",
    "obey/v1/bridge.proto",
    "obey/v1/environment.proto",
    "obey/v1/file.proto",
    "obey/v1/forge.proto",
    "obey/v1/api_key.proto",
    "obey/v1/audit.proto",
    "obey/v1/device.proto",
    "obey/v1/grant.proto",
    "obey/v1/installed_agent.proto",
    "obey/v1/relay.proto",
    "obey/v1/push.proto",
    "obey/v1/worktree.proto",
    "obey/v1/overview.proto",
    "obey/v1/page.proto",
    "obey/v1/plan.proto",
    "obey/v1/import.proto",
    "obey/v1/search.proto",
    "obey/v1/usage.proto",
    "obey/v1/export.proto",
    "obey/v1/queue.proto",
    "obey/v1/session.proto",
    "obey/v1/budget.proto",
    "betcode/v1/agent.proto",
    "betcode/v1/config.proto",
    "betcode/v1/gitlab.proto",
    "betcode/v1/machine.proto",
    "betcode/v1/subagent.proto",
    "betcode/v1/tunnel.proto",
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
    "roz/v1/safety.proto",
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
    events_as_json(&compiler.descriptor_pool(), tonic_prost_build::configure())?
        .build_client(true)
        .build_server(true)
        // contextd's messages are JSON too: the same names, numbers as numbers, everything printed.
        .type_attribute(".contextd.v1", "#[derive(serde::Serialize, serde::Deserialize)]")
        .type_attribute(".contextd.v1", "#[serde(default)]")
        .compile_fds(descriptors)?;
    unary::rewrite(&compiler.descriptor_pool(), &out)?;
    Ok(())
}

/// The message of an event's kind reads and writes the JSON of the same event.
fn events_as_json(pool: &DescriptorPool, mut builder: Builder) -> Result<Builder, &'static str> {
    let event = pool.get_message_by_name("obey.v1.Event").ok_or("no message obey.v1.Event")?;
    let derive = "#[derive(serde::Serialize, serde::Deserialize)]";
    let tagged = "#[serde(tag = \"type\", rename_all = \"snake_case\")]";
    builder = builder.type_attribute(".obey.v1.Event.kind", format!("{derive}\n{tagged}"));
    for message in event.child_messages().filter(|message| !message.is_map_entry()) {
        let name = format!(".{}", message.full_name());
        builder = builder.type_attribute(&name, format!("{derive}\n#[serde(default)]"));
        for field in message.fields() {
            let mut attributes = Vec::new();
            let presence = field.supports_presence();
            if presence {
                attributes.push("skip_serializing_if = \"Option::is_none\"".to_owned());
            }
            let optional = if presence { "::optional" } else { "" };
            if let Kind::Enum(kind) = field.kind() {
                attributes.push(format!("with = \"crate::names::{}{optional}\"", module_of(kind.name())));
            } else if let Some(short) = field.name().strip_suffix("_json") {
                attributes
                    .push(format!("rename = \"{short}\", with = \"crate::names::json_text{optional}\""));
            }
            if !attributes.is_empty() {
                let path = format!("{name}.{}", field.name());
                builder = builder.field_attribute(path, format!("#[serde({})]", attributes.join(", ")));
            }
        }
    }
    Ok(builder)
}

/// Returns the module of `crate::names` for an enum: `EndReason` is `end_reason`.
fn module_of(name: &str) -> String {
    let mut module = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !module.is_empty() {
            module.push('_');
        }
        module.extend(letter.to_lowercase());
    }
    module
}
