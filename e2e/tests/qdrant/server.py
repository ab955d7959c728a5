"""A server that speaks Qdrant's published gRPC contract, for tests: server.py PORT CALLS [options].

Messages, services and conversions are those that PyPI's qdrant-client carries (generated from the published .proto
files); collections, filters and scores are its local mode's. Only what joins them is written here. Every call is
appended to the file CALLS as a line of JSON; the port is printed when the server listens.
"""

import argparse
import json
import sys
import warnings
from concurrent import futures

import grpc as rpc
from qdrant_client import QdrantClient, grpc, models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc
from qdrant_client.grpc import collections_service_pb2_grpc as collections
from qdrant_client.grpc import points_service_pb2_grpc as points
from qdrant_client.grpc import qdrant_pb2_grpc as root

warnings.filterwarnings("ignore", message="Payload indexes have no effect")

arguments = argparse.ArgumentParser()
arguments.add_argument("port", type=int)
arguments.add_argument("calls")
arguments.add_argument("--folder", help="keep collections there; otherwise they end with the server")
arguments.add_argument("--key", help="the key that callers must send")
arguments.add_argument("--collection", help="a collection NAME:WIDTH that somebody made before")
options = arguments.parse_args()

if options.folder:
    local = QdrantClient(path=options.folder, force_disable_check_same_thread=True)
else:
    local = QdrantClient(":memory:")
if options.collection:
    name, width = options.collection.rsplit(":", 1)
    local.create_collection(name, models.VectorParams(size=int(width), distance=models.Distance.COSINE))
calls = open(options.calls, "a", buffering=1)


def done():
    result = grpc.UpdateResult(operation_id=0, status=grpc.UpdateStatus.Completed)
    return grpc.PointsOperationResponse(result=result)


def answered(name, handler):
    """Notes a call, turns the local mode's complaints into the statuses that the server has for them."""

    def call(self, request, context):
        note = {"call": name, "collection": getattr(request, "collection_name", "")}
        calls.write(json.dumps(note) + "\n")
        try:
            return handler(self, request, context)
        except ValueError as error:
            said = str(error)
            if "not found" in said:
                context.abort(rpc.StatusCode.NOT_FOUND, said)
            context.abort(rpc.StatusCode.INVALID_ARGUMENT, said)

    return call


def served(servicer):
    for name, handler in list(vars(servicer).items()):
        if not name.startswith("_"):
            setattr(servicer, name, answered(name, handler))
    return servicer


@served
class Root(root.QdrantServicer):
    def HealthCheck(self, request, context):
        return grpc.HealthCheckReply(title="local mode of qdrant-client", version="1.20.0")


@served
class Collections(collections.CollectionsServicer):
    def Get(self, request, context):
        info = local.get_collection(request.collection_name)
        return grpc.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))

    def List(self, request, context):
        found = local.get_collections().collections
        described = [grpc.CollectionDescription(name=one.name) for one in found]
        return grpc.ListCollectionsResponse(collections=described)

    def Create(self, request, context):
        made = local.create_collection(
            request.collection_name, GrpcToRest.convert_vectors_config(request.vectors_config)
        )
        return grpc.CollectionOperationResponse(result=made)

    def Delete(self, request, context):
        return grpc.CollectionOperationResponse(result=local.delete_collection(request.collection_name))


def filter_of(request):
    return GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None


def width_of(name):
    return local.get_collection(name).config.params.vectors.size


@served
class Points(points.PointsServicer):
    def Upsert(self, request, context):
        new = [GrpcToRest.convert_point_struct(point) for point in request.points]
        width = width_of(request.collection_name)
        for point in new:
            # The local mode fails on this too, without words.
            if len(point.vector) != width:
                raise ValueError(f"Wrong input: Vector dimension error: expected dim: {width}, got {len(point.vector)}")
        local.upsert(request.collection_name, new)
        return done()

    def Delete(self, request, context):
        local.delete(request.collection_name, GrpcToRest.convert_points_selector(request.points))
        return done()

    def CreateFieldIndex(self, request, context):
        # The local mode knows no indexes, which change nothing but time.
        local.get_collection(request.collection_name)
        return done()

    def Count(self, request, context):
        found = local.count(request.collection_name, filter_of(request), exact=True)
        return grpc.CountResponse(result=grpc.CountResult(count=found.count))

    def Scroll(self, request, context):
        found, following = local.scroll(
            request.collection_name,
            scroll_filter=filter_of(request),
            limit=request.limit or 10,
            offset=GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
            with_payload=GrpcToRest.convert_with_payload_interface(request.with_payload),
        )
        answer = grpc.ScrollResponse(result=[RestToGrpc.convert_record(point) for point in found])
        if following is not None:
            answer.next_page_offset.CopyFrom(RestToGrpc.convert_extended_point_id(following))
        return answer

    def Query(self, request, context):
        wanted = GrpcToRest.convert_query_points(request)
        found = local.query_points(
            request.collection_name,
            query=wanted.query,
            query_filter=wanted.filter,
            limit=wanted.limit or 10,
            score_threshold=wanted.score_threshold,
            with_payload=wanted.with_payload,
        )
        return grpc.QueryResponse(result=[RestToGrpc.convert_scored_point(point) for point in found.points])


class Keys(rpc.ServerInterceptor):
    """Refuses callers without the key, as the server does; anybody may ask how it is."""

    def __init__(self):
        def refuse(request, context):
            context.abort(rpc.StatusCode.UNAUTHENTICATED, "Invalid API key or JWT")

        self.refusal = rpc.unary_unary_rpc_method_handler(refuse)

    def intercept_service(self, continuation, details):
        sent = dict(details.invocation_metadata).get("api-key")
        if options.key and sent != options.key and not details.method.endswith("/HealthCheck"):
            return self.refusal
        return continuation(details)


# One at a time: the local mode is not made for several.
server = rpc.server(futures.ThreadPoolExecutor(max_workers=1), interceptors=[Keys()])
root.add_QdrantServicer_to_server(Root(), server)
collections.add_CollectionsServicer_to_server(Collections(), server)
points.add_PointsServicer_to_server(Points(), server)
port = server.add_insecure_port(f"127.0.0.1:{options.port}")
server.start()
print(port, flush=True)
# Whoever started the server holds its input open; the end of that is the end of the server.
sys.stdin.read()
server.stop(None).wait()
local.close()
