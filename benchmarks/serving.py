"""The web service: the time to the first result, and fifty users at once.

python benchmarks/serving.py                     # prints JSON; some minutes on two cores
python benchmarks/serving.py --model FOLDER      # another model

`reagent serve` runs in its own process; this process simulates the users. Every user requests another target, and a job
counts only if its explanation is for that target. The queue is shorter than the number of users, so most requests are
first rejected with status 429 and repeated after the time of the Retry-After header.
"""

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import psutil
from prompts import DEMO

COMMAND = [sys.executable, "-m", "reagent"]
TIMEOUT = 900.0  # seconds that a user waits
LAST = ("done", "failed", "cancelled")


@contextmanager
def service(model: str, queue: int) -> Iterator[tuple[psutil.Process, str]]:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--model", model, "--port", "0", "--queue", str(queue), "--folder", folder, "--quiet"]
        process = subprocess.Popen([*COMMAND, "serve", *options], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield psutil.Process(process.pid), process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()


async def events(client: httpx.AsyncClient, name: str) -> AsyncIterator[tuple[str, Any]]:
    """Names and data of the events of a job, up to the last."""
    async with client.stream("GET", f"api/jobs/{name}/events") as stream:
        kind = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


async def time_to_first_result(address: str) -> dict[str, float]:
    """Seconds from the request to the first word, the first partial and the final result, without other users."""
    seconds: dict[str, float] = {}
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT) as client:
        begin = time.perf_counter()
        response = await client.post("api/jobs", json={"prompt": DEMO, "max_new_tokens": 1})
        async for kind, _ in events(client, response.json()["id"]):
            seconds.setdefault(kind, round(time.perf_counter() - begin, 2))
    return {"first word": seconds["token"], "first partial result": seconds["partial"], "final": seconds["done"]}


async def simulate_user(client: httpx.AsyncClient, number: int, probes: int) -> dict[str, Any]:
    """One user: requests, repeats if rejected, reads the events, and checks that the explanation is for its target."""
    target = f" place number {number}"
    begin, rejected, without_header, last = time.perf_counter(), 0, 0, ""
    while True:
        body = {"prompt": DEMO, "target": target, "probes": probes}
        response = await client.post("api/jobs", json=body)
        if response.status_code != 429:
            break
        rejected += 1
        without_header += "retry-after" not in response.headers
        await asyncio.sleep(int(response.headers.get("retry-after", 1)) * random.uniform(1, 1.5))
    name = response.json()["id"]
    async for kind, _ in events(client, name):
        last = kind
    saved = await client.get(f"api/explanations/{name}")
    correct = last == "done" and saved.json()["completion"] == target
    return {
        "correct": correct,
        "rejected": rejected,
        "without header": without_header,
        "seconds": time.perf_counter() - begin,
    }


async def simulate_users(address: str, users: int, probes: int) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=users, max_keepalive_connections=users)
    begin = time.perf_counter()
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT, limits=limits) as client:
        results = await asyncio.gather(*(simulate_user(client, number, probes) for number in range(users)))
    return {
        "jobs": users,
        "lost": sum(not user["correct"] for user in results),
        "answers 429": sum(user["rejected"] for user in results),
        "of them without Retry-After": sum(user["without header"] for user in results),
        "seconds for all": round(time.perf_counter() - begin, 1),
        "seconds for the last user": round(max(user["seconds"] for user in results), 1),
    }


def command_line(model: str) -> dict[str, float]:
    """Seconds of the same explanation by `reagent explain`: in total, and without loading the model."""
    with tempfile.TemporaryDirectory() as folder:
        file, begin = Path(folder) / "why.json", time.perf_counter()
        words = ["explain", DEMO, "--max-new-tokens", "1", "--model", model, "--json", str(file), "--quiet"]
        subprocess.run([*COMMAND, *words], check=True)
        seconds = round(time.perf_counter() - begin, 2)
        return {"in all": seconds, "without loading": round(json.loads(file.read_text("utf-8"))["cost"]["seconds"], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queue", type=int, default=16)
    parser.add_argument("--probes", type=int, default=32)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the service is stopped too
    with service(arguments.model, arguments.queue) as (process, address):
        alone = [asyncio.run(time_to_first_result(address)) for _ in range(3)]
        memory, rounds = [process.memory_info().rss], []
        for _ in range(arguments.rounds):
            rounds.append(asyncio.run(simulate_users(address, arguments.users, arguments.probes)))
            memory.append(process.memory_info().rss)
    print(
        json.dumps(
            {
                "model": arguments.model,
                "alone, seconds": alone,
                "command line, seconds": command_line(arguments.model),
                "users at once": arguments.users,
                "queue length": arguments.queue,
                "rounds": rounds,
                "memory in MB, before and after each round": [round(size / 1e6) for size in memory],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
