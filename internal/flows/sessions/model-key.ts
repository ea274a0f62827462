// Where the key of a model provider is, looked up at the moment of a call, so that a rotated one is used at once.

import { readFile } from 'node:fs/promises';
import { errorCode } from '../../adapters/store/store.ts';
import { getProject } from '../../adapters/store/tenancy/tenancy.ts';
import type { ModelSettings } from '../../base/config/model-settings.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import type { FlowContext } from '../context.ts';
import { secretText } from '../sealed.ts';

/** The key of a provider for a project's sessions; undefined where there is none. Never log what it answers. */
export async function modelKey(
  ctx: FlowContext,
  keys: ModelSettings['keys'],
  provider: ModelProvider,
  projectId: string,
): Promise<string | undefined> {
  const place = keys[provider];
  if (place.kind === 'env') return ctx.config.secretEnv?.(place.name);
  if (place.kind === 'file') {
    try {
      return await readFile(place.path, 'utf8');
    } catch (error) {
      ctx.runtime.log.error({ provider, path: place.path, code: errorCode(error) }, 'model.key_unreadable');
      return undefined;
    }
  }
  const project = await getProject(ctx.db, projectId);
  if (project === undefined) return undefined;
  return secretText(ctx, project, place.name, { kind: 'model', name: provider });
}
