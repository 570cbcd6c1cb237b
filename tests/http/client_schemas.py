#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What pydantic and the official openai client make schemas of, sent to the real daemon: all are taken, and every
answer is what the model's own validation takes."""
import datetime
import decimal
import enum
import json
import os
import sys
import typing
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import need  # noqa: E402
from daemon import Daemon  # noqa: E402

need("openai")
pydantic = need("pydantic")
from openai.lib._pydantic import to_strict_json_schema  # noqa: E402
from pydantic import Field  # noqa: E402

A = typing.Annotated


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Cat(pydantic.BaseModel):
    kind: typing.Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: typing.Literal["dog"]
    name: str = "Rex"


class Node(pydantic.BaseModel):
    value: A[int, Field(ge=0, le=9)]
    next: typing.Optional["Node"] = None
    kids: A[list["Node"], Field(max_length=1)] = []


TYPES = {
    "optional": typing.Optional[int], "literal": typing.Literal["a", 1, None, True], "enum": Color, "int enum": Size,
    "list": A[list[A[int, Field(ge=0)]], Field(min_length=1, max_length=3)], "set": A[set[bool], Field(min_length=1)],
    "frozen set": frozenset[Color], "set of integers": A[set[int], Field(max_length=2)],
    "tuple": tuple[int, A[str, Field(max_length=3)]],
    "dict": dict[str, bool], "dict by pattern": dict[A[str, Field(pattern="^[a-z]{1,3}$")], bool],
    "dict by literal": dict[typing.Literal["p", "q"], int],
    "dict by enum": dict[Color, bool], "dict by length": dict[A[str, Field(min_length=1, max_length=5)], bool],
    "dict of some": A[dict[str, bool], Field(min_length=1, max_length=2)],
    "multiple": A[int, Field(multiple_of=5, ge=0, le=100)],
    "half": A[float, Field(multiple_of=0.5, gt=-3, lt=99)], "small": A[float, Field(gt=1e-7, lt=1e-3)],
    "far": A[float, Field(ge=-1e22, le=1e22)],
    "decimal": A[decimal.Decimal, Field(ge=0, le=100)], "date": datetime.date, "uuid": uuid.UUID,
    "bytes": A[bytes, Field(max_length=4)],
    "by kind": A[typing.Union[Cat, Dog], Field(discriminator="kind")], "union": typing.Union[Cat, Dog, int],
    "node": Node,
    "any": typing.Any, "pattern": A[str, Field(pattern=r"^\d{3}-\d{4}$")],
    "nested": A[list[dict[str, typing.Optional[bool]]], Field(max_length=1)],
}
# Forms of texts that JSON Schema has as notes only.
FORMS = ("decimal", "date", "uuid")


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = cls.enterClassContext(Daemon())

    def ask(self, schema, **kw):
        form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
        body = {"messages": [{"role": "user", "content": "Hello"}], "thinking": {"type": "disabled"},
                "response_format": form, **kw}
        status, _, reply = self.daemon.http("POST", "/v1/chat/completions", body, timeout=600)
        self.assertEqual(status, 200, (schema, reply))
        return reply["choices"]

    def test_what_pydantic_and_strict_mode_write_is_taken_and_kept(self):
        whole = 0
        for name, kind in TYPES.items():
            model = pydantic.create_model("M", x=(kind, ...))
            for schema in (model.model_json_schema(), model.model_json_schema(mode="serialization"),
                           to_strict_json_schema(model)):
                c, = self.ask(schema, max_tokens=48, seed=3)
                if c["finish_reason"] != "stop":
                    continue
                whole += 1
                value = json.loads(c["message"]["content"])
                if name not in FORMS:
                    model.model_validate(value, strict=False)
        self.assertGreater(whole, len(TYPES))

    def test_schemas_that_refer_to_their_own_top(self):
        for schema in ({"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}},
                        "required": ["kids"]},
                       {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
                        "required": ["next"]},
                       {"type": "object",
                        "properties":
                        {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}], "type": ["object", "null"]}}},
                       {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}):
            self.ask(schema, max_tokens=8)


if __name__ == "__main__":
    unittest.main()
