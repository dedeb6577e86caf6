"""Connections with deadlines: a client that is silent, or half silent, cannot keep others out.

uvicorn waits without end for the head of a request, and counts every connection against its limit. Here a connection
that waits for a head is closed after HEAD_TIMEOUT. If many wait at once, the one that has waited longest is closed.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_TIMEOUT = 10.0  # seconds from the connection, or from the last response, until a whole head has arrived
MAX_WAITING = 200  # connections without a request
MAX_CONNECTIONS = 700  # of all kinds; with the files of the service fewer than the usual limit of 1,024 open files


class Connection(H11Protocol):
    """A connection that is closed if no request arrives."""

    waiting_since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._expect_head()
        waiting = [one for one in self.connections if isinstance(one, Connection) and one.is_waiting]
        if len(waiting) > MAX_WAITING:
            min(waiting, key=lambda one: one.waiting_since).drop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        super().handle_events()
        if self.is_busy:
            self._stop_timer()

    def on_response_complete(self) -> None:
        self._expect_head()
        super().on_response_complete()  # this may begin the next request

    @property
    def is_busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def is_waiting(self) -> bool:
        return self._timer is not None

    def drop(self) -> None:
        """Close at once; data that the client does not read would keep the connection."""
        self._stop_timer()
        self.connections.discard(self)  # `connection_lost` is called later
        self.transport.abort()

    def _expect_head(self) -> None:
        self._stop_timer()
        self.waiting_since = self.loop.time()
        self._timer = self.loop.call_later(HEAD_TIMEOUT, self.drop)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
