# SPDX-License-Identifier: MIT
"""Servers, each wrong in one way: what is said of it stands in its docstring."""
import gzip
import json

from scripted import REASONING, WORDS, Sound


class NoDone(Sound):
    """no [DONE] ends the stream"""
    def stream(self, body):
        return list(super().stream(body))[:-1]


class TwoFinishes(Sound):
    """2 chunks have a finish_reason"""
    def chunks(self, body):
        for c in super().chunks(body):
            yield c
            if c["choices"] and c["choices"][0]["finish_reason"]:
                yield c


class NoFinish(Sound):
    """without a finish_reason"""
    def chunks(self, body):
        return [c for c in super().chunks(body) if not c["choices"] or not c["choices"][0]["finish_reason"]]


class NoRole(Sound):
    """the first chunk has no role"""
    def chunks(self, body):
        return list(super().chunks(body))[1:]


class OneChunk(Sound):
    """the answer is one chunk only"""
    def reasons(self, body):
        return super().reasons(body) and not body.get("stream")

    def chunks(self, body):
        chunks = list(super().chunks(body))
        if body.get("tools"):
            return chunks
        return [self.chunk({"role": "assistant", "content": "".join(WORDS)}), *chunks[-2:]]


class TextAfterFinish(Sound):
    """text comes after the finish_reason"""
    def chunks(self, body):
        *before, finish, usage = super().chunks(body)
        return [*before[:-1], finish, before[-1], usage]


class NoUsage(Sound):
    """no usage came"""
    def chunks(self, body):
        return [{**c, "usage": None} for c in super().chunks(body)]


class Garbage(Sound):
    """a line that no event stream has: "<b>busy</b>\""""
    def stream(self, body):
        yield from list(super().stream(body))[:2]
        yield b"<b>busy</b>\n\n"


class HalfJson(Sound):
    """an event is no JSON object"""
    def stream(self, body):
        return [e.replace(b"}", b"", 1) if b"[DONE]" not in e else e for e in super().stream(body)]


class NotStreamed(Sound):
    """the stream's type is "application/json\""""
    def chat(self, body):
        self.answer(200, self.whole(body))


class Drops(Sound):
    """the connection broke after"""
    def pieces(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        first = next(iter(events))
        self.wfile.write(b"%x\r\n%b\r\n" % (len(first), first))
        self.vanish()


class Hangs(Sound):
    """nothing came for 1 seconds"""
    def pieces(self, events):
        self.server.gone.wait(120)
        self.vanish()


class CommentsForEver(Sound):
    """no whole answer within 5 seconds"""
    def stream(self, body):
        while not self.server.gone.wait(0.1):
            yield b": still here\n\n"


class GzippedAnswer(Sound):
    """HTTP 200 in the Content-Encoding "gzip", which nobody asked for"""
    def whole(self, body):
        return gzip.compress(json.dumps(super().whole(body)).encode())

    def answer(self, status, body, kind="application/json"):
        self.zipped = isinstance(body, bytes) and body[:2] == b"\x1f\x8b"
        super().answer(status, body, kind)

    def end_headers(self):
        if getattr(self, "zipped", False):
            self.send_header("Content-Encoding", "gzip")
        self.zipped = False
        super().end_headers()


class ReasoningInContent(Sound):
    """reasoning stands inside the content"""
    def whole(self, body):
        c = super().whole(body)
        if self.reasons(body):
            c["choices"][0]["message"].update(reasoning=None, content=f"<think>{REASONING}</think>Eight.")
        return c


class ReasoningLost(Sound):
    """reasoning is lost in the stream"""
    def chunks(self, body):
        return [c for c in super().chunks(body) if not c["choices"] or "reasoning" not in c["choices"][0]["delta"]]


class BrokenArguments(Sound):
    """the arguments are no JSON object"""
    def call(self):
        return {**super().call(), "function": {"name": "get_weather", "arguments": "{'city': 'Berlin'}"}}


class ArgumentsObject(Sound):
    """the arguments are no string"""
    def call(self):
        return {**super().call(), "function": {"name": "get_weather", "arguments": {"city": "Berlin"}}}


class MarkupOfCalls(Sound):
    """markup of a call stands inside the content"""
    def whole(self, body):
        c = super().whole(body)
        if body.get("tools"):
            c["choices"][0]["message"].update(content='<tool_call>{"name": "get_weather"}</tool_call>', tool_calls=[])
            c["choices"][0]["finish_reason"] = "stop"
        return c


class CallLost(Sound):
    """the call is lost in the stream"""
    def chunks(self, body):
        return super().chunks({**body, "tools": None})


class CallWithoutIndex(Sound):
    """tool_calls[].index in a chunk is no small number"""
    def call_chunks(self, call):
        for c in super().call_chunks(call):
            for choice in c["choices"]:
                for t in choice["delta"].get("tool_calls", []):
                    del t["index"]
            yield c


class AnyKey(Sound):
    """a wrong key is accepted, while none gets HTTP 401"""
    def admit(self, key):
        return key != ""


class WrongKeyForbidden(Sound):
    """a wrong key gets HTTP 400, not 401"""
    def refuse(self, status, message, code):
        super().refuse(400, message, code)


class HtmlError(Sound):
    """no {"error": {}} but text/html"""
    def refuse(self, status, message, code):
        if status == 401:
            super().refuse(status, message, code)
        else:
            self.answer(status, b"<html><h1>Bad Request</h1></html>", "text/html")


class BareError(Sound):
    """error.param (missing)"""
    def refuse(self, status, message, code):
        self.answer(status, {"error": {"message": message, "type": "x", "code": code}})


class AnythingGoes(Sound):
    """a bad request gets HTTP 200"""
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.admit((self.headers["Authorization"] or "").removeprefix("Bearer ")):
            self.refuse(401, "wrong key", "invalid_api_key")
        else:
            self.chat(body)


class MissingField(Sound):
    """usage.total_tokens (missing)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish), "usage": {"prompt_tokens": 1, "completion_tokens": 1}}


class MistypedField(Sound):
    """of the wrong type: completion.created (string)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish), "created": "today"}


class NegativeUsage(Sound):
    """untrue: usage.prompt_tokens (negative)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish),
                "usage": {"prompt_tokens": -5, "completion_tokens": 9, "total_tokens": 4}}


class WrongSum(Sound):
    """untrue: usage.total_tokens (not the sum)"""
    def completion(self, message, finish):
        return {**super().completion(message, finish),
                "usage": {"prompt_tokens": 5, "completion_tokens": 1 << 62, "total_tokens": 14}}


class OtherModel(Sound):
    """GET /models lists no model"""
    def models(self):
        return {"object": "list", "data": []}


class EmptyContent(Sound):
    """the content is empty"""
    def completion(self, message, finish):
        return super().completion({**message, "content": message["content"] and ""}, finish)


# The checks that tell of each: these and no others. What breaks any stream breaks that of a call, too.
STREAM, BOTH = {"stream"}, {"stream", "tools"}
FAULTS = [
    (STREAM, NoDone), (STREAM, TwoFinishes), (BOTH, NoFinish), (STREAM, NoRole), (STREAM, OneChunk),
    (STREAM, TextAfterFinish), (STREAM, NoUsage), (BOTH, Garbage), (BOTH, HalfJson), (BOTH, NotStreamed), (BOTH, Drops),
    (BOTH, CommentsForEver), ({"chat", "reasoning", "tools", "fields"}, GzippedAnswer),
    (BOTH, Hangs), (STREAM, ReasoningLost), ({"reasoning"}, ReasoningInContent), ({"tools"}, BrokenArguments),
    ({"tools"}, MarkupOfCalls), ({"tools"}, CallLost), ({"tools", "fields"}, CallWithoutIndex), ({"auth"}, AnyKey),
    ({"auth"}, WrongKeyForbidden), ({"errors"}, HtmlError), ({"errors"}, BareError), ({"errors"}, AnythingGoes),
    ({"fields"}, MissingField), ({"fields"}, MistypedField),
    ({"fields"}, NegativeUsage), ({"fields"}, WrongSum), ({"model"}, OtherModel), ({"chat"}, EmptyContent),
]
