#!/bin/sh
# python.sh SCRIPT ARGUMENTS...: runs a test script with the environment that `./bootstrap check` made, if it is there.
for venv in "${top_builddir:-build}/venv" "${top_srcdir:-.}/build/venv"; do
	[ -x "$venv/bin/python" ] && exec "$venv/bin/python" -B "$@"
done
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
exec python3 -B "$@"
