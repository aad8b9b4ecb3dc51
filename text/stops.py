"""
Words that say nothing about what is looked for.

Pure. English ones are left out of loose searches. Chinese is written without spaces, so there the particles, pronouns and
question words split a run of characters instead: what stands between them are the words.
"""

from __future__ import annotations

import re

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be been before being but by can could did do does doing done for
    from had has have having he her here hers him his how i if in into is it its just me might my no nor not now of on or
    our ours out over own she should so some such than that the their theirs them then there these they this those to too
    under up us very was we were what when where which while who whom whose why will with would you your yours
    please tell don didn doesn isn wasn aren weren won wouldn couldn shouldn hasn haven hadn ain
    t s re ve ll d m""".split()
)

_PARTICLES = re.compile(
    "为什么|什么样|怎么样|是不是|有没有|能不能|来着|到底|究竟|什么|怎么|怎样|如何|哪里|哪儿|哪个|哪些|哪位|多少|请问|告诉|时候|"
    "我们|你们|他们|她们|它们|咱们|这个|那个|这些|那些|[的了是在吗呢啊呀吧么啦嘛哪谁啥这那我你您他她它们和与也都就还又很]"
)


def without_particles(run: re.Match[str]) -> str:
    """A run of characters as its words, with blanks between; as it is when no word of two characters would be left."""
    parts = [part for part in _PARTICLES.split(run.group()) if len(part) > 1]
    return f" {' '.join(parts)} " if parts else run.group()
