"""
Weights of the ranking's signals, by kind of conversation.

Written by benchmarks/train_ranking.py on 2026-11-23; change nothing by hand. Listwise softmax,
trained on parts of LoCoMo, BEAM and MemDaily, none of whose text is here. By the shape of the conversations:
dialogue: 996 questions, work: 144 questions, diary: 915 questions.
Evidence among the first ten, each conversation ranked by weights fitted without it:
locomo 0.821 of 996 questions; beam 0.600 of 144 questions; memdaily 0.455 of 915 questions.

The weights of diaries were fitted anew on 2026-11-24 by the same functions, on 459 of those 915 questions, those that are
asked in one go each on its own. Evidence among the first ten, each kind of file ranked by weights fitted without it: 0.500.
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
        0.2865,  # raw
        0.2850,  # base
        -0.7442,  # logrank
        -0.5964,  # near
        -0.2384,  # prev
        -0.4832,  # next
        0.1228,  # around
        5.5246,  # local
        0.3729,  # cov
        1.3488,  # cov2
        0.7046,  # cov3
        0.7229,  # covp
        -0.6105,  # prevcov
        0.2067,  # nextcov
        0.6725,  # win
        0.4564,  # wide
        -0.8587,  # pairs
        0.8574,  # tf
        7.6388,  # density
        0.0000,  # names
        0.0000,  # speaker
        1.5765,  # numbers
        0.0000,  # user
        -1.1007,  # loglen
        0.0000,  # endq
        0.0000,  # prevqcov
        0.0551,  # first
        0.0551,  # firstuser
        0.3246,  # kind
        0.9177,  # when
        -0.2038,  # many
        0.1263,  # where
        0.0000,  # who
        0.2664,  # dup
        2.1201,  # completed
        2.3255,  # tied
        -7.1096,  # tiedcov
        9.4971,  # tiedcompleted
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
