// A tool: its name with dots, what a harness is told of it, and what it does. MCP names have `_` for `.`.

import type { ToolCaller } from '../../adapters/store/sessions/tool-callers.ts';
import type { ToolInput, ToolName } from '../../../schemas/tool-input.ts';
import type { Actor, FlowContext } from '../context.ts';

export interface ToolCall {
  readonly ctx: FlowContext;
  readonly caller: ToolCaller;
  /** The session, as the audit names it. */
  readonly actor: Actor;
  /** Whoever called does not wait any more: what changes nothing may stop, what does must end as it would. */
  readonly signal: AbortSignal;
}

/** What a tool does to the world: nothing, adds to it, or takes or replaces what was there. */
export type Effect = 'none' | 'adds' | 'takes';

export interface ToolSpec<N extends ToolName = ToolName> {
  readonly name: N;
  readonly description: string;
  readonly effect: Effect;
  /** Answers with JSON; throws Fault. */
  run(call: ToolCall, input: ToolInput<N>): Promise<unknown>;
}

/** Declares a tool; inside `run`, the input has the type of its schema. */
export function tool<const N extends ToolName>(spec: ToolSpec<N>): ToolSpec {
  // The table calls run only with what the schema of the same name has produced.
  return spec as unknown as ToolSpec;
}
