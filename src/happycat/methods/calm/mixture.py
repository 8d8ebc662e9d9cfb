"""A von Mises–Fisher mixture with fixed components: the known ones stay, the new ones are selected and fitted by EM.

Points and centres are unit vectors; with the temperature τ shared by all components (a concentration of 1/τ), the
log-density of a point x is log Σ_k π_k exp(x·c_k/τ), up to a constant. All old components have the same share π, and
all new ones: else an old class that takes a new one's images would be given more of them for it. So what the old ones
contribute to a point's density is one number, whatever the new ones are.

The new components start where groups of images, the candidates, explain most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.base.ranks import ALONE, Ranks
from happycat.methods.calm.candidates import explained, find_groups
from happycat.methods.calm.prediction import chunks, joined, nearest
from happycat.methods.calm.selection import Component, Selection

SELECTIONS = 3  # at most, each with the shares that EM found from the one before
ROUNDS = 60  # of EM at most
TOLERANCE = 1e-5  # of the mean log-density


class Mixture(NamedTuple):
    """New centres (K_new, d) and how many images each explains (K_new,); the mean log-density.

    `shares` are the share of each old component and that of each new one.
    """

    centres: Tensor
    counts: Tensor
    shares: tuple[float, float]
    score: float


class Search:
    """Finds new components of a mixture beside the old ones (K_old, d) in unit points (N, d).

    Where there are very many images, those that are `familiar` (N,), explained by an old component as well as images of
    known classes are, are not looked at for new ones, only counted in. `barred` (P, 2) are pairs of a point and an old
    component that does not explain it, however near it is. Several processes (`ranks`) share the rounds of EM.
    """

    def __init__(
        self,
        points: Tensor,
        old: Tensor,
        familiar: Tensor | None = None,
        barred: Tensor | None = None,
        ranks: Ranks = ALONE,
    ):
        self.points, self.old, self.ranks = points, old, ranks
        self.barred = torch.zeros(0, 2, dtype=torch.long) if barred is None else barred
        self.groups = find_groups(points, torch.zeros(len(points), dtype=torch.bool) if familiar is None else familiar)
        self.to_old = nearest(points, old).value
        if len(self.barred):
            some, cosines = self._bounded()
            self.to_old[some] = cosines.amax(1).clamp_min(-1)

    def best(self, num_new: int, temperature: float) -> Mixture:
        """The likeliest mixture found with `num_new` components besides the old ones.

        A component with the share π is as good as one of the share 1 with a cosine that is larger by τ log π.
        """
        number = len(self.old) + num_new
        shares, best = (1 / number, 1 / number), None
        for _ in range(SELECTIONS if num_new else 1):
            advantage = temperature * float(np.log(shares[1] / shares[0]))
            mixture = self.maximise(self._starts(num_new, advantage), temperature, shares)
            if best is not None and mixture.score <= best.score + TOLERANCE:
                break
            best, shares = mixture, mixture.shares
        assert best is not None
        return best

    def _starts(self, num_new: int, advantage: float) -> Tensor:
        """The directions (num_new, d) of the groups that explain most."""
        directions, number = self.groups.directions, len(self.groups.sums)
        chosen = self._selection(advantage).choose(num_new)
        starts = [directions[group] if group < number else self.points[group - number] for group in chosen]
        return torch.stack(starts) if starts else self.points[:0]

    def growing(self) -> Iterator[list[Component]]:
        """The selected components when there are 1, 2, 3, … of them; the old ones count as they are."""
        yield from self._selection().growing()

    def _selection(self, advantage: float = 0.0) -> Selection:
        """Nothing selected yet, where a new component's cosines count by `advantage` more than an old one's."""
        have = self.to_old - advantage
        return Selection(have.cpu().numpy(), explained(self.groups, self.points, have))

    def maximise(self, found: Tensor, temperature: float, shares: tuple[float, float], rounds: int = ROUNDS) -> Mixture:
        """EM from these new centres (K_new, d) and the share of each old component and each new one."""
        before, score, counts = -torch.inf, -torch.inf, found.new_zeros(len(found))
        own = self.ranks.share(len(self.points))
        mine, old = self.points[own], self._old_density(temperature)[own]
        for _ in range(rounds):
            sums, counts, score = torch.zeros_like(found), torch.zeros_like(counts), 0.0
            log_old, log_new = np.log(shares)
            for points, known in zip(chunks(mine, len(found)), chunks(old, len(found)), strict=True):
                logits = points @ found.T / temperature + log_new
                density = torch.logaddexp(known + log_old, logits.logsumexp(1)) if len(found) else known + log_old
                responsibility = (logits - density[:, None]).exp()
                sums += responsibility.T @ points
                counts += responsibility.sum(0)
                score += float(density.sum()) / len(self.points)
            sums, counts = self.ranks.sum(sums), self.ranks.sum(counts)
            score = float(self.ranks.sum(torch.tensor(score, dtype=torch.float64)))
            found = torch.where(sums.norm(dim=1, keepdim=True) > 1e-12, normalize(sums, dim=-1), found)
            shares = self._shares(counts)
            if score - before < TOLERANCE:
                break
            before = score
        return Mixture(found, counts, shares, score)

    def _old_density(self, temperature: float) -> Tensor:
        """What the old components contribute to the density of each point, log Σ_k exp(x·c_k/τ), (N,)."""
        pieces = (((some @ self.old.T / temperature).logsumexp(1),) for some in chunks(self.points, len(self.old)))
        density = joined(pieces, len(self.points))[0]
        if len(self.barred):
            some, cosines = self._bounded()
            density[some] = (cosines.clamp_min(-1e4) / temperature).logsumexp(1)
        return density

    def _bounded(self) -> tuple[Tensor, Tensor]:
        """The points that some old component is barred from, and their cosines (n, K_old), −∞ with those."""
        some, place = self.barred[:, 0].unique(return_inverse=True)
        cosines = self.points[some] @ self.old.T
        cosines[place, self.barred[:, 1]] = -torch.inf
        return some, cosines

    def _shares(self, counts: Tensor) -> tuple[float, float]:
        """The share of each old component and each new one, for so many images of the new; a prior of one image."""
        new = float(counts.sum())
        each_old = (len(self.points) - new) / len(self.old) + 1
        each_new = new / max(1, len(counts)) + 1
        total = len(self.old) * each_old + len(counts) * each_new
        return each_old / total, each_new / total
