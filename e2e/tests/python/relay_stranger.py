"""A relay that others wrote: the daemon dials it, and it calls the daemon through the tunnel.

Usage: relay_stranger.py MODE ADDRESS RELAY_FOLDER MACHINE PROTO PROJECT. RELAY_FOLDER holds the authority that the daemon
expects (ca.pem, authority.json). MODE `published`: PROTO is the interface as it was published, and nothing else is known. MODE
`delivering`: PROTO is our own folder of protobuf files, and calls are delivered twice. Prints one line per check and ends with
code 1 at the first that fails.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from concurrent import futures

import grpc

MODE, ADDRESS, FOLDER, MACHINE, PROTO, PROJECT = sys.argv[1:]
WAIT = 60


def compile_messages():
    import grpc_tools
    from grpc_tools import protoc

    out = tempfile.mkdtemp()
    known = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
    if MODE == "published":
        root, files = os.path.dirname(PROTO), [PROTO]
    else:
        root = PROTO
        files = [os.path.join(PROTO, name) for name in ("betcode/v1/tunnel.proto", "obey/v1/obey.proto", "obey/v1/access.proto")]
    code = protoc.main(["", f"-I{root}", f"-I{known}", f"--python_out={out}", f"--grpc_python_out={out}"] + files)
    if code != 0:
        sys.exit(f"FAILED to compile {files}")
    sys.path.insert(0, out)


compile_messages()
if MODE == "published":
    import betcode_v1_pb2 as pb
    import betcode_v1_pb2_grpc as stubs
else:
    from betcode.v1 import tunnel_pb2 as pb
    from betcode.v1 import tunnel_pb2_grpc as stubs
    from obey.v1 import obey_pb2 as own


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        os._exit(1)
    print(f"ok     {what}", flush=True)


def credentials():
    """A certificate for the listener, signed by the authority that the daemon pins."""
    place = tempfile.mkdtemp()
    path = lambda name: os.path.join(place, name)
    with open(path("ext"), "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")
    ca, ca_key = os.path.join(FOLDER, "ca.pem"), path("ca.key")
    with open(os.path.join(FOLDER, "authority.json")) as kept, open(ca_key, "w") as file:
        file.write(json.load(kept)["key_pem"])
    for words in (
        ["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", path("key"), "-out", path("csr"), "-subj", "/CN=a relay of others"],
        ["x509", "-req", "-in", path("csr"), "-CA", ca, "-CAkey", ca_key, "-set_serial", "7", "-days", "1", "-extfile", path("ext"), "-out", path("cert")],
    ):
        subprocess.run(["openssl"] + words, check=True, capture_output=True)
    read = lambda name: open(name, "rb").read()
    return grpc.ssl_server_credentials([(read(path("key")), read(path("cert")) + read(ca))], read(ca), True)


class Relay(stubs.TunnelServiceServicer):
    def __init__(self):
        self.registered = queue.Queue()
        self.opened = threading.Event()
        self.beaten = threading.Event()
        self.out = queue.Queue()
        self.calls = {}

    def Register(self, request, context):
        self.registered.put(request)
        return pb.RegisterResponse(accepted=True, heartbeat_interval_secs=1)

    def Heartbeat(self, request, context):
        if request.machine_id == MACHINE:
            self.beaten.set()
        return pb.HeartbeatResponse(buffered_messages=0)

    def OpenTunnel(self, frames, context):
        threading.Thread(target=self.take, args=(frames,), daemon=True).start()
        self.opened.set()
        yield from iter(self.out.get, None)

    def take(self, frames):
        try:
            for frame in frames:
                if frame.request_id in self.calls:
                    self.calls[frame.request_id].put(frame)
        except grpc.RpcError:
            pass

    def begin(self, id):
        self.calls[id] = queue.Queue()
        return self.calls[id]

    def send(self, id, **fields):
        self.out.put(pb.TunnelFrame(request_id=id, **fields))


relay = Relay()
server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
stubs.add_TunnelServiceServicer_to_server(relay, server)
check("the address is free", server.add_secure_port(ADDRESS, credentials()) != 0, ADDRESS)
server.start()
registered = relay.registered.get(timeout=WAIT)
check("our daemon registers", registered.machine_id == MACHINE and registered.info.cpu_cores > 0, registered)
check("it opens the tunnel", relay.opened.wait(WAIT))
check("it sends heartbeats", relay.beaten.wait(WAIT))


def published():
    answers = relay.begin("a-1")
    relay.send("a-1", sequence=1, service_name="AgentService", method_name="ListSessions", grpc_request=pb.ListSessionsRequest().SerializeToString())
    frame = answers.get(timeout=WAIT)
    check("a unary call", frame.WhichOneof("payload") == "grpc_response", frame)
    check("answers with its message", pb.ListSessionsResponse.FromString(frame.grpc_response).total == 0, frame)

    answers = relay.begin("a-2")
    relay.send("a-2", service_name="betcode.v1.MachineService", method_name="GetMachine", grpc_request=pb.GetMachineRequest(machine_id=MACHINE).SerializeToString())
    machine = pb.Machine.FromString(answers.get(timeout=WAIT).grpc_response)
    check("full names are taken, too", machine.id == MACHINE and machine.status == pb.ONLINE, machine)

    answers = relay.begin("a-3")
    relay.send("a-3", service_name="AgentService", method_name="NoSuchMethod", grpc_request=b"")
    frame = answers.get(timeout=WAIT)
    check("an unknown method is an error", frame.error.code == "UNIMPLEMENTED", frame)

    answers = relay.begin("a-4")
    start = pb.AgentRequest(start=pb.StartConversation(working_directory=PROJECT, metadata={"provider": "scripted"}))
    relay.send("a-4", service_name="AgentService", method_name="Converse", stream=pb.StreamFrame(data=start.SerializeToString()))
    frame = answers.get(timeout=WAIT)
    event = pb.AgentEvent.FromString(frame.stream.data)
    check("a stream both ways begins", event.WhichOneof("event") == "session_info", event)
    relay.send("a-4", stream=pb.StreamFrame(end_of_stream=True))
    while not (frame.stream.end_of_stream or frame.WhichOneof("payload") == "error"):
        frame = answers.get(timeout=WAIT)
    check("and ends", frame.stream.end_of_stream, frame)

    answers = relay.begin("a-5")
    relay.send("a-5", service_name="AgentService", method_name="ResumeSession", grpc_request=pb.ResumeSessionRequest(session_id="nobody").SerializeToString())
    frame = answers.get(timeout=WAIT)
    check("an error of a stream", frame.error.code in ("NOT_FOUND", "INVALID_ARGUMENT"), frame)
    relay.send("nobody", stream=pb.StreamFrame(data=b"x"))
    answers = relay.begin("a-6")
    relay.send("a-6", service_name="AgentService", method_name="ListSessions", grpc_request=b"")
    check("frames for nobody change nothing", answers.get(timeout=WAIT).WhichOneof("payload") == "grpc_response")


def deliver(id, delivery, name):
    """Sends a call as one that waited, and returns the trailers of its answer."""
    answers = relay.begin(id)
    fields = [pb.CallField(name="content-type", value=b"application/grpc")]
    head = pb.CallHead(verb="POST", path="/obey.v1.CampaignService/AddCampaign", fields=fields, user="ann", delivery_id=delivery)
    message = own.AddCampaignRequest(path=PROJECT, name=name).SerializeToString()
    relay.send(id, sequence=1, head=head)
    relay.send(id, sequence=2, stream=pb.StreamFrame(data=b"\0" + len(message).to_bytes(4, "big") + message))
    relay.send(id, sequence=3, stream=pb.StreamFrame(end_of_stream=True))
    found = {}
    while True:
        frame = answers.get(timeout=WAIT)
        kind = frame.WhichOneof("payload")
        if kind in ("head", "tail"):
            pairs = frame.head.fields if kind == "head" else frame.tail.trailers
            found.update({pair.name: pair.value.decode() for pair in pairs})
        if kind in ("tail", "error") or "grpc-status" in found:
            return found


def delivering():
    first = deliver("b-1", "one", "kept")
    check("a call that waited is executed", first.get("grpc-status") == "0", first)
    again = deliver("b-2", "one", "kept")
    check("and not a second time", again.get("obey-code") == "OBEY-1055", again)
    other = deliver("b-3", "two", "kept")
    check("another one is", other.get("obey-code") != "OBEY-1055", other)


{"published": published, "delivering": delivering}[MODE]()
os._exit(0)
