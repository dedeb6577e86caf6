"""Do the planted sources of the bundled collections hold for the embedded model?

    python benchmarks/planted_passages.py > docs/benchmarks/planted_passages.json

For every collection of `reagent.data.passages`: the log-probability of its answer in nats with all documents, without
the source sentences, with each source alone, and without all sentences of the documents. The conditions (`LIMITS`)
concern the truth and no method of attribution; collections that failed them were rewritten. Prints JSON.
"""

import json
import sys
from collections.abc import Container
from typing import Any

from records import describe, group_by

import reagent
from reagent.data.passages import KINDS, Collection, Place, load_collections
from reagent.models.base import HasChatTemplate, Model

LIMITS = {
    "least_mean_logprob": -0.7,  # of a token of the answer, with all documents; the answer has a source
    "least_drop": 2.0,  # without the sources; and what each source alone restores
    "least_mean_logprob_without_source": -1.3,
    "largest_drop_without_source": 1.0,  # without all documents
    "largest_gain_without_source": 5.0,  # unrelated documents may make an answer less likely
}


def measure(model: Model, collection: Collection) -> dict[str, Any]:
    """The log-probabilities of the answer, and whether the planted truth holds."""
    full, tokens = score_answer(model, collection)
    row: dict[str, Any] = {"id": collection.id, "kind": collection.kind, "split": collection.split}
    row |= {"full": full, "mean_logprob": full / tokens}
    row["drop_documents"] = full - score_answer(model, collection, collection.places)[0]
    if collection.from_documents:
        without = score_answer(model, collection, collection.sources)[0]
        row["drop_sources"] = full - without
        others = [[s for s in collection.sources if s != one] for one in collection.sources]
        alone = [score_answer(model, collection, removed)[0] for removed in others if removed]
        row["restored_alone"] = [value - without for value in alone]
    return row | {"holds": _holds(row)}


def score_answer(model: Model, collection: Collection, removed: Container[Place] = ()) -> tuple[float, int]:
    """The log-probability of the answer in nats, and its number of tokens."""
    assert isinstance(model, HasChatTemplate)
    message = {"role": "user", "content": collection.message(removed)}
    case = model.chat([message], collection.answer).with_logprobs(model)
    return float(case.values.sum()), len(case.output)


def _holds(row: dict[str, Any]) -> bool:
    if "drop_sources" not in row:
        limits = -LIMITS["largest_gain_without_source"], LIMITS["largest_drop_without_source"]
        is_likely = row["mean_logprob"] >= LIMITS["least_mean_logprob_without_source"]
        return bool(is_likely and limits[0] <= row["drop_documents"] <= limits[1])
    drops = [row["drop_sources"], *row["restored_alone"]]
    return bool(row["mean_logprob"] >= LIMITS["least_mean_logprob"] and min(drops) >= LIMITS["least_drop"])


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    summary: dict[str, Any] = {"limits": LIMITS, "collections": len(rows), "hold": sum(row["holds"] for row in rows)}
    for (kind,), some in group_by(rows, "kind").items():
        names = ("mean_logprob", "drop_documents", "drop_sources")
        summary[kind] = {name: describe(row.get(name) for row in some) for name in names}
    return summary | {"fail": [row["id"] for row in rows if not row["holds"]]}


def main() -> None:
    model = reagent.load_model("smollm2")
    rows = []
    for collection in load_collections():
        rows.append(measure(model, collection))
        print(json.dumps(rows[-1]), file=sys.stderr)
    rows.sort(key=lambda row: list(KINDS).index(row["kind"]))
    print(json.dumps(summarize(rows), indent=1))


if __name__ == "__main__":
    main()
