"""Checks every causal-LM architecture of transformers on tiny random networks, and writes docs/models.md.

python benchmarks/models.py --out docs/benchmarks/models.jsonl > docs/benchmarks/models.json
python benchmarks/models.py --page docs/benchmarks/models.json > docs/models.md

The checks are in tests/sweep.py, the networks in tests/architectures.py. A rerun with the same --out skips what is
there.
"""

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from records import Records

CHECKS = {
    "scores": "log-probabilities of probes that share prefixes",
    "batches": "single sequences, and sequences of different lengths",
    "generation": "greedy generation with a cache",
    "explanation": "ReAGent with few probes, from the same draws",
    "gradients": "embeddings equal tokens, and the gradient is the slope",
    "attention": "rows sum to 1 (or the explanation says that part is missing) and ignore later tokens",
    "masking": "hidden tokens have no influence",
}
NEEDED = ("scores", "batches", "generation", "explanation")  # the others are optional capabilities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", type=Path)
    arguments = parser.parse_args()
    if arguments.page:
        print(write_page(json.loads(arguments.page.read_text(encoding="utf-8"))), end="")
    else:
        print(json.dumps(measure(arguments.out), indent=1, ensure_ascii=False))


def measure(path: Path) -> dict[str, Any]:
    """All records, with the versions that they belong to."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    warnings.simplefilter("ignore")
    import torch
    import transformers

    from architectures import ARCHITECTURES, FEW, build
    from sweep import run_checks

    torch.set_num_threads(1)
    records = Records(path, ["architecture"])
    for name in ARCHITECTURES:
        record = records.add({"architecture": name}, lambda name=name: run_checks(name))
        build.cache_clear()
        print(name, record.get("seconds"), file=sys.stderr)
    rows = sorted(records.rows, key=lambda record: record["architecture"])
    versions = {"transformers": transformers.__version__, "torch": torch.__version__}
    return {**versions, "self_check_seconds": time_self_check(), "in_make_test": FEW, "architectures": rows}


def time_self_check() -> float:
    """CPU seconds that the embedded model takes to check itself, of one core; the least of three."""
    from reagent.models import self_check
    from reagent.models.load import load_model

    model: Any = load_model("smollm2")
    seconds = []
    for _ in range(3):
        self_check._results.clear()  # otherwise it is not checked again
        began = time.process_time()
        model.self_check()
        seconds.append(time.process_time() - began)
    return round(min(seconds), 2)


def write_page(run: dict[str, Any]) -> str:
    """docs/models.md from the output of `measure`."""
    rows = run["architectures"]
    built = [row for row in rows if "checks" in row]
    right = [row for row in built if all(row["checks"][name] == "right" for name in NEEDED)]
    refused = [row for row in built if all(is_refused(row["checks"][name]) for name in NEEDED)]
    other = [row for row in built if row not in right and row not in refused]
    seconds = sum(row["seconds"] for row in built)
    counts = "\n".join(
        f"| {name} | {what} | {_count(built, name, 'right')} | {_count(built, name, 'refused')} "
        f"| {_count(built, name, 'wrong') + _count(built, name, 'error')} |"
        for name, what in CHECKS.items()
    )
    missing = "\n".join(f"| `{row['architecture']}` | {row['not_built']} |" for row in rows if "not_built" in row)
    return PAGE.format(
        transformers=run["transformers"],
        total=len(rows),
        built=len(built),
        right=len(right),
        refused=len(refused),
        other=len(other),
        seconds=round(seconds),
        few=len(run["in_make_test"]),
        few_seconds=round(sum(row["seconds"] for row in built if row["architecture"] in run["in_make_test"])),
        self_check=run["self_check_seconds"],
        counts=counts,
        missing=missing,
        refusals="\n".join(f"| `{row['architecture']}` | {_reason(row)} |" for row in refused),
        names="\n".join(_table_row(row) for row in right),
    )


def is_refused(verdict: str) -> bool:
    return verdict.startswith("refused")


def _count(rows: Sequence[dict[str, Any]], check: str, kind: str) -> int:
    return sum(row["checks"][check].startswith(kind) for row in rows)


def _reason(row: dict[str, Any]) -> str:
    return str(row["checks"]["scores"].split("cannot be explained: ")[-1].split(";")[0])


def _table_row(row: dict[str, Any]) -> str:
    marks = ("yes" if row["checks"][name] == "right" else "–" for name in ("gradients", "attention", "masking"))
    return f"| `{row['architecture']}` | {' | '.join(marks)} |"


PAGE = """# Models

This page is generated by `benchmarks/models.py`.

Every causal language model of `transformers` works through the same code; there is none per model family. A sweep
builds each architecture of its causal-LM mapping as a tiny network with random weights. Attention windows are shorter
than the prompt. All numbers are compared with plain passes of the same network: no cache, one sequence at a time,
nothing after the token that predicts. `make sweep` repeats it; `make test` checks a few.

With transformers {transformers}: of {total} architectures {built} can be built. **{right} are right,
{refused} are refused with the reason, {other} are wrong.** The checks of all take {seconds} s of one core, those of the
{few} in `make test` {few_seconds} s.

| check | what is compared | right | refused | wrong |
|---|---|---|---|---|
{counts}

"Refused" is an error line before any number is shown. A tiny network shows that the code path is right. It does not
show that the weights of a real model load, or how fast it is.

## When a model is loaded

A model is tried on a text of eight random tokens. It is refused if its predictions depend on later tokens, if it has no
logits, or if they are not finite. If its cache, its batches, its attention mask or its embeddings give other logits
than a plain pass, they are not used; a log message says so. Gradients are compared with a slope before their first use,
and attention weights with the logits that belong to them. The check of the embedded model (135M parameters) takes
{self_check} s of one core.

Some limits are known from the configuration. Sparse attention (`index_topk`, `indexer_budget`, `keep_window_size`)
keeps the keys with the largest scores. In texts longer than that number, predictions of the tiny networks depended on
later tokens, so longer prompts are refused. LSH attention is refused. With LongRoPE (Phi-3 with `short_factor` and
`long_factor`), a text beyond `original_max_position_embeddings` has other keys from its first token on. There, prefixes
are not shared, targets on both sides of the limit are read in two passes, and attention weights are refused. Dynamic
NTK factors change with every length beyond `max_position_embeddings`; such texts are refused.

Models of images and text are loaded for text only.

## Refused

| architecture | reason |
|---|---|
{refusals}

Encoders in the mapping (BERT, RoBERTa, …) are checked with `is_decoder=true` and XLM with `causal=true`. Without, they
see the whole text and are refused.

## Not built

| architecture | reason |
|---|---|
{missing}

## Right

| architecture | gradients | attention | masking |
|---|---|---|---|
{names}
"""


if __name__ == "__main__":
    main()
