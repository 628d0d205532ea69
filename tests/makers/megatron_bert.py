# Copyright The Tenplex Authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron-Core's BertModel, saved by the library itself on a CPU: what ranks do, and its names and chunks."""

from __future__ import annotations

from typing import Any

import torch

torch.cuda.synchronize = lambda *arguments, **named: None
torch.cuda.current_device = lambda: "cpu"

from megatron.core import dist_checkpointing, parallel_state  # noqa: E402
from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec  # noqa: E402
from megatron.core.models.bert.bert_model import BertModel  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402


def save(tp: int, pp: int, per_layer: bool, folder: str) -> None:
    """Saves a BERT of 4 layers with both heads. Embeddings are tied on one stage; on several that needs CUDA."""
    parallel_state.initialize_model_parallel(tp, pp)
    config = TransformerConfig(
        num_layers=4,
        hidden_size=16,
        num_attention_heads=4,
        use_cpu_initialization=True,
        gradient_accumulation_fusion=False,
        tensor_model_parallel_size=tp,
        pipeline_model_parallel_size=pp,
        pipeline_dtype=torch.float32,
    )
    model = BertModel(
        config,
        num_tokentypes=2,
        transformer_layer_spec=bert_layer_local_spec,
        vocab_size=16,
        max_sequence_length=8,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=pp == 1,
    )
    state: dict[str, Any] = model.sharded_state_dict(metadata={"non_homogeneous_layers": per_layer})
    dist_checkpointing.save(state, folder)
