#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The official anthropic client, and what Claude Code sends, against the real daemon on the tiny model."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402
from message_events import message_of  # noqa: E402

anthropic = need("anthropic")

HELLO = [{"role": "user", "content": "Hello"}]
RECALL = [{"role": "user", "content": "Remember this: my codeword is poppy."},
          {"role": "assistant", "content": "Noted. The codeword is poppy."},
          {"role": "user", "content": "What is my codeword?"}]
THINK = {"type": "enabled", "budget_tokens": 1024}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Get the weather for a city", "input_schema": CITY}
MILAN = [{"role": "user", "content": "What is the weather in Milan?"}]
daemon = None


def setUpModule():
    global daemon
    daemon = Daemon().start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)


class OnDaemon(unittest.TestCase):
    def setUp(self):
        self.client = daemon.anthropic()
        self.addCleanup(self.client.close)

    def fields(self, messages, kw):
        kw.setdefault("max_tokens", 200)
        return {"model": "tiny", "messages": messages, "extra_body": {"temperature": 0}, **kw}

    def ask(self, messages=None, **kw):
        return self.client.messages.create(**self.fields(messages or HELLO, kw))

    def stream(self, messages=None, **kw):
        return self.client.messages.stream(**self.fields(messages or HELLO, kw))


class Answers(OnDaemon):
    def test_text(self):
        m = self.ask()
        self.assertEqual([(b.type, b.text) for b in m.content], [("text", "Hello! How can I help you?")])
        self.assertEqual((m.role, m.type, m.model, m.stop_reason, m.stop_sequence),
                         ("assistant", "message", "tiny", "end_turn", None))
        self.assertEqual(m._request_id, m.id)

    def test_thinking_comes_only_when_asked_for(self):
        for thinking, kinds in ((None, ["text"]), (THINK, ["thinking", "text"]),
                                ({"type": "adaptive"}, ["thinking", "text"]),
                                ({"type": "disabled"}, ["text"])):
            m = self.ask(RECALL, **({"thinking": thinking} if thinking else {}))
            self.assertEqual([b.type for b in m.content], kinds, thinking)
            self.assertIn("poppy", m.content[-1].text)
            self.assertEqual(m.usage.output_tokens_details.thinking_tokens > 0, "thinking" in kinds)

    def test_system_is_in_the_prompt(self):
        m = self.ask(system=[{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
        code, out, err = daemon.ctl("request", "prompt", m.id)
        self.assertTrue(out.startswith("<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hello"), (code, out, err))

    def test_stop_sequences(self):
        for stop, text, found in ((["can I"], "Hello! How ", "can I"),
                                  (["zzz", " help", "you"], "Hello! How can I", " help"),
                                  (["zzz"], "Hello! How can I help you?", None)):
            m = self.ask(stop_sequences=stop)
            self.assertEqual((m.content[0].text, m.stop_sequence), (text, found))
            self.assertEqual(m.stop_reason, "stop_sequence" if found else "end_turn")
            with self.stream(stop_sequences=stop) as s:
                m = s.get_final_message()
            self.assertEqual((m.content[0].text, m.stop_sequence), (text, found))

    def test_an_answer_by_a_schema(self):
        schema = {"type": "object", "properties": {"text": {"enum": ["yes", "no"]}}, "required": ["text"],
                  "additionalProperties": False}
        for thinking in ({}, {"thinking": THINK}):
            m = self.ask(output_config={"format": {"type": "json_schema", "schema": schema}}, **thinking)
            self.assertIn(json.loads(m.content[-1].text)["text"], ("yes", "no"))
        with self.assertRaises(anthropic.BadRequestError) as e:
            self.ask(output_config={"format": {"type": "json_schema", "schema": {"type": "nothing"}}})
        self.assertTrue(e.exception.body["error"]["param"].startswith("output_config.format.schema"), e.exception.body)

    def test_a_budget_of_thinking(self):
        free, bound = (self.ask(RECALL, thinking={"type": "enabled", "budget_tokens": n}) for n in (1024, 4))
        self.assertGreater(free.usage.output_tokens_details.thinking_tokens, 4)
        self.assertLessEqual(bound.usage.output_tokens_details.thinking_tokens, 4)
        self.assertEqual([b.type for b in bound.content], ["thinking", "text"])

    def test_max_tokens(self):
        m = self.ask(max_tokens=3)
        self.assertEqual((m.stop_reason, m.usage.output_tokens), ("max_tokens", 3))

    def test_an_answer_that_the_assistant_has_begun(self):
        m = self.ask([*HELLO, {"role": "assistant", "content": "Hello! How can"}])
        self.assertEqual(m.content[0].text, " I help you?")

    def test_stream_equals_whole(self):
        for messages, kw in ((RECALL, {"thinking": THINK}), (HELLO, {}), (MILAN, {"tools": [WEATHER]})):
            whole = self.ask(messages, **kw)
            with self.stream(messages, **kw) as s:
                events = [e.type for e in s]
                streamed = s.get_final_message()
            self.assertGreater(events.count("content_block_delta"), 0)
            got, want = ([{**b.to_dict(), "id": None} for b in m.content] for m in (streamed, whole))
            self.assertEqual([{k: v for k, v in b.items() if k in want[i]} for i, b in enumerate(got)], want)
            self.assertEqual((streamed.stop_reason, streamed.usage.output_tokens),
                             (whole.stop_reason, whole.usage.output_tokens))


class Models(OnDaemon):
    def test_list_and_names(self):
        self.assertEqual([(m.id, m.type, m.display_name) for m in self.client.models.list()],
                         [("tiny", "model", "tiny")])
        m = self.client.models.retrieve("claude-opus-5")
        self.assertEqual((m.id, m.max_input_tokens, m.created_at.tzinfo is not None), ("tiny", 16384, True))
        with self.assertRaises(anthropic.NotFoundError):
            self.client.models.retrieve("other")


class Usage(OnDaemon):
    CASES = [{}, {"system": "Be brief."}, {"thinking": THINK}, {"tools": [WEATHER]},
             {"tools": [WEATHER], "tool_choice": {"type": "none"}},
             {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}, "tools": [WEATHER]},
             {"tools": [WEATHER], "tool_choice": {"type": "any"}},
             {"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "get_weather"}},
             {"output_config": {"format": {"type": "json_schema", "schema": CITY}}}]

    def test_count_tokens_is_the_prompt_that_an_answer_is_made_of(self):
        for i, kw in enumerate(self.CASES):
            messages = RECALL if i % 2 else HELLO
            counted = self.client.messages.count_tokens(model="tiny", messages=messages, **kw).input_tokens
            u = self.ask(messages, max_tokens=1, **kw).usage
            self.assertEqual(counted, u.input_tokens + u.cache_read_input_tokens + u.cache_creation_input_tokens, kw)
            with self.stream(messages, max_tokens=1, **kw) as s:
                start = next(iter(s)).message.usage
                u = s.get_final_message().usage
            self.assertEqual(start.input_tokens + start.cache_read_input_tokens, counted)
            self.assertEqual(u.input_tokens + u.cache_read_input_tokens, counted)

    def test_what_was_reused_is_told(self):
        long = [{"role": "user", "content": "Ann has a red kite. " * 40}]
        first, second = self.ask(long, max_tokens=1).usage, self.ask(long, max_tokens=1).usage
        self.assertEqual(first.cache_read_input_tokens, 0)
        self.assertGreater(second.cache_read_input_tokens, 0)
        self.assertEqual(second.input_tokens + second.cache_read_input_tokens, first.input_tokens)


class Tools(OnDaemon):
    def test_loop(self):
        for thinking in ({}, {"thinking": THINK}):
            m = self.ask(MILAN, tools=[WEATHER], **thinking)
            use = m.content[-1]
            self.assertEqual((m.stop_reason, use.type, use.name, use.input),
                             ("tool_use", "tool_use", "get_weather", {"city": "Milan"}))
            result = {"type": "tool_result", "tool_use_id": use.id,
                      "content": [{"type": "text", "text": "sunny, 22 degrees"}]}
            answer = self.ask([*MILAN, m.to_param(), {"role": "user", "content": [result]}], tools=[WEATHER],
                              **thinking)
            self.assertEqual((answer.stop_reason, answer.content[-1].type), ("end_turn", "text"))
            _, prompt, _ = daemon.ctl("request", "prompt", answer.id)
            self.assertIn('<｜DSML｜invoke name="get_weather">', prompt)
            self.assertIn("<tool_result>sunny, 22 degrees</tool_result>", prompt)
            if thinking:  # calls keep their reasoning
                self.assertIn("<think>" + m.content[0].thinking + "</think>", prompt)

    def test_thinking_that_the_client_lost_is_filled_in_from_the_ring(self):
        m = self.ask(MILAN, tools=[WEATHER], thinking=THINK)
        use = [b for b in m.to_param()["content"] if b.type == "tool_use"]
        result = {"type": "tool_result", "tool_use_id": use[0].id, "content": "sunny"}
        answer = self.ask([*MILAN, {"role": "assistant", "content": use}, {"role": "user", "content": [result]}],
                          tools=[WEATHER], thinking=THINK)
        self.assertIn("<think>" + m.content[0].thinking + "</think>", daemon.ctl("request", "prompt", answer.id)[1])

    def test_choice(self):
        calls = [WEATHER, {**WEATHER, "name": "get_time"}]
        for choice, names in (({"type": "any"}, {"get_weather", "get_time"}),
                              ({"type": "tool", "name": "get_time"}, {"get_time"}),
                              ({"type": "none"}, set())):
            m = self.ask(HELLO, tools=calls, tool_choice=choice, max_tokens=300)
            self.assertEqual({b.name for b in m.content if b.type == "tool_use"} - names, set())
            self.assertEqual((any(b.type == "tool_use" for b in m.content), m.stop_reason),
                             (bool(names), "tool_use" if names else "end_turn"))
            for b in m.content:
                self.assertTrue(b.type != "tool_use" or isinstance(b.input.get("city"), str), b)
        one = {"type": "any", "disable_parallel_tool_use": True}
        self.assertEqual(len([b for b in self.ask(HELLO, tools=calls, tool_choice=one, max_tokens=300).content
                              if b.type == "tool_use"]), 1)

    def test_a_call_comes_in_pieces_that_are_its_input(self):
        with self.stream(MILAN, tools=[WEATHER]) as s:
            pieces = [e.partial_json for e in s if e.type == "input_json"]
            use = s.get_final_message().content[-1]
        self.assertGreater(len(pieces), 0)
        self.assertEqual((json.loads("".join(pieces)), use.input), ({"city": "Milan"},) * 2)

    def test_cut_off_call_is_not_a_call(self):
        whole = self.ask(MILAN, tools=[WEATHER]).usage.output_tokens
        for n in (9, 17, 25):
            self.assertLess(n, whole - 8)
            m = self.ask(MILAN, tools=[WEATHER], max_tokens=n)
            self.assertEqual((m.stop_reason, [b for b in m.content if b.type == "tool_use"]), ("max_tokens", []))
            body = {"model": "tiny", "messages": MILAN, "tools": [WEATHER], "max_tokens": n, "temperature": 0}
            s = message_of(daemon.stream(body, "/v1/messages").named())
            self.assertEqual(s["stop_reason"], "max_tokens")
            for b in s["content"]:
                self.assertTrue(b["type"] != "tool_use" or "cut" in b, b)
            self.assertNotIn("DSML", json.dumps(s["content"]))


class Errors(OnDaemon):
    def test_classes_of_the_client(self):
        with self.assertRaises(anthropic.BadRequestError) as e:
            self.ask(extra_body={"temperature": 9})
        self.assertEqual(e.exception.body["error"]["param"], "temperature")
        self.assertTrue(e.exception.request_id)
        with self.assertRaises(anthropic.NotFoundError) as e:
            self.ask(model="other")
        self.assertEqual(e.exception.type, "not_found_error")
        with self.assertRaises(anthropic.BadRequestError) as e:
            self.ask([{"role": "user", "content": "hello " * 20000}])
        self.assertEqual(e.exception.body["error"]["context_length"], 16384)
        self.assertEqual(e.exception.body["error"]["param"], "messages")

    def test_operator_cancels_a_stream_while_the_prompt_is_read(self):
        s = daemon.stream({"model": "tiny", "max_tokens": 9,
                           "messages": [{"role": "user", "content": "Ann has a red kite. " * 1300}]},
                          "/v1/messages")
        events = s.named()
        begin = [next(events)]
        self.assertEqual(daemon.ctl("request", "cancel", s.headers["request-id"])[0], 0)
        self.assertEqual(message_of([*begin, *events])["error"]["code"], "cancelled")

    def test_draining(self):
        self.addCleanup(daemon.ctl, "resume")
        self.assertEqual(daemon.ctl("drain")[0], 0)
        with self.assertRaises(anthropic.InternalServerError) as e:
            self.ask()
        self.assertEqual((e.exception.status_code, e.exception.body["error"]["type"]), (503, "overloaded_error"))
        self.assertEqual(daemon.ctl("resume")[0], 0)
        self.assertTrue(self.ask().content)


class ClaudeCode(unittest.TestCase):
    """Bodies and headers as Claude Code sends them."""
    HEADERS = {"anthropic-version": "2023-06-01", "x-api-key": "unused", "x-app": "cli",
               "user-agent": "claude-cli/2.1.0 (external, cli)",
               "anthropic-beta":
               "claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14",
               "x-stainless-lang": "js", "accept": "application/json"}
    CACHED = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    TOOLS = [{"name": n, "description": f"The tool {n}. ", "input_schema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
        "properties": {"path": {"type": "string", "description": "An absolute path"},
                       "limit": {"type": "number", "exclusiveMinimum": 0},
                       "options": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
        "required": ["path"]}}
        for n in ("Task", "Bash", "Glob", "Grep", "Read", "Edit", "Write", "NotebookEdit", "WebFetch", "TodoWrite",
                  "mcp__ide__getDiagnostics")]

    def body(self, turn=0, **fields):
        return {"model": "claude-sonnet-5-20260101", "max_tokens": 60, "stream": True,
                "metadata": {"user_id": "user_0_account__session_1"},
                "system": [{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.0; cch={turn:05x};"},
                           {"type": "text", "text": "You are Claude Code, Anthropic's official CLI.", **self.CACHED},
                           {"type": "text", "text": "You help with software.", **self.CACHED}],
                "tools": self.TOOLS, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"},
                "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
                "messages": [{"role": "user", "content": [
                    {"type": "text", "text": "<system-reminder>\nToday is Monday.\n</system-reminder>"},
                    {"type": "text", "text": "Hello", **self.CACHED}]}], **fields}

    def post(self, body, path="/v1/messages?beta=true"):
        return daemon.http("POST", path, body, self.HEADERS)

    def test_first_turn_streams_in_order(self):
        m = message_of(daemon.stream(self.body(), "/v1/messages?beta=true").named())
        self.assertIsNone(m["error"])
        self.assertEqual(m["content"][0]["type"], "thinking")

    def test_next_turn_reuses_the_prompt_though_its_hash_differs(self):
        for turn in (1, 2):
            status, _, m = self.post(self.body(turn, stream=False, max_tokens=1))
            self.assertEqual(status, 200, m)
        u = m["usage"]
        self.assertGreater(u["cache_read_input_tokens"], u["input_tokens"])

    def test_history_of_a_working_session(self):
        use = {"type": "tool_use", "id": "toolu_01", "name": "Read", "input": {"path": "/a"},
               "caller": {"type": "direct"}}
        messages = self.body()["messages"] + [
            {"role": "assistant",
             "content": [{"type": "thinking", "thinking": "Read it.", "signature": "ErUB"},
                         {"type": "text", "text": "I read."}, use]},
            {"role": "user",
             "content":
             [{"type": "tool_result", "tool_use_id": "toolu_01", "is_error": True, "content": "No such file",
               **self.CACHED},
              {"type": "text", "text": "Go on"}]}]
        status, _, m = self.post(self.body(messages=messages, stream=False, max_tokens=5))
        self.assertEqual(status, 200, m)
        _, prompt, _ = daemon.ctl("request", "prompt", m["id"])
        self.assertIn("<think>Read it.</think>I read.\n\n<｜DSML｜tool_calls>", prompt)
        self.assertIn("<tool_result>[error]\n\nNo such file</tool_result>\n\nGo on<｜Assistant｜>", prompt)
        self.assertNotIn("billing", prompt)

    def test_counting(self):
        body = {k: v for k, v in self.body().items() if k not in ("max_tokens", "stream", "metadata")}
        status, _, n = self.post(body, "/v1/messages/count_tokens?beta=true")
        self.assertEqual(status, 200, n)
        u = self.post(self.body(stream=False, max_tokens=1))[2]["usage"]
        self.assertEqual(n["input_tokens"], u["input_tokens"] + u["cache_read_input_tokens"])

    def test_small_requests_for_titles(self):
        status, _, m = self.post({"model": "claude-haiku-4-5", "max_tokens": 20, "stream": False, "temperature": 1,
                                  "system": [],
                                  "tools": [], "messages": HELLO})
        self.assertEqual((status, [b["type"] for b in m["content"]]), (200, ["text"]), m)

    def test_tools_of_the_service_are_refused_by_name(self):
        status, _, e = self.post(self.body(tools=[{"type": "web_search_20250305", "name": "web_search",
                                                   "max_uses": 8}]))
        self.assertEqual((status, e["error"]["param"]), (400, "tools[0].type"))
        self.assertIn("web_search_20250305", e["error"]["message"])


if __name__ == "__main__":
    unittest.main()
