"""x"""

from reagent.testing.scripted import ScriptedModel

__all__ = ["ScriptedModel"]
