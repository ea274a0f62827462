// An authorization server for tests, a real one, and a tool server that it protects: both discoveries, registration, PKCE,
// rotation of refresh tokens, revocation. `faults` makes its front fail at one place, each once; what was granted and
// refused is counted by the server itself.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Provider } from 'oidc-provider';

export type AuthorizationFault =
  | 'token-lost'
  | 'token-500'
  | 'no-pkce'
  | 'wrong-issuer'
  | 'no-registration'
  | 'revocation-lost';

const listen = async (server: Server): Promise<string> => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

export interface AuthorizationBench {
  readonly issuer: string;
  /** The protected tool server. */
  readonly resource: string;
  readonly faults: Set<AuthorizationFault>;
  /** Life of access tokens that are made from now on, in seconds. */
  tokenSeconds: number;
  /** Before a token answer leaves. */
  tokenMs: number;
  /** Tokens of the resource that are no good, whatever the server says. */
  readonly refused: Set<string>;
  readonly counts: {
    readonly exchanges: number;
    readonly refreshes: number;
    readonly failures: readonly string[];
    readonly revocations: number;
    readonly registrations: number;
  };
  /** Access tokens that the resource was shown. */
  readonly shown: readonly string[];
  /** Codes, verifiers and tokens that went to the token endpoint or came from there. */
  readonly secrets: ReadonlySet<string>;
  /** The person signs in and consents: the address that the browser is sent back to. */
  consent(authorizationUrl: string): Promise<URL>;
  stop(): Promise<void>;
}

interface Counts {
  exchanges: number;
  refreshes: number;
  failures: string[];
  revocations: number;
  registrations: number;
}

export async function startAuthorizationBench(): Promise<AuthorizationBench> {
  const counts: Counts = { exchanges: 0, refreshes: 0, failures: [], revocations: 0, registrations: 0 };
  const faults = new Set<AuthorizationFault>();
  const shown: string[] = [];
  const secrets = new Set<string>();
  const refused = new Set<string>();
  const state = { tokenSeconds: 3_600, tokenMs: 0 };
  let handle: (request: IncomingMessage, response: ServerResponse) => void = () => undefined;
  const front = createServer((request, response) => {
    void intercept({ request, response, faults, counts, state }, handle);
  });
  const issuer = await listen(front);
  const provider = new Provider(
    issuer,
    configuration(() => state.tokenSeconds),
  );
  handle = provider.callback();
  provider.on('grant.success', ({ oidc, body }) => {
    const { code, code_verifier, refresh_token } = oidc.params;
    const made = Object(body) as { readonly access_token?: unknown; readonly refresh_token?: unknown };
    for (const one of [code, code_verifier, refresh_token, made.access_token, made.refresh_token]) {
      if (typeof one === 'string') secrets.add(one);
    }
    if (oidc.params['grant_type'] === 'refresh_token') counts.refreshes += 1;
    else counts.exchanges += 1;
  });
  provider.on('grant.error', ({ oidc }) => void counts.failures.push(String(oidc.params['grant_type'])));
  const resource = createServer((request, response) => {
    void answer({ request, response, provider, issuer, shown, refused });
  });
  const origin = await listen(resource);
  return {
    ...{ issuer, resource: `${origin}/mcp`, faults, counts, shown, secrets, refused },
    get tokenSeconds() {
      return state.tokenSeconds;
    },
    set tokenSeconds(seconds) {
      state.tokenSeconds = seconds;
    },
    get tokenMs() {
      return state.tokenMs;
    },
    set tokenMs(ms) {
      state.tokenMs = ms;
    },
    consent,
    async stop() {
      for (const server of [front, resource]) {
        server.closeAllConnections();
        await new Promise((resolve) => server.close(resolve));
      }
    },
  };
}

const configuration = (seconds: () => number): object => ({
  scopes: ['openid', 'offline_access', 'read', 'write'],
  cookies: { keys: ['of-a-test'] },
  findAccount: (_: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_: unknown, indicator: string) => ({
        scope: 'read write',
        audience: indicator,
        accessTokenTTL: seconds(),
        accessTokenFormat: 'opaque',
      }),
    },
  },
});

interface Intercepted {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly faults: Set<AuthorizationFault>;
  readonly counts: Counts;
  readonly state: { readonly tokenMs: number };
}

async function intercept(
  at: Intercepted,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<void> {
  const { request, response, faults, counts, state } = at;
  const path = (request.url ?? '').split('?')[0] ?? '';
  if (path === '/reg') counts.registrations += 1;
  if (path === '/token/revocation') {
    counts.revocations += 1;
    if (faults.delete('revocation-lost')) return void request.socket.destroy();
  }
  if (path === '/token') {
    if (faults.delete('token-500')) return void response.writeHead(500).end('oops');
    if (state.tokenMs > 0) await sleep(state.tokenMs);
    // The work is done, and its answer never arrives.
    if (faults.delete('token-lost')) response.end = () => request.socket.destroy() as unknown as ServerResponse;
  }
  const bent = (['no-pkce', 'wrong-issuer', 'no-registration'] as const).filter((one) => faults.has(one));
  if (!path.startsWith('/.well-known/') || bent.length === 0 || request.headers['x-plain'] !== undefined) {
    return handle(request, response);
  }
  const plain = await fetch(`http://${request.headers.host}${path}`, { headers: { 'x-plain': '1' } });
  if (!plain.ok) return void response.writeHead(plain.status).end();
  const metadata = (await plain.json()) as { [name: string]: unknown };
  if (bent.includes('no-pkce')) delete metadata['code_challenge_methods_supported'];
  if (bent.includes('wrong-issuer')) metadata['issuer'] = 'http://127.0.0.1:1';
  if (bent.includes('no-registration')) delete metadata['registration_endpoint'];
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
}

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly provider: Provider;
  readonly issuer: string;
  readonly shown: string[];
  readonly refused: ReadonlySet<string>;
}

/** The tool server: `read` needs the scope read, `write` the scope write. */
async function answer({ request, response, provider, issuer, shown, refused }: Asked): Promise<void> {
  const origin = `http://${request.headers.host}`;
  const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
  const json = (status: number, body: unknown, headers: { [name: string]: string } = {}): void =>
    void response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  if (request.url === '/.well-known/oauth-protected-resource/mcp') {
    const resource = `${origin}/mcp`;
    return json(200, { resource, authorization_servers: [issuer], scopes_supported: ['read'] });
  }
  if (request.url !== '/mcp') return json(404, {});
  // It has nothing to say by itself.
  if (request.method !== 'POST') return json(405, {});
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
  if (token !== undefined) shown.push(token);
  const found = token === undefined || refused.has(token) ? undefined : await provider.AccessToken.find(token);
  if (found === undefined || found.isExpired || found.aud !== `${origin}/mcp`) {
    return json(401, {}, { 'www-authenticate': `Bearer resource_metadata="${metadata}"` });
  }
  const { id, method, params } = JSON.parse(Buffer.concat(chunks).toString()) as {
    readonly id?: number;
    readonly method: string;
    readonly params?: { readonly name?: string };
  };
  if (id === undefined) return void response.writeHead(202).end();
  const needed = method === 'tools/call' ? (params?.name ?? 'read') : 'read';
  if (!(found.scope ?? '').split(' ').includes(needed)) {
    return json(403, {}, { 'www-authenticate': `Bearer error="insufficient_scope", scope="${needed}"` });
  }
  const results: { readonly [method: string]: object } = {
    initialize: {
      protocolVersion: '2025-06-18',
      capabilities: { tools: {} },
      serverInfo: { name: 'protected', version: '1' },
    },
    'tools/list': { tools: ['read', 'write'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
    'tools/call': { content: [{ type: 'text', text: `did ${params?.name} with ${found.scope}` }] },
  };
  json(200, { jsonrpc: '2.0', id, result: results[method] ?? {} });
}

/** Follows the pages of the server as a browser does, with its cookies, until it is sent elsewhere. */
async function consent(authorizationUrl: string): Promise<URL> {
  const home = new URL(authorizationUrl);
  const back = new URL(home.searchParams.get('redirect_uri') ?? '');
  const cookies = new Map<string, string>();
  let url = home;
  let body: string | undefined;
  for (let step = 0; step < 20; step += 1) {
    const response = await fetch(url, {
      method: body === undefined ? 'GET' : 'POST',
      redirect: 'manual',
      headers: {
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(body !== undefined && { body }),
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    body = undefined;
    const location = response.headers.get('location');
    if (location !== null) {
      await response.arrayBuffer();
      url = new URL(location, url);
      if (url.origin === back.origin && url.pathname === back.pathname) return url;
      continue;
    }
    const text = await response.text();
    const form = /<form[^>]*action="([^"]+)"/.exec(text)?.[1];
    const prompt = /name="prompt" value="(login|consent)"/.exec(text)?.[1];
    if (form === undefined || prompt === undefined) throw new Error(`no form in ${response.status} of ${url.pathname}`);
    url = new URL(form.replaceAll('&amp;', '&'), url);
    body = prompt === 'login' ? 'prompt=login&login=alice&password=x' : 'prompt=consent';
  }
  throw new Error('the server never sends the browser back');
}
