// The application that the service is at the error tracker: where it is, and its secret, opened at the moment of use.
// Incomplete or unreadable, nothing of a setup, an intake or a refresh is done: each answers that it is unavailable.

import type { ErrtrackSettings } from '../adapters/providers/errtrack/errtrack.ts';
import { errtrackSection } from '../base/config/errtrack-settings.ts';
import { secretInFile } from '../base/config/section.ts';
import { Fault } from '../domain/fault.ts';
import type { FlowContext } from './context.ts';
import { organizationSecretText, secretText } from './sealed.ts';

export const setupUnavailable = (): Fault =>
  new Fault(
    'unavailable',
    'setup-unavailable',
    'The error tracker is not set up in this installation: providers.errtrack of the configuration is missing or incomplete.',
  );

/** Throws Fault `unavailable`. */
export function errtrackApplication(ctx: FlowContext): ErrtrackSettings {
  const section = errtrackSection(ctx.config.file, ctx.config.fileDir);
  if (section === undefined) throw setupUnavailable();
  const { secret: _, ...settings } = section;
  return { ...settings, allowPrivate: ctx.config.allowPrivateNetwork };
}

/**
 * The application's secret, of an organization: it proves deliveries for every project, so that none of them has its own in
 * the place of it. Where there is none, the project's counts. Throws Fault `unavailable`.
 */
export async function errtrackSecret(
  ctx: FlowContext,
  scope: { readonly orgId: string; readonly id: string },
): Promise<string> {
  const section = errtrackSection(ctx.config.file, ctx.config.fileDir);
  if (section === undefined) throw setupUnavailable();
  const { secret } = section;
  const reader = { kind: 'tool', name: 'errtrack' } as const;
  const text =
    secret.kind === 'file'
      ? secretInFile(secret.path)
      : ((await organizationSecretText(ctx, scope.orgId, secret.name, reader)) ??
        (await secretText(ctx, scope, secret.name, reader)));
  if (text === undefined || text === '') throw setupUnavailable();
  return text;
}
