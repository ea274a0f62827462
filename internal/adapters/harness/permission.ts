// What a harness asks before it acts, as a person needs it to decide, and the answer on the wire. Pure.

import type { HarnessUpdate, PermissionDecision, PermissionRequest } from './types.ts';
import { fieldsOf, jsonText, nameOf } from './updates.ts';

const optionsMax = 32;

const optionOrder: { readonly [decision in Exclude<PermissionDecision, 'cancelled'>]: readonly string[] } = {
  allow: ['allow_once', 'allow_always'],
  allow_always: ['allow_always', 'allow_once'],
  reject: ['reject_once', 'reject_always'],
};

const callsMax = 256;

/** What kind of thing each call does, as it was told when it began: the question about it need not repeat it. */
export class CallCategories {
  readonly #byCall = new Map<string, string>();

  note(update: HarnessUpdate): void {
    if (update.kind !== 'tool_started') return;
    this.#byCall.set(update.callId, update.category);
    if (this.#byCall.size <= callsMax) return;
    for (const oldest of this.#byCall.keys()) return void this.#byCall.delete(oldest);
  }

  of(callId: string): string | undefined {
    return this.#byCall.get(callId);
  }
}

/** A permission request's parts that a person needs to decide. */
export function mapPermission(
  params: unknown,
  maxTextBytes: number,
  categories = new CallCategories(),
): PermissionRequest {
  const fields = fieldsOf(params);
  const call = fieldsOf(fields['toolCall']);
  const input = jsonText(call['rawInput'], maxTextBytes);
  const options = (Array.isArray(fields['options']) ? fields['options'] : []).slice(0, optionsMax).flatMap((entry) => {
    const { optionId, name, kind } = fieldsOf(entry);
    // What the harness would not know again when it is cut is no option.
    if (typeof optionId !== 'string' || nameOf(optionId) !== optionId) return [];
    return [{ id: optionId, name: nameOf(name) ?? optionId, kind: nameOf(kind) ?? 'other' }];
  });
  const callId = nameOf(call['toolCallId']) ?? '';
  return {
    callId,
    title: nameOf(call['title']) ?? 'a tool call',
    category: nameOf(call['kind']) ?? categories.of(callId) ?? 'other',
    ...(input !== undefined && { input: input.text }),
    options,
  };
}

/** The wire's answer: the first option of a kind that the decision takes; where none is offered, `cancelled`. */
export function permissionAnswer(request: PermissionRequest, decision: PermissionDecision): object {
  const kinds = decision === 'cancelled' ? [] : optionOrder[decision];
  const chosen = kinds.map((kind) => request.options.find((option) => option.kind === kind)).find(Boolean);
  return { outcome: chosen === undefined ? { outcome: 'cancelled' } : { outcome: 'selected', optionId: chosen.id } };
}
