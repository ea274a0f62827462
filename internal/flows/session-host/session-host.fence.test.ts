// A session in a fenced sandbox (docs/reference/sessions.md#harnesses): it works, and no credential is readable from inside. Precondition:
// namespaces can be made on this machine; where not, the daemon says why and does not pretend.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { ConfigError } from '../../base/config/config.ts';
import { createHostBench, type HostBench } from './host-testkit.ts';
import { type ModelStub, startModelStub } from './model-testkit.ts';

// Drawn, so that no source that the sandbox may read holds it.
const key = `key-${randomBytes(24).toString('hex')}`;

describe('a fenced session', () => {
  let bench: HostBench | undefined;
  let refused: unknown;
  let stub: ModelStub;
  before(async () => {
    stub = await startModelStub();
    const config = {
      sandbox: 'bubblewrap',
      allowPrivateNetwork: true,
      file: { sessions: { fenced: true }, providers: { model: { 'provider-a': { baseUrl: stub.url } } } },
      secretEnv: () => key,
    } as const;
    bench = await createHostBench({ config }).catch((error: unknown) => {
      refused = error;
      return undefined;
    });
    await bench?.apply({
      inside: {
        model: { provider: 'provider-a', id: 'claude-opus-4-8' },
        tools: { svc: { kind: 'local', implementation: 'svc' } },
      },
    });
  });
  after(async () => {
    await bench?.stop();
    await stub.stop();
  });
  /** What it says to this script; undefined where it cannot be fenced here, which was said. */
  const run = async (script: string): Promise<string | undefined> => {
    if (bench === undefined) {
      assert.ok(refused instanceof ConfigError, String(refused));
      assert.match(refused.message, /SVC_SANDBOX=bubblewrap cannot be used: /);
      return undefined;
    }
    const session = await bench.start('inside', `${script}\n!say .the-end.`);
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.endsWith('.the-end.'));
    const { body } = view;
    assert.equal(body['sandbox']?.['fenced'], true);
    assert.equal(body['sandbox']?.['isolation'], 'namespace');
    return view.said;
  };

  it('reaches its tools and its model through their sockets, and resumes', async () => {
    const said = await run('!call svc svc_session_get {}\n!model hello');
    if (said === undefined || bench === undefined) return;
    assert.match(said, /"agent":"inside"/);
    assert.match(said, /paid/);
    assert.equal(stub.asked.at(-1)?.headers['x-api-key'], key);
  });

  it('finds no credential in environments, files or processes, and no network', async () => {
    if (bench === undefined) return void (await run(''));
    const { dataDir, token, url } = bench.daemon;
    const master = (await readFile(join(dataDir, 'master.key'), 'utf8')).trim().split(':')[1] ?? '';
    const secrets = [key, token, master];
    assert.ok(secrets.every((one) => one.length > 20));
    // Halves, so that the script itself does not hold what it looks for.
    const pattern = secrets.map((one) => `${one.slice(0, 12)}["]*${one.slice(12, 20)}`).join('\\|');
    const reach = `fetch("${url}/healthz").then(()=>console.log("reached"),()=>console.log("unreached"))`;
    const said = await run(
      [
        `!exec cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" | grep -a -v "grep\\|/bin/sh\\|cat /proc" | grep -a -c '${pattern}'`,
        `!say -environments.`,
        `!exec printf %s%s ${key.slice(0, 12)} ${key.slice(12)} | grep -c '${pattern}'`,
        `!say -control.`,
        `!exec grep -a -r -l -s '${pattern}' $HOME /workspace /tmp /etc /run 2>/dev/null | grep -v jsonl`,
        `!say -files.`,
        `!exec ls -d ${dataDir} ${dataDir}/master.key /root/.ssh 2>/dev/null`,
        `!say -host.`,
        `!exec ${process.execPath} -e '${reach}'`,
        `!exec ls /proc | grep -c '^[0-9]'`,
      ].join('\n'),
    );
    assert.match(said ?? '', /^0\nexit 1-environments\./);
    assert.match(said ?? '', /environments\.1\nexit 0-control\.exit 1-files\./);
    assert.match(said ?? '', /files\.exit 2-host\./);
    assert.match(said ?? '', /unreached/);
    assert.ok(Number(/unreached\nexit 0(\d+)\n/.exec(said ?? '')?.[1]) < 12, said);
  });

  it('is started again in its place when all its processes are killed', async () => {
    if (bench === undefined) return void (await run(''));
    const session = await bench.start(
      'inside',
      '!exec test -e killed || { touch killed; kill -9 $PPID; }\n!say survived',
    );
    const view = await bench.until(session, ({ state, said }) => state === 'idle' && said.includes('survived'));
    assert.deepEqual(
      (await bench.turns(session)).map((turn) => turn.state),
      ['lost', 'done'],
    );
    assert.ok(view.texts.includes('The session goes on.'));
  });
});
