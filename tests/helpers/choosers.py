"""Objects of pools that answer questions in ways of their own."""

from __future__ import annotations

import os
import signal

from tunesmith.unmeasured import Answer
from workers.core.answering import Question
from workers.core.choosers import Chooser


class Crashing(Chooser):
    """Its process dies as often as it may compile candidates to read them, as LLVM's would."""

    def answer(self, question: Question) -> Answer:
        if question.read:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().answer(question)
