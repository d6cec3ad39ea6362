"""How far PyTorch's scaled_dot_product_attention and its gradients are from f64, for the shapes of attention.rs.

    python sdpa.py > sdpa.txt

One line per shape: the number of the shape, then the root mean square error of result and gradients of queries, keys and
values, relative to the root mean square of the exact value, as attention.rs computes it.
"""
import numpy as np
import torch
import torch.nn.functional as F

SHAPES, WORK = 300, 2_000_000
MASK = (1 << 64) - 1


class Dice:
    """SplitMix64, one number or many at once."""

    def __init__(self, state):
        self.state = state

    def many(self, count):
        with np.errstate(over='ignore'):
            z = np.uint64(self.state) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        self.state = (self.state + count * 0x9E3779B97F4A7C15) & MASK
        return z ^ (z >> np.uint64(31))

    def below(self, bound):
        return int(self.many(1)[0]) % bound

    def length(self, most):
        unit = (int(self.many(1)[0]) >> 11) / (1 << 53)
        return min(max(int((most + 1.0) ** unit), 1), most)

    def numbers(self, dims, spread):
        count = int(np.prod(dims))
        drawn = (self.many(count) % np.uint64(257)).astype(np.float64)
        return torch.from_numpy(((drawn / 128.0 - 1.0) * spread).reshape(dims))


def case(dice):
    queries = dice.length(1025)
    keys = dice.length(1025) if dice.below(3) == 0 else queries
    features = [1, 3, 8, 24, 32, 40, 64, 72, 80, 128][dice.below(10)]
    batch, heads = 1 + dice.below(4), [1, 2, 3, 5, 6, 7][dice.below(6)]
    while batch * heads > 1 and batch * heads * queries * keys * features > WORK:
        batch, heads = -(-batch // 2), heads // 2 + int(heads == 1)
    features = min(features, max(WORK // (batch * heads * queries * keys), 1))
    bias = None
    if dice.below(3) == 0:
        bias = [[1, batch][dice.below(2)], [1, heads][dice.below(2)], [1, queries][dice.below(2)]]
    return batch, queries, keys, heads, features, dice.below(5) == 0, bias


def attend(operands, given, bias, causal, dtype):
    """Result and gradients in that type; operands are [batch, tokens, heads, features]."""
    leaves = [x.to(dtype).transpose(1, 2).contiguous().requires_grad_() for x in operands]
    mask = None if bias is None else bias.to(dtype)
    if causal:
        hidden = torch.ones(leaves[0].shape[2], leaves[1].shape[2], dtype=torch.bool).tril().logical_not()
        mask = (torch.zeros(hidden.shape, dtype=dtype) if mask is None else mask).masked_fill(hidden, float('-inf'))
    if mask is not None:
        mask = mask.expand(leaves[0].shape[0], leaves[0].shape[1], leaves[0].shape[2], leaves[1].shape[2])
    if dtype == torch.float64:
        scores = leaves[0] @ leaves[1].transpose(-1, -2) / leaves[0].shape[-1] ** 0.5
        result = torch.softmax(scores if mask is None else scores + mask, -1) @ leaves[2]
    else:
        result = F.scaled_dot_product_attention(*leaves, attn_mask=mask)
    gradients = torch.autograd.grad(result, leaves, given.to(dtype).transpose(1, 2))
    return [x.detach().double() for x in (result, *gradients)]


def error(exact, found):
    size = max(float((exact ** 2).mean().sqrt()), 0.05)
    return float(((exact - found) ** 2).mean().sqrt()) / size


dice = Dice(24)
for number in range(SHAPES):
    batch, queries, keys, heads, features, causal, bias = case(dice)
    dims = lambda tokens: (batch, tokens, heads, features)
    operands = [dice.numbers(dims(tokens), 1.0) for tokens in (queries, keys, keys)]
    given = dice.numbers(dims(queries), 1.0)
    added = None if bias is None else dice.numbers((*bias, keys), 2.0)
    dtype = torch.float32 if number % 2 == 0 else torch.bfloat16
    exact = attend(operands, given, added, causal, torch.float64)
    found = attend(operands, given, added, causal, dtype)
    print(number, *(f'{error(a, b):.3e}' for a, b in zip(exact, found)))
