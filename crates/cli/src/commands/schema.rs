//! `obey schema`: JSON schemas of what commands print with `--json`, and of the configuration file. They are generated
//! from the types that the output is made of.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::json;

use crate::json_types as printed;
use cli_args::schema::SchemaArgs;
use config::exit::Exit;
use config::failure::{Failure, Result};
use config::nearest::suggestion;
use terminal::console::Console;

/// A schema and what it describes.
struct NamedSchema {
    name: &'static str,
    about: &'static str,
    make: fn() -> Schema,
}

/// Every schema, by name.
const SCHEMAS: &[NamedSchema] = &[
    NamedSchema {
        name: "campaign-list",
        about: "obey campaigns --json",
        make: of::<printed::CampaignListJson>,
    },
    NamedSchema {
        name: "config",
        about: "the configuration file, config.toml",
        make: read::<config::file::Config>,
    },
    NamedSchema { name: "doctor", about: "obey doctor --json", make: of::<printed::DoctorJson> },
    NamedSchema {
        name: "error",
        about: "what a failed command with --json prints",
        make: of::<printed::ErrorJson>,
    },
    NamedSchema {
        name: "event",
        about: "one line of obey session log --json",
        make: of::<printed::EventJson>,
    },
    NamedSchema { name: "ping", about: "obey ping --json", make: of::<printed::PingJson> },
    NamedSchema { name: "ps", about: "one line of obey ps --json", make: of::<printed::OverviewJson> },
    NamedSchema {
        name: "request-list",
        about: "obey session requests --json",
        make: of::<printed::RequestListJson>,
    },
    NamedSchema {
        name: "session-info",
        about: "obey session info --json",
        make: of::<printed::SessionInfoJson>,
    },
    NamedSchema {
        name: "session-list",
        about: "obey session list --json",
        make: of::<printed::SessionListJson>,
    },
    NamedSchema { name: "version", about: "obey version --json", make: of::<printed::VersionJson> },
];

/// Returns the schema of what is written: every field is there.
fn of<T: JsonSchema>() -> Schema {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_serialize()).into_root_schema_for::<T>()
}

/// Returns the schema of what is read: fields with a default may be absent.
fn read<T: JsonSchema>() -> Schema {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_deserialize()).into_root_schema_for::<T>()
}

pub(super) fn run(console: &mut Console, args: &SchemaArgs) -> Result<Exit> {
    let Some(wanted) = &args.name else { return list(console) };
    let Some(found) = SCHEMAS.iter().find(|schema| schema.name == wanted) else {
        let meant = suggestion(wanted, SCHEMAS.iter().map(|schema| schema.name));
        return Err(Failure::usage(format!("there is no schema {wanted:?}{meant}"))
            .with_hint("all names: obey schema"));
    };
    let mut schema = (found.make)();
    schema.insert("title".to_owned(), found.name.into());
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::failed(format!("the schema cannot be written: {error}")))?;
    console.out.line(&text)?;
    Ok(Exit::OK)
}

fn list(console: &mut Console) -> Result<Exit> {
    if console.out.json {
        let names: Vec<_> =
            SCHEMAS.iter().map(|schema| json!({"name": schema.name, "about": schema.about})).collect();
        console.out.json(&json!({"schemas": names}))?;
        return Ok(Exit::OK);
    }
    let width = SCHEMAS.iter().map(|schema| schema.name.len()).max().unwrap_or(0);
    for schema in SCHEMAS {
        console.out.line(&format!("{:<width$}  {}", schema.name, schema.about))?;
    }
    Ok(Exit::OK)
}
