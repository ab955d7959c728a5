"""Drives betcode.v1 from Python, as any stranger's client would: conversations over TCP and over the Unix socket.

Usage: betcode_v1.py TCP_ADDRESS SOCKET_ADDRESS PROJECT [PUBLISHED_PROTO] (an address may also be `relay={…}`), with the stubs compiled from proto/ on
PYTHONPATH. With the last argument the messages are compiled from the interface as it was published instead. Prints one
line per check and ends with code 1 at the first that fails. The last call shuts the daemon down.
"""

import json
import os
import queue
import sys
import tempfile
import threading

import grpc
from obey.local.v1 import daemon_pb2, daemon_pb2_grpc

PUBLISHED = sys.argv[4] if len(sys.argv) > 4 else None


def compile_published(path):
    import grpc_tools
    from grpc_tools import protoc

    out = tempfile.mkdtemp()
    known = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
    folder = os.path.dirname(path)
    code = protoc.main(["", f"-I{folder}", f"-I{known}", f"--python_out={out}", f"--grpc_python_out={out}", path])
    if code != 0:
        sys.exit(f"FAILED to compile {path}")
    sys.path.insert(0, out)


if PUBLISHED:
    compile_published(PUBLISHED)
    import betcode_v1_pb2 as pb
    import betcode_v1_pb2_grpc as agent_pb2_grpc
else:
    from betcode.v1 import agent_pb2 as pb
    from betcode.v1 import agent_pb2_grpc

# Bounds a hang; nothing here is judged by its speed.
WAIT = 30


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def script(key, *steps):
    return f"{key} SCRIPT: {json.dumps(steps)}"


def message(text):
    return pb.AgentRequest(message=pb.UserMessage(content=text))


def kind(event):
    return event.WhichOneof("event")


class Talk:
    """One conversation: a queue of what is said, and a thread that hears."""

    def __init__(self, agents, **start):
        self.said = queue.Queue()
        self.heard = queue.Queue()
        self.events = []
        self.say(pb.AgentRequest(start=pb.StartConversation(**start)))
        self.stream = agents.Converse(iter(self.said.get, None), timeout=WAIT)
        threading.Thread(target=self.hear, daemon=True).start()

    def hear(self):
        try:
            for event in self.stream:
                self.heard.put(event)
        except grpc.RpcError as error:
            self.heard.put(error)
        self.heard.put(None)

    def say(self, request):
        self.said.put(request)

    def hush(self):
        self.said.put(None)

    def next(self):
        event = self.heard.get(timeout=WAIT)
        if event is not None:
            self.events.append(event)
        return event

    def until(self, wanted):
        while True:
            event = self.next()
            if event is None or isinstance(event, grpc.RpcError):
                check(f"a {wanted}", False, self.events)
            if kind(event) == wanted:
                return event

    def turn(self):
        begin = len(self.events)
        end = self.until("turn_complete")
        return self.events[begin:], end.turn_complete.stop_reason


def text(events):
    return "".join(event.text_delta.text for event in events if kind(event) == "text_delta")


class Metadata(
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """Adds metadata to every call."""

    def __init__(self, *pairs):
        self.pairs = list(pairs)

    def add(self, details):
        return details._replace(metadata=list(details.metadata or ()) + self.pairs)

    def intercept_unary_unary(self, call, details, request):
        return call(self.add(details), request)

    intercept_unary_stream = intercept_unary_unary
    intercept_stream_unary = intercept_unary_unary
    intercept_stream_stream = intercept_unary_unary


def open_channel(address):
    """Opens a channel to an address, or through a relay: `relay={"address", "ca", "token", "machine"}`."""
    if not address.startswith("relay="):
        return grpc.insecure_channel(address)
    relay = json.loads(address.removeprefix("relay="))
    with open(relay["ca"], "rb") as file:
        channel = grpc.secure_channel(relay["address"], grpc.ssl_channel_credentials(file.read()))
    pairs = ("authorization", f"Bearer {relay['token']}"), ("x-machine-id", relay["machine"])
    return grpc.intercept_channel(channel, Metadata(*pairs))


def converse(name, address, project):
    channel = open_channel(address)
    agents = agent_pb2_grpc.AgentServiceStub(channel)
    talk = Talk(agents, working_directory=project, metadata={"provider": "scripted"}, allowed_tools=["Read"])
    first = talk.next()
    check(f"{name}: a start is answered at once", kind(first) == "session_info" and first.sequence == 0, first)
    session = first.session_info.session_id

    call = {"tool": "Bash", "input": {"command": "ls"}, "ask": True, "result": "README.md"}
    talk.say(message(script("ask", {"text": "let me look"}, call, {"text": " all done"})))
    asked = talk.until("permission_request").permission_request
    check(f"{name}: a permission carries the call", asked.input["command"] == "ls", asked)
    allow = pb.PermissionResponse(request_id=asked.request_id, decision=pb.ALLOW_ONCE)
    talk.say(pb.AgentRequest(permission=allow))
    events, reason = talk.turn()
    check(f"{name}: the turn ends", reason == "end_turn", reason)
    check(f"{name}: all text arrives", text(talk.events) == "let me look all done", text(talk.events))
    results = [event.tool_call_result for event in events if kind(event) == "tool_call_result"]
    check(f"{name}: the call's result arrives", results[0].output == "README.md" and not results[0].is_error)

    talk.say(message(script("hang", {"text": "hm"}, {"hang": True})))
    talk.until("text_delta")
    talk.say(pb.AgentRequest(cancel=pb.CancelRequest(reason="enough")))
    check(f"{name}: a turn is cancelled", talk.turn()[1] == "cancelled")
    talk.hush()
    while talk.next() is not None:
        pass

    numbers = [event.sequence for event in talk.events if event.sequence]
    check(f"{name}: numbers grow", numbers == sorted(set(numbers)), numbers)
    stored = list(agents.ResumeSession(pb.ResumeSessionRequest(session_id=session), timeout=WAIT))
    heard = [event for event in talk.events if event.sequence]
    check(f"{name}: what was heard is stored", as_heard(stored[: len(heard)]) == as_heard(heard))
    half = numbers[len(numbers) // 2]
    request = pb.ResumeSessionRequest(session_id=session, from_sequence=half)
    later = list(agents.ResumeSession(request, timeout=WAIT))
    check(f"{name}: a replay starts after a number", later[0].sequence > half)

    # A client that says everything at once and then only listens.
    requests = [
        pb.AgentRequest(start=pb.StartConversation(session_id=session)),
        message(script("again", {"text": "welcome back"})),
    ]
    events = list(agents.Converse(iter(requests), timeout=WAIT))
    check(f"{name}: an old session is taken up", events[0].session_info.is_resumed)
    if not PUBLISHED:
        prompts = [event.user_input.content for event in events if kind(event) == "user_input"]
        check(f"{name}: its prompts are replayed", len(prompts) == 3 and prompts[0].startswith("ask "), prompts)
    check(f"{name}: and it goes on", text(events).endswith("welcome back"), text(events))

    listed = agents.ListSessions(pb.ListSessionsRequest(working_directory=project), timeout=WAIT)
    found = [summary for summary in listed.sessions if summary.id == session]
    check(f"{name}: it is listed", len(found) == 1 and found[0].message_count == 6, listed)
    unknown = list(agents.Converse(iter([pb.AgentRequest(start=pb.StartConversation(session_id="x"))])))
    check(f"{name}: an error ends the stream well", unknown[-1].error.is_fatal, unknown)
    return channel


def as_heard(events):
    """Events without what a replay says of requests that were settled since."""
    for event in events:
        for kind, text in (("permission_request", "description"), ("user_question", "question")):
            if event.HasField(kind):
                request = getattr(event, kind)
                request.DiscardUnknownFields()
                setattr(request, text, getattr(request, text).split(" [settled: ")[0])
                if "settled" in request.DESCRIPTOR.fields_by_name:
                    request.ClearField("settled")
    return events


def main():
    tcp, socket, project = sys.argv[1:4]
    converse("tcp", tcp, project)
    channel = converse("socket", socket, project)
    local = daemon_pb2_grpc.LocalDaemonServiceStub(channel)
    local.Shutdown(daemon_pb2.ShutdownRequest(stop_sessions=True), timeout=WAIT)
    print("ok     the daemon was told to end")


main()
