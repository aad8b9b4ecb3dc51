"""
Recall policy: three lines that tell the model when to search the archive, the same in every prompt.
"""

from typing import Final

RECALL_POLICY: Final = """\
Recall: all that was said here and in earlier conversations is kept, beyond what is in view.
Before you ask the user again, guess, or say that it was never said: lcm_grep(query=the question as it stands).
Where statements differ, the newest one holds. If nothing is found, say that it is not in the archive."""
