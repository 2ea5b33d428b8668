FROM python:3.11-slim
# LightGBM links libgomp.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 make && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.lock pyproject.toml PACKAGE.md LICENSE Makefile ./
COPY scripts scripts
COPY kernels kernels
COPY worker worker
COPY tuner tuner
COPY server server
COPY migrations migrations
COPY tilefleet tilefleet
COPY bench bench
COPY dashboard dashboard
RUN make setup
RUN useradd --create-home tilefleet && install -d -o tilefleet /data
USER tilefleet
ENV PATH=/app/.venv/bin:$PATH TILEFLEET_HOME=/data
VOLUME /data
EXPOSE 8470
# Every interface of the container; what is published of it is the host's choice.
CMD ["tilefleet", "up", "--host", "0.0.0.0"]
