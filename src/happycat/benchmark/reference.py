"""The reference step: a training step of Happy as the field writes it, on the whole ViT, to compare our own with.

The whole network in fp32 runs three times: the student, the student again to distil, the previous model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn
from torch.nn.functional import cross_entropy, normalize

from happycat.learning import losses
from happycat.methods.happy import HappyConfig

NUM_OLD, NUM_NEW = 50, 10
REFERENCE_BATCH = 16  # images; 128 take minutes, and fewer stay in a CPU's cache, as 128 never do


def reference_steps(model: VisionTransformer, pixels: np.ndarray, device: torch.device) -> Iterator[int]:
    """The step, for ever, on pictures (2 · REFERENCE_BATCH, H, W, 3); yields its number of views."""
    generator = torch.Generator().manual_seed(0)
    before = copy.deepcopy(model).eval()
    model.requires_grad_(False)
    model.blocks[-1].requires_grad_(True)
    model.train()
    config, dim = HappyConfig(), model.embed_dim
    head = nn.utils.parametrizations.weight_norm(nn.Linear(dim, NUM_OLD + NUM_NEW, bias=False)).to(device)
    widths = (dim, config.projector_hidden, config.projector_hidden, config.projector_out)
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    projector = nn.Sequential(layers[0], nn.GELU(), layers[1], nn.GELU(), layers[2]).to(device)
    prototypes = normalize(torch.randn(NUM_OLD, dim, generator=generator), dim=1).to(device)
    trained = [*model.blocks[-1].parameters(), *head.parameters(), *projector.parameters()]
    optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9, weight_decay=5e-5)
    side = model.patch_embed.img_size[0]
    corner = torch.from_numpy(pixels[:, :side, :side]).permute(0, 3, 1, 2)
    views = (corner.float() / 127.5 - 1).to(device)
    while True:
        features = normalize(model(views), dim=1)
        cosines = head(features)
        first, second = cosines.chunk(2)
        loss = losses.self_distillation(first, second, 0.1, 0.05)
        loss = loss + sum(losses.group_entropy((cosines / 0.1).softmax(1).mean(0), NUM_OLD, True).values())
        one, two = normalize(projector(features), dim=1).chunk(2)
        loss = loss + losses.info_nce(one, two, 1.0)
        again = model(views)
        with torch.no_grad():
            old = before(views)
        loss = loss + 2 * losses.feature_distillation(again, old)
        classes = torch.randint(NUM_OLD, (2 * REFERENCE_BATCH,), generator=generator).to(device)
        loss = loss + cross_entropy(head(prototypes[classes]) / 0.1, classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        float(loss.detach())  # waits for an asynchronous device
        yield len(views)
