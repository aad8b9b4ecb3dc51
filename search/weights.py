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
diary: 1377 questions.
Evidence among the first ten, each conversation ranked by weights fitted without it:
memdaily 0.522 of 915 questions.
"""

from typing import Final

#: In the order of ``signals.NAMES``.
WEIGHTS: Final[dict[str, tuple[float, ...]]] = {
    "dialogue": (
        0.9524,  # raw
        2.0598,  # base
        -1.7475,  # logrank
        0.2691,  # near
        0.2157,  # prev
        -1.1900,  # next
        0.8006,  # around
        6.0135,  # local
        -0.6925,  # cov
        -0.1813,  # cov2
        1.5347,  # cov3
        2.6874,  # covp
        -3.5787,  # prevcov
        -0.0354,  # nextcov
        -0.5706,  # win
        -0.4296,  # wide
        1.1288,  # pairs
        1.2740,  # tf
        -0.7774,  # density
        -0.0733,  # names
        1.0779,  # speaker
        -0.8451,  # numbers
        -0.6797,  # user
        3.4389,  # loglen
        -0.5828,  # endq
        3.5095,  # prevqcov
        0.3177,  # first
        0.1743,  # firstuser
        0.1867,  # kind
        1.4043,  # when
        1.2987,  # many
        2.8641,  # where
        0.2365,  # who
        0.0000,  # dup
        0.0000,  # completed
        0.0000,  # tied
        0.0000,  # tiedcov
        0.0000,  # tiedcompleted
    ),
    "work": (
        -0.3236,  # raw
        2.4421,  # base
        0.1099,  # logrank
        0.2610,  # near
        -0.7238,  # prev
        0.1270,  # next
        -0.4638,  # around
        1.8297,  # local
        3.8634,  # cov
        -3.0695,  # cov2
        0.0581,  # cov3
        -0.3328,  # covp
        -0.0589,  # prevcov
        0.5354,  # nextcov
        2.1420,  # win
        -1.1103,  # wide
        2.0769,  # pairs
        1.7263,  # tf
        9.1383,  # density
        0.6409,  # names
        0.0000,  # speaker
        1.5244,  # numbers
        0.2831,  # user
        -8.8046,  # loglen
        -1.1899,  # endq
        -0.5729,  # prevqcov
        0.3077,  # first
        0.2172,  # firstuser
        -0.1260,  # kind
        1.7090,  # when
        0.1330,  # many
        1.1084,  # where
        2.2269,  # who
        -3.1548,  # dup
        0.0000,  # completed
        0.0000,  # tied
        0.0000,  # tiedcov
        0.0000,  # tiedcompleted
    ),
    "diary": (
        0.4802,  # raw
        0.1402,  # base
        -0.5984,  # logrank
        -0.6384,  # near
        -0.0597,  # prev
        -0.3759,  # next
        0.0659,  # around
        5.4728,  # local
        0.5401,  # cov
        1.7594,  # cov2
        0.3789,  # cov3
        0.5777,  # covp
        -0.7941,  # prevcov
        0.0670,  # nextcov
        1.0138,  # win
        0.5097,  # wide
        -1.0152,  # pairs
        1.0022,  # tf
        7.2929,  # density
        0.0000,  # names
        0.0000,  # speaker
        1.3867,  # numbers
        -0.0000,  # user
        -1.1376,  # loglen
        0.0000,  # endq
        0.0000,  # prevqcov
        0.0121,  # first
        0.0121,  # firstuser
        0.3593,  # kind
        0.9383,  # when
        -0.2275,  # many
        0.1679,  # where
        0.0000,  # who
        0.0237,  # dup
        3.1416,  # completed
        2.4127,  # tied
        -5.7094,  # tiedcov
        7.6385,  # tiedcompleted
    ),
}

#: Weight of how far a hit stands out by its meaning, in standard deviations (`LCM_SEMANTIC`).
#: Written by benchmarks/semantic.py on 2026-11-24, over the weights above; kinds that gain less
#: than 0.01 have none; the weights of diaries are newer than it. R@10 of conversations left out, before and after:
#: dialogue 0.854 0.852 of 75 questions; work 0.593 0.611 of 144 questions; diary 0.444 0.464 of 309 questions.
SEMANTIC: Final[dict[str, float]] = {
    "work": 0.30,
    "diary": 0.40,
}
