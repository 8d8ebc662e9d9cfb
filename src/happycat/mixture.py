"""A mixture of directions in which some components are known and stay, and the others are to be found.

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
TRIAL_ROUNDS = 15  # of EM before a move is judged
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


def maximise(
    points: Tensor, centres: Tensor, shares: Tensor, num_old: int, temperature: float, rounds: int = ROUNDS
) -> Mixture:
    """EM from these centres and shares; the first `num_old` centres stay, all shares are learned.

    A share has the prior of one point: π_k = (n_k + 1) / (N + K).
    """
    old = centres[:num_old]
    to_old, before = points @ old.T / temperature, -torch.inf
    for _ in range(rounds):
        logits = torch.cat([to_old, points @ centres[num_old:].T / temperature], 1) + shares.log()
        log_density = logits.logsumexp(1)
        responsibility = (logits - log_density[:, None]).exp()
        counts = responsibility.sum(0)
        centres = torch.cat([old, normalize(responsibility[:, num_old:].T @ points, dim=-1)])
        shares = (counts + 1) / (len(points) + len(counts))
        score = float(log_density.mean())
        if score - before < TOLERANCE:
            break
        before = score
    return Mixture(centres, shares, log_density, counts)


def seeded(points: Tensor, centres: Tensor, number: int, generator: torch.Generator) -> Tensor:
    """The centres and `number` points more, each the best of a few drawn by their distance to the nearest centre."""
    near = (points @ centres.T).amax(1)
    for _ in range(number):
        drawn = torch.multinomial((1 - near).clamp_min(1e-9).cpu(), min(CANDIDATES, len(points)), generator=generator)
        drawn = drawn.to(points.device)
        nearer = torch.maximum(near[:, None], points @ points[drawn].T)
        best = nearer.sum(0).argmax()
        centres, near = torch.cat([centres, points[drawn[best]][None]]), nearer[:, best]
    return centres


def moved(points: Tensor, mixture: Mixture, num_old: int, temperature: float, generator: torch.Generator) -> Mixture:
    """The mixture with one of the found components put elsewhere, if that explains the points better."""
    number = len(mixture.centres)
    weak = torch.rand((), generator=generator) < 0.5  # half of the moves take one that explains little
    chances = 1 / (mixture.counts[num_old:].cpu() + 1) if weak else torch.ones(number - num_old)
    gone = num_old + int(torch.multinomial(chances, 1, generator=generator))
    stay = torch.arange(number, device=points.device) != gone
    centres = seeded(points, mixture.centres[stay], 1, generator)
    shares = torch.cat([mixture.shares[stay], mixture.shares[gone : gone + 1].clamp_min(1 / number)])
    trial = maximise(points, centres, shares / shares.sum(), num_old, temperature, TRIAL_ROUNDS)
    if trial.score <= mixture.score + TOLERANCE:
        return mixture
    return maximise(points, trial.centres, trial.shares, num_old, temperature)


def fit_mixture(
    points: Tensor,
    old: Tensor,
    num_new: int,
    temperature: float,
    generator: torch.Generator,
    restarts: int,
    moves: int,
) -> Mixture:
    """The best mixture found of the old centres (K_old, d), which stay, and `num_new` more, for points (N, d).

    EM alone ends where it began to: two classes under one centre, or one under two. After each restart, `moves`
    times a component is taken out and set down where the points are explained worst.
    """
    number, best = len(old) + num_new, None
    shares = torch.full((number,), 1 / number, device=points.device)
    for _ in range(restarts):
        mixture = maximise(points, seeded(points, old, num_new, generator), shares, len(old), temperature)
        for _ in range(moves if num_new else 0):
            mixture = moved(points, mixture, len(old), temperature, generator)
        if best is None or mixture.score > best.score:
            best = mixture
    return best


def growing(
    points: Tensor, old: Tensor, temperature: float, generator: torch.Generator, moves: int
) -> Iterator[Mixture]:
    """Mixtures with 0, 1, 2, … new components, each grown from the one before."""
    num_old = len(old)
    shares = torch.full((num_old,), 1 / num_old, device=points.device)
    mixture = maximise(points, old, shares, num_old, temperature)
    while True:
        yield mixture
        share = mixture.shares.new_tensor([1 / len(points)]).clamp_min(1 / (len(mixture.shares) + 1))
        shares = torch.cat([mixture.shares * (1 - share), share])
        centres = seeded(points, mixture.centres, 1, generator)
        mixture = maximise(points, centres, shares, num_old, temperature)
        for _ in range(moves):
            mixture = moved(points, mixture, num_old, temperature, generator)
