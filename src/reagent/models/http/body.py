"""The body of a response: read within a limit of size, decompressed within the same limit, and parsed as JSON."""

import json
import re
import zlib
from typing import Any

import httpx2

ENCODINGS = ("gzip", "deflate")  # which can be decompressed in steps of bounded size
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class ResponseError(Exception):
    """A response that no server should send; to try again does not help."""


def read_body(response: httpx2.Response, limit: int) -> bytes:
    """The decompressed body, of at most `limit` bytes."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity", *ENCODINGS):
        raise ResponseError("compressed its response in a way that was not requested: only gzip and deflate are read")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in ENCODINGS else None  # gzip or zlib
    body = bytearray()
    for chunk in response.iter_raw():
        if decoder is None:
            body += chunk
        else:
            try:
                body += decoder.decompress(chunk, limit + 1 - len(body))
            except zlib.error as error:
                raise ResponseError("returned a damaged compressed response") from error
        if len(body) > limit:
            raise ResponseError(
                f"returned more than {limit >> 20} MB: the server is faulty, or the prompt is very long "
                "(allow more with --server megabytes=N)"
            )
    return bytes(body)


def parse_json(body: bytes) -> Any:
    """The value of a JSON text; ValueError if it is none."""
    try:
        data = json.loads(body)
        if _SURROGATE.search(body):
            json.dumps(data, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ResponseError("returned JSON that is nested too deeply: the server is faulty") from error
    except UnicodeEncodeError as error:
        raise ResponseError(
            "returned a text with a lone surrogate, which is not Unicode: the server is faulty"
        ) from error
    return data
