# SPDX-License-Identifier: MIT
"""A chat server of another make, small and scripted: sound by itself, and each subclass wrong in one way.

    with Served(Sound) as url: ...

A handler's methods are the parts that a subclass replaces: models(), whole(), stream(), call(), refuse(), admit()."""
import http.server
import json
import threading

MODEL = "other/model-v4"
REASONING = "Seven and one are eight."
WORDS = ["The ", "capital ", "of ", "Greece ", "is ", "Athens."]
USAGE = {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21, "prompt_tokens_details": None}


class Sound(http.server.BaseHTTPRequestHandler):
    """As vLLM answers: fields of its own, `reasoning` for reasoning_content, max_model_len. Key: "right"."""
    protocol_version = "HTTP/1.1"
    key = "right"

    def log_message(self, format, *args):  # noqa: A002
        pass

    # ---- what is said ----

    def models(self):
        return {"object": "list", "data": [{"id": MODEL, "object": "model", "created": 1, "owned_by": "vllm",
                                            "root": "/m", "parent": None, "max_model_len": 32768, "permission": []}]}

    def admit(self, key):
        return key == self.key

    def reasons(self, body):
        return body.get("chat_template_kwargs", {}).get("thinking", False)

    def whole(self, body):
        """The answer to a chat request that does not stream."""
        message = {"role": "assistant", "content": "".join(WORDS), "refusal": None, "tool_calls": [],
                   "reasoning": REASONING if self.reasons(body) else None}
        if body.get("tools"):
            message.update(content=None, tool_calls=[self.call()])
        return self.completion(message, "tool_calls" if body.get("tools") else "stop")

    def call(self):
        return {"id": "call_1", "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Berlin"}'}}

    def completion(self, message, finish):
        return {"id": "chatcmpl-9", "object": "chat.completion", "created": 2, "model": MODEL, "service_tier": None,
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish,
                             "stop_reason": None, "token_ids": None}],
                "usage": USAGE, "prompt_logprobs": None, "kv_transfer_params": None}

    def chunk(self, delta=None, finish=None, usage=None):
        choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish,
                                             "token_ids": None}]
        return {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 2, "model": MODEL, "choices": choices,
                "usage": usage}

    def chunks(self, body):
        yield self.chunk({"role": "assistant", "content": ""})
        if body.get("tools"):
            yield from self.call_chunks(self.call())
            return
        if self.reasons(body):
            yield self.chunk({"reasoning": REASONING[:9]})
            yield self.chunk({"reasoning": REASONING[9:]})
        for word in WORDS:
            yield self.chunk({"content": word})
        yield self.chunk({}, "stop")
        yield self.chunk(usage=USAGE)

    def call_chunks(self, call):
        function = call["function"]
        yield self.chunk({"tool_calls": [{**call, "index": 0, "function": {**function, "arguments": ""}}]})
        for i in range(0, len(function["arguments"]), 5):
            yield self.chunk({"tool_calls": [{"index": 0, "function": {"arguments": function["arguments"][i:i + 5]}}]})
        yield self.chunk({}, "tool_calls")
        yield self.chunk(usage=USAGE)

    def stream(self, body):
        """The events of a chat request that streams, as bytes."""
        for c in self.chunks(body):
            yield b"data: " + json.dumps(c).encode() + b"\n\n"
        yield b"data: [DONE]\n\n"

    def refuse(self, status, message, code):
        self.answer(status, {"error": {"message": message, "type": "BadRequestError", "param": None, "code": code}})

    # ---- how it is said ----

    def answer(self, status, body, kind="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def pieces(self, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for data in events:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        except OSError:  # the client has seen enough
            self.close_connection = True

    def vanish(self):
        """Drops the connection as it is."""
        self.close_connection = True
        self.connection.close()

    def do_GET(self):
        if self.path == "/v1/models":
            self.answer(200, self.models())
        else:
            self.refuse(404, "no such route", 404)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.admit((self.headers["Authorization"] or "").removeprefix("Bearer ")):
            self.refuse(401, "wrong key " + (self.headers["Authorization"] or ""), "invalid_api_key")
        elif not isinstance(body["messages"], list):
            self.refuse(400, "messages: no list", 400)
        else:
            self.chat(body)

    def chat(self, body):
        if body.get("stream"):
            self.pieces(self.stream(body))
        else:
            self.answer(200, self.whole(body))


class Served:
    """Serves a handler on a port of its own."""

    def __init__(self, handler):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.server.gone = threading.Event()  # set at the end, for handlers that hang
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self.url

    def __exit__(self, *_):
        self.server.gone.set()
        self.server.shutdown()
        self.server.server_close()
