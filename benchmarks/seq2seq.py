"""Encoder–decoder models: are planted causes found, and what do many targets cost?

The first part explains random sources of the translator of the tests, a tiny trained T5 in which the cause of every
output word is known. It counts the output words whose most important word of the source is their cause.

The second part compares the cost of one target with that of twenty, with equal probes, on a network of the size of
T5-small with random weights. The runs alternate, and the fastest of each counts.

    python benchmarks/seq2seq.py        # prints JSON; some minutes on two cores
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import T5Config, T5ForConditionalGeneration

import reagent
from reagent.methods.base import Method
from reagent.methods.leave_one_out import LeaveOneOut
from reagent.methods.occlusion import Occlusion
from reagent.methods.reagent_fast import ReagentFast
from reagent.models.seq2seq import Seq2SeqModel

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import translator

PAPER = {"preset": "paper", "stop": False, "max_steps": 300, "runs": 1, "attribute_target": False}
METHODS: dict[str, dict[str, Any]] = {
    "reagent fast": {},
    "reagent leave-one-out": {"preset": "leave-one-out"},
    "reagent paper": PAPER,
    **{
        name: {"method": name}
        for name in (
            "input_x_gradient", "integrated_gradients", "gradient_shap", "attention", "attention_last",
            "attention_rollout", "lime", "occlusion", "shapley", "exact", "greedy", "random",
        )
    },
}  # fmt: skip
PROBES = 64


def find_causes(sources: int) -> dict[str, str]:
    """For each method, how many output words have their cause as the most important word of the source."""
    model = reagent.load_model((translator.network(), translator.tokenizer()))
    rng = np.random.default_rng(0)
    found: dict[str, list[bool]] = {name: [] for name in METHODS}
    for _ in range(sources):
        words = [str(rng.choice(list(kind))) for kind in translator.KINDS]
        prompt = " ".join(rng.permutation([*words, *rng.choice(translator.OTHERS, 6)]))
        target = " ".join(kind[word] for kind, word in zip(translator.KINDS, words, strict=True))
        for name, options in METHODS.items():
            why = reagent.explain(model, prompt, target=target, **options)
            inputs = len(why.input)
            tops = [why.input[int(np.argmax(row[:inputs]))].text.strip() for row in why.scores]
            found[name] += [top == word for top, word in zip(tops, words, strict=True)]
    return {name: f"{sum(hits)} of {len(hits)}" for name, hits in found.items()}


def random_t5() -> Seq2SeqModel:
    """A network of the size of T5-small, with random weights."""
    torch.manual_seed(0)
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    return Seq2SeqModel(T5ForConditionalGeneration(T5Config(vocab_size=32128, **ids)), translator.tokenizer())


def measure_cost(model: Seq2SeqModel, words: int, targets: int, repeats: int) -> dict[str, Any]:
    """Passes, tokens and seconds of one target and of several, and their ratios."""
    rng = np.random.default_rng(0)
    source = " ".join(rng.choice(translator.WORDS[len(translator.SPECIAL) :], words))
    output = rng.choice(translator.WORDS[len(translator.SPECIAL) :], targets)
    methods: dict[str, Method] = {
        "reagent fast": ReagentFast(probes=PROBES),
        "reagent leave-one-out": LeaveOneOut(probes=PROBES),
        "occlusion": Occlusion(),
    }
    results: dict[str, Any] = {}
    for name, method in methods.items():
        costs: dict[int, list[Any]] = {1: [], targets: []}
        for _ in range(repeats):
            for count in costs:
                model.clear_cache()
                begin = time.perf_counter()
                why = reagent.explain(model, source, target=" ".join(output[:count]), method=method)
                costs[count].append((time.perf_counter() - begin, why.cost))
        best = {count: min(runs, key=lambda run: run[0]) for count, runs in costs.items()}
        rows = {
            count: {"passes": cost.forward_passes, "tokens": cost.tokens, "seconds": round(seconds, 2)}
            for count, (seconds, cost) in best.items()
        }
        ratio = {key: round(rows[targets][key] / rows[1][key], 2) for key in rows[1]}
        results[name] = {"one target": rows[1], f"{targets} targets": rows[targets], "ratio": ratio}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sources", type=int, default=20, help="random sources of the translator")
    parser.add_argument("--words", type=int, nargs="+", default=[60, 120], help="lengths of the source")
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = random_t5()
    result = {
        "causes found": find_causes(options.sources),
        "cost": {
            f"{words} words": measure_cost(model, words, options.targets, options.repeats) for words in options.words
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
