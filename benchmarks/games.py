"""Are importances close to exact Shapley values? All subsets of 8 to 10 words or sentences, and planted truths.

    python benchmarks/games.py --split report --out games.jsonl > docs/benchmarks/games.json

The value of a subset is the log-probability of the target when all other units are deleted. All subsets of a prompt
are scored once and stored in the cache folder; every method reads from them. Planted truths are functions with known
Shapley values (OR, AND, XOR, two of three, OR of ANDs) of 10 or 40 units, with and without noise. Every (game, method,
passes, seed) is one line of the file --out, and a rerun skips what is there. Prints JSON.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from game_prompts import SENTENCES, WORDS
from peers import Peers, Value
from planted_games import planted_games
from records import Record, Records, add_earlier, describe, errors, group_by
from scipy.stats import spearmanr
from value_models import ValueModel

import reagent
from reagent.atomic_io import atomic_write
from reagent.case import Case, Floats, Mask
from reagent.methods.exact import Exact, games_of_targets, shapley_values
from reagent.methods.lime import Lime
from reagent.methods.reagent_fast import ReagentFast
from reagent.methods.shapley import Shapley
from reagent.models.base import Model
from reagent.models.cache import cache_folder
from reagent.replacers.base import no_proposals
from reagent.segmentation import UNITS, assign

PASSES = (32, 64, 128)
SPLITS = ("choose", "report")
TIE = 1e-6


@dataclass
class Game:
    """A function of subsets, its exact Shapley values, and the number of subsets that were asked for."""

    name: str
    kind: str
    units: int
    function: Value
    truth: Floats
    evaluations: int = 0

    def value(self, kept: Mask) -> Floats:
        self.evaluations += len(kept)
        return self.function(kept)


# --- games on the model ---


def model_games(model: Model, split: str) -> Iterator[Game]:
    for kind, prompts in (("word", WORDS), ("sentence", SENTENCES)):
        for prompt, target in prompts[split].items():
            values = np.array(_stored(model, prompt, target, kind))
            units = len(values).bit_length() - 1
            bits = 1 << np.arange(units)
            yield Game(
                prompt, kind, units, lambda kept, values=values, bits=bits: values[kept @ bits], shapley_values(values)
            )


def _stored(model: Model, prompt: str, target: str, unit: str) -> list[float]:
    """The values of all subsets of the units."""
    folder = cache_folder() / "benchmarks" / "games"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{_file_name(prompt)}-{unit}-{_file_name(str(model.info['id']))}.json"
    if not path.is_file():
        print(f"scoring all subsets of {prompt!r}", file=sys.stderr)
        case = _grouped(model.case(prompt, target), unit).with_logprobs(model)
        free, values = Exact().measure_game(model, case, no_proposals(case), np.random.default_rng(0))
        game = games_of_targets(values, case, free)[0]
        content = {"prompt": prompt, "target": target, "values": game.tolist()}
        atomic_write(path, json.dumps(content))
    return list(json.loads(path.read_text())["values"])


def _grouped(case: Case, unit: str) -> Case:
    """The case with words or sentences as units."""
    tokens = [(token.start, token.end) for token in case.input]
    return case.grouped(assign(tokens, UNITS[unit](case.prompt), case.prompt))


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text)[-60:]


# --- methods ---


class TooFewPassesError(Exception):
    """A method that needs more passes."""


Estimator = Callable[[Game, int, int], Floats]  # game, passes, seed → [units]


def ours(make: Callable[[Game, int], Any], row: str) -> Estimator:
    """A method of this package; `row` is the field of the attribution that estimates Shapley values.

    Scores are never negative: of more than twelve units, those without a score are ordered by their effects, as by
    `Explanation.top`.
    """

    def estimate(game: Game, passes: int, seed: int) -> Floats:
        model = ValueModel(game.units, game.value)
        case = model.case().with_logprobs(model)
        attribution = make(game, passes).attribute(model, case, no_proposals(case), np.random.default_rng(seed))
        if row == "scores" and attribution.shapley_values is not None:
            return np.asarray(attribution.shapley_values[0])[1:]
        values, effects = (np.asarray(rows[0])[1:] for rows in (getattr(attribution, row), attribution.effects))
        return values + TIE * effects / max(np.abs(effects).max(), TIE)  # the first token is protected

    return estimate


def make_shapley(game: Game, passes: int) -> Shapley:
    pairs = passes // (2 * game.units - 1)
    if not pairs:
        raise TooFewPassesError(f"a permutation and its reverse take {2 * game.units - 1} passes")
    return Shapley(permutations=2 * pairs, removal="delete")


def peer(peers: Peers, environment: str, method: str) -> Estimator:
    def estimate(game: Game, passes: int, seed: int) -> Floats:
        if "Sampling" in method and passes < game.units:
            raise TooFewPassesError(f"a permutation takes {game.units} passes")
        job = {"method": method, "units": game.units, "passes": passes, "seed": seed}
        return np.array(peers.ask(environment, job, game.value)["scores"])

    return estimate


def methods(peers: Peers) -> dict[str, Estimator]:
    return {
        "reagent fast": ours(lambda _, passes: ReagentFast(probes=passes), "scores"),
        "shapley sampling (delete)": ours(make_shapley, "effects"),
        "lime (delete)": ours(lambda _, passes: Lime(samples=passes, removal="delete"), "effects"),
        "half deletion, LASSO": peer(peers, "scikit-learn", "lasso"),
        "captum ShapleyValueSampling": peer(peers, "scikit-learn", "captum ShapleyValueSampling"),
        "captum KernelShap": peer(peers, "scikit-learn", "captum KernelShap"),
        "shapiq KernelSHAP": peer(peers, "shapiq", "shapiq KernelSHAP"),
        "shapiq ProxySPEX": peer(peers, "shapiq", "shapiq ProxySPEX"),
    }


# --- measurement ---


def measure(game: Game, estimator: Estimator, passes: int, seed: int) -> Record:
    """Correlations with the exact values; also of the positive parts, because scores are never negative."""
    game.evaluations = 0
    values = estimator(game, passes, seed)
    values = np.round(values / max(np.abs(values).max(), 1e-12), 8)  # rounding errors are not an order
    return {
        "units": game.units,
        "evaluations": game.evaluations,
        "top": found_at_the_top(values, game.truth),
        **correlations(values, game.truth, ""),
        **correlations(np.maximum(values, 0.0), np.maximum(game.truth, 0.0), "_positive"),
        "values": np.round(values, 4).tolist(),
        "truth": np.round(game.truth, 4).tolist(),
    }


def found_at_the_top(values: Floats, truth: Floats) -> float:
    """The share of the causes (or of the three most important units) among that number of highest estimates."""
    count = int((truth != 0).sum()) if (truth == 0).any() else 3
    largest = np.argsort(-truth, kind="stable")[:count]
    return float(np.isin(np.argsort(-values, kind="stable")[:count], largest).mean())


def correlations(values: Floats, truth: Floats, suffix: str) -> dict[str, float]:
    """Spearman's and Pearson's correlation; 0 for an estimate that is equal for all units."""
    if np.ptp(values) < 1e-12:
        return {f"spearman{suffix}": 0.0, f"pearson{suffix}": 0.0}
    return {
        f"spearman{suffix}": round(float(spearmanr(values, truth).statistic), 4),
        f"pearson{suffix}": round(float(np.corrcoef(values, truth)[0, 1]), 4),
    }


def run(arguments: argparse.Namespace, records: Records) -> None:
    games: list[Game] = []
    if arguments.games in ("model", "all"):
        games += islice(model_games(reagent.load_model(arguments.model), arguments.split), arguments.limit)
    if arguments.games in ("planted", "all"):
        seeds = range(arguments.seeds) if arguments.split == "report" else range(100, 100 + arguments.seeds)
        games += [Game(*fields) for fields in planted_games(seeds)][: arguments.limit]
    peers = Peers()
    estimators = {
        name: estimator
        for name, estimator in methods(peers).items()
        if arguments.methods is None or any(name.startswith(one.strip()) for one in arguments.methods.split(";"))
    }
    for number, game in enumerate(games, 1):
        for name, estimator in estimators.items():
            for passes in PASSES:
                for seed in range(arguments.repeats):
                    key = {"split": arguments.split, "kind": game.kind, "game": game.name, "passes": passes}
                    records.add(
                        key | {"method": name, "seed": seed},
                        lambda game=game, estimator=estimator, passes=passes, seed=seed: measure(
                            game, estimator, passes, seed
                        ),
                        retry=arguments.retry,
                        redo=arguments.redo,
                    )
        print(f"{number}/{len(games)} {game.kind}: {game.name}", file=sys.stderr)
    peers.close()


def summarize(rows: list[Record]) -> Record:
    """For each split, kind of game, number of passes and method: means over the games, and over seeds of a game."""
    summary: Record = {"errors": errors(rows, "split", "kind", "method", "passes")}
    good = [row for row in rows if "error" not in row]
    names = [f"{name}{suffix}" for suffix in ("", "_positive") for name in ("spearman", "pearson")]
    names += ["top", "evaluations"]
    for (split, kind, passes, method), own in group_by(good, "split", "kind", "passes", "method").items():
        table = summary.setdefault(split, {}).setdefault(kind, {}).setdefault(str(passes), {})
        games = group_by(own, "game").values()
        table[method] = {name: describe(np.mean([row[name] for row in game]) for game in games) for name in names}
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of records, *.jsonl")
    parser.add_argument("--split", choices=SPLITS, default="report")
    parser.add_argument("--games", choices=("model", "planted", "all"), default="all")
    parser.add_argument("--limit", type=int, help="only the first games of the model, and the first planted ones")
    parser.add_argument("--methods", help="only methods whose names start like this, separated by ';'")
    parser.add_argument("--seeds", type=int, default=3, help="positions of the causes in each planted truth")
    parser.add_argument("--repeats", type=int, default=5, help="seeds of each method for each game")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--retry", action="store_true", help="measure records of errors again")
    parser.add_argument("--redo", action="store_true", help="measure the chosen methods again, as after a change")
    parser.add_argument(
        "--earlier", type=Path, help="a summary with the numbers of methods that are not measured again"
    )
    parser.add_argument("--summary", action="store_true", help="only summarize the records")
    arguments = parser.parse_args()
    records = Records(arguments.out, ("split", "kind", "game", "passes", "method", "seed"))
    if not arguments.summary:
        run(arguments, records)
    summary = summarize(records.rows)
    if arguments.earlier:
        add_earlier(summary, arguments.earlier, levels=3)
    print(json.dumps(summary, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
