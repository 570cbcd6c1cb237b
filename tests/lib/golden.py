# SPDX-License-Identifier: MIT
"""Golden vectors through a whole daemon: what it says over HTTP of the next token, beside the numbers in
tests/data/golden.

    Golden(d, "native").all()

An answer has the log-probabilities of the 20 best tokens, so that logits are what is compared here; e2e/golden.sh
compares each layer's streams, experts and rows, without a daemon.

A case's positions come in runs in which each token is the best one after those before: a run is one request, whose
first position is the prompt's last and the others are decoded. With few=True of each case the first and the last run
are asked, and of the long ones only the first: 49 of 130 positions of a profile."""
import json
import math
import os

import numpy
from client import SRC

SHORT = ("one", "five", "window", "block", "block_edge", "sparse_edge")
# relative RMS of a position, of a case's median one; how near the two best tokens must be for
# the second to win: e2e/golden.sh's
LIMITS = {"exact": (5e-5, 5e-5, 1e-3), "native": (6e-2, 1e-2, 0.3)}
# what makes native exact
EXACT = ("index_key=f32", "kv_format=f32", "act_quant=none")


def read(profile):
    """{case: {"tokens", "positions", "logits"}} of a .safetensors file."""
    with open(os.path.join(SRC, "tests", "data", "golden", profile + ".safetensors"), "rb") as f:
        head = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    cases = {}
    for name, t in head.items():
        case, _, part = name.partition(".")
        if part in ("tokens", "positions", "logits"):
            begin, end = t["data_offsets"]
            kind = {"F32": "<f4", "I32": "<i4"}[t["dtype"]]
            cases.setdefault(case, {})[part] = numpy.frombuffer(data[begin:end], kind).reshape(t["shape"])
    return cases


def runs(case):
    """Lists of indices into the case's positions."""
    found, p = [], case["positions"]
    for i in range(len(p)):
        follows = i and p[i] == p[i - 1] + 1 and case["logits"][i - 1].argmax() == case["tokens"][p[i]]
        if follows:
            found[-1].append(i)
        else:
            found.append([i])
    return found


class Golden:
    """Asks the daemon d, which is under that profile."""

    def __init__(self, d, profile, few=False):
        self.d, self.profile, self.few, self.asked, self.decoded, self.names = d, profile, few, 0, 0, {}

    def name(self, token):
        """As the answer calls it; None: it has no text of its own."""
        if token not in self.names:
            status, _, body = self.d.http("POST", "/detokenize", {"tokens": [token]})
            assert status == 200, body
            text = body["prompt"]
            self.names[token] = None if "\ufffd" in text else text
        return self.names[token]

    def position(self, logits, said):
        """How far the 20 best are from the golden ones: relative RMS; and whether the best is one of the best."""
        want = logits.astype(float) - logits.max()
        want -= math.log(numpy.exp(want).sum())
        pairs = [(said[self.name(t)], want[t]) for t in want.argsort()[:-19:-1].tolist() if self.name(t) in said]
        assert len(pairs) >= 12, (said, pairs)
        off = math.sqrt(sum((a - b) ** 2 for a, b in pairs) / sum(b * b for _, b in pairs))
        best = max(said.values())
        near = sorted(want)[-2:]
        gap = LIMITS[self.profile][2]
        top = self.name(int(want.argmax()))
        assert top is None or near[1] - near[0] <= gap or said.get(top) == best, (top, said)
        return off

    def run(self, case, run):
        first = int(case["positions"][run[0]])
        body = {"prompt": case["tokens"][:first + 1].tolist(), "max_tokens": len(run), "temperature": 0, "logprobs": 20}
        status, _, body = self.d.http("POST", "/v1/completions", body, timeout=900)
        assert status == 200, body
        rows = (body["choices"][0]["logprobs"] or {"top_logprobs": []})["top_logprobs"]
        offs = [self.position(case["logits"][i], row) for i, row in zip(run, rows)]
        # where the best token is a control token the answer ends, and says no numbers of it
        ends = int(case["logits"][run[len(rows)]].argmax()) if len(rows) < len(run) else None
        assert ends is None or (len(rows) == len(run) - 1 and ends == 1
                                and body["choices"][0]["finish_reason"] == "stop"), body
        self.asked += len(run)
        self.decoded += len(run) - 1
        return offs

    def case(self, name, case):
        every = runs(case)
        chosen = every
        if self.few:
            chosen = every[:1] + (every[-1:] if name in SHORT else [])
        offs = [off for run in {r[0]: r for r in chosen}.values() for off in self.run(case, run)]
        worst, median, _ = LIMITS[self.profile]
        print(f"golden {self.profile} {name}: {len(offs)} positions, worst {max(offs):.1e}, median "
              f"{sorted(offs)[len(offs) // 2]:.1e}")
        assert max(offs) <= worst and sorted(offs)[len(offs) // 2] <= median, (name, offs)

    def all(self):
        cases = read(self.profile)
        assert set(SHORT) < set(cases) and len(cases) == 9, cases.keys()
        for name, case in cases.items():
            self.case(name, case)
        assert self.asked == (49 if self.few else 130) and self.decoded >= 35, (self.asked, self.decoded)
        print(f"golden {self.profile}: {self.asked} of {sum(len(c['positions']) for c in cases.values())} positions")
