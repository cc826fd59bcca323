"""Why a search ends."""

import enum


class Status(enum.IntEnum):
    """Why `minimize` stopped; the array in `Solution.status` compares with it.

    Attributes:
        CONVERGED: the proven error is within the tolerance.
        MAX_STEPS: the iterations ran out first; value and bound are true as they stand.
        PRECISION_LIMIT: the tolerance is beyond what the dtype can prove. Where the gap is
            negative, nothing is proven: the objective is not convex, its gradient is wrong, or it
            rounds by more than its dtype.
        NONFINITE: no finite value and gradient was found, or none at any step, however short.
    """

    CONVERGED = 0
    MAX_STEPS = 1
    PRECISION_LIMIT = 2
    NONFINITE = 3

    @property
    def message(self) -> str:
        """One sentence for people."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.CONVERGED: "The proven error is within the tolerance.",
    Status.MAX_STEPS: "max_steps iterations were not enough; the bound on the error is true.",
    Status.PRECISION_LIMIT: (
        "Rounding keeps the proven error above the tolerance in this dtype; or, where the gap is "
        "negative, the objective is not convex or its gradient is wrong."
    ),
    Status.NONFINITE: "The objective or its gradient is not finite where the method has to go.",
}

RUNNING = -1
"""No status yet."""
