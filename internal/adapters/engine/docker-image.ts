// Brings an image to Docker or Podman from its registry, and tells what went wrong in one of five words.

import { timeLimit } from '../../base/waits.ts';
import { type DockerClient, textField } from './docker-client.ts';
import { EngineError, type EngineErrorCode } from './types.ts';

/** Longest that a pull may take. */
const pullMs = 30 * 60_000;

/** What a registry's or an engine's words mean. */
function codeOf(text: string): EngineErrorCode {
  if (/unauthorized|denied|authentication required|forbidden|no basic auth/i.test(text)) return 'image-refused';
  if (
    /manifest unknown|not found|name unknown|no such image|does not exist|name invalid|invalid reference/i.test(text)
  ) {
    return 'image-missing';
  }
  return 'pull-failed';
}

/** `name:tag` or `name@sha256:…`; without either the tag is `latest`. */
function partsOf(image: string): { readonly fromImage: string; readonly tag: string } {
  const at = image.indexOf('@');
  if (at !== -1) return { fromImage: image.slice(0, at).replace(/:[^/:]*$/, ''), tag: image.slice(at + 1) };
  const colon = image.lastIndexOf(':');
  if (colon > image.lastIndexOf('/')) return { fromImage: image.slice(0, colon), tag: image.slice(colon + 1) };
  return { fromImage: image, tag: 'latest' };
}

export async function pull(client: DockerClient, image: string, signal?: AbortSignal): Promise<void> {
  const query = new URLSearchParams(partsOf(image));
  let failure = '';
  try {
    for await (const line of client.lines(`/images/create?${query}`, {
      method: 'POST',
      signal: timeLimit(pullMs, signal),
    })) {
      failure ||= errorIn(line);
    }
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof EngineError) throw error;
    throw new EngineError('pull-failed', `The image ${image} could not be pulled: the engine broke off`, {
      cause: error,
    });
  }
  if (failure === '') return;
  const text = failure.replace(/\s+/g, ' ').slice(0, 400);
  throw new EngineError(codeOf(text), `The image ${image} could not be pulled: ${text}`);
}

function errorIn(line: string): string {
  try {
    const told: unknown = JSON.parse(line);
    return textField(told, 'error') || textField(told, 'errorDetail', 'message');
  } catch {
    return '';
  }
}
