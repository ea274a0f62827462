// What pages load: the browser modules of client/, stripped of their types at the first visit, their style, and the two
// packages that they import. All under the hash of their sources: an address never changes what it answers, and an answer
// is kept for ever. Nothing else of the disk has an address.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { startThread } from '../../base/thread.ts';
import type { Made, Source } from './assets-thread.ts';

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
}

export interface Assets {
  readonly hash: string;
  readonly importMap: string;
  /** As a source of the content security policy. */
  readonly importMapHash: string;
  /** Addresses of what the console's shell imports before it shows anything. */
  readonly shell: readonly string[];
  /** The address of a file of client/. */
  url(name: string): string;
  send(visit: Asked): Promise<void>;
}

const client = join(import.meta.dirname, 'client');
const require = createRequire(import.meta.url);
const types: { readonly [ending: string]: string } = {
  ts: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};
const endingOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1);

/** Made once a process. */
let making: { readonly hash: string; readonly made: Promise<ReadonlyMap<string, Made>> } | undefined;

/** Reads the sources, which are made ready behind it. */
export function createAssets(): Assets {
  const sources = new Map<string, Uint8Array>();
  for (const name of readdirSync(client).sort()) {
    if (/^[a-z-]+\.(ts|css)$/.test(name)) sources.set(name, readFileSync(join(client, name)));
  }
  sources.set('vendor/preact.mjs', readFileSync(require.resolve('preact')));
  sources.set('vendor/hooks.mjs', readFileSync(require.resolve('preact/hooks')));
  sources.set('vendor/htm.mjs', readFileSync(join(require.resolve('htm'), '../htm.mjs')));
  const digest = createHash('sha256');
  for (const [name, bytes] of sources) digest.update(`${name}\n${bytes.length}\n`).update(bytes);
  const hash = digest.digest('hex').slice(0, 32);
  const url = (name: string): string => `/assets/${hash}/${name}`;
  const importMap = JSON.stringify({
    imports: { preact: url('vendor/preact.mjs'), 'preact/hooks': url('vendor/hooks.mjs'), htm: url('vendor/htm.mjs') },
  });
  const made = (): Promise<ReadonlyMap<string, Made>> => {
    if (making?.hash !== hash) making = { hash, made: makeReady([...sources]) };
    return making.made;
  };
  // Whoever asks for one of them hears of it.
  made().catch(() => undefined);
  return {
    hash,
    importMap,
    importMapHash: `sha256-${createHash('sha256').update(importMap).digest('base64')}`,
    shell: ['vendor/preact.mjs', 'vendor/hooks.mjs', 'vendor/htm.mjs', 'api.ts', 'kit.ts', 'live.ts', 'pages.ts'].map(
      url,
    ),
    url,
    async send(visit) {
      const [, given, name = ''] = /^\/assets\/([^/]+)\/(.+)$/.exec(visit.url.pathname) ?? [];
      const found = given === hash && sources.has(name) ? (await made()).get(name) : undefined;
      if (found === undefined) return notFound(visit);
      const isGzip = /\bgzip\b/.test(String(visit.request.headers['accept-encoding'] ?? ''));
      const bytes = isGzip ? found.gzip : found.plain;
      visit.response.writeHead(200, {
        'content-type': types[endingOf(name)] ?? 'application/octet-stream',
        'content-length': String(bytes.length),
        'cache-control': 'public, max-age=31536000, immutable',
        vary: 'accept-encoding',
        ...(isGzip && { 'content-encoding': 'gzip' }),
      });
      visit.response.end(visit.request.method === 'HEAD' ? undefined : bytes);
    },
  };
}

/** In a thread that ends with it: what strips types takes 20 MB, and loading it stops everything else for a tenth of a second. */
function makeReady(sources: readonly Source[]): Promise<ReadonlyMap<string, Made>> {
  const { promise, resolve, reject } = Promise.withResolvers<ReadonlyMap<string, Made>>();
  const worker = startThread(new URL('./assets-thread.ts', import.meta.url), { env: {}, name: 'svc-assets' });
  worker.unref();
  worker.on('message', (made: readonly (readonly [string, Made])[]) => resolve(new Map(made)));
  worker.on('error', reject);
  worker.on('exit', (code) => reject(new Error(`the thread that makes what pages load exited with ${code}`)));
  worker.postMessage(sources);
  promise.catch(() => (making = undefined));
  return promise;
}

function notFound({ response }: Asked): void {
  response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
  response.end('not found\n');
}
