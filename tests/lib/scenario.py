# SPDX-License-Identifier: MIT
"""What scenarios on a daemon d say over and over, by dsv4ctl.

    ok(d, "kernels", "use", "all=avx2")["name"]
    refused(d, 1, "no plugin named", "kernels", "use", "all=x")
"""
import json


def said(d, *words):
    """What dsv4ctl prints, for people."""
    code, out, err = d.ctl(*words, timeout=600)
    assert code == 0, (words, code, err)
    return out


def ok(d, *words):
    """The reply; lines before the last tell progress."""
    return json.loads(said(d, "--json", *words).splitlines()[-1])


def refused(d, expected, text, *words):
    """Exit status `expected`, `text` among the error's, and nothing else."""
    code, out, err = d.ctl(*words)
    assert code == expected and text in err and not out, (words, code, out, err)


def by(rows, *keys):
    return {tuple(r[k] for k in keys): r for r in rows}
