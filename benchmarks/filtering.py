"""How fast is the filter for LongRA examples that the model predicts? One by one, and in batches of equal length.

The examples have the most frequent length, so that batches are as full as in a run over the whole data set. Times are
CPU times of one core, which other work on the machine changes little.

python benchmarks/filtering.py                # prints JSON; about two minutes
python benchmarks/filtering.py --count 450    # instead: how many of 450 examples are kept, by relation
"""

import argparse
import json
import time
from collections import Counter, defaultdict
from dataclasses import replace
from statistics import median

import reagent
from reagent.data import Dataset, Example, keep_predicted, load_dataset, sample
from reagent.models.base import Model


def one_by_one(dataset: Dataset, model: Model) -> set[str]:
    """The same filter as a loop: the prompt first, and the prompt without its distractor only if that succeeds."""

    def predicts(prompt: str, target: str) -> bool:
        case = model.case(prompt, target)
        return bool(model.score(case.ids[None], case.positions[:1], case.targets[:1]).rank[0, 0] == 0)

    return {
        e.id for e in dataset.examples if predicts(e.prompt, e.target or "") and predicts(e.plain or "", e.target or "")
    }


def of_equal_length(dataset: Dataset, model: Model, count: int) -> Dataset:
    """A sample of the examples of the most frequent length."""
    lengths: defaultdict[int, list[Example]] = defaultdict(list)
    for example in dataset.examples:
        lengths[len(model.case(example.prompt, example.target).input)].append(example)
    return sample(replace(dataset, examples=tuple(max(lengths.values(), key=len))), count, seed=0)


def speed(model: Model, count: int, rounds: int) -> dict[str, object]:
    whole = of_equal_length(load_dataset("longra"), model, count)
    keep_predicted(sample(whole, 4, seed=1), model)  # warm-up: the first passes of a process are slow
    kept_single: set[str] = set()
    kept_batched: set[str] = set()
    rates: dict[str, list[float]] = {"one_by_one": [], "batched": []}
    for i in range(rounds):  # alternating, because the machine's speed drifts
        part = replace(whole, examples=whole.examples[i::rounds])
        begin = time.process_time()
        kept_single |= one_by_one(part, model)
        middle = time.process_time()
        kept_batched = {example.id for example in keep_predicted(whole, model).examples}
        end = time.process_time()
        rates["one_by_one"].append(60 * len(part) / (middle - begin))
        rates["batched"].append(60 * len(whole) / (end - middle))
    pairs = zip(rates["one_by_one"], rates["batched"], strict=True)
    return {
        "examples": len(whole),
        "kept_differently": len(kept_single ^ kept_batched),
        "examples_per_minute_of_one_core": {name: median(values) for name, values in rates.items()},
        "times_faster": median(after / before for before, after in pairs),
    }


def counts(model: Model, count: int) -> dict[str, object]:
    whole = sample(load_dataset("longra"), count, seed=0)
    kept = keep_predicted(whole, model)
    before, after = (Counter(example.group for example in which.examples) for which in (whole, kept))
    relations = {group: {"of": before[group], "kept": after[group]} for group in before}
    return {"examples": len(whole), "kept": len(kept), "relations": relations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--count", type=int)
    arguments = parser.parse_args()
    model = reagent.load_model("smollm2")
    counted = arguments.count is not None
    result = counts(model, arguments.count) if counted else speed(model, arguments.examples, arguments.rounds)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
