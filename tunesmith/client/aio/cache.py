"""The part of the client that keeps texts for other programs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tunesmith.answers.cache import CacheEntryBody
from tunesmith.client.aio.transport import Transport
from tunesmith.errors import NotFound


class Cache:
    """A small store of texts by namespace and key, a user's own."""

    _transport: Transport

    async def cached(self, namespace: str, key: str) -> str | None:
        """The text under a key; None where there is none.

        Args:
            namespace: up to 60 letters, digits, dots, dashes and underscores.
            key: the same, up to 200.

        Raises:
            InvalidInput: a name that is none.
        """
        try:
            answer = await self._transport.get(f"/v1/cache/{namespace}/{key}")
        except NotFound:
            return None
        return CacheEntryBody.read(answer).value

    async def put_cached(self, namespace: str, key: str, value: str) -> None:
        """Keep a text of up to 65,536 characters, in the place of what is under the key.

        The oldest texts give way where they are too many for the server.

        Raises:
            InvalidInput: a name that is none, or too long a text.
        """
        await self._transport.request("PUT", f"/v1/cache/{namespace}/{key}", repeat=True, json={"value": value})

    async def delete_cached(self, namespace: str, key: str) -> None:
        """Forget a text. Raises NotFound."""
        await self._transport.request("DELETE", f"/v1/cache/{namespace}/{key}")

    def list_cached(self, namespace: str) -> AsyncIterator[CacheEntryBody]:
        """Every text of a namespace, the newest first, fetched page by page."""
        items = self._transport.items(f"/v1/cache/{namespace}", limit=200)
        return (CacheEntryBody.read(item) async for item in items)
