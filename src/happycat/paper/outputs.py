"""What finished models say about test images, beyond what a run records: confidence, and other distributions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from scipy.special import logsumexp

from happycat import images
from happycat.corruptions import CORRUPTIONS, shifted
from happycat.disk import read_json, write_json
from happycat.display import Display
from happycat.images import Images, cifar100_c
from happycat.loop import Loop
from happycat.metrics import clustering_accuracy
from happycat.paper.study import Job
from happycat.run import prepare


@contextmanager
def loaded(job: Job, stage: int, display: Display) -> Iterator[Loop]:
    """The job's loop with its model as it was after a stage."""
    loop = prepare(replace(job.request, resume=True), display)
    with loop.record:
        loop.load(loop.record, stage)
        yield loop


@torch.no_grad()
def test_logits(loop: Loop, stage: int, data: Images) -> tuple[np.ndarray, np.ndarray]:
    """Logits (N, K) and class ids (N,) of the test images of all classes up to a stage."""
    logits, targets = [], []
    for t in range(stage + 1):
        served, _, ids = loop.served_test(t, data)
        logits += [loop.method.logits(tokens).cpu() for tokens in served.views.centre()]
        targets.append(ids)
    return torch.cat(logits).double().numpy(), np.concatenate(targets)


def confidences(logits: np.ndarray) -> dict[str, np.ndarray]:
    """Four ways to tell how sure a model is of each of N images, from their logits (N, K).

    The largest probability; the largest logit; the margin between the two largest probabilities; and the
    negative entropy Σ_c p_c log p_c.
    """
    log_p = logits - logsumexp(logits, axis=1, keepdims=True)
    p = np.exp(log_p)
    second, first = np.sort(p, axis=1)[:, -2:].T
    return {
        "max softmax": first,
        "max logit": logits.max(axis=1),
        "margin": first - second,
        "negative entropy": (p * log_p).sum(axis=1),
    }


def shifted_images(job: Job, corruption: str, severity: int, published: bool) -> Images:
    """The job's data set with its test images corrupted: CIFAR-100-C's own, or made by us."""
    if published:
        return images.load("cifar100_c", job.request.root, corruption=corruption, severity=severity)
    return shifted(job.setting.data, corruption, severity)


def shift_accuracies(job: Job, severity: int, published: bool, display: Display) -> dict[str, float]:
    """All of the final model on each of the 15 corruptions; what was measured before is read from the run folder."""
    path = job.request.out / f"shifts-{severity}{'-published' if published else ''}.json"
    known = read_json(path) if path.exists() else {}
    missing = [name for name in CORRUPTIONS if name not in known]
    if not missing:
        return known
    last = job.num_stages - 1
    with loaded(job, last, display) as loop:
        for name in missing:
            logits, targets = test_logits(loop, last, shifted_images(job, name, severity, published))
            known[name] = clustering_accuracy(targets, logits.argmax(1), job.split.num_seen(last - 1)).all
            write_json(path, known)
    return known


def has_published_shifts(job: Job) -> bool:
    """Whether the data set is the one that CIFAR-100-C is made of."""
    return job.request.dataset == "cifar100" and set(CORRUPTIONS) <= set(cifar100_c.CORRUPTIONS)
