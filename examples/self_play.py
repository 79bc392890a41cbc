"""Self-play in one file: PPO learns a board game for two from games against itself.

One network plays both sides: it sees the board as the player who is to move, and what the other
then wins is what this one loses, so that values and advantages change their sign from move to
move. Every move of a game is a sample. After a million moves of Connect Four it beats a player who
moves at random in 19 of 20 games.

    python examples/self_play.py [--task Othello-v0 --total-steps 3000000]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import tyro
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn.functional import mse_loss

import headrace


@dataclass
class Args:
    """PPO by self-play."""

    task: str = "ConnectFour-v0"
    """TicTacToe-v0, ConnectFour-v0, Othello-v0 or Hex-v0"""
    total_steps: int = 1_500_000
    """moves, all games together"""
    num_envs: int = 256
    """N: games that are played at once"""
    num_steps: int = 32
    """T: moves of each game in a rollout"""
    epochs: int = 2
    """passes over a rollout"""
    minibatch_size: int = 1024
    """moves in one gradient step"""
    learning_rate: float = 1e-3
    """at the beginning; it falls to 0"""
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy: float = 0.1
    """what randomness of the moves is worth"""
    seed: int = 1


class Player(nn.Module):
    """Logits of moves, and how a game will end for the player who is to move, from -1 to 1."""

    def __init__(self, width: int, moves: int):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.logits, self.value = nn.Linear(256, moves), nn.Linear(256, 1)

    def forward(self, boards: Tensor, allowed: Tensor) -> tuple[Categorical, Tensor]:
        """The moves' distribution and values [B] for boards float32[B, width] and masks bool[B, moves]."""
        features = self.trunk(boards)
        logits = self.logits(features).masked_fill(~allowed, -1e9)
        return Categorical(logits=logits), self.value(features).tanh()[:, 0]


def to_move(obs: np.ndarray, masks: np.ndarray) -> tuple[Tensor, Tensor, np.ndarray]:
    """Boards and masks as the players see them who are to move, and these players, 0 or 1, [N]."""
    games, players = np.arange(len(obs)), obs[:, 1, -1, 0, 0].astype(int)  # the last plane says who it is
    boards = torch.as_tensor(obs[games, players], dtype=torch.float32).flatten(1)
    return boards, torch.as_tensor(masks[games, players]), players


def both(moves: np.ndarray) -> np.ndarray:
    """Actions [N, 2] of both players, of which the pool takes that of the one who is to move."""
    return np.stack((moves, moves), 1)


def won_against_random(task: str, player: Player, games: int = 512, seed: int = 7) -> float:
    """The share of games that a player wins, half of them as the first, against one who moves at random."""
    rng, wins, ended = np.random.default_rng(seed), np.zeros(games), np.zeros(games, np.bool_)
    ours = np.arange(games) % 2
    with headrace.make(task, num_envs=games, seed=seed, autoreset="next_step") as pool, torch.no_grad():
        obs, info = pool.reset()
        while not ended.all():
            boards, allowed, turn = to_move(obs, info["action_mask"])
            moves = player(boards, allowed)[0].probs.argmax(1).numpy()
            drawn = (allowed.numpy() * rng.random(allowed.shape)).argmax(1)
            obs, reward, terminated, _, info = pool.step(both(np.where(turn == ours, moves, drawn)))
            wins += ~ended & terminated & (reward[np.arange(games), ours] > 0)
            ended |= terminated
    return float(wins.mean())


def main() -> None:
    args = tyro.cli(Args)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    n, t_max = args.num_envs, args.num_steps
    pool = headrace.make(args.task, num_envs=n, seed=args.seed, autoreset="same_step")
    obs, info = pool.reset()
    boards, allowed, turn = to_move(obs, info["action_mask"])
    player = Player(boards.shape[1], allowed.shape[1])
    optimiser = torch.optim.Adam(player.parameters(), args.learning_rate, eps=1e-5)
    seen = torch.zeros(t_max, *boards.shape)
    masks, moves = torch.zeros(t_max, *allowed.shape, dtype=torch.bool), torch.zeros(t_max, n, dtype=torch.int64)
    log_probs, rewards, going, values = (torch.zeros(t_max, n) for _ in range(4))

    updates = args.total_steps // (n * t_max)
    for update in range(updates):
        optimiser.param_groups[0]["lr"] = args.learning_rate * (1 - update / updates)
        with torch.no_grad():
            for t in range(t_max):
                policy, values[t] = player(boards, allowed)
                seen[t], masks[t], moves[t] = boards, allowed, policy.sample()
                log_probs[t] = policy.log_prob(moves[t])
                obs, reward, terminated, truncated, info = pool.step(both(moves[t].numpy()))
                rewards[t] = torch.as_tensor(reward[np.arange(n), turn])
                going[t] = torch.as_tensor(~(terminated | truncated))
                boards, allowed, turn = to_move(obs, info["action_mask"])
            following, last, advantages = player(boards, allowed)[1], torch.zeros(n), torch.zeros(t_max, n)
            for t in reversed(range(t_max)):  # what follows belongs to the other player, hence the minus signs
                last = rewards[t] - going[t] * following - values[t] - going[t] * args.gae_lambda * last
                advantages[t], following = last, values[t]

        flat = [x.flatten(0, 1) for x in (seen, masks, moves, log_probs, advantages, advantages + values)]
        for index in (i for _ in range(args.epochs) for i in torch.randperm(n * t_max).split(args.minibatch_size)):
            o, mask, a, old, advantage, target = (x[index] for x in flat)
            policy, value = player(o, mask)
            ratio = (policy.log_prob(a) - old).exp()
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            gain = torch.min(ratio * advantage, ratio.clamp(1 - args.clip, 1 + args.clip) * advantage).mean()
            loss = mse_loss(value, target) - gain - args.entropy * policy.entropy().mean()
            optimiser.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(player.parameters(), 0.5)
            optimiser.step()
        if (update + 1) % 30 == 0 or update + 1 == updates:
            won = won_against_random(args.task, player)
            print(f"{(update + 1) * n * t_max:>8} moves, {won:.0%} of games won against a random player", flush=True)
    pool.close()


if __name__ == "__main__":
    main()
