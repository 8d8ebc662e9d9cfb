"""A von Mises–Fisher mixture with fixed components: the known ones stay, the new ones are found by EM.

Points and centres are unit vectors; with the temperature τ shared by all components (a concentration of 1/τ), the
log-density of a point x is log Σ_k π_k exp(x·c_k/τ), up to a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize

CANDIDATES = 6  # points that are tried for a new centre
ROUNDS = 60  # of EM at most
MOVE_ROUNDS = 15  # of EM before a move is accepted or rejected
GROWTH_ROUNDS = 4  # of EM before two ways to grow are compared
TOLERANCE = 1e-5  # of the mean log-density


class Mixture(NamedTuple):
    """Centres (K, d), the known ones first; shares π (K,); each point's log-density (N,); points explained (K,)."""

    centres: Tensor
    shares: Tensor
    log_density: Tensor
    counts: Tensor

    @property
    def score(self) -> float:
        """The mean log-density."""
        return float(self.log_density.mean())


class Search:
    """Fits the new components of a mixture to points (N, d) by EM; the old ones (K_old, d) stay fixed."""

    def __init__(self, points: Tensor, old: Tensor, temperature: float, generator: torch.Generator):
        self.points, self.old, self.temperature, self.generator = points, old, temperature, generator
        self.to_old = points @ old.T / temperature
        self.nearest_old = (points @ old.T).amax(1)

    @property
    def num_old(self) -> int:
        return len(self.old)

    def best(self, num_new: int, restarts: int, moves: int) -> Mixture:
        """The best mixture found with `num_new` components besides the old ones.

        EM alone ends where it began to: two classes under one centre, or one under two. After each restart,
        `moves` times a component is taken out and set down where the points are explained worst.
        """
        number = self.num_old + num_new
        shares = torch.full((number,), 1 / number, device=self.points.device)

        def restarted() -> Iterator[Mixture]:
            for _ in range(restarts):
                mixture = self.maximise(self.seeded(self.old[:0], num_new), shares)
                for _ in range(moves if num_new else 0):
                    mixture = self.moved(mixture)
                yield mixture

        return max(restarted(), key=lambda mixture: mixture.score)

    def growing(self, moves: int) -> Iterator[Mixture]:
        """Mixtures with 0, 1, 2, … new components, each grown from the one before and improved by a few moves."""
        shares = torch.full((self.num_old,), 1 / self.num_old, device=self.points.device)
        mixture = self.maximise(self.old[:0], shares)
        while True:
            yield mixture
            mixture = self.grown(mixture)
            for _ in range(moves):
                mixture = self.moved(mixture)

    def maximise(self, found: Tensor, shares: Tensor, rounds: int = ROUNDS) -> Mixture:
        """EM from these new centres (K_new, d) and the shares (K,) of all; the old centres stay.

        A share has the prior of one point: π_k = (n_k + 1) / (N + K).
        """
        before = -torch.inf
        for _ in range(rounds):
            logits = torch.cat([self.to_old, self.points @ found.T / self.temperature], 1) + shares.log()
            log_density = logits.logsumexp(1)
            responsibility = (logits - log_density[:, None]).exp()
            counts = responsibility.sum(0)
            found = normalize(responsibility[:, self.num_old :].T @ self.points, dim=-1)
            shares = (counts + 1) / (len(self.points) + len(counts))
            score = float(log_density.mean())
            if score - before < TOLERANCE:
                break
            before = score
        return Mixture(torch.cat([self.old, found]), shares, log_density, counts)

    def seeded(self, found: Tensor, number: int) -> Tensor:
        """The new centres and `number` points more, each the best of a few drawn by their distance to any centre."""
        near = torch.cat([self.nearest_old[:, None], self.points @ found.T], 1).amax(1)
        for _ in range(number):
            drawn = self._far_points(near)
            nearer = torch.maximum(near[:, None], self.points @ drawn.T)
            best = nearer.sum(0).argmax()
            found, near = torch.cat([found, drawn[best][None]]), nearer[:, best]
        return found

    def moved(self, mixture: Mixture) -> Mixture:
        """The mixture with one of the new components put elsewhere, if that explains the points better."""
        found, number = mixture.centres[self.num_old :], len(mixture.centres)
        weak = torch.rand((), generator=self.generator) < 0.5  # half of the moves take one that explains little
        chances = 1 / (mixture.counts[self.num_old :].cpu() + 1) if weak else torch.ones(len(found))
        gone = int(torch.multinomial(chances, 1, generator=self.generator))
        share = mixture.shares[self.num_old + gone]
        shares = torch.cat([_without(mixture.shares, self.num_old + gone), share.clamp_min(1 / number)[None]])
        trial = self.maximise(self.seeded(_without(found, gone), 1), shares / shares.sum(), MOVE_ROUNDS)
        return self._converged(trial) if trial.score > mixture.score + TOLERANCE else mixture

    def grown(self, mixture: Mixture) -> Mixture:
        """The mixture with one component more: one of the points, or one of the new components split in two."""
        trials = [self.maximise(*way, GROWTH_ROUNDS) for way in (*self._additions(mixture), *self._splits(mixture))]
        trials.sort(key=lambda trial: trial.score)
        return max((self._converged(trial) for trial in trials[-2:]), key=lambda trial: trial.score)

    def losses(self, mixture: Mixture) -> Tensor:
        """What the log-likelihood loses if a new component is taken out and nothing else changes, (K_new,)."""
        share = self._logits(mixture).softmax(1)[:, self.num_old :]
        return -torch.log1p(-share.clamp_max(1 - 1e-6)).sum(0)

    def _logits(self, mixture: Mixture) -> Tensor:
        """log π_k + x·c_k/τ, (N, K)."""
        to_found = self.points @ mixture.centres[self.num_old :].T / self.temperature
        return torch.cat([self.to_old, to_found], 1) + mixture.shares.log()

    def _converged(self, trial: Mixture) -> Mixture:
        return self.maximise(trial.centres[self.num_old :], trial.shares)

    def _additions(self, mixture: Mixture) -> Iterator[tuple[Tensor, Tensor]]:
        """New centres and shares with a point for one component more."""
        found, share = mixture.centres[self.num_old :], 1 / (len(mixture.centres) + 1)
        shares = torch.cat([mixture.shares * (1 - share), mixture.shares.new_tensor([share])])
        for point in self._far_points((self.points @ mixture.centres.T).amax(1)):
            yield torch.cat([found, point[None]]), shares

    def _splits(self, mixture: Mixture) -> Iterator[tuple[Tensor, Tensor]]:
        """New centres and shares with a component split along the direction in which its points vary most."""
        found, shares = mixture.centres[self.num_old :], mixture.shares
        for j, weight in enumerate(self._logits(mixture).softmax(1).T[self.num_old :]):
            rest = weight.sqrt()[:, None] * (self.points - weight @ self.points / weight.sum())
            direction = torch.randn(self.points.shape[1], generator=self.generator).to(rest)
            for _ in range(8):  # of the power iteration
                direction = normalize(rest.T @ (rest @ direction), dim=0)
            step = (rest @ direction).norm() / weight.sum().sqrt() * direction
            two = normalize(torch.stack([found[j] + step, found[j] - step]), dim=-1)
            half = shares[self.num_old + j].expand(2) / 2
            yield torch.cat([_without(found, j), two]), torch.cat([_without(shares, self.num_old + j), half])

    def _far_points(self, near: Tensor) -> Tensor:
        """A few of the points, drawn by how far they are from where their nearest centre is."""
        chances = (1 - near).clamp_min(1e-9).cpu()
        drawn = torch.multinomial(chances, min(CANDIDATES, len(self.points)), generator=self.generator)
        return self.points[drawn.to(self.points.device)]


def _without(rows: Tensor, place: int) -> Tensor:
    return torch.cat([rows[:place], rows[place + 1 :]])
