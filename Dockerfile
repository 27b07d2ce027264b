# syntax=docker/dockerfile:1
# Builds Ondol and serves a model.
#
#   docker build -t ondol .
#   openssl rand -hex 32 > api-key && chmod 644 api-key      # a server that listens beyond this machine needs a key
#   docker run --rm -p 127.0.0.1:8080:8080 -v "$PWD/api-key:/run/secrets/ondol-api-key:ro" -v ondol-models:/models ondol
#
# One command instead of the server:   docker run --rm -i -v ondol-models:/models ondol run smollm2 -p "Hello"
# The default model is part of the image; further ones go into the volume /models (ondol pull).

FROM debian:bookworm AS build
WORKDIR /src
COPY cmake/packages.txt cmake/
COPY tools tools
RUN tools/install-packages build
ENV PATH=/usr/local/cargo/bin:$PATH CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup
RUN curl --proto '=https' --tlsv1.2 -sSf https://static.rust-lang.org/rustup/rustup-init.sh | sh -s -- -y --profile minimal --no-modify-path
COPY . .
RUN cmake --preset release -DONDOL_TESTS=OFF && ninja -C build/release ondol
RUN python3 -m venv build/venv && build/venv/bin/python tools/fetch_model.py smollm2 /models/models/smollm2.gguf

FROM debian:bookworm-slim
COPY cmake/packages.txt /tmp/setup/cmake/
COPY tools /tmp/setup/tools
RUN /tmp/setup/tools/install-packages run && rm -rf /tmp/setup /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home ondol
COPY --from=build /src/build/release/ondol /usr/local/bin/ondol
COPY --from=build --chown=ondol:ondol /models /models
USER ondol
ENV ONDOL_HOME=/models
VOLUME /models
EXPOSE 8080
STOPSIGNAL SIGTERM
ENTRYPOINT ["ondol"]
CMD ["serve", "smollm2", "--host", "0.0.0.0", "--port", "8080", "--api-key-file", "/run/secrets/ondol-api-key"]
