//! Holds messages against the published JSON schema of the protocol. Knows the keywords that schema uses and fails on
//! any other, so that nothing passes because it was not looked at.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The published schema.
pub struct Schema {
    root: Value,
}

/// Keywords that only tell people or programs something.
const TOLD: [&str; 13] = [
    "$schema",
    "$defs",
    "title",
    "description",
    "default",
    "discriminator",
    "propertyName",
    "x-deserialize-default-on-error",
    "x-deserialize-default-on-null",
    "x-deserialize-skip-invalid-items",
    "x-docs-ignore",
    "x-method",
    "x-side",
];

impl Schema {
    pub fn read(path: &Path) -> Result<Schema> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(Schema { root: serde_json::from_str(&text)? })
    }

    /// Checks a request or notification of the agent by its method.
    pub fn check_message(&self, message: &Value) -> Result<()> {
        let method = message["method"].as_str().context("method is no text")?;
        let side = if message.get("id").is_some() { "Request" } else { "Notification" };
        let Some(name) = self.of_method(method, side, "client") else {
            bail!("{method} is no {side} an agent may send");
        };
        self.check(&message["params"], &self.root["$defs"][&name], &name)
    }

    /// Checks an answer of the agent; without a method it must be an error.
    pub fn check_answer(&self, method: Option<&str>, answer: &Value) -> Result<()> {
        let (result, error) = (answer.get("result"), answer.get("error"));
        if let Some(error) = error {
            ensure!(result.is_none(), "both a result and an error");
            return self.check(error, &self.root["$defs"]["Error"], "Error");
        }
        let method = method.context("an answer to nothing")?;
        let Some(name) = self.of_method(method, "Response", "agent") else {
            // Methods of drafts, such as session/set_model, have an empty answer.
            ensure!(result.is_some_and(Value::is_object), "no result");
            return Ok(());
        };
        self.check(result.context("no result")?, &self.root["$defs"][&name], &name)
    }

    /// Checks a request or notification of a client by its method.
    pub fn check_client_message(&self, message: &Value) -> Result<()> {
        let method = message["method"].as_str().context("method is no text")?;
        let side = if message.get("id").is_some() { "Request" } else { "Notification" };
        let Some(name) = self.of_method(method, side, "agent") else {
            bail!("{method} is no {side} a client may send");
        };
        self.check(&message["params"], &self.root["$defs"][&name], &name)
    }

    /// Checks a client's answer to a request of this method.
    pub fn check_client_answer(&self, method: &str, answer: &Value) -> Result<()> {
        if let Some(error) = answer.get("error") {
            return self.check(error, &self.root["$defs"]["Error"], "Error");
        }
        let Some(name) = self.of_method(method, "Response", "client") else {
            bail!("{method} is nothing a client answers");
        };
        self.check(answer.get("result").context("no result")?, &self.root["$defs"][&name], &name)
    }

    fn of_method(&self, method: &str, ending: &str, side: &str) -> Option<String> {
        let defs = self.root["$defs"].as_object()?;
        let fits = |(name, def): &(&String, &Value)| {
            let sided = ["both", "protocol"].contains(&def["x-side"].as_str().unwrap_or("both"));
            name.ends_with(ending) && def["x-method"] == method && (sided || def["x-side"] == side)
        };
        defs.iter().find(fits).map(|(name, _)| name.clone())
    }

    fn check(&self, value: &Value, schema: &Value, at: &str) -> Result<()> {
        let object = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(object) => object,
            _ => bail!("{at}: nothing may be here"),
        };
        for (keyword, rule) in object {
            if !TOLD.contains(&keyword.as_str()) {
                self.keyword(value, keyword, rule, object, at)?;
            }
        }
        Ok(())
    }

    fn keyword(
        &self,
        value: &Value,
        keyword: &str,
        rule: &Value,
        schema: &serde_json::Map<String, Value>,
        at: &str,
    ) -> Result<()> {
        let rules = || rule.as_array().map(Vec::as_slice).unwrap_or_default();
        let matching = || rules().iter().filter(|rule| self.check(value, rule, at).is_ok()).count();
        match keyword {
            "$ref" => {
                let name =
                    rule.as_str().and_then(|name| name.strip_prefix("#/$defs/")).context("a far $ref")?;
                self.check(value, &self.root["$defs"][name], &format!("{at}/{name}"))
            }
            "type" => {
                let names: Vec<&str> = match rule {
                    Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                    name => name.as_str().into_iter().collect(),
                };
                ensure!(names.iter().any(|name| is_type(value, name)), "{at}: {value} is no {names:?}");
                Ok(())
            }
            "const" => {
                ensure!(value == rule, "{at}: {value} is not {rule}");
                Ok(())
            }
            "enum" => {
                ensure!(rules().contains(value), "{at}: {value} is none of {rule}");
                Ok(())
            }
            "allOf" => rules().iter().try_for_each(|rule| self.check(value, rule, at)),
            "anyOf" => {
                ensure!(matching() > 0, "{at}: nothing fits {value}");
                Ok(())
            }
            "oneOf" => {
                ensure!(matching() == 1, "{at}: {} alternatives fit {value}", matching());
                Ok(())
            }
            "not" => {
                ensure!(self.check(value, rule, at).is_err(), "{at}: {value} must not be this");
                Ok(())
            }
            "required" | "properties" | "additionalProperties" | "items" => {
                self.members(value, keyword, rule, schema, at)
            }
            "minimum" | "maximum" | "minLength" => bound(value, keyword, rule, at),
            // Formats are numbers' sizes and URIs; unevaluated properties appear where everything may be added.
            "format" | "unevaluatedProperties" => Ok(()),
            other => bail!("{at}: the keyword {other} is not known here"),
        }
    }

    /// What an object or a list has in it.
    fn members(
        &self,
        value: &Value,
        keyword: &str,
        rule: &Value,
        schema: &serde_json::Map<String, Value>,
        at: &str,
    ) -> Result<()> {
        let rules = || rule.as_array().map(Vec::as_slice).unwrap_or_default();
        match keyword {
            "required" => {
                let missing = rules().iter().filter_map(Value::as_str).find(|name| value.get(name).is_none());
                ensure!(missing.is_none() || !value.is_object(), "{at}: {missing:?} is missing");
                Ok(())
            }
            "properties" => {
                let fields = rule.as_object().into_iter().flatten();
                fields
                    .filter_map(|(name, rule)| Some((name, rule, value.get(name)?)))
                    .try_for_each(|(name, rule, value)| self.check(value, rule, &format!("{at}.{name}")))
            }
            "additionalProperties" => {
                let known = |name: &String| {
                    schema
                        .get("properties")
                        .and_then(Value::as_object)
                        .is_some_and(|known| known.contains_key(name))
                };
                let others = value.as_object().into_iter().flatten().filter(|(name, _)| !known(name));
                others.map(|(_, value)| value).try_for_each(|value| self.check(value, rule, at))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.enumerate().try_for_each(|(n, item)| self.check(item, rule, &format!("{at}[{n}]")))
            }
            _ => Ok(()),
        }
    }
}

fn bound(value: &Value, keyword: &str, rule: &Value, at: &str) -> Result<()> {
    match keyword {
        "minimum" => {
            ensure!(value.as_f64() >= rule.as_f64() || !value.is_number(), "{at}: {value} < {rule}");
            Ok(())
        }
        "maximum" => {
            ensure!(value.as_f64() <= rule.as_f64() || !value.is_number(), "{at}: {value} > {rule}");
            Ok(())
        }
        "minLength" => {
            let long =
                value.as_str().is_none_or(|text| text.chars().count() as u64 >= rule.as_u64().unwrap_or(0));
            ensure!(long, "{at}: {value} is too short");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn good_messages_pass_and_bad_ones_are_found() -> Result<()> {
        let Some(path) = crate::tools::acp_schema()? else { return Ok(()) };
        let schema = Schema::read(&path)?;
        let update = |update: Value| {
            let params = json!({"sessionId": "s", "update": update});
            schema.check_message(&json!({"method": "session/update", "params": params}))
        };
        let text = json!({"type": "text", "text": "x"});
        update(json!({"sessionUpdate": "agent_message_chunk", "content": text}))?;
        assert!(update(json!({"sessionUpdate": "agent_message_chunk", "content": "x"})).is_err());
        assert!(update(json!({"sessionUpdate": "tool_call", "toolCallId": "c"})).is_err());
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "edit"});
        update(call.clone())?;
        let mut wrong = call;
        wrong["kind"] = "guess".into();
        assert!(update(wrong).is_err());
        assert!(schema.check_message(&json!({"method": "session/prompt", "id": 1, "params": {}})).is_err());
        schema
            .check_answer(Some("session/prompt"), &json!({"id": 1, "result": {"stopReason": "end_turn"}}))?;
        let wrong = json!({"id": 1, "result": {"stopReason": "tired"}});
        assert!(schema.check_answer(Some("session/prompt"), &wrong).is_err());
        let ask = json!({"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": []});
        schema.check_message(&json!({"method": "session/request_permission", "id": 1, "params": ask}))
    }
}
