"""How many questions a second the judges' client asks, against a stub that answers after 200 ms, 64 in flight.

    python tests/benches/judge_client.py

Ours claims, asks, stores on disk and parses; what it is held against only sends and reads: httpx with its own
transport, and aiohttp. 64 in flight can be answered 320 times a second; ours must reach 90% of that.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import harness
from harness import KILOBYTE, Contestant, Goal

HERE = Path(__file__).resolve().parent
IN_FLIGHT = 64
LATENCY_S = 0.2
SYSTEM = "Say how well the predicted label describes what the human label says. " * 60
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer local"}


def body(number: int) -> dict[str, object]:
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"PREDICTED: pick up cup {number}"}]
    return {"model": "stub", "messages": messages, "temperature": 0, "seed": 1}


async def stub() -> None:
    """Answers every POST after ``LATENCY_S``; prints its port."""
    choice = {"finish_reason": "stop", "message": {"content": '{"score": 88, "equivalent": true}'}}
    usage = {"prompt_tokens": 900, "completion_tokens": 20}
    reply = json.dumps({"choices": [choice], "usage": usage}).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n\r\n".encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                fields = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(fields.partition(b"content-length:")[2].partition(b"\r\n")[0]))
                await asyncio.sleep(LATENCY_S)
                writer.write(head + reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def ours(url: str, count: int) -> int:
    from mabpl.judges.client import ask
    from mabpl.judges.endpoint import Endpoint
    from mabpl.judges.store import Store
    from mabpl.judges.types import Question, Request, fingerprint

    questions = []
    for number in range(count):
        sent = body(number)
        request = Request(fingerprint(number), "pa", f"pick up cup {number}", "pick up the cup")
        questions.append(Question(fingerprint(sent), request, "stub", "self-hosted", 1, sent))
    with tempfile.TemporaryDirectory() as folder, Store.open(folder) as store:
        outcome = ask(questions, Endpoint(url, "local"), store, concurrency=IN_FLIGHT)
        assert store.spent()[0] == outcome.billed
        return len(store.known(question.key for question in questions))


def by_httpx(url: str, count: int) -> int:
    import httpx

    async def run() -> int:
        async with httpx.AsyncClient(headers=HEADERS, timeout=60, limits=httpx.Limits(max_connections=None)) as client:

            async def send(number: int) -> bytes:
                return (await client.post(f"{url}/chat/completions", content=json.dumps(body(number)))).content

            return await in_flight(send, count)

    return asyncio.run(run())


def by_aiohttp(url: str, count: int) -> int:
    import aiohttp

    async def run() -> int:
        async with aiohttp.ClientSession(headers=HEADERS) as client:

            async def send(number: int) -> bytes:
                async with client.post(f"{url}/chat/completions", data=json.dumps(body(number))) as response:
                    return await response.read()

            return await in_flight(send, count)

    return asyncio.run(run())


async def in_flight(send: Callable[[int], Awaitable[bytes]], count: int) -> int:
    numbers = iter(range(count))

    async def work() -> int:
        return sum([json.loads(await send(number))["usage"]["completion_tokens"] == 20 for number in numbers])

    return sum(await asyncio.gather(*[work() for _ in range(IN_FLIGHT)]))


CONTESTANTS: dict[str, Callable[[str, int], int]] = {"ours": ours, "httpx": by_httpx, "aiohttp": by_aiohttp}


def contestant(name: str, count: int) -> None:
    with subprocess.Popen([sys.executable, __file__, "--stub"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        try:
            CONTESTANTS[name](url, IN_FLIGHT)  # imports
            wall, cpu = time.perf_counter(), time.process_time()
            answers = CONTESTANTS[name](url, count)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        finally:
            server.terminate()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KILOBYTE / 1e6
    print(json.dumps({"wall_s": [wall], "cpu_s": [cpu], "peak_mb": peak_mb, "checks": {"answers": answers}}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "judge_client.json", help="where the figures go")
    parser.add_argument("--stub", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stub:
        asyncio.run(stub())
    elif given.contestant:
        contestant(given.contestant, given.requests)
    else:
        command = (sys.executable, __file__, "--requests", str(given.requests), "--contestant")
        racers = [Contestant(name, (*command, name), reports=True) for name in CONTESTANTS]
        results = harness.race(racers, given.rounds)
        goals = [
            Goal(f"{name}, requests a second", given.requests / result.wall, at_least=288 if name == "ours" else None)
            for name, result in results.items()
        ]
        goals += [
            Goal(f"{name}, ms of CPU a request", result.row(name)["cpu_s"] * 1e3 / given.requests)
            for name, result in results.items()
        ]
        harness.conclude("judge_client", {"requests": given.requests}, results, goals, given.out)


if __name__ == "__main__":
    main()
