#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""LangChain's flows against the real daemon on the tiny model: chains, streams, agents' loops, structured output."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need, skip  # noqa: E402
from daemon import Daemon  # noqa: E402

need("langchain_openai")
try:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI, OpenAI
    from pydantic import BaseModel, Field
except ImportError as lacking:
    skip(str(lacking))

ASK = HumanMessage("What is the weather in Milan?")
daemon = None


class Trip(BaseModel):
    """A trip"""
    city: str = Field(max_length=12)
    days: int = Field(ge=1, le=9)


@tool
def get_weather(city: str) -> str:
    """Get the weather for a city"""
    return f"sunny in {city}"


def setUpModule():
    global daemon
    daemon = Daemon().start()
    unittest.addModuleCleanup(daemon.__exit__, None, None, None)


class Chains(unittest.TestCase):
    def setUp(self):
        self.settings = {"base_url": daemon.url + "/v1", "api_key": "unused", "model": "tiny", "max_retries": 0,
                         "temperature": 0, "max_tokens": 200}
        self.chat = ChatOpenAI(**self.settings)

    def test_an_answer_and_what_it_used(self):
        m = self.chat.invoke("Hello")
        self.assertEqual((m.content, m.response_metadata["finish_reason"]), ("Hello! How can I help you?", "stop"))
        self.assertEqual(m.usage_metadata["total_tokens"], m.usage_metadata["input_tokens"]
                         + m.usage_metadata["output_tokens"])
        self.assertGreater(m.usage_metadata["output_token_details"]["reasoning"], 0)

    def test_a_stream_adds_up(self):
        self.assertEqual("".join(c.content for c in self.chat.stream("Hello")), self.chat.invoke("Hello").content)

    def test_an_agent_s_loop_keeps_the_reasoning_that_it_does_not_send(self):
        agent = self.chat.bind_tools([get_weather])
        m = agent.invoke([ASK])
        self.assertEqual([(c["name"], c["args"]) for c in m.tool_calls], [("get_weather", {"city": "Milan"})])
        results = [ToolMessage(get_weather.invoke(c["args"]), tool_call_id=c["id"]) for c in m.tool_calls]
        after = agent.invoke([ASK, m, *results])
        self.assertTrue(after.content)
        code, prompt, err = daemon.ctl("request", "prompt", after.response_metadata["id"])
        self.assertEqual(code, 0, err)
        self.assertRegex(prompt, r"<think>[^<]+</think>\n\n<｜DSML｜tool_calls>")
        self.assertIn("<tool_result>sunny in Milan</tool_result>", prompt)

    def test_a_stream_of_calls_adds_up(self):
        total = None
        for chunk in self.chat.bind_tools([get_weather]).stream([ASK]):
            total = chunk if total is None else total + chunk
        self.assertEqual([(c["name"], c["args"]) for c in total.tool_calls], [("get_weather", {"city": "Milan"})])

    def test_calls_that_must_be(self):
        for choice in ("any", "required", "get_weather", True):
            m = self.chat.bind_tools([get_weather], tool_choice=choice, parallel_tool_calls=False).invoke("Hello")
            self.assertEqual([c["name"] for c in m.tool_calls], ["get_weather"], choice)

    def test_structured_output(self):
        for method in ("json_schema", "function_calling"):
            self.assertIsInstance(self.chat.with_structured_output(Trip, method=method).invoke("Hello"), Trip, method)
        self.assertTrue(self.chat.with_structured_output(Trip, method="json_schema",
                                                         include_raw=True).invoke("Hello")["parsed"])

    def test_texts(self):
        llm = OpenAI(**{**self.settings, "max_tokens": 8})
        whole = llm.invoke("Hello")
        self.assertTrue(whole)
        self.assertEqual("".join(llm.stream("Hello")), whole)
        self.assertEqual([g[0].text for g in llm.generate(["Hello", "Hello"]).generations], [whole, whole])


if __name__ == "__main__":
    unittest.main()
