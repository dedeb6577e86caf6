"""Sources of answers about documents: which methods find the planted sentences, at what cost?

    python benchmarks/citations.py --split choose --out citations.jsonl
    python benchmarks/citations.py --split report --out citations.jsonl > docs/benchmarks/citations.json

All methods explain the same answers to the questions of `reagent.data.passages`, in the same prompt, by the same
sentences. `cite` says which sentences are sources. The others only rank: `citation_sets.py` chooses their thresholds on
the split `choose`. The two splits share no topic.

Occlusion takes one pass for each sentence. ContextCite keeps random halves of the sentences, 32, 64 or 256 times, or as
often as `cite` reads the prompt. The random halves and the regression are those of its package. LIME is fitted to the
same halves, as many as `cite` takes passes. One code scores the texts for all methods, since the scoring of the package
takes much longer; the method "context-cite, its own scoring" is the whole package, to check that this changes nothing.

Harder questions: --copies 3 states the fact in three more documents. --others 3 adds the documents of three collections
about other topics: about 40 sentences instead of 10.

Every (question, method) is one line of the file --out, and a rerun skips what is there. Prints JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from citation_sets import summarize
from peers import Peers
from records import Record, Records, group_by

import reagent
from reagent.api.cite import CiteRequest
from reagent.case import Case, Floats, Ids, Mask
from reagent.data.passages import SPLITS, Collection, Passage, load_collections
from reagent.documents import Layout
from reagent.methods.lime import Lime
from reagent.models import bundled
from reagent.models.base import HasChatTemplate, Model
from reagent.removal import Delete
from reagent.segmentation import assign

OURS = "cite"
ABLATIONS = (32, 64, 256)
SEED = 0
REPEATED = ("one", "two_exact", "two_paraphrase")  # kinds whose fact can be stated in more documents


class Game:
    """What the answer is worth when only some sentences are kept. No set is scored twice."""

    def __init__(self, remover: Delete) -> None:
        self.remover = remover
        self._known: dict[bytes, tuple[float, int, float]] = {}  # value, tokens and core seconds of a set

    def values(self, kept: Mask) -> Floats:
        """The log-probability of the answer, [subsets]; `kept` is [subsets, sentences]."""
        new = {bytes(row): row for row in kept if bytes(row) not in self._known}
        if new:
            rows = np.array(list(new.values()))
            meter, begin = self.remover.model.meter, time.process_time()
            tokens = meter.tokens
            values = self.remover.score(~rows).value.sum(1)
            each = (meter.tokens - tokens) // len(rows), (time.process_time() - begin) / len(rows)
            self._known |= {row: (float(value), *each) for row, value in zip(new, values, strict=True)}
        return np.array([self._known[bytes(row)][0] for row in kept])

    def cost(self, kept: Mask) -> Record:
        """What scoring these sets costs a method that scores no set twice."""
        known = [self._known[row] for row in dict.fromkeys(map(bytes, kept))]
        return {
            "forward_passes": len(known),
            "tokens": sum(tokens for _, tokens, _ in known),
            "core_seconds": sum(seconds for _, _, seconds in known),
        }


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
    def game(self) -> Game:
        return Game(Delete(self.model, self.case))

    @property
    def free(self) -> Ids:
        return self.game.remover.free

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
    kept = ~np.eye(len(question.free), dtype=np.bool_)
    scores = question.case.values.sum() - question.game.values(kept)
    return {"scores": scores, "cost": question.game.cost(kept)}


def random_halves(count: int, sentences: int) -> Mask:
    """The first random subsets of ContextCite."""
    masks = [np.random.RandomState(seed).choice([False, True], size=sentences, p=[0.5, 0.5]) for seed in range(count)]
    return np.array(masks)


def lime(question: Question) -> Answer:
    """As many passes as `cite`."""
    kept = random_halves(question.passes, len(question.free))
    values = np.append(question.case.values.sum(), question.game.values(kept))
    everything = np.ones((1, kept.shape[1]), dtype=np.bool_)
    scores = Lime(removal="delete").coefficients(np.concatenate([everything, kept]), values)
    return {"scores": scores, "cost": question.game.cost(kept)}


def context_cite(ablations: int | None) -> Method:
    """The subsets and the regression of the package; by default, as many ablations as `cite` takes passes."""

    def run(question: Question) -> Answer:
        kept = random_halves(ablations or question.passes, len(question.free))
        job = {"method": "context-cite game", "passes": len(kept), "units": len(question.free)}
        job["tokens"] = int(question.case.unit_starts[-1] - question.case.unit_starts[len(question.case.input)])
        answer = question.peers.ask("context-cite", job, question.game.values)
        return answer | {"cost": question.game.cost(kept)}

    return run


def context_cite_package(question: Question) -> Answer:
    """The whole package with 32 ablations."""
    layout = question.layout
    job = {
        "method": "context-cite sentences",
        "model": question.folder,
        "passes": ABLATIONS[0],
        "prompt": layout.prompt,
        "answer": question.collection.answer,
        "sources": list(layout.spans),
    }
    return question.peers.ask("context-cite", job)


def methods() -> dict[str, Method]:
    return {
        OURS: cite("delete"),
        "occlusion": occlusion,
        "LIME": lime,
        "context-cite, as many": context_cite(None),
        **{f"context-cite, {number} ablations": context_cite(number) for number in ABLATIONS},
        "context-cite, its own scoring": context_cite_package,
        "cite, removal mask": cite("mask"),
        "cite, removal replace": cite("replace"),
    }


# --- measurement ---


def measure(question: Question, method: Method) -> Record:
    """The record of one method on one question."""
    meter, truth = question.model.meter, question.sources
    assert len(question.free)  # so that the tokens of the prompt are not part of the cost
    passes, tokens, core = meter.forward_passes, meter.tokens, time.process_time()
    answer = method(question)
    record: Record = answer.pop("cost", None) or {
        "forward_passes": meter.forward_passes - passes,
        "tokens": meter.tokens - tokens,
        "core_seconds": time.process_time() - core,
    }
    scores = np.asarray(answer.pop("scores"), dtype=np.float64)
    record |= {"sentences": len(scores), "sources": truth} | answer | {"scores": scores.round(4).tolist()}
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in record.items()}


def add_others(collection: Collection, others: int) -> Collection:
    """The same collection with the documents of collections about other topics after its own."""
    pool = [c for c in load_collections(collection.split) if c.kind == "one" and c.topic != collection.topic]
    start = sum(map(ord, collection.id)) % len(pool)  # not the same documents for every question
    chosen = [pool[(start + i) % len(pool)] for i in range(others)]
    documents = collection.documents + tuple(passage for c in chosen for passage in c.documents)
    return replace(collection, documents=documents)


def repeat_sources(collection: Collection, copies: int) -> Collection:
    """The same collection with its source sentences, in turn, at the end of documents that have none."""
    without = [i for i in range(len(collection.documents)) if i not in {d for d, _ in collection.sources}][:copies]
    documents, sources = list(collection.documents), list(collection.sources)
    for turn, i in enumerate(without):
        sentence = collection.sentence(collection.sources[turn % len(collection.sources)])
        sources.append((i, len(documents[i].sentences)))
        documents[i] = Passage(documents[i].id, f"{documents[i].text} {sentence}")
    return replace(collection, documents=tuple(documents), sources=tuple(sources))


def vary(collection: Collection, others: int, copies: int) -> Collection:
    """The collection with other documents and more mentions."""
    repeated = repeat_sources(collection, copies) if copies else collection
    return add_others(repeated, others) if others else repeated


def run(model: Model, folder: str, arguments: argparse.Namespace, records: Records) -> None:
    kinds = REPEATED if arguments.copies else None if arguments.kinds is None else arguments.kinds.split(",")
    all_of_them = (c for c in load_collections(arguments.split) if kinds is None or c.kind in kinds)
    by_kind = group_by(({"kind": c.kind, "collection": c} for c in all_of_them), "kind")
    rows = [(i, row["collection"]) for some in by_kind.values() for i, row in enumerate(some)]
    collections = [c for i, c in sorted(rows, key=lambda row: row[0]) if i < (arguments.limit or len(rows))]
    chosen = [name for name in methods() if arguments.methods is None or name in arguments.methods.split(";")]
    peers = Peers()
    for number, collection in enumerate(collections, 1):
        key = {"split": collection.split, "kind": collection.kind, "question": collection.id}
        key |= {"others": arguments.others, "copies": arguments.copies}
        collection = vary(collection, arguments.others, arguments.copies)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--limit", type=int, help="only this number of questions of each kind")
    parser.add_argument("--others", type=int, default=0, help="add the documents of this number of other collections")
    parser.add_argument("--copies", type=int, default=0, help="state the fact in this number of further documents")
    parser.add_argument("--kinds", help="only these kinds, separated by commas")
    parser.add_argument("--methods", help="only these methods, separated by ';'")
    parser.add_argument("--redo", action="store_true", help="measure the chosen methods again, as after a change")
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("split", "kind", "question", "others", "copies", "method"))
    if not arguments.summary:
        run(reagent.load_model("smollm2"), str(bundled.fetch("smollm2")), arguments, records)
    print(json.dumps(summarize(records.rows), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
