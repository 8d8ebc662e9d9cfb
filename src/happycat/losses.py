"""Losses: pure functions, one per equation. Tensors and floats in, a scalar out."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, log_softmax


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
    return p / p.sum().clamp_min(torch.finfo(p.dtype).eps)


def feature_distillation(features: Tensor, before: Tensor) -> Tensor:
    """Mean of 1 − cos(f^t(x), f^{t−1}(x)) over the batch, (B, D) each (L_kd)."""
    return (1 - cosine_similarity(features, before, dim=-1)).mean()
