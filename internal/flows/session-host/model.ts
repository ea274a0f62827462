// The model and the effort of an agent where its spec leaves them to the catalog (docs/reference/compile.md#models).

import type { AgentSpec, ModelSpec, ReasoningEffort } from '../../domain/spec.ts';
import { type FlowContext, catalogOf } from '../context.ts';

export function modelOf(ctx: FlowContext, spec: Pick<AgentSpec, 'harness' | 'model'>): ModelSpec {
  const { defaultProvider, defaultModel } = catalogOf(ctx).catalog.harnesses[spec.harness];
  return spec.model ?? { provider: defaultProvider, id: defaultModel };
}

/** The declared effort, else the harness's default, or the first that the model takes where it does not take that. */
export function effortOf(ctx: FlowContext, spec: AgentSpec, model: ModelSpec): ReasoningEffort {
  const { harnesses, effortsByModel } = catalogOf(ctx).catalog;
  const { defaultEffort } = harnesses[spec.harness];
  const narrowed = effortsByModel[model.provider]?.[model.id];
  const fitting = narrowed === undefined || narrowed.includes(defaultEffort) ? defaultEffort : narrowed[0];
  return spec.reasoningEffort ?? fitting ?? defaultEffort;
}
