//! Messages of the published interfaces, made from the descriptors: fields are given as `name=value`, or
//! `name.inner=value` inside a message. Knows no single interface.

use anyhow::{Context, Result, bail};
use prost::Message as _;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// Every message and method there is.
pub(super) struct Descriptors(FileDescriptorSet);

/// A method by its path, and the full name of what it takes.
pub(super) struct Method {
    pub(super) path: String,
    pub(super) input: String,
}

impl Descriptors {
    pub(super) fn read() -> Result<Descriptors> {
        Ok(Descriptors(FileDescriptorSet::decode(wire::DESCRIPTORS).context("the descriptors")?))
    }

    /// Every method, as `package.Service/Method`.
    pub(super) fn methods(&self) -> Vec<Method> {
        let mut all = Vec::new();
        for file in &self.0.file {
            for service in &file.service {
                all.extend(service.method.iter().map(|method| Method {
                    path: format!("{}.{}/{}", file.package(), service.name(), method.name()),
                    input: method.input_type().to_owned(),
                }));
            }
        }
        all
    }

    pub(super) fn method(&self, path: &str) -> Result<Method> {
        let found = self.methods().into_iter().find(|method| method.path == path);
        found.with_context(|| format!("there is no method {path}"))
    }

    fn message(&self, name: &str) -> Result<&DescriptorProto> {
        let fits =
            |package: &str, message: &DescriptorProto| name == format!(".{package}.{}", message.name());
        let mut all =
            self.0.file.iter().flat_map(|file| {
                file.message_type.iter().filter(move |message| fits(file.package(), message))
            });
        all.next().with_context(|| format!("there is no message {name}"))
    }

    /// Names of the fields that may name a session, and are texts.
    pub(super) fn session_fields(&self, message: &str) -> Vec<String> {
        let Ok(message) = self.message(message) else { return Vec::new() };
        let is_text = |field: &&prost_types::FieldDescriptorProto| {
            field.r#type() == Type::String
                && matches!(field.name(), "session_id" | "id" | "task_id" | "parent_session_id")
        };
        message.field.iter().filter(is_text).map(|field| field.name().to_owned()).collect()
    }

    /// Encodes a message from its fields.
    pub(super) fn encode(&self, message: &str, fields: &[&str]) -> Result<Vec<u8>> {
        let described = self.message(message)?;
        let mut out = Vec::new();
        let mut rest: Vec<(&str, Vec<String>)> = Vec::new();
        for field in fields {
            let (name, value) = field.split_once('=').with_context(|| format!("{field}: no value"))?;
            match name.split_once('.') {
                Some((outer, inner)) => {
                    let inner = format!("{inner}={value}");
                    match rest.iter_mut().find(|(known, _)| *known == outer) {
                        Some((_, inners)) => inners.push(inner),
                        None => rest.push((outer, vec![inner])),
                    }
                }
                None => self.put(described, name, value, &mut out)?,
            }
        }
        for (name, inners) in rest {
            let field = described.field.iter().find(|field| field.name() == name);
            let field = field.with_context(|| format!("{message} has no field {name}"))?;
            let inners: Vec<&str> = inners.iter().map(String::as_str).collect();
            let bytes = self.encode(field.type_name(), &inners)?;
            put_bytes(field.number(), &bytes, &mut out);
        }
        Ok(out)
    }

    fn put(&self, message: &DescriptorProto, name: &str, value: &str, out: &mut Vec<u8>) -> Result<()> {
        let field = message.field.iter().find(|field| field.name() == name);
        let field = field.with_context(|| format!("{} has no field {name}", message.name()))?;
        match field.r#type() {
            Type::String | Type::Bytes => put_bytes(field.number(), value.as_bytes(), out),
            Type::Bool => put_number(field.number(), u64::from(value == "true"), out),
            Type::Int32 | Type::Int64 | Type::Uint32 | Type::Uint64 | Type::Enum => {
                put_number(field.number(), value.parse()?, out);
            }
            other => bail!("{name}: {other:?} cannot be given"),
        }
        Ok(())
    }
}

fn put_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number as u8) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_number(field: i32, number: u64, out: &mut Vec<u8>) {
    put_varint((field as u64) << 3, out);
    put_varint(number, out);
}

fn put_bytes(field: i32, bytes: &[u8], out: &mut Vec<u8>) {
    put_varint((field as u64) << 3 | 2, out);
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
