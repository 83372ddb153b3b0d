"""A stochastic policy over steps and its critic, trained by proximal policy optimisation.

PPO with a clipped objective (Schulman et al., "Proximal Policy Optimization Algorithms", 2017) and generalised
advantage estimation (Schulman et al., ICLR 2016). All randomness comes from the caller's generator: torch only
multiplies and differentiates, on one thread, so that the same inputs give the same weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tunesmith.search.extras import extra
from tunesmith.search.packed import pack, unpack
from tunesmith.space.base import Bools, Floats, Ints

WAYS = 3
"""Down, stay, up."""


@dataclass(frozen=True)
class PolicyOptions:
    """Settings of the two networks and their training.

    Attributes:
        hidden: units of each of the two hidden layers.
        calm: how much likelier than a move an untrained policy leaves a knob as it is, as a logarithm.
        rate: step size of Adam.
        epochs: passes over what the agents went through.
        minibatch: steps of agents in an update.
        discount, trace: discount of rewards, and that of the advantages' estimates (gamma and lambda).
        clip: how far the odds of a step may move in the objective.
        entropy: weight of the policy's entropy.
    """

    hidden: int = 20
    calm: float = 2.5
    rate: float = 3e-3
    epochs: int = 3
    minibatch: int = 128
    discount: float = 0.9
    trace: float = 0.95
    clip: float = 0.2
    entropy: float = 0.01


@dataclass(frozen=True)
class Episodes:
    """What agents went through.

    Attributes:
        seen: float32 [steps + 1, agents, inputs], what they saw before each step and after the last one.
        own: bool [agents, slots], where an agent can move at all.
        step: int64 [steps, agents, slots], of -1, 0 and 1.
        reward: float64 [steps, agents].
    """

    seen: Any
    own: Bools
    step: Ints
    reward: Floats


class Policy:
    """Two networks of two hidden layers with tanh: the odds of steps in every slot, and what an agent may expect.

    Args:
        inputs: numbers that an agent sees.
        slots: in each of which it moves by -1, 0 or 1.
        rng: source of the first weights.
        options: see ``PolicyOptions``.

    Raises:
        MissingDependency: without torch.
    """

    def __init__(self, inputs: int, slots: int, rng: np.random.Generator, options: PolicyOptions) -> None:
        self._torch = extra("torch", "ppo")
        self.options, self._slots = options, slots
        actor = self._layers(rng, inputs, WAYS * slots, 0.01)
        actor[-1].data[1::WAYS] += options.calm
        self._actor, self._critic = actor, self._layers(rng, inputs, 1, 1.0)

    def _layers(self, rng: np.random.Generator, inputs: int, outputs: int, gain: float) -> list[Any]:
        """Weights and biases, layer by layer; the last one starts small, so that nothing is decided."""
        sizes = [inputs, self.options.hidden, self.options.hidden, outputs]
        found = []
        for i, (a, b) in enumerate(itertools.pairwise(sizes)):
            scale = (gain if i == 2 else 1.0) / np.sqrt(max(a, 1))
            for values in (scale * rng.normal(size=(a, b)), np.zeros(b)):
                found.append(self._torch.tensor(values.astype(np.float32), requires_grad=True))
        return found

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One thread: sums of several come out in any order."""
        threads = self._torch.get_num_threads()
        self._torch.set_num_threads(1)
        try:
            yield
        finally:
            self._torch.set_num_threads(threads)

    def _through(self, layers: Sequence[Any], x: Any) -> Any:
        for w, b in zip(layers[0:-2:2], layers[1:-2:2], strict=True):
            x = self._torch.tanh(x @ w + b)
        return x @ layers[-2] + layers[-1]

    def _logs(self, x: Any) -> Any:
        """Logarithms of the odds of the ways, [n, slots, WAYS]."""
        return self._torch.log_softmax(self._through(self._actor, x).reshape(len(x), self._slots, WAYS), dim=-1)

    def act(self, rng: np.random.Generator, seen: Any) -> Ints:
        """A step for each agent, drawn from the policy: int64 [n, slots] of -1, 0 and 1."""
        with self._alone(), self._torch.no_grad():
            odds = self._logs(self._torch.from_numpy(seen)).exp().numpy().astype(np.float64)
        lot = rng.random(odds.shape[:2])
        return np.asarray((lot[:, :, None] > np.cumsum(odds, axis=2)[:, :, :-1]).sum(axis=2) - 1, dtype=np.int64)

    def learn(self, rng: np.random.Generator, episodes: Episodes) -> None:
        """Improve on what agents went through."""
        torch = self._torch
        with self._alone():
            seen, own = torch.from_numpy(episodes.seen), torch.from_numpy(episodes.own)
            steps, agents = episodes.reward.shape
            with torch.no_grad():
                value = self._through(self._critic, seen.flatten(0, 1)).reshape(steps + 1, agents).numpy()
            advantage = self._advantages(episodes.reward, value.astype(np.float64))
            wanted = torch.from_numpy((advantage + value[:-1]).astype(np.float32)).flatten()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            data = (
                seen[:-1].flatten(0, 1),
                own.repeat(steps, 1),
                torch.from_numpy(episodes.step + 1).flatten(0, 1),
                torch.from_numpy(advantage.astype(np.float32)).flatten(),
                wanted,
            )
            with torch.no_grad():
                before = self._chosen(*data[:3])[0]
            adam = torch.optim.Adam([*self._actor, *self._critic], lr=self.options.rate)
            for _ in range(self.options.epochs):
                order = torch.from_numpy(rng.permutation(len(wanted)))
                for rows in order.split(self.options.minibatch):
                    adam.zero_grad()
                    self._loss(before[rows], *(column[rows] for column in data)).backward()
                    adam.step()

    def _chosen(self, seen: Any, own: Any, way: Any) -> tuple[Any, Any]:
        """Logarithms of the odds of steps [n], and the entropy of each slot's odds on average [n]."""
        logs = self._logs(seen)
        taken = logs.gather(2, way[:, :, None])[:, :, 0]
        entropy = -(logs.exp() * logs).sum(dim=2)
        return (taken * own).sum(dim=1), (entropy * own).sum(dim=1) / own.sum(dim=1).clamp(min=1)

    def _loss(self, before: Any, seen: Any, own: Any, way: Any, advantage: Any, wanted: Any) -> Any:
        torch, options = self._torch, self.options
        log, entropy = self._chosen(seen, own, way)
        ratio = (log - before).exp()
        clipped = ratio.clamp(1.0 - options.clip, 1.0 + options.clip)
        gain = torch.minimum(ratio * advantage, clipped * advantage).mean()
        error = (self._through(self._critic, seen)[:, 0] - wanted).square().mean()
        return error - gain - options.entropy * entropy.mean()

    def _advantages(self, reward: Floats, value: Floats) -> Floats:
        """Generalised estimates, float64 [steps, agents]: value is [steps + 1, agents]; only the last step is an
        end."""
        found = np.zeros_like(reward)
        error = reward + self.options.discount * value[1:] - value[:-1]
        ahead = np.zeros(reward.shape[1])
        for t in reversed(range(len(reward))):
            ahead = error[t] + self.options.discount * self.options.trace * ahead
            found[t] = ahead
        return found

    def state(self) -> str:
        """The weights, bit for bit, as text."""
        flat = np.concatenate([layer.detach().numpy().ravel() for layer in (*self._actor, *self._critic)])
        return pack(flat, "<f4")

    def restore(self, state: str) -> None:
        """Inverse of :meth:`state`."""
        flat = unpack(state, "<f4")
        for layer in (*self._actor, *self._critic):
            part, flat = flat[: layer.numel()], flat[layer.numel() :]
            layer.data.copy_(self._torch.from_numpy(part.reshape(tuple(layer.shape)).copy()))
