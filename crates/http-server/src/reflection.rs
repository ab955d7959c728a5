//! gRPC reflection (`grpc.reflection.v1` and `v1alpha`) over descriptor sets that the caller gives. What is not known is
//! answered with an `ErrorResponse` inside the stream, as the protocol demands, and the stream goes on; the library's own
//! service ends it. Knows no service of ours.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use bytes::Bytes;
use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::server_reflection_server::{ServerReflection, ServerReflectionServer};
use tonic_reflection::pb::v1::{
    ErrorResponse, ExtensionNumberResponse, ExtensionRequest, FileDescriptorResponse, ListServiceResponse,
    ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use tonic_reflection::pb::{v1, v1alpha};

/// The published path of the method in `v1`.
const V1_PATH: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// The reflection service of `v1`.
pub type ReflectionV1 = ServerReflectionServer<Reflection>;

/// Answers for the descriptors it was made of. They are read with the first question: most servers are never asked, and reading
/// them is a good part of a start.
#[derive(Clone)]
pub struct Reflection(Arc<LazyIndex>);

struct LazyIndex {
    sets: Vec<&'static [u8]>,
    index: OnceLock<Result<DescriptorIndex, prost::DecodeError>>,
}

impl Reflection {
    /// Creates the service from encoded descriptor sets; reflection itself is described too.
    pub fn new(sets: &[&'static [u8]]) -> Self {
        let own = [v1::FILE_DESCRIPTOR_SET, v1alpha::FILE_DESCRIPTOR_SET];
        let sets = sets.iter().copied().chain(own).collect();
        Self(Arc::new(LazyIndex { sets, index: OnceLock::new() }))
    }

    /// Returns the services of both versions.
    pub fn services(self) -> (ReflectionV1, ReflectionV1Alpha) {
        let v1 = ServerReflectionServer::new(self);
        (v1.clone(), ReflectionV1Alpha(v1))
    }
}

#[tonic::async_trait]
impl ServerReflection for Reflection {
    type ServerReflectionInfoStream =
        Pin<Box<dyn Stream<Item = Result<ServerReflectionResponse, Status>> + Send>>;

    async fn server_reflection_info(
        &self,
        request: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let lazy = Arc::clone(&self.0);
        let answers = request.into_inner().map(move |request| {
            let request = request?;
            let index =
                lazy.index().map_err(|error| Status::internal(format!("the descriptors: {error}")))?;
            Ok(index.respond(request))
        });
        Ok(Response::new(Box::pin(answers)))
    }
}

/// The reflection service of `v1alpha`. Its messages have the names and numbers of `v1`, so that the same service answers at
/// another path.
#[derive(Clone)]
pub struct ReflectionV1Alpha(ReflectionV1);

impl NamedService for ReflectionV1Alpha {
    const NAME: &'static str = "grpc.reflection.v1alpha.ServerReflection";
}

impl Service<http::Request<Body>> for ReflectionV1Alpha {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = <ReflectionV1 as Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<http::Request<Body>>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if request.uri().path().ends_with("/ServerReflectionInfo") {
            *request.uri_mut() = http::Uri::from_static(V1_PATH);
        }
        self.0.call(request)
    }
}

impl LazyIndex {
    fn index(&self) -> Result<&DescriptorIndex, &prost::DecodeError> {
        self.index.get_or_init(|| DescriptorIndex::of(&self.sets)).as_ref()
    }
}

/// A descriptor set whose files stay encoded: decoding them would lose options that are extensions.
#[derive(Clone, PartialEq, Message)]
struct EncodedFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// Which file describes what.
#[derive(Default)]
struct DescriptorIndex {
    services: Vec<String>,
    files: HashMap<String, Bytes>,
    symbols: HashMap<String, Bytes>,
    /// By the message that is extended, then by number.
    extensions: HashMap<String, BTreeMap<i32, Bytes>>,
}

impl DescriptorIndex {
    fn of(sets: &[&'static [u8]]) -> Result<Self, prost::DecodeError> {
        let mut index = Self::default();
        for set in sets {
            for file in EncodedFiles::decode(Bytes::from_static(set))?.file {
                index.add(file)?;
            }
        }
        Ok(index)
    }

    /// Adds an encoded file; of two with one name the first counts.
    fn add(&mut self, encoded: Bytes) -> Result<(), prost::DecodeError> {
        let file = FileDescriptorProto::decode(encoded.clone())?;
        if self.files.contains_key(file.name()) {
            return Ok(());
        }
        self.files.insert(file.name().to_owned(), encoded.clone());
        let package = file.package();
        for message in &file.message_type {
            self.add_message(package, message, &encoded);
        }
        for values in &file.enum_type {
            self.add_enum(package, values, &encoded);
        }
        for extension in &file.extension {
            self.add_extension(package, extension, &encoded);
        }
        for service in &file.service {
            let name = qualified(package, service.name());
            for method in &service.method {
                self.symbols.insert(qualified(&name, method.name()), encoded.clone());
            }
            self.symbols.insert(name.clone(), encoded.clone());
            self.services.push(name);
        }
        Ok(())
    }

    fn add_message(&mut self, scope: &str, message: &DescriptorProto, file: &Bytes) {
        let name = qualified(scope, message.name());
        let fields = message.field.iter().map(|field| field.name());
        let members = fields.chain(message.oneof_decl.iter().map(|oneof| oneof.name()));
        for member in members {
            self.symbols.insert(qualified(&name, member), file.clone());
        }
        for nested in &message.nested_type {
            self.add_message(&name, nested, file);
        }
        for values in &message.enum_type {
            self.add_enum(&name, values, file);
        }
        for extension in &message.extension {
            self.add_extension(&name, extension, file);
        }
        self.symbols.insert(name, file.clone());
    }

    fn add_enum(&mut self, scope: &str, values: &EnumDescriptorProto, file: &Bytes) {
        let name = qualified(scope, values.name());
        for value in &values.value {
            // The language puts values beside their enum; the library that many servers use puts them inside.
            self.symbols.insert(qualified(scope, value.name()), file.clone());
            self.symbols.insert(qualified(&name, value.name()), file.clone());
        }
        self.symbols.insert(name, file.clone());
    }

    fn add_extension(&mut self, scope: &str, extension: &FieldDescriptorProto, file: &Bytes) {
        self.symbols.insert(qualified(scope, extension.name()), file.clone());
        let extended = extension.extendee().trim_start_matches('.').to_owned();
        self.extensions.entry(extended).or_default().insert(extension.number(), file.clone());
    }

    fn respond(&self, request: ServerReflectionRequest) -> ServerReflectionResponse {
        let response = self.response(request.message_request.as_ref());
        ServerReflectionResponse {
            valid_host: request.host.clone(),
            original_request: Some(request),
            message_response: Some(response),
        }
    }

    fn response(&self, request: Option<&MessageRequest>) -> MessageResponse {
        match request {
            None => error(Code::InvalidArgument, "the request names nothing that it asks for".to_owned()),
            Some(MessageRequest::FileByFilename(name)) => {
                file(self.files.get(name), || format!("file {name:?}"))
            }
            Some(MessageRequest::FileContainingSymbol(name)) => {
                file(self.symbols.get(name), || format!("symbol {name:?}"))
            }
            Some(MessageRequest::FileContainingExtension(wanted)) => {
                let ExtensionRequest { containing_type, extension_number } = wanted;
                let found = self.extensions.get(containing_type);
                let found = found.and_then(|numbers| numbers.get(extension_number));
                file(found, || format!("extension {extension_number} of {containing_type:?}"))
            }
            Some(MessageRequest::AllExtensionNumbersOfType(name)) => self.extension_numbers(name),
            Some(MessageRequest::ListServices(_)) => {
                let service = |name: &String| ServiceResponse { name: name.clone() };
                let service = self.services.iter().map(service).collect();
                MessageResponse::ListServicesResponse(ListServiceResponse { service })
            }
        }
    }

    /// A message without extensions has none; only what is unknown is an error.
    fn extension_numbers(&self, name: &str) -> MessageResponse {
        let numbers = self.extensions.get(name);
        if numbers.is_none() && !self.symbols.contains_key(name) {
            return not_found(&format!("type {name:?}"));
        }
        MessageResponse::AllExtensionNumbersResponse(ExtensionNumberResponse {
            base_type_name: name.to_owned(),
            extension_number: numbers.map(|numbers| numbers.keys().copied().collect()).unwrap_or_default(),
        })
    }
}

fn qualified(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

fn file(found: Option<&Bytes>, what: impl FnOnce() -> String) -> MessageResponse {
    let Some(encoded) = found else { return not_found(&what()) };
    MessageResponse::FileDescriptorResponse(FileDescriptorResponse {
        file_descriptor_proto: vec![encoded.to_vec()],
    })
}

fn not_found(what: &str) -> MessageResponse {
    error(Code::NotFound, format!("{what} is not known"))
}

fn error(code: Code, error_message: String) -> MessageResponse {
    MessageResponse::ErrorResponse(ErrorResponse { error_code: code.into(), error_message })
}

#[cfg(test)]
mod tests;
