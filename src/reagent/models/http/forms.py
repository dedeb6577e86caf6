"""What is sent: a prompt as token ids or as text, or the messages of a chat."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from reagent.models.http.vocabulary import Pieces, Vocabulary

NEXT_WORD = "Here is the beginning of a text. Answer with the one word that comes next, and nothing else.\n\n"


class Form(Protocol):
    """How a sequence of ids becomes a request."""

    @property
    def path(self) -> str: ...

    def body(self, ids: Sequence[int], new: int, top: int) -> dict[str, Any]:
        """What asks for `new` tokens after `ids`, and for the `top` likeliest at each."""
        ...

    def guess(self, ids: Sequence[int], top: int) -> dict[str, Any]:
        """What asks which tokens may follow `ids`, wherever these end."""
        ...


@dataclass(frozen=True)
class Completion:
    """The prompt of a completion."""

    model: str
    vocabulary: "Vocabulary"
    by_ids: bool
    extra: dict[str, Any] = field(default_factory=dict)  # what this server needs besides
    path = "completions"

    def body(self, ids: Sequence[int], new: int, top: int) -> dict[str, Any]:
        prompt = list(ids) if self.by_ids else self.vocabulary.text(ids)
        return {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": new,
            "temperature": 0,
            "logprobs": top,
            **self.extra,
        }

    def guess(self, ids: Sequence[int], top: int) -> dict[str, Any]:
        return self.body(ids, 1, top)


@dataclass(frozen=True)
class Conversation:
    """The messages of a chat. A message begins with its role, which is a token of its own; the last is the answer's."""

    model: str
    pieces: "Pieces"
    limit: str = "max_tokens"  # newer servers call it max_completion_tokens
    path = "chat/completions"

    def body(self, ids: Sequence[int], new: int, top: int) -> dict[str, Any]:
        messages = self._messages(ids)
        continued: dict[str, Any] = {}
        if messages[-1]["content"]:
            continued = {"add_generation_prompt": False, "continue_final_message": True}
        else:
            messages.pop()
        return self._request(messages, new, top) | continued

    def guess(self, ids: Sequence[int], top: int) -> dict[str, Any]:
        """Inside a message nobody can ask a chat model for the next token; it can be asked for the next word."""
        if self.pieces.answer in ids:
            return self.body(ids, 1, top)
        left = self._messages(ids)[-1]["content"]
        return self._request([{"role": "user", "content": NEXT_WORD + left}], 1, top)

    def _request(self, messages: list[dict[str, str]], new: int, top: int) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": messages,
            self.limit: new,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": top,
        }

    def _messages(self, ids: Sequence[int]) -> list[dict[str, str]]:
        messages: list[dict[str, str]] = []
        for i in ids:
            if i in self.pieces.roles:
                messages.append({"role": self.pieces.roles[i], "content": ""})
            else:
                messages[-1]["content"] += self.pieces.text([i])
        return messages
