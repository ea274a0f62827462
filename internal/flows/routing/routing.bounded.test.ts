import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startTestDaemon, type TestDaemon } from '../../base/testkit/daemon.ts';
import { applyAgents, hook, post, sessionsOf, settled } from './routing-testkit.ts';

let daemon: TestDaemon;
before(async () => {
  daemon = await startTestDaemon();
});
after(() => daemon.stop());

const mebibyte = 1_048_576;
const z = 'z'.repeat(1_000_000);

test('a message that a template makes of a payload many times is cut at a mebibyte, and says what is cut', async () => {
  const paths = await applyAgents(daemon.api, {
    wide: { triggers: [hook('wide', { kind: 'spawn' }, { message: '{{a}}'.repeat(300) })] },
    tall: { triggers: [hook('tall', { kind: 'spawn' }, { message: `X\n${'{{a}}'.repeat(300)}` })] },
  });
  for (const name of ['wide', 'tall']) await post(daemon.url, paths[name] ?? '', { a: z });
  await settled(daemon.ctx.db);
  for (const [name, head, title] of [
    ['wide', '', `${'z'.repeat(79)}…`],
    ['tall', 'X\n', 'X'],
  ] as const) {
    const [session] = await sessionsOf(daemon.ctx.db, name);
    const text = session?.messages[0]?.text ?? '';
    const [line = ''] = /\n\[cut: \d+ more bytes\]$/.exec(text) ?? [];
    const shown = text.slice(0, text.length - line.length);
    assert.equal(text.length, mebibyte);
    assert.equal(shown, head + 'z'.repeat(shown.length - head.length));
    assert.equal(line, `\n[cut: ${300 * z.length + head.length - shown.length} more bytes]`);
    assert.equal(session?.title, title);
  }
});

test('what many triggers make of one event has a bound for all of them together', async () => {
  const triggers = Array.from({ length: 100 }, (_, at) =>
    hook('many', { kind: 'spawn' }, { message: `${at} {{a}}{{a}}` }),
  );
  const paths = await applyAgents(daemon.api, { many: { triggers } });
  await post(daemon.url, paths['many'] ?? '', { a: z });
  await settled(daemon.ctx.db);
  const sessions = await sessionsOf(daemon.ctx.db, 'many');
  assert.equal(sessions.length, 100);
  const texts = sessions.map(({ messages }) => messages[0]?.text ?? '');
  for (const text of texts) assert.match(text, /^\d+ z+\n\[cut: \d+ more bytes\]$/);
  assert.equal(texts.filter((text) => text.length === mebibyte).length, 64);
  assert.ok(texts.reduce((sum, text) => sum + text.length, 0) < 66 * mebibyte);
});

test('a message goes to many sessions without being put together for each', async () => {
  const paths = await applyAgents(daemon.api, {
    crowd: {
      triggers: [
        hook('crowd', { kind: 'spawn' }),
        hook('tell', { kind: 'deliver', routeBy: { kind: 'allLiveSessions' } }, { message: '{{a}}' }),
      ],
    },
  });
  for (let at = 0; at < 90; at += 1) await post(daemon.url, paths['crowd'] ?? '', { at });
  await settled(daemon.ctx.db);
  await post(daemon.url, paths['tell'] ?? '', { a: z });
  await settled(daemon.ctx.db);
  const told = (await sessionsOf(daemon.ctx.db, 'crowd')).map(({ messages }) => messages[1]?.text ?? '');
  assert.equal(told.length, 90);
  for (const text of told) assert.match(text, /^z{700000}z+\n\[cut: \d+ more bytes\]$/);
});

test('an initial prompt that repeats what it is given thousands of times is cut at a mebibyte', async () => {
  await applyAgents(daemon.api, { prompted: { initialPrompt: '{{a}}'.repeat(4_000) } });
  const input = { a: 'z'.repeat(50_000) };
  const { status, body } = await daemon.api('POST', 'P/agents/prompted/sessions', { input });
  assert.equal(status, 201, JSON.stringify(body));
  const [session] = await sessionsOf(daemon.ctx.db, 'prompted');
  const text = session?.messages[0]?.text ?? '';
  assert.equal(text.length, mebibyte);
  const [line = ''] = /\n\[cut: \d+ more bytes\]$/.exec(text) ?? [];
  assert.equal(line, `\n[cut: ${4_000 * input.a.length - (mebibyte - line.length)} more bytes]`);
  assert.equal(session?.title, `${'z'.repeat(79)}…`);
});

test('a bound that is set lower holds for messages of events and of people', async () => {
  const { file } = daemon.ctx.config;
  const lower = { ...file, sessions: { ...(file['sessions'] as object), messageMaxBytes: 300 } };
  Object.assign(daemon.ctx.config, { file: lower });
  const paths = await applyAgents(daemon.api, {
    low: { triggers: [hook('low', { kind: 'spawn' }, { message: '{{a}}' })] },
  });
  await post(daemon.url, paths['low'] ?? '', { a: z });
  await settled(daemon.ctx.db);
  const [session] = await sessionsOf(daemon.ctx.db, 'low');
  assert.match(session?.messages[0]?.text ?? '', /^z{270,}\n\[cut: \d+ more bytes\]$/);
  assert.equal(session?.messages[0]?.text.length, 300);
});
