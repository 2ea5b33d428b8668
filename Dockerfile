# The dashboard and the wheel are built here, with all development tools; nothing else of this gets any further.
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN make setup && .venv/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheel .

FROM python:3.11-slim
# LightGBM links libgomp.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY requirements-run.lock /
RUN pip install --no-cache-dir --require-hashes --no-deps --requirement /requirements-run.lock
COPY --from=build /wheel /wheel
RUN pip install --no-cache-dir --no-deps /wheel/*.whl
# Files that are mounted for it, such as boards' tokens, belong to the user 1000, and can be for it alone.
RUN useradd --create-home --uid 1000 tilefleet && install -d -o tilefleet -m 700 /data
USER tilefleet
WORKDIR /data
ENV TILEFLEET_HOME=/data
VOLUME /data
EXPOSE 8470
# Every interface of the container; what is published of it is the host's choice.
CMD ["tilefleet", "up", "--host", "0.0.0.0"]
