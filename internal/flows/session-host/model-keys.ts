// Whether the key of a model provider is there, without opening it.

import { access, constants } from 'node:fs/promises';
import { secretIsThere } from '../../adapters/store/sessions/session-troubles.ts';
import { modelSettings } from '../../base/config/model-settings.ts';
import type { ModelProvider } from '../../domain/spec.ts';
import type { FlowContext, ProjectRef } from '../context.ts';

export interface MissingKey {
  readonly message: string;
  readonly hint: string;
}

/** What is missing, and what to do; undefined where the key is there. */
export async function missingKey(
  ctx: FlowContext,
  project: Pick<ProjectRef, 'id' | 'orgId'>,
  provider: ModelProvider,
): Promise<MissingKey | undefined> {
  const place = modelSettings(ctx.config.file, ctx.config.fileDir).keys[provider];
  const isThere =
    place.kind === 'env'
      ? (ctx.config.secretEnv?.(place.name) ?? '') !== ''
      : place.kind === 'file'
        ? await isReadable(place.path)
        : await secretIsThere(ctx.db, project, place.name, ctx.runtime.now());
  if (isThere) return undefined;
  const [where, hint] = {
    env: ['the variable', 'set it for svcd, or name another place under providers.model'],
    file: ['the file that', 'write it, readable for svcd alone'],
    secret: ['the secret', `svc secret set ${'name' in place ? place.name : ''}`],
  }[place.kind] as [string, string];
  // Sessions tell it to everybody who sees them, and where files of the machine lie is its administrators' business.
  const name = place.kind === 'file' ? `providers.model.${provider}.keyFile names` : place.name;
  return { message: `there is no key of ${provider}: ${where} ${name} is not there`, hint };
}

const isReadable = (path: string): Promise<boolean> =>
  access(path, constants.R_OK).then(
    () => true,
    () => false,
  );
