"""From scores to sets: which sentences does a method call sources, and are they the planted ones?

`cite` decides itself. A method that only ranks needs a threshold. Three kinds are tried: nats, a share of the largest
score, and both together. The kind and its numbers are those with the most exact sets on the split `choose`, over all
conditions together, as a user has one threshold for all questions. `own` is the quality of a threshold that was chosen
on the questions of the same condition. `best` is the threshold with the most exact sets on
the reported questions themselves: more than a user can reach.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from records import Record, describe, errors, group_by

OURS = "cite"
MOST_CANDIDATES = 40  # numbers of nats, and shares


class Threshold(NamedTuple):
    """Sources have at least this score, and at least this share of the largest one."""

    nats: float
    share: float

    def select(self, scores: Sequence[float]) -> set[int]:
        least = max(self.nats, self.share * max(scores))
        return {i for i, score in enumerate(scores) if score > 0 and score >= least}


def exact(threshold: Threshold, rows: Sequence[Record]) -> float:
    """The share of questions with exactly the planted set; without a source, that is the empty set."""
    return float(np.mean([threshold.select(row["scores"]) == set(row["sources"]) for row in rows]))


def choose_threshold(rows: Sequence[Record]) -> Threshold:
    """The threshold with the most exact sets; of equally good ones, one in the middle."""
    quality: dict[Threshold, float] = {}
    for candidate in _candidates(rows):
        quality[candidate] = exact(candidate, rows)
    best = max(quality.values())
    good = sorted(candidate for candidate, value in quality.items() if value == best)
    simple = [candidate for candidate in good if 0.0 in candidate]  # one number rather than two
    return (simple or good)[len(simple or good) // 2]


def _candidates(rows: Sequence[Record]) -> Iterator[Threshold]:
    scores = [np.array(row["scores"]) for row in rows]
    nats = _between(np.concatenate(scores))
    shares = _between(np.concatenate([own / max(own.max(), 1e-9) for own in scores]))
    for number in (0.0, *nats):
        for share in (0.0, *shares):
            yield Threshold(number, share)


def _between(values: np.ndarray) -> list[float]:
    """Numbers between the different positive values."""
    known = np.unique(values[values > 0])
    middles = (known[1:] + known[:-1]) / 2
    return np.unique(np.quantile(middles, np.linspace(0, 1, MOST_CANDIDATES)).round(4)).tolist()


def judge(cited: set[int], sources: set[int], scores: Sequence[float]) -> Record:
    """One question: precision is None if nothing is cited, recall and the ranking if there is no source."""
    right = len(cited & sources)
    result: Record = {
        "exact": float(cited == sources),
        "from_documents_right": float(bool(cited) == bool(sources)),
        "precision": right / len(cited) if cited else None,
    }
    if sources:
        order = np.argsort(-np.array(scores), kind="stable").tolist()
        ranks = sorted(order.index(i) for i in sources)
        result["recall"] = right / len(sources)
        result["recall_at_k"] = float(np.mean([rank < len(sources) for rank in ranks]))
    return result


# --- summary ---


def summarize(rows: list[Record]) -> Record:
    """For each condition, each kind and all together: every method with the threshold chosen on the other split."""
    good = [row | {"condition": name_condition(row)} for row in rows if "error" not in row]
    removals = _keep_shared([row for row in good if row["method"].startswith(OURS)])
    compared = _keep_shared([row for row in good if not row["method"].startswith(f"{OURS}, ")])
    chosen = _choose([row for row in compared if row["split"] == "choose"])
    summary: Record = {
        "errors": errors(rows, "split", "method"),
        "thresholds": {method: threshold._asdict() for method, threshold in chosen.items()},
    }
    for split in ("choose", "report"):
        own = [row for row in compared if row["split"] == split]
        summary[split] = _summarize_groups(own, "condition", chosen)
    _add_own_thresholds(summary["report"], compared)
    reported = [row for row in compared if row["split"] == "report"]
    return summary | {
        "by_kind": _summarize_groups(reported, "kind", chosen),
        "removals": _summarize_groups(removals, "split", chosen),
        "cite_alone": {
            condition: _summarize_groups(some, "kind", chosen)
            for (condition,), some in group_by(_of_cite(good, "report"), "condition").items()
        },
        "margins": {split: _find_margin(_of_cite(good, split)) for split in ("choose", "report")},
    }


def _keep_shared(rows: list[Record]) -> list[Record]:
    """The rows of the questions that all methods answered; a split that one method lacks counts for the others."""
    kept = []
    for own in group_by(rows, "split").values():
        methods = {row["method"] for row in own}
        kept += [
            row for same in group_by(own, "question", "condition").values() if len(same) == len(methods) for row in same
        ]
    return kept


def _of_cite(rows: list[Record], split: str) -> list[Record]:
    return [row for row in rows if row["method"] == OURS and row["split"] == split]


def _summarize_groups(rows: list[Record], key: str, chosen: dict[str, Threshold]) -> Record:
    parts = {name: some for (name,), some in group_by(rows, key).items()}
    if len(parts) > 1:
        parts["all questions"] = rows
    return {name: _summarize_condition(some, chosen) for name, some in parts.items()}


def _add_own_thresholds(report: Record, rows: list[Record]) -> None:
    """Also with the threshold that was chosen on questions of the same condition."""
    for name, section in report.items():
        some = [row for row in rows if row["condition"] == name]
        own = _choose([row for row in some if row["split"] == "choose"])
        for method in own.keys() & section.keys():
            reported = [row for row in some if row["split"] == "report" and row["method"] == method]
            section[method]["own"] = own[method]._asdict() | {"exact": round(exact(own[method], reported), 4)}


def _find_margin(rows: list[Record]) -> Record:
    """The larger share of `removed` and `alone`: the smallest of a source, and the largest of another sentence.

    Only of questions with a source.
    """
    shares: dict[bool, list[float]] = {True: [], False: []}
    for row in (row for row in rows if row["sources"] and "raw" in row):
        for sentence, *nats in row["raw"]:
            share = max((value for value in nats if value is not None), default=0.0) / row["total"]
            shares[sentence in row["sources"]].append(share)
    if not shares[True]:
        return {}
    return {
        "questions": len({(row["question"], row["condition"]) for row in rows if row["sources"]}),
        "smallest_of_sources": round(min(shares[True]), 3),
        "largest_of_others": round(max(shares[False]), 3),
        "others_above_smallest": sum(share >= min(shares[True]) for share in shares[False]),
    }


def name_condition(row: Record) -> str:
    """As in the docs."""
    names = [f"{row['copies']} more mentions"] if row["copies"] else []
    names += [f"{row['others']} other collections"] if row["others"] else []
    return ", ".join(names) or "as they are"


def _choose(rows: list[Record]) -> dict[str, Threshold]:
    return {
        method: choose_threshold(own) for (method,), own in group_by(rows, "method").items() if "cited" not in own[0]
    }


def _summarize_condition(rows: list[Record], chosen: dict[str, Threshold]) -> Record:
    judged = {
        method: {(row["question"], row["condition"]): _judge_row(row, chosen.get(method)) for row in own}
        for (method,), own in group_by(rows, "method").items()
    }
    summary: Record = {}
    for (method,), own in group_by(rows, "method").items():
        results = judged[method]
        names = ("exact", "precision", "recall", "from_documents_right", "recall_at_k")
        described = {name: describe(result.get(name) for result in results.values()) for name in names}
        for name in ("forward_passes", "tokens", "core_seconds", "sentences"):
            described[name] = describe(row.get(name) for row in own)
        if "cited" not in own[0]:
            best = choose_threshold(own)
            described["best"] = best._asdict() | {"exact": round(exact(best, own), 4)}
        if method != OURS:
            described["cite_minus_this"] = _differences(judged.get(OURS, {}), results)
        summary[method] = {name: value for name, value in described.items() if value.get("count") != 0}
    return summary


def _judge_row(row: Record, threshold: Threshold | None) -> Record:
    cited = row.get("cited")
    if cited is None:
        if threshold is None:  # nothing was measured on the split that chooses
            return {}
        cited = threshold.select(row["scores"])
    return judge(set(cited), set(row["sources"]), row["scores"])


def _differences(ours: dict[tuple[str, str], Record], theirs: dict[tuple[str, str], Record]) -> Record:
    """Means of paired differences, on the questions that both answered."""
    pairs = [(ours[key], theirs[key]) for key in theirs if key in ours]
    return {
        name: describe(
            own[name] - other[name] for own, other in pairs if own.get(name) is not None and other.get(name) is not None
        )
        for name in ("exact", "precision", "recall", "from_documents_right")
    }
