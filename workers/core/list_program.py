"""Write the program of a trial as text."""

from __future__ import annotations

import json
from dataclasses import asdict

from db.models import Listing
from db.queries import listings
from db.transactions.listings import finish
from tunesmith.messages import ListProgram
from tunesmith.types import Candidate
from workers.core.context import Context
from workers.core.leased import Lease, run_leased
from workers.tvm_backend.design_space.program_text import program_text
from workers.tvm_backend.design_space.sketch import SketchBody


def list_program(context: Context, message: ListProgram) -> bool:
    """The task ``tunesmith.list_program``."""

    def work(lease: Lease) -> None:
        with context.readers() as session:
            subject = listings.subject(session, message.listing_id)
        module = context.blobs.get_bytes(subject.module_blob)
        body = SketchBody.from_json(subject.body) if subject.body is not None else None
        decisions = Candidate.from_json([None, subject.decisions]).decisions
        with context.lease.shared():
            text = program_text(module, subject.target, body, decisions)
        blob = context.blobs.put_bytes(json.dumps(asdict(text)).encode())
        context.write(lambda session: finish(session, lease.hold(session), blob))

    timeout = context.settings.work_timeout
    return run_leased(context, Listing, message.listing_id, message.attempt, timeout, work)
