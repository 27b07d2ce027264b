# syntax=docker/dockerfile:1
# Builds Ondol with the default model.
#
#   docker build -t ondol .
#   docker run --rm -i -v ondol-models:/models ondol run smollm2 -p "Hello"
#   docker run --rm ondol                        (what else there is)
#
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
STOPSIGNAL SIGTERM
ENTRYPOINT ["ondol"]
CMD ["--help"]
