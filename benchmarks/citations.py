"""Sources of answers about documents: which methods find the planted sentences, at what cost?

    python benchmarks/citations.py --split report --out citations.jsonl > docs/benchmarks/citations.json

All methods explain the same answers to the questions of `reagent.data.passages`, in the same prompt, by the same
sentences. Occlusion takes one pass for each sentence. LIME takes as many passes as `cite` took on the same question.
ContextCite is the package itself with 32, 64 and 256 ablations; its sources are the same sentences.

With --others 3, the documents of three collections about other topics follow: about 40 sentences instead of 10.

Every (question, method) is one line of the file --out, and a rerun skips what is there. The split `choose` is for
choosing thresholds and `report` for reporting: they share no topic. Prints JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from peers import Peers
from records import Record, Records, describe, errors, group_by

import reagent
from reagent.api.cite import CiteRequest
from reagent.case import Case, Floats, Ids
from reagent.data.passages import KINDS, SPLITS, Collection, load_collections
from reagent.documents import Layout
from reagent.methods.registry import make_method
from reagent.models import bundled
from reagent.models.base import HasChatTemplate, Model
from reagent.removal import Delete
from reagent.replacers.base import no_proposals
from reagent.segmentation import assign

OURS = "cite"
ABLATIONS = (32, 64, 256)
SEED = 0
RANKING = ("top_1", "recall_at_k", "average_precision")
CITED = ("precision", "recall", "exact")
COSTS = ("forward_passes", "tokens", "seconds", "core_seconds")


@dataclass(frozen=True)
class Question:
    """A collection, and what every method needs to explain its answer."""

    collection: Collection
    model: Model
    folder: str  # of the model
    peers: Peers
    passes: int  # of `cite`

    @property
    def documents(self) -> list[str]:
        return [document.text for document in self.collection.documents]

    @cached_property
    def layout(self) -> Layout:
        return CiteRequest.build(self.collection.question, self.documents).layout()

    @cached_property
    def case(self) -> Case:
        """The answer as one output unit, and the sentences as input units; all else is protected."""
        assert isinstance(self.model, HasChatTemplate)
        case = self.model.chat([{"role": "user", "content": self.layout.prompt}], self.collection.answer)
        offset = case.messages[-1].start
        spans = [(start + offset, end + offset) for start, end in self.layout.spans]
        groups = assign([(token.start, token.end) for token in case.input], spans, case.prompt)
        grouped = case.grouped(groups).with_output_groups([0] * len(case.output))
        return grouped.without_output_removal().with_logprobs(self.model)

    @cached_property
    def free(self) -> Ids:
        return Delete(self.model, self.case).free

    @cached_property
    def sources(self) -> list[int]:
        """The planted sentences, numbered from 0 through all documents."""
        places = self.collection.places
        assert len(places) == len(self.layout.spans) == len(self.free)
        return [places.index(place) for place in self.collection.sources]


Answer = dict[str, Any]  # scores of the sentences; optionally cited, from_documents, cost
Method = Callable[[Question], Answer]


def cite(removal: str) -> Method:
    def run(question: Question) -> Answer:
        found = reagent.cite(
            question.model,
            question.collection.question,
            question.documents,
            question.collection.answer,
            removal=removal,
            seed=SEED,
        )
        whole = found.whole
        scores = np.zeros(len(found.sentences))
        for source in whole.sentences:
            scores[source.index] = source.importance
        return {
            "scores": scores,
            "cited": [source.index for source in whole.cited],
            "from_documents": whole.from_documents,
            "total": whole.total,
            "logprob": whole.logprob,
            "raw": [[source.index, source.effect, source.alone] for source in whole.sentences],
            "pruned": [len(found.pruned.sentences), found.pruned.effect, found.pruned.keeps_answer],
        }

    return run


def occlusion(question: Question) -> Answer:
    """Each sentence is deleted alone."""
    values = Delete(question.model, question.case).score(np.eye(len(question.free), dtype=np.bool_)).value[:, 0]
    return {"scores": question.case.values[0] - values}


def lime(question: Question) -> Answer:
    method, _ = make_method("lime", None)
    method = type(method)(samples=question.passes, removal="delete")  # type: ignore[call-arg]
    case = question.case
    found = method.attribute(question.model, case, no_proposals(case), np.random.default_rng(SEED))
    assert found.effects is not None
    return {"scores": found.effects[0][question.free]}


def context_cite(ablations: int) -> Method:
    def run(question: Question) -> Answer:
        layout, prompt = question.layout, question.layout.prompt
        job = {
            "method": "context-cite sentences",
            "model": question.folder,
            "passes": ablations,
            "prompt": prompt,
            "answer": question.collection.answer,
            "sources": list(layout.spans),
        }
        return question.peers.ask("context-cite", job)

    return run


def methods() -> dict[str, Method]:
    return {
        OURS: cite("delete"),
        "occlusion": occlusion,
        "lime": lime,
        **{f"context-cite, {number} ablations": context_cite(number) for number in ABLATIONS},
        "cite, removal mask": cite("mask"),
        "cite, removal replace": cite("replace"),
    }


# --- measurement ---


def measure(question: Question, method: Method) -> Record:
    """The record of one method on one question."""
    meter, truth = question.model.meter, question.sources
    assert len(question.free)  # so that the tokens of the prompt are not part of the cost
    passes, tokens, started = meter.forward_passes, meter.tokens, question.peers.start_seconds
    begin, core = time.perf_counter(), time.process_time()
    answer = method(question)
    record: Record = answer.pop("cost", None) or {
        "forward_passes": meter.forward_passes - passes,
        "tokens": meter.tokens - tokens,
        "seconds": time.perf_counter() - begin - (question.peers.start_seconds - started),
        "core_seconds": time.process_time() - core,
    }
    scores = np.asarray(answer.pop("scores"), dtype=np.float64)
    record |= {"sentences": len(scores), "sources": truth} | answer
    if truth:
        record |= rank_sources(scores, truth)
    if "cited" in answer:
        record |= compare_cited(answer["cited"], truth) if truth else {}
        record["from_documents_right"] = float(answer["from_documents"] == bool(truth))
    record["scores"] = scores.round(4).tolist()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in record.items()}


def rank_sources(scores: Floats, truth: Sequence[int]) -> Record:
    """How well the scores put the planted sentences first."""
    order = np.argsort(-scores, kind="stable").tolist()
    ranks = sorted(order.index(i) + 1 for i in truth)
    return {
        "top_1": float(order[0] in truth),
        "recall_at_k": sum(rank <= len(truth) for rank in ranks) / len(truth),
        "average_precision": float(np.mean([(i + 1) / rank for i, rank in enumerate(ranks)])),
    }


def best_threshold(rows: list[Record]) -> Record:
    """The share of questions with exactly the right set of sources, for the best threshold of the scores in hindsight.

    A method that only ranks leaves the choice of a threshold to the user; `cite` decides itself. Thresholds are
    numbers of nats, or shares of the largest score. A question without a source needs an empty set.
    """
    best = {}
    for name in ("nats", "share"):
        scaled = []
        for row in rows:
            scores = np.array(row["scores"])
            scaled.append((scores / (max(scores.max(), 1e-9) if name == "share" else 1.0), set(row["sources"])))
        candidates = sorted({round(float(score), 4) for scores, _ in scaled for score in scores if score > 0})
        exact = [np.mean([set(np.flatnonzero(s >= t).tolist()) == truth for s, truth in scaled]) for t in candidates]
        best[name] = {"threshold": candidates[int(np.argmax(exact))], "exact": round(float(max(exact)), 4)}
    return best


def compare_cited(cited: Sequence[int], truth: Sequence[int]) -> Record:
    """Precision (None if nothing is cited) and recall of the cited sentences."""
    right = len(set(cited) & set(truth))
    return {
        "precision": right / len(cited) if cited else None,
        "recall": right / len(truth),
        "exact": float(set(cited) == set(truth)),
    }


def add_others(collection: Collection, others: int) -> Collection:
    """The same collection with the documents of collections about other topics after its own."""
    pool = [c for c in load_collections(collection.split) if c.kind == "one" and c.topic != collection.topic]
    start = sum(map(ord, collection.id)) % len(pool)  # not the same documents for every question
    chosen = [pool[(start + i) % len(pool)] for i in range(others)]
    documents = collection.documents + tuple(passage for c in chosen for passage in c.documents)
    return replace(collection, documents=documents)


def run(model: Model, folder: str, arguments: argparse.Namespace, records: Records) -> None:
    by_kind = group_by(({"kind": c.kind, "collection": c} for c in load_collections(arguments.split)), "kind")
    rows = [(i, row["collection"]) for some in by_kind.values() for i, row in enumerate(some)]
    collections = [c for i, c in sorted(rows, key=lambda row: row[0]) if i < (arguments.limit or len(rows))]
    chosen = [name for name in methods() if arguments.methods is None or name in arguments.methods.split(";")]
    peers = Peers()
    for number, collection in enumerate(collections, 1):
        key = {"split": collection.split, "kind": collection.kind, "question": collection.id}
        if arguments.others:
            key, collection = key | {"others": arguments.others}, add_others(collection, arguments.others)
        ours = records.add(
            key | {"method": OURS},
            lambda c=collection: measure(Question(c, model, folder, peers, 0), methods()[OURS]),
            redo=arguments.redo and OURS in chosen,
        )
        question = Question(collection, model, folder, peers, ours["forward_passes"])
        for name in (name for name in chosen if name != OURS):
            method = methods()[name]
            record = records.add(
                key | {"method": name}, lambda m=method, q=question: measure(q, m), redo=arguments.redo
            )
            note = record.get("error") or f"{record['total_seconds']:.1f} s"
            print(f"{number}/{len(collections)} {collection.id}: {name}: {note}", file=sys.stderr, flush=True)
    peers.close()


# --- summary ---


def summarize(rows: list[Record]) -> Record:
    """For each split and method: means with intervals, over all questions with a source and for each kind."""
    summary: Record = {"errors": errors(rows, "split", "method")}
    good = [row for row in rows if "error" not in row]
    good = [{"others": None} | row for row in good]
    for (split, others), some in group_by(good, "split", "others").items():
        summary[f"{split}, {others} others" if others else split] = {
            "methods": {method: _describe(own, some) for (method,), own in group_by(some, "method").items()},
            "kinds": {
                kind: {
                    method: _describe(own, [])
                    for (method,), own in group_by((row for row in some if row["kind"] == kind), "method").items()
                }
                for kind in KINDS
            },
        }
    return summary


def _describe(rows: list[Record], all_rows: list[Record]) -> Record:
    names = (*RANKING, *CITED, "from_documents_right", *COSTS)
    described = {name: describe(row.get(name) for row in rows) for name in names}
    described = {name: numbers for name, numbers in described.items() if numbers["count"]}
    if all_rows:
        described["best_threshold"] = best_threshold(rows)
        described["exact_sets"] = describe(
            float(set(row["cited"]) == set(row["sources"])) for row in rows if "cited" in row
        )
    ours = {row["question"]: row for row in all_rows if row["method"] == OURS}
    if all_rows and rows[0]["method"] != OURS:  # on the questions that both answered
        pairs = [(row, ours[row["question"]]) for row in rows if row["question"] in ours and "top_1" in row]
        described["cite_on_the_same_questions"] = {name: describe(own[name] for _, own in pairs) for name in RANKING}
    return described


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--limit", type=int, help="only this number of questions of each kind")
    parser.add_argument("--others", type=int, default=0, help="add the documents of this number of other collections")
    parser.add_argument("--methods", help="only these methods, separated by ';'")
    parser.add_argument("--redo", action="store_true", help="measure the chosen methods again, as after a change")
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("split", "kind", "question", "others", "method"))
    if not arguments.summary:
        run(reagent.load_model("smollm2"), str(bundled.fetch("smollm2")), arguments, records)
    print(json.dumps(summarize(records.rows), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
