# SPDX-License-Identifier: MIT
"""What pages show of a session, and whether that is what was printed.

    done = run(d, STEPS)                            # [(name, command, lines)]
    compare("dsv4-x(7)", of_roff(path), done)       # every command, in order, and what it printed

What differs from run to run is made alike, and of tables the columns stay that a step names. Figures have two digits
and may be a tenth away, as another libm rounds otherwise. "..." in a page stands for what it leaves out."""
import hashlib
import re


# ---- what is alike in every run ----

# A number with a point or an exponent, but for what has several points.
FIGURE = re.compile(r"(?<![\w.:-])\d+\.\d+(?:e-\d+)?(?![\w.])|(?<![\w.])\d(?:\.\d+)?e-\d+")

class Alike:
    """Ids are short and the same in every run; figures have two digits."""

    def __init__(self):
        self.ids = {}

    def id(self, m):
        n = self.ids.setdefault(m[0], len(self.ids))
        return "req-" + hashlib.sha256(str(n).encode()).hexdigest()[:8]

    @staticmethod
    def figure(m):
        text = m[0]
        nines = re.match(r"0\.99+", text)
        return nines[0] if nines else f"{float(text):.2g}"

    def text(self, text):
        text = re.sub(r"\breq-[0-9a-f]{24}\b", self.id, text)
        text = re.sub(r"^(seconds +)\S+$", r"\1#", text, flags=re.M)
        return FIGURE.sub(self.figure, text)


def columns(alike, lines, keep):
    """A table's lines with these columns; the header says where each begins."""
    starts = [(m.start(), m[0]) for m in re.finditer(r"\S+", lines[0])]
    ends = [s for s, _ in starts[1:]] + [None]
    kept = [(s, e, t) for (s, t), e in zip(starts, ends) if t in keep]
    cells = [[alike.text(line[s:e].strip()) for s, e, _ in kept] for line in lines]
    width = [max(len(row[i]) for row in cells) for i in range(len(kept))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, width)).rstrip() for row in cells]


def shown(alike, output, keep):
    """The output as pages show it; parts are apart by a blank line, tables begin with capitals."""
    parts = []
    for part in output.rstrip("\n").split("\n\n"):
        lines = part.split("\n")
        if keep and re.match(r"[A-Z][A-Z_/-]+(  |$)", lines[0]):
            lines = columns(alike, lines, keep.split())
            if not lines[0]:  # none of its columns is asked for
                continue
        parts.append([alike.text(line.rstrip()) for line in lines])
    return [line for i, part in enumerate(parts) for line in ([""] if i else []) + part]


# ---- the session ----

def words(command):
    return [w.strip("'") for w in re.findall(r"'[^']*'|\S+", command)]


def run(d, todo, learn=lambda name, out, lines: {}):
    """[(name, command, lines)] of steps (name, command, exit status, columns that stay; none: all). What learn() makes
    of a step's output fills the {places} of later commands."""
    alike, found, done = Alike(), {}, []
    for name, command, expected, keep in todo:
        command = command.format(**found)
        code, out, err = d.ctl(*words(command))
        assert code == expected, (name, code, out, err)
        done.append((name, "$ dsv4ctl " + alike.text(command), shown(alike, out, keep)))
        found.update(learn(name, out, done[-1][2]))
    return done


# ---- the pages ----

def of_roff(path):
    """The lines of a page's displays between the comments `session` and `end`, as a reader sees them."""
    with open(path, encoding="utf-8") as f:
        parts = re.findall(r'^\.\\" session\n(.*?)^\.\\" end$', f.read(), re.M | re.S)
    text = "\n".join(line for part in parts for line in part.split("\n") if not re.match(r"\.\w\w", line))
    text = re.sub(r"\\\[u([0-9A-F]{4})\]", lambda m: chr(int(m[1], 16)), text)
    return text.replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'").replace("\\e", "\\").split("\n")


def of_markdown(path, title):
    """The indented lines of that section, the program's folder left out."""
    with open(path, encoding="utf-8") as f:
        part = re.search(rf"^## {title}\n.*?(?=^## )", f.read(), re.M | re.S)[0]
    return [line[4:].replace("$ build/", "$ ") for line in part.split("\n") if not line or line.startswith("    ")]


def steps(lines):
    """[(command, lines)]; a command goes on behind a backslash."""
    found = []
    for line in re.sub(r" \\\n\s*", " ", "\n".join(lines)).split("\n"):
        if line.startswith("$ "):
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(part).strip("\n").split("\n")) for command, part in found]


def close(a, b):
    """Figures: another libm is far less than a tenth away."""
    if a.startswith("0.99") and b.startswith("0.99"):
        return abs(len(a) - len(b)) <= 1
    return abs(float(a) - float(b)) <= 0.1 * max(abs(float(a)), abs(float(b)))


def same(page, line):
    """Word by word; "..." at the page's end stands for the words that follow."""
    page, line = page.split(), line.split()
    if page[-1:] == ["..."]:
        page, line = page[:-1], line[:len(page) - 1]
    if [FIGURE.sub("#", w) for w in page] != [FIGURE.sub("#", w) for w in line]:
        return False
    figures = [FIGURE.findall(" ".join(words_)) for words_ in (page, line)]
    return all(close(a, b) for a, b in zip(*figures))


def agrees(page, lines):
    """Is that what was printed? "..." alone stands for any lines."""
    if not page:
        return not lines
    if page[0].strip() == "...":
        return any(agrees(page[1:], lines[i:]) for i in range(1, len(lines) + 1))
    return bool(lines) and same(page[0], lines[0]) and agrees(page[1:], lines[1:])


def compare(where, lines, done, whole=True, others=False):
    """Each command of the page is the session's next and printed what the page says. `whole`: none of the session is
    left out; `others`: the page may have commands of its own between them."""
    at = 0
    for command, page in steps(lines):
        place = next((i for i in range(at, len(done)) if done[i][1] == command), None)
        if place is None and others:
            continue
        assert place is not None, f"{where} has a command that is not of the session, or not there: {command}"
        assert place == at or not whole, f"{where} leaves out: {done[at][1]}"
        printed = done[place][2]
        both = [f"{where}, {command}: the page has", *page, "", "printed was", *printed]
        assert agrees(page, printed), "\n".join(both)
        at = place + 1
    assert at == len(done) if whole else at > 0, f"{where} does not show: {done[at][1]}"


# ---- for who writes a page ----

def cut(line):
    """What is wide ends in "..."."""
    return line if len(line) <= 112 or line.startswith("$") else line[:line.rindex(" ", 0, 108)].rstrip() + " ..."


def roff(lines):
    text = "\n".join(lines).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    text = re.sub(r"^\.", r"\\&.", text, flags=re.M)
    return re.sub(r"[^\x00-\x7f]", lambda m: f"\\[u{ord(m[0]):04X}]", text)
