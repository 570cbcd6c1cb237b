# SPDX-License-Identifier: MIT
"""The order of the events in a stream of Anthropic's /v1/messages, as a machine that takes one after the other.

    m = message_of(stream.named())          # asserts the order; the message they tell
    m["content"], m["stop_reason"], m["error"]
"""
import json

DELTAS = {"thinking": ("thinking_delta", "signature_delta"), "text": ("text_delta",), "tool_use": ("input_json_delta",)}


class Reader:
    def __init__(self):
        self.message = None     # of message_start, filled in by what follows
        self.block = None       # open now
        self.json = ""          # of its input
        self.ended = False      # message_delta came
        self.over = False       # nothing more may come

    def take(self, name, data):
        assert not self.over, (name, data)
        assert data["type"] == name, (name, data)
        if name not in ("message_start", "error"):
            assert self.message is not None, name
        getattr(self, name)(data)

    def message_start(self, data):
        assert self.message is None
        m = self.message = data["message"]
        assert (m["type"], m["role"], m["content"], m["stop_reason"],
                m["stop_sequence"]) == ("message", "assistant", [], None, None), m
        m["error"], m["pings"], m["closed"] = None, 0, 0

    def ping(self, data):
        assert set(data) == {"type"}
        self.message["pings"] += 1

    def content_block_start(self, data):
        assert self.block is None and not self.ended
        assert data["index"] == len(self.message["content"]), data
        self.block = data["content_block"]
        self.json = ""
        empty = {"thinking": ("thinking", ""), "text": ("text", ""), "tool_use": ("input", {})}
        key, value = empty[self.block["type"]]
        assert self.block[key] == value, self.block
        self.message["content"].append(self.block)

    def content_block_delta(self, data):
        assert self.block is not None and data["index"] == len(self.message["content"]) - 1, data
        d = data["delta"]
        assert d["type"] in DELTAS[self.block["type"]], (self.block, d)
        if d["type"] == "thinking_delta":
            assert not self.block["signature"], "thinking after its signature"
            self.block["thinking"] += d["thinking"]
        elif d["type"] == "signature_delta":
            assert not self.block["signature"] and d["signature"]
            self.block["signature"] = d["signature"]
        elif d["type"] == "text_delta":
            assert d["text"]
            self.block["text"] += d["text"]
        else:
            self.json += d["partial_json"]

    def content_block_stop(self, data):
        assert self.block is not None and data["index"] == len(self.message["content"]) - 1, data
        if self.block["type"] == "thinking":
            assert self.block["signature"]
        if self.block["type"] == "tool_use":
            try:
                self.block["input"] = json.loads(self.json)
            except ValueError:
                self.block["cut"] = self.json
        self.block = None
        self.message["closed"] += 1

    def message_delta(self, data):
        assert self.block is None and not self.ended
        self.ended = True
        assert data["delta"]["stop_reason"], data
        self.message.update(data["delta"])
        self.message["usage"] = data["usage"]

    def message_stop(self, data):
        assert self.ended and set(data) == {"type"}
        self.over = True

    def error(self, data):
        assert data["error"]["type"] and data["error"]["message"] and data["request_id"], data
        assert not self.ended
        self.message = self.message or {"content": []}
        self.message["error"] = data["error"]
        self.over = True


def message_of(events):
    r = Reader()
    for name, data in events:
        r.take(name, data)
    assert r.over, "the stream ended without message_stop or error"
    return r.message
