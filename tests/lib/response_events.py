# SPDX-License-Identifier: MIT
"""The order of the events in a stream of OpenAI's /v1/responses, as a machine that takes one after the other.

    r = response_of(stream.named())          # asserts the order; the response in the end
    r["output"], r["status"], r["left_open"]
"""

# How the text of an item is told: (part added, delta, done, part done, the part's index).
REASONING = ("response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
             "response.content_part.done", "content_index")
SUMMARY = ("response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
           "response.reasoning_summary_text.done",
           "response.reasoning_summary_part.done", "summary_index")
TEXT = ("response.content_part.added", "response.output_text.delta", "response.output_text.done",
        "response.content_part.done",
        "content_index")
FUNCTION = (None, "response.function_call_arguments.delta", "response.function_call_arguments.done", None, None)
CUSTOM = (None, "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", None, None)
WAYS = {"reasoning": (REASONING, SUMMARY), "message": (TEXT,), "function_call": (FUNCTION,),
        "custom_tool_call": (CUSTOM,)}
TERMINAL = {"response.completed": "completed", "response.incomplete": "incomplete", "response.failed": "failed"}


class Reader:
    def __init__(self):
        self.count = 0
        self.first = None     # the response of response.created
        self.begun = False    # response.in_progress came
        self.item = None      # open now
        self.way = None       # how its text is told, known from the first event about it
        self.step = None      # the last one of those that came
        self.index = -1
        self.text = ""
        self.part = None
        self.done = {}        # by output_index
        self.last = None

    def take(self, name, data):
        assert self.last is None, ("after the end", name)
        assert data["type"] == name and data["sequence_number"] == self.count, (self.count, name, data)
        self.count += 1
        if name == "response.created":
            assert self.first is None
            self.first = self.check_response(data["response"], "in_progress", [])
        elif name == "response.in_progress":
            assert self.first and not self.begun
            self.begun = True
            self.check_response(data["response"], "in_progress", [])
        elif name in TERMINAL:
            self.end(name, data["response"])
        else:
            assert self.begun, name
            self.about_items(name, data)

    def check_response(self, r, status, output):
        assert (r["object"], r["status"]) == ("response", status), r
        assert output is None or r["output"] == output, r
        assert self.first is None or r["id"] == self.first["id"]
        return r

    def about_items(self, name, data):
        if name == "response.output_item.added":
            # One that was cut off stays open when another begins.
            assert self.item is None or self.item["type"] in ("function_call", "custom_tool_call")
            assert data["output_index"] == self.index + 1, data
            self.index += 1
            self.item, self.way, self.step, self.text, self.part = data["item"], None, None, "", None
            assert self.item["status"] == "in_progress" and self.item["id"], self.item
            return
        assert self.item is not None and data["output_index"] == self.index, (name, data)
        if name == "response.output_item.done":
            self.item_done(data["item"])
            return
        assert data["item_id"] == self.item["id"], data
        if self.way is None:
            self.way = next(w for w in WAYS[self.item["type"]] if name in w)
        self.tell(self.way.index(name), data)

    def tell(self, step, data):
        before = {0: (None,), 1: (None, 1) if self.way[0] is None else (0, 1), 2: (None, 0, 1), 3: (2,)}[step]
        assert self.step in before, (self.step, data)
        self.step = step
        if self.way[4]:
            assert data[self.way[4]] == 0, data
        if step in (0, 3):
            assert data["part"]["text"] == self.text
            self.part = data["part"]
        elif step == 1:
            self.text += data["delta"]
        else:
            told = [data[k] for k in ("text", "arguments", "input") if k in data]
            assert told == [self.text], (told, self.text)

    def item_done(self, item):
        assert self.step == (2 if self.way[3] is None else 3), (self.step, item)
        assert (item["id"], item["type"]) == (self.item["id"], self.item["type"])
        assert item["status"] in ("completed", "incomplete"), item
        if self.part:
            where = "summary" if self.way is SUMMARY else "content"
            assert item[where] == [self.part], item
        else:
            assert item["arguments" if self.way is FUNCTION else "input"] == self.text, item
        self.done[self.index] = item
        self.item = None

    def end(self, name, r):
        output = list(self.done.values())
        self.last = self.check_response(r, TERMINAL[name], output)
        r["left_open"] = self.item
        assert (r["error"] is not None) == (name == "response.failed"), r
        assert (r["incomplete_details"] is not None) == (name == "response.incomplete"), r
        assert (r["usage"] is None) == (name == "response.failed"), r
        if name == "response.completed":
            assert self.item is None or self.item["type"] != "message"


def response_of(events):
    r = Reader()
    for name, data in events:
        r.take(name, data)
    assert r.last, "the stream ended without a terminal event"
    return r.last
