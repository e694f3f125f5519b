# The server alone. Build: docker build -t quarry .    Run: docker run -p 127.0.0.1:27017:27017 -v quarry:/data quarry
FROM rust:1-bookworm AS build
WORKDIR /src
# RocksDB depends on these files only, so ordinary changes do not build it again.
COPY natives natives
COPY scripts/natives.sh scripts/cache.sh scripts/
COPY .cargo .cargo
# The regular expressions are linked in, whatever the image has installed.
ENV QUARRY_CACHE=/cache PCRE2_SYS_STATIC=1
RUN scripts/natives.sh
COPY . .
RUN cargo build --release --locked -p quarry-server --features tikv \
    && cp target/release/quarry /usr/local/bin/quarry

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends libstdc++6 && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 27017 --no-create-home quarry && install -d -o quarry /data
COPY --from=build /usr/local/bin/quarry /usr/local/bin/quarry
USER quarry
VOLUME /data
EXPOSE 27017
STOPSIGNAL SIGTERM
ENTRYPOINT ["quarry"]
CMD ["serve", "--dbpath", "/data", "--bind_ip", "0.0.0.0", "--allowOpenAccess"]
