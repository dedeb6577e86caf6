"""Other packages beside this one: each explains the same prompts, as its own documentation does it.

    python benchmarks/comparison.py --out docs/benchmarks/comparison.json          # all tools: half an hour
    python benchmarks/comparison.py --out docs/benchmarks/comparison.json lime     # those that start like this
    python benchmarks/comparison.py --page docs/benchmarks/comparison.json > docs/comparison.md

Packages that are not dependencies are installed into environments of their own under the cache folder. A tool that
cannot be installed, or that fails, is recorded with its error. The prompts are the first of `repeated.py` that were not
left out there, two with a fact that is stated once and two with a fact that is stated twice.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from peers import PeerError, install
from repeated_prompts import load_prompts

import reagent
from reagent.atomic_io import atomic_write
from reagent.models import bundled

KINDS = {"once": 3, "twice": 5}  # how far down the ranking every mention must be
SKIP, COUNT, SIZE = 4, 2, 19
SIDE = Path(__file__).with_name("comparison_side.py")
# The environment of each tool (None: the running one), and what it takes from the model.
TOOLS = {
    "reagent (default)": (None, "probabilities"),
    "reagent (leave-one-out)": (None, "probabilities"),
    "captum FeatureAblation": (None, "the network"),
    "captum ShapleyValueSampling": (None, "the network"),
    "captum LayerIntegratedGradients": (None, "gradients"),
    "inseq attention": ("inseq", "attention weights"),
    "inseq value_zeroing": ("inseq", "the layers"),
    "inseq integrated_gradients": ("inseq", "gradients"),
    "shap PartitionExplainer": ("shap", "a function of texts"),
    "lime LimeTextExplainer": ("lime", "a function of texts"),
    "shapiq KernelSHAP": ("shapiq", "a function of sets"),
    "shapiq ProxySPEX": ("shapiq", "a function of sets"),
    "context-cite": ("context-cite", "the network"),
    "interpreto Occlusion": ("interpreto", "the network"),
}

PAGE = """# Comparison with other tools

Each tool explains the same answers of the same model ({model}), as its own documentation does it, with
64 texts where the number can be chosen; `reagent` stops by itself, and used more. Two prompts state the fact that leads
to the answer once, as "moved to Japan … the capital,". Two state it twice. *Found once*: the fact is among the first
three pieces of the ranking. *Found twice*: both mentions are among the first five. Medians of the sequences that the
network reads and of seconds.

{table}

{failures}The numbers are from `benchmarks/comparison.py` ({machine}, torch {torch}, transformers {transformers}, one
thread). Four prompts show what a tool does; they are not a ranking.
[Measurements](benchmarks.md#facts-that-are-stated-several-times) has more prompts, equal numbers of passes and
intervals, for the methods of Captum, shapiq and context-cite; [the study](study/README.md) compares methods by seven
metrics. Pieces are words in `reagent`, lime, shapiq and context-cite, and tokens in the others. Captum's
FeatureAblation puts the token with the number 0 in place of each token.

What each is made for:

| package | made for | take it for |
|---|---|---|
| reagent | why a language model gave an answer | repeated facts, groups, self-tests, models behind an API, citations |
| [Captum](https://captum.ai) | any PyTorch network | layers, neurons, images, own architectures |
| [Inseq](https://inseq.org) | sequence generation | many gradient and attention methods, contrasts between outputs |
| [shap](https://shap.readthedocs.io) | any function | tables, trees, established plots |
| [LIME](https://github.com/marcotcr/lime) | classifiers | a quick local model of a classifier |
| [shapiq](https://shapiq.readthedocs.io) | any game | Shapley interactions of every order |
| [ContextCite](https://github.com/MadryLab/context-cite) | sources of an answer | passages of a long context |
| [interpreto](https://github.com/FOR-sight-ai/interpreto) | transformers | concepts inside a network |

Explanations of shap, Captum, shapiq and Inseq can be read, compared and evaluated here: [other tools](exchange.md).
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", nargs="*", help="those whose names start like this; all by default")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path, help="print the page of a result")
    arguments = parser.parse_args()
    if arguments.page:
        print(render(json.loads(arguments.page.read_text())), end="")
        return
    result = json.loads(arguments.out.read_text()) if arguments.out.exists() else describe()
    prompts = choose_prompts()
    for tool in TOOLS:
        if not arguments.tools or tool.startswith(tuple(arguments.tools)):
            result["tools"][tool] = run(tool, prompts)
            atomic_write(arguments.out, json.dumps(result, indent=1) + "\n")
            print(tool, result["tools"][tool], file=sys.stderr, flush=True)


def describe() -> dict[str, Any]:
    import torch
    import transformers

    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    return {"model": "SmolLM2-135M-Instruct", "machine": f"a CPU, {platform.machine()}", **versions, "tools": {}}


def choose_prompts() -> list[dict[str, Any]]:
    prompts = load_prompts(reagent.load_model("smollm2"), "report", SIZE)
    return [
        {"kind": kind, "prompt": example.prompt, "target": example.target, "mentions": list(example.antecedent or ())}
        for kind in KINDS
        for example in prompts[kind][SKIP : SKIP + COUNT]
    ]


def run(tool: str, prompts: list[dict[str, Any]]) -> dict[str, Any]:
    """The measurements of a tool in a process of its own, or its error."""
    environment, needs = TOOLS[tool]
    try:
        python = install(environment) if environment else sys.executable
    except PeerError as error:
        return {"needs": needs, "error": str(error)}
    questions = [{"prompt": prompt["prompt"], "target": prompt["target"]} for prompt in prompts]
    job = {"tool": tool, "model": str(bundled.fetch("smollm2")), "prompts": questions}
    offline = os.environ | {"HF_HUB_OFFLINE": "1"}
    process = subprocess.run([python, SIDE], input=json.dumps(job), capture_output=True, text=True, env=offline)
    answer = json.loads(process.stdout or '{"error": "the process ended without a result"}')
    if "error" in answer:
        return {"needs": needs, "error": answer["error"]}
    measured = [
        {
            "kind": prompt["kind"],
            "ranks": ranks(prompt, one["pieces"]),
            "passes": one["passes"],
            "seconds": one["seconds"],
        }
        for prompt, one in zip(prompts, answer["prompts"], strict=True)
    ]
    return {"needs": needs, "version": answer["version"], "prompts": measured}


def ranks(prompt: dict[str, Any], pieces: Iterable[tuple[str, float]]) -> list[int | None]:
    """For each mention of the fact, the rank of the best piece of it; None if no piece is a part of it."""
    spans, at = [], 0
    for text, score in pieces:
        start = prompt["prompt"].find(text.strip(), at)
        if start >= 0:  # not a start token or a mark of the tokenizer
            at = start + len(text.strip())
            spans.append((start, at, score))
    best = sorted(spans, key=lambda span: -span[2])
    return [
        next((rank for rank, (start, end, _) in enumerate(best, 1) if start < mention[1] and end > mention[0]), None)
        for mention in prompt["mentions"]
    ]


def render(result: dict[str, Any]) -> str:
    done = {tool: record for tool, record in result["tools"].items() if "prompts" in record}
    head = [
        "| tool | version | takes | found once | found twice | sequences | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    failed = [f"`{tool}` failed: {record['error']}" for tool, record in result["tools"].items() if tool not in done]
    missing = [f"`{tool}`" for tool in TOOLS if tool not in result["tools"]]
    failed += [f"The script can also run {', '.join(missing)}, which this table lacks"] if missing else []
    failures = "".join(f"{line}.\n\n" for line in failed)
    table = "\n".join([*head, *(row(tool, done[tool]) for tool in TOOLS if tool in done)])
    facts = {name: result[name] for name in ("model", "machine", "torch", "transformers")}
    return PAGE.format(table=table, failures=failures, **facts)


def row(tool: str, record: dict[str, Any]) -> str:
    passes = statistics.median(one["passes"] for one in record["prompts"])
    seconds = statistics.median(one["seconds"] for one in record["prompts"])
    cells = [found(record, "once"), found(record, "twice"), f"{passes:.0f}", f"{seconds:.1f}"]
    return f"| {tool} | {record['version']} | {record['needs']} | " + " | ".join(cells) + " |"


def found(record: dict[str, Any], kind: str) -> str:
    of_kind = [one["ranks"] for one in record["prompts"] if one["kind"] == kind]
    count = sum(all(rank is not None and rank <= KINDS[kind] for rank in one) for one in of_kind)
    return f"{count} of {len(of_kind)}"


if __name__ == "__main__":
    main()
