"""Losses: pure functions, one per equation. Tensors and floats in, a scalar out."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax

LEAST_MASS = 1e-30  # so small that nothing is lost in fp32, and its reciprocal times a logarithm is still a number


def info_nce(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Self-supervised contrast of two views, unit vectors (B, D) each (Eq. init-loss-con, right).

    With h the 2B rows of both, and i⁺ the other view of i:
    −mean_i log [ exp(h_i·h_{i⁺}/τ) / Σ_{n≠i} exp(h_i·h_n/τ) ]
    """
    h = torch.cat([first, second])
    scores = (h @ h.T / temperature).fill_diagonal_(-torch.inf)
    partner = torch.arange(len(h), device=h.device).roll(len(first))
    return torch.nn.functional.cross_entropy(scores, partner)


def supervised_contrast(first: Tensor, second: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrast of two views, unit vectors (B, D) each, with labels (B,) (Eq. init-loss-con, left).

    With h the 2B rows of both, and P(i) the other rows of i's label:
    −mean_i 1/|P(i)| Σ_{q∈P(i)} log [ exp(h_i·h_q/τ) / Σ_{n≠i} exp(h_i·h_n/τ) ]
    """
    h, labels = torch.cat([first, second]), labels.repeat(2)
    itself = torch.eye(len(h), dtype=torch.bool, device=h.device)
    log_shares = log_softmax((h @ h.T / temperature).masked_fill(itself, -torch.inf), dim=1)
    positive = (labels[:, None] == labels) & ~itself
    return -(log_shares.masked_fill(~positive, 0).sum(1) / positive.sum(1)).mean()


def self_distillation(first: Tensor, second: Tensor, temperature: float, teacher_temperature: float) -> Tensor:
    """Each view learns the other's sharpened prediction; cosines (B, K) each (L_self-train).

    ½ mean_i [ ℓ(q′_i, p_i) + ℓ(q_i, p′_i) ], p = softmax(·/τ_p), q = softmax(·/τ_t) without gradient.
    """
    return (_taught(first, second, temperature, teacher_temperature)
            + _taught(second, first, temperature, teacher_temperature)) / 2  # fmt: skip


def _taught(student: Tensor, teacher: Tensor, temperature: float, teacher_temperature: float) -> Tensor:
    q = (teacher.detach() / teacher_temperature).softmax(1)
    return -(q * log_softmax(student / temperature, dim=1)).sum(1).mean()


def negative_entropy(p: Tensor, constant: bool) -> Tensor:
    """Σ_c p_c log p_c of a distribution (K,); with `constant`, plus log K, so that its minimum is 0."""
    value = torch.xlogy(p, p.clamp_min(torch.finfo(p.dtype).tiny)).sum()
    return value + math.log(len(p)) if constant else value


def group_entropy(marginal: Tensor, num_old: int, constant: bool) -> dict[str, Tensor]:
    """Soft entropy regularisation of the marginal (K,), group by group (Eq. loss-reg-overall).

    "between": p̄_old log p̄_old + p̄_new log p̄_new; "within_old" and "within_new": Σ p̄ log p̄ over the
    group's classes, re-normalised to sum to 1 (the paper's appendix). A group of one class has none.
    """
    old, new = marginal[:num_old], marginal[num_old:]
    between = torch.stack([old.sum(), new.sum()])
    return {
        "between": negative_entropy(between, constant),
        "within_old": negative_entropy(_share(old), constant),
        "within_new": negative_entropy(_share(new), constant) if len(new) > 1 else marginal.new_zeros(()),
    }


def _share(p: Tensor) -> Tensor:
    """The shares (K,) of a group's mass, however small the mass; nothing where there is none."""
    return p / p.sum().clamp_min(LEAST_MASS)


def prior_between(marginal: Tensor, num_old: int, new_share: float) -> Tensor:
    """Cross-entropy of the marginal's old and new mass with the true shares: −s_old log p̄_old − s_new log p̄_new.

    In the paper's analysis it takes the place of the entropy "between", for a marginal (K,).
    """
    tiny = torch.finfo(marginal.dtype).tiny
    old, new = marginal[:num_old].sum().clamp_min(tiny), marginal[num_old:].sum().clamp_min(tiny)
    return -(1 - new_share) * old.log() - new_share * new.log()


def feature_distillation(features: Tensor, before: Tensor) -> Tensor:
    """Mean of 1 − cos(f^t(x), f^{t−1}(x)) over the batch, (B, D) each (L_kd)."""
    return (1 - cosine_similarity(features, before, dim=-1)).mean()


def logit_distillation(now: Tensor, then: Tensor) -> Tensor:
    """−mean_i Σ_c softmax(then)_c log softmax(now)_c, logits (B, K) each (LwF); `then` has no gradient."""
    return -(then.detach().softmax(1) * log_softmax(now, dim=1)).sum(1).mean()


def pair_agreement(first: Tensor, second: Tensor, alike: Tensor) -> Tensor:
    """Binary cross-entropy of "same class" over all pairs; probabilities (B, K) each, `alike` (B, B) bool.

    With s_ij = p_i·p′_j the probability of the same class:
    −mean_ij [ a_ij log s_ij + (1 − a_ij) log(1 − s_ij) ]
    """
    same, tiny = first @ second.T, 1e-7
    return -torch.where(alike, (same + tiny).log(), (1 - same).clamp_min(0).add(tiny).log()).mean()


def neighbour_contrast(first: Tensor, second: Tensor, similarity: float, temperature: float) -> Tensor | None:
    """Contrast of two views, unit vectors (B, D) each, whose positives are soft neighbours (MetaGCD).

    With S_ij the largest cosine between a view of i and one of j, N(i) = {j: S_ij ≥ `similarity`},
    w_ij = softmax_{j∈N(i)}(S_ij) divided by its largest, and h the views of the images that have a neighbour:
    −mean_i 1/|P(i)| Σ_{q∈P(i)} w_iq log [ exp(h_i·h_q/τ) / Σ_{n≠i} exp(h_i·h_n/τ) ],
    where P(i) are the views of N(i) without i itself. None if no image has a neighbour.
    """
    cosines = torch.stack([a @ b.T for a in (first, second) for b in (first, second)]).detach().amax(0)
    near = (cosines >= similarity).fill_diagonal_(True)
    kept = near.sum(1) > 1
    if not kept.any():
        return None
    near, cosines = near[kept][:, kept], cosines[kept][:, kept]
    weights = cosines.masked_fill(~near, -torch.inf).softmax(1)
    weights = (weights / weights.amax(1, keepdim=True)).repeat(2, 2)
    h = torch.cat([first[kept], second[kept]])
    itself = torch.eye(len(h), dtype=torch.bool, device=h.device)
    log_shares = log_softmax((h @ h.T / temperature).masked_fill(itself, -torch.inf), dim=1)
    positive = near.repeat(2, 2) & ~itself
    return -((weights * log_shares).masked_fill(~positive, 0).sum(1) / positive.sum(1)).mean()
