"""The off-policy loop of αMEPOL as research code has it: PyTorch, float64, one mini-batch after the other.

It is slow and plain. Tests compare our loop with it, and benchmarks/off_policy_loop.py compares the time. Every
iteration runs both policies over all samples to rank the mini-batches, and runs both again for the KL divergence.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from alphamepol.estimation.knn import Neighbourhood
from alphamepol.policies.policy_kinds import GaussianPolicy
from alphamepol.sampling.trajectories import Trajectories


@dataclass(frozen=True)
class Result:
    """The mean entropy of the tail before each step and after the last, and the KL divergence after each step."""

    objectives: list[float]
    kls: list[float]
    parameters: list[np.ndarray]
    """The parameters after the last step: ln σ, then the weight and the bias of every layer."""


def improve(
    policy: GaussianPolicy,
    trajectories: Trajectories,
    neighbourhood: Neighbourhood,
    rate: float,
    *,
    tail_size: int,
    iterations: int,
) -> Result:
    """Do what `improve_off_policy` does for one seed. All samples must be valid, and the trust region must not bind."""
    behaviour, target = Gaussian(policy), Gaussian(policy)
    optimiser = torch.optim.Adam(target.parameters(), lr=rate)
    inputs, actions, radii = (
        torch.tensor(np.asarray(part, np.float64))
        for part in (trajectories.perceived, trajectories.actions, neighbourhood.radii)
    )
    neighbours = torch.tensor(np.asarray(neighbourhood.indices, np.int64))
    minibatches, particles, k = neighbours.shape
    half = neighbourhood.dimension / 2
    log_volumes = 2 * half * torch.log(radii) + half * math.log(math.pi) - math.lgamma(half + 1)

    def log_weights(number: int) -> torch.Tensor:
        with torch.no_grad():
            before = behaviour.log_prob(inputs[number], actions[number])
        return torch.cumsum(target.log_prob(inputs[number], actions[number]) - before, dim=-1).flatten()

    def entropy(number: int) -> torch.Tensor:
        weights = torch.softmax(log_weights(number), dim=0)
        masses = weights[neighbours[number]].sum(dim=-1)
        terms = masses / k * (torch.log(masses) - log_volumes[number])
        return -terms.sum() + math.log(k) - torch.digamma(torch.tensor(float(k), dtype=torch.float64))

    @torch.no_grad()
    def divergence() -> float:
        weights = torch.stack([log_weights(number) for number in range(minibatches)])
        weights = torch.softmax(weights.flatten(), dim=0).reshape(minibatches, particles)
        expected = k / (minibatches * particles)
        parts = [torch.log(expected / weights[m][neighbours[m]].sum(dim=-1)).mean() for m in range(minibatches)]
        return float(torch.stack(parts).mean())

    def objective() -> torch.Tensor:
        entropies = torch.stack([entropy(number) for number in range(minibatches)])
        return entropies[torch.argsort(entropies.detach())[:tail_size]].mean()

    objectives, kls = [], []
    for _ in range(iterations):
        value = objective()
        optimiser.zero_grad()
        (-value).backward()
        optimiser.step()
        objectives.append(value.item())
        kls.append(divergence())
    with torch.no_grad():
        objectives.append(objective().item())
    return Result(objectives, kls, [part.detach().numpy() for part in target.parameters()])


class Gaussian(nn.Module):
    """A policy in PyTorch."""

    def __init__(self, policy: GaussianPolicy) -> None:
        super().__init__()
        parts: list[nn.Module] = []
        for layer in policy.layers:
            linear = nn.Linear(layer.in_features, layer.out_features, dtype=torch.float64)  # type: ignore[arg-type]
            linear.weight.data = torch.tensor(np.asarray(layer.weight, np.float64))
            linear.bias.data = torch.tensor(np.asarray(layer.bias, np.float64))
            parts += [linear, nn.ReLU()]
        self.network = nn.Sequential(*parts[:-1])
        self.log_std = nn.Parameter(torch.tensor(np.asarray(policy.log_std, np.float64)))

    def log_prob(self, inputs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return torch.distributions.Normal(self.network(inputs), self.log_std.exp()).log_prob(actions).sum(dim=-1)
