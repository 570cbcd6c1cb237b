# SPDX-License-Identifier: MIT
"""Long texts for longgen, which the tiny model cannot write: a sound article of prose, lists and code, drawn from a
small grammar by a seed, and articles that end in a loop. Each is an endless iterator of pieces, about a token long."""
import random

NOUN = """monitor kernel scheduler terminal compiler cabinet operator laboratory university manual console
disk drum tape interrupt process segment page file directory driver network message window pipe shell thread
lock queue buffer clock register supervisor library loader linker editor printer modem workstation cluster
container hypervisor partition journal cache socket signal daemon module interface vendor standard contract
budget committee prototype paper conference patent licence community maintainer release benchmark failure
outage recovery backup virus password certificate sandbox""".split()
ADJ = """early modest ambitious expensive fragile portable monolithic layered shared remote virtual
hierarchical interactive commercial academic obscure elegant stubborn reliable cautious generous secure
distributed preemptive cooperative minimal sprawling famous forgotten experimental incompatible cheap rapid
quiet radical conservative modular embedded concurrent transparent asynchronous persistent""".split()
VERB = """replaced shaped delayed inspired protected exposed divided extended simplified measured rewrote
financed abandoned inherited loaded recovered measured scheduled isolated multiplied described renamed funded
ported patched verified tuned imitated rejected adopted exhausted rescued documented taught hid revealed
outlived""".split()
PLACE = """Manchester Cambridge Berkeley Helsinki Amsterdam Grenoble Tokyo Boston Princeton Kyiv Zurich Pisa
Edinburgh Austin Seattle Toronto Budapest Aarhus Melbourne Bangalore""".split()
LINK = ["while", "because", "although", "before", "after", "until", "so that", "whereas", "even though", "once"]
OPENING = ["In {y}", "By {y}", "At {p}", "For {n} years", "In {p}, around {y},", "Some {n} months later", "Curiously",
           "On paper", "Inside the {a} {x}", "To its critics", "Among users", "With {n} kilobytes of memory"]


class Writer:
    """Draws what an author could have said."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def thing(self):
        a, n = self.r.choice(ADJ), self.r.choice(NOUN)
        return self.r.choice([f"the {a} {n}", f"a {n} of the {a} {self.r.choice(NOUN)}", f"the {n}", f"every {a} {n}",
                              f"the {n} from {self.r.choice(PLACE)}", f"its {n}"])

    def clause(self):
        return f"{self.thing()} {self.r.choice(VERB)} {self.thing()}"

    def sentence(self):
        r = self.r
        opening = r.choice(OPENING).format(y=r.randint(1951, 2026), p=r.choice(PLACE), n=r.randint(2, 900),
                                           a=r.choice(ADJ), x=r.choice(NOUN))
        return r.choice([f"{opening} {self.clause()}.", f"{opening} {self.clause()}, {r.choice(LINK)} {self.clause()}.",
                         f"{self.clause().capitalize()} {r.choice(LINK)} {self.clause()}."])

    def heading(self):
        return f"## {self.thing().capitalize()} and {self.thing()}, {self.r.randint(1951, 2026)}\n\n"

    def paragraph(self):
        return " ".join(self.sentence() for _ in range(self.r.randint(3, 7))) + "\n\n"

    def bullets(self):
        return "".join(f"- {self.clause()}\n" for _ in range(self.r.randint(3, 6))) + "\n"

    def code(self):
        x, y, z = (self.r.choice(NOUN) for _ in range(3))
        return (f"```\nint {x}_{y}(struct {z} *{z[0]}, int n)\n{{\n"
                f"\tfor (int i = {self.r.randint(0, 99)}; i < n; i++)\n"
                f"\t\t{z[0]}->{y} += {x}[i] * {self.r.randint(2, 999)};\n\treturn {z[0]}->{y};\n}}\n```\n\n")


def pieces(text):
    """As a tokenizer would cut it: a word with what stands before it."""
    start = 0
    for i in range(1, len(text)):
        if text[i] in " \n" and text[i - 1] not in " \n":
            yield text[start:i]
            start = i
    yield text[start:]


def sound(seed):
    w = Writer(seed)
    parts = [w.paragraph, w.paragraph, w.paragraph, w.bullets, w.code]
    while True:
        yield from pieces(w.heading())
        for _ in range(w.r.randint(2, 5)):
            yield from pieces(w.r.choice(parts)())


def beginning(seed, least, most):
    """Sound text up to where the loop begins."""
    text = sound(seed)
    return [next(text) for _ in range(random.Random(f"begin {seed}").randint(least, most))]


def word_spam(seed):
    yield from beginning(seed, 200, 1500)
    word = random.Random(f"word {seed}").choice(NOUN)
    while True:
        yield " " + word


def line_loop(seed):
    """One to three lines for ever."""
    yield from beginning(seed, 200, 1500)
    w = Writer(f"line {seed}")
    lines = "".join(w.sentence() + "\n" for _ in range(w.r.randint(1, 3)))
    yield "\n"
    while True:
        yield from pieces(lines)


def slow_topic_loop(seed):
    """The same paragraph about the same things, each time with another number and a few other words: no two lines are
    the same, no word follows itself. Only what compresses it sees it."""
    yield from beginning(seed, 100, 300)
    w = Writer(f"topic {seed}")
    words = w.paragraph().split() + w.paragraph().split()
    yield "\n\n"
    for n in range(1, 1 << 30):
        said = list(words)
        for _ in range(w.r.randint(1, 3)):
            said[w.r.randrange(len(said))] = w.r.choice(ADJ)
        yield from pieces(f"Lesson {n}: {' '.join(said)}\n\n")
