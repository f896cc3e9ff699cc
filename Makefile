# Two commands: `make run` starts Keel on its own data folder, `make test` runs every test.

CARGO ?= cargo

.PHONY: run build test bench tools deb

run: build
	target/release/keel serve --datadir=keel-data

build:
	$(CARGO) build --release --package keel

# What the tests compare with: Debian's MariaDB, its client, and sysbench. Installs only what is missing.
tools:
	scripts/install-tools

test: tools build
	$(CARGO) test --workspace --quiet

bench: tools build
	$(CARGO) x bench

# A Debian package with a systemd unit: target/debian/keel_*.deb.
deb: build
	command -v cargo-deb >/dev/null || $(CARGO) install --locked cargo-deb
	$(CARGO) deb --package keel --no-build
