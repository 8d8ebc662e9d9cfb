"""Model outputs of finished runs on test images: confidence measures, and test images of another distribution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from scipy.special import logsumexp

from happycat.base.metrics import clustering_accuracy
from happycat.base.progress import SILENT, Progress
from happycat.base.sealed import read_sealed, write_sealed
from happycat.benchmark.loop import Loop
from happycat.benchmark.paper.jobs import Job
from happycat.benchmark.paper.reports import Report, series
from happycat.benchmark.paper.results import Results, over_seeds
from happycat.benchmark.setup import prepare
from happycat.images import datasets as images
from happycat.images.corruptions import CORRUPTIONS, shifted
from happycat.images.datasets import Images, cifar100_c
from happycat.report.figures import Panel, bars, densities
from happycat.report.tables import ResultTable

WHICH_CORRUPTIONS = "The paper shows 15 without a list and names Gaussian blur: here are the benchmark's 15, and it."


@contextmanager
def loaded(job: Job, stage: int, progress: Progress) -> Iterator[Loop]:
    """The job's loop with its model as it was after a stage."""
    loop = prepare(replace(job.request, resume=True), progress)
    with loop.record:
        loop.load(loop.record, stage)
        yield loop


@torch.no_grad()
def test_logits(loop: Loop, stage: int, data: Images) -> tuple[np.ndarray, np.ndarray]:
    """Logits (N, K) and class ids (N,) of the test images of all classes up to a stage."""
    logits, targets = [], []
    for t in range(stage + 1):
        test = loop.data.test_set(t, data)
        logits.append(test.served.views.centre(loop.method.logits).cpu())
        targets.append(test.ids)
    return torch.cat(logits).double().numpy(), np.concatenate(targets)


def confidences(logits: np.ndarray) -> dict[str, np.ndarray]:
    """Four confidence measures of each of N images, from their logits (N, K).

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


def shift_accuracies(job: Job, severity: int, published: bool, progress: Progress) -> dict[str, float]:
    """All of the final model on each of the corruptions; what was measured before is read from the run folder."""
    path = job.request.out / f"shifts-{severity}{'-published' if published else ''}.json"
    known = read_sealed(path) if path.exists() else {}
    missing = [name for name in CORRUPTIONS if name not in known]
    if not missing:
        return known
    last = job.num_stages - 1
    with loaded(job, last, progress) as loop:
        for name in missing:
            data = shifted_images(job, name, severity, published)
            tests = [loop.data.test_set(t, data) for t in range(job.num_stages)]
            probabilities, _ = loop.method.evaluate_together([test.served for test in tests])
            targets = np.concatenate([test.ids for test in tests])
            predicted = probabilities.argmax(1).cpu().numpy()
            known[name] = clustering_accuracy(targets, predicted, job.split.num_seen(last - 1)).all
            write_sealed(path, known)
    return known


def has_published_shifts(job: Job) -> bool:
    """Whether the data set is the one that CIFAR-100-C is made of."""
    return job.request.dataset == "cifar100" and set(CORRUPTIONS) <= set(cifar100_c.CORRUPTIONS)


def confidence_report(results: Results) -> Report:
    """Confidence on old and on new classes' test images after stage 1, by four measures."""
    rows, panels, labels = [], [], []
    for dataset in results.datasets:
        for variant in results.variants(dataset):
            found: dict[str, dict[str, list[np.ndarray]]] = {}
            for job in results.jobs(dataset, variant):
                with loaded(job, 1, SILENT) as loop:
                    logits, targets = test_logits(loop, 1, loop.images)
                old = targets < job.split.num_seen(0)
                for name, values in confidences(logits).items():
                    groups = found.setdefault(name, {"old": [], "new": []})
                    groups["old"].append(values[old])
                    groups["new"].append(values[~old])
            cells = []
            for name, groups in found.items():
                cells += [over_seeds([float(values.mean()) for values in groups[group]]) for group in ("old", "new")]
                together = {group: np.concatenate(values) for group, values in groups.items()}
                title = variant.label if len(results.datasets) == 1 else f"{dataset}: {variant.label}"
                panels.append((title, together))
                labels.append(name)
            rows.append(((dataset, variant.label), tuple(cells)))
    made = ResultTable(
        title="Mean confidence in the test images of old and of new classes after stage 1",
        labels=("data set", "variant"),
        columns=tuple(f"{name}, {group}" for name in found for group in ("old", "new")),
        rows=tuple(rows),
        digits=2,
    )
    return Report(
        {"confidence": made}, lambda folder: densities(panels, folder / "confidence", labels, across=len(found))
    )


def corruption_report(severity: int, own: bool) -> Callable[[Results], Report]:
    """All of the final models on 16 corruptions of the test images; `own` makes CIFAR-100's ourselves, too."""

    def report(results: Results) -> Report:
        rows, panels = [], []
        for dataset in results.datasets:
            curves = []
            for variant in results.variants(dataset):
                jobs = results.jobs(dataset, variant)
                found = [shift_accuracies(job, severity, not own and has_published_shifts(job), SILENT) for job in jobs]
                cells = [over_seeds([one[name] for one in found]) for name in CORRUPTIONS]
                mean = over_seeds([float(np.mean(list(one.values()))) for one in found])
                rows.append(((dataset, variant.label), (*cells, mean)))
                curves.append(series(variant.label, cells))
            names = [name.replace("_", " ") for name in CORRUPTIONS]
            panels.append(Panel(f"{dataset}, severity {severity}", names, curves, "", "All (%)"))
        columns = (*(name.replace("_", " ") for name in CORRUPTIONS), "mean")
        made = ResultTable(
            title=f"All on {len(CORRUPTIONS)} shifted distributions, severity {severity}",
            notes=(WHICH_CORRUPTIONS, *results.evaluation_notes()),
            labels=("data set", "method"),
            columns=columns,
            rows=tuple(rows),
            better=("high",) * len(columns),
        )
        return Report({"corruption": made}, lambda folder: bars(panels, folder / "corruption"))

    return report
