# SPDX-License-Identifier: MIT
"""Servers with one fault each, in front of a dsv4d; Writes has none. What a fault is stands in its class."""
import itertools
import json
import select
import socket
import threading

import article
from daemon import PATIENCE
from plugins import until
from through import Through

ARTICLE = "Write a long and detailed article"
THOUGHT = 150  # pieces of reasoning before an article


class Article:
    """What answers as http.client's response does: a stream of an article's pieces, as many as were asked for."""
    status = 200

    def __init__(self, body, reasoning, content):
        n = body["max_tokens"]
        self.body = body
        thought = list(itertools.islice(reasoning, min(n, THOUGHT) if content else n))
        self.said = [("reasoning_content", p) for p in thought]
        self.said += [("content", p) for p in itertools.islice(content or iter(()), n - len(thought))]

    def getheader(self, _):
        return "text/event-stream"

    def chunk(self, choices, **more):
        chunk = {"id": "chatcmpl-article", "object": "chat.completion.chunk", "created": 1, "model": self.body["model"],
                 "choices": choices, **more}
        return [b"data: " + json.dumps(chunk).encode() + b"\n", b"\n"]

    def choice(self, delta, finish=None):
        return self.chunk([{"index": 0, "delta": delta, "finish_reason": finish}])

    def __iter__(self):
        assert self.body["stream"], "only whoever streams is written for"
        yield from self.choice({"role": "assistant", "content": ""})
        for kind, text in self.said:
            yield from self.choice({kind: text})
        yield from self.choice({}, "length")
        n = len(self.said)
        yield from self.chunk([], usage={"prompt_tokens": 40, "completion_tokens": n, "total_tokens": 40 + n})
        yield from [b"data: [DONE]\n", b"\n"]

    def close(self):
        pass


class Writes(Through):
    """Sound: the tiny model answers, but for articles, which it cannot write. A request's seed is the article's."""

    def article(self, body):
        return Article(body, article.sound(f"thought {body['seed']}"), article.sound(body["seed"]))

    def upstream(self, method, body=None):
        asked = json.loads(body) if body else {}
        if str(asked.get("messages", "")).count(ARTICLE):
            return self.article(asked)
        return super().upstream(method, body)


# ---- loops ----

class WordSpam(Writes):
    """One word for ever."""
    def article(self, body):
        return Article(body, article.sound(f"thought {body['seed']}"), article.word_spam(body["seed"]))


class LineLoop(Writes):
    """One to three lines for ever."""
    def article(self, body):
        return Article(body, article.sound(f"thought {body['seed']}"), article.line_loop(body["seed"]))


class SlowTopicLoop(Writes):
    """A paragraph comes again and again with other words here and there."""
    def article(self, body):
        return Article(body, article.sound(f"thought {body['seed']}"), article.slow_topic_loop(body["seed"]))


class ThinksInLoops(Writes):
    """The reasoning comes to no end, by lines that come again."""
    def article(self, body):
        return Article(body, article.line_loop(body["seed"]), None)


# ---- what was said before ----

class DropsHistory(Writes):
    """The template has no room for a conversation where there are tools: its last turn is all that is rendered."""
    def asked(self, body):
        if body.get("tools"):
            body["messages"] = body["messages"][-1:]


class StaleWindow(Writes):
    """After a prefix hit the window is another conversation's: of what is shared with an earlier request, in blocks,
    the last characters are those that another one had there."""
    BLOCK, WINDOW = 16, 160

    def asked(self, body):
        seen = self.server.memory.setdefault("seen", [])
        said = [m for m in body["messages"] if isinstance(m.get("content"), str)]
        text = "\0".join(m["content"] for m in said)
        shared = max((common(text, s) for s in seen), default=0) // self.BLOCK * self.BLOCK
        start = max(0, shared - self.WINDOW)
        mine = text[start:shared]
        stale = next((s[start:shared] for s in reversed(seen) if s[start:shared] != mine), mine)
        if text not in seen:
            seen.append(text)
        # Where turns begin and end stays.
        mixed = "".join(m if "\0" in (m, s) else s for m, s in zip(mine, stale))
        for m, content in zip(said, (text[:start] + mixed + text[start + len(mixed):]).split("\0")):
            m["content"] = content


def common(a, b):
    """How long two texts are the same."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


class HalfWrittenTail(Writes):
    """What an aborted answer had come to stays where the next request with the same beginning goes on."""
    WATCHED = 400  # events; longer than the tiny model thinks
    lock = threading.Condition()

    def asked(self, body):
        memory = self.server.memory
        with self.lock:  # as an engine that ends an aborted answer first
            assert self.lock.wait_for(lambda: not memory.get("streams"), PATIENCE), "a stream does not end"
            for n in range(len(body["messages"]), 0, -1):
                tail = memory.pop(json.dumps(body["messages"][:n]), None)
                if tail:
                    body["messages"].insert(n, {"role": "assistant", "content": tail})
                    return

    def streaming(self, body, n):
        """Goes on when what was sent has been read, so that a client that drops an answer has not read to its end."""
        if n < self.WATCHED:
            until(self.all_read, "the client reads", PATIENCE)

    def all_read(self):
        """Nothing waits for the client in its socket, or it has closed it."""
        ours, its = self.server.server_address[1], self.client_address[1]
        with open("/proc/net/tcp", encoding="utf-8") as f:
            for _, local, remote, state, queues, *_ in map(str.split, f):
                if local.endswith(f":{its:04X}") and remote.endswith(f":{ours:04X}"):
                    return state != "01" or queues.endswith(":00000000")
        return True

    def stream(self, response, body):
        memory, self.said = self.server.memory, ""
        memory["streams"] = memory.get("streams", 0) + 1
        super().stream(response, body)
        with self.lock:
            if self.dropped():
                memory[json.dumps(body["messages"])] = self.said
            memory["streams"] -= 1
            self.lock.notify_all()

    def told(self, body, event):
        for c in event["choices"]:
            self.said += c["delta"].get("reasoning_content") or c["delta"].get("content") or ""

    def dropped(self):
        """Who has read all closes in order; who has not resets the connection."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
            assert select.select([self.connection], [], [], PATIENCE)[0], "the client holds on"
            self.connection.recv(1)
        except OSError:
            return True
        return False


# ---- thinking ----

class EatsReasoning(Writes):
    """What the model thinks is thrown away."""
    def answered(self, body, reply):
        for c in reply["choices"]:
            c["message"].pop("reasoning_content", None)

    def told(self, body, event):
        for c in event["choices"]:
            c["delta"].pop("reasoning_content", None)


class ReasonsAloud(Writes):
    """What the model thinks is content."""
    def answered(self, body, reply):
        for c in reply["choices"]:
            m = c["message"]
            if m.get("reasoning_content"):
                m["content"] = f"<think>{m.pop('reasoning_content')}</think>{m['content'] or ''}"

    def told(self, body, event):
        for c in event["choices"]:
            if c["delta"].get("reasoning_content"):
                c["delta"]["content"] = c["delta"].pop("reasoning_content")


class OnlyThinks(Writes):
    """The answer is taken for reasoning."""
    def answered(self, body, reply):
        for c in reply["choices"]:
            m = c["message"]
            m["reasoning_content"], m["content"] = (m.get("reasoning_content") or "") + (m["content"] or ""), ""

    def told(self, body, event):
        for c in event["choices"]:
            if c["delta"].get("content"):
                c["delta"]["reasoning_content"] = c["delta"].pop("content")
