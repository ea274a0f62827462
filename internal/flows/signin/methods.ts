// The configured providers of sign-in: which there are, their secrets, and the roles that their groups give.

import type { GroupRole } from '../../adapters/store/signin/identities.ts';
import { firstOrgId } from '../../adapters/store/secrets/keys.ts';
import { SigninRefused } from '../../adapters/providers/oauth/oauth.ts';
import { secretInFile } from '../../base/config/section.ts';
import { type SigninMethod, signinSettings } from '../../base/config/signin-settings.ts';
import type { FlowContext } from '../context.ts';
import { organizationSecretText } from '../sealed.ts';

export const methodNamed = (ctx: FlowContext, name: string): SigninMethod | undefined =>
  signinSettings(ctx.config).methods.find((one) => one.name === name);

/** The client's secret at a provider. Throws SigninRefused where there is none now. */
export async function clientSecretOf(ctx: FlowContext, method: SigninMethod): Promise<string> {
  const { secret } = method;
  const text = secret.kind === 'file' ? secretInFile(secret.path) : await storedSecret(ctx, secret.name);
  if (text === undefined || text === '') throw new SigninRefused('client-secret');
  return text;
}

async function storedSecret(ctx: FlowContext, name: string): Promise<string | undefined> {
  const orgId = await firstOrgId(ctx.db);
  return orgId === null ? undefined : organizationSecretText(ctx, orgId, name, { kind: 'tool', name: 'sign-in' });
}

/** What the configuration gives to groups. */
export const groupRoles = (ctx: FlowContext, groups: readonly string[]): GroupRole[] =>
  signinSettings(ctx.config).roles.flatMap(({ group, org, project, role }) =>
    groups.includes(group) ? [{ org, role, ...(project !== undefined && { project }) }] : [],
  );
