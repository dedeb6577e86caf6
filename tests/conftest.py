"""Fixtures that several test files share."""

from pathlib import Path

import pytest
import torch

from reagent.models.base import Model
from reagent.models.huggingface import HuggingFaceModel
from reagent.models.load import load_model

torch.set_num_threads(1)  # tests run side by side, and tiny models gain nothing from more

PROMPT = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups first: they take minutes, and at the end one worker would wait for them."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.fixture(scope="session")
def prompt() -> str:
    """The prompt that demo, README and docs show; the embedded model answers " Tokyo"."""
    return PROMPT


@pytest.fixture(scope="session")
def smollm2() -> Model:
    """The real embedded model; the first run on a machine fetches it."""
    return load_model("smollm2")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny GPT-2, as the command line takes it."""
    import tiny

    folder = tmp_path_factory.mktemp("tiny-gpt2")
    tiny.network_of("gpt2").save_pretrained(folder)
    tiny.tokenizer_of("gpt2").save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Path) -> HuggingFaceModel:
    model = load_model(tiny_folder)
    assert isinstance(model, HuggingFaceModel)
    return model
