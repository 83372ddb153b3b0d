"""How large entries of the cache may be, and what their names consist of."""

from typing import Final

MAX_NAMESPACE: Final = 60
MAX_KEY: Final = 200
MAX_VALUE: Final = 65_536
"""Characters of a text."""
MAX_PAGE: Final = 2**21
"""Characters of the texts of a page, if it has more than one."""
NAMESPACE_PATTERN: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_NAMESPACE - 1}}}$"
KEY_PATTERN: Final = rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{MAX_KEY - 1}}}$"
