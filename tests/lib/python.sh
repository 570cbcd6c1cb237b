#!/bin/sh
# python.sh SCRIPT...: runs a Python scenario with the environment that `./bootstrap check` makes (build/venv),
# or $DSV4_PYTHON; without the client packages the scenario is skipped.
python=${DSV4_PYTHON:-$top_srcdir/build/venv/bin/python}
[ -x "$python" ] || python=python3
"$python" -c 'import openai, varlink, numpy' 2>/dev/null ||
	{ echo "python packages openai, varlink, numpy are missing"; exit 77; }
PYTHONPATH=$top_srcdir/tests/lib PYTHONDONTWRITEBYTECODE=1 exec "$python" "$@"
