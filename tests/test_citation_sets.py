"""The benchmark of citations: thresholds of methods that only rank, and harder questions."""

import sys
from pathlib import Path
from typing import Any

import pytest

from reagent.data.passages import load_collections

FOLDER = Path(__file__).parents[1] / "benchmarks"
if not FOLDER.is_dir():
    pytest.skip("the benchmarks are not available", allow_module_level=True)
sys.path.append(str(FOLDER))
from citation_sets import Threshold, choose_threshold, exact, judge, summarize  # noqa: E402
from citations import REPEATED, repeat_sources, vary  # noqa: E402


def row(scores: list[float], sources: list[int], **more: Any) -> dict[str, Any]:
    return {"scores": scores, "sources": sources} | more


@pytest.mark.parametrize(
    ("rows", "reached"),
    [
        ([row([5.0, 1.0], [0]), row([1.5, 0.0], [])], 1.0),  # nats
        ([row([9.0, 2.0], [0]), row([1.0, 0.9], [0, 1])], 1.0),  # a share
        ([row([9.0, 2.0], [0]), row([1.0, 0.9], [0, 1]), row([0.4, 0.1], [])], 1.0),  # both
        ([row([9.0, 2.0], [0]), row([1.0, 0.9], [0, 1]), row([1.2, 0.1], [])], 2 / 3),
    ],
)
def test_the_best_threshold_is_found(rows: list[dict[str, Any]], reached: float) -> None:
    assert exact(choose_threshold(rows), rows) == pytest.approx(reached)


def test_a_threshold_needs_both_numbers() -> None:
    assert Threshold(1.0, 0.5).select([4.0, 2.0, 1.5, -3.0]) == {0, 1}
    assert Threshold(0.0, 0.0).select([0.0, -1.0]) == set()


def test_sets_are_judged() -> None:
    half = judge({0, 3}, {0, 1}, [5.0, 1.0, 0.0, 2.0])
    assert half == {"exact": 0, "from_documents_right": 1, "precision": 0.5, "recall": 0.5, "recall_at_k": 0.5}
    assert judge(set(), set(), [1.0]) == {"exact": 1, "from_documents_right": 1, "precision": None}
    assert judge({0}, set(), [1.0])["precision"] == 0


def test_a_method_is_judged_by_the_threshold_of_the_other_split() -> None:
    shared = {
        "kind": "one",
        "others": 0,
        "copies": 0,
        "forward_passes": 1,
        "tokens": 1,
        "core_seconds": 1.0,
        "sentences": 2,
    }
    rows = [
        row([5.0, 1.0], [0], split="choose", question="a", method="peer", **shared),
        row([9.0, 4.0], [0], split="report", question="b", method="peer", **shared),
        row([0.5, 0.0], [0], split="report", question="b", method="cite", cited=[0], **shared),
    ]
    peer = summarize(rows)["report"]["as they are"]["peer"]
    assert peer["exact"]["mean"] == 0  # the second sentence is above 3 nats
    assert peer["best"]["exact"] == 1
    assert peer["cite_minus_this"]["exact"]["mean"] == 1


def test_methods_are_compared_on_the_questions_that_all_answered() -> None:
    shared = {"split": "report", "others": 0, "copies": 0, "forward_passes": 1, "tokens": 1, "core_seconds": 1.0}
    shared |= {"sentences": 2, "total": 4.0, "raw": [[0, 3.0, 2.0], [1, None, 1.0]]}
    ours = [
        row([0.5, 0.0], [0], kind=kind, question=kind, method="cite", cited=[0], **shared) for kind in ("one", "known")
    ]
    peer = row([5.0, 1.0], [0], kind="one", question="one", method="peer", **shared)
    mask = row([0.5, 0.4], [0], kind="known", question="known", method="cite, removal mask", cited=[0, 1], **shared)
    found = summarize([*ours, peer, mask])
    assert found["report"]["as they are"]["cite"]["exact"]["count"] == 1
    assert list(found["by_kind"]) == ["one"]
    assert set(found["cite_alone"]["as they are"]) == {"one", "known", "all questions"}
    removals = found["removals"]["report"]
    assert (removals["cite"]["exact"]["mean"], removals["cite, removal mask"]["exact"]["mean"]) == (1, 0)
    assert found["margins"]["report"] == {
        "questions": 2,
        "smallest_of_sources": 0.75,
        "largest_of_others": 0.25,
        "others_above_smallest": 0,
    }


def test_facts_are_stated_again_and_other_documents_added() -> None:
    for collection in (c for c in load_collections("choose") if c.kind in REPEATED):
        more = repeat_sources(collection, 3)
        assert len(more.sources) == len(collection.sources) + 3
        assert {more.sentence(place) for place in more.sources} == {
            collection.sentence(place) for place in collection.sources
        }
        assert len(vary(collection, 2, 3).documents) == len(collection.documents) + 10
