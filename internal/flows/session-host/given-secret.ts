// A value that a session gives to the tool that creates secrets. The harness tells of the call with all that it passes, and
// whoever may read the transcript may not read secrets: the value is hidden as one of those that the session was launched with.

import type { Json } from '../../domain/json.ts';
import { parseJson } from '../../domain/json-text.ts';

/** However a harness spells the server that it is of. */
const toolName = 'svc_secrets_create';
/** Where the input was cut, its end is missing and it is no JSON. */
const valueInText = /"value"\s*:\s*"((?:[^"\\]|\\.)*)/;
const depthMax = 8;

/** The values that a call gives to the tool; none for a call of another one. */
export function givenSecrets(call: { readonly title: string; readonly input?: string | undefined }): readonly string[] {
  const { title, input = '' } = call;
  if (!title.includes(toolName) && !input.includes(toolName)) return [];
  const whole = parsed(input);
  if (whole !== undefined) return valuesIn(whole, depthMax);
  const [, text] = valueInText.exec(input) ?? [];
  const cut = text === undefined ? undefined : (parsed(`"${text}"`) ?? text);
  return typeof cut === 'string' ? [cut] : [];
}

function parsed(text: string): Json | undefined {
  try {
    return parseJson(text) as Json;
  } catch {
    return undefined;
  }
}

/** Some pass the arguments as JSON within a text. */
function valuesIn(json: Json, depth: number): string[] {
  if (depth === 0) return [];
  if (typeof json === 'string') {
    const inner = json.startsWith('{') ? parsed(json) : undefined;
    return inner === undefined ? [] : valuesIn(inner, depth - 1);
  }
  if (typeof json !== 'object' || json === null) return [];
  return Object.entries(json).flatMap(([key, member]) =>
    key === 'value' && typeof member === 'string' ? [member] : valuesIn(member as Json, depth - 1),
  );
}
