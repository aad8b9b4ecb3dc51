"""
Weights of the ranking's signals, by kind of conversation.

Written by benchmarks/train_ranking.py on 2026-11-23; change nothing by hand. Listwise softmax,
trained on parts of LoCoMo, BEAM and MemDaily, none of whose text is here. By the shape of the conversations:
dialogue: 996 questions, work: 144 questions, diary: 915 questions.
Evidence among the first ten, each conversation ranked by weights fitted without it:
locomo 0.821 of 996 questions; beam 0.600 of 144 questions; memdaily 0.455 of 915 questions.

A part of it anew:

Written by benchmarks/train_ranking.py on 2026-11-24; change nothing by hand. Listwise softmax,
trained on parts of LoCoMo, BEAM and MemDaily, none of whose text is here. By the shape of the conversations:
diary: 1769 questions.
Evidence among the first ten, each conversation ranked by weights fitted without it:
memdaily 0.544 of 915 questions; memdaily, two unrelated questions in one go 0.570 of 212 questions.
"""

from typing import Final

_KINDS: Final = ("dialogue", "work", "diary")
#: By signal, in the order of ``ranking.NAMES``: a weight for each of these kinds.
_TABLE: Final = {
    "raw": (0.9524, -0.3236, 0.4592),
    "base": (2.0598, 2.4421, 0.1721),
    "logrank": (-1.7475, 0.1099, -0.6187),
    "near": (0.2691, 0.2610, -0.6243),
    "prev": (0.2157, -0.7238, -0.0452),
    "next": (-1.1900, 0.1270, -0.3667),
    "around": (0.8006, -0.4638, 0.0804),
    "local": (6.0135, 1.8297, 5.2898),
    "cov": (-0.6925, 3.8634, 0.5262),
    "cov2": (-0.1813, -3.0695, 1.7672),
    "cov3": (1.5347, 0.0581, 0.3726),
    "covp": (2.6874, -0.3328, 0.5765),
    "prevcov": (-3.5787, -0.0589, -0.7951),
    "nextcov": (-0.0354, 0.5354, 0.0733),
    "win": (-0.5706, 2.1420, 1.0223),
    "wide": (-0.4296, -1.1103, 0.4957),
    "pairs": (1.1288, 2.0769, -1.0205),
    "tf": (1.2740, 1.7263, 1.0555),
    "density": (-0.7774, 9.1383, 7.2565),
    "names": (-0.0733, 0.6409, 0.0000),
    "speaker": (1.0779, 0.0000, 0.0000),
    "numbers": (-0.8451, 1.5244, 1.3758),
    "user": (-0.6797, 0.2831, 0.0000),
    "loglen": (3.4389, -8.8046, -1.0835),
    "endq": (-0.5828, -1.1899, 0.0000),
    "prevqcov": (3.5095, -0.5729, 0.0000),
    "first": (0.3177, 0.3077, 0.0102),
    "firstuser": (0.1743, 0.2172, 0.0102),
    "kind": (0.1867, -0.1260, 0.3660),
    "when": (1.4043, 1.7090, 0.9591),
    "many": (1.2987, 0.1330, -0.2351),
    "where": (2.8641, 1.1084, 0.1591),
    "who": (0.2365, 2.2269, 0.0000),
    "dup": (0.0000, -3.1548, 0.0258),
    "completed": (0.0000, 0.0000, 3.1350),
    "tied": (0.0000, 0.0000, 2.4186),
    "tiedcov": (0.0000, 0.0000, -5.7071),
    "tiedcompleted": (0.0000, 0.0000, 7.6286),
    "beside": (0.0000, 0.0000, 1.5000),
}
#: By kind, in the order of the signals.
WEIGHTS: Final[dict[str, tuple[float, ...]]] = dict(zip(_KINDS, zip(*_TABLE.values(), strict=True), strict=True))

#: Weight of how far a hit stands out by its meaning, in standard deviations, and how it stands by nearness (`LCM_SEMANTIC`).
#: Written by benchmarks/semantic.py on 2026-11-28, over the weights above; kinds that gain less
#: than 0.005 have none. R@10 of conversations left out, before and after:
#: dialogue 0.815 0.817 of 1005 questions; work 0.577 0.615 of 148 questions; diary 0.429 0.434 of 1398 questions.
SEMANTIC: Final[dict[str, tuple[float, float]]] = {
    "work": (0.25, 0.20),
    "diary": (0.05, 0.10),
}
