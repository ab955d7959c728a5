//! What is found, and what the answer is where nothing is.

use super::*;

fn lazy() -> Arc<LazyIndex> {
    Reflection::new(&[tonic_health::pb::FILE_DESCRIPTOR_SET]).0
}

fn ask(request: MessageRequest) -> MessageResponse {
    lazy().index().unwrap().response(Some(&request))
}

fn file_name(response: MessageResponse) -> String {
    let MessageResponse::FileDescriptorResponse(files) = response else { panic!("{response:?}") };
    FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap().name().to_owned()
}

fn code(response: MessageResponse) -> Code {
    let MessageResponse::ErrorResponse(error) = response else { panic!("{response:?}") };
    assert!(!error.error_message.is_empty());
    Code::from(error.error_code)
}

#[test]
fn every_kind_of_symbol_leads_to_its_file() {
    for symbol in [
        "grpc.health.v1.Health",
        "grpc.health.v1.Health.Check",
        "grpc.health.v1.HealthCheckResponse",
        "grpc.health.v1.HealthCheckResponse.status",
        "grpc.health.v1.HealthCheckResponse.ServingStatus",
        "grpc.health.v1.HealthCheckResponse.SERVING",
    ] {
        let found = file_name(ask(MessageRequest::FileContainingSymbol(symbol.to_owned())));
        assert!(found.contains("health"), "{symbol}: {found}");
        assert_eq!(file_name(ask(MessageRequest::FileByFilename(found.clone()))), found);
    }
}

#[test]
fn services_and_both_versions_of_reflection_are_listed() {
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())) else {
        panic!("no list")
    };
    let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"
        ]
    );
}

#[test]
fn what_is_unknown_is_an_error_inside_the_answer() {
    let unknown = ExtensionRequest { containing_type: "no.Type".to_owned(), extension_number: 1 };
    for request in [
        MessageRequest::FileContainingSymbol("no.Symbol".to_owned()),
        MessageRequest::FileContainingSymbol(String::new()),
        MessageRequest::FileByFilename("no.proto".to_owned()),
        MessageRequest::FileContainingExtension(unknown),
        MessageRequest::AllExtensionNumbersOfType("no.Type".to_owned()),
    ] {
        assert_eq!(code(ask(request.clone())), Code::NotFound, "{request:?}");
    }
    assert_eq!(code(lazy().index().unwrap().response(None)), Code::InvalidArgument);
}

#[test]
fn extensions_are_found_by_the_type_that_they_extend() {
    let extension = FieldDescriptorProto {
        name: Some("note".to_owned()),
        number: Some(50_001),
        extendee: Some(".google.protobuf.MethodOptions".to_owned()),
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("note.proto".to_owned()),
        package: Some("notes".to_owned()),
        extension: vec![extension],
        ..Default::default()
    };
    let set = prost_types::FileDescriptorSet { file: vec![file] }.encode_to_vec();
    let lazy = Reflection::new(&[Vec::leak(set)]).0;
    let index = lazy.index().unwrap();
    let wanted = ExtensionRequest {
        containing_type: "google.protobuf.MethodOptions".to_owned(),
        extension_number: 50_001,
    };
    assert_eq!(
        file_name(index.response(Some(&MessageRequest::FileContainingExtension(wanted)))),
        "note.proto"
    );
    let all = MessageRequest::AllExtensionNumbersOfType("google.protobuf.MethodOptions".to_owned());
    let MessageResponse::AllExtensionNumbersResponse(numbers) = index.response(Some(&all)) else {
        panic!("no numbers")
    };
    assert_eq!(numbers.extension_number, [50_001]);
    // A type that nothing extends has no numbers; that is no error.
    let none = MessageRequest::AllExtensionNumbersOfType("grpc.reflection.v1.ErrorResponse".to_owned());
    assert!(matches!(index.response(Some(&none)), MessageResponse::AllExtensionNumbersResponse(_)));
}
