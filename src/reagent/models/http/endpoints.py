"""The endpoints of a server, each with what is sent to it, what its tokens are, and how it is asked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reagent.errors import ServerError
from reagent.models.cache import say
from reagent.models.http.capabilities import Completions, Server, find_chat
from reagent.models.http.client import Client
from reagent.models.http.forms import Completion, Conversation, Form
from reagent.models.http.responses import Listed, read_with_logprobs
from reagent.models.http.scoring import EchoScorer, NextTokenScorer, Scorer
from reagent.models.http.tokenizers import LocalCodec, ServerCodec
from reagent.models.http.vocabulary import Pieces, Tokens, Vocabulary
from reagent.models.tokens import Span
from reagent.segmentation import split_words

BY_WORDS = "words, since the server does not tell its tokens"


@dataclass(frozen=True)
class Endpoint:
    """One endpoint: what is sent to it, what its tokens are, and how it is asked."""

    form: Form
    vocabulary: Vocabulary
    way: Scorer
    first_only: bool = False  # a chat that does not continue an answer: only its first token can be asked for


def completing(client: Client, server: Server, able: Completions, codec: LocalCodec | None) -> Endpoint:
    """The endpoint for completions, with the best tokens there are."""
    if codec is not None:
        tokens: Vocabulary = Tokens(codec, f"of the tokenizer {client.connection.tokenizer}")
    elif server.tokenizes:
        tokens = Tokens(ServerCodec(client, server.model, _whole(client, server, able)), "of the server")
    else:
        return _by_text(client, server, able)
    extra = {"return_tokens_as_token_ids": True} if able.names_ids else {}
    form = Completion(server.model, tokens, able.takes_ids, extra)
    if not able.echo:
        return Endpoint(form, tokens, NextTokenScorer(client, form, tokens, able.top, able.bias))
    by = able.echo if able.takes_ids else "echo"
    return Endpoint(form, tokens, EchoScorer(client, form, tokens, by, able.top))


def _by_text(client: Client, server: Server, able: Completions) -> Endpoint:
    """Pieces of text: the server's own tokens where it echoes them, else words."""

    def cut(text: str) -> Sequence[Span]:
        return way.cut(text) if isinstance(way, EchoScorer) else split_words(text)

    def cut_target(ids: Sequence[int], target: str) -> Sequence[str]:
        if isinstance(way, NextTokenScorer):
            return _by_prefixes(way, pieces, target, ids)
        text, begin = pieces.text(ids) + target, len(pieces.text(ids))
        return [text[max(a, begin) : b] for a, b in way.cut(text) if b > begin]

    pieces = Pieces(cut, cut_target, "of the server, by their text" if able.echo else BY_WORDS)
    form = Completion(server.model, pieces, by_ids=False)
    way = (
        EchoScorer(client, form, pieces, "echo", able.top)
        if able.echo
        else NextTokenScorer(client, form, pieces, able.top)
    )
    if not able.echo:
        say(f"{client.address.root} does not tell its tokens: the prompt is explained by words; --tokenizer names one")
    return Endpoint(form, pieces, way)


def chatting(client: Client, server: Server, codec: LocalCodec | None) -> Endpoint:
    """The endpoint for chats: pieces of text in messages."""
    able = find_chat(client, server.model)
    if able is None:
        raise ServerError(
            f"{client.address.api} reports no log-probabilities, neither for completions nor for chats: "
            "they are all that an explanation needs, but it needs them"
        )
    known = codec if codec is not None else ServerCodec(client, server.model) if server.tokenizes else None

    def cut(text: str) -> Sequence[Span]:
        return (
            split_words(text) if known is None else [(a, b) for a, b in known.encode(text, special=False)[1] if a < b]
        )

    def cut_target(ids: Sequence[int], target: str) -> Sequence[str]:
        return _by_prefixes(way, pieces, target, ids)

    about = BY_WORDS if known is None else "pieces of text, as the tokenizer cuts them"
    pieces = Pieces(cut, cut_target, about, respaced=True)
    form = Conversation(server.model, pieces, able.limit)
    way = NextTokenScorer(client, form, pieces, able.top)
    return Endpoint(form, pieces, way, first_only=not able.continues)


def _by_prefixes(way: NextTokenScorer, pieces: Pieces, target: str, ids: Sequence[int]) -> list[str]:
    """The target as the server may have said it: at each step the longest listed token that it begins with.

    What is not listed at all is taken word by word, and then is censored.
    """
    found: list[str] = []
    while left := target[sum(map(len, found)) :]:
        context = [*ids, *(i for token in pieces.in_a_row(found) for i in token.ids)]
        begins = [entry.text for entry in way.next_tokens(context) if entry.text and left.startswith(entry.text)]
        if not begins:
            return found + [left[a:b] for a, b in split_words(left)]
        found.append(max(begins, key=len))
    return found


def _whole(client: Client, server: Server, able: Completions) -> Callable[[], Sequence[Listed]] | None:
    """How to get the whole vocabulary in one request, on a server that lists as many tokens as it is asked for."""
    size = server.vocabulary
    if size is None or not able.tells_ids or able.top < client.connection.top:
        return None

    def ask() -> Sequence[Listed]:
        body = {"model": server.model, "prompt": "a", "max_tokens": 1, "temperature": 0, "logprobs": size}
        (reply,) = client.ask("completions", [body], read_with_logprobs)
        return reply.places[0].top

    return ask
