"""Calls a machine through a relay that can read along, as a stranger's client would.

Usage: relay_v1.py ADDRESS CA TOKEN OTHER_TOKEN MACHINE SEALED_MACHINE PUBLISHED_PROTO. MACHINE serves calls in the clear,
SEALED_MACHINE does not. Prints one line per check and ends with code 1 at the first that fails.
"""

import os
import sys
import tempfile

import grpc

ADDRESS, CA, TOKEN, OTHER_TOKEN, MACHINE, SEALED, PUBLISHED = sys.argv[1:]
WAIT = 30


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


compile_published(PUBLISHED)
import betcode_v1_pb2 as pb
import betcode_v1_pb2_grpc as stubs


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        sys.exit(1)
    print(f"ok     {what}")


def outcome(call):
    try:
        return grpc.StatusCode.OK, call()
    except grpc.RpcError as error:
        return error.code(), error


def said(machine=None, token=TOKEN, **more):
    pairs = [("authorization", f"Bearer {token}")] if token else []
    if machine:
        pairs.append(("x-machine-id", machine))
    return pairs + list(more.items())


with open(CA, "rb") as file:
    channel = grpc.secure_channel(ADDRESS, grpc.ssl_channel_credentials(file.read()))
machines = stubs.MachineServiceStub(channel)
agents = stubs.AgentServiceStub(channel)
sessions = pb.ListSessionsRequest()


def list_sessions(metadata, **more):
    return outcome(lambda: agents.ListSessions(sessions, metadata=metadata, timeout=more.get("timeout", WAIT)))


found = machines.ListMachines(pb.ListMachinesRequest(), metadata=said(), timeout=WAIT).machines
check("both machines are listed and online", [one.status for one in found] == [pb.ONLINE] * 2, found)
check("with what they have", all(one.resources.cpu_cores > 0 and one.hostname for one in found), found)
code, _ = list_sessions(said(MACHINE))
check("a unary call goes through", code == grpc.StatusCode.OK, code)
code, _ = list_sessions(said(found[0].name if found[0].id == MACHINE else found[1].name))
check("also by the machine's name", code == grpc.StatusCode.OK, code)
code, error = list_sessions(said())
check("a call that names no machine is told so", code == grpc.StatusCode.INVALID_ARGUMENT, error)
code, unknown = list_sessions(said("mach_of_nobody"))
check("an unknown machine is not found", code == grpc.StatusCode.NOT_FOUND, unknown)
code, foreign = list_sessions(said(MACHINE, OTHER_TOKEN))
check("nor is one of somebody else", code == grpc.StatusCode.NOT_FOUND, foreign)
check("with the same words", unknown.details() == foreign.details(), (unknown, foreign))
check("who has no machine sees none", not machines.ListMachines(pb.ListMachinesRequest(), metadata=said(token=OTHER_TOKEN)).machines)
for name, token in (("without a token", None), ("with a wrong one", "obey-relay-0")):
    code, error = list_sessions(said(MACHINE, token))
    check(f"nobody calls {name}", code == grpc.StatusCode.UNAUTHENTICATED, error)

code, error = list_sessions(said(SEALED))
check("a machine that is sealed refuses", code == grpc.StatusCode.FAILED_PRECONDITION, error)
check("and says how to reach it", "obey connect" in error.details() and "OBEY-1052" in error.details(), error.details())
check("its code is in the trailers", ("obey-code", "OBEY-1052") in error.trailing_metadata(), error.trailing_metadata())
code, error = list_sessions(said(SEALED, **{"x-forwarded-user": "owner"}))
check("whatever a client claims", code == grpc.StatusCode.FAILED_PRECONDITION, error)

switch = pb.SwitchMachineRequest(machine_id=MACHINE)
first = machines.SwitchMachine(switch, metadata=said(**{"x-client-id": "a"}), timeout=WAIT)
check("a client chooses a machine", first.machine.id == MACHINE and not first.previous_machine_id, first)
code, _ = list_sessions(said(**{"x-client-id": "a"}))
check("and needs not name it from then on", code == grpc.StatusCode.OK, code)
code, _ = list_sessions(said(**{"x-client-id": "b"}))
check("another client does", code == grpc.StatusCode.INVALID_ARGUMENT, code)
again = machines.SwitchMachine(switch, metadata=said(**{"x-client-id": "a"}), timeout=WAIT)
check("the one before is told", again.previous_machine_id == MACHINE, again)

nothing = channel.unary_unary("/betcode.v1.AgentService/NoSuchMethod")
code, error = outcome(lambda: nothing(b"", metadata=said(MACHINE), timeout=WAIT))
check("the machine says what it does not serve", code == grpc.StatusCode.UNIMPLEMENTED, error)
shutdown = channel.unary_unary("/obey.local.v1.LocalDaemonService/Shutdown")
code, error = outcome(lambda: shutdown(b"", metadata=said(MACHINE), timeout=WAIT))
check("what must stay at home does", code == grpc.StatusCode.PERMISSION_DENIED, error)
check("whoever asks", "through a relay" in error.details(), error.details())

start = pb.AgentRequest(start=pb.StartConversation(session_id="x"))
events = list(agents.Converse(iter([start]), metadata=said(MACHINE), timeout=WAIT))
check("a stream ends as the machine ends it", events[-1].error.is_fatal, events)
large = pb.AgentRequest(message=pb.UserMessage(content="x" * (3 << 20)))
events = list(agents.Converse(iter([large]), metadata=said(MACHINE), timeout=WAIT))
check("three megabytes go through", events[-1].error.is_fatal, len(events))


def silence():
    import threading

    threading.Event().wait()
    yield start


stream = agents.Converse(silence(), metadata=said(MACHINE), timeout=0.3)
code, error = outcome(lambda: list(stream))
check("a deadline ends a stream", code == grpc.StatusCode.DEADLINE_EXCEEDED, error)
stream = agents.Converse(silence(), metadata=said(MACHINE), timeout=WAIT)
stream.cancel()
code, error = outcome(lambda: list(stream))
check("a client may cancel", code == grpc.StatusCode.CANCELLED, error)
futures = [agents.ListSessions.future(sessions, metadata=said(MACHINE), timeout=WAIT) for _ in range(200)]
check("two hundred calls at once are answered", all(future.result() is not None for future in futures))
packed = outcome(lambda: agents.ListSessions(sessions, metadata=said(MACHINE), timeout=WAIT, compression=grpc.Compression.Gzip))
check("a compressed call gets the machine's own answer", packed[0] in (grpc.StatusCode.OK, grpc.StatusCode.UNIMPLEMENTED), packed)
