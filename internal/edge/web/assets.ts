// What pages load: the browser modules of client/, stripped of their types at the first request, their style, and the two
// packages that they import. All under the hash of their sources: an address never changes what it answers, and an answer
// is kept for ever. Nothing else of the disk has an address.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire, stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { IncomingMessage, ServerResponse } from 'node:http';

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
  send(visit: Asked): void;
}

const client = join(import.meta.dirname, 'client');
const require = createRequire(import.meta.url);
const types: { readonly [ending: string]: string } = {
  ts: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
};
const endingOf = (name: string): string => name.slice(name.lastIndexOf('.') + 1);

interface Made {
  readonly plain: Buffer;
  readonly gzip: Buffer;
}

/** Reads the sources; they are made ready one by one, when they are asked for. */
export function createAssets(): Assets {
  const sources = new Map<string, Buffer>();
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
  const made = new Map<string, Made>();
  const make = (name: string): Made | undefined => {
    const source = sources.get(name);
    const known = made.get(name);
    if (known !== undefined || source === undefined) return known;
    const plain = endingOf(name) === 'ts' ? Buffer.from(stripTypeScriptTypes(source.toString('utf8'))) : source;
    const one = { plain, gzip: gzipSync(plain, { level: 9 }) };
    made.set(name, one);
    return one;
  };
  return {
    hash,
    importMap,
    importMapHash: `sha256-${createHash('sha256').update(importMap).digest('base64')}`,
    shell: ['vendor/preact.mjs', 'vendor/hooks.mjs', 'vendor/htm.mjs', 'api.ts', 'kit.ts', 'live.ts', 'pages.ts'].map(
      url,
    ),
    url,
    send(visit) {
      const [, given, name = ''] = /^\/assets\/([^/]+)\/(.+)$/.exec(visit.url.pathname) ?? [];
      const found = given === hash ? make(name) : undefined;
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

function notFound({ response }: Asked): void {
  response.writeHead(404, { 'content-type': 'text/plain; charset=utf-8' });
  response.end('not found\n');
}
