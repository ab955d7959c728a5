"""Puts TLS before a server on this machine, for tests: tls_front.py CERTIFICATE KEY PORT; prints its own port."""

import asyncio
import ssl
import sys

certificate, key, port = sys.argv[1:4]


async def carry(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(reader, writer):
    behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", int(port))
    await asyncio.gather(carry(reader, behind_writer), carry(behind_reader, writer), return_exceptions=True)


async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
