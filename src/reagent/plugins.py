"""Extensions that other packages register as entry points: methods, replacers, metrics, models, datasets."""

from importlib.metadata import entry_points
from typing import Any

from reagent.errors import InputError


def plugin_names(group: str) -> list[str]:
    """The names that installed packages register in `reagent.<group>`, sorted."""
    return sorted({entry.name for entry in entry_points(group=f"reagent.{group}")})


def load_plugin(group: str, name: str) -> Any | None:
    """The object that an installed package registers under `name`, or None."""
    for entry in entry_points(group=f"reagent.{group}", name=name):
        try:
            return entry.load()
        except Exception as error:
            owner = entry.dist.name if entry.dist else "unknown package"
            raise InputError(f"the {group} plugin {name!r} of {owner} cannot be loaded: {error}") from error
    return None
