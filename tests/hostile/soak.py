"""The long run of all attacks: `make soak`. Prints one JSON summary; progress goes to standard error.

Attacks are the functions in `ATTACKS` of the modules `*_attacks.py`. Kinds take turns, so that a run that is stopped
early has tried all of them: after Ctrl-C, the summary is that of what was done. With `--state FILE`, the next run
continues there. A failure names the kind, the module and the number of the attempt: `--only KIND --first NUMBER
--count 1` repeats it.
"""

import argparse
import importlib
import json
import logging
import os
import resource
import sys
import time
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent / "src"), str(TESTS)]

TURN = 50  # attempts of one kind before the next
SLOW = 60.0  # seconds of one attempt that count as a failure
GROWTH = 1024  # megabytes by which one turn may raise the peak of the process
MOST_FAILURES = 5  # that are described, of each kind


def main() -> int:
    options = parse()
    logging.disable(logging.WARNING)
    state = read_state(options)
    begin = time.monotonic()
    try:
        attack_all(find_attacks(options.only), state, options, begin)
        if not options.no_kills:
            kill_all(state, options)
    except KeyboardInterrupt:
        state["interrupted"] = True
    state["seconds"] = round(state.get("seconds", 0) + time.monotonic() - begin)
    state["peak_megabytes"] = max(state.get("peak_megabytes", 0), peak_megabytes())
    write_state(state, options)
    summary = summarize(state)
    text = json.dumps(summary, indent=1)
    if options.out is not None:
        options.out.write_text(text + "\n")
    print(text)
    return int(summary["failures"] > 0)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=10_000, help="attempts of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first attempt")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop the attacks after this time")
    parser.add_argument("--only", action="append", help="a kind of attack, or a module; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--people", type=int, default=50, help="on the page while its service is killed")
    parser.add_argument("--kills", type=int, default=10, help="kills of a benchmark; the service is killed twice")
    parser.add_argument("--no-kills", action="store_true")
    parser.add_argument("--tokens", type=int, default=3000, help="of the prompt whose memory is measured; 0: none")
    parser.add_argument("--state", type=Path, help="a file from which a stopped run continues")
    parser.add_argument("--out", type=Path, help="a file for the summary, which is also printed")
    return parser.parse_args()


def find_attacks(only: list[str] | None) -> dict[str, Callable[[np.random.Generator], None]]:
    """All attacks, by MODULE.KIND."""
    attacks = {}
    for path in sorted(Path(__file__).parent.glob("*_attacks.py")):
        module = importlib.import_module(f"hostile.{path.stem}")
        area = path.stem.removesuffix("_attacks")
        for kind, attack in module.ATTACKS.items():
            if not only or {kind, area, f"{area}.{kind}"} & set(only):
                attacks[f"{area}.{kind}"] = attack
    return attacks


def attack_all(attacks: dict[str, Any], state: dict[str, Any], options: argparse.Namespace, begin: float) -> None:
    """Take turns until each kind has its number of attempts, or the time is over."""
    left = dict(attacks)
    while left:
        for name in list(left):
            if time.monotonic() - begin > 60 * options.minutes:
                return
            kind = state["kinds"].setdefault(name, new_kind(options.first))
            take_turn(name, attacks[name], kind, options, begin)
            if kind["attempts"] >= options.count:
                del left[name]
            state["peak_megabytes"] = max(state.get("peak_megabytes", 0), peak_megabytes())
            write_state(state, options)
        done = sum(kind["attempts"] for kind in state["kinds"].values())
        print(f"{done:,} attempts, {count_failures(state)} failures", file=sys.stderr, flush=True)


def new_kind(first: int) -> dict[str, Any]:
    return {"next": first, "attempts": 0, "failures": 0, "seconds": 0.0, "slowest": 0.0, "examples": []}


def take_turn(name: str, attack: Any, kind: dict[str, Any], options: argparse.Namespace, begin: float) -> None:
    before = peak_megabytes()
    for _ in range(min(TURN, options.count - kind["attempts"])):
        number = kind["next"]
        start = time.monotonic()
        problem = try_once(attack, np.random.default_rng([options.seed, zlib.crc32(name.encode()), number]))
        seconds = time.monotonic() - start
        kind["next"] += 1
        kind["attempts"] += 1
        kind["seconds"] = round(kind["seconds"] + seconds, 3)
        kind["slowest"] = round(max(kind["slowest"], seconds), 3)
        if seconds > SLOW:
            problem = problem or f"took {seconds:.0f} s"
        if problem:
            add_failure(kind, number, problem)
        if time.monotonic() - begin > 60 * options.minutes:
            break
    if peak_megabytes() - before > GROWTH:
        add_failure(kind, kind["next"] - 1, f"the peak of memory grew from {before} to {peak_megabytes()} MB")


def try_once(attack: Any, rng: np.random.Generator) -> str | None:
    """What went wrong, in one line with its place."""
    try:
        attack(rng)
    except Exception as error:
        places = traceback.extract_tb(error.__traceback__)
        place = next((p for p in reversed(places) if "/reagent/" in p.filename), places[-1])
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return f"{text} ({Path(place.filename).name}:{place.lineno})"
    return None


def add_failure(kind: dict[str, Any], number: int, problem: str) -> None:
    kind["failures"] += 1
    if len(kind["examples"]) < MOST_FAILURES:
        kind["examples"].append({"attempt": number, "problem": problem})


def kill_all(state: dict[str, Any], options: argparse.Namespace) -> None:
    from hostile import kills

    steps: dict[str, Callable[[], dict[str, Any]]] = {
        "service": lambda: kills.kill_service(options.people),
        "benchmark": lambda: kills.kill_benchmark(options.kills, options.seed),
    }
    if options.tokens:
        steps["long_prompt"] = lambda: kills.long_prompt_memory(options.tokens)
    for name, step in steps.items():
        if name not in state["kills"]:
            state["kills"][name] = step()
            print(name, state["kills"][name], file=sys.stderr, flush=True)
            write_state(state, options)


def peak_megabytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def count_failures(state: dict[str, Any]) -> int:
    found = state["kills"]
    lost = found.get("service", {}).get("lost", 0)
    different = not found.get("benchmark", {}).get("equal_to_a_run_without_kills", True)
    broken = "error" in found.get("long_prompt", {})
    return int(sum(kind["failures"] for kind in state["kinds"].values()) + lost + different + broken)


def summarize(state: dict[str, Any]) -> dict[str, Any]:
    """Attempts and failures by area and kind."""
    areas: dict[str, dict[str, int]] = {}
    for name, kind in state["kinds"].items():
        area = areas.setdefault(name.partition(".")[0], {"kinds": 0, "attempts": 0, "failures": 0})
        area["kinds"] += 1
        area["attempts"] += kind["attempts"]
        area["failures"] += kind["failures"]
    attempts = sum(area["attempts"] for area in areas.values())
    return {"attempts": attempts, "failures": count_failures(state), "areas": areas} | state


def read_state(options: argparse.Namespace) -> dict[str, Any]:
    if options.state is not None and options.state.exists():
        return dict(json.loads(options.state.read_text()))
    return {"seed": options.seed, "kinds": {}, "kills": {}}


def write_state(state: dict[str, Any], options: argparse.Namespace) -> None:
    if options.state is not None:
        part = options.state.with_suffix(".part")
        part.write_text(json.dumps(state))
        os.replace(part, options.state)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of a service may still wait
