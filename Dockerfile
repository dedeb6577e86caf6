# `reagent serve` for other machines, as a user without rights and with a read-only file system:
#
#   docker build --tag reagent .
#   docker run --rm --read-only --tmpfs /tmp --volume reagent:/cache --publish 127.0.0.1:8765:8765 reagent
#
# The address that it prints ends in ?token=…: open http://127.0.0.1:8765/?token=…
# `--env REAGENT_TOKEN=…` sets the token. Options of `reagent serve` follow the name of the image.

FROM python:3.13-slim-bookworm AS build
# An index with another build of PyTorch, such as the smaller one without CUDA.
ARG PIP_EXTRA_INDEX_URL=
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/reagent \
    && /opt/reagent/bin/pip install --no-cache-dir --constraint constraints.txt '.[web]'

FROM python:3.13-slim-bookworm
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin reagent \
    && install --directory --owner=reagent --group=reagent --mode=0700 /cache
COPY --from=build /opt/reagent /opt/reagent
ENV PATH=/opt/reagent/bin:$PATH \
    HOME=/cache \
    REAGENT_CACHE=/cache \
    HF_HOME=/cache/huggingface \
    MPLCONFIGDIR=/tmp/matplotlib \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 10001
VOLUME /cache
EXPOSE 8765
# 401: the service answers, and asks for its token. The first start fetches and converts the model.
HEALTHCHECK --interval=30s --timeout=10s --start-period=10m \
    CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 8765, timeout=8); c.request('GET', '/api/health'); raise SystemExit(c.getresponse().status not in (200, 401))"]
ENTRYPOINT ["reagent", "serve", "--host", "0.0.0.0", "--port", "8765", "--allow-remote"]
