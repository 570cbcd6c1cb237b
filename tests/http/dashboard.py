# SPDX-License-Identifier: MIT
"""etc/grafana-dashboard.json asks for nothing that a running daemon does not tell: metrics, their kinds and labels."""
import json
import os
import re

from client import SRC
from daemon import Daemon
from promtext import Page, table

ROWS = ["Now", "Traffic", "Latency", "Engine", "Prefix cache", "Memory and process", "GPUs", "Kernels", "Probes"]
NAME = re.compile(r"dsv4d_\w+")
ADDED = {"instance", "job", "le"}  # labels that Prometheus or a histogram adds
GROUP = re.compile(r"\bby \(([^)]*)\)")
SELECT = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
COUNTED = re.compile(r"\b(?:rate|increase)\((dsv4d_\w+)")


def read():
    with open(os.path.join(SRC, "etc", "grafana-dashboard.json"), encoding="utf-8") as f:
        return json.load(f)


def expressions(node):
    """(expression, legend) of every query anywhere in the dashboard."""
    if isinstance(node, list):
        for n in node:
            yield from expressions(n)
    elif isinstance(node, dict):
        for key in ("expr", "definition"):
            if key in node:
                yield node[key], node.get("legendFormat", "")
        for n in node.values():
            yield from expressions(n)


def row_of(name, rows):
    """The table's row of a name as queries have it."""
    base = re.sub("_(bucket|sum|count)$", "", name)
    return rows[name] if name in rows else rows[base] if rows.get(base, ("",))[0] == "histogram" else None


def every_metric_is_there(d, queries):
    rows, page = table(), Page(d)
    used = set()
    for expr, legend in queries:
        names = set(NAME.findall(expr))
        assert names, expr
        labels = set(ADDED)
        for name in names:
            row = row_of(name, rows)
            assert row, f"{name} is no metric of ours: {expr}"
            assert f"\n# HELP {name} " in "\n" + page.text or re.sub("_(bucket|sum|count)$", "",
                                                                     name) in page.types, name
            labels |= set(row[1])
            used.add(name)
        asked = set(re.findall(r"{{(\w+)}}", legend)) | set(SELECT.findall(expr))
        for group in GROUP.findall(expr):
            asked |= set(re.split(r",\s*", group))
        assert asked <= labels, (asked - labels, expr, legend)
        for name in COUNTED.findall(expr):
            assert row_of(name, rows)[0] in ("counter", "histogram"), f"{name} may fall: {expr}"
        for name in names - set(COUNTED.findall(expr)):
            assert row_of(name, rows)[0] == "gauge", f"{name} only rises, ask for its rate: {expr}"
    return used


def what_there_is_can_be_seen(used):
    """A new metric gets its panel, or is named here: none is told and shown nowhere by oversight."""
    shown = {re.sub("_(bucket|sum|count)$", "", n) for n in used} | used
    hidden = {n[len("dsv4d_"):] for n in set(table()) - shown}
    assert hidden == {"http_sent_bytes_total", "requests_submitted_total", "probe_history_unkept",
                      "cache_blocks", "cache_states",
                      "cache_pinned_blocks", "cache_asked_tokens_total", "cache_reused_tokens_total",
                      "cache_duplicate_blocks_total", "cache_disk_bytes", "cache_disk_files", "cache_disk_queued",
                      "cache_disk_written_files_total", "cache_disk_raw_bytes_total", "cache_disk_read_files_total",
                      "cache_disk_deleted_files_total", "kernels_steps", "kernels_failures", "plugin_intent",
                      "plugin_info",
                      "plugins_superseded", "shadow_running", "shadow_steps_total", "shadow_taken_steps_total",
                      "shadow_failures_total", "shadow_runs_total", "model_max_context_tokens",
                      "process_resident_bytes", "repack_experts", "repacked_experts", "repacked_bytes",
                      "gpu_expert_slots"}, hidden


def panels_lie_side_by_side(panels):
    assert [p["title"] for p in panels if p["type"] == "row"] == ROWS
    assert len({p["id"] for p in panels}) == len(panels)
    taken = set()
    for p in panels:
        g = p["gridPos"]
        cells = {(x, y) for x in range(g["x"], g["x"] + g["w"]) for y in range(g["y"], g["y"] + g["h"])}
        assert g["x"] + g["w"] <= 24 and not cells & taken, p["title"]
        taken |= cells
        assert p["type"] == "row" or (p["targets"] and p["title"]), p


dashboard = read()
found = list(expressions(dashboard))
assert len(found) > 60, len(found)
panels_lie_side_by_side(dashboard["panels"])
with Daemon() as daemon:
    what_there_is_can_be_seen(every_metric_is_there(daemon, found))
