"""Calls a daemon over TLS as devices of every role, and as those who must be refused.

Usage: devices_v1.py ADDRESS TLS_FOLDER OTHER_CA CERTIFICATES SESSION VIEWER OPERATOR OWNER, with the stubs compiled from
proto/ on PYTHONPATH. Prints one line per check and ends with code 1 at the first that fails.
"""

import json
import sys
import threading

import grpc
from obey.local.v1 import daemon_pb2 as pb
from obey.local.v1 import daemon_pb2_grpc
from obey.v1 import acp_pb2, acp_pb2_grpc

WAIT = 30
ADDRESS, TLS, OTHER_CA, CERTIFICATES, SESSION, *TOKENS = sys.argv[1:]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def outcome(call):
    """Makes a call to its end; returns its code, its OBEY code, and what it said."""
    try:
        answer = call()
        if hasattr(answer, "__next__"):
            list(answer)
        return grpc.StatusCode.OK, None, ""
    except grpc.RpcError as error:
        codes = [value for key, value in error.trailing_metadata() or () if key == "obey-code"]
        return error.code(), codes[0] if codes else None, error.details()


def calls(channel, metadata):
    """Reads, acts, administers."""
    stub = daemon_pb2_grpc.LocalDaemonServiceStub(channel)
    administer = channel.unary_unary("/obey.v1.DeviceService/ListDevices")
    prompt = pb.SendMessageRequest(session_id=SESSION, message='hello SCRIPT: [{"text": "hello"}]')
    return [
        lambda: stub.ListSessions(pb.ListSessionsRequest(), timeout=WAIT, metadata=metadata),
        lambda: stub.SendMessage(prompt, timeout=WAIT, metadata=metadata),
        lambda: administer(b"", timeout=WAIT, metadata=metadata),
    ]


def roles(who, channel, metadata, may):
    for what, call, allowed in zip(("reads", "acts", "administers"), calls(channel, metadata), may):
        code, obey, said = outcome(call)
        if allowed:
            check(f"{who} {what}", code == grpc.StatusCode.OK, (code, said))
        else:
            refused = code == grpc.StatusCode.PERMISSION_DENIED and obey == "OBEY-1002"
            check(f"{who} may not: {what}", refused, (code, obey, said))


trusting = grpc.ssl_channel_credentials(read(f"{TLS}/ca.pem"))
with grpc.secure_channel(ADDRESS, trusting) as channel:
    bearer = [[("authorization", f"Bearer {token}")] for token in TOKENS]
    roles("viewer", channel, bearer[0], [True, False, False])
    roles("operator", channel, bearer[1], [True, True, False])
    roles("owner", channel, bearer[2], [True, True, True])
    for what, metadata in (
        ("nobody", None),
        ("a wrong token", [("authorization", f"Bearer {TOKENS[2][:-1]}")]),
        ("two tokens", bearer[2] + bearer[1]),
    ):
        for call in calls(channel, metadata):
            code, obey, said = outcome(call)
            refused = code == grpc.StatusCode.UNAUTHENTICATED and obey == "OBEY-1002"
            check(f"{what} is not let in", refused, (code, obey, said))

def say(messages):
    for message in messages:
        yield message
    # The stream stays open until everything was answered.
    done.wait(WAIT)


def editor(channel, metadata):
    """An editor's connection: what an operator may do is answered, the rest refused; returns the answers by id."""
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"jsonrpc": "2.0", "id": 2, "method": "session/delete", "params": {"sessionId": SESSION}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    text += '{"jsonrpc":"2.0","id":3,"id":4,"method":"session/list"}\n'
    messages = [acp_pb2.AcpInput(open=acp_pb2.AcpOpen(provider="codex")), acp_pb2.AcpInput(lines=text.encode())]
    heard, answers = b"", {}
    for output in acp_pb2_grpc.AcpServiceStub(channel).Connect(say(messages), metadata=metadata, timeout=WAIT):
        heard += output.lines
        for line in heard.splitlines(keepends=True):
            if line.endswith(b"\n"):
                answer = json.loads(line)
                answers[answer.get("id")] = answer
        if len(answers) == 3:
            done.set()
            return answers


done = threading.Event()
with grpc.secure_channel(ADDRESS, trusting) as channel:
    answers = editor(channel, bearer[1])
    check("an operator's editor is served", "result" in answers[1], answers)
    check("but does not administer", answers[2]["error"]["data"]["code"] == "OBEY-1002", answers)
    check("and says nothing twice", answers[None]["error"]["code"] == -32600, answers)

certificate = grpc.ssl_channel_credentials(
    read(f"{TLS}/ca.pem"), read(f"{CERTIFICATES}/laptop.key"), read(f"{CERTIFICATES}/laptop.pem")
)
with grpc.secure_channel(ADDRESS, certificate) as channel:
    roles("a certificate", channel, None, [True, True, False])

with grpc.secure_channel(ADDRESS, grpc.ssl_channel_credentials(read(OTHER_CA))) as channel:
    code, _, said = outcome(calls(channel, bearer[2])[0])
    check("another authority is not trusted", code == grpc.StatusCode.UNAVAILABLE, (code, said))

with grpc.insecure_channel(ADDRESS) as channel:
    code, _, said = outcome(calls(channel, bearer[2])[0])
    check("plain text is not served", code == grpc.StatusCode.UNAVAILABLE, (code, said))
