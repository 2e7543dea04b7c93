# A collection over HTTP, from the wheel that `python -m build --wheel` puts into dist/.
#
#   docker build -t acqh .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/photos.acqh:/collection" -v "$PWD/read.token:/token:ro" acqh
#
# The container listens on all of its addresses, so it wants a token; see docs/how-to/serve.md.
FROM python:3.12-slim

COPY constraints.txt dist/*.whl /tmp/install/
RUN pip install --no-cache-dir --constraint /tmp/install/constraints.txt "$(echo /tmp/install/acqh-*.whl)[images,text,languages,serve]" \
 && rm -rf /tmp/install \
 && useradd --create-home --uid 1000 acqh

USER acqh
# Compiled kernels are kept here.
ENV NUMBA_CACHE_DIR=/home/acqh/.cache/numba
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
ENTRYPOINT ["acqh", "serve"]
CMD ["/collection", "--host", "0.0.0.0", "--token-file", "/token"]
