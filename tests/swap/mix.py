# SPDX-License-Identifier: MIT
"""Kernel sets that together use every plugin in every family and phase it offers, in groups that round alike.

A set is a dict {"attention.decode": "attn-splitk"}; what is not in it is ref's. Within a group only the kernels that
compute what ref computes differ, so every slot's numerics tag is the same and a running request may go from one to
another."""
import collections
import random

import plugins

PHASES = {"BOTH": ("prefill", "decode"), "PREFILL": ("prefill",), "DECODE": ("decode",)}


def offers(files):
    """What each plugin can be used for: (places where all it does is ref's tag, places where it rounds its own way)."""
    family = plugins.families()
    like_ref, lossy = collections.defaultdict(set), collections.defaultdict(set)
    for name, path in files.items():
        rounds = {(family[e["op"]], phase) for e in plugins.facts(path)[1] if e["tag"] != "fp32"
                  for phase in PHASES[e["phases"]]}
        for entry in plugins.facts(path)[1]:
            for phase in PHASES[entry["phases"]]:
                place = family[entry["op"]], phase
                (lossy if place in rounds else like_ref)[".".join(place)].add(name)
    return like_ref, lossy


def deal(offered, n, rng):
    """n choices of a plugin or ref for every place. Each is dealt in turn, from a place's own beginning, so all come
    up; the two phases of a family have the same one now and then."""
    dealt = [{} for _ in range(n)]
    for place in sorted(offered):
        hand = [None, *sorted(offered[place])]
        assert len(hand) <= n, f"{n} sets cannot have all of {hand} for {place}"
        rng.shuffle(hand)
        for i, choice in enumerate(dealt):
            if hand[i % len(hand)]:
                choice[place] = hand[i % len(hand)]
    return dealt


def groups(files, n_group, n_set, seed):
    """n_group groups of n_set sets."""
    rng = random.Random(seed)
    like_ref, lossy = offers(files)
    return [[{**kernels, **rounded} for kernels in deal(like_ref, n_set, rng)] for rounded in deal(lossy, n_group, rng)]


def words(kernels):
    """As dsv4ctl kernels use takes it."""
    return [f"{place}={name}" for place, name in sorted(kernels.items())] or ["all=ref"]


def everywhere(files):
    """{place: names of the plugins that offer something there}."""
    like_ref, lossy = offers(files)
    return {place: like_ref[place] | lossy[place] for place in {*like_ref, *lossy}}


def places(name, offered):
    """Where a set of this name has plugins; its overlays come one over the other."""
    found = set()
    for part in name.split(",") if name != "ref" else []:
        where, _, plugin = part.partition("=")
        family, _, phase = where.partition(".")
        here = {p for p in offered if family in ("all", p.split(".")[0]) and phase in ("", p.split(".")[1])}
        if plugin == "ref":
            found -= here
        else:
            found |= {p for p in here if plugin in offered[p] or family != "all"}
    return found
