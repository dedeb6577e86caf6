"""Facts that a prompt states once, twice or three times: which methods find all mentions, at equal passes?

    python benchmarks/repeated.py --split report --out repeated.jsonl > docs/benchmarks/repeated.json

Every (prompt, method) is one line of the file --out, and a rerun skips what is there; --part 1/2 and --part 2/2 share
the work between two processes with the same file. The splits `choose` and `develop` are for choosing options, `report`
and `blind` for reporting (repeated_prompts.py). Passes are counted as if no score had been read from the cache folder.
Seconds are those of runs that read nothing from it: --no-cache reads nothing. Prints JSON.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import captum.attr  # noqa: F401  so that its import is not timed
import numpy as np
from peers import Peers
from ranking_quality import measure_groups, measure_mentions, measure_removal, order_units, own_proposals
from records import Record, Records, add_earlier, describe, errors, group_by
from repeated_prompts import SPLITS, load_prompts
from value_models import CachedModel

import reagent
from reagent.case import Case, Floats, Ids, Mask
from reagent.data.base import Example
from reagent.models import bundled
from reagent.models.base import Model
from reagent.models.cache import cache_folder
from reagent.removal import Delete
from reagent.replacers.base import Proposals

FAST = "reagent fast"
MEANS = ("del", "keep", "rep", "all_in_top", "best_mention", "group_of_all", "false_groups", "sufficient")
COSTS = ("forward_passes", "tokens")
FEW_CACHED = 2  # passes that a timed run may read from the cache: the unchanged text


@dataclass(frozen=True)
class Question:
    """One prompt, and everything that methods need to explain it."""

    kind: str
    example: Example
    model: CachedModel
    folder: str  # of the model
    peers: Peers
    passes: int
    seed: int

    @cached_property
    def case(self) -> Case:
        return self.model.case(self.example.prompt, self.example.target).with_logprobs(self.model)

    @cached_property
    def proposals(self) -> Proposals:
        return own_proposals(self.model, self.case)

    @cached_property
    def free(self) -> Ids:
        return Delete(self.model, self.case).free

    def value(self, kept: Mask) -> Floats:
        """The log-probability of the target for subsets of the tokens."""
        return Delete(self.model, self.case).score(~kept).value[:, 0]


Answer = dict[str, Any]  # scores of all units of the prompt, optionally effects, groups, sufficient, cost
Method = Callable[[Question], Answer]


# --- methods of this package ---


def ours(method: str, preset: str | None = None, **options: Any) -> Method:
    def explain(question: Question) -> Answer:
        why = reagent.explain(
            question.model,
            question.example.prompt,
            target=question.example.target,
            method=method,
            preset=preset,
            replacer="self" if options.get("removal") == "replace" or preset == "leave-one-out" else "auto",
            seed=question.seed,
            **options,
        )
        sufficiency = why.sufficiency[0] if why.sufficiency else None
        return {
            "scores": why.scores[0],
            "effects": None if why.effects is None else why.effects[0],
            "groups": why.groups[0] if why.groups else None,
            "sufficient": None if sufficiency is None else sufficiency.passed,
        }

    return explain


def shapley_sampling(question: Question) -> Answer:
    """As many permutations as fit; a pair of them takes 2n − 1 passes."""
    pairs = max(1, question.passes // (2 * len(question.free) - 1))
    return ours("shapley", permutations=2 * pairs, removal="delete")(question)


# --- other packages ---


def peer(environment: str, method: str, share: float = 1.0) -> Method:
    """A method that asks for values of the deletion game."""

    def explain(question: Question) -> Answer:
        job = {"method": method, "units": len(question.free), "passes": round(share * question.passes)}
        answer = question.peers.ask(environment, job | {"seed": question.seed}, question.value)
        scores = np.full(len(question.case.input), -np.inf)
        scores[question.free] = answer["scores"]
        return {"scores": scores}

    return explain


def context_cite(question: Question) -> Answer:
    """The tokens of a word have its score."""
    job = {"method": "context-cite", "model": question.folder, "passes": question.passes}
    job |= {"prompt": question.example.prompt, "target": question.example.target}
    answer = question.peers.ask("context-cite", job)
    scores = np.full(len(question.case.input), -np.inf)
    for i, unit in enumerate(question.case.input):
        words = zip(answer["scores"], answer["words"], strict=True)
        scores[i] = max((s for s, (start, end) in words if unit.start < end and unit.end > start), default=-np.inf)
    return {"scores": scores, "cost": answer["cost"]}


def methods(passes: int) -> dict[str, Method]:
    return {
        FAST: ours("reagent", "fast", probes=passes),
        "reagent fast, until settled": ours("reagent", "fast"),
        "reagent leave-one-out": ours("reagent", "leave-one-out", probes=passes),
        "occlusion (delete)": ours("occlusion", removal="delete"),
        "lime (replace)": ours("lime", samples=passes, removal="replace"),
        "lime (delete)": ours("lime", samples=passes, removal="delete"),
        "shapley sampling (delete)": shapley_sampling,
        "half deletion, LASSO": peer("scikit-learn", "lasso"),
        "half deletion, LASSO, half the passes": peer("scikit-learn", "lasso", 0.5),
        "captum FeatureAblation": peer("scikit-learn", "captum FeatureAblation"),
        "captum ShapleyValueSampling": peer("scikit-learn", "captum ShapleyValueSampling"),
        "captum KernelShap": peer("scikit-learn", "captum KernelShap"),
        "shapiq KernelSHAP": peer("shapiq", "shapiq KernelSHAP"),
        "shapiq ProxySPEX": peer("shapiq", "shapiq ProxySPEX"),
        "context-cite": context_cite,
        "random": ours("random"),
    }


# --- measurement ---


def measure(question: Question, method: Method) -> Record:
    """The record of one method on one prompt."""
    model, case, free = question.model, question.case, question.free
    passes, tokens, cached = model.meter.forward_passes, model.meter.tokens, model.cached
    begin, started = time.perf_counter(), question.peers.start_seconds
    answer = method(question)
    seconds = time.perf_counter() - begin - (question.peers.start_seconds - started)
    cost = answer.get("cost") or {
        "forward_passes": model.meter.forward_passes - passes,
        "tokens": model.meter.tokens - tokens,
        "seconds": seconds if model.cached - cached <= FEW_CACHED else None,
    }
    scores, mentions = np.asarray(answer["scores"], dtype=np.float64), question.example.antecedent
    order = order_units(scores, answer.get("effects"), free)
    record = cost | {"cached_passes": model.cached - cached, "free_tokens": len(free)}
    record |= measure_removal(model, case, question.proposals, order)
    record |= measure_mentions(case, free, order, mentions)
    if answer.get("groups") is not None:
        record |= measure_groups(case, answer["groups"], mentions)
    record["sufficient"] = answer.get("sufficient")
    record["top"] = [case.units[free[i]].text for i in order[:8]]
    model.save()
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in record.items()}


def run(model: Model, folder: str, arguments: argparse.Namespace, records: Records) -> None:
    prompts = load_prompts(model, arguments.split, arguments.size)
    available = methods(arguments.passes)
    chosen = {name: available[name] for name in _choose_names(list(available), arguments.methods)}
    last = None if arguments.limit is None else arguments.skip + arguments.limit
    numbered = [
        (number, kind, e) for kind, some in prompts.items() for number, e in enumerate(some[arguments.skip : last])
    ]
    examples = [(kind, e) for _, kind, e in sorted(numbered, key=lambda one: one[0])]  # all kinds grow together
    part, parts = map(int, arguments.part.split("/"))
    peers, scores = Peers(), cache_folder() / "benchmarks" / "scores"
    scores.mkdir(parents=True, exist_ok=True)
    for number, (kind, example) in enumerate(examples[part - 1 :: parts], 1):
        path = scores / f"{example.id.replace('/', '_')}-{str(model.info['id']).rpartition('/')[2]}.json"
        cached = CachedModel(model, path, reads=not arguments.no_cache)
        question = Question(kind, example, cached, folder, peers, arguments.passes, arguments.seed)
        key = {"split": arguments.split, "kind": kind, "prompt": example.id, "passes": arguments.passes}
        for name, method in chosen.items():
            record = records.add(
                key | {"method": name, "seed": arguments.seed},
                lambda method=method, question=question: measure(question, method),
                retry=arguments.retry,
                redo=arguments.redo,
            )
            text = record.get("error") or f"{record['total_seconds']:.1f} s"
            print(f"{number}/{len(examples[part - 1 :: parts])} {example.id}: {name}: {text}", file=sys.stderr)
    peers.close()


def _choose_names(names: list[str], wanted: str | None) -> list[str]:
    """The names that were asked for: each in full, or else by its beginning."""
    parts = [""] if wanted is None else [one.strip() for one in wanted.split(";")]
    return [name for name in names if name in parts or any(name.startswith(p) for p in parts if p not in names)]


# --- summary ---


def summarize(rows: list[Record]) -> Record:
    """For each split, number of passes, kind and method: means with intervals, and differences from the fast preset."""
    summary: Record = {"errors": errors(rows, "split", "passes", "method")}
    good = [row for row in rows if "error" not in row]
    for (split, passes), some in group_by(good, "split", "passes").items():
        tables = {kind: of_kind for (kind,), of_kind in group_by(some, "kind").items()}
        tables["repeated"] = [row for row in some if row["kind"] != "once"]
        tables["all"] = list(some)
        summary[f"{split}, {passes} passes"] = {
            kind: {method: _describe(own, of_kind) for (method,), own in group_by(of_kind, "method").items()}
            for kind, of_kind in tables.items()
            if of_kind
        }
    return summary


def _describe(rows: list[Record], of_kind: list[Record]) -> Record:
    fast = {(row["prompt"], row["seed"]): row for row in of_kind if row["method"] == FAST}
    described = {name: describe(row.get(name) for row in rows) for name in (*MEANS, *COSTS, "seconds")}
    ranks = (row.get("best_mention") for row in rows)
    described["in_first_two"] = describe(None if rank is None else rank <= 2 for rank in ranks)
    described = {name: numbers for name, numbers in described.items() if numbers["count"]}
    pairs = [(row, fast[row["prompt"], row["seed"]]) for row in rows if (row["prompt"], row["seed"]) in fast]
    if rows[0]["method"] != FAST and pairs:
        described["minus_fast"] = {
            name: describe(row[name] - best[name] for row, best in pairs) for name in ("del", "keep", "rep")
        }
    return described


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--passes", type=int, default=128)
    parser.add_argument("--size", type=int, default=15, help="prompts of each kind")
    parser.add_argument(
        "--skip", type=int, default=0, help="leave out the first prompts of each kind, as those seen before"
    )
    parser.add_argument("--limit", type=int, help="only this number of prompts of each kind")
    parser.add_argument("--methods", help="only these methods, or those whose names start like this, separated by ';'")
    parser.add_argument("--part", default="1/1", help="2/3: every third prompt, from the second on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--no-cache", action="store_true", help="compute all scores, to measure seconds")
    parser.add_argument("--retry", action="store_true", help="measure records of errors again")
    parser.add_argument("--redo", action="store_true", help="measure the chosen methods again, as after a change")
    parser.add_argument(
        "--earlier", type=Path, help="a summary with the numbers of methods that are not measured again"
    )
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("split", "kind", "prompt", "passes", "method", "seed"))
    if not arguments.summary:
        folder = str(bundled.fetch(arguments.model) if arguments.model in bundled.MODELS else arguments.model)
        run(reagent.load_model(arguments.model), folder, arguments, records)
    summary = summarize(records.rows)
    if arguments.earlier:
        add_earlier(summary, arguments.earlier, levels=2)
    print(json.dumps(summary, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
