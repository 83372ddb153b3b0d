# The coordinator with the dashboard: no TVM, no compiler, no learning library.
FROM python:3.11-slim-bookworm

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

RUN groupadd --gid 10001 tunesmith \
    && useradd --uid 10001 --gid tunesmith --create-home --shell /usr/sbin/nologin tunesmith \
    && install -d -o tunesmith -g tunesmith /var/lib/tunesmith

WORKDIR /opt/tunesmith
COPY requirements/server.txt requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY tunesmith tunesmith
COPY db db
COPY services services
# The pins are constraints: of the whole server's list only what the coordinator needs is installed.
RUN pip install --constraint requirements/server.txt --editable ".[server]" \
    && python -m compileall -q tunesmith db services

USER 10001:10001
ENV TUNESMITH_DATA_DIR=/var/lib/tunesmith \
    TUNESMITH_HOST=0.0.0.0 \
    TUNESMITH_PORT=8700
VOLUME /var/lib/tunesmith
EXPOSE 8700
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8700/livez', timeout=4)"]
CMD ["python", "-m", "services.coordinator"]
