import itertools

import pytest
import torch
from torch.nn.functional import normalize

from happycat.base import tables
from happycat.base.errors import InputError
from happycat.learning import clustering
from happycat.learning.clustering import (
    aligned_centres,
    anchored_kmeans,
    kmeans,
    least_similar,
    mutual_neighbours,
    nearest_centres,
    novel_images,
    pairing,
    same_top_dimensions,
    silhouettes,
)


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


def test_tables_in_files_give_the_same_centres_to_the_bit_and_stay_as_they_are(monkeypatch):
    features = normalize(torch.randn(120, 6, generator=torch.Generator().manual_seed(0)), dim=1)
    expected, before = kmeans(features, 7, seed=0, restarts=2), features.clone()
    monkeypatch.setattr(tables, "IN_MEMORY", 0)
    on_disk = tables.copied(features)
    assert torch.equal(kmeans(on_disk, 7, seed=0, restarts=2), expected)
    assert torch.equal(on_disk, before)
    assert silhouettes(on_disk, [3, 4]) == silhouettes(before, [3, 4])


def test_nearest_centres_a_few_rows_at_a_time(monkeypatch):
    features, centres = torch.randn(23, 6), torch.randn(5, 6)
    monkeypatch.setattr(clustering, "ROWS", 4)
    value, centre = nearest_centres(features, centres)
    torch.testing.assert_close(value, (features @ centres.T).amax(1))
    assert torch.equal(centre, (features @ centres.T).argmax(1))


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


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_kmeans_of_identical_images():
    centres = kmeans(torch.ones(5, 4), 3, seed=0)
    torch.testing.assert_close(centres, torch.full((3, 4), 0.5))


# aligned_centres


def test_aligned_centres_by_hand():
    centres = torch.tensor([[0.0, 0, 1, 0], [0, 0.6, 0, 0.8], [0.8, 0, 0.6, 0], [0, 0, 0, 1]])
    old = torch.eye(4)[:2]
    assert aligned_centres(centres, old).tolist() == centres[[2, 1, 0, 3]].tolist()
    assert torch.equal(aligned_centres(centres, centres[[3, 0]]), centres[[3, 0, 1, 2]])
    assert torch.equal(aligned_centres(centres, centres.roll(1, 0)), centres.roll(1, 0))  # as many as there were


@pytest.mark.parametrize("seed", range(5))
def test_aligned_centres_by_trying_every_matching(seed):
    generator = torch.Generator().manual_seed(seed)
    centres, old = (normalize(torch.randn(n, 3, generator=generator, dtype=torch.float64) + 0.5, dim=1) for n in (6, 4))

    def likeness(chosen):
        return sum(float(old[i] @ centres[c]) for i, c in enumerate(chosen))

    best = max(itertools.permutations(range(6), 4), key=likeness)
    others = [c for c in range(6) if c not in best]
    assert torch.equal(aligned_centres(centres, old), centres[[*best, *others]])


# anchored_kmeans


def angles(*degrees):
    """Unit vectors (N, 2) at these angles."""
    radians = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([radians.cos(), radians.sin()], 1)


def anchored(features, anchors, num_new, weight=25.0, seed=0, restarts=5):
    return anchored_kmeans(features, anchors, num_new, weight, seed, restarts)


def test_anchored_kmeans_by_hand():
    features, anchors = angles(60, 60, 180, 190, 200), angles(0)
    # The anchor counts for one image, two are at 60°: 2 (½, √¾) + (1, 0) is at tan⁻¹(2√¾ / 2).
    expected = torch.cat([normalize(torch.tensor([[2.0, 3**0.5]], dtype=torch.float64)), angles(190)])
    torch.testing.assert_close(anchored(features, anchors, 1, weight=1), expected)
    torch.testing.assert_close(anchored(features, anchors, 1, weight=0), angles(60, 190))
    torch.testing.assert_close(anchored(features, anchors, 1, weight=1e9), angles(0, 190))


def test_anchored_kmeans_refuses_features_that_are_not_finite():
    with pytest.raises(InputError, match="k-means of 2 images found no centres"):
        anchored(torch.full((2, 2), torch.nan, dtype=torch.float64), angles(0), 0)


def test_anchored_kmeans_finds_the_new_blobs_and_keeps_the_ids_of_the_old():
    truth = normalize(torch.randn(5, 8, generator=torch.Generator().manual_seed(1)), dim=1)
    centres = anchored(blobs(truth), truth[[3, 1]], 3, restarts=10)
    torch.testing.assert_close(centres.norm(dim=1), torch.ones(5))
    nearest = (centres @ truth.T).argmax(1).tolist()
    assert nearest[:2] == [3, 1]
    assert sorted(nearest[2:]) == [0, 2, 4]


def test_anchored_kmeans_ends_where_each_centre_is_the_mean_of_its_images_and_its_anchor():
    generator = torch.Generator().manual_seed(0)
    features, anchors = (normalize(torch.randn(n, 5, generator=generator), dim=1) for n in (80, 3))
    centres = anchored(features, anchors, 4, weight=6.0)
    nearest = [max(range(7), key=lambda c, z=z: float(z @ centres[c])) for z in features]
    for c in range(7):
        total = sum((z for z, n in zip(features, nearest, strict=True) if n == c), torch.zeros(5))
        total = total + 6.0 * anchors[c] if c < 3 else total
        torch.testing.assert_close(centres[c], total / total.norm())


def test_anchored_kmeans_takes_the_best_of_its_restarts():
    features = normalize(torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), dim=1)

    def inertia(restarts, seed):
        centres = anchored(features, features[:2], 6, seed=seed, restarts=restarts)
        return float((1 - (features @ centres.T).amax(1)).sum())

    several = [(inertia(1, seed), inertia(8, seed)) for seed in range(6)]
    assert all(best <= first for first, best in several)
    assert any(best < first for first, best in several)


def test_anchored_kmeans_depends_on_its_seed_only():
    features = normalize(torch.randn(60, 5, generator=torch.Generator().manual_seed(0)), dim=1)
    before = torch.get_rng_state()
    first = anchored(features, features[:2], 6, restarts=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert torch.equal(anchored(features, features[:2], 6, restarts=1), first)
    torch.set_rng_state(before)
    assert not torch.equal(anchored(features, features[:2], 6, restarts=1, seed=1), first)


@pytest.mark.parametrize("weight", [0.0, 25.0])
def test_an_anchor_without_images_stays(weight):
    centres = anchored(angles(100, 110, 120), angles(0, 110), 0, weight)
    torch.testing.assert_close(centres, angles(0, 110))


def test_anchored_kmeans_of_identical_images_and_of_one():
    same = angles(90, 90, 90)
    for features in (same, same[:1]):
        torch.testing.assert_close(anchored(features, angles(0), 1), angles(0, 90))
    assert anchored(same, angles(0), 3).isfinite().all()
    with pytest.raises(InputError, match=r"^1 images cannot form 2 new classes; give more images$"):
        anchored(same[:1], angles(0), 2)


# novel_images


def test_novel_images_are_those_of_the_lower_of_two_groups():
    generator = torch.Generator().manual_seed(0)
    low, high = (mean + 0.03 * torch.randn(n, generator=generator) for mean, n in ((0.3, 80), (0.8, 20)))
    similarity = torch.cat([low, high])
    novel = novel_images(similarity)
    assert novel.dtype == torch.bool
    assert novel.tolist() == [True] * 80 + [False] * 20
    assert torch.equal(novel_images(similarity), novel)
    order = torch.randperm(100, generator=generator)
    assert torch.equal(novel_images(similarity[order]), novel[order])
    assert torch.equal(novel_images(0.1 + 0.5 * similarity), novel)


def test_what_resembles_a_known_class_more_than_most_is_not_novel():
    generator = torch.Generator().manual_seed(0)
    wide = 0.4 + 0.2 * torch.randn(200, generator=generator)
    narrow = 0.8 + 0.005 * torch.randn(200, generator=generator)
    similarity = torch.cat([wide.clamp_max(0.95), narrow, torch.tensor([0.99])])  # 0.99 is likelier in the wide one
    novel = novel_images(similarity)
    assert not novel[-1]
    assert novel[similarity < 0.7].all()
    assert not novel[similarity > 0.81].any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_novel_images_of_alike_images_and_of_two():
    assert not novel_images(torch.full((10,), 0.5)).any()
    assert novel_images(torch.tensor([0.9, 0.1])).tolist() == [False, True]


# same_top_dimensions


def test_same_top_dimensions_by_hand():
    features = torch.tensor([[3.0, 2, 1, 0], [2, 9, -5, 1], [0, 1, 2, 3], [-1, -2, -3, -9]])
    alike = same_top_dimensions(features, 2)
    assert alike.tolist() == [[True, True, False, True]] * 2 + [[False] * 2 + [True, False]] + [
        [True, True, False, True]
    ]
    assert same_top_dimensions(features, 4).all()
    assert same_top_dimensions(features[:1], 2).tolist() == [[True]]
    assert same_top_dimensions(features[:0], 2).shape == (0, 0)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_same_top_dimensions_by_a_loop(number):
    features = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
    top = [set(sorted(range(4), key=lambda d, row=row: -row[d])[:number]) for row in features.tolist()]
    assert same_top_dimensions(features, number).tolist() == [[a == b for b in top] for a in top]


# mutual_neighbours


def test_mutual_neighbours_by_hand():
    # 40° is nearest to 0°, whose own nearest is 10°; only 0° and 10° choose each other.
    features = angles(0, 10, 40) * torch.tensor([[1.0], [5.0], [0.1]])
    assert mutual_neighbours(features, 1).tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    assert mutual_neighbours(features, 2).all()
    assert mutual_neighbours(features, 7).all()  # more than there are
    assert mutual_neighbours(features[:1], 5).tolist() == [[True]]


@pytest.mark.parametrize("number", [1, 3, 5])
def test_mutual_neighbours_by_a_loop(number):
    features = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = normalize(features, dim=1)
    nearest = []
    for i in range(12):
        others = sorted((j for j in range(12) if j != i), key=lambda j, i=i: -float(unit[i] @ unit[j]))
        nearest.append({i, *others[:number]})
    expected = [[j in nearest[i] and i in nearest[j] for j in range(12)] for i in range(12)]
    assert mutual_neighbours(features, number).tolist() == expected


# pairing


def test_pairing_is_by_rank_where_the_ranks_tell_something():
    batch = torch.randn(12, 20, generator=torch.Generator().manual_seed(0))
    neighbours = mutual_neighbours(batch, 2)
    ranks = same_top_dimensions(batch, 2)
    assert not torch.equal(neighbours, ranks)
    tenths = torch.eye(20).view(10, 2, 20).sum(1).repeat(20, 1)  # ten kinds: a tenth of the pairs agree
    assert torch.equal(pairing(tenths, 2)(batch), ranks)
    quarters = tenths[torch.arange(200) % 4]
    assert torch.equal(pairing(quarters, 2)(batch), neighbours)
    assert torch.equal(pairing(quarters, 2, most=0.3)(batch), ranks)
    assert torch.equal(pairing(tenths, 2, least=0.2)(batch), neighbours)
    many = torch.randn(400, 20, generator=torch.Generator().manual_seed(1))
    assert torch.equal(pairing(many, 6)(batch), mutual_neighbours(batch, 4))  # hardly any pair agrees; a third of 12


@pytest.mark.parametrize("number", [0, 1, 30])
def test_pairing_of_no_image_of_one_and_of_identical_ones(number):
    batch = torch.randn(12, 20, generator=torch.Generator().manual_seed(0))
    assert torch.equal(pairing(torch.ones(number, 20), 2)(batch), mutual_neighbours(batch, 2))


def test_pairing_does_not_count_an_image_as_its_own_pair():
    few = torch.randn(20, 40, generator=torch.Generator().manual_seed(1))
    assert same_top_dimensions(few, 5).sum() == 20  # none agrees with another
    assert torch.equal(pairing(few, 5)(few), mutual_neighbours(few, 5))


# silhouettes


def silhouette_by_loop(points, labels):
    """Rousseeuw's mean of (b − a) / max(a, b)."""
    values = []
    for i, own in enumerate(labels):
        distances = {
            c: [float((points[i] - points[j]).norm()) for j in range(len(points)) if labels[j] == c and j != i]
            for c in set(labels)
        }
        if not distances[own]:
            values.append(0.0)
            continue
        means = {c: sum(d) / len(d) for c, d in distances.items()}
        b = min(mean for c, mean in means.items() if c != own)
        values.append((b - means[own]) / max(means[own], b))
    return sum(values) / len(values)


def test_silhouettes_by_a_loop():
    points = torch.tensor([[0.0, 0], [0, 2], [10, 0], [10, 1], [10, 2], [30, 0]])
    found = silhouettes(points, [2, 3])
    assert found[0] == pytest.approx(silhouette_by_loop(points, [0, 0, 0, 0, 0, 1]), abs=1e-6)
    assert found[1] == pytest.approx(silhouette_by_loop(points, [0, 0, 1, 1, 1, 2]), abs=1e-6)


def test_silhouettes_are_best_at_the_number_of_blobs_and_the_same_each_time():
    features = blobs(normalize(torch.randn(5, 8, generator=torch.Generator().manual_seed(1)), dim=1))
    scores = silhouettes(features, range(3, 9))
    assert max(range(6), key=lambda i: scores[i]) == 5 - 3
    torch.manual_seed(5)
    assert silhouettes(features.requires_grad_(), range(3, 9)) == scores
    assert silhouettes(features, [5, 3]) == [scores[2], scores[0]]
    assert silhouettes(features, []) == []
