#!/usr/bin/env bash
# Everything that must hold of the Python client: generated files are current, types, tests, the conformance suite with threads and with
# asyncio, and a wheel that installs with nothing but itself. Run by `make clients`; $1 is the quern binary, $2 where the packages go.
set -euo pipefail
binary=$(realpath "$1"); out=$(realpath -m "$2")
cd "$(dirname "$0")"
untracked() { git ls-files --others --exclude-standard . 2>/dev/null || true; } # a release has no git
before=$(untracked)

# Debian has all the tools; elsewhere have them in the python3 of the PATH.
../../internal/install.sh python
python=python3
"$python" -c 'import boto3, build, fsspec, mypy, setuptools, venv, wheel' 2>/dev/null || python=/usr/bin/python3
export PYTHONPATH=$PWD/src PYTHONDONTWRITEBYTECODE=1

echo "== what is generated"; "$python" generate.py --check
echo "== types"; "$python" -m mypy
echo "== tests"; QUERN_BINARY=$binary "$python" -W error::ResourceWarning -m unittest discover -s tests
tools=$(mktemp -d); trap 'rm -rf "$tools"' EXIT
judge=$tools/conformance
(cd ../.. && go build -o "$judge" ./sdk/conformance)
echo "== conformance, with threads and with asyncio"
"$judge" -at-once 5 -timeout 1m "$python" tests/conform.py --asyncio >"$judge.log" & asyncio=$!
"$judge" -at-once 5 -timeout 1m "$python" tests/conform.py
wait "$asyncio" || { cat "$judge.log"; exit 1; }
cat "$judge.log"

echo "== packages"
unset PYTHONPATH
rm -rf "$out"/quern-*; PYTHONWARNINGS=ignore "$python" -m build --no-isolation --outdir "$out" . >/dev/null
"$python" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet --no-index "$out"/quern-*.whl
(cd / && "$tools/venv/bin/python" -c 'import quern, pathlib; assert (pathlib.Path(quern.__file__).parent / "py.typed").exists(); print("quern", quern.__version__)')
"$python" -m venv --system-site-packages "$tools/checkout"
"$tools/checkout/bin/pip" install --quiet --no-index --no-build-isolation --no-deps .
ls "$out"
diff <(echo "$before") <(echo "$(untracked)") || { echo "an install leaves files that git does not ignore"; exit 1; }
rm -rf build src/*.egg-info
