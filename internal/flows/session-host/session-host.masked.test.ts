// Values of secrets in what a session says, in whatever form a program writes them.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';

const value = `gé/heim+"w0rt&'=~ {4}`;
const idle = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;

const strict = encodeURIComponent(value).replace(
  /[!'()*]/g,
  (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
);
const ascii = JSON.stringify(value).replace('é', '\\u00e9');
const base64 = (text: string): string => Buffer.from(text).toString('base64');
/** What programs make of the value, and a part of it that tells some of it. */
const forms: readonly (readonly [form: string, part: string])[] = [
  [value, 'heim'],
  [base64(value), base64(value).slice(0, 8)],
  [base64(`${value}\n`), base64(value).slice(0, 8)],
  [base64(`user:${value}`), base64(`user:${value}`).slice(8, 16)],
  [base64(`me:${value}@`), base64(`me:${value}@`).slice(8, 16)],
  [Buffer.from(`x:${value}`).toString('base64url'), Buffer.from(`x:${value}`).toString('base64url').slice(8, 16)],
  [`https://me:${encodeURIComponent(value)}@host/`, 'heim'],
  [`?key=${strict}&b=1`, 'heim'],
  [`/x?key=${strict.replaceAll('%2F', '/')}`, 'heim'],
  [new URLSearchParams({ key: value }).toString(), 'heim'],
  [JSON.stringify({ key: value }), 'heim'],
  [`{"key":${ascii}}`, 'heim'],
  [JSON.stringify({ said: JSON.stringify({ key: value }) }), 'heim'],
  [JSON.stringify({ said: `{"key":${ascii}}` }), 'heim'],
  [Buffer.from(value).toString('hex'), Buffer.from('heim').toString('hex')],
];

describe('what a session says', () => {
  let bench: HostBench;
  before(async () => {
    bench = await createHostBench();
    assert.ok((await bench.daemon.api('PUT', 'P/secrets/key', { value })).status < 300);
    const env = { KEY: { $secret: 'key' } };
    await bench.apply({ a: { env } });
  });
  after(() => bench.stop());

  it('holds no secret in another form of it either', async () => {
    const lines = forms.map(
      ([form], at) => `!exec printf 'form ${at}: '; printf %s '${base64(form)}' | base64 -d; echo`,
    );
    const session = await bench.start('a', lines.join('\n'));
    const { said } = await bench.until(session, idle);
    for (const [at, [, part]] of forms.entries()) {
      const line = /.*/.exec(said.slice(said.indexOf(`form ${at}: `)))?.[0] ?? '';
      assert.ok(line.includes('***') && !line.includes(part), line);
    }
  });
});
