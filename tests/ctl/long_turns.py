# SPDX-License-Identifier: MIT
"""Conversations that begin with thousands of tokens: asked again, gone on with, cut off in prefill and in the
answer."""
import concurrent.futures
import json
import os
import shutil
import tempfile

import plugins
from daemon import Daemon
from turns import Answer, config, fast_kernels, idle

BLOCK = 128
LONG = 1500 if plugins.sanitizer() else 6000  # sanitized kernels are ten times slower


def body(messages, thinking=False, max_tokens=24, **more):
    return {"messages": messages, "temperature": 0, "logprobs": True, "max_tokens": max_tokens, **more,
            "thinking": {"type": "enabled" if thinking else "disabled"}, "stream_options": {"include_usage": True}}


def user(text):
    return {"role": "user", "content": text}


def said(a):
    return {"role": "assistant", "content": a.content}


def article(number, at_least=LONG):
    """So many tokens and some more: the words have about 2.8 each."""
    words = "wug blicket dax toma zav".split()
    return " ".join(words[(i * i + number + i // 7) % 5] for i in range(at_least * 3 // 8))


def edge(n):
    """The last block's end that a prompt of n tokens can go on from."""
    return (n - 1) // BLOCK * BLOCK


def both(warm, cold, question):
    a = Answer(warm, question)
    a.same(Answer(cold, question), json.dumps(question)[:2000])
    return a


def four_at_once(warm, cold):
    """A fact, a long text, and in the next turn the question; each has the others beside it."""
    def lead(number):
        messages = [user(f"Remember this: my codeword is poppy. {article(number)}")]
        first = both(warm, cold, body(messages))
        assert len(first.ids["prompt"]) > LONG and first.cached == 0
        for text in ("What is my codeword?", "Say it again."):
            messages += [said(first), user(text)]
            second = both(warm, cold, body(messages))
            assert second.cached >= edge(len(first.ids["prompt"])), (second.cached, len(first.ids["prompt"]))
            first = second

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(lead, n) for n in range(4)]:
            done.result()


def three_times(warm, cold):
    question = body([user(article(9, LONG + 1700))])
    cached = [both(warm, cold, question).cached for _ in range(3)]
    assert cached[0] == 0 and cached[1] == cached[2] >= edge(LONG + 1700), cached


def thinking_is_dropped(warm, cold):
    """Two plain turns: the template leaves out what was thought, and only what follows it is computed again."""
    messages = [user("Think of this. " + article(1, 700))]
    first = both(warm, cold, body(messages, thinking=True, max_tokens=60, ignore_eos=True))
    messages += [{**said(first), "reasoning_content": first.reasoning}, user("And now?")]
    second = both(warm, cold, body(messages, thinking=True))
    assert first.reasoning and second.cached >= edge(len(first.ids["prompt"])), (first.reasoning, second.cached)


def left_in_prefill(warm, cold):
    """It stops soon, what was computed stays, and the next try begins from there."""
    def steps():
        return json.loads(warm.ctl("--json", "status")[1])["steps"]

    for number in range(20, 40):
        question, before = body([user(article(number, LONG + 3000 + 250 * (number - 20)))]), steps()
        stream = warm.stream(question, timeout=600)
        plugins.until(lambda: steps() >= before + 4, "four chunks of the prompt")
        stream.vanish()
        idle(warm)
        last = json.loads(warm.ctl("--json", "request", "list", "--max", "1")[1])["requests"][0]
        if last["finish"] == "cancelled" and last["usage"]["completion"] == 0:
            break  # a fast machine may have been in the answer already
    else:
        raise AssertionError(f"never left in prefill: {last}")
    assert both(warm, cold, question).cached >= 8 * BLOCK


def left_in_the_answer(warm, cold):
    messages = [user(article(3, 1500))]
    tools = [{"type": "function", "function": {"name": "write", "parameters": {"type": "object", "properties": {}}}}]
    cut = Answer(warm, body(messages, thinking=True, max_tokens=8000, ignore_eos=True, tools=tools), cut=30)
    assert cut.ids is None
    messages += [{**said(cut), "reasoning_content": cut.reasoning}, user("to a file")]
    assert both(warm, cold, body(messages, thinking=True, tools=tools)).cached >= edge(1500)


def main(folder):
    paths = [os.path.join(folder, name) for name in ("warm.conf", "cold.conf")]
    config(paths[0], memory="256M", disk="no", **fast_kernels())
    config(paths[1], memory="0", disk="no", **fast_kernels())
    with Daemon("--config", paths[0]) as warm, Daemon("--config", paths[1]) as cold:
        for scene in (four_at_once, three_times, thinking_is_dropped, left_in_prefill, left_in_the_answer):
            scene(warm, cold)
            print(scene.__name__)
        idle(warm)


directory = tempfile.mkdtemp(prefix="long-turns-")
try:
    main(directory)
finally:
    shutil.rmtree(directory, ignore_errors=True)
print("ok")
