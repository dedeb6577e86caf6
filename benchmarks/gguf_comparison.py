"""GGUF files, read by reagent, by llama.cpp and by `transformers` alone: differences of log-probabilities.

python benchmarks/gguf_comparison.py [--out F.json]      # prints JSON; five minutes on one core, resumable with --out

The files are tiny and random, one for each architecture and quantisation, and one for each key of the header that
changes the arithmetic (`tests/gguf_files.py`). Differences are the largest over the whole vocabulary at five positions,
in nats. The embedded model is compared as well.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from prompts import DEMO

import reagent
from gguf_files import (
    LARGE,
    QUANTISATIONS,
    RECIPES,
    VARIANTS,
    Floats,
    largest_difference,
    llama_log_probabilities,
    reagent_log_probabilities,
    text_ids,
    transformers_log_probabilities,
    write_model,
)
from reagent.atomic_io import atomic_write
from reagent.models.bundled import fetch_gguf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="also write the results here; those in it are not measured again")
    out = parser.parse_args().out
    result: dict[str, Any] = {"quantisations": {}, "headers": {}}
    if out and out.exists():
        result = json.loads(out.read_text())
    result["versions"] = {name: version(name) for name in ("transformers", "gguf", "xllamacpp")}
    if "embedded" not in result:
        result["embedded"] = compare_embedded()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REAGENT_CACHE"] = folder
        path = Path(folder) / "model.gguf"
        for name in RECIPES:
            if name not in result["headers"]:
                result["quantisations"][name] = {kind: compare_weights(path, name, kind) for kind in QUANTISATIONS}
                result["headers"][name] = compare_headers(path, name)
                if out:
                    atomic_write(out, json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def compare_weights(path: Path, architecture: str, quantisation: str) -> dict[str, float]:
    """`same_file` has the rounding of activations by llama.cpp; `same_weights` are unpacked for it, as float32."""
    ids = text_ids()
    write_model(path, architecture, quantisation=quantisation, unpacked=True)
    unpacked = llama_log_probabilities(path, ids)
    write_model(path, architecture, quantisation=quantisation)
    ours, theirs = reagent_log_probabilities(path, ids), llama_log_probabilities(path, ids)
    return {
        "same_weights": _round(largest_difference(ours, unpacked)),
        "same_file": _round(largest_difference(ours, theirs)),
        "same_file_mean": _round(float(np.abs(ours - theirs).mean())),
        "rounding_of_llama_cpp": _round(largest_difference(unpacked, theirs)),
    }


def compare_headers(path: Path, architecture: str) -> dict[str, dict[str, Any]]:
    """`effect` is what the key changes: llama.cpp with and without it."""
    ids, rows = text_ids(), {}
    plain = llama_log_probabilities(write_model(path, architecture), ids)
    for name, variant in VARIANTS[architecture].items():
        write_model(path, architecture, keys=variant.keys, tensors=variant.tensors)
        theirs = llama_log_probabilities(path, ids)
        rows[name] = {"effect": _round(largest_difference(plain, theirs))} | _readers(path, ids, theirs)
    if architecture in LARGE:
        write_model(path, architecture, blocks=LARGE[architecture])
        rows[f"{LARGE[architecture]} layers"] = _readers(path, ids, llama_log_probabilities(path, ids))
    return rows


def _readers(path: Path, ids: Sequence[int], expected: Floats) -> dict[str, Any]:
    readers: dict[str, Callable[[Path, Sequence[int]], Floats]] = {
        "reagent": reagent_log_probabilities,
        "transformers": transformers_log_probabilities,
    }
    row: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            row[name] = _round(largest_difference(read(path, ids), expected))
        except Exception as error:  # the readers raise anything
            row[name] = f"{type(error).__name__}: {error}"[:120]
    return row


def compare_embedded() -> dict[str, Any]:
    """The real file, Q4_1: log-probabilities of the 50 likeliest tokens after the demo prompt."""
    import xllamacpp

    model: Any = reagent.load_model("smollm2")
    ids = model.tokenizer(DEMO)["input_ids"]
    params = xllamacpp.CommonParams()
    params.model.path = str(fetch_gguf("smollm2"))
    params.n_ctx, params.n_parallel = 512, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.warmup, params.verbosity = False, -1
    server = xllamacpp.Server(params)
    reply = server.handle_completions({"prompt": ids, "n_predict": 1, "n_probs": 50})
    entries = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    candidates = np.array([entry["id"] for entry in entries])
    ours = model.score(np.array([[*ids, 0]]), np.full(len(candidates), len(ids)), candidates).logprob[0]
    differences = np.abs(ours - [entry["logprob"] for entry in entries])
    return {"tokens": len(ids), "largest": _round(float(differences.max())), "mean": _round(float(differences.mean()))}


def _round(number: float) -> float:
    return float(f"{number:.2g}")


if __name__ == "__main__":
    main()
