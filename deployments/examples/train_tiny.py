"""A real, tiny distributed training run: a small transformer, DDP, checkpoints, resume.

Start it with torchrun; every option has a default. On CPU it uses gloo, with GPUs nccl. The data are
synthetic: each token follows from the one before it, with some noise, so the loss falls within seconds.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 32, 32, 64, 4, 2
NOISE = 0.05
KEPT = 2
EXIT_OTHER_MACHINE = 3


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, both residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, WIDTH) -> the same shape."""
        batch, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
        fed: Tensor = x + self.feed(self.norm2(x))
        return fed


class Transformer(nn.Module):
    """Tokens (batch, LENGTH) -> logits of the next token (batch, LENGTH, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        logits: Tensor = self.head(self.norm(self.blocks(x)))
        return logits


def main() -> int:
    """Confirm the machine, train, print one last line. Returns the exit code."""
    for difference in _unproven():
        print(f"not the machine that was proven: {difference}", file=sys.stderr)
        return EXIT_OTHER_MACHINE
    options = _options()
    cuda = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))
    dist.init_process_group("nccl" if cuda else "gloo")
    first, last, start = train(options, device)
    dist.destroy_process_group()
    if int(os.environ["RANK"]) == 0:
        said = f"from step {start}" if start else "from scratch"
        print(f"trained {options.steps - start} steps {said}: loss {first:.3f} -> {last:.3f}", flush=True)
    return 0


def leave(code: int) -> NoReturn:
    """End this process without the interpreter's own end.

    DDP keeps the process group, so that gloo's threads outlive destroy_process_group (torch 2.13). One that drops a tensor while the
    interpreter ends aborts the process: "terminate called without an active exception" (github.com/pytorch/pytorch/pull/179291).
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def train(options: argparse.Namespace, device: torch.device) -> tuple[float, float, int]:
    """Train to `options.steps`; returns the first and last loss over all ranks, and where it began."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Transformer().to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    start = resume(options.checkpoints, model.module, optimizer, device)
    first = last = float("nan")
    for step in range(start, options.steps):
        tokens = batch(step, options.batch, device)
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if step in (start, options.steps - 1) or (step + 1) % options.log_every == 0:
            last = _mean(loss.detach())
            first = last if step == start else first
            if dist.get_rank() == 0:
                print(f"step {step + 1} of {options.steps}: loss {last:.3f}", flush=True)
        if (step + 1) % options.checkpoint_every == 0 or step + 1 == options.steps:
            save(options.checkpoints, step + 1, model.module, optimizer)
    return first, last, start


def batch(step: int, size: int, device: torch.device) -> Tensor:
    """Sequences of this rank at this step: the same again after a resume, others on every rank."""
    draw = torch.Generator().manual_seed(1_000_003 * step + dist.get_rank())
    tokens = torch.randint(VOCABULARY, (size, LENGTH + 1), generator=draw)
    noisy = torch.rand((size, LENGTH + 1), generator=draw) < NOISE
    for place in range(1, LENGTH + 1):
        follows = (3 * tokens[:, place - 1] + 7) % VOCABULARY
        tokens[:, place] = torch.where(noisy[:, place], tokens[:, place], follows)
    return tokens.to(device)


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Rank 0 writes the whole checkpoint or none, and keeps the last two; the others wait for it."""
    if dist.get_rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        path, temporary = folder / f"step-{step:08d}.pt", folder / f".step-{step:08d}.tmp"
        with open(temporary, "wb") as file:
            torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        for old in sorted(folder.glob("step-*.pt"))[:-KEPT]:
            old.unlink()
    dist.barrier()


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> int:
    """Rank 0 reads the newest checkpoint that can be read, and all ranks go on from it; returns its step."""
    found: list[Any] = [_newest(folder) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(found, src=0)
    checkpoint: dict[str, Any] | None = found[0]
    if checkpoint is None:
        return 0
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    model.to(device)
    step: int = checkpoint["step"]
    return step


def _newest(folder: Path) -> dict[str, Any] | None:
    for path in sorted(folder.glob("step-*.pt"), reverse=True):
        try:
            checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
            if {"step", "model", "optimizer"} <= set(checkpoint):
                return checkpoint
        except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError) as error:
            print(
                f"{path.name} cannot be read ({type(error).__name__}), trying an older one", file=sys.stderr
            )
    return None


def _unproven() -> list[str]:
    """How this machine differs from the one that passed; empty where no gate started us."""
    path, node = os.environ.get("PRELAUNCH_PASS"), os.environ.get("PRELAUNCH_NODE")
    if not path or not node:
        return []
    # PYTHONPATH or the current folder may have another package `checks` before Prelaunch's.
    confirm = "checks/runner/in_job/confirm.py"
    sys.path[:0] = [folder for folder in sys.path if Path(folder, confirm).is_file()][:1]
    from checks.runner.in_job.confirm import confirm_here

    return confirm_here(Path(path), node)


def _mean(loss: Tensor) -> float:
    dist.all_reduce(loss)
    return float(loss) / dist.get_world_size()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16, help="sequences a rank")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--checkpoint-every", type=int, default=20)
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    return parser.parse_args()


if __name__ == "__main__":
    try:
        exit_code = main()
    except Exception:  # noqa: BLE001 - whatever it is, it is printed, and the rank ends
        sys.excepthook(*sys.exc_info())  # torch's own, which names the rank
        exit_code = 1
    leave(exit_code)
