"""A question over a long document: coarse to fine against plain token-level probes of the same budget.

    python benchmarks/documents.py --out docs/benchmarks/documents.json

prints the JSON too, and running it again goes on where it stopped. One sentence in the middle of about 2,000 tokens
answers the question; all text is our own. The document is explained, and the question below it stays as it is.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from prompts import FORTY_TWO

import reagent
from reagent.explanation import Explanation

WHO = ["the gardener", "our neighbour", "a young teacher", "the baker's son", "an old sailor", "the postwoman"]
DID = ["painted", "repaired", "sold", "measured", "cleaned", "photographed", "described", "borrowed"]
WHAT = ["a wooden bench", "the garden gate", "two old chairs", "the church bell", "a broken clock", "the long fence"]
WHERE = ["behind the mill", "near the harbour", "in the schoolyard", "on the market square", "by the railway line"]
WHEN = ["On Monday", "In early spring", "After the storm", "Before the festival", "One rainy morning", "Last autumn"]
ANSWER = "The spare key of the boathouse is hidden under the blue bucket."
QUESTION = "\n\nQuestion: Where is the spare key of the boathouse hidden?\nAnswer: It is hidden under the blue"
TARGET, KEY = " bucket", "bucket"


def document(sentences: int, seed: int = 0) -> str:
    """Sentences of everyday life in a village, with the answer in the middle."""
    everything = list(product(WHEN, WHO, DID, WHAT, WHERE))
    order = np.random.default_rng(seed).permutation(len(everything))
    told = [
        f"{when}, {who} {did} {what} {where}."
        for when, who, did, what, where in islice((everything[i] for i in order), sentences)
    ]
    told.insert(len(told) // 2, ANSWER)
    return " ".join(told)


def place(why: Explanation, text: str) -> int | None:
    """The rank of the first unit that contains `text`, from 1."""
    ranked = [row.token.text for row in why.top(len(why.input))]
    return next((i for i, unit in enumerate(ranked, 1) if text in unit), None)


def described(explain: Callable[[], Explanation]) -> tuple[Explanation, dict[str, Any]]:
    begin = time.process_time()
    why = explain()
    found: dict[str, Any] = {
        "forward_passes": why.cost.forward_passes,
        "seconds": why.cost.seconds,
        "core_seconds": round(time.process_time() - begin, 1),  # what other work on the machine changes least
        "key_word_at": place(why, KEY),
        "top": [row.token.text for row in why.top(3)],
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if why.levels:
        scores = why.levels[0].scores[0]
        best = max(range(len(why.levels[0].units)), key=lambda i: scores[i])
        found["first_sentence"] = why.levels[0].units[best].text
        found["score_of_first_sentence"] = scores[best]
    return why, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=131)
    parser.add_argument("--out", type=Path, default=Path("documents.json"))
    arguments = parser.parse_args()
    result: dict[str, Any] = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}

    def done(**found: Any) -> None:
        result.update(found)
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")

    model = reagent.load_model("smollm2")
    text = document(arguments.sentences)

    def explain(**how: Any) -> Explanation:
        return reagent.explain(model, text + QUESTION, target=TARGET, prompt_spans=[(0, len(text))], **how)

    if "short" not in result:
        done(short=described(lambda: reagent.explain(model, FORTY_TWO, max_new_tokens=1))[1])
    if "coarse to fine" not in result:
        why, found = described(lambda: explain(units=["sentence", "token"]))
        done(tokens=sum(len(unit.ids) for unit in why.input), probability=float(np.exp(why.output[0].logprob or 0)))
        done(**{"coarse to fine": found})
        done(passes_over_short=why.cost.forward_passes / result["short"]["forward_passes"])
    if "tokens only" not in result:
        probes = result["coarse to fine"]["forward_passes"] - 2
        done(**{"tokens only": described(lambda: explain(units=["token"], probes=probes))[1]})
    print(json.dumps(result))


if __name__ == "__main__":
    main()
