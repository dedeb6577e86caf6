"""How good explanations are from the text of answers alone, and from proxies.

python benchmarks/text_only.py --out text_only.jsonl > docs/benchmarks/text_only.json
python benchmarks/text_only.py --out chosen.jsonl --split choose       # for choosing settings

Units are the parts of a prompt between spaces. Parts of the measurement (--parts):

answers   The embedded model answers with three tokens, greedily. Its explanation from answers alone, with five requests
          for each unit, is compared with the exact effects of the same units on the log-probability of the answer:
          each unit deleted alone. So is llmSHAP (its sliding window of three words, from the package itself), and ours
          with as many requests as it needs.
noise     95 % intervals of effects of a scripted model that answers at random with known probabilities.
proxy     The embedded model stands for llama.cpp with the same quantised weights, for Gemma 3 270M, and the other way
          round; networks with random weights must be refused.

A rerun with the same --out skips what is there. Gemma comes from the package index, in parts; without it (--gemma
PATH.gguf) its lines are left out.
"""

import argparse
import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from fact_prompts import Fact, load_facts, strip_marks
from records import Record, Records, describe, errors, group_by
from scipy.stats import spearmanr
from text_source import BatchSource

import reagent
from reagent.models.base import Meter
from reagent.models.cache import cache_folder
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.text import Request, TextModel, TextOptions
from reagent.removal import Delete

Floats = npt.NDArray[np.float64]
NEW_TOKENS, REQUESTS_PER_UNIT = 3, 5
WINDOW = 3
LLMSHAP = "llmSHAP==1.5.2"
SEEN = {"develop": 40, "blind": 16}  # first facts of each split of facts.tsv: for choosing settings
TRIALS = 20
PAIRS = 5  # prompts for each pair of a model and its proxy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--split", choices=("choose", "report"), default="report")
    parser.add_argument("--size", type=int, default=24, help="prompts, at most")
    parser.add_argument("--parts", default="answers,proxy,noise")
    parser.add_argument("--gemma", type=Path, help="the GGUF file of Gemma 3 270M")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    records = Records(arguments.out, ["part", "split", "setting", "prompt", "seed"])
    measures: dict[str, Callable[[], None]] = {
        "answers": lambda: measure_answers(records, arguments.split, arguments.size),
        "noise": lambda: measure_noise(records),
        "proxy": lambda: measure_proxies(records, arguments.split, arguments.gemma),
    }
    for part in arguments.parts.split(","):
        measures[part]()
    print(json.dumps(summarize(records, arguments.split), indent=1, ensure_ascii=False))


def add(records: Records, key: Record, measure: Callable[[], Record]) -> None:
    record = records.add({"seed": 0, **key}, measure)
    shown = {name: value for name, value in record.items() if name not in ("prompt", "scores")}
    print(json.dumps(shown, ensure_ascii=False)[:400], file=sys.stderr, flush=True)


# --- answers ---


def choose_facts(split: str) -> list[Fact]:
    """The facts from whose prompts settings were chosen, or all others."""
    facts = load_facts()
    seen = [fact for name, count in SEEN.items() for fact in [f for f in facts if f.split == name][:count]]
    return seen if split == "choose" else [fact for fact in facts if fact not in seen]


def choose_prompts(model: HuggingFaceModel, split: str, size: int) -> list[str]:
    """Prompts of two sentences: one states a fact, and one leads to the answer, which the model gives."""
    prompts: list[str] = []
    for fact in choose_facts(split):
        prompt = strip_marks(f"{fact.stated} {fact.question}")[0]
        predicted = model.case(prompt, max_new_tokens=1).completion if len(prompts) < size else ""
        if predicted.strip() and f" {fact.answer}".startswith(predicted):
            prompts.append(prompt)
    return prompts


def split_units(prompt: str) -> list[tuple[int, int]]:
    """The parts between spaces, each with the space before it."""
    return [match.span() for match in re.finditer(r"\s*\S+", prompt)]


def measure_answers(records: Records, split: str, size: int) -> None:
    model: Any = reagent.load_model("smollm2")
    for prompt in choose_prompts(model, split, size):
        source = BatchSource(model, NEW_TOKENS)
        key = {"part": "answers", "split": split, "prompt": prompt}
        truth = find_truth(model, source, prompt)
        wanted = REQUESTS_PER_UNIT * len(truth["effects"])
        measures = {"reagent": partial(ours, probes=wanted), "llmSHAP": theirs}
        for setting, measure in measures.items():
            add(records, key | {"setting": setting}, partial(measure, source, prompt, truth))


def find_truth(model: HuggingFaceModel, source: BatchSource, prompt: str) -> Record:
    """The answer, and what its log-probability loses when each unit is deleted alone."""
    (answer,) = source.complete([prompt])
    case = model.case(prompt, target=answer)
    starts = [start for start, _ in split_units(prompt)]
    groups = [
        None if unit.end <= unit.start else int(np.searchsorted(starts, unit.start, side="right")) - 1
        for unit in case.input
    ]
    case = case.grouped(groups).without_output_removal().with_logprobs(model)
    remover = Delete(model, case)
    drops = case.values - remover.score(np.eye(len(remover.free), dtype=np.bool_)).value
    return {"answer": answer, "effects": drops.sum(1)}


def compare(estimate: Floats, truth: Record) -> Record:
    """Rank correlation with the true effects, and whether the top unit is the same."""
    effects = truth["effects"]
    rank = float(spearmanr(estimate, effects).statistic) if np.ptp(estimate) > 0 else 0.0
    return {"spearman": round(rank, 4), "same_top": bool(np.argmax(estimate) == np.argmax(effects))}


def ours(source: BatchSource, prompt: str, truth: Record, probes: int) -> Record:
    source.meter = Meter()
    model = TextModel(source, TextOptions())
    why = reagent.explain(
        model,
        prompt,
        target=truth["answer"],
        max_new_tokens=NEW_TOKENS,
        prompt_spans=split_units(prompt),
        probes=probes,
    )
    assert why.effects is not None
    by_effect = compare(np.array(why.effects[0]), truth)
    return {
        "units": len(truth["effects"]),
        "requests": source.meter.requests,
        "answer": truth["answer"],
        **compare(np.array(why.scores[0]), truth),
        "spearman_of_effects": by_effect["spearman"],
        "same_top_of_effects": by_effect["same_top"],
    }


def theirs(source: BatchSource, prompt: str, truth: Record) -> Record:
    """llmSHAP asks for one text after another; a first run collects its texts, which are then completed together."""
    run_llmshap = load_llmshap()
    texts: list[str] = []
    run_llmshap(prompt, lambda text: texts.append(text) or "")
    different = list(dict.fromkeys(texts))
    answers = dict(zip(different, source.complete(different), strict=True))
    scores = run_llmshap(prompt, answers.__getitem__)
    return {"requests": len(different), **compare(scores, truth)}


def load_llmshap() -> Callable[[str, Callable[[str], str]], Floats]:
    """A function from a prompt and a model to the scores of its words, by the package itself."""
    folder = cache_folder() / "benchmarks" / LLMSHAP.replace("==", "-")
    if not folder.is_dir():
        install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(folder), LLMSHAP]
        subprocess.run(install, check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    import llmSHAP
    from llmSHAP.attribution_methods import SlidingWindowSampler
    from llmSHAP.llm.llm_interface import LLMInterface

    class Model(LLMInterface):  # type: ignore[misc]
        def __init__(self, answer: Callable[[str], str]) -> None:
            self.answer = answer

        def generate(self, prompt: str, tools: Any = None, images: Any = None) -> str:  # noqa: ARG002
            return self.answer(prompt)

    class PlainText(llmSHAP.PromptCodec):  # type: ignore[misc, name-defined]
        def build_prompt(self, data_handler: Any, indexes: Any) -> str:
            words = data_handler.get_data(indexes, mask=False)
            return " ".join(words.values())  # deleted, as in ours

        def parse_generation(self, model_output: str) -> Any:
            return llmSHAP.Generation(output=model_output)

    def run(prompt: str, answer: Callable[[str], str]) -> Floats:
        data = llmSHAP.DataHandler(prompt)
        sampler = SlidingWindowSampler(data.get_keys(), WINDOW)
        method = llmSHAP.ShapleyAttribution(
            Model(answer), data, PlainText(), sampler=sampler, use_cache=True, verbose=False
        )
        result = method.attribution().attribution
        return np.array([entry["score"] for entry in result.values()])

    return run


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
    for score in ("exact", "text"):
        for answers in (3, 6):
            for seed in range(TRIALS):
                key = {"part": "noise", "split": "scripted", "setting": f"{score}, {answers} answers", "seed": seed}
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


# --- proxies ---


def measure_proxies(records: Records, split: str, gemma: Path | None) -> None:
    small: Any = reagent.load_model("smollm2")
    prompts = choose_prompts(small, split, PAIRS)
    pairs: dict[str, tuple[Any, Any]] = {"random weights for SmolLM2": (small, scrambled(small))}
    with_server(pairs, small)
    if gemma is not None:
        other: Any = reagent.load_model(str(gemma))
        pairs |= {"SmolLM2 for Gemma 3 270M": (other, small), "Gemma 3 270M for SmolLM2": (small, other)}
    for setting, (model, proxy) in pairs.items():
        for seed, prompt in enumerate(prompts):
            key = {"part": "proxy", "split": split, "setting": setting, "prompt": prompt, "seed": seed}
            add(records, key, partial(stand_in, model, proxy, prompt, seed))


def scrambled(model: Any) -> HuggingFaceModel:
    """A network of the same shape with random weights."""
    network = copy.deepcopy(model.network)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weights in network.parameters():
            if weights.dim() > 1:
                weights.copy_(torch.randn(weights.shape, generator=generator) * float(weights.std()))
    return HuggingFaceModel(network, model.tokenizer, name="random weights")


def with_server(pairs: dict[str, tuple[Any, Any]], small: Any) -> None:
    """llama.cpp with the same file, whose arithmetic is quantised, if it is installed."""
    try:
        import xllamacpp
    except ImportError:
        return
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
    pairs["SmolLM2 for llama.cpp"] = (model, small)


def stand_in(model: Any, proxy: Any, prompt: str, seed: int) -> Record:
    """The explanation of the proxy, if it is not refused, against that of the model itself."""
    before = model.meter.forward_passes
    try:
        why = reagent.explain(model, prompt, max_new_tokens=1, proxy=proxy, seed=seed)
    except reagent.ReagentError as error:
        return {"refused": True, "reason": str(error)[-200:], "passes": model.meter.forward_passes - before}
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
    return np.array([scores[(starts >= a) & (starts < b)].sum() for a, b in split_units(prompt)])


# --- summary ---


def summarize(records: Records, split: str) -> Record:
    rows = [row for row in records.rows if row["split"] in (split, "scripted")]
    summary: Record = {"split": split, "requests_per_unit": REQUESTS_PER_UNIT, "new_tokens": NEW_TOKENS}
    for (part, setting), some in group_by(rows, "part", "setting").items():
        fine = [row for row in some if "error" not in row]
        names = [name for name in fine[0] if isinstance(fine[0][name], int | float)] if fine else []
        names += [name for row in fine for name in row if isinstance(row[name], int | float)]
        figures = {
            name: describe(row.get(name) for row in fine) for name in dict.fromkeys(names) if name not in ("seed",)
        }
        summary.setdefault(part, {})[setting] = figures
    return summary | {"errors": errors(rows, "part", "setting")}


if __name__ == "__main__":
    main()
