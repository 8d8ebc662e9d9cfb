"""A von Mises–Fisher mixture with fixed components: the known ones stay, the new ones are selected and fitted by EM.

Points and centres are unit vectors; with the temperature τ shared by all components (a concentration of 1/τ), the
log-density of a point x is log Σ_k π_k exp(x·c_k/τ), up to a constant. All old components have the same share π, and
all new ones: else an old class that takes a new one's images would be given more of them for it.

The new components start where groups of images, the candidates, explain most: added one by one, then each is
exchanged for a better one as long as there is one (facility location). Nothing is drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

from happycat.methods.calm.candidates import FEW_POINTS, Candidates, Points

ROUNDS = 60  # of EM at most
SELECTIONS = 3  # at most, each with the shares that EM found before
SWEEPS = 10  # of exchanges at most
TOLERANCE = 1e-5  # of the mean log-density, and of what an exchange gains


class Mixture(NamedTuple):
    """Centres (K, d), the known ones first; shares π (K,); the mean log-density; images explained by each (K,)."""

    centres: Tensor
    shares: Tensor
    score: float
    counts: Tensor


class Component(NamedTuple):
    """A selected group: how many images are nearest to it, and the sum of cosines that they lose without it."""

    images: float
    loss: float


class Search:
    """Finds new components of a mixture beside the old ones (K_old, d) in unit points (N, d)."""

    def __init__(self, points: Tensor, old: Tensor, temperature: float):
        self.points, self.old, self.temperature = Points(points), old, temperature
        self.to_old = self.points.means @ old.T
        self.candidates = Candidates(self.points)
        self.cosines = self.candidates.cosines(self.points)

    @property
    def num_old(self) -> int:
        return len(self.old)

    def best(self, num_new: int) -> Mixture:
        """The likeliest mixture found with `num_new` components besides the old ones."""
        number = self.num_old + num_new
        shares = torch.full((number,), 1 / number).to(self.old)
        best: Mixture | None = None
        for _ in range(SELECTIONS if num_new else 1):
            chosen = self._selection(num_new, best.shares if best else shares).chosen
            mixture = self.maximise(self.candidates.directions[chosen], best.shares if best else shares)
            if best and mixture.score <= best.score + TOLERANCE:
                break
            best = mixture
        assert best is not None
        return best

    def growing(self) -> Iterator[list[Component]]:
        """The selected components when there are 1, 2, 3, … of them; the old ones count as they are."""
        selection = Selection(self.to_old.amax(1), self.cosines, self.points.sizes)
        while len(selection.order) < min(len(self.points), selection.cosines.shape[1]):
            weaker = selection.add()
            for place in weaker:
                selection.exchange(place)
            yield selection.components()

    def maximise(self, found: Tensor, shares: Tensor, rounds: int = ROUNDS) -> Mixture:
        """EM from these new centres (K_new, d) and the shares (K,) of all; the old centres stay."""
        before, sizes = -torch.inf, self.points.sizes
        for _ in range(rounds):
            logits = torch.cat([self.to_old, self.points.means @ found.T], 1) / self.temperature + shares.log()
            log_density = logits.logsumexp(1)
            responsibility = (logits - log_density[:, None]).exp() * sizes[:, None]
            counts = responsibility.sum(0)
            found = normalize(responsibility[:, self.num_old :].T @ self.points.means, dim=-1)
            shares = self._shares(counts)
            score = float(log_density @ sizes / sizes.sum())
            if score - before < TOLERANCE:
                break
            before = score
        return Mixture(torch.cat([self.old, found]), shares, score, counts)

    def _shares(self, counts: Tensor) -> Tensor:
        """The shares (K,) for so many images (K,), all old ones alike and all new ones; with the prior of one image."""
        old, new = counts[: self.num_old] + 1, counts[self.num_old :] + 1
        every = torch.cat([old.mean().expand(len(old)), new.sum().div(max(1, len(new))).expand(len(new))])
        return every / every.sum()

    def _selection(self, number: int, shares: Tensor) -> Selection:
        """So many of the candidates, given the components' shares."""
        offset = shares.log() * self.temperature
        base = (self.to_old + offset[: self.num_old]).amax(1)
        selection = Selection(base, self.cosines + offset[-1], self.points.sizes)
        for _ in range(number):
            selection.add()
        for _ in range(SWEEPS):
            if not sum(selection.exchange(place) for place in range(number)):
                break
        return selection


class Selection:
    """Facility location: candidates that are chosen so that each point has a component with a large cosine.

    `base` (n,) is what points have without any, `cosines` (n, M) with each candidate; `sizes` (n,) are their images.
    What a candidate gains only falls when others are chosen: of many, those that gain nothing at first are left out.
    Few begin with the single points (`Candidates`), so that there is one for each.
    """

    def __init__(self, base: Tensor, cosines: Tensor, sizes: Tensor):
        self.base, self.cosines, self.sizes = base, cosines, sizes
        self.few = len(base) <= FEW_POINTS
        self.places = torch.arange(cosines.shape[1], device=base.device)
        if not self.few:
            gaining = (self._gains(base) > 0).nonzero()[:, 0]
            self.places = gaining if len(gaining) else self.places
            self.cosines = cosines[:, self.places]
        self.order: list[int] = []
        self._update()

    @property
    def chosen(self) -> list[int]:
        """The candidates that are chosen."""
        return self.places[self.order].tolist()

    def add(self) -> list[int]:
        """Choose the candidate that gains most; returns the places of all that lost points to it."""
        nearest = self.nearest
        gains = self._gains(self.top)
        best = int(gains.argmax())
        if gains[best] <= 0:  # none explains anything better: of few, the point that is explained worst, or any other
            worst = -self.top if self.few else gains
            worst[[c for c in self.order if c < len(worst)]] = -torch.inf
            best = int(worst.argmax())
        self.order.append(best)
        self._update()
        taken = nearest[(self.nearest == len(self.order)) & (nearest > 0)]
        return (taken.unique() - 1).tolist()

    def exchange(self, place: int) -> bool:
        """Exchange a chosen candidate for the one that gains most in its place; says whether there is a better one."""
        without = torch.where(self.nearest == place + 1, self.second, self.top)
        gains = self._gains(without)
        best, now = int(gains.argmax()), self.order[place]
        if gains[best] <= gains[now] + TOLERANCE * float(self.sizes.sum()):
            return False
        self.order[place] = best
        self._update()
        return True

    def components(self) -> list[Component]:
        images = torch.zeros(len(self.order) + 1).to(self.top).index_add(0, self.nearest, self.sizes)
        lost = (self.top - self.second) * self.sizes
        losses = torch.zeros(len(self.order) + 1).to(self.top).index_add(0, self.nearest, lost)
        return [Component(*pair) for pair in zip(images[1:].tolist(), losses[1:].tolist(), strict=True)]

    def _gains(self, have: Tensor) -> Tensor:
        """What each candidate adds to the sum over images of their largest cosines, (M,)."""
        return self.sizes @ (self.cosines - have[:, None]).clamp_min_(0)

    def _update(self) -> None:
        """Each point's largest and second largest cosine, and whose the largest is: 0 the base's, or a place + 1."""
        every = torch.cat([self.base[:, None], self.cosines[:, self.order]], 1)
        if every.shape[1] == 1:
            self.top, self.second = self.base, torch.full_like(self.base, -1)
            self.nearest = torch.zeros_like(self.base, dtype=torch.long)
        else:
            top, place = every.topk(2, 1)
            self.top, self.second, self.nearest = top[:, 0], top[:, 1], place[:, 0]
