"""How long so many tokens take: measured here in a few seconds, or by arithmetic for a GPU that is elsewhere."""

import time

import numpy as np

from reagent.bench.suite import Model
from reagent.models import bundled
from reagent.models._transformers import is_available_offline
from reagent.models.load import load_model

LENGTH, ROWS = 48, 32
GPU = 100e12  # operations per second that an A100 makes of its 312 · 10¹² in bfloat16 on batches like these


def speed(model: Model) -> float | None:
    """Tokens per second; None where the model would have to be fetched first."""
    if not (model.id in bundled.MODELS or is_available_offline(model.id, model.revision)):
        return None
    loaded = load_model(model.id, device=model.device, dtype=model.dtype, revision=model.revision)
    ids = np.asarray(loaded.case("one two three", " four").ids)
    sequences = np.random.default_rng(0).choice(ids, (ROWS, LENGTH))
    last = np.array([LENGTH - 1])
    loaded.score(sequences[:4], last, ids[:1])  # the first call has more to do
    begin = time.perf_counter()
    loaded.score(sequences, last, ids[:1])
    return ROWS * LENGTH / (time.perf_counter() - begin)


def hours_on_gpu(billions: float, tokens: float) -> float:
    """Two operations for each parameter and token."""
    return 2 * billions * 1e9 * tokens / GPU / 3600
