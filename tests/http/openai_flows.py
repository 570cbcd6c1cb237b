#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The flows that the official openai client builds on the protocol, on scripted generations: parsed answers, helpers of
streams, loops of tools, errors as exceptions, the client that leaves."""
import asyncio
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from fake import Fake  # noqa: E402

openai = need("openai")
pydantic = need("pydantic")


class Trip(pydantic.BaseModel):
    city: str
    days: int


class GetWeather(pydantic.BaseModel):
    """Get the weather for a city"""
    city: str


TOOL = openai.pydantic_function_tool(GetWeather, name="get_weather")
TWO_CALLS = 'rBoth.|cLook.|bget_weather|a{"city":|a "Oslo"}|e|bget_weather|a{"city": "Rome"}|e|t'


class OnFake(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())
        self.client = self.fake.openai()
        self.addCleanup(self.client.close)

    def ask(self, script, **kw):
        return {"model": "fake", "messages": [{"role": "user", "content": script}], **kw}

    def last(self):
        return json.loads(self.fake.command("last"))


class Parsed(OnFake):
    def test_content_as_a_model(self):
        r = self.client.chat.completions.parse(**self.ask('c{"city": "Oslo", |c"days": 3}|s'), response_format=Trip)
        self.assertEqual(r.choices[0].message.parsed, Trip(city="Oslo", days=3))
        last = self.last()
        self.assertEqual((last["format"], last["schema"]["required"], last["schema"]["additionalProperties"]),
                         ("json_schema", ["city", "days"], False))

    def test_calls_as_models(self):
        r = self.client.chat.completions.parse(**self.ask(TWO_CALLS), tools=[TOOL])
        self.assertEqual([c.function.parsed_arguments for c in r.choices[0].message.tool_calls],
                         [GetWeather(city="Oslo"), GetWeather(city="Rome")])
        self.assertEqual(self.last()["tools"][0]["function"]["strict"], True)

    def test_a_length_is_the_client_s_own_error(self):
        with self.assertRaises(openai.LengthFinishReasonError):
            self.client.chat.completions.parse(**self.ask('c{"city": "O|n'), response_format=Trip)

    def test_a_stream_as_a_model(self):
        with self.client.chat.completions.stream(**self.ask('c{"city": "Oslo", |c"days": 3}|s'),
                                                 response_format=Trip) as s:
            kinds = [e.type for e in s]
            self.assertEqual(s.get_final_completion().choices[0].message.parsed, Trip(city="Oslo", days=3))
        self.assertIn("content.delta", kinds)
        self.assertEqual(kinds.count("content.done"), 1)


class Helpers(OnFake):
    def test_a_stream_puts_itself_together(self):
        with self.client.chat.completions.stream(**self.ask(TWO_CALLS), tools=[TOOL],
                                                 stream_options={"include_usage": True}) as s:
            events = list(s)
            final = s.get_final_completion()
        m = final.choices[0].message
        self.assertEqual((m.content, final.choices[0].finish_reason), ("Look.", "tool_calls"))
        self.assertEqual([(c.id, c.function.name, c.function.parsed_arguments) for c in m.tool_calls],
                         [("call_1", "get_weather", GetWeather(city="Oslo")),
                          ("call_2", "get_weather", GetWeather(city="Rome"))])
        self.assertEqual(final.usage.prompt_tokens, 7)
        deltas = [e.arguments_delta for e in events if e.type == "tool_calls.function.arguments.delta"]
        self.assertIn('{"city":', deltas)
        self.assertEqual(len([e for e in events if e.type == "tool_calls.function.arguments.done"]), 2)

    def test_logprobs_and_choices(self):
        with self.client.chat.completions.stream(**self.ask("l65|cA|d|s"), n=2, logprobs=True, top_logprobs=1) as s:
            list(s)
            final = s.get_final_completion()
        self.assertEqual([(c.message.content, len(c.logprobs.content)) for c in final.choices], [("A0", 1), ("A1", 1)])

    def test_a_loop_of_tools(self):
        messages = [{"role": "user", "content": TWO_CALLS}]
        r = self.client.chat.completions.create(model="fake", messages=messages, tools=[TOOL], parallel_tool_calls=True)
        m = r.choices[0].message
        messages.append(m)
        for call in reversed(m.tool_calls):  # answered in the order they are done in
            messages.append({"role": "tool", "tool_call_id": call.id,
                             "content": json.loads(call.function.arguments)["city"] + ": rain"})
        messages.append({"role": "user", "content": "cIt rains.|s"})
        r = self.client.chat.completions.create(model="fake", messages=messages, tools=[TOOL])
        self.assertEqual(r.choices[0].message.content, "It rains.")
        last = self.last()["messages"]
        self.assertEqual([x["role"] for x in last], ["user", "assistant", "tool", "tool", "user"])
        self.assertEqual((last[1]["reasoning_content"], [c["id"] for c in last[1]["tool_calls"]]),
                         ("Both.", ["call_1", "call_2"]))

    def test_choices_of_calls_reach_the_engine(self):
        for choice, calls in (("auto", "auto"), ("none", "none"), ("required", "required"),
                              ({"type": "function", "function": {"name": "get_weather"}}, "named")):
            self.client.chat.completions.create(**self.ask("s"), tools=[TOOL], tool_choice=choice,
                                                parallel_tool_calls=False)
            self.assertEqual((self.last()["calls"], self.last()["one_call"]), (calls, True))

    def test_the_prompt_beside_the_answer_s_settings(self):
        self.client.chat.completions.create(**self.ask("s"), reasoning_effort="xhigh", max_completion_tokens=9, seed=3,
                                            stop=["x"], logit_bias={"5": 2},
                                            extra_body={"thinking": {"type": "enabled", "budget_tokens": 50},
                                                        "top_k": 4})
        last = self.last()
        self.assertEqual({k: last[k] for k in ("effort", "max_tokens", "seed", "stop", "bias", "max_reasoning",
                                               "top_k")},
                         {"effort": 2, "max_tokens": 9, "seed": 3, "stop": ["x"], "bias": {"5": 2.0},
                          "max_reasoning": 50, "top_k": 4})


class Errors(OnFake):
    def test_classes(self):
        for script, kind in (("Q", openai.InternalServerError), ("P", openai.BadRequestError),
                             ("xbroken", openai.InternalServerError)):
            with self.assertRaises(kind) as e:
                self.client.chat.completions.create(**self.ask(script))
            self.assertTrue(e.exception.request_id)
            self.assertTrue(e.exception.code and e.exception.message)

    def test_an_error_in_a_stream_is_raised(self):
        seen = []
        with self.assertRaises(openai.APIError) as e:
            for chunk in self.client.chat.completions.create(**self.ask("chalf|xbroken"), stream=True):
                seen.append(chunk.choices[0].delta.content or "")
        self.assertEqual(("".join(seen), e.exception.message, e.exception.code), ("half", "broken", "kernel"))

    def test_who_closes_a_stream_cancels_it(self):
        async def leave():
            async with openai.AsyncOpenAI(base_url=self.fake.url + "/v1", api_key="unused", max_retries=0) as client:
                stream = await client.chat.completions.create(**self.ask("chalf|w|s"), stream=True)
                async for chunk in stream:
                    if chunk.choices[0].delta.content:
                        break
                await stream.close()
        asyncio.run(leave())
        self.fake.command("tick")
        self.fake.command("wait-live 0")
        self.assertEqual(self.fake.command("counts"), "1 1")


if __name__ == "__main__":
    unittest.main()
