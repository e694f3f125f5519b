"""Forwards a port. Usage: forward.py FROM TO, both HOST:PORT. Ends when it is killed."""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main(come_in, go_to):
    async def accept(reader, writer):
        try:
            to_reader, to_writer = await asyncio.open_connection(*go_to.rsplit(":", 1))
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer))

    host, port = come_in.rsplit(":", 1)
    server = await asyncio.start_server(accept, host, int(port))
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
