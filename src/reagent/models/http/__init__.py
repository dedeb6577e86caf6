"""Models behind an HTTP API that returns only probabilities: vLLM, llama.cpp, TGI, hosted services.

model.py           the model itself
config.py          the address of a server, the key, and the options of the connection
body.py            bodies of responses within limits
client.py          connection pool, rate limit, timeouts, retries
response_cache.py  a cache of responses
responses.py       the different formats of log-probabilities, parsed into one
capabilities.py    the capabilities of a server, detected with a few small requests
tokenizers.py      tokenizers on this machine or on the server
vocabulary.py      what a token is: the model's own, or a piece of text such as a word
endpoints.py       the endpoints, each with the format of its requests, its vocabulary and its scorer
greedy.py          scores from the model's own answer, for chats that do not continue an unfinished one
scoring.py         scores from the echoed prompt or from next tokens, and censored targets
"""

from reagent.models.http.config import ServerOptions
from reagent.models.http.model import HttpModel, connect

__all__ = ["HttpModel", "ServerOptions", "connect"]
