#!/usr/bin/env bash
# install.sh TOOL...: installs the missing tools for building and testing, on Debian as root: compiler, curl, node, chromium, prometheus,
# proxies, python, rust, postgresql, optipng, buildah; and npm=FOLDER, the packages that the folder's package-lock.json names. Installed
# tools stay as they are.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

get() { # WHY PACKAGE...
	echo "installing ${*:2} ($1)"
	apt-get update -qq && apt-get install -y -qq "${@:2}" >/dev/null
}

# Only unpacked: installed, they would serve on this machine.
proxies() {
	echo "fetching nginx and Caddy (the examples for proxies are tested in them)"
	local dir
	dir=$(mktemp -d)
	apt-get update -qq && (cd "$dir" && apt-get download -qq nginx caddy)
	mkdir -p "$here/bin/proxies"
	for package in "$dir"/*.deb; do dpkg-deb -x "$package" "$here/bin/proxies"; done
	rm -rf "$dir"
}

# Tests start servers of their own: none is to serve on this machine.
postgresql() {
	mkdir -p /etc/postgresql-common/createcluster.d
	echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.d/quern.conf
	get "journals of many machines are tested in it, and behind a pooler" postgresql pgbouncer
	systemctl disable --now pgbouncer >/dev/null 2>&1 || true # there may be no systemd
}

has_python() { /usr/bin/env "$1" -c 'import boto3, build, fsspec, mypy, setuptools, venv, wheel' 2>/dev/null; }

for tool in "$@"; do
	case $tool in
	compiler)
		command -v go >/dev/null || { echo "Go 1.26 or later is needed: https://go.dev/doc/install"; exit 1; }
		command -v gcc >/dev/null || get "SQLite is C" gcc libc6-dev ;;
	curl) command -v curl >/dev/null || get "the documents' commands are tests" curl ca-certificates ;;
	node) command -v npm >/dev/null || get "the dashboard and the TypeScript client are built and tested with it" nodejs npm ;;
	chromium) command -v chromium-headless-shell chromium >/dev/null || get "the dashboard is tested in it" chromium-headless-shell ;;
	prometheus) command -v promtool >/dev/null || get "the alerts and boards are tested in it" --no-install-recommends prometheus ;;
	proxies) [ -x "$here/bin/proxies/usr/bin/caddy" ] || proxies ;;
	python)
		has_python python3 || has_python /usr/bin/python3 || get "the Python client is tested with it" \
			python3 python3-venv python3-build python3-setuptools python3-wheel python3-fsspec python3-boto3 mypy ;;
	rust) command -v cargo >/dev/null && command -v rustc >/dev/null || get "the Rust client is built and tested with it" cargo rustc ;;
	postgresql) compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null && [ -x /usr/sbin/pgbouncer ] || postgresql ;;
	optipng) command -v optipng >/dev/null || get "it makes pictures smaller, and leaves every point as it is" optipng ;;
	buildah) command -v buildah >/dev/null || get "the container is tried with it" buildah ;;
	npm=*)
		cd "$here/${tool#npm=}"
		[ node_modules/.package-lock.json -nt package-lock.json ] || { npm ci --silent && touch node_modules/.package-lock.json; } ;;
	*) echo "install.sh: there is no tool $tool" >&2; exit 2 ;;
	esac
done
