"""Long prompts: one sentence at ten depths of 500, 2,000 and 8,000 tokens, with screening and without.

    python benchmarks/long_contexts.py --out long_contexts.jsonl > docs/benchmarks/long_contexts.json

Four parts, each resumable (--parts chooses):

needles   A haystack (haystacks.py) is explained coarse to fine, as by default: why does the answer name the key word?
          Is the needle the first sentence and the first token one of the key word, and did the screen keep it?
former    The prompt of documents.py (2,007 tokens) with screening, without it, and with it again, in one process.
          --patience 10 stops the way without screening when it has taken ten times the processor time of screening: a
          lower bound. Its time at 8,000 tokens is estimated: at least as many passes, each as much longer as one pass
          over the text is.
scripted  The screen alone, on scripted models with planted facts: one, one of several, several together. Some can hide
          units, and others cannot.
recall    The screen alone, on the embedded model. In haystacks of 900 tokens, the sentences that matter are those that
          cost at least a tenth of what all cost, each deleted alone from the whole text. In questions about documents
          (citations.py) with the documents of five other collections, they are the planted sources, which may say the
          same. Both have about 60 sentences.

Core seconds are the processor time of the process, least affected by other work on the machine. Prints JSON.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import documents
import numpy as np
from citations import REPEATED, Question, vary
from haystacks import DEPTHS, LENGTHS, Haystack, make_haystack
from peers import Peers
from planted_screens import KINDS, measure_planted
from records import Record, Records, describe, errors, group_by

import reagent
from reagent.case import Case, Ids, Mask
from reagent.data.passages import Collection, load_collections
from reagent.explanation import Explanation
from reagent.methods import Progress
from reagent.methods.screening import screen
from reagent.models.base import Model
from reagent.removal import Delete
from reagent.segmentation import assign, split_sentences

MATTERS = 0.1  # share of what all sentences cost together
SCRIPTED = 40  # cases of each kind
RECALL_TOKENS, OTHERS = 900, 5  # so that there are about 60 sentences


class StoppedError(Exception):
    """The patience is over."""


def explain(
    model: Model, text: str, question: str, target: str, screened: bool = True, limit: float | None = None
) -> Explanation:
    """Explain a document coarse to fine; the question after it stays. `limit` is in core seconds."""
    end = None if limit is None else time.process_time() + limit

    def stop(_: Progress) -> None:
        if end is not None and time.process_time() > end:
            raise StoppedError

    return reagent.explain(
        model, text + question, target=target, prompt_spans=[(0, len(text))], units=["sentence", "token"],
        screen=screened, on_progress=stop,
    )  # fmt: skip


def describe_run(model: Model, run: Callable[[], Explanation], sentence: str, key: str) -> Record:
    """The ranks of a sentence and of its key word, and the cost; of a run that was stopped, only the cost so far."""
    passes, tokens = model.meter.forward_passes, model.meter.tokens
    begin, clock = time.process_time(), time.perf_counter()
    ranks: Record = {"stopped": True}
    with suppress(StoppedError):
        ranks = describe_result(run(), sentence, key)
    cost: Record = {
        "forward_passes": model.meter.forward_passes - passes,
        "tokens_read": model.meter.tokens - tokens,
        "seconds": round(time.perf_counter() - clock, 1),
        "core_seconds": round(time.process_time() - begin, 1),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    return cost | ranks


def describe_result(why: Explanation, sentence: str, key: str) -> Record:
    """The ranks of a sentence and of its key word, and what the screen kept."""
    whole = why.whole() if len(why.output) > 1 and why.answer is not None else why
    level = whole.levels[0]
    row = np.array(level.scores[0][: len(level.units)])
    place = next(i for i, unit in enumerate(level.units) if unit.text.strip() == sentence)
    record: Record = {
        "tokens": sum(len(unit.ids) for unit in why.input),
        "sentence_rank": 1 + int((row > row[place]).sum()),
        "key_rank": rank_of(whole, key),
        "forward_passes": why.cost.forward_passes,
        "tokens_read": why.cost.tokens,
    }
    if why.screening is not None:
        record |= {
            "kept": why.screening.units - len(why.screening.discarded),
            "units": why.screening.units,
            "needle_kept": place not in why.screening.discarded,
            "effect": why.screening.effect,
            "finest_effect": why.screening.finest_effect,
        }
    return record


def rank_of(why: Explanation, word: str) -> int | None:
    """The rank of the first unit that is part of `word`, where the prompt first has it, from 1."""
    start = why.prompt.index(word)
    ranked = [row.token for row in why.top(len(why.input))]
    return next((i for i, unit in enumerate(ranked, 1) if unit.start < start + len(word) and start < unit.end), None)


# --- parts ---


def add_needles(model: Model, records: Records, lengths: list[int], depths: list[float]) -> None:
    for depth in depths:
        for length in lengths:
            hay = haystack(model, length, depth)
            question, needle = hay.needle.asked_for_key, hay.needle
            records_add(
                records,
                {"part": "needles", "length": length, "case": depth, "run": 0},
                lambda h=hay, q=question, n=needle: describe_run(
                    model, lambda: explain(model, h.text, q, f" {n.key}"), n.sentence, n.key
                ),
            )


def add_former(model: Model, records: Records, patience: float | None) -> None:
    text, limit = documents.document(131), None

    def measure(screened: bool) -> Record:
        return describe_run(
            model,
            lambda: explain(model, text, documents.QUESTION, documents.TARGET, screened, None if screened else limit),
            documents.ANSWER,
            documents.KEY,
        )

    for run, screened in enumerate((True, False, True)):
        key = {"part": "former", "length": 2000, "case": "screened" if screened else "former", "run": run}
        record = records_add(records, key, lambda s=screened: measure(s))
        limit = patience and patience * record["core_seconds"]
    for length in LENGTHS:
        key = {"part": "former", "length": length, "case": "one pass", "run": 0}
        records_add(records, key, lambda n=length: time_pass(model, n))


def time_pass(model: Model, length: int) -> Record:
    """One pass over the text, as nearly all passes without screening are."""
    case = model.case(haystack(model, length, 0.5).text, " x")
    begin, core = time.perf_counter(), time.process_time()
    case.with_logprobs(model)
    seconds = {"seconds": time.perf_counter() - begin, "core_seconds": time.process_time() - core}
    return {"tokens": len(case.ids)} | {name: round(value, 2) for name, value in seconds.items()}


def add_scripted(records: Records) -> None:
    for kind in KINDS:
        for hides in (True, False):
            key = {"part": "scripted", "length": None, "case": kind, "run": int(hides)}
            records_add(records, key, lambda k=kind, h=hides: measure_planted(k, h, SCRIPTED) | {"prompts": SCRIPTED})


def add_recall(model: Model, records: Records, depths: list[float], count: int) -> None:
    for depth in depths:
        key = {"part": "recall", "length": RECALL_TOKENS, "case": depth, "run": 0}
        records_add(records, key, lambda d=depth: measure_recall(model, haystack(model, RECALL_TOKENS, d)))
    for copies in (0, 3):
        for collection in planted_collections(copies)[:count]:
            key = {"part": "recall", "length": None, "case": collection.id, "run": copies}
            records_add(records, key, lambda c=collection: measure_planted_recall(model, c))


def planted_collections(copies: int) -> list[Collection]:
    """Collections with sources, of each kind in turn; with copies, those whose fact can be stated more often."""
    some = [c for c in load_collections("report") if (c.kind in REPEATED if copies else c.sources)]
    by_kind = group_by(({"kind": c.kind, "collection": vary(c, OTHERS, copies)} for c in some), "kind").values()
    return [row["collection"] for rows in zip(*by_kind, strict=True) for row in rows]


def measure_planted_recall(model: Model, collection: Collection) -> Record:
    """Which planted sources the screen keeps."""
    question = Question(collection, model, "", Peers(), 0)
    begin = time.process_time()
    found = screen(model, question.case, near=0)
    return count_kept(found.kept, question.sources) | {"core_seconds": round(time.process_time() - begin, 1)}


def count_kept(kept: Mask, matter: Sequence[int] | Ids) -> Record:
    return {
        "matter": len(matter),
        "kept_of_them": int(kept[matter].sum()),
        "kept": int(kept.sum()),
        "units": len(kept),
    }


def measure_recall(model: Model, hay: Haystack) -> Record:
    """Which sentences matter, each deleted alone from the whole text, and which of them the screen keeps."""
    case = sentence_case(model, hay)
    free = Delete(model, case).free
    removed = np.concatenate([np.eye(len(free), dtype=np.bool_), np.ones((1, len(free)), dtype=np.bool_)])
    drops = case.values - Delete(model, case).score(removed).value  # [sentences + 1, tokens]
    whole = drops.sum(1)
    matters = np.flatnonzero(whole[:-1] >= MATTERS * whole[-1])
    return count_kept(screen(model, case, near=0).kept, matters)


def sentence_case(model: Model, hay: Haystack) -> Case:
    """The sentences as units; the question is protected."""
    question = f"\n\nQuestion: {hay.needle.question}\nAnswer:"
    case = model.case(hay.text + question, f" {hay.needle.answer}")
    spans = split_sentences(hay.text)
    groups = assign([(token.start, token.end) for token in case.input], spans, case.prompt)
    return case.grouped(groups).without_output_removal().with_logprobs(model)


def haystack(model: Model, length: int, depth: float) -> Haystack:
    tokenizer: Any = model.tokenizer  # type: ignore[attr-defined]
    return make_haystack(
        length, depth, DEPTHS.index(depth) if depth in DEPTHS else 0, lambda t: len(tokenizer(t)["input_ids"])
    )


def records_add(records: Records, key: Record, measure: Callable[[], Record]) -> Record:
    record = records.add(key, measure)
    print(json.dumps(record, ensure_ascii=False), file=sys.stderr, flush=True)
    return record


# --- summary ---


def summarize(rows: list[Record]) -> Record:
    good = [row for row in rows if "error" not in row]
    parts = {part: some for (part,), some in group_by(good, "part").items()}
    return {
        "errors": errors(rows, "part", "case"),
        "needles": {length: _needles(some) for (length,), some in group_by(parts.get("needles", []), "length").items()},
        "former": _former(parts.get("former", []), parts.get("needles", [])),
        "recall": _recall(parts),
    }


def _needles(rows: list[Record]) -> Record:
    names = ("tokens", "forward_passes", "tokens_read", "seconds", "core_seconds", "peak_memory_mb", "kept", "units")
    return {
        "depths": sorted(row["case"] for row in rows),
        "sentence_first": describe(float(row["sentence_rank"] == 1) for row in rows),
        "key_first": describe(float(row["key_rank"] == 1) for row in rows),
        "needle_kept": describe(float(row["needle_kept"]) for row in rows if "needle_kept" in row),
        **{name: describe(row.get(name) for row in rows) for name in (*names, "effect", "finest_effect")},
    }


def _former(rows: list[Record], needles: list[Record]) -> Record:
    """With screening and without, and how much longer it takes without."""
    cases = {case: some for (case,), some in group_by(rows, "case").items()}
    passes = {row["length"]: row for row in cases.pop("one pass", [])}
    result: Record = {"passes": passes, **cases}
    if {"former", "screened"} <= set(cases):
        former = cases["former"][0]
        for name in ("core_seconds", "tokens_read", "forward_passes"):
            result[f"times_{name}"] = round(former[name] / float(np.mean([row[name] for row in cases["screened"]])), 1)
        longest = [row["core_seconds"] for row in needles if row["length"] == 8000]
        if {2000, 8000} <= set(passes) and longest:
            longer = passes[8000]["core_seconds"] / passes[2000]["core_seconds"]
            result["estimated_core_seconds_of_former_at_8000"] = round(former["core_seconds"] * longer)
            result["times_at_8000"] = round(former["core_seconds"] * longer / float(np.mean(longest)), 1)
    return result


def _recall(parts: dict[str, list[Record]]) -> Record:
    """The share of the units that matter that was kept, and the share of all units."""
    scripted = parts.get("scripted", [])
    groups = {
        "scripted models that hide": [row for row in scripted if row["run"]],
        "scripted models that do not hide": [row for row in scripted if not row["run"]],
        "embedded model, haystacks": [row for row in parts.get("recall", []) if row["length"]],
        "embedded model, documents": [row for row in parts.get("recall", []) if not row["length"]],
    }
    result: Record = {}
    for name, some in groups.items():
        if some:
            matter, kept = (sum(row[column] for row in some) for column in ("matter", "kept_of_them"))
            share = sum(row["kept"] for row in some) / sum(row["units"] for row in some)
            result[name] = {
                "prompts": sum(row.get("prompts", 1) for row in some),
                "matter": matter,
                "kept_of_them": kept,
            }
            result[name] |= {"recall": round(kept / matter, 4), "share_kept": round(share, 4)}
    return result | {"rows": scripted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--parts", default="scripted,recall,needles,former")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--depths", default=",".join(map(str, DEPTHS)))
    parser.add_argument("--count", type=int, default=12, help="questions about documents in the part `recall`, twice")
    parser.add_argument("--patience", type=float, help="stop the way without screening at this multiple of the time")
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("part", "length", "case", "run"))
    if not arguments.summary:
        parts = arguments.parts.split(",")
        if "scripted" in parts:
            add_scripted(records)
        model = reagent.load_model("smollm2") if set(parts) - {"scripted"} else None
        depths = [float(depth) for depth in arguments.depths.split(",") if depth]
        if "recall" in parts:
            add_recall(model, records, depths, arguments.count)
        if "needles" in parts:
            add_needles(model, records, [int(length) for length in arguments.lengths.split(",")], depths)
        if "former" in parts:
            add_former(model, records, arguments.patience)
    print(json.dumps(summarize(records.rows), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
