//! The documents are complete, agree with the table, and equal those in `docs/tools`.

use super::*;

#[test]
fn every_operation_and_field_is_described() {
    let schema = schema_json();
    let described = Descriptions::read();
    assert_eq!(described.methods.len(), OPERATIONS.len(), "an RPC is missing in the table of operations");
    for operation in OPERATIONS {
        let entry = &schema[operation.key];
        assert!(!entry["description"].as_str().unwrap_or_default().is_empty(), "{}", operation.key);
        assert!(!entry["examples"].as_array().unwrap().is_empty(), "{} has no example", operation.key);
        let fields: Vec<&str> = described.fields(operation.input).iter().map(|it| it.name.as_str()).collect();
        let rules: Vec<&str> = operation.fields.iter().map(|rule| rule.name).collect();
        for rule in &rules {
            assert!(fields.contains(rule), "{}: {rule} is no field", operation.key);
        }
        for field in &fields {
            assert!(rules.contains(field), "{}: {field} has no rule", operation.key);
        }
        for side in ["input", "output"] {
            for (name, property) in entry[side]["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{} {side} {name}", operation.key);
            }
        }
    }
}

#[test]
fn examples_use_fields_that_exist() {
    let schema = schema_json();
    for example in EXAMPLES {
        let entry = &schema[example.key];
        for (side, text) in [("input", example.input), ("output", example.output)] {
            let value: Value = serde_json::from_str(text).unwrap();
            for name in value.as_object().unwrap().keys() {
                assert!(entry[side]["properties"][name].is_object(), "{} {side} {name}", example.key);
            }
        }
    }
}

/// The files in `docs/tools` equal what the daemon serves. `UPDATE_GOLDEN=1` writes them.
#[test]
fn the_documents_in_docs_are_current() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools");
    let mut schema = serde_json::to_string_pretty(&schema_json()).unwrap();
    schema.push('\n');
    for (name, text) in [("TOOL.md", tool_md()), ("schema.json", schema)] {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "{name} is old; run this test with UPDATE_GOLDEN=1");
    }
}

#[test]
fn the_open_api_document_has_every_route_and_no_body_on_reads() {
    let document = open_api("1.2.3");
    for operation in OPERATIONS {
        let item = &document["paths"][operation.path][operation.verb.name().to_lowercase()];
        assert_eq!(item["operationId"], operation.key);
        assert_eq!(
            item["requestBody"].is_null(),
            matches!(operation.verb, HttpMethod::Get | HttpMethod::Delete)
        );
    }
    let get = &document["paths"]["/api/v1/memory/{id}"]["get"]["parameters"];
    assert_eq!((&get[0]["in"], &get[1]["in"]), (&json!("path"), &json!("query")));
    let put = &document["paths"]["/api/v1/skill/{id}"]["put"]["requestBody"]["content"]["application/json"]["schema"];
    assert!(put["properties"]["id"].is_null());
}

#[test]
fn discovery_is_cheap_and_names_every_tool() {
    let text = tool_md();
    let tokens = workbench::answer::estimate(&text);
    assert!(tokens <= 400, "TOOL.md has {tokens} tokens");
    for operation in OPERATIONS {
        assert!(text.contains(operation.tool), "{} is missing", operation.tool);
        let schema = tool_schema(operation.tool).unwrap();
        assert_eq!(schema, schema_json()[operation.key], "{}", operation.tool);
    }
    assert_eq!(tool_schema("no_such_tool"), None);
    assert_eq!(tool_schema("schema"), None);
}
