//! The text around an entry keeps its bytes, and broken files are reported, not changed.

use serde_json::json;

use super::*;

const AT: &str = "mcpServers";

fn entry() -> Value {
    json!({"command": "/opt/obey", "args": ["mcp"]})
}

#[test]
fn an_entry_is_put_in_and_taken_out_without_a_trace() {
    for before in [
        "{\"mcpServers\": {}}",
        "{\n  \"mcpServers\": {\n    \"lab\": {\"command\": \"x\"}\n  },\n  \"a\": [1,2 , 3]\n}\n",
        "{\n\t\"mcpServers\": {\n\t\t\"lab\": 1 // why\n\t}\n}",
        "// mine\n{\n  \"mcpServers\": {\n    \"lab\": 1, // trailing\n  },\n  /* odd */ \"b\" : null,\n}\n",
        "{\"mcpServers\":{\"a\":1},\"z\":1.50}",
        "{\r\n  \"mcpServers\": {\r\n    \"a\": 1\r\n  }\r\n}\r\n",
        "\u{feff}{\"mcpServers\": {\"é\\u0041\": \"\\\"}//\"}}",
    ] {
        let after = set(before, AT, &entry()).unwrap();
        assert_eq!(set(&after, AT, &entry()).unwrap(), after, "a second time changes nothing");
        assert_eq!(tree::parse(&after).unwrap().value()[AT]["obey"], entry(), "{after}");
        assert_eq!(remove(&after, AT).unwrap(), before, "{after}");
        assert_eq!(remove(before, AT).unwrap(), before);
    }
}

#[test]
fn an_entry_is_written_as_the_file_is() {
    let after = set("", AT, &entry()).unwrap();
    let fresh = "{\n  \"mcpServers\": {\n    \"obey\": {\n      \"args\": [\n        \"mcp\"\n      ],\n      \"command\": \"/opt/obey\"\n    }\n  }\n}\n";
    assert_eq!(tree::parse(&after).unwrap().value(), tree::parse(fresh).unwrap().value());
    assert!(
        after.starts_with("{\n  \"mcpServers\": {\n    \"obey\": {\n      \"") && after.ends_with("  }\n}\n")
    );
    let after = set("{\n    \"a\": 1\n}\n", AT, &json!(1)).unwrap();
    assert_eq!(after, "{\n    \"a\": 1,\n    \"mcpServers\": {\n        \"obey\": 1\n    }\n}\n");
    let after = set("{\n  // nothing yet\n}\n", AT, &json!(1)).unwrap();
    assert_eq!(after, "{\n  // nothing yet\n  \"mcpServers\": {\n    \"obey\": 1\n  }\n}\n");
    let after = set("{\"a\":1}", AT, &json!(1)).unwrap();
    assert_eq!(after, "{\"a\":1, \"mcpServers\": {\"obey\":1}}");
    let after = set("{\n  \"mcpServers\": {\n    \"a\": 1 // why\n  }\n}", AT, &json!(2)).unwrap();
    assert_eq!(after, "{\n  \"mcpServers\": {\n    \"a\": 1, // why\n    \"obey\": 2\n  }\n}");
}

#[test]
fn an_entry_of_the_same_name_is_replaced_where_it_stands() {
    let before = "{\n  \"mcpServers\": {\n    \"obey\": {\"old\": 1}, // ours\n    \"z\": 2\n  }\n}\n";
    let after = set(before, AT, &json!({"n": 1})).unwrap();
    assert_eq!(
        after,
        "{\n  \"mcpServers\": {\n    \"obey\": {\n      \"n\": 1\n    }, // ours\n    \"z\": 2\n  }\n}\n"
    );
    let gone = remove("{\"mcpServers\":{\"obey\":1, \"z\":2}}", AT).unwrap();
    assert_eq!(gone, "{\"mcpServers\":{\"z\":2}}");
    let gone = remove("{\n  \"mcpServers\": {\n    \"obey\": 1,\n    \"z\": 2\n  }\n}\n", AT).unwrap();
    assert_eq!(gone, "{\n  \"mcpServers\": {\n    \"z\": 2\n  }\n}\n");
}

#[test]
fn broken_files_are_named_with_their_place() {
    for (text, problem) in [
        ("{\n \"a\": 1\n \"b\": 2}", "line 3, column 2 is not JSON: a comma is missing"),
        ("{\"a\": }", "line 1, column 7 is not JSON: this is no value"),
        ("{\"a\": \"x", "line 1, column 7 is not JSON: a text does not end"),
        ("{\"a\"}", "line 1, column 5 is not JSON: a colon is missing"),
        ("{} x", "line 1, column 4 is not JSON: something follows the end"),
        ("{ /* ", "line 1, column 3 is not JSON: a comment does not end"),
        ("{", "line 1, column 2 is not JSON: a name in quotes is missing"),
        ("[1]", "is JSON, but no object"),
        ("{\"mcpServers\": []}", "mcpServers is no object"),
    ] {
        assert_eq!(set(text, AT, &entry()).unwrap_err(), problem, "{text}");
        assert_eq!(remove(text, AT).unwrap_err(), problem, "{text}");
    }
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    assert!(set(&deep, AT, &entry()).unwrap_err().contains("nested deeper"));
}
