// Values of secrets in what a session says, in whatever form a program writes them, and where a text of theirs is cut.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';

const root = join(import.meta.dirname, '../../..');
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
    const harnessBCommand = [process.execPath, join(root, 'testdata/raw-agent/agent.ts')];
    bench = await createHostBench({ config: { harnessBCommand } });
    assert.ok((await bench.daemon.api('PUT', 'P/secrets/key', { value })).status < 300);
    const env = { KEY: { $secret: 'key' } };
    await bench.apply({ a: { env }, raw: { env, harness: 'harness-b' } });
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

  it('holds no beginning of a secret where a text, a title or an input of a call was too long and was cut', async () => {
    const update = (more: object): string => {
      const params = { sessionId: '$S', update: { toolCallId: 'c', ...more } };
      return JSON.stringify({ jsonrpc: '2.0', method: 'session/update', params });
    };
    const content = [{ type: 'content', content: { type: 'text', text: `$X${value}` } }];
    const cut = (big: number, ...lines: string[]): string => JSON.stringify({ big, lines });
    const orders = [
      cut(65_536 - 12, update({ sessionUpdate: 'tool_call_update', status: 'completed', content })),
      cut(1_024 - 12, update({ sessionUpdate: 'tool_call', title: `$X${value}` })),
      cut(65_536 - 12, update({ sessionUpdate: 'tool_call', title: 'reads', rawInput: `$X${value}` })),
      cut(
        4_096 - 12,
        update({ sessionUpdate: 'plan', entries: [{ content: `$X${value}`, priority: 'low', status: 'pending' }] }),
      ),
    ];
    for (const order of orders) {
      const session = await bench.start('raw', order);
      const { messages } = await bench.until(session, idle);
      const told = JSON.stringify(messages.filter(({ role }) => role !== 'user'));
      assert.ok(told.includes('x'.repeat(1_000)) && !told.includes('heim'), told.replace(/x{20,}/g, 'x…x'));
    }
  });

  it('holds no value that the session gives to the tool that creates secrets', async () => {
    const given = 'given "by" the sessiön';
    const call = (n: number, title: string, rawInput: unknown): string => {
      const update = { sessionUpdate: 'tool_call', toolCallId: `c${n}`, title, rawInput };
      return JSON.stringify({ jsonrpc: '2.0', method: 'session/update', params: { sessionId: '$S', update } });
    };
    const passed = { name: 'k', value: `${given} 1` };
    const lines = [
      call(1, 'mcp__svc__svc_secrets_create', passed),
      call(2, 'tool call', { tool: 'svc_secrets_create', arguments: { ...passed, value: `${given} 2` } }),
      call(3, 'svc.svc_secrets_create', { arguments: JSON.stringify({ ...passed, value: `${given} 3` }) }),
      call(4, 'svc_secrets_create', { value: `${given} $X` }),
      call(5, 'reads', { value: 'shown' }),
    ];
    const session = await bench.start('raw', JSON.stringify({ big: 65_536, lines }));
    const { messages } = await bench.until(session, idle);
    const calls = messages.filter(({ kind }) => kind === 'tool_call');
    assert.equal(calls.length, 5);
    const told = JSON.stringify(calls);
    assert.ok(
      !/given|sessi/.test(told.replaceAll('tool_calls', '')) && told.includes('shown'),
      told.replace(/x{20,}/g, 'x…x'),
    );
    assert.ok(!told.includes('xxxxxxxxxx'));
  });
});
