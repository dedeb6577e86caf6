"""A griffe extension: examples of docstrings become blocks of code on the page of the Python API."""

import re
from typing import Any

from griffe import Extension, Object

EXAMPLES = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)  # up to the next empty line


class DoctestFences(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLES.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
