"""Extensions that other packages register as entry points: methods, replacers, metrics, models, datasets."""

import logging
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from typing import Any, TypeVar

from reagent.errors import InputError

logger = logging.getLogger(__name__)
GROUPS = ("methods", "replacers", "metrics", "models", "datasets")
T = TypeVar("T")


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


def instantiate(group: str, name: str, plugin: Any) -> Any:
    """An instance of a plugin that is registered as a class; other objects are returned as they are."""
    if not isinstance(plugin, type):
        return plugin
    try:
        return plugin()
    except Exception as error:
        raise InputError(f"{name!r} of {group} needs arguments, give an instance: {error}") from error


def find_all(names: Iterable[str], find: Callable[[str], T]) -> dict[str, T]:
    """Look up every name for a list; a plugin that cannot be loaded is left out with a warning."""
    found: dict[str, T] = {}
    for name in names:
        try:
            found[name] = find(name)
        except InputError as error:
            logger.warning("%s", error)
    return found
