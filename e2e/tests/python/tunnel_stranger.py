"""A daemon that knows only the published frames, behind the relay, and a client that calls it.

Usage: tunnel_stranger.py ADDRESS CA TOKEN MACHINE FOLDER PUBLISHED_PROTO; FOLDER holds cert.pem, key.pem and ca.pem. Prints
one line per check and ends with code 1 at the first that fails.
"""

import os
import queue
import sys
import tempfile
import threading

import grpc

ADDRESS, CA, TOKEN, MACHINE, FOLDER, PUBLISHED = sys.argv[1:]
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


def read(name):
    with open(name, "rb") as file:
        return file.read()


def check(what, condition, seen=None):
    if not condition:
        print(f"FAILED {what}: {seen!r}")
        os._exit(1)
    print(f"ok     {what}", flush=True)


class Daemon:
    """Serves a few methods, with the published frames and nothing else."""

    def __init__(self):
        files = [read(os.path.join(FOLDER, name)) for name in ("ca.pem", "key.pem", "cert.pem")]
        self.channel = grpc.secure_channel(ADDRESS, grpc.ssl_channel_credentials(*files))
        self.tunnel = stubs.TunnelServiceStub(self.channel)
        self.out = queue.Queue()
        self.cancelled = threading.Event()
        self.hung = None

    def start(self):
        request = pb.RegisterRequest(machine_id="mach_other", machine_name="box", info=pb.MachineInfo(os="plan9"))
        refused = self.tunnel.Register(request, timeout=WAIT)
        check("an id that is not the certificate's is refused", not refused.accepted and refused.message, refused)
        request.machine_id = MACHINE
        answer = self.tunnel.Register(request, timeout=WAIT)
        check("a machine registers", answer.accepted and answer.heartbeat_interval_secs > 0, answer)
        self.frames = self.tunnel.OpenTunnel(iter(self.out.get, None))
        threading.Thread(target=self.serve, daemon=True).start()
        beat = self.tunnel.Heartbeat(pb.HeartbeatRequest(machine_id=MACHINE), timeout=WAIT)
        check("a heartbeat says that nothing waits", beat.buffered_messages == 0, beat)

    def send(self, id, **payload):
        self.out.put(pb.TunnelFrame(request_id=id, **payload))

    def serve(self):
        methods = {}
        for frame in self.frames:
            kind = frame.WhichOneof("payload")
            if kind == "heartbeat":
                continue
            id = frame.request_id
            if frame.method_name:
                methods[id] = (frame.service_name, frame.method_name)
            service, method = methods.get(id, ("", ""))
            if kind == "error" and frame.error.code == "CANCELLED" and id == self.hung:
                self.cancelled.set()
            elif method == "ListSessions":
                check("bare names are sent", service == "AgentService", service)
                pb.ListSessionsRequest.FromString(frame.grpc_request)
                self.send(id, grpc_response=pb.ListSessionsResponse(total=7).SerializeToString())
            elif method == "ResumeSession":
                asked = pb.ResumeSessionRequest.FromString(frame.grpc_request)
                if asked.session_id == "hang":
                    self.hung = id
                    self.send(id, stream=pb.StreamFrame(data=pb.AgentEvent(sequence=1).SerializeToString()))
                    continue
                for number in range(1, 101):
                    event = pb.AgentEvent(sequence=number, text_delta=pb.TextDelta(text="x" * 1000))
                    self.send(id, sequence=number, stream=pb.StreamFrame(data=event.SerializeToString()))
                self.send(id, sequence=101, stream=pb.StreamFrame(end_of_stream=True))
            elif method == "Converse" and kind == "stream":
                if frame.stream.data:
                    said = pb.AgentRequest.FromString(frame.stream.data)
                    event = pb.AgentEvent(text_delta=pb.TextDelta(text=said.message.content.upper()))
                    self.send(id, stream=pb.StreamFrame(data=event.SerializeToString()))
                if frame.stream.end_of_stream:
                    self.send(id, stream=pb.StreamFrame(end_of_stream=True))
            elif method == "CompactSession":
                self.send(id, error=pb.ErrorFrame(code="NOT_FOUND", message="no such session"))
            # What nobody asked for is ignored by the relay.
            self.send("nobody-1", grpc_response=b"")


daemon = Daemon()
daemon.start()
channel = grpc.secure_channel(ADDRESS, grpc.ssl_channel_credentials(read(CA)))
agents = stubs.AgentServiceStub(channel)
machines = stubs.MachineServiceStub(channel)
said = [("authorization", f"Bearer {TOKEN}"), ("x-machine-id", MACHINE)]

shown = machines.GetMachine(pb.GetMachineRequest(machine_id=MACHINE), metadata=said, timeout=WAIT)
check("the machine shows what it said", shown.resources.os == "plan9" and shown.name == "box", shown)
listed, call = agents.ListSessions.with_call(pb.ListSessionsRequest(), metadata=said, timeout=WAIT)
check("a unary call", listed.total == 7, listed)
check("the client is told that the relay could read it", ("obey-clear", "relay") in call.initial_metadata(), call.initial_metadata())
events = list(agents.ResumeSession(pb.ResumeSessionRequest(session_id="s"), metadata=said, timeout=WAIT))
check("a stream, whole and in order", [event.sequence for event in events] == list(range(1, 101)), len(events))
requests = [pb.AgentRequest(message=pb.UserMessage(content=word)) for word in ("one", "two")]
heard = [event.text_delta.text for event in agents.Converse(iter(requests), metadata=said, timeout=WAIT)]
check("a stream both ways", heard == ["ONE", "TWO"], heard)
try:
    agents.CompactSession(pb.CompactSessionRequest(session_id="x"), metadata=said, timeout=WAIT)
    check("an error", False)
except grpc.RpcError as error:
    check("an error", error.code() == grpc.StatusCode.NOT_FOUND and error.details() == "no such session", error)
stream = agents.ResumeSession(pb.ResumeSessionRequest(session_id="hang"), metadata=said, timeout=WAIT)
check("a stream that hangs begins", next(stream).sequence == 1)
stream.cancel()
check("its end is told", daemon.cancelled.wait(WAIT))
os._exit(0)
