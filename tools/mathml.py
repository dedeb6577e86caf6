"""A Markdown extension: `$…$` and blocks of `$$ … $$` become MathML, which browsers draw without scripts or fonts."""

import re
from typing import Any

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor

INLINE = r"(?<![\\$\w])\$(?=\S)([^$\n]+?)(?<=\S)\$(?![\w$])"
BLOCK = re.compile(r"^( *)\$\$\n(.+?)\n *\$\$$", re.MULTILINE | re.DOTALL)


class MathExtension(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802, a name of Markdown
        md.preprocessors.register(BlockMath(md), "mathml-block", 24)  # after fenced code
        md.inlinePatterns.register(InlineMath(INLINE, md), "mathml", 185)  # after inline code, before emphasis


class BlockMath(Preprocessor):
    def run(self, lines: list[str]) -> list[str]:
        return BLOCK.sub(self._store, "\n".join(lines)).split("\n")

    def _store(self, match: re.Match[str]) -> str:
        return match[1] + self.md.htmlStash.store(f'<div class="math">{to_mathml(match[2], "block")}</div>')


class InlineMath(InlineProcessor):
    def handleMatch(self, match: re.Match[str], data: str) -> tuple[str, int, int]:  # type: ignore[override]  # noqa: ARG002, N802
        return self.md.htmlStash.store(to_mathml(match[1], "inline")), match.start(0), match.end(0)


def to_mathml(formula: str, display: str) -> str:
    """With usual spaces at functions and bars, and a set difference that the usual fonts have."""
    text = convert(formula, display=display).replace("&#x029F5;", "&#x02216;")
    text = text.replace("<mo>&#x0007C;</mo>", '<mo lspace="0" rspace="0">&#x0007C;</mo>')
    return re.sub(r"<mi>(log|logit|var|max)</mi>", r'\g<0><mspace width="0.17em"/>', text)


def makeExtension(**options: Any) -> MathExtension:  # noqa: N802, a name of Markdown
    return MathExtension(**options)
