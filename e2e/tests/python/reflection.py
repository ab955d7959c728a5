"""Asks a server what it serves, several times on one stream, and for things that are not there in between.

Usage: reflection.py ADDRESS CA SYMBOL. ADDRESS is host:port or unix:PATH; CA is a file, or empty for a connection in the
clear. SYMBOL is a service that the server has. Prints one line per check and ends with code 1 at the first that fails.
"""

import queue
import sys

import grpc
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2 as pb

ADDRESS, CA, SYMBOL = sys.argv[1:]
WAIT = 30


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def connect():
    if not CA:
        return grpc.insecure_channel(ADDRESS)
    with open(CA, "rb") as file:
        return grpc.secure_channel(ADDRESS, grpc.ssl_channel_credentials(file.read()))


class Asking:
    """One stream: a question, its answer, the next question."""

    def __init__(self, channel, version):
        # The messages of both versions are the same.
        call = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=pb.ServerReflectionRequest.SerializeToString,
            response_deserializer=pb.ServerReflectionResponse.FromString,
        )
        self.questions = queue.Queue()
        self.answers = call(iter(self.questions.get, None), timeout=WAIT)

    def ask(self, **question):
        request = pb.ServerReflectionRequest(host="here", **question)
        self.questions.put(request)
        answer = next(self.answers)
        check(f"the answer repeats its request {question}", answer.original_request == request, answer)
        return answer

    def end(self):
        self.questions.put(None)
        rest = list(self.answers)
        check("the stream ends when its client is done", not rest and self.answers.code() == grpc.StatusCode.OK, rest)


def missing(answer):
    code = answer.error_response.error_code
    return answer.WhichOneof("message_response") == "error_response" and code == grpc.StatusCode.NOT_FOUND.value[0]


def described(answer):
    file = descriptor_pb2.FileDescriptorProto()
    file.ParseFromString(answer.file_descriptor_response.file_descriptor_proto[0])
    return file


def walk(channel, version):
    stream = Asking(channel, version)
    listed = [service.name for service in stream.ask(list_services="").list_services_response.service]
    check(f"{version} lists the service", SYMBOL in listed, listed)
    for other in ("v1", "v1alpha"):
        check(f"{version} lists {other}", f"grpc.reflection.{other}.ServerReflection" in listed, listed)
    check("no service twice", len(listed) == len(set(listed)), listed)
    answer = stream.ask(file_containing_symbol="no.such.Symbol")
    check("an unknown symbol is NOT_FOUND inside the stream", missing(answer), answer)
    file = described(stream.ask(file_containing_symbol=SYMBOL))
    names = [f"{file.package}.{service.name}" for service in file.service]
    check("the stream goes on", SYMBOL in names, names)
    check("an unknown file", missing(stream.ask(file_by_filename="no/such.proto")))
    again = described(stream.ask(file_by_filename=file.name))
    check("a file by its name", again == file, again.name)
    extension = pb.ExtensionRequest(containing_type="no.such.Type", extension_number=7)
    check("an unknown extension", missing(stream.ask(file_containing_extension=extension)))
    numbers = stream.ask(all_extension_numbers_of_type="google.protobuf.MethodOptions")
    numbers = numbers.all_extension_numbers_response.extension_number
    check("extensions of a known type", len(numbers) > 0, numbers)
    extension = pb.ExtensionRequest(
        containing_type="google.protobuf.MethodOptions", extension_number=numbers[0]
    )
    file = described(stream.ask(file_containing_extension=extension))
    check("the file of an extension", len(file.extension) > 0, file.name)
    answer = stream.ask()
    check("an empty request is refused inside the stream", answer.HasField("error_response"), answer)
    check("and the stream goes on", stream.ask(list_services="").HasField("list_services_response"))
    stream.end()


def shut_down(channel):
    """The test of a daemon ends with it."""
    from obey.local.v1 import daemon_pb2, daemon_pb2_grpc

    daemon_pb2_grpc.LocalDaemonServiceStub(channel).Shutdown(daemon_pb2.ShutdownRequest(), timeout=WAIT)


with connect() as channel:
    walk(channel, "v1")
    walk(channel, "v1alpha")
    if not CA:
        shut_down(channel)
