// What a transcript has of calls of tools, as harnesses tell of them: some begin a call before they know what it is for, and tell
// that, or what it gave, piece by piece.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createHostBench, type HostBench, type SessionView } from './host-testkit.ts';

const root = join(import.meta.dirname, '../../..');
const idle = ({ state, body }: Pick<SessionView, 'state' | 'body'>): boolean =>
  state === 'idle' && Number(body['inbox']?.['pending']) + Number(body['inbox']?.['inFlight']) === 0;

const line = (update: object): string =>
  JSON.stringify({ jsonrpc: '2.0', method: 'session/update', params: { sessionId: '$S', update } });
const begun = (toolCallId: string, more: object): string => line({ sessionUpdate: 'tool_call', toolCallId, ...more });
const told = (toolCallId: string, more: object): string =>
  line({ sessionUpdate: 'tool_call_update', toolCallId, ...more });
const text = (words: string): object[] => [{ type: 'content', content: { type: 'text', text: words } }];

describe('calls of tools in a transcript', () => {
  let bench: HostBench;
  before(async () => {
    const harnessBCommand = [process.execPath, join(root, 'testdata/raw-agent/agent.ts')];
    bench = await createHostBench({ config: { harnessBCommand } });
    await bench.apply({ raw: { harness: 'harness-b' } });
  });
  after(() => bench.stop());

  /** Kind, text, and input or status of what stands there of calls. */
  const callsOf = async (lines: readonly string[], more: object = {}): Promise<(string | undefined)[][]> => {
    const session = await bench.start('raw', JSON.stringify({ lines, ...more }));
    const { messages } = await bench.until(session, idle);
    return messages
      .filter(({ role }) => role === 'tool')
      .map((one) => {
        const { input, status } = (one as { detail?: { input?: string; status?: string } }).detail ?? {};
        return [one.kind, one.text, input ?? status];
      });
  };

  it('one that is told what it is for while its input is being written stands there once, with that', async () => {
    const title = { title: 'Terminal', kind: 'execute' };
    assert.deepEqual(
      await callsOf([
        begun('a', { ...title, status: 'pending', rawInput: {} }),
        told('a', { title: 'npm', rawInput: { command: 'npm' } }),
        told('a', { title: 'npm test', rawInput: { command: 'npm test', timeout: 5 } }),
        told('a', { _meta: { progress: 1 } }),
        told('a', { status: 'completed', content: text('ok') }),
      ]),
      [
        ['tool_call', 'npm test', '{"command":"npm test","timeout":5}'],
        ['tool_result', 'ok', 'completed'],
      ],
    );
  });

  it('one that was there already is told again with what came later, before what it gave', async () => {
    assert.deepEqual(
      await callsOf([
        begun('a', { title: 'Terminal', status: 'in_progress', rawInput: {} }),
        begun('b', { title: 'ls', rawInput: { command: 'ls' } }),
        told('a', { title: 'make', rawInput: { command: 'make' } }),
        told('b', { status: 'completed', rawInput: { command: 'ls' }, rawOutput: 'b.txt' }),
        told('a', { status: 'failed', rawOutput: 'no rule' }),
      ]),
      [
        ['tool_call', 'Terminal', '{}'],
        ['tool_call', 'ls', '{"command":"ls"}'],
        ['tool_call', 'make', '{"command":"make"}'],
        ['tool_result', 'b.txt', 'completed'],
        ['tool_result', 'no rule', 'failed'],
      ],
    );
  });

  it('what one gave before it was over is what it gave, where its end says nothing of that', async () => {
    const patches = [
      { type: 'diff', path: 'a.ts', oldText: null, newText: 'a' },
      { type: 'diff', path: 'b.ts', oldText: null, newText: 'b' },
    ];
    assert.deepEqual(
      await callsOf([
        begun('a', { title: 'Editing files', kind: 'edit', status: 'in_progress', content: patches }),
        told('a', { status: 'completed' }),
        begun('b', { title: 'watch', status: 'in_progress' }),
        told('b', { content: text('one line') }),
        told('b', { content: text('one line\nand another') }),
        told('b', { status: 'completed' }),
      ]),
      [
        ['tool_call', 'Editing files', undefined],
        ['tool_result', '[diff a.ts]\n[diff b.ts]', 'completed'],
        ['tool_call', 'watch', undefined],
        ['tool_result', 'one line\nand another', 'completed'],
      ],
    );
  });

  it('what one gave piece by piece, as commands of harness-b do, is what it gave, and no secret shows where a piece ends', async () => {
    const shell = { name: 'exec_command', kind: 'execute', status: 'in_progress', title: 'make' };
    const piece = (data: string): object => ({ _meta: { terminal_output_delta: { data, terminal_id: 'a' } } });
    const exit = { _meta: { terminal_exit: { exit_code: 0, signal: null, terminal_id: 'a' } } };
    assert.deepEqual(
      await callsOf([
        begun('s', { title: 'mcp.svc.svc_secrets_create', rawInput: { name: 'k', value: 'hunter2 hunter2' } }),
        told('s', { status: 'completed', content: text('stored') }),
        begun('a', { ...shell, rawInput: { command: 'make' }, content: [{ type: 'terminal', terminalId: 'a' }] }),
        told('a', piece('one\n')),
        told('a', piece('two hunt')),
        told('a', piece('er2 hunter2\n')),
        told('a', { status: 'completed', ...exit }),
      ]),
      [
        ['tool_call', 'mcp.svc.svc_secrets_create', '{"name":"k","value":"***"}'],
        ['tool_result', 'stored', 'completed'],
        ['tool_call', 'make', '{"command":"make"}'],
        ['tool_result', 'one\ntwo ***\n', 'completed'],
      ],
    );
  });

  it('of what one gave in very many pieces as much stands there as of one piece', async () => {
    const delta = { _meta: { terminal_output_delta: { data: '$X', terminal_id: 'a' } } };
    const lines = [
      begun('a', { title: 'yes', status: 'in_progress' }),
      ...Array.from({ length: 9 }, () => told('a', delta)),
    ];
    const session = await bench.start(
      'raw',
      JSON.stringify({ lines: [...lines, told('a', { status: 'completed' })], big: 30_000, of: 'é' }),
    );
    const { messages } = await bench.until(session, idle);
    const result = messages.find(({ kind }) => kind === 'tool_result') as {
      text: string;
      detail?: { truncated?: boolean };
    };
    assert.equal(result.text, 'é'.repeat(32_768));
    assert.equal(result.detail?.truncated, true);
  });

  it('one that is over when it is told of, or told of before it is begun, stands there with what it was given', async () => {
    assert.deepEqual(
      await callsOf([
        begun('a', { title: 'search', status: 'completed', rawInput: { query: 'q' }, rawOutput: 'none' }),
        told('b', { title: 'read', rawInput: { path: 'p' } }),
        told('b', { status: 'completed', rawOutput: 'text' }),
        told('c', { status: 'failed', rawOutput: 'lost' }),
      ]),
      [
        ['tool_call', 'search', '{"query":"q"}'],
        ['tool_result', 'none', 'completed'],
        ['tool_call', 'read', '{"path":"p"}'],
        ['tool_result', 'text', 'completed'],
        ['tool_result', 'lost', 'failed'],
      ],
    );
  });

  it('one whose input goes on being written is there after a while all the same', async () => {
    assert.deepEqual(
      await callsOf(
        [
          begun('a', { title: 'Write', status: 'pending', rawInput: {} }),
          told('a', { title: 'Write a.ts', rawInput: { path: 'a.ts', content: 'x' } }),
        ],
        { pauseMs: 3_000 },
      ),
      [
        ['tool_call', 'Write', '{}'],
        ['tool_call', 'Write a.ts', '{"path":"a.ts","content":"x"}'],
      ],
    );
  });

  it('a value that is given to the tool that creates secrets is hidden also where it is told later', async () => {
    const calls = await callsOf([
      begun('a', { title: 'mcp__svc__svc_secrets_create', status: 'pending', rawInput: {} }),
      told('a', { rawInput: { name: 'k', value: 'hunter2 hunter2' } }),
      told('a', { status: 'completed', content: text('stored hunter2 hunter2') }),
    ]);
    assert.deepEqual(calls, [
      ['tool_call', 'mcp__svc__svc_secrets_create', '{"name":"k","value":"***"}'],
      ['tool_result', 'stored ***', 'completed'],
    ]);
  });
});
