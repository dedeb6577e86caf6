"""Models behind an HTTP API of which only probabilities are visible: vLLM, llama.cpp, TGI, hosted ones.

connection.py   where the server is and how to talk to it: the options a person has, and the key
client.py       the connection pool: concurrency, rate limit, timeouts, retries
store.py        replies that were paid for, kept
replies.py      the forms in which servers report log-probabilities, as one
abilities.py    what this server can do, found out with a few small requests
forms.py        what is sent: token ids, text, or the messages of a chat
codecs.py       between text and the model's ids, by a tokenizer here or on the server
vocabulary.py   what a token is: the model's own, or a piece of text such as a word
ways.py         two ways to the log-probability of a target: the echoed prompt, or the next token
censoring.py    a target that is not among the tokens listed
parts.py        the endpoints, each with its form, its tokens and its way
model.py        the model itself
inspecting.py   what the server can do, for people
rehearsal.py    what an explanation would take, without asking anything
"""

from reagent.models.http.config import Connection
from reagent.models.http.model import HttpModel, connect

__all__ = ["Connection", "HttpModel", "connect"]
