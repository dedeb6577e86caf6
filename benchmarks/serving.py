"""The page's service: how soon there is something to see, and fifty people at once.

python benchmarks/serving.py                     # prints JSON; some minutes on two cores
python benchmarks/serving.py --model FOLDER      # another model

`reagent serve` runs as a process of its own; this one is its visitors. Every visitor asks about another target, and
a job counts only when its explanation is the one that was asked for. The queue is shorter than the row of visitors,
so most are sent away at first and come again when they were told to.
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
PATIENCE = 900.0  # seconds that a visitor waits
LAST = ("done", "failed", "cancelled")


@contextmanager
def service(model: str, queue: int) -> Iterator[tuple[psutil.Process, str]]:
    with tempfile.TemporaryDirectory() as folder:
        words = ["--model", model, "--port", "0", "--queue", str(queue), "--folder", folder, "--quiet"]
        process = subprocess.Popen([*COMMAND, "serve", *words], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield psutil.Process(process.pid), process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait()


async def events(client: httpx.AsyncClient, name: str) -> AsyncIterator[tuple[str, Any]]:
    """Names and data of a job's events, up to the last."""
    async with client.stream("GET", f"api/jobs/{name}/events") as stream:
        kind = ""
        async for line in stream.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))


async def first_look(address: str) -> dict[str, float]:
    """Seconds from the click to the first word, the first picture and the last, alone at the service."""
    seconds: dict[str, float] = {}
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        begin = time.perf_counter()
        asked = await client.post("api/jobs", json={"prompt": DEMO, "max_new_tokens": 1})
        async for kind, _ in events(client, asked.json()["id"]):
            seconds.setdefault(kind, round(time.perf_counter() - begin, 2))
    return {"first word": seconds["token"], "first picture": seconds["partial"], "final": seconds["done"]}


async def visit(client: httpx.AsyncClient, number: int, probes: int) -> dict[str, Any]:
    """One visitor: asks, comes again when sent away, watches, and looks whether it is the own explanation."""
    target = f" place number {number}"
    begin, sent_away, untold, seen = time.perf_counter(), 0, 0, ""
    while True:
        body = {"prompt": DEMO, "target": target, "probes": probes}
        answer = await client.post("api/jobs", json=body)
        if answer.status_code != 429:
            break
        sent_away += 1
        untold += "retry-after" not in answer.headers
        await asyncio.sleep(int(answer.headers.get("retry-after", 1)) * random.uniform(1, 1.5))
    name = answer.json()["id"]
    async for kind, _ in events(client, name):
        seen = kind
    saved = await client.get(f"api/explanations/{name}")
    own = seen == "done" and saved.json()["completion"] == target
    return {"own": own, "sent away": sent_away, "untold": untold, "seconds": time.perf_counter() - begin}


async def crowd(address: str, people: int, probes: int) -> dict[str, Any]:
    limits = httpx.Limits(max_connections=people, max_keepalive_connections=people)
    begin = time.perf_counter()
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits) as client:
        visits = await asyncio.gather(*(visit(client, number, probes) for number in range(people)))
    return {
        "jobs": people,
        "lost": sum(not one["own"] for one in visits),
        "answers 429": sum(one["sent away"] for one in visits),
        "of them without Retry-After": sum(one["untold"] for one in visits),
        "seconds for all": round(time.perf_counter() - begin, 1),
        "seconds for the last visitor": round(max(one["seconds"] for one in visits), 1),
    }


def command_line(model: str) -> dict[str, float]:
    """The same explanation by `reagent explain`: in all, and without loading the model."""
    with tempfile.TemporaryDirectory() as folder:
        file, begin = Path(folder) / "why.json", time.perf_counter()
        words = ["explain", DEMO, "--max-new-tokens", "1", "--model", model, "--json", str(file), "--quiet"]
        subprocess.run([*COMMAND, *words], check=True)
        seconds = round(time.perf_counter() - begin, 2)
        return {"in all": seconds, "without loading": round(json.loads(file.read_text("utf-8"))["cost"]["seconds"], 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--queue", type=int, default=16)
    parser.add_argument("--probes", type=int, default=32)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # or the service would be left behind
    with service(given.model, given.queue) as (process, address):
        alone = [asyncio.run(first_look(address)) for _ in range(3)]
        memory, rounds = [process.memory_info().rss], []
        for _ in range(given.rounds):
            rounds.append(asyncio.run(crowd(address, given.people, given.probes)))
            memory.append(process.memory_info().rss)
    print(
        json.dumps(
            {
                "model": given.model,
                "alone, seconds": alone,
                "command line, seconds": command_line(given.model),
                "people at once": given.people,
                "places in the queue": given.queue,
                "rounds": rounds,
                "memory in MB, before and after each round": [round(size / 1e6) for size in memory],
            },
            indent=1,
        )
    )


if __name__ == "__main__":
    main()
