#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The openai client's responses, and what Codex sends, against the real daemon on the tiny model."""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402
from response_events import response_of  # noqa: E402

openai = need("openai")

REMEMBER = "Remember this: my codeword is poppy."
WHAT = "What is my codeword?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"type": "function", "name": "get_weather", "description": "Get the weather for a city", "parameters": CITY,
           "strict": True}
MILAN = "What is the weather in Milan?"
OFF = {"effort": "none"}
daemon = None


def setUpModule():
    global daemon
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write("[daemon]\nring_requests = 6\nmodel_aliases = gpt-5*  small\n")
        f.flush()
        daemon = Daemon("--config", f.name).start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)


class OnDaemon(unittest.TestCase):
    def setUp(self):
        self.client = daemon.openai()
        self.addCleanup(self.client.close)

    def ask(self, given="Hello", **kw):
        kw.setdefault("temperature", 0)
        kw.setdefault("max_output_tokens", 200)
        return self.client.responses.create(model="tiny", input=given, **kw)

    def stream(self, given="Hello", **kw):
        """Through the client's own accumulator, and its events through our machine."""
        kw.setdefault("temperature", 0)
        kw.setdefault("max_output_tokens", 200)
        with self.client.responses.stream(model="tiny", input=given, **kw) as s:
            events = list(s)
            self.kinds = [e.type for e in events]
            if self.kinds[-1] == "response.completed":
                return s.get_final_response()
            return events[-1].response


class Answers(OnDaemon):
    def test_text_and_reasoning(self):
        r = self.ask()
        self.assertEqual([i.type for i in r.output], ["reasoning", "message"])
        self.assertEqual(r.output_text, "Hello! How can I help you?")
        self.assertTrue(r.output[0].content[0].text)
        self.assertEqual((r.status, r.error, r.object), ("completed", None, "response"))
        self.assertGreater(r.usage.output_tokens_details.reasoning_tokens, 0)
        r = self.ask(reasoning=OFF)
        self.assertEqual([i.type for i in r.output], ["message"])

    def test_reasoning_as_summary(self):
        r, whole = self.ask(reasoning={"summary": "auto"}), self.ask()
        self.assertEqual(r.output[0].summary[0].text, whole.output[0].content[0].text)
        self.stream(reasoning={"summary": "auto"})
        self.assertIn("response.reasoning_summary_text.delta", self.kinds)

    def test_instructions_are_in_the_prompt(self):
        r = self.ask(instructions="Be brief.")
        _, prompt, _ = daemon.ctl("request", "prompt", r.id)
        self.assertTrue(prompt.startswith("<｜begin▁of▁sentence｜>Be brief.<｜User｜>Hello"), prompt)

    def test_an_answer_by_a_schema(self):
        schema = {"type": "object", "properties": {"text": {"enum": ["yes", "no"]}}, "required": ["text"],
                  "additionalProperties": False}
        for kw in ({}, {"reasoning": OFF}):
            r = self.ask(text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}, **kw)
            self.assertIn(json.loads(r.output_text)["text"], ("yes", "no"))
        with self.assertRaises(openai.BadRequestError) as e:
            self.ask(text={"format": {"type": "json_schema", "name": "n", "schema": {"type": "nothing"}}})
        self.assertTrue(e.exception.param.startswith("text.format.schema"), e.exception.param)

    def test_cut_off(self):
        for r in (self.ask(max_output_tokens=3), self.stream(max_output_tokens=3)):
            self.assertEqual((r.status, r.incomplete_details.reason, r.usage.output_tokens),
                             ("incomplete", "max_output_tokens", 3))

    def test_stream_equals_whole(self):
        for given, kw in ((REMEMBER, {}), ("Hello", {"reasoning": OFF}), (MILAN, {"tools": [WEATHER]})):
            whole, streamed = self.ask(given, **kw), self.stream(given, **kw)

            def bare(r):
                items = [{k: v for k, v in i.to_dict().items() if k not in ("id", "call_id", "parsed_arguments")}
                         for i in r.output]
                for part in (p for i in items for p in i.get("content", [])):
                    part.pop("parsed", None)  # the client's own
                return items
            self.assertEqual(bare(streamed), bare(whole))
            self.assertEqual((streamed.status, streamed.usage.output_tokens), (whole.status, whole.usage.output_tokens))

    def test_input_tokens_are_those_of_an_answer(self):
        for kw in ({}, {"instructions": "Be brief."}, {"tools": [WEATHER]}, {"reasoning": OFF},
                   {"tools": [WEATHER], "tool_choice": "required"},
                   {"text": {"format": {"type": "json_schema", "name": "n", "schema": CITY}}}):
            n = self.client.responses.input_tokens.count(model="tiny", input=MILAN, **kw).input_tokens
            self.assertEqual(n, self.ask(MILAN, max_output_tokens=1, **kw).usage.input_tokens)


class Tools(OnDaemon):
    def test_loop_by_items(self):
        given = [{"role": "user", "content": MILAN}]
        r = self.ask(given, tools=[WEATHER], store=False, include=["reasoning.encrypted_content"])
        call = r.output[-1]
        self.assertEqual((call.type, call.name, json.loads(call.arguments), call.status),
                         ("function_call", "get_weather", {"city": "Milan"}, "completed"))
        given += [i.to_dict() for i in r.output]
        given.append({"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 22 degrees"})
        r = self.ask(given, tools=[WEATHER], store=False)
        self.assertTrue(r.output_text)
        _, prompt, _ = daemon.ctl("request", "prompt", r.id)
        self.assertIn("<tool_result>sunny, 22 degrees</tool_result>", prompt)
        self.assertNotIn("<think></think>", prompt)  # calls keep their reasoning

    def test_loop_by_previous_response(self):
        first = self.ask(MILAN, tools=[WEATHER])
        out = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "sunny, 22 degrees"}
        by_id = self.ask([out], tools=[WEATHER], previous_response_id=first.id)
        by_items = self.ask([{"role": "user", "content": MILAN}, *[i.to_dict() for i in first.output], out],
                            tools=[WEATHER])
        self.assertEqual((by_id.output_text, by_id.usage.input_tokens),
                         (by_items.output_text, by_items.usage.input_tokens))
        prompts = [daemon.ctl("request", "prompt", r.id)[1] for r in (by_id, by_items)]
        self.assertEqual(prompts[0], prompts[1])

    def test_choice(self):
        calls = [WEATHER, {**WEATHER, "name": "get_time"}]
        for choice, names in (("required", {"get_weather", "get_time"}),
                              ({"type": "function", "name": "get_time"}, {"get_time"}), ("none", set()),
                              ({"type": "allowed_tools", "mode": "required",
                                "tools": [{"type": "function", "name": "get_time"}]}, {"get_time"})):
            r = self.ask(tools=calls, tool_choice=choice, reasoning=OFF, parallel_tool_calls=False,
                         max_output_tokens=300)
            got = [i for i in r.output if i.type == "function_call"]
            self.assertEqual((len(got), {i.name for i in got} - names), (1 if names else 0, set()), choice)
            for i in got:
                self.assertIsInstance(json.loads(i.arguments)["city"], str)

    def test_custom_tool(self):
        patch = {"type": "custom", "name": "apply_patch", "description": "Edits."}
        kw = {"tools": [patch], "tool_choice": {"type": "custom", "name": "apply_patch"}, "reasoning": OFF,
              "parallel_tool_calls": False}
        r = self.ask("Say hello.", max_output_tokens=400, **kw)
        if r.status == "incomplete":  # the tiny model may not find an end
            self.assertEqual(r.output, [])
        else:
            self.assertEqual([(i.type, i.name, isinstance(i.input, str)) for i in r.output],
                             [("custom_tool_call", "apply_patch", True)])

    def test_cut_off_call_is_not_a_call(self):
        whole = self.ask(MILAN, tools=[WEATHER], reasoning=OFF).usage.output_tokens
        for n in (9, 17, 25):
            self.assertLess(n, whole - 8)
            for r in (self.ask(MILAN, tools=[WEATHER], reasoning=OFF, max_output_tokens=n),
                      self.stream(MILAN, tools=[WEATHER], reasoning=OFF, max_output_tokens=n)):
                self.assertEqual((r.status,
                                  [i for i in r.output if i.type == "function_call" and i.status == "completed"]),
                                 ("incomplete", []))


class Kept(OnDaemon):
    def test_conversation_by_previous_response(self):
        first = self.ask(REMEMBER, reasoning=OFF)
        r = self.stream(WHAT, previous_response_id=first.id)
        self.assertIn("poppy", r.output_text)
        self.assertEqual(r.previous_response_id, first.id)
        self.assertEqual(self.client.responses.retrieve(r.id).output_text, r.output_text)

    def test_the_client_pages_through_input_items(self):
        first = self.ask(REMEMBER, reasoning=OFF)
        r = self.ask(WHAT, previous_response_id=first.id, max_output_tokens=1)
        got = list(self.client.responses.input_items.list(r.id, limit=1, order="asc"))
        self.assertEqual([(i.type, i.role) for i in got],
                         [("message", "user"), ("message", "assistant"), ("message", "user")])
        self.assertEqual((got[0].content[0].text, got[1].content[0].text), (REMEMBER, first.output_text))
        self.assertEqual([i.id for i in self.client.responses.input_items.list(r.id)], [i.id for i in got][::-1])

    def test_evicted_or_not_stored_is_not_found(self):
        unstored, first = self.ask(store=False, max_output_tokens=1), self.ask(max_output_tokens=1)
        self.client.responses.retrieve(first.id)
        for _ in range(6):  # the ring's size here
            self.ask(max_output_tokens=1)
        for rid in (first.id, unstored.id, "resp_none"):
            with self.assertRaises(openai.NotFoundError) as e:
                self.ask(previous_response_id=rid)
            self.assertEqual(e.exception.param, "previous_response_id")
            self.assertIn(rid, e.exception.message)
            with self.assertRaises(openai.NotFoundError):
                self.client.responses.retrieve(rid)

    def test_deleted_is_not_found_and_still_in_the_ring(self):
        r = self.ask(max_output_tokens=1)
        self.client.responses.delete(r.id)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(r.id)
        self.assertEqual(daemon.ctl("request", "show", r.id)[0], 0)


class Names(OnDaemon):
    def test_aliases_are_those_of_the_configuration(self):
        for path, body in (("/v1/responses", {"input": "Hello", "max_output_tokens": 1}),
                           ("/v1/chat/completions",
                            {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}),
                           ("/v1/messages", {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1})):
            for name, status in (("tiny", 200), ("gpt-5", 200), ("gpt-5-codex", 200), ("small", 200), ("smaller", 404),
                                 ("gpt-4", 404),
                                 ("claude-x", 404), ("", 404)):
                got, _, r = daemon.http("POST", path, {"model": name, **body})
                self.assertEqual((got, r.get("model", "tiny")), (status, "tiny"), (path, name))


class Errors(OnDaemon):
    def test_classes_of_the_client(self):
        with self.assertRaises(openai.BadRequestError) as e:
            self.ask(temperature=9)
        self.assertEqual((e.exception.param, e.exception.code), ("temperature", "invalid_value"))
        with self.assertRaises(openai.BadRequestError) as e:
            self.ask("hello " * 20000)
        self.assertEqual((e.exception.param, e.exception.body["context_length"]), ("input", 16384))

    def test_operator_cancels_a_stream_while_the_prompt_is_read(self):
        s = daemon.stream({"model": "tiny", "input": "Ann has a red kite. " * 1300}, "/v1/responses")
        events = s.named()
        begin = [next(events)]
        self.assertEqual(daemon.ctl("request", "cancel", s.headers["x-request-id"])[0], 0)
        r = response_of([*begin, *events])
        self.assertEqual((r["status"], r["error"]["code"]), ("failed", "cancelled"))
        self.assertEqual(daemon.http("GET", "/v1/responses/" + r["id"])[0], 404)


class Codex(unittest.TestCase):
    """Bodies as Codex sends them."""
    SHELL = {"type": "function", "name": "exec_command", "description": "Runs a command.", "strict": False,
             "parameters": {
        "type": "object", "properties": {"cmd": {"type": "string"}, "yield_time_ms": {"type": "number"}},
        "required": ["cmd"],
        "additionalProperties": False}}
    PATCH = {"type": "custom", "name": "apply_patch",
             "description": "Use the tool to edit files. This is a FREEFORM tool.",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin_patch hunk+ end_patch"}}
    SPACE = {"type": "namespace", "name": "mcp__files", "description": "Files.",
             "tools": [{"type": "function", "name": "read", "description": "d",
             "strict": False, "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}]}

    def body(self, *more, **fields):
        return {"model": "tiny", "instructions": "You are a coding agent.", "stream": True, "store": False,
                "tool_choice": "auto",
                "parallel_tool_calls": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199",
                "client_metadata": {"thread": "1"},
                "reasoning": {"effort": "medium", "summary": "auto"}, "text": {"verbosity": "low"},
                "max_output_tokens": 40,
                "tools": [self.SHELL, self.PATCH, self.SPACE, {"type": "web_search", "external_web_access": False}],
                "input":
                [{"type": "message", "role": "developer",
                  "content": [{"type": "input_text", "text": "<permissions>none</permissions>"}]},
                 {"type": "message", "role": "user",
                  "content": [{"type": "input_text", "text": "<environment_context/>"}]},
                 {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]}, *more],
                **fields}

    def run_body(self, body):
        s = daemon.stream(body, "/v1/responses")
        self.assertEqual(s.status, 200)
        r = response_of(s.named())
        self.assertIn(r["status"], ("completed", "incomplete"))
        return r, daemon.ctl("request", "prompt", r["id"])[1]

    def test_first_turn(self):
        r, prompt = self.run_body(self.body())
        self.assertEqual(r["output"][0]["type"], "reasoning")
        self.assertTrue(r["output"][0]["encrypted_content"])
        self.assertIn("You are a coding agent.\n\n<permissions>none</permissions>", prompt)
        for name in ("exec_command", "apply_patch", "mcp__files.read"):
            self.assertIn(f'"name": "{name}"', prompt)
        self.assertNotIn("web_search", prompt)
        self.assertEqual([t["type"] for t in r["tools"]], ["function", "custom", "namespace"])

    def test_history_of_a_working_session(self):
        r, _ = self.run_body(self.body())
        more = [r["output"][0],
                {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "ls"}', "call_id": "c1"},
                {"type": "function_call_output", "call_id": "c1", "output": "a.txt"},
                {"type": "custom_tool_call", "status": "completed", "call_id": "c2", "name": "apply_patch",
                 "input": "*** Begin Patch"},
                {"type": "custom_tool_call_output", "call_id": "c2", "output": "Done!"}]
        _, prompt = self.run_body(self.body(*more))
        text = r["output"][0]["summary"][0]["text"]
        self.assertIn(f"<think>{text}</think>\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"exec_command\">", prompt)
        self.assertIn("<tool_result>a.txt</tool_result>", prompt)
        self.assertIn('<｜DSML｜parameter name="input" string="true">*** Begin Patch</｜DSML｜parameter>', prompt)

    def test_tools_it_cannot_have_are_refused_by_name(self):
        for kind in ("local_shell", "tool_search", "mcp"):
            status, _, e = daemon.http("POST", "/v1/responses", self.body(tools=[self.SHELL, {"type": kind}]))
            self.assertEqual((status, e["error"]["param"]), (400, "tools[1].type"))
            self.assertIn(kind, e["error"]["message"])


if __name__ == "__main__":
    unittest.main()
