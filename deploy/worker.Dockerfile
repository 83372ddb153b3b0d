# Every worker: core (ingest, search, train, record), measure, the RPC tracker and a device's RPC server.
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

# g++ links what is built; libgomp1 is the OpenMP runtime of the cost models.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ libgomp1 \
    && rm -rf /var/lib/apt/lists/*

RUN groupadd --gid 10001 tunesmith \
    && useradd --uid 10001 --gid tunesmith --create-home --shell /usr/sbin/nologin tunesmith \
    && install -d -o tunesmith -g tunesmith /var/lib/tunesmith /run/tunesmith

WORKDIR /opt/tunesmith
COPY requirements/server.txt requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY tunesmith tunesmith
COPY costmodels costmodels
COPY db db
COPY workers workers
COPY deploy/healthcheck.py deploy/healthcheck.py
RUN pip install --constraint requirements/server.txt --editable ".[worker]" \
    && python -m compileall -q tunesmith costmodels db workers

USER 10001:10001
ENV TUNESMITH_DATA_DIR=/var/lib/tunesmith \
    TUNESMITH_LEASE_FILE=/run/tunesmith/host.lease
VOLUME ["/var/lib/tunesmith", "/run/tunesmith"]
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "deploy/healthcheck.py"]
CMD ["tunesmith", "worker", "--queues", "ingest,search,train,record"]
