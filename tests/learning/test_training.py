import math

import pytest
import torch
from torch import nn

from happycat.base.errors import HappycatError
from happycat.learning.training import Epoch, Schedule, Training, make_optimizer, make_rates, ramp_up

OPTIMIZERS = [("sgd", 0.05), ("adamw", 0.02)]


def schedule(optimizer="sgd", rate=0.05, epochs=6, **changes):
    values = {"floor": 1e-3, "momentum": 0.9, "weight_decay": 1e-3, **changes}
    return Schedule(optimizer=optimizer, epochs=epochs, rate=rate, **values)


class Regression:
    """Learns y = W x + b from noisy looks at it; the noise and the order come from the training's generator."""

    def __init__(self, seed=0):
        random = torch.Generator().manual_seed(7)
        self.x = torch.randn(40, 3, generator=random)
        self.y = self.x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 0.7
        torch.manual_seed(seed)
        self.modules = {
            "net": nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 1)),
            "norm": nn.BatchNorm1d(3),  # has buffers, one of them an integer
        }

    def run(self, training, schedule, later=0):
        def batches():
            return torch.randperm(40, generator=training.generator).split(10)

        def loss(index, epoch):
            noise = 0.01 * torch.randn(len(index), 3, generator=training.generator)
            found = self.modules["net"](self.modules["norm"](self.x[index] + noise))
            return {"fit": (found - self.y[index]).square().mean(), "size": 1e-3 * found.abs().mean()}

        return training.run(self.modules, schedule, batches, loss, later)

    def numbers(self):
        return {f"{m}/{k}": v.clone() for m, module in self.modules.items() for k, v in module.state_dict().items()}


def assert_equal(first, second):
    assert set(first) == set(second)
    for name in first:
        assert torch.equal(first[name], second[name]), name


def new_training(resume=None, seed=5):
    return Training(torch.Generator().manual_seed(seed), resume)


# Schedule


def rates(plan: Schedule) -> list[float]:
    """The learning rate that each epoch, and the one after the last, would be given."""
    optimizer = make_optimizer({"w": nn.Linear(2, 1)}, plan)
    cosine, found = make_rates(optimizer, plan), []
    for epoch in range(plan.epochs + 1):
        cosine.step(epoch)
        (rate,) = {group["lr"] for group in optimizer.param_groups}
        found.append(rate)
    return found


@pytest.mark.parametrize(("rate", "epochs", "floor"), [(0.1, 30, 1e-3), (1e-3, 70, 1e-3), (0.037, 7, 0.1)])
def test_rates_are_the_cosine_to_the_bit(rate, epochs, floor):
    low = rate * floor
    by_hand = [low + (rate - low) * (1 + math.cos(math.pi * epoch / epochs)) / 2 for epoch in range(epochs)]
    found = rates(schedule(rate=rate, epochs=epochs, floor=floor))
    assert found[:-1] == by_hand
    assert found[0] == rate
    assert found[-1] == low  # where it would end
    assert found == sorted(found, reverse=True)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_rates_are_those_of_pytorchs_cosine():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7, eta_min=1e-4)
    for rate in rates(schedule(rate=0.1, epochs=7, floor=1e-3)):
        assert rate == pytest.approx(optimizer.param_groups[0]["lr"])
        cosine.step()


def test_a_single_epoch_has_the_full_rate_and_no_warning(caplog):
    assert rates(schedule(rate=0.1, epochs=1))[0] == 0.1
    assert not caplog.records


def test_vectors_do_not_decay_and_what_is_frozen_is_not_trained():
    net, head = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8)), nn.Linear(8, 2).requires_grad_(False)
    head.weight.requires_grad_(True)
    groups = make_optimizer({"net": net, "head": head}, schedule(weight_decay=0.5)).param_groups
    decays = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert decays == {
        **{id(p): 0.5 for p in (net[0].weight, head.weight)},
        **{id(p): 0.0 for p in (net[0].bias, net[1].weight, net[1].bias)},
    }


def test_each_epoch_steps_with_its_rate():
    weight = nn.Linear(1, 1, bias=False)
    plan = schedule(rate=0.1, epochs=4, floor=0.1, momentum=0.0, weight_decay=0.0)
    before, steps = weight.weight.item(), []
    for _ in new_training().run({"w": weight}, plan, lambda: [None], lambda *_: {"slope": weight.weight.sum()}):
        steps.append(before - weight.weight.item())
        before = weight.weight.item()
    assert steps == pytest.approx(rates(plan)[:4], rel=1e-4)


# Training


@pytest.mark.parametrize(("optimizer", "rate"), OPTIMIZERS)
def test_a_regression_is_learned(optimizer, rate):
    task = Regression()
    epochs = list(task.run(new_training(), schedule(optimizer, rate, epochs=20)))
    assert [epoch.number for epoch in epochs] == list(range(1, 21))
    assert {epoch.total for epoch in epochs} == {20}
    assert set(epochs[0].terms) == {"fit", "size"}
    assert epochs[-1].terms["fit"] < 0.3 * epochs[0].terms["fit"]


def test_terms_are_means_over_the_batches_of_the_sum_that_is_minimised():
    weight = nn.Linear(1, 1, bias=False)
    nn.init.ones_(weight.weight)
    plan = schedule(rate=0.5, epochs=1, momentum=0.0, weight_decay=0.0)

    def loss(batch, epoch):
        assert epoch == 0
        return {"a": batch * weight.weight.sum(), "b": 2 * batch + 0 * weight.weight.sum()}

    (epoch,) = new_training().run({"w": weight}, plan, lambda: [0.0, 1.0], loss)
    # Batch 0 leaves w = 1; batch 1 has a = w = 1 and steps to ½.
    assert epoch == Epoch(1, 1, {"a": 0.5, "b": 1.0})
    assert weight.weight.item() == pytest.approx(0.5)


@pytest.mark.parametrize("keep_after", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("stop_after", [1, 2, 5, 6])
@pytest.mark.parametrize(("optimizer", "rate"), OPTIMIZERS)
def test_stopped_and_resumed_is_never_stopped(optimizer, rate, stop_after, keep_after):
    plan = schedule(optimizer, rate)

    def go(task, training, until=None):
        history = {}
        for epoch in task.run(training, plan):
            history[epoch.number] = epoch.terms
            if epoch.number == keep_after:
                training.keep()
            if epoch.number == until:
                return {name: value.clone() for name, value in training.state.items()}, history
        return task.numbers(), history

    expected, history = go(Regression(), new_training())
    state, first_part = go(Regression(), new_training(), until=stop_after)
    fresh = Regression(seed=99)  # other weights, another place in the random stream: all of it is in the state
    found, second_part = go(fresh, new_training(resume=state, seed=1234))
    assert_equal(found, expected)
    assert {**first_part, **second_part} == history
    assert list(second_part) == list(range(stop_after + 1, 7))


def test_the_state_is_tensors_that_a_file_can_hold(tmp_path):
    from safetensors.torch import load_file, save_file

    plan, task, training = schedule("adamw", 0.02), Regression(), new_training()
    run = task.run(training, plan)
    next(run)
    training.keep()
    next(run)
    save_file({name: value.contiguous() for name, value in training.state.items()}, tmp_path / "state.safetensors")
    list(run)
    again = Regression(seed=99)
    list(again.run(new_training(resume=load_file(tmp_path / "state.safetensors")), plan))
    assert_equal(again.numbers(), task.numbers())


@pytest.mark.parametrize(("optimizer", "rate"), OPTIMIZERS)
def test_a_state_can_be_resumed_from_twice(optimizer, rate):
    plan, training = schedule(optimizer, rate), new_training()
    next(Regression().run(training, plan))
    state = {name: value.clone() for name, value in training.state.items()}
    ends = []
    for _ in range(2):
        task = Regression(seed=99)
        list(task.run(new_training(resume=state), plan))
        ends.append(task.numbers())
    assert_equal(*ends)


def test_what_is_kept_is_the_result():
    task, training, kept = Regression(), new_training(), None
    for epoch in task.run(training, schedule()):
        if epoch.number in (2, 4):
            training.keep()
            kept = task.numbers()
    assert_equal(task.numbers(), kept)
    unkept = Regression()
    list(unkept.run(new_training(), schedule()))
    assert not torch.equal(unkept.numbers()["net/0.weight"], kept["net/0.weight"])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number(bad):
    weight = nn.Linear(1, 1)

    def loss(_, epoch):
        return {"a": weight.weight.sum() * (bad if epoch == 1 else 1.0)}

    run = new_training().run({"w": weight}, schedule(), lambda: [None, None], loss)
    next(run)
    with pytest.raises(HappycatError, match=r"^the loss term a diverged in epoch 2 .*; lower the learning rate$"):
        next(run)


def test_a_last_step_that_diverges():
    """The loss is finite in every batch; the step after the last one is not, and no later epoch would show it."""
    net = nn.Linear(1, 1)

    def loss(_, epoch):
        return {"a": (net.weight - net.weight.detach()).sum() * (1e38 if epoch == 5 else 1e-6)}

    run = new_training().run({"net": net}, schedule(rate=1e4, floor=1.0), lambda: [None], loss)
    with pytest.raises(HappycatError, match=r"^the weights net/weight diverged in epoch 6 .*lower the learning"):
        list(run)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_vectors_do_not_decay(optimizer):
    net = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    nn.init.ones_(net[0].bias)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    plan = schedule(optimizer, rate=0.1, epochs=1, momentum=0.0, weight_decay=0.5)
    list(
        new_training().run(
            {"n": net}, plan, lambda: [None], lambda *_: {"none": 0 * sum(p.sum() for p in net.parameters())}
        )
    )
    after = net.state_dict()
    torch.testing.assert_close(after["0.weight"], before["0.weight"] * (1 - 0.1 * 0.5))
    for name in ("0.bias", "1.weight", "1.bias"):
        assert torch.equal(after[name], before[name])


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_what_is_frozen_is_neither_trained_nor_decayed(optimizer):
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    net[1].requires_grad_(False)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    plan = schedule(optimizer, weight_decay=0.5)
    list(new_training().run({"n": net}, plan, lambda: [torch.ones(2, 3)], lambda x, _: {"a": net(x).square().mean()}))
    assert torch.equal(net[1].weight, before["1.weight"])
    assert not torch.equal(net[0].weight, before["0.weight"])


def test_momentum_is_the_first_beta_of_adamw():
    # Gradients +1, then −1: m̂ = (β − 1)(1 − β)…, so that the second step shows β.
    weight = nn.Linear(1, 1, bias=False)
    plan = schedule("adamw", rate=0.1, epochs=1, momentum=0.5, weight_decay=0.0)
    start = weight.weight.item()
    list(new_training().run({"w": weight}, plan, lambda: [1.0, -1.0], lambda g, _: {"a": g * weight.weight.sum()}))
    m = 0.5 * 0.5 * 1 - 0.5 * 1  # β m₁ + (1 − β) g₂ with m₁ = ½
    second = m / (1 - 0.5**2)  # v̂ = 1
    assert weight.weight.item() == pytest.approx(start - 0.1 * (1 + second), abs=1e-5)


# Several phases


class TwoPhases:
    """Learns, then averages with where it began and learns its own answers, with a head it did not have before.

    What the second phase starts with depends on the first one's end, and on numbers drawn in between.
    """

    def __init__(self, plans, seed=0):
        self.plans = plans
        self.task = Regression(seed)
        self.head = nn.Linear(3, 1)

    def run(self, training):
        x, net = self.task.x, self.task.modules["net"]
        start = [p.detach().clone() for p in net.parameters()]
        torch.rand(3, generator=training.generator)
        yield from self.task.run(training, self.plans[0], later=self.plans[1].epochs)
        with torch.no_grad():
            pseudo_labels = net(x) + 0.1 * torch.randn(len(x), 1, generator=training.generator)
            for now, then in zip(net.parameters(), start, strict=True):
                now.lerp_(then, 0.3)
            self.head.weight.copy_(torch.randn(1, 3, generator=training.generator))
            self.head.bias.copy_(pseudo_labels.mean()[None])

        def loss(index, epoch):
            noise = 0.01 * torch.randn(len(index), 3, generator=training.generator)
            found = self.head(x[index] + noise) + net(x[index])
            return {"pseudo-labels": (found - pseudo_labels[index]).square().mean() * (1 + epoch)}

        yield from training.run(
            {"net": net, "head": self.head},
            self.plans[1],
            lambda: torch.randperm(40, generator=training.generator).split(10),
            loss,
        )

    def numbers(self):
        return {**self.task.numbers(), **{f"head/{k}": v.clone() for k, v in self.head.state_dict().items()}}


def two_phases(optimizer, rate, seed=0):
    return TwoPhases((schedule(optimizer, rate, epochs=3), schedule(optimizer, rate / 2, epochs=2)), seed)


def copy_of(state):
    return {name: value.clone() for name, value in state.items()}


def test_epochs_are_counted_through_all_phases():
    epochs = list(two_phases("sgd", 0.05).run(new_training()))
    assert [(epoch.number, epoch.total) for epoch in epochs] == [(n, 5) for n in range(1, 6)]
    assert [set(epoch.terms) for epoch in epochs] == [{"fit", "size"}] * 3 + [{"pseudo-labels"}] * 2


def test_each_phase_has_its_own_rates_and_momentum():
    weight = nn.Linear(1, 1, bias=False)
    training, before, steps = new_training(), weight.weight.item(), []
    plans = [schedule(rate=rate, epochs=2, floor=0.1, weight_decay=0.0) for rate in (0.1, 0.01)]
    for plan in plans:
        for _ in training.run({"w": weight}, plan, lambda: [None], lambda *_: {"slope": weight.weight.sum()}):
            steps.append(before - weight.weight.item())
            before = weight.weight.item()
    # The first step of a phase has no momentum yet, the second 0.9 of the first one's gradient.
    expected = [factor * rates(plan)[epoch] for plan in plans for epoch, factor in enumerate((1, 1.9))]
    assert steps == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("keep_after", [None, 2, 4])
@pytest.mark.parametrize("stop_after", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("optimizer", "rate"), OPTIMIZERS)
def test_phases_stopped_and_resumed_are_never_stopped(optimizer, rate, stop_after, keep_after):
    def go(phases, training, until=None):
        history = {}
        for epoch in phases.run(training):
            history[epoch.number] = epoch
            if epoch.number == keep_after:
                training.keep()
            if epoch.number == until:
                return copy_of(training.state), history
        return phases.numbers(), history

    expected, history = go(two_phases(optimizer, rate), new_training())
    state, first_part = go(two_phases(optimizer, rate), new_training(), until=stop_after)
    # What a method makes ready is the same as at a fresh start; the random stream is elsewhere.
    fresh = two_phases(optimizer, rate)
    found, second_part = go(fresh, new_training(resume=state, seed=1234))
    assert_equal(found, expected)
    assert {**first_part, **second_part} == history
    assert list(second_part) == list(range(stop_after + 1, 6))


@pytest.mark.parametrize("stops", [(1, 2), (2, 4), (3, 4), (4, 5)])
def test_phases_can_be_resumed_again(stops):
    expected, state = two_phases("sgd", 0.05), None
    list(expected.run(new_training()))
    for stop in stops:
        training = new_training(resume=state, seed=stop if state else 5)
        for epoch in two_phases("sgd", 0.05).run(training):
            if epoch.number == stop:
                state = copy_of(training.state)
                break
    found = two_phases("sgd", 0.05)
    list(found.run(new_training(resume=state, seed=77)))
    assert_equal(found.numbers(), expected.numbers())


def test_a_state_of_the_second_phase_needs_nothing_of_the_first_but_its_start():
    """Also in a file: the weights the first phase ended with are in it, whatever the modules were then."""
    from safetensors.torch import load, save

    expected, training, state = two_phases("adamw", 0.02), new_training(), None
    for epoch in expected.run(training):
        if epoch.number == 4:
            state = load(save({name: value.contiguous() for name, value in training.state.items()}))
    assert int(state["phase"]) == 1
    assert int(state["epoch"]) == 4
    before = copy_of(state)
    ends = []
    for _ in range(2):
        again = two_phases("adamw", 0.02)
        list(again.run(new_training(resume=state)))
        ends.append(again.numbers())
    assert_equal(ends[0], expected.numbers())
    assert_equal(*ends)
    assert_equal(state, before)


# ramp_up


def test_ramp_up_by_hand():
    assert ramp_up(0, 10) == pytest.approx(math.exp(-5))
    assert ramp_up(5, 10) == pytest.approx(math.exp(-1.25))
    assert ramp_up(1, 3) == pytest.approx(math.exp(-5 * 4 / 9))
    assert ramp_up(10, 10) == ramp_up(11, 10) == ramp_up(1, 1) == 1.0
    values = [ramp_up(epoch, 15) for epoch in range(16)]
    assert values == sorted(set(values))


# The fused optimisers


@pytest.mark.parametrize(("name", "rate"), OPTIMIZERS)
def test_fused_steps_are_the_plain_ones(name, rate):
    plan = schedule(name, rate)
    torch.manual_seed(0)
    fused, plain = nn.Linear(5, 4), nn.Linear(5, 4)
    plain.load_state_dict(fused.state_dict())
    ours = make_optimizer({"w": fused}, plan)
    groups = [{"params": [plain.weight]}, {"params": [plain.bias], "weight_decay": 0}]
    values = {"lr": rate, "weight_decay": plan.weight_decay}
    theirs = {
        "sgd": lambda: torch.optim.SGD(groups, momentum=0.9, **values),
        "adamw": lambda: torch.optim.AdamW(groups, betas=(0.9, 0.999), **values),
    }[name]()
    for x in torch.randn(5, 8, 5):
        for module, optimizer in ((fused, ours), (plain, theirs)):
            optimizer.zero_grad()
            module(x).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(fused.weight, plain.weight)
    torch.testing.assert_close(fused.bias, plain.bias)


@pytest.mark.parametrize(("name", "rate"), OPTIMIZERS)
def test_a_gradient_may_come_late(name, rate):
    early, late = nn.Linear(3, 1), nn.Linear(3, 1)
    optimizer, before = make_optimizer({"early": early, "late": late}, schedule(name, rate)), late.weight.clone()
    for modules in ([early], [early, late]):
        optimizer.zero_grad()
        sum(module(torch.ones(2, 3)).sum() for module in modules).backward()
        optimizer.step()
        assert torch.equal(late.weight, before) == (modules == [early])
