// Signatures of requests held against the signer that the clients of the protocol's own vendor are built on.

import assert from 'node:assert/strict';
import { createHash, createHmac, randomBytes, randomInt } from 'node:crypto';
import { test } from 'node:test';
import { SignatureV4 } from '@smithy/signature-v4';
import { sha256 } from '../../base/hash.ts';
import { emptySha256, encoded, signed } from './s3-sign.ts';

const region = 'eu-1';
const at = new Date('2026-11-23T01:02:03.456Z');
const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' };

class Sha256 {
  readonly #hash;
  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash('sha256') : createHmac('sha256', Buffer.from(secret as Buffer));
  }
  update(data: Uint8Array): void {
    this.#hash.update(data);
  }
  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }
  reset(): void {
    throw new Error('never reset here');
  }
}

interface Case {
  readonly method: string;
  readonly endpoint?: string;
  /** As it is sent. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
  readonly sessionToken?: string;
}

async function theirs({ method, path, query = {}, headers = {}, body, ...more }: Case): Promise<string> {
  const { protocol, hostname, port, host } = new URL(more.endpoint ?? 'https://store.test');
  const { sessionToken } = more;
  const signer = new SignatureV4({
    service: 's3',
    region,
    credentials: { ...keys, ...(sessionToken !== undefined && { sessionToken }) },
    sha256: Sha256 as never,
    // As its clients for this store have it: the path is signed as it is sent.
    uriEscapePath: false,
  });
  const content = { 'x-amz-content-sha256': body === undefined ? emptySha256 : sha256(body) };
  const request = await signer.sign(
    {
      method,
      protocol,
      hostname,
      ...(port !== '' && { port: Number(port) }),
      path,
      query,
      headers: { host, ...headers, ...content },
      ...(body !== undefined && { body }),
    },
    { signingDate: at },
  );
  return String(request.headers['authorization']).replaceAll(', ', ',');
}

function ours({
  method,
  endpoint = 'https://store.test',
  path,
  query = {},
  headers,
  body,
  sessionToken,
}: Case): string {
  const url = new URL(endpoint + path);
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const request = { method, url, sha256: body === undefined ? emptySha256 : sha256(body), ...(headers && { headers }) };
  return String(
    signed(request, { ...keys, ...(sessionToken !== undefined && { sessionToken }) }, region, at)['authorization'],
  );
}

const cases: readonly Case[] = [
  { method: 'GET', path: '/bucket/key' },
  { method: 'DELETE', path: '/bucket/svc/setup%20%28a%29/0123' },
  { method: 'GET', path: `/bucket/${['ä', '~', "'()*!", '+', '&=', '日本'].map(encoded).join('/')}` },
  { method: 'GET', path: '/', endpoint: 'http://127.0.0.1:9000' },
  { method: 'GET', path: '/storage/v1/s3/bucket/k', endpoint: 'https://store.test:8443' },
  { method: 'GET', path: '/bucket', query: { 'list-type': '2', prefix: 'svc/setup (a)/' } },
  { method: 'GET', path: '/bucket', query: { 'list-type': '2', prefix: '', 'continuation-token': 'a+b/c==&d ~*' } },
  { method: 'GET', path: '/bucket', query: { b: '2', B: '1', a: 'é', 'a-b': '' } },
  {
    method: 'PUT',
    path: '/bucket/key',
    headers: { 'content-length': '3', 'content-type': 'application/octet-stream' },
    body: Buffer.from('abc'),
  },
  { method: 'PUT', path: '/bucket/empty', headers: { 'content-length': '0' } },
  { method: 'GET', path: '/bucket/key', sessionToken: 'a-token-of-a-role/+==' },
];

test('signatures are those of the vendor’s own signer', async () => {
  for (const one of cases) assert.equal(ours(one), await theirs(one), JSON.stringify(one));
});

test('and of keys, queries and bodies that are drawn', async () => {
  const text = (): string => randomBytes(randomInt(0, 24)).toString('utf8').replaceAll('�', 'ö');
  for (let round = 0; round < 300; round += 1) {
    const body = randomBytes(randomInt(0, 64));
    const one: Case = {
      method: 'PUT',
      path: `/bucket/k${encoded(text())}`,
      query: { 'x-id': text(), [encoded(text()) || 'q']: text() },
      headers: { 'content-length': String(body.length) },
      body,
    };
    assert.equal(ours(one), await theirs(one), JSON.stringify(one));
  }
});
