"""The terminal's table of an evaluation."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from reagent.evaluation import FLAGS, Evaluation, Result, Skipped, TargetResult
from reagent.views.evaluation import show
from views.samples import HOSTILE


def sample() -> Evaluation:
    return Evaluation(
        explanation={"method": {"id": "reagent", "preset": "fast"}, "completion": " Tokyo"},
        model={"id": "smollm2"},
        level="token",
        targets=(0,),
        results=(
            Result("soft_nc", "hellinger", True, 0.632, 0.0099, 0.267, 0.018, draws=224, random_draws=96),
            Result("sufficiency", "nats", False, 3.441, 0.162, 8.108, 0.683, draws=48, random_draws=16),
            Result("lds", "spearman", True, 0.815, 0.036, 0.010, 0.017, draws=128, random_draws=64),
            Result("ante", "found", True, 1.0, 0.0, 0.172, 0.0, draws=0, random_draws=0),
        ),
        skipped=(
            Skipped("pi_soft_ns", "needs eyes"),
            Skipped("pi_soft_nc", "needs eyes"),
            Skipped("no_d", "needs marks"),
        ),
        settings={"replacer": {"id": "self"}, "seed": 0},
        cost={"forward_passes": 1418, "seconds": 20.31},
    )


def render(evaluation: Evaluation, width: int = 80, **more: object) -> str:
    console = Console(file=io.StringIO(), width=width, **({"color_system": None} | more))
    show(evaluation, console)
    return console.file.getvalue()


def row(text: str, metric: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.strip().startswith(metric))


def test_every_number_has_direction_error_random_and_ratio() -> None:
    text = render(sample())
    assert " ".join(row(text, "soft_nc")) == "soft_nc Hellinger higher 0.632 ± 0.010 0.267 ± 0.018 2.4"
    assert row(text, "sufficiency")[2] == "lower"
    assert row(text, "lds")[-1] == "–"
    assert row(text, "ante") == ["ante", "found", "higher", "1.000", "0.172", "5.8"]
    assert "How faithful is reagent fast to smollm2 on ·Tokyo?" in text
    assert "1,418 forward passes, 20.3 s" in text
    assert max(map(len, text.splitlines())) <= 80


def test_skipped_metrics_are_listed_once_for_each_reason() -> None:
    text = render(sample())
    assert "skipped: pi_soft_ns, pi_soft_nc: needs eyes" in text
    assert "skipped: no_d: needs marks" in text


def test_flags_and_warnings_are_printed() -> None:
    flagged = Result("pi_soft_nc", "hellinger", True, 0.5, 0.1, 0.4, 0.1, 8, 8, flags=("too_few_positive",))
    targets = tuple(TargetResult(i, 0.5, 0.1, 0.4, 0.1, ("tied",) if i else ()) for i in range(3))
    several = Result("pi_soft_ns", "hellinger", True, 0.5, 0.1, 0.4, 0.1, 8, 8, flags=("tied",), targets=targets)
    text = render(replace(sample(), results=(flagged, several), warnings=("it was made on 'big'",)), width=300)
    assert f"! pi_soft_nc: {FLAGS['too_few_positive']}" in text
    assert f"! pi_soft_ns at 2 of 3 targets: {FLAGS['tied']}" in text
    assert "it was made on 'big'" in text
    assert "pi_soft_nc !" in text


def test_a_sequence_level_title_has_the_number_of_tokens() -> None:
    text = render(replace(sample(), level="sequence", targets=(0, 5)), width=120)
    assert "sequence level, mean over 2 output tokens" in text


def test_an_empty_evaluation_has_a_message() -> None:
    assert "Nothing could be measured." in render(replace(sample(), results=()))


def test_hostile_text_stays_text() -> None:
    hostile = replace(
        sample(),
        explanation={"method": {"id": HOSTILE}, "completion": HOSTILE},
        model={"id": HOSTILE},
        skipped=(Skipped("x", HOSTILE),),
        warnings=(HOSTILE,),
    )
    text = render(hostile)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]" in text


@pytest.mark.parametrize("width", [20, 40, 200])
def test_any_width_works(width: int) -> None:
    assert "soft" in render(sample(), width=width)


def test_an_ascii_terminal_gets_ascii() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii"), width=80)
    show(sample(), console)
    console.file.flush()
    assert b"0.632" in raw.getvalue()


def test_numbers_of_any_size_are_printed() -> None:
    large = Result("comprehensiveness", "nats", True, 1234.5, 3.2, 0.001, 1e-9, draws=2, random_draws=2)
    text = render(replace(sample(), results=(large,)))
    assert "1234.500" in text
    assert math.isfinite(large.ratio)
