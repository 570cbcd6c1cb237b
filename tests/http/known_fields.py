#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No field that some server knows is passed over in silence: on every route that generates, each one is served, refused
by its name, or a remark of the tables."""
import importlib
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from client import SRC  # noqa: E402
from fake import Fake  # noqa: E402

# The fields of requests that these publish, by who does.
KNOWN = {
    "OpenAI's chat completions": """messages model audio frequency_penalty function_call functions logit_bias
        logprobs max_completion_tokens max_tokens metadata modalities n parallel_tool_calls prediction
        presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format safety_identifier
        seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user
        verbosity web_search_options""",
    "OpenAI's text completions": """model prompt best_of echo frequency_penalty logit_bias logprobs max_tokens n
        presence_penalty seed stop stream stream_options suffix temperature top_p user""",
    "OpenAI's responses": """background context_management conversation include input instructions max_output_tokens
        max_tool_calls metadata model parallel_tool_calls previous_response_id prompt prompt_cache_key
        prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text
        tool_choice tools top_logprobs top_p truncation user""",
    "Anthropic's messages": """max_tokens messages model betas cache_control container context_management
        inference_geo mcp_servers metadata output_config output_format service_tier speed stop_sequences stream
        system temperature thinking tool_choice tools top_k top_p""",
    "vLLM": """use_beam_search top_k min_p repetition_penalty length_penalty stop_token_ids
        include_stop_str_in_output ignore_eos min_tokens skip_special_tokens spaces_between_special_tokens
        truncate_prompt_tokens truncation_side prompt_logprobs allowed_token_ids bad_words echo add_generation_prompt
        continue_final_message add_special_tokens documents chat_template chat_template_kwargs mm_processor_kwargs
        structured_outputs guided_json guided_regex guided_choice guided_grammar guided_decoding_backend
        guided_whitespace_pattern structural_tag priority request_id logits_processors return_tokens_as_token_ids
        return_token_ids cache_salt kv_transfer_params vllm_xargs include_reasoning thinking_token_budget""",
    "others": """enable_thinking thinking_budget thinking_budget_tokens separate_reasoning json_schema regex ebnf
        grammar n_predict n_probs typical_p tfs_z top_n_sigma top_a mirostat xtc_probability dry_multiplier
        dynatemp_range samplers repeat_penalty custom_logit_processor min_new_tokens max_new_tokens stop_regex
        no_stop_trim cache_prompt options format""",
}
# The clients' own types of requests (module, type); what they have of it is known too, where they are installed.
TYPED = (
    ("openai.types.chat.completion_create_params", "CompletionCreateParamsNonStreaming"),
    ("openai.types.completion_create_params", "CompletionCreateParamsNonStreaming"),
    ("openai.types.responses.response_create_params", "ResponseCreateParamsNonStreaming"),
    ("openai.types.responses.input_token_count_params", "InputTokenCountParams"),
    ("anthropic.types.message_create_params", "MessageCreateParamsNonStreaming"),
    ("anthropic.types.beta.message_create_params", "MessageCreateParamsNonStreaming"),
    ("anthropic.types.message_count_tokens_params", "MessageCountTokensParams"),
)
# Their types of objects in requests: object, the members that a parser reads.
TYPED_OBJECTS = (
    ("openai.types.shared_params.reasoning", "Reasoning", "reasoning", "effort summary generate_summary"),
    ("openai.types.responses.response_text_config_param", "ResponseTextConfigParam", "text", "format"),
    ("openai.types.chat.chat_completion_stream_options_param", "ChatCompletionStreamOptionsParam", "stream_options",
     "include_usage"),
    ("openai.types.responses.response_create_params", "StreamOptions", "stream_options", ""),
    ("openai.types.responses.response_create_params", "PromptCacheOptions", "prompt_cache_options", ""),
    ("anthropic.types.output_config_param", "OutputConfigParam", "output_config", "effort format"),
    ("anthropic.types.beta.beta_output_config_param", "BetaOutputConfigParam", "output_config", "effort format"),
)
ROUTES = {
    # path: (a good body, its tables, what its other parsers read)
    "/v1/chat/completions": ({"messages": [{"role": "user", "content": "s"}]},
                             ("request/settings_fields", "request/chat_fields"),
                             """messages model seed logit_bias stop best_of stream_options tools tool_choice
                             parallel_tool_calls response_format guided_json json_schema structured_outputs thinking
                             reasoning reasoning_effort enable_thinking chat_template_kwargs thinking_budget
                             thinking_token_budget thinking_budget_tokens"""),
    "/v1/completions": ({"prompt": "s"}, ("request/settings_fields", "completions/completions_fields"),
                        "prompt model seed logit_bias stop best_of stream_options"),
    "/v1/messages": ({"model": "fake", "max_tokens": 9, "messages": [{"role": "user", "content": "s"}]},
                     ("anthropic/anthropic_fields",),
                     "messages model system seed logit_bias stop_sequences thinking output_config output_format tools "
                     "tool_choice"),
    "/v1/responses": ({"input": "s"}, ("responses/responses_fields",),
                      """input model instructions previous_response_id include metadata reasoning text tools
                      tool_choice seed logit_bias"""),
}
PLAIN = {"seed": 5, "top_k": 3, "min_p": 0.5, "repetition_penalty": 1.5, "presence_penalty": 0.5,
         "frequency_penalty": 0.25}


def names(kinds, tables):
    found = []
    for table in ("request/common_fields", *tables):
        with open(os.path.join(SRC, "api", table + ".def"), encoding="utf-8") as f:
            found += re.findall(rf"^(?:{kinds})\((\w+),", f.read(), re.M)
    return found


def members():
    """{object: {member: (kind, reason)}} of the tables."""
    found = {}
    with open(os.path.join(SRC, "api", "request", "common_fields.def"), encoding="utf-8") as f:
        for kind, owner, name in re.findall(r"^(\w+)_IN\((\w+), (\w+),", f.read(), re.M):
            found.setdefault(owner, {})[name] = kind
    return found


def typed(module, name):
    """The keys of a client's type; none where it is not installed, or not of this version."""
    try:
        keys = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return set()
    return set(keys.__required_keys__ | keys.__optional_keys__)


class Fields(unittest.TestCase):
    def setUp(self):
        self.fake = self.enterContext(Fake())

    def test_no_known_field_is_passed_over_in_silence(self):
        known = {name for line in KNOWN.values() for name in line.split()}
        self.assertGreater(len(known), 100)
        for path, (_, tables, read) in ROUTES.items():
            decided = {*names("REAL|INT|FLAG|REFUSED|ONLY|REMARK", tables), *read.split()}
            self.assertEqual(sorted(known - decided), [], path)

    def test_no_field_of_the_official_clients_types_is_passed_over_in_silence(self):
        known = {name for t in TYPED for name in typed(*t)}
        if not known:
            self.skipTest("neither client is installed")
        self.assertGreater(len(known), 30)
        for path, (_, tables, read) in ROUTES.items():
            decided = {*names("REAL|INT|FLAG|REFUSED|ONLY|REMARK", tables), *read.split()}
            self.assertEqual(sorted(known - decided), [], path)
        for module, name, owner, read in TYPED_OBJECTS:
            self.assertEqual(sorted(typed(module, name) - set(members().get(owner, {})) - set(read.split())), [],
                             (owner, name))

    def test_members_of_objects_that_cannot_be_honoured_are_refused_by_name(self):
        n = 0
        for path, owner in (("/v1/responses", "reasoning"), ("/v1/chat/completions", "reasoning"),
                            ("/v1/responses", "text"),
                            ("/v1/messages", "output_config"), *((p, "prompt_cache_options") for p in ROUTES)):
            for name, kind in members()[owner].items():
                status, _, body = self.fake.http("POST", path, {**ROUTES[path][0], owner: {name: "nonsense"}})
                if kind == "REMARK":
                    self.assertEqual(status, 200, body)
                    continue
                self.assertEqual((status, body["error"].get("param", f"{owner}.{name}")), (400, f"{owner}.{name}"),
                                 body)
                self.assertRegex(body["error"]["message"], rf"^{owner}\.{name}: .{{8,}}")
                n += 1
        self.assertGreater(n, 10)
        for good in ({"reasoning": {"mode": "standard", "context": "auto"}},
                     {"prompt_cache_options": {"mode": "implicit", "ttl": "30m", "prewarm": False}}):
            status, _, body = self.fake.http("POST", "/v1/responses", {"input": "s", **good})
            self.assertEqual(status, 200, body)

    def test_what_is_refused_is_named_with_what_to_use_instead(self):
        for path, (good, tables, read) in ROUTES.items():
            refused = names("REFUSED|ONLY", tables)
            self.assertEqual(set(refused) & set(read.split()), set(), path)
            self.assertGreater(len(refused), 40)
            for name in refused:
                with self.subTest(path=path, name=name):
                    status, _, body = self.fake.http("POST", path, {**good, name: ["nonsense"]})
                    self.assertEqual((status, body["error"]["param"]), (400, name), body)
                    self.assertRegex(body["error"]["message"], rf"^{name}: .{{8,}}")
        self.assertEqual(self.fake.command("counts"), "0 0")

    def test_remarks_and_what_nobody_knows_are_passed_over(self):
        for path, (good, tables, _) in ROUTES.items():
            remarks = [n for n in names("REMARK", tables) if n not in ("metadata", "stream_options")]
            self.assertGreater(len(remarks), 10)
            status, _, body = self.fake.http("POST", path, {**good, **dict.fromkeys(remarks, "x"), "nonsense": 1})
            self.assertEqual(status, 200, body)

    def test_seed_and_other_sampling_hold_in_every_protocol(self):
        for path, (good, _, _) in ROUTES.items():
            status, _, body = self.fake.http("POST", path, {**good, **PLAIN, "logit_bias": {"5": -1}})
            self.assertEqual(status, 200, body)
            last = json.loads(self.fake.command("last"))
            want = {**PLAIN, "has_seed": True, "bias": {"5": -1.0}}
            self.assertEqual({k: last.get(k) for k in want}, want, path)


if __name__ == "__main__":
    unittest.main()
