"""``python -m services.coordinator``."""

from __future__ import annotations

import sys

from services.coordinator.main import main

sys.exit(main())
