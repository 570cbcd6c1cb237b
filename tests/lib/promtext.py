# SPDX-License-Identifier: MIT
"""A daemon's /metrics, read by Prometheus' own parser and held against the table of metrics.

    page = Page(d)
    page["requests_finished_total", "stop"]      # a sample by its label values, in the order of the table
    page.total("requests_finished_total")        # the sum over all labels
    page.labels("kernels_info")                  # [{"family": ..., ...}]
"""
import os
import re

from client import SRC, need

TABLE = os.path.join(SRC, "api", "http", "metrics.def")


def table():
    """{name: (type, [labels], help)}, names as on the page."""
    with open(TABLE, encoding="utf-8") as f:
        rows = re.findall(r'^METRIC\((\w+), (\w+), "([^"]*)", "([^"]*)"\)$', f.read(), re.M)
    assert len(rows) > 60, len(rows)
    return {"dsv4d_" + name: (kind.lower(), labels.split(), text) for name, kind, labels, text in rows}


class Page:
    def __init__(self, d, **kw):
        parser = need("prometheus_client.parser")
        status, self.headers, body = d.http("GET", "/metrics", **kw)
        assert status == 200, (status, body)
        self.text = body.decode("utf-8")
        self.table, self.samples, self.types = table(), {}, {}
        for family in parser.parser.text_string_to_metric_families(self.text):
            self.types[family.name + "_total" * (family.type == "counter")] = (family.type, family.documentation)
            for s in family.samples:
                self.add(s)

    def add(self, s):
        kind, labels, _ = self.table[re.sub("_(bucket|sum|count)$", "", s.name) if s.name not in self.table else s.name]
        labels = labels + ["le"] * (kind == "histogram" and s.name.endswith("_bucket"))
        assert list(s.labels) == labels, (s.name, s.labels, labels)
        key = (s.name, *s.labels.values())
        assert key not in self.samples, key
        self.samples[key] = s.value

    def __getitem__(self, key):
        name, *labels = (key,) if isinstance(key, str) else key
        return self.samples[("dsv4d_" + name, *labels)]

    def get(self, *key):
        return self.samples.get(("dsv4d_" + key[0], *key[1:]), 0)

    def all(self, name):
        """{label values: value}"""
        return {k[1:]: v for k, v in self.samples.items() if k[0] == "dsv4d_" + name}

    def total(self, name):
        return sum(self.all(name).values())

    def labels(self, name):
        return [dict(zip(self.table["dsv4d_" + name][1], k)) for k in self.all(name)]

    def state(self, name, *labels):
        """The one state that is true."""
        true = [k[-1] for k, v in self.all(name).items() if v == 1 and k[:-1] == labels]
        assert len(true) == 1, (name, labels, true)
        return true[0]
