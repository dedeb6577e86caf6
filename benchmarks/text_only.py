"""How good explanations are from the text of answers alone.

python benchmarks/text_only.py --gemma GEMMA.gguf --out text_only.jsonl > docs/benchmarks/text_only.json
python benchmarks/text_only.py --gemma GEMMA.gguf --out chosen.jsonl --split choose       # for choosing settings

Parts of the measurement (--parts):

answers   The embedded model answers messages with at most 20 tokens, greedily. Its explanation from answers alone is
          compared with the exact effects of the same units on the log-probability of the answer: each unit deleted
          alone. Units are words, or sentences of longer messages. Whole answers get one request for each unit and three
          more; answers in parts and the methods of other packages (text_peers.py) at most five for each unit. With
          --gemma, the proxy is Gemma 3 270M (see proxies.py).
noise     95 % intervals of effects of a scripted model that answers at random with known probabilities.

A rerun with the same --out skips what is there.
"""

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from records import Record, Records, describe, errors, group_by
from scipy.stats import spearmanr
from text_peers import Ask, run_icx360, run_llmshap
from text_prompts import SENTENCES, WORDS, split_sentences, split_words
from text_source import BatchSource

import reagent
from reagent.models.base import Meter
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.text import Request, TextModel, TextOptions
from reagent.models.text.scorers import make_scorer

Floats = npt.NDArray[np.float64]
Spans = list[tuple[int, int]]
NEW_TOKENS = 20
PARTS = 4
REQUESTS_PER_UNIT = 5  # at most
MORE_PROBES = 2  # than units, for whole answers
TRIALS = 20
KINDS: dict[str, tuple[dict[str, list[str]], Callable[[str], Spans]]] = {
    "words": (WORDS, split_words),
    "sentences": (SENTENCES, split_sentences),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", choices=("choose", "report"), default="report")
    parser.add_argument("--size", type=int, default=20, help="prompts of each kind, at most")
    parser.add_argument("--parts", default="answers,noise")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of units, in this order")
    parser.add_argument("--without", default="", help="settings to leave out, as llmSHAP")
    parser.add_argument("--gemma", type=Path, help="the GGUF file of Gemma 3 270M")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records = Records(arguments.out, ["part", "split", "kind", "setting", "prompt", "seed"])
    measures: dict[str, Callable[[], None]] = {
        "answers": lambda: measure_answers(records, arguments),
        "noise": lambda: measure_noise(records),
    }
    for part in arguments.parts.split(","):
        measures[part]()
    print(json.dumps(summarize(records, arguments.split), indent=1, ensure_ascii=False))


def add(records: Records, key: Record, measure: Callable[[], Record]) -> None:
    record = records.add({"seed": 0, **key}, measure)
    shown = {name: value for name, value in record.items() if name not in ("prompt", "scores")}
    print(json.dumps(shown, ensure_ascii=False)[:400], file=sys.stderr, flush=True)


# --- answers ---


def measure_answers(records: Records, arguments: argparse.Namespace) -> None:
    model: Any = reagent.load_model("smollm2")
    left_out = arguments.without.split(",")
    settings = {name: run for name, run in choose_settings(arguments.gemma).items() if name not in left_out}
    known = {(row["kind"], row["prompt"], row["setting"]) for row in records.rows if row["part"] == "answers"}
    for kind in arguments.kinds.split(","):
        prompts, split_units = KINDS[kind]
        for prompt in prompts[arguments.split][: arguments.size]:
            missing = {name: run for name, run in settings.items() if (kind, prompt, name) not in known}
            if not missing:
                continue
            source, spans = BatchSource(model), split_units(prompt)
            truth = find_truth(model, source, prompt, spans)
            key = {"part": "answers", "split": arguments.split, "kind": kind, "prompt": prompt}
            for name, run in missing.items():
                add(records, key | {"setting": name}, partial(run, source, prompt, spans, truth))


def choose_settings(gemma: Path | None) -> dict[str, Callable[..., Record]]:
    """Scorers with whole answers and with parts, and the methods of other packages."""
    scorers = {"text": "text"} if gemma is None else {"text": "text", "text+proxy": make_scorer(f"text+proxy:{gemma}")}
    return {
        **{name: partial(ours, score=scorer) for name, scorer in scorers.items()},
        **{f"{name} in parts": partial(ours, score=scorer, parts=PARTS) for name, scorer in scorers.items()},
        "ICX360": partial(theirs, run=run_icx360),
        "llmSHAP": partial(theirs, run=run_llmshap),
    }


def find_truth(model: HuggingFaceModel, source: BatchSource, prompt: str, spans: Spans) -> Record:
    """The answer, and what its log-probability loses when each unit is deleted alone."""
    (answer,) = source.answer([Request(prompt, NEW_TOKENS)])
    texts = [prompt, *(prompt[:a] + prompt[b:] for a, b in spans)]
    whole, *others = [logprob(model, text, answer) for text in texts]
    return {"answer": answer, "effects": whole - np.array(others)}


def logprob(model: HuggingFaceModel, message: str, answer: str) -> float:
    case = model.chat([{"role": "user", "content": message}], answer).with_logprobs(model)
    return sum(unit.logprob or 0.0 for unit in case.output)


def compare(estimate: Floats, truth: Record) -> Record:
    """Rank correlation with the true effects, and whether the top unit is the same."""
    effects = truth["effects"]
    rank = float(spearmanr(estimate, effects).statistic) if np.ptp(estimate) > 0 else 0.0
    return {"spearman": round(rank, 4), "same_top": bool(np.argmax(estimate) == np.argmax(effects))}


def ours(source: BatchSource, prompt: str, spans: Spans, truth: Record, score: Any, parts: int = 1) -> Record:
    source.meter = Meter()
    model = TextModel(source, TextOptions(score=score, parts=parts))
    units = len(spans)  # the unchanged prompt is one more request
    probes = units + MORE_PROBES if parts == 1 else REQUESTS_PER_UNIT * units // parts - 1
    why = reagent.explain(model, prompt, max_new_tokens=NEW_TOKENS, prompt_spans=spans, probes=probes)
    assert why.completion == truth["answer"]
    return {
        "units": len(spans),
        "requests": source.meter.requests,
        "answer": why.completion,
        **compare(np.array(why.scores[0]), truth),
    }


def theirs(
    source: BatchSource, prompt: str, spans: Spans, truth: Record, run: Callable[[list[str], Ask, int], Floats]
) -> Record:
    asked: set[str] = set()

    def ask(texts: list[str]) -> list[str]:
        asked.update(texts)
        return source.answer([Request(text, NEW_TOKENS) for text in texts])

    scores = run([prompt[a:b] for a, b in spans], ask, REQUESTS_PER_UNIT * len(spans))
    return {"units": len(spans), "requests": len(asked), **compare(scores, truth)}


# --- noise ---


class Dice:
    """Answers with "yes it is" by a probability that falls for each of the known words that is missing."""

    at_once = 64
    info = {"id": "dice", "revision": None, "dtype": None, "backend": "scripted"}  # noqa: RUF012
    others = ("no way", "it never is")

    def __init__(self, base: float, drops: dict[str, float], seed: int) -> None:
        self.base, self.drops, self.meter = base, drops, Meter()
        self.rng = np.random.default_rng(seed)

    def answer(self, requests: list[Request]) -> list[str]:
        self.meter.requests += len(requests)
        missing = [[w for w in self.drops if w not in str(request.prompt).split()] for request in requests]
        chances = [max(0.02, self.base - sum(self.drops[w] for w in words)) for words in missing]
        said = self.rng.random(len(requests)) < chances
        return ["yes it is" if yes else self.others[int(self.rng.integers(2))] for yes in said]


def measure_noise(records: Records) -> None:
    for seed in range(TRIALS):
        for score in ("exact", "text"):
            for answers in (3, 6):
                key = {
                    "part": "noise",
                    "split": "scripted",
                    "kind": "scripted",
                    "setting": f"{score}, {answers} answers",
                    "seed": seed,
                }
                add(records, key, partial(cover, score, answers, 0.9, seed))


def cover(score: str, answers: int, base: float, seed: int) -> Record:
    drops = {"w1": 0.55, "w4": 0.3, "w7": 0.1}
    source = Dice(base, drops, seed)
    model = TextModel(source, TextOptions(score=score, answers=answers))
    prompt = " ".join(f"w{i}" for i in range(16))
    why = reagent.explain(model, prompt, target="yes it is", probes=48, seed=seed)
    same, *others = model.scorer.score([], ["yes it is", *source.others], "yes it is")
    assert why.effects is not None
    assert why.stderr is not None
    truth = np.array([drops.get(unit.text.strip(), 0.0) for unit in why.input]) * (same - np.mean(others))
    inside = np.abs(np.array(why.effects[0]) - truth) <= 1.96 * np.array(why.stderr[0]) + 1e-9
    matter = truth > 0
    return {"inside": float(inside.mean()), "inside_of_causes": float(inside[matter].mean())}


# --- summary ---


def summarize(records: Records, split: str) -> Record:
    rows = [row for row in records.rows if row["split"] in (split, "scripted")]
    summary: Record = {
        "split": split,
        "requests_per_unit": REQUESTS_PER_UNIT,
        "new_tokens": NEW_TOKENS,
        "parts": PARTS,
    }
    for (part, kind, setting), some in group_by(rows, "part", "kind", "setting").items():
        fine = [row for row in some if "error" not in row]
        names = [name for row in fine for name in row if isinstance(row[name], int | float) and name != "seed"]
        figures = {name: describe(row.get(name) for row in fine) for name in dict.fromkeys(names)}
        summary.setdefault(part, {}).setdefault(kind, {})[setting] = figures
    return summary | {"errors": errors(rows, "part", "kind", "setting")}


if __name__ == "__main__":
    main()
