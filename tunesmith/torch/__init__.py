"""A backend of ``torch.compile``: ``torch.compile(net, backend="tunesmith")``, or :func:`tunesmith.torch.backend`.

>>> fast = torch.compile(net.eval(), backend=tunesmith.torch.backend(tune=120))     # doctest: +SKIP
>>> with torch.no_grad():                                                           # doctest: +SKIP
...     fast(images)
"""

from __future__ import annotations

from tunesmith.torch.dynamo import Backend, backend, compile_graph

__all__ = ["Backend", "backend", "compile_graph"]
