"""Machines for tests of passes that ask about one."""

from __future__ import annotations

from dataclasses import replace

from pypto.passes.target_facts import TargetFacts

CACHES = (32 << 10, 1 << 20, 32 << 20)
NEON = TargetFacts(vector_bytes=16, registers=32, caches=CACHES)
AVX512 = TargetFacts(vector_bytes=64, registers=32, caches=CACHES)
AMX = replace(AVX512, has_amx=True, has_bf16_round=True)
