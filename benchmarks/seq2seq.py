"""Encoder–decoder models: are planted causes found, and what do many targets cost?

The first part explains random sources of the translators of the tests: a tiny BART and a tiny T5, trained on a task in
which the cause of every output word is known. For each method it counts the output words whose cause is the most
important word of the source, and those whose cause is among the three most important of nine. It also checks the
gradients by finite differences, and says how often the first-order effect of a cause is negative.

The second part compares the cost of one target with that of twenty, with equal probes, on a network of the size of
T5-small with random weights. The runs alternate, and the fastest of each counts.

    python benchmarks/seq2seq.py --out docs/benchmarks/seq2seq.jsonl > docs/benchmarks/seq2seq.json

It takes some minutes. A rerun with the same --out skips what is there.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from records import Records
from transformers import T5Config, T5ForConditionalGeneration

import reagent
from reagent.methods.base import Method
from reagent.methods.leave_one_out import LeaveOneOut
from reagent.methods.occlusion import Occlusion
from reagent.methods.reagent_fast import ReagentFast
from reagent.models.seq2seq import Seq2SeqModel

sys.path.append(str(Path(__file__).parent.parent / "tests"))
import translator

SOURCE_ONLY = {"preset": "paper", "attribute_target": False}
METHODS: dict[str, dict[str, Any]] = {
    "reagent fast": {},
    "reagent leave-one-out": {"preset": "leave-one-out"},
    "reagent paper": SOURCE_ONLY,
    "reagent paper, keep=1, top_k=1": {**SOURCE_ONLY, "keep": 1, "top_k": 1},
    "reagent paper, 300 steps without the condition": {**SOURCE_ONLY, "stop": False, "max_steps": 300, "runs": 1},
    "input_x_gradient": {"method": "input_x_gradient"},
    "input_x_gradient, reduction=norm": {"method": "input_x_gradient", "reduction": "norm"},
    **{name: {"method": name} for name in ("integrated_gradients", "gradient_shap")},
    "gradient_shap, n_samples=512": {"method": "gradient_shap", "n_samples": 512},
    **{name: {"method": name} for name in ("attention", "attention_last", "attention_rollout")},
    **{name: {"method": name} for name in ("lime", "occlusion", "shapley", "exact", "greedy")},
    "greedy, removal=mask": {"method": "greedy", "removal": "mask"},
    "random": {"method": "random"},
}
OTHERS = 6  # words of a source besides its three causes
FIRST = 3  # a third of the words
STEP = 0.01  # of finite differences, as a share of an embedding
PROBES = 64


def find_causes(family: str, sources: int) -> dict[str, Any]:
    """For each method, how many output words have their cause as the first, or among the first words of the source."""
    model = reagent.load_model((translator.network(family), translator.tokenizer()))
    assert isinstance(model, Seq2SeqModel)
    rng = np.random.default_rng(0)
    ranks: dict[str, list[int]] = {name: [] for name in METHODS}
    gradients, probabilities = [], []
    for _ in range(sources):
        words = [str(rng.choice(list(kind))) for kind in translator.KINDS]
        prompt = " ".join(rng.permutation([*words, *rng.choice(translator.OTHERS, OTHERS)]))
        causes = [prompt.split().index(word) for word in words]
        target = " ".join(kind[word] for kind, word in zip(translator.KINDS, words, strict=True))
        for name, options in METHODS.items():
            why = reagent.explain(model, prompt, target=target, **options)
            rows = (np.array(row[: len(prompt.split())]) for row in why.scores)
            ranks[name] += [int((row >= row[cause]).sum()) for row, cause in zip(rows, causes, strict=True)]
        gradients.append(check_gradients(model, prompt, target, causes))
        probabilities += [np.exp(token.logprob) for token in why.output]
    checks = {key: np.concatenate([check[key] for check in gradients]) for key in gradients[0]}
    return {
        "words": 3 * sources,
        "mean probability": round(float(np.mean(probabilities)), 3),
        "change of the encoder's state at a cause with the other words": round(float(np.median(checks["mixing"])), 3),
        "median error of finite differences": round(float(np.median(checks["error"])), 4),
        "negative first-order effects of causes": int(checks["negative"].sum()),
        "lost nats with a zero embedding, the largest at the cause": int(checks["zeroed"].sum()),
        "methods": {
            name: {"first": sum(r == 1 for r in found), f"among the first {FIRST}": sum(r <= FIRST for r in found)}
            for name, found in ranks.items()
        },
    }


def check_gradients(model: Seq2SeqModel, prompt: str, target: str, causes: list[int]) -> dict[str, Any]:
    """Finite differences along each embedding against input × gradient; and what an embedding of zeros costs."""
    case = model.case(prompt, target).with_logprobs(model)
    text = model.embed(case.ids[: int(case.positions.max())])
    assert text is not None
    size, every = len(prompt.split()), range(len(causes))
    products = (text * model.gradients(case, text[None], every)[0]).sum(-1)[:, :size]  # [targets, words]

    def scaled(factor: float) -> Any:
        """Values [targets, words] with the embedding of one word scaled."""
        points = np.repeat(text[None], size, axis=0)
        points[np.arange(size), np.arange(size), :-1] *= factor  # the last column marks the boundary
        return model.values(case, points).T

    slopes = (scaled(1 + STEP) - scaled(1 - STEP)) / (2 * STEP)
    lost = scaled(1.0) - scaled(0.0)
    return {
        "error": np.abs(slopes - products).max(-1) / np.abs(products).max(-1),
        "negative": np.array([products[t, cause] < 0 for t, cause in enumerate(causes)]),
        "zeroed": lost.argmax(-1) == causes,
        "mixing": measure_mixing(model, prompt, causes),
    }


def measure_mixing(model: Seq2SeqModel, prompt: str, causes: list[int]) -> Any:
    """By how much the encoder's states at the causes change when all other words do, as a share of their norm."""
    others = iter(np.random.default_rng(0).permutation(translator.OTHERS))
    changed = [word if i in causes else next(others) for i, word in enumerate(prompt.split())]
    with torch.inference_mode():
        ids = [[translator.IDS[word] for word in words] for words in (prompt.split(), changed)]
        states = model._adapter.encode(torch.tensor(ids))[:, causes]
    return ((states[1] - states[0]).norm(dim=-1) / states[0].norm(dim=-1)).numpy()


def random_t5() -> Seq2SeqModel:
    """A network of the size of T5-small, with random weights."""
    torch.manual_seed(0)
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    return Seq2SeqModel(T5ForConditionalGeneration(T5Config(vocab_size=32128, **ids)), translator.tokenizer())


@contextmanager
def timed_network(model: Seq2SeqModel) -> Iterator[list[float]]:
    """The seconds of all calls that score texts."""
    seconds: list[float] = []
    score = model.score_ragged

    def timed(*arguments: Any) -> Any:
        begin = time.process_time()
        scores = score(*arguments)
        seconds.append(time.process_time() - begin)
        return scores

    with patch.object(model, "score_ragged", timed):
        yield seconds


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
                with timed_network(model) as seconds:
                    begin = time.process_time()  # of one thread: other programs do not count
                    why = reagent.explain(model, source, target=" ".join(output[:count]), method=method)
                    costs[count].append((time.process_time() - begin, sum(seconds), why.cost))
        best = {count: min(runs, key=lambda run: run[0]) for count, runs in costs.items()}
        rows = {
            count: {
                "passes": cost.forward_passes,
                "tokens": cost.tokens,
                "seconds": round(seconds, 2),
                "seconds in the network": round(inside, 2),
            }
            for count, (seconds, inside, cost) in best.items()
        }
        ratio = {key: round(rows[targets][key] / rows[1][key], 2) for key in rows[1]}
        results[name] = {"one target": rows[1], f"{targets} targets": rows[targets], "ratio": ratio}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the records")
    parser.add_argument("--parts", nargs="+", default=["bart", "t5", "cost"])
    parser.add_argument("--sources", type=int, default=20, help="random sources of each translator")
    parser.add_argument("--words", type=int, nargs="+", default=[60], help="lengths of the source")
    parser.add_argument("--targets", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = Records(options.out, ["part"])
    for part in options.parts:
        if part == "cost":
            model = random_t5()
            for words in options.words:
                measure = partial(measure_cost, model, words, options.targets, options.repeats)
                records.add({"part": f"{words} words"}, measure, retry=True)
        else:
            records.add({"part": part}, partial(find_causes, part, options.sources), retry=True)
    parts = {record["part"]: record for record in records.rows}
    result = {
        "causes": {part: record for part, record in parts.items() if "methods" in record},
        "cost": {part: record for part, record in parts.items() if "words" in part},
    }
    print(json.dumps(result, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
