import itertools

import pytest
import torch
from torch.nn.functional import normalize

from happycat.clustering import kmeans, least_similar
from happycat.errors import InputError


def blobs(centres, each=20, spread=0.05, seed=0):
    noise = torch.randn(len(centres) * each, centres.shape[1], generator=torch.Generator().manual_seed(seed))
    return normalize(centres.repeat_interleave(each, 0) + spread * noise, dim=1)


def test_kmeans_finds_separated_blobs():
    truth = normalize(torch.randn(5, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    features = blobs(truth)
    centres = kmeans(features, 5, seed=0)
    assert centres.shape == (5, 8)
    assert centres.dtype == features.dtype
    torch.testing.assert_close(centres.norm(dim=1), torch.ones(5))
    match = (truth @ centres.T).argmax(1)
    assert sorted(match.tolist()) == [0, 1, 2, 3, 4]
    means = torch.stack([normalize(part.mean(0), dim=0) for part in features.split(20)])
    torch.testing.assert_close(centres[match], means, atol=1e-5, rtol=0)


def test_same_seed_same_centres():
    features = torch.randn(120, 6, generator=torch.Generator().manual_seed(0))  # no clusters: seeds matter
    first = kmeans(features, 7, seed=0, restarts=1)
    torch.manual_seed(5)
    assert torch.equal(kmeans(features, 7, seed=0, restarts=1), first)
    assert not torch.equal(kmeans(features, 7, seed=1, restarts=1), first)


def test_kmeans_of_as_many_images_as_clusters():
    features = torch.eye(4)
    assert sorted(kmeans(features, 4, seed=0).argmax(1).tolist()) == [0, 1, 2, 3]


def test_too_few_images():
    with pytest.raises(InputError, match=r"^3 images cannot form 4 classes") as caught:
        kmeans(torch.eye(3), 4, seed=0)
    assert "\n" not in str(caught.value)


def test_least_similar_by_hand():
    centres = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.6, 0.8]])
    old = torch.tensor([[5.0, 0.0]])
    assert least_similar(centres, old, 2).tolist() == [[-1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("number", [1, 3, 6])
def test_least_similar_by_trying_every_choice(number):
    generator = torch.Generator().manual_seed(number)
    centres = normalize(torch.randn(9, 4, generator=generator, dtype=torch.float64), dim=1)
    old = torch.randn(3, 4, generator=generator, dtype=torch.float64) * torch.tensor([[9.0], [1.0], [0.1]])

    def likeness(c):  # the largest cosine to an old row
        return max(float(centres[c] @ row / row.norm()) for row in old)

    best = min(itertools.combinations(range(9), number), key=lambda chosen: sum(likeness(c) for c in chosen))
    found = least_similar(centres, old, number)
    assert sorted(found.tolist()) == sorted(centres[list(best)].tolist())
    # The least similar comes first.
    assert [row.tolist() for row in found] == [centres[c].tolist() for c in sorted(best, key=likeness)]
