// The `providers.errtrack` section of the SVC_CONFIG file: where the error tracker is and which application the service
// is there. The secret is named, as a file or a secret of the organization. What is absent leaves no setup; what is
// there and cannot be used ends the start.

import { isAbsolute, resolve } from 'node:path';
import * as v from 'valibot';
import { resourceNamePattern } from '../../domain/spec.ts';
import { Address } from './address.ts';
import type { ConfigFile } from './file.ts';
import { providerSection, readSection } from './section.ts';

const Section = v.strictObject({
  baseUrl: v.optional(Address, 'https://sentry.io'),
  regions: v.optional(
    v.strictObject({
      us: v.optional(Address, 'https://us.sentry.io'),
      de: v.optional(Address, 'https://de.sentry.io'),
    }),
    {},
  ),
  mcpUrl: v.optional(Address, 'https://mcp.sentry.dev/mcp'),
  clientId: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(500))),
  clientSecretFile: v.optional(v.pipe(v.string(), v.minLength(1))),
  clientSecretRef: v.optional(v.pipe(v.string(), v.regex(resourceNamePattern))),
  appSlug: v.optional(v.pipe(v.string(), v.regex(/^[a-z0-9][a-z0-9-]{0,63}$/, 'the slug of the application'))),
});

export interface ErrtrackSection {
  readonly baseUrl: string;
  readonly regions: { readonly us: string; readonly de: string };
  readonly mcpUrl: string;
  readonly clientId: string;
  readonly appSlug: string;
  readonly secret:
    | { readonly kind: 'file'; readonly path: string }
    | { readonly kind: 'secret'; readonly name: string };
}

/** Undefined where the section is absent or lacks what a setup needs. Throws ConfigError naming what cannot be used. */
export function errtrackSection(file: ConfigFile, base: string): ErrtrackSection | undefined {
  const given = providerSection(file, 'errtrack');
  if (given === undefined) return undefined;
  const section = readSection(Section, given, 'providers.errtrack');
  const { clientId, appSlug, clientSecretFile, clientSecretRef, regions, ...addresses } = section;
  if (clientId === undefined || appSlug === undefined) return undefined;
  if ((clientSecretFile === undefined) === (clientSecretRef === undefined)) return undefined;
  const secret =
    clientSecretFile === undefined
      ? ({ kind: 'secret', name: clientSecretRef ?? '' } as const)
      : ({
          kind: 'file',
          path: isAbsolute(clientSecretFile) ? clientSecretFile : resolve(base, clientSecretFile),
        } as const);
  return { ...addresses, regions, clientId, appSlug, secret };
}
