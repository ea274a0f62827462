// A real OpenID provider over HTTP, whose one page says at once that the person is whoever the test names.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import Provider, { type Context } from 'oidc-provider';

export interface OidcPeer {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Who signs in next, with what the provider says of the person. */
  person: { readonly sub: string; readonly name: string; readonly groups: readonly string[] };
  /** People whom the provider knows no more. */
  readonly gone: Set<string>;
  /** Paths of all requests. */
  readonly requests: string[];
  /** Goes through the provider as a browser would; answers with where it is sent back to. */
  consent(location: string): Promise<string>;
  stop(): Promise<void>;
}

/** `redirectUris` are of the one client. */
export async function startOidcPeer(redirectUris: () => readonly string[]): Promise<OidcPeer> {
  const clientId = 'svc';
  const clientSecret = 'secret-of-the-client-at-the-provider';
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let provider: Provider | undefined;
  const peer: OidcPeer = {
    ...{ issuer, clientId, clientSecret, gone: new Set<string>(), requests: [] },
    person: { sub: 'ann', name: 'Ann', groups: [] },
    async consent(location) {
      const jar = new Map<string, string>();
      for (let at = location, steps = 0; steps < 10; steps += 1) {
        const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(at, { redirect: 'manual', headers: { cookie } });
        for (const line of response.headers.getSetCookie()) {
          const [name = '', value = ''] = (line.split(';')[0] ?? '').split('=');
          jar.set(name, value);
        }
        const next = response.headers.get('location');
        if (next === null) throw new Error(`the provider answered ${response.status}: ${await response.text()}`);
        at = new URL(next, at).href;
        if (!at.startsWith(issuer)) return at;
      }
      throw new Error('the provider sends in circles');
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  const make = (): Provider =>
    new Provider(issuer, {
      clients: [
        {
          client_id: clientId,
          client_secret: clientSecret,
          redirect_uris: [...redirectUris()],
          grant_types: ['authorization_code', 'refresh_token'],
        },
      ],
      issueRefreshToken: () => true,
      claims: { openid: ['sub'], profile: ['name', 'groups'] },
      scopes: ['openid', 'profile', 'email'],
      features: { devInteractions: { enabled: false } },
      cookies: { keys: ['a key of tests'] },
      interactions: { url: () => '/consent' },
      pkce: { required: () => true },
      findAccount: (_: unknown, sub: string) =>
        peer.gone.has(sub) ? undefined : { accountId: sub, claims: () => ({ ...peer.person, sub }) },
      async loadExistingGrant({ oidc }: Context) {
        const grant = new oidc.provider.Grant({ clientId: oidc.client.clientId, accountId: oidc.session.accountId });
        grant.addOIDCScope('openid profile email');
        await grant.save();
        return grant;
      },
    });
  server.on('request', (request, response) => {
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    peer.requests.push(path);
    provider ??= make();
    if (path === '/consent')
      void provider.interactionFinished(request, response, { login: { accountId: peer.person.sub, remember: false } });
    else provider.callback()(request, response);
  });
  return peer;
}
